//! Copies between folders and pools, where links, kinds, modes, races and losses are in the way.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::rig::{Rig, data};

fn pool(nodes: usize, code: &str) -> Rig {
    let rig = Rig::new();
    let mut words = format!("pool create pool.toml -c {code} -q");
    for node in 0..nodes {
        fs::create_dir(rig.path(format!("n{node}"))).unwrap();
        words += &format!(" --node n{node}");
    }
    rig.kiln(&words).ok();
    rig
}

fn write(rig: &Rig, name: &str, text: &str) {
    let path = rig.path(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Everything below a folder: its name, kind and mode or target, and bytes.
fn tree(root: &Path) -> Vec<(String, String, Vec<u8>)> {
    let (mut found, mut open) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let meta = path.symlink_metadata().unwrap();
            if meta.is_symlink() {
                found.push((name, path.read_link().unwrap().display().to_string(), Vec::new()));
            } else if meta.is_dir() {
                found.push((name, format!("folder {:o}", mode(&path)), Vec::new()));
                open.push(path);
            } else {
                found.push((name, format!("{:o}", mode(&path)), fs::read(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn kinds_that_change_converge_both_ways() {
    let rig = pool(5, "rs:3+2");
    let make = |kind: &str| {
        let _ = fs::remove_dir_all(rig.path("in"));
        write(&rig, "in/keep", "kept");
        match kind {
            "file" => write(&rig, "in/x", "a file"),
            "folder" => write(&rig, "in/x/inside/deep", "in a folder"),
            "link" => symlink("keep", rig.path("in/x")).unwrap(),
            "empty" => fs::create_dir(rig.path("in/x")).unwrap(),
            _ => {}
        }
    };
    const KINDS: [&str; 5] = ["file", "folder", "link", "empty", "nothing"];
    for (before, after) in KINDS.iter().flat_map(|a| KINDS.map(|b| (*a, b))) {
        let place = format!("p-{before}-{after}");
        for (round, kind) in [before, after].into_iter().enumerate() {
            make(kind);
            rig.kiln(&format!("sync in pool:{place} --delete -q")).ok();
            rig.kiln(&format!("sync pool:{place} out-{place} --delete -q")).ok();
            let (there, fresh) = (format!("out-{place}"), format!("fresh-{place}-{round}"));
            rig.kiln(&format!("cp pool:{place} {fresh} -q")).ok();
            let wanted = tree(&rig.path("in"));
            assert_eq!(tree(&rig.path(there)), wanted, "{before} to {after}, out");
            assert_eq!(tree(&rig.path(fresh)), wanted, "{before} to {after}, afresh");
        }
    }
    // Without --delete a folder with files is no place for a file, and nothing else suffers.
    make("folder");
    rig.kiln("sync in pool:q -q").ok();
    make("file");
    write(&rig, "in/new", "new");
    let ended = rig.kiln("sync in pool:q").code(4);
    assert!(ended.stderr.contains("--delete removes it"), "{}", ended.stderr);
    assert!(rig.kiln("ls q/").ok().stdout.contains("q/new"));
}

#[test]
fn nothing_outside_of_the_target_is_written() {
    let rig = pool(5, "rs:3+2");
    for (name, text) in [("x", "new"), ("sub/y", "new"), ("link/z", "new"), ("dir/w", "new")] {
        write(&rig, &format!("in/{name}"), text);
    }
    set_mode(&rig.path("in/dir"), 0o777);
    rig.kiln("sync in pool:p -q").ok();
    for name in ["x", "other/y", "other/z", "other/w"] {
        write(&rig, &format!("theirs/{name}"), "precious");
    }
    set_mode(&rig.path("theirs/other"), 0o700);
    let theirs = tree(&rig.path("theirs"));
    for (command, code) in
        [("sync pool:p out -q", 0), ("cp pool:p out -q", 4), ("cp pool:p out --force -q", 4)]
    {
        let _ = fs::remove_dir_all(rig.path("out"));
        fs::create_dir(rig.path("out")).unwrap();
        symlink(rig.path("theirs/x"), rig.path("out/x")).unwrap();
        for name in ["sub", "link", "dir"] {
            symlink(rig.path("theirs/other"), rig.path("out").join(name)).unwrap();
        }
        rig.kiln(command).code(code);
        assert_eq!(tree(&rig.path("theirs")), theirs, "{command}");
        if code == 0 {
            assert_eq!(tree(&rig.path("out")), tree(&rig.path("in")));
        }
    }
    // A link that the pool itself has, and names below it, in one run and in the next.
    let _ = fs::remove_dir_all(rig.path("in"));
    fs::create_dir(rig.path("in")).unwrap();
    symlink(rig.path("theirs"), rig.path("in/home")).unwrap();
    rig.kiln("cp in pool:evil -q").ok();
    write(&rig, "below/other/planted", "planted");
    set_mode(&rig.path("below/other"), 0o777);
    rig.kiln("cp below pool:evil/home -q").ok();
    for _ in 0..2 {
        let _ = rig.kiln("cp pool:evil out2 --force");
        assert_eq!(tree(&rig.path("theirs")), theirs);
    }
}

#[test]
fn a_partial_view_removes_nothing() {
    // Nodes that are away.
    let rig = pool(8, "rs:2+1");
    for file in 0..40 {
        write(&rig, &format!("in/f{file}"), &file.to_string());
    }
    rig.kiln("sync in pool:p -q").ok();
    rig.kiln("sync pool:p out -q").ok();
    rig.remove("pool.index.redb");
    for node in 0..3 {
        fs::rename(rig.path(format!("n{node}")), rig.path(format!("away{node}"))).unwrap();
    }
    let ended = rig.kiln("sync pool:p out --delete");
    assert_ne!(ended.code, 0);
    assert!(ended.stderr.contains("incomplete"), "{}", ended.stderr);
    assert_eq!(rig.names("out").len(), 40);
    for node in 0..3 {
        fs::rename(rig.path(format!("away{node}")), rig.path(format!("n{node}"))).unwrap();
    }
    // An emptied source, as a mount point without its disk; lost+found is no file.
    fs::rename(rig.path("in"), rig.path("full")).unwrap();
    fs::create_dir_all(rig.path("in/lost+found")).unwrap();
    rig.kiln("sync in pool:p --delete").fails(5, &["empty", "40", "--max-delete"]);
    rig.kiln("sync in pool:p -q").ok();
    rig.remove("full/f1");
    rig.remove("full/f2");
    rig.kiln("sync full pool:p --delete --max-delete 1").fails(5, &["2 removals"]);
    assert_eq!(rig.kiln("ls p/").ok().stdout.lines().count(), 40);
    rig.kiln("sync full pool:p --delete --max-delete 2 -q").ok();
    // A source that is named by a link is what the link names.
    symlink("full", rig.path("link")).unwrap();
    rig.kiln("sync link pool:p --delete -q").ok();
    assert_eq!(rig.kiln("ls p/").ok().stdout.lines().count(), 38);
    rig.kiln("sync in pool:p --delete --max-delete 38 -q").ok();
    assert_eq!(rig.kiln("ls p/").ok().stdout, "");
}

#[test]
fn attributes_that_are_lost_are_no_loss_of_files() {
    let rig = pool(5, "rs:3+2");
    for file in 0..700 {
        write(&rig, &format!("in/some-longer-name-of-a-file-{file}"), &file.to_string());
    }
    rig.kiln("cp in pool:p -q").ok();
    let run = rig.kiln("stat p/.kiln-attributes --json").ok().json()["run"].clone();
    let run = run.as_str().unwrap();
    for node in 0..3 {
        for name in rig.names(&format!("n{node}")).iter().filter(|name| name.contains(run)) {
            rig.remove(format!("n{node}/{name}"));
        }
    }
    for (command, out) in [("cp pool:p out", "out"), ("sync pool:p out2 --delete", "out2")] {
        let ended = rig.kiln(command).code(4);
        assert!(ended.stderr.contains("attributes of p/"), "{}", ended.stderr);
        assert_eq!(rig.names(out).len(), 700);
    }
}

#[test]
fn modes_alone_are_recorded_and_private_files_stay_so() {
    let rig = pool(5, "rs:3+2");
    write(&rig, "in/secret", "tiny-secret");
    fs::write(rig.path("in/large"), data(100_000, 1)).unwrap();
    write(&rig, "in/prog", "x");
    rig.kiln("sync in pool:p -q").ok();
    rig.kiln("sync pool:p out -q").ok();
    set_mode(&rig.path("in/secret"), 0o600);
    set_mode(&rig.path("in/prog"), 0o755);
    let report = rig.kiln("sync in pool:p --json").ok().json();
    assert_eq!(report["copied"], 0, "{report}");
    let report = rig.kiln("sync pool:p out --json").ok().json();
    assert_eq!(report["copied"], 0, "{report}");
    rig.kiln("cp pool:p fresh -q").ok();
    for out in ["out", "fresh"] {
        assert_eq!(tree(&rig.path(out)), tree(&rig.path("in")));
    }
    for node in 0..5 {
        for name in rig.names(&format!("n{node}")) {
            assert_eq!(mode(&rig.path(format!("n{node}/{name}"))) & 0o077, 0, "{name}");
        }
    }
    // Outputs take over the mode of what they replace.
    rig.data("got", 10, 1);
    set_mode(&rig.path("got"), 0o640);
    rig.kiln("get p/prog -o got --force -q").ok();
    assert_eq!(mode(&rig.path("got")), 0o640);
}

#[test]
fn one_entry_ends_nothing_else() {
    let rig = pool(4, "rs:2+1");
    rig.data("x", 10, 1);
    for file in 0..5 {
        rig.kiln(&format!("put x good{file} -q")).ok();
    }
    rig.kiln(&format!("put x {}e -q", "d/".repeat(509))).ok();
    for (command, out) in [("cp pool: out", "out"), ("sync pool: out2", "out2")] {
        assert_ne!(rig.kiln(command).code, 3);
        assert!((0..5).all(|file| rig.path(format!("{out}/good{file}")).exists()));
    }
    // A name as long as file systems have them.
    let long = "n".repeat(255);
    write(&rig, &format!("in/{long}"), "long");
    rig.kiln("cp in pool:p -q").ok();
    rig.kiln("cp pool:p back -q").ok();
    assert!(rig.read(format!("back/{long}")) == b"long");
}

#[test]
fn parts_and_the_pool_itself_are_no_files() {
    let rig = pool(5, "rs:3+2");
    write(&rig, "in/a", "a");
    write(&rig, "in/.a.kiln-part", "half");
    let ended = rig.kiln("sync in pool:p").ok();
    assert!(ended.stderr.contains("unfinished"), "{}", ended.stderr);
    assert_eq!(rig.kiln("ls p/").ok().stdout, "p/a\n");
    let ended = rig.kiln("sync . pool:all").ok();
    assert!(ended.stderr.contains("part of the pool itself"), "{}", ended.stderr);
    let names = rig.kiln("ls all/").ok().stdout;
    assert!(names.contains("all/in/a") && !names.contains("all/n0"), "{names}");
    assert!(!names.contains("pool."), "{names}");
    // A file that is named itself is meant; a pipe is none.
    rig.kiln("cp pool.toml pool:kept -q").ok();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        rig.path("in/pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    rig.kiln("cp in/pipe pool:p/pipe").fails(4, &["in/pipe", "kiln put"]);
    assert_eq!(rig.kiln("ls p/").ok().stdout, "p/a\n");
}

#[test]
fn mv_takes_modes_times_links_and_folders_along() {
    let rig = pool(4, "rs:2+1");
    write(&rig, "in/f", "x");
    write(&rig, "in/d/g", "y");
    fs::create_dir(rig.path("in/empty")).unwrap();
    symlink("../f", rig.path("in/d/l")).unwrap();
    set_mode(&rig.path("in/f"), 0o600);
    set_mode(&rig.path("in/d"), 0o711);
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let times = FileTimes::new().set_modified(time);
    File::open(rig.path("in/f")).unwrap().set_times(times).unwrap();
    for _ in 0..3 {
        rig.kiln("cp in pool:a --force -q").ok();
    }
    rig.kiln("mv -r a b/c -q").ok();
    rig.kiln("cp pool:b/c out -q").ok();
    assert_eq!(tree(&rig.path("out")), tree(&rig.path("in")));
    assert_eq!(rig.path("out/f").metadata().unwrap().mtime(), 1_000_000_000);
    rig.kiln("cp pool: whole -q").ok();
    assert_eq!(rig.names("whole"), ["b"], "the old folder is gone");
    rig.kiln("mv b/c/f e/f2 -q").ok();
    rig.kiln("cp pool:e single -q").ok();
    let moved = rig.path("single/f2");
    assert_eq!((mode(&moved), moved.metadata().unwrap().mtime()), (0o600, 1_000_000_000));
}

#[test]
fn names_that_are_kilns_own_are_refused() {
    let rig = pool(5, "rs:2+1");
    rig.data("x", 10, 1);
    rig.kiln("volume create disk 16MiB -q").ok();
    write(&rig, "in/.volumes/names/disk", "junk");
    for command in [
        "put x .volumes/names/disk --force",
        "put x a/.kiln-attributes",
        "rm .volumes/names/disk",
        "rm -r .volumes",
        "mv .volumes/names/disk x",
        "mv -r .volumes y",
        "mv x .volumes/x",
        "sync in pool:.volumes --delete",
    ] {
        rig.kiln(command).fails(5, &["kiln's own"]);
    }
    rig.kiln("cp in pool: --force").code(4);
    rig.kiln("volume stat disk -q").ok();
}

#[test]
fn odd_inputs_are_whole_or_refused() {
    let rig = pool(4, "rs:2+1");
    let version = fs::read("/proc/version").unwrap();
    rig.kiln("put /proc/version v -q").ok();
    rig.kiln("get v -o got -q").ok();
    assert!(rig.read("got") == version);
    rig.kiln("encode /proc/version -c rs:2+1 -o shards -q").ok();
    rig.kiln("decode shards -o got2 -q").ok();
    assert!(rig.read("got2") == version);
    let size = version.len();
    rig.kiln(&format!("get v --range {}+1 -o g", size + 1)).fails(3, &["--range"]);
    assert!(!rig.path("g").exists());
    // Names are on one line.
    rig.data("x", 10, 1);
    let odd = "e\u{1b}[31m\nwould remove everything";
    for words in [&["put", "x", odd][..], &["stat", odd]] {
        let ended = Rig::end(rig.command_of(words)).ok();
        assert!(!ended.stdout.contains('\u{1b}') && !ended.stdout.contains("\nwould"));
    }
}

#[test]
fn links_and_deep_folders_are_encoded_as_they_are() {
    let rig = Rig::new();
    write(&rig, "in/sub/f", "f");
    for (name, target) in [("a", "sub/"), ("b", "sub//f"), ("c", "./sub/./f"), ("d", "/tmp/")] {
        symlink(target, rig.path("in").join(name)).unwrap();
    }
    let deep = rig.path(format!("in/{}", "d/".repeat(700)));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("f"), "bottom").unwrap();
    rig.kiln("encode in -c rs:2+1 -o shards -q").ok();
    rig.kiln("decode shards --unpack -o out -q").ok();
    assert_eq!(tree(&rig.path("out")), tree(&rig.path("in")));
}

#[test]
fn what_a_sync_replaces_or_removes_is_kept_where_that_is_asked_for() {
    let rig = pool(4, "rs:2+1");
    for (name, text) in [("same", "same"), ("changed", "old"), ("d/gone", "gone")] {
        write(&rig, &format!("in/{name}"), text);
    }
    set_mode(&rig.path("in/changed"), 0o640);
    rig.kiln("sync in pool:p -q").ok();
    rig.kiln("sync pool:p out -q").ok();
    write(&rig, "in/changed", "newer");
    fs::remove_file(rig.path("in/d/gone")).unwrap();
    for folder in ["old", "pool:", "pool:p", "pool:p/old"] {
        let words = format!("sync in pool:p --delete --backup-dir {folder}");
        rig.kiln(&words).fails(3, &["--backup-dir"]);
    }
    rig.kiln("sync in pool:p --delete --backup-dir pool:old/monday -q").ok();
    assert_eq!(
        rig.kiln("ls").ok().stdout,
        "old/monday/changed\nold/monday/d/gone\np/changed\np/same\n"
    );
    rig.kiln("cp pool:old/monday back -q").ok();
    assert_eq!(rig.read("back/changed"), b"old");
    assert_eq!(mode(&rig.path("back/changed")), 0o640);
    assert_eq!(rig.read("back/d/gone"), b"gone");
    rig.kiln("sync pool:p out --delete --backup-dir out/old").fails(3, &["--backup-dir"]);
    rig.kiln("sync pool:p out --delete --backup-dir kept -q").ok();
    assert_eq!(rig.read("kept/changed"), b"old");
    assert_eq!(rig.read("kept/d/gone"), b"gone");
    assert!(!rig.path("kept/same").exists() && !rig.path("out/d/gone").exists());
    assert_eq!(tree(&rig.path("out")), tree(&rig.path("in")));
}
