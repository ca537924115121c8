//! Furniture of the tests: a temporary place, and the program.

use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::{fs, path::PathBuf};
use tempfile::TempDir;

/// The program as cargo built it for these tests, or the one that the environment names.
pub fn program() -> Command {
    let path = std::env::var_os("KILN_PROGRAM");
    let mut command = Command::new(path.unwrap_or_else(|| env!("CARGO_BIN_EXE_kiln").into()));
    // The reads must not depend on how busy the machine is.
    command.env("KILN_HEDGE", "off");
    command
}

/// A temporary folder in which the program runs.
pub struct Rig(TempDir);

impl Rig {
    pub fn new() -> Rig {
        Rig(TempDir::new().unwrap())
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The program, ready to run in the folder; words are split at blanks.
    fn command(&self, words: &str) -> Command {
        let mut command = program();
        command.args(words.split_whitespace()).current_dir(self.0.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the program, which must end with this code; returns what it printed.
    #[track_caller]
    pub fn exits(&self, code: i32, words: &str) -> String {
        let ended = self.command(words).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "stdout: {said}\nstderr: {errors}");
        said
    }

    /// As [`Rig::exits`], for its JSON report.
    #[track_caller]
    pub fn json(&self, code: i32, words: &str) -> Value {
        let said = self.exits(code, words);
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"))
    }

    /// Starts the program; what it logs is not looked at.
    pub fn start(&self, words: &str) -> Child {
        self.command(words).stderr(Stdio::null()).spawn().unwrap()
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}
