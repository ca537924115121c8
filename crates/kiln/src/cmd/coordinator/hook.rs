//! The command that is told what scrubs find: for a limited time, and one at a time.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use kiln_pool::ScrubReport;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;

use crate::print::{self, count};
use crate::setup::now_ms;

/// A command that runs longer is ended.
const MOST: Duration = Duration::from_secs(60);
/// Findings that wait for their turn; further ones are dropped, which is said.
const WAITING: usize = 64;
/// How often it is looked whether the command has ended.
const LOOK: Duration = Duration::from_millis(20);

/// What the command reads.
#[derive(Serialize)]
struct Message<'a> {
    pool: &'a str,
    /// When it was found, in ms since 1970.
    time_ms: u64,
    /// In words.
    text: String,
    #[serde(flatten)]
    report: &'a ScrubReport,
}

/// Runs the command, on a thread of its own; dropping it waits for what runs.
pub struct Hook {
    pool: String,
    send: Option<SyncSender<String>>,
    thread: Option<JoinHandle<()>>,
}

impl Hook {
    /// For this command of the shell.
    pub fn new(command: &str, pool: &str) -> Hook {
        let (send, receive) = sync_channel(WAITING);
        let command = command.to_owned();
        let thread = std::thread::spawn(move || work(&command, &receive, MOST));
        Hook { pool: pool.to_owned(), send: Some(send), thread: Some(thread) }
    }

    /// Tells of findings.
    pub fn tell(&self, report: &ScrubReport) {
        let damaged = report.damaged + report.unreadable;
        let mut text =
            format!("pool {}: a scrub found {}", self.pool, count(damaged, "damaged object"));
        if report.unreadable > 0 {
            text += &format!(", {} of them CANNOT BE READ", report.unreadable);
        }
        let message = Message { pool: &self.pool, time_ms: now_ms(), text, report };
        // All of it is numbers and words.
        let Ok(json) = serde_json::to_string_pretty(&message) else { return };
        let Some(send) = &self.send else { return };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = send.try_send(json) {
            print::warning_line("the command for findings does not keep up; one was not told");
        }
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        drop(self.send.take());
        // A panic there was said by its thread.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn work(command: &str, receive: &Receiver<String>, most: Duration) {
    for json in receive {
        match run(command, &json, most) {
            Ok(status) if status.success() => {}
            Ok(status) => print::warning_line(&format!("the command for findings: {status}")),
            Err(error) => print::warning_line(&format!("the command for findings: {error}")),
        }
    }
}

/// Runs it once.
fn run(command: &str, json: &str, most: Duration) -> std::io::Result<ExitStatus> {
    // A group of its own, so that what it started ends with it, and Ctrl-C leaves it alone.
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()?;
    let (stdin, bytes) = (child.stdin.take(), json.as_bytes().to_vec());
    // It may read nothing at all.
    let feeder = std::thread::spawn(move || {
        if let Some(mut stdin) = stdin {
            let _ = stdin.write_all(&bytes);
        }
    });
    let until = Instant::now() + most;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Ok(status);
        }
        if Instant::now() >= until {
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            let why = format!("ended after {} s", most.as_secs());
            break Err(std::io::Error::new(std::io::ErrorKind::TimedOut, why));
        }
        std::thread::sleep(LOOK);
    };
    // Whoever it left behind may hold the pipe: nobody waits for that.
    if feeder.is_finished() || status.is_err() {
        let _ = feeder.join();
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_reads_all_of_it_and_one_that_hangs_is_ended_with_what_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("said");
        let long = "0123456789".repeat(50_000);
        let most = Duration::from_secs(60);
        let cat = format!("cat > {}", path.display());
        assert!(run(&cat, &long, most).unwrap().success());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), long);
        // One that reads nothing is no error, and its exit code is seen.
        assert_eq!(run("exit 3", &long, most).unwrap().code(), Some(3));
        let pid = folder.path().join("pid");
        let hang = format!("sleep 1000 & echo $! > {}; wait", pid.display());
        let ended = run(&hang, &long, Duration::from_secs(1)).unwrap_err();
        assert_eq!(ended.kind(), std::io::ErrorKind::TimedOut);
        let sleeper: String = std::fs::read_to_string(&pid).unwrap().trim().into();
        let state = std::fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "{state}");
    }
}
