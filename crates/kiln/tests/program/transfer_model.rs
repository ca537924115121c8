//! Random trees into a pool and out of it, against a model: after `sync --delete` both sides are
//! the same, a dry run says what the run does, and nothing else changes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat};
use serde_json::Value;

use crate::rig::{Random, Rig, data, seed, sha256};

/// Time that the test takes, where the environment gives no seed and no number of them.
const TIME: Duration = Duration::from_secs(16);
const ROUNDS: usize = 3;

/// All that is to be kept of a tree: by path its kind, mode, time, bytes, owner and so on.
type State = BTreeMap<PathBuf, String>;

fn state(root: &Path) -> State {
    let (mut state, mut open) = (State::new(), vec![root.to_owned()]);
    let mut names: BTreeMap<u64, Vec<PathBuf>> = BTreeMap::new();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_owned();
            let meta = path.symlink_metadata().unwrap();
            let mut text = format!("{}:{} ", meta.uid(), meta.gid());
            if meta.is_symlink() {
                text += &format!("link to {:?}", path.read_link().unwrap());
            } else {
                let time = (meta.mtime(), meta.mtime_nsec());
                text += &format!("{:o} {time:?} {}", meta.mode(), attributes(&path));
                if meta.is_dir() {
                    open.push(path);
                } else if meta.is_file() {
                    names.entry(meta.ino()).or_default().push(name.clone());
                    text += &sha256(&fs::read(&path).unwrap());
                }
            }
            state.insert(name, text);
        }
    }
    for mut same in names.into_values().filter(|same| same.len() > 1) {
        same.sort();
        for name in &same {
            *state.get_mut(name).unwrap() += &format!(" = {:?}", same[0]);
        }
    }
    state
}

/// Extended attributes of users, where the file system has them.
fn attributes(path: &Path) -> String {
    let mut value = [0; 64];
    match rustix::fs::lgetxattr(path, "user.model", &mut value) {
        Ok(len) => format!("{:?} ", &value[..len]),
        Err(_) => String::new(),
    }
}

/// A tree that changes at random.
struct Tree<'r> {
    root: PathBuf,
    random: &'r mut Random,
    /// Every change gets a time of its own.
    clock: u64,
    /// It may have pipes, too, which are not copied.
    pipes: bool,
}

impl Tree<'_> {
    fn name(&mut self) -> OsString {
        const NAMES: [&[u8]; 20] = [
            b"a",
            b"b",
            b"c",
            b"d",
            b"a b",
            b"-rf",
            b"--delete",
            b"new\nline",
            b"tab\t\x01",
            b"caf\xe9",
            b"\xff\xfe",
            "\u{ef80}".as_bytes(),
            "\u{fc}ber".as_bytes(),
            b".hidden",
            b"x.part",
            b"back\\slash",
            b"'\"$*",
            b"pool:x",
            b"...",
            &[b'n'; 200],
        ];
        let at = self.random.below(NAMES.len() as u64 * 2) as usize;
        OsString::from_vec(NAMES.get(at).unwrap_or(&NAMES[at % 4]).to_vec())
    }

    /// All entries, folders among them with `true`.
    fn entries(&self) -> Vec<(PathBuf, bool)> {
        let (mut found, mut open) = (Vec::new(), vec![self.root.clone()]);
        while let Some(folder) = open.pop() {
            let mut paths: Vec<PathBuf> =
                fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
            paths.sort();
            for path in paths {
                let is_folder = path.symlink_metadata().unwrap().is_dir();
                if is_folder {
                    open.push(path.clone());
                }
                found.push((path, is_folder));
            }
        }
        found
    }

    fn any(&mut self, folders: bool) -> Option<PathBuf> {
        let mut all = self.entries();
        all.retain(|(_, is_folder)| *is_folder || !folders);
        if folders {
            all.push((self.root.clone(), true));
        }
        let at = self.random.below(all.len() as u64) as usize;
        all.get(at).map(|(path, _)| path.clone())
    }

    /// A name in some folder, of which nothing has it any more.
    fn free(&mut self) -> PathBuf {
        let folder = self.any(true).unwrap();
        let path = folder.join(self.name());
        remove(&path);
        path
    }

    fn set_time(&mut self, path: &Path) {
        if path.symlink_metadata().is_ok_and(|meta| meta.is_file() || meta.is_dir()) {
            self.clock += 1;
            let age = Duration::new(self.random.below(3_000_000_000), 0);
            let near = SystemTime::UNIX_EPOCH + Duration::new(1_500_000_000, 0);
            let time = near.checked_sub(age).unwrap() + Duration::new(0, self.clock as u32 * 7919);
            let file = File::open(path).unwrap();
            file.set_times(FileTimes::new().set_modified(time)).unwrap();
        }
    }

    fn change(&mut self) {
        match self.random.below(if self.pipes { 15 } else { 14 }) {
            0..=3 => {
                let path = self.free();
                let bytes = match self.random.below(12) {
                    0 => 0,
                    1 => 300_000 + self.random.below(300_000),
                    _ => 1 + self.random.below(5_000),
                };
                self.clock += 1;
                fs::write(&path, data(bytes as usize, self.clock)).unwrap();
                self.set_time(&path);
                let mode = [0o644, 0o600, 0o755, 0o444, 0o666][self.random.below(5) as usize];
                fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            }
            4 => {
                let path = self.free();
                let file = File::create(&path).unwrap();
                file.set_len(200_000 + self.random.below(100_000)).unwrap();
                file.write_all_at(b"in the middle", 100_000).unwrap();
                self.set_time(&path);
            }
            5 | 6 => fs::create_dir(self.free()).unwrap(),
            7 => {
                let targets: [&[u8]; 5] = [b"a", b"../a", b"/nowhere/\xff", b".", b"x/../y/"];
                let target = targets[self.random.below(5) as usize];
                symlink(OsStr::from_bytes(target), self.free()).unwrap();
            }
            8 => {
                let of = self.any(false).filter(|path| path.symlink_metadata().unwrap().is_file());
                let to = self.free();
                // The free name may have been its own.
                if let Some(of) = of.filter(|of| of.exists()) {
                    fs::hard_link(of, to).unwrap();
                }
            }
            9 => self.any(false).iter().for_each(|path| remove(path)),
            10 => {
                let from = self.any(false);
                let to = self.free();
                if let Some(from) = from.filter(|from| !to.starts_with(from)) {
                    let _ = fs::rename(from, to);
                }
            }
            11 => self.change_attributes(),
            12 => {
                let modes = [0o640, 0o755, 0o700, 0o711, 0o1777];
                let mode = modes[self.random.below(5) as usize];
                if let Some(path) = self.any(false).filter(|path| !path.is_symlink()) {
                    let mode = if path.is_dir() { mode | 0o700 } else { mode & 0o777 };
                    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
                }
            }
            13 => self.any(false).iter().for_each(|path| self.set_time(path)),
            _ => {
                let path = self.free();
                mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
            }
        }
    }

    /// Owners, where root may, and extended attributes.
    fn change_attributes(&mut self) {
        let Some(path) = self.any(false) else { return };
        if rustix::process::geteuid().is_root() && self.random.below(2) == 0 {
            let owner = 1000 + self.random.below(3) as u32;
            lchown(&path, Some(owner), Some(owner + 1)).unwrap();
        } else if !path.is_symlink() {
            let (value, flags) = (self.random.below(1000).to_le_bytes(), XattrFlags::empty());
            let _ = rustix::fs::lsetxattr(&path, "user.model", &value, flags);
        }
    }
}

fn remove(path: &Path) {
    match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

/// A rig with a pool, and the command that is under way.
struct Scene {
    rig: Rig,
    about: String,
}

impl Scene {
    fn report(&self, words: &[&str]) -> Value {
        let mut command = self.rig.command_of(words);
        command.arg("--json");
        let ended = Rig::end(command);
        let about = format!("{}: {words:?}", self.about);
        assert_eq!(ended.code, 0, "{about}: {}{}", ended.stdout, ended.stderr);
        assert!(!ended.stderr.contains("left out"), "{about}: {}", ended.stderr);
        serde_json::from_str(&ended.stdout).unwrap()
    }

    /// Syncs dry, for real, and once more; `held` gives all that a dry run must not change.
    fn sync(&self, from: &str, to: &str, held: impl Fn() -> Vec<(State, String)>) {
        let before = held();
        let many = ["--max-delete", "1000"];
        let words = ["sync", from, to, "--delete", many[0], many[1]];
        let dry = self.report(&[&words[..], &["--dry-run"]].concat());
        assert!(held() == before, "{}: a dry run changed something", self.about);
        let run = self.report(&words);
        for field in ["copied", "bytes", "removed", "skipped"] {
            assert_eq!(dry[field], run[field], "{}: {field} of {from}: {dry} {run}", self.about);
        }
        let steps = |report: &Value| -> Vec<String> {
            let steps = report["steps"].as_array().cloned().unwrap_or_default();
            let text = |step: &Value| step.as_str().unwrap().replacen("would ", "", 1);
            let mut steps: Vec<String> = steps.iter().map(text).collect();
            steps.sort();
            steps
        };
        assert_eq!(steps(&dry), steps(&run), "{}: {from} to {to}", self.about);
        let again = self.report(&words);
        assert_eq!(again["copied"], 0, "{}: {from} again: {again}", self.about);
        assert_eq!(steps(&again), [""; 0], "{}: {from} again", self.about);
    }

    fn same(&self, a: &Path, b: &Path, what: &str) {
        let (a, b) = (state(a), state(b));
        for name in a.keys().chain(b.keys()) {
            let about = &self.about;
            assert_eq!(a.get(name), b.get(name), "{about}: {name:?} {what} (left: source)");
        }
    }
}

fn try_seed(seed: u64) {
    let mut random = Random::new(seed);
    let rig = Rig::new();
    let nodes: Vec<String> = (0..4).map(|node| format!("--node n{node}")).collect();
    rig.kiln(&format!("pool create pool.toml -c rs:2+2 {} -q", nodes.join(" "))).ok();
    let prefix = ["p", "p/q r", ""][random.below(3) as usize];
    if !prefix.is_empty() {
        rig.data("keep", 5_000, seed);
        ["other/keep", "pp", "p.x"].iter().for_each(|name| {
            rig.kiln(&format!("put keep {name} -q")).ok();
        });
    }
    for folder in ["in", "out", "beside"] {
        fs::create_dir(rig.path(folder)).unwrap();
    }
    fs::write(rig.path("beside/theirs"), "precious").unwrap();
    let mut scene = Scene { rig, about: String::new() };
    let listed = |scene: &Scene| scene.rig.kiln("ls --json").ok().stdout;
    for round in 0..ROUNDS {
        scene.about = format!("KILN_SEED={seed}, round {round}");
        for (folder, changes) in [("in", 14), ("out", if round > 0 { 6 } else { 0 })] {
            let root = scene.rig.path(folder);
            let clock = (round as u64 * 2 + u64::from(folder == "in")) * 10_000;
            let pipes = folder == "out";
            let mut tree = Tree { root, random: &mut random, clock, pipes };
            (0..changes).for_each(|_| tree.change());
        }
        let (source, out) = (scene.rig.path("in"), scene.rig.path("out"));
        let own = [0o700, 0o755, 0o750][random.below(3) as usize];
        fs::set_permissions(&source, Permissions::from_mode(own)).unwrap();
        let to = format!("pool:{prefix}");
        let was = state(&source);
        scene.sync("in", &to, || vec![(State::new(), listed(&scene))]);
        assert!(state(&source) == was, "{}: the source changed", scene.about);
        let fresh = format!("fresh{round}");
        if !was.is_empty() {
            scene.report(&["cp", &to, &fresh]);
            scene.same(&source, &scene.rig.path(&fresh), "after cp");
            let mode = |path: &Path| path.metadata().unwrap().mode();
            let private = prefix.is_empty() || mode(&source) == mode(&scene.rig.path(&fresh));
            assert!(private, "{}: mode of the folder itself", scene.about);
            scene.sync(&to, "out", || vec![(state(&out), String::new())]);
            scene.same(&source, &out, "after sync out");
        }
        assert_eq!(fs::read(scene.rig.path("beside/theirs")).unwrap(), b"precious");
        if !prefix.is_empty() {
            let listed = listed(&scene);
            assert!(["\"other/keep\"", "\"pp\"", "\"p.x\""].iter().all(|n| listed.contains(n)));
        }
    }
}

#[test]
fn both_sides_are_the_same_after_a_sync() {
    let first = seed("transfer_model");
    let given = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = given("KILN_MODEL_SEEDS").or(given("KILN_SEED").map(|_| 1));
    let began = Instant::now();
    for at in 0..seeds.unwrap_or(u64::MAX) {
        if seeds.is_none() && began.elapsed() > TIME {
            break;
        }
        try_seed(first.wrapping_add(at));
    }
}
