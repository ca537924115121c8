//! The small server of HDFS, `fake.py`, in a process of its own.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use serde::de::DeserializeOwned;

/// A server that runs; it ends with its value.
pub struct Fake {
    child: Child,
    pipes: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
}

impl Fake {
    pub fn start() -> Fake {
        let mut command = Command::new("python3");
        command.args(["-B", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hdfs/fake.py")]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let pipes = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Fake { child, pipes: Mutex::new(pipes) }
    }

    /// Runs a line of Python over the server, `hdfs`, and returns its value.
    #[track_caller]
    pub fn ask<T: DeserializeOwned>(&self, line: &str) -> T {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(pipes.0, "{line}").unwrap();
        let mut answer = String::new();
        pipes.1.read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// As [`Fake::ask`], of a line without a value.
    #[track_caller]
    pub fn run(&self, line: &str) {
        self.ask(line)
    }

    pub fn authority(&self) -> String {
        self.ask("hdfs.authority")
    }

    pub fn mkdir(&self, path: &str) {
        self.run(&format!("hdfs.mkdir('{path}')"));
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
