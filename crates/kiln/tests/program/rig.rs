//! Furniture of the tests: a temporary place, the program, position-dependent data.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// The program as cargo built it for these tests, or the one that the environment names.
pub fn program() -> Command {
    let path = std::env::var_os("KILN_PROGRAM");
    Command::new(path.unwrap_or_else(|| env!("CARGO_BIN_EXE_kiln").into()))
}

/// Outcome of a run of the program.
pub struct Ended {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    fn new(output: Output) -> Ended {
        Ended {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Expects success.
    #[track_caller]
    pub fn ok(self) -> Ended {
        self.code(0)
    }

    /// Expects an exit code.
    #[track_caller]
    pub fn code(self, code: i32) -> Ended {
        assert_eq!(self.code, code, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    /// Expects failure in the house style: this exit code, nothing on stdout, and beside warnings
    /// exactly one line on stderr, with these words in it.
    #[track_caller]
    pub fn fails(self, code: i32, words: &[&str]) -> Ended {
        let ended = self.code(code);
        if !ended.stdout.is_empty() {
            assert_eq!(ended.json()["exit"], code, "a failure's report: {}", ended.stdout);
        }
        let lines: Vec<&str> =
            ended.stderr.lines().filter(|line| !line.starts_with("kiln: warning: ")).collect();
        assert_eq!(lines.len(), 1, "one line expected: {}", ended.stderr);
        assert!(lines[0].starts_with("kiln: "), "{}", ended.stderr);
        for word in words {
            assert!(lines[0].contains(word), "'{word}' expected in: {}", lines[0]);
        }
        ended
    }

    /// The JSON report.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.stdout))
    }
}

/// A temporary folder in which the program runs.
pub struct Rig {
    folder: TempDir,
}

impl Rig {
    pub fn new() -> Rig {
        Rig { folder: TempDir::new().unwrap() }
    }

    /// A path in the folder.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program, ready to run in the folder; words are split at blanks.
    pub fn command(&self, words: &str) -> Command {
        self.command_of(words.split_whitespace())
    }

    pub fn command_of(&self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = program();
        command.args(words).current_dir(self.folder.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the program.
    pub fn kiln(&self, words: &str) -> Ended {
        Ended::new(self.command(words).output().unwrap())
    }

    /// Runs a command to its end.
    pub fn end(mut command: Command) -> Ended {
        Ended::new(command.output().unwrap())
    }

    /// Starts the program.
    pub fn start(&self, words: &str) -> Child {
        self.command(words).spawn().unwrap()
    }

    /// A file of position-dependent bytes; returns them.
    pub fn data(&self, name: &str, bytes: usize, seed: u64) -> Vec<u8> {
        let data = data(bytes, seed);
        fs::write(self.path(name), &data).unwrap();
        data
    }

    pub fn read(&self, name: impl AsRef<Path>) -> Vec<u8> {
        let path = self.path(name);
        fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    pub fn remove(&self, name: impl AsRef<Path>) {
        let path = self.path(name);
        match path.is_dir() {
            true => fs::remove_dir_all(path).unwrap(),
            false => fs::remove_file(path).unwrap(),
        }
    }

    /// Every file below a folder with its bytes: to see that nothing was touched.
    pub fn snapshot(&self, name: &str) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        let mut folders = vec![self.path(name)];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = fs::read_dir(folder) else { continue };
            for entry in entries {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => files.push((path.clone(), fs::read(path).unwrap())),
                }
            }
        }
        files.sort();
        files
    }

    /// File names in a folder, sorted.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Encodes `data` as the object "object" in the folder "shards".
    #[track_caller]
    pub fn encoded(&self, spec: &str, flags: &str, bytes: usize) -> Vec<u8> {
        let data = self.data("object", bytes, bytes as u64);
        self.kiln(&format!("encode object -c {spec} -o shards -q {flags}")).ok();
        data
    }

    /// Expects that a decode of "shards" gives these bytes.
    #[track_caller]
    pub fn decodes_to(&self, data: &[u8]) {
        self.kiln("decode shards -o back --force -q").ok();
        assert!(self.read("back") == data, "the decoded bytes differ");
    }
}

/// The shard file of an index in the folder "shards".
pub fn shard(index: usize) -> String {
    format!("shards/object.{index:02}.kiln")
}

/// Position-dependent bytes: a shifted, swapped or repeated block never looks right.
pub fn data(bytes: usize, seed: u64) -> Vec<u8> {
    let mut data = vec![0; bytes];
    fill(0, seed, &mut data);
    data
}

/// The bytes of the same sequence from `offset` (a multiple of 8) on.
pub fn fill(offset: u64, seed: u64, buf: &mut [u8]) {
    for (word, piece) in buf.chunks_mut(8).enumerate() {
        let bytes = mix(offset / 8 + word as u64, seed).to_le_bytes();
        piece.copy_from_slice(&bytes[..piece.len()]);
    }
}

/// SplitMix64's output function of a counter.
fn mix(counter: u64, seed: u64) -> u64 {
    let mut z = (counter ^ seed.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A small generator for choices of a test.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0, 0x6b69_6c6e) % limit.max(1)
    }
}

/// The seed of a random test: KILN_SEED, else the clock; printed where test output is not captured.
pub fn seed(test: &str) -> u64 {
    let given = std::env::var("KILN_SEED").ok().and_then(|text| text.parse().ok());
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
    let seed = given.unwrap_or_else(clock);
    say(&format!("{test}: KILN_SEED={seed}"));
    seed
}

/// Prints past the capture of the test harness: skips and seeds must not go unseen.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Flips one bit of a file.
pub fn flip(path: &Path, at: u64, bit: u8) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at as usize] ^= 1 << bit;
    fs::write(path, bytes).unwrap();
}
