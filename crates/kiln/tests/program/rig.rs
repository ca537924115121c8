//! Furniture of the tests: a temporary place, and the program.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// The program as cargo built it for these tests, or the one that the environment names.
pub fn program() -> Command {
    let path = std::env::var_os("KILN_PROGRAM");
    let mut command = Command::new(path.unwrap_or_else(|| env!("CARGO_BIN_EXE_kiln").into()));
    // The reads must not depend on how busy the machine is.
    command.env("KILN_HEDGE", "off");
    command
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
    fn command(&self, words: &str) -> Command {
        let mut command = program();
        command.args(words.split_whitespace()).current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the program.
    pub fn kiln(&self, words: &str) -> Ended {
        Ended::new(self.command(words).output().unwrap())
    }

    /// Starts the program; what it logs is not looked at.
    pub fn start(&self, words: &str) -> Child {
        self.command(words).stderr(Stdio::null()).spawn().unwrap()
    }

    pub fn read(&self, name: impl AsRef<Path>) -> Vec<u8> {
        let path = self.path(name);
        fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }
}

/// Prints past the capture of the test harness: skips and seeds must not go unseen.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
