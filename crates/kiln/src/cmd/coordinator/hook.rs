//! Runs the command that gets findings of scrubs, for a limited time.

use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{io::Write, os::unix::process::CommandExt};

use kiln_pool::ScrubReport;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::print::{self, count, fields};
use crate::setup::now_ms;

/// A command that runs longer is ended.
const MOST: Duration = Duration::from_secs(60);
/// The same once the coordinator is to end.
const AT_THE_END: Duration = Duration::from_secs(5);
/// Interval of checking whether the command has ended.
const LOOK: Duration = Duration::from_millis(20);

/// A command of the shell.
pub struct Hook {
    command: String,
    pool: String,
}

impl Hook {
    /// This one, for a pool.
    pub fn new(command: &str, pool: &str) -> Hook {
        Hook { command: command.to_owned(), pool: pool.to_owned() }
    }

    /// Tells of findings, and waits until the command has ended: only then does the scrub keep
    /// where it is, so that what was not told is found again. A command that fails is warned of.
    pub fn tell(&self, report: &ScrubReport, stopped: &dyn Fn() -> bool) {
        let (pool, damaged) = (&self.pool, report.damaged + report.unreadable);
        let mut text = format!("pool {pool}: a scrub found {}", count(damaged, "damaged object"));
        if report.unreadable > 0 {
            text += &format!(", {} of them CANNOT BE READ", report.unreadable);
        }
        let message = fields! {
            pool: pool,
            // When it was found, in ms since 1970.
            time_ms: now_ms(),
            text: text,
            #[serde(flatten)]
            report: report,
        };
        // All of it is numbers and words.
        let Ok(json) = serde_json::to_string_pretty(&message) else { return };
        let failed = match run(&self.command, &json, MOST, stopped) {
            Ok(status) if status.success() => return,
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        print::warning_line(&format!("the command for findings: {failed}"));
    }
}

/// Runs it once.
fn run(
    command: &str,
    json: &str,
    most: Duration,
    stopped: &dyn Fn() -> bool,
) -> std::io::Result<ExitStatus> {
    // A group of its own, so that what it started ends with it, and Ctrl-C leaves it alone.
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()?;
    let (stdin, bytes) = (child.stdin.take(), json.as_bytes().to_vec());
    // It may read nothing at all.
    let feeder = std::thread::Builder::new().spawn(move || {
        if let Some(mut stdin) = stdin {
            let _ = stdin.write_all(&bytes);
        }
    })?;
    let began = Instant::now();
    let mut until = began + most;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Ok(status);
        }
        if stopped() {
            until = until.min(Instant::now() + AT_THE_END);
        }
        if Instant::now() >= until {
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            let why = format!("ended after {} s", began.elapsed().as_secs());
            break Err(std::io::Error::new(std::io::ErrorKind::TimedOut, why));
        }
        std::thread::sleep(LOOK);
    };
    // A process that it left behind may hold the pipe: kiln does not wait for that.
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
        let run = |command: &str, json: &str, most| run(command, json, most, &|| false);
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
        // What was killed is there until it runs once more.
        let state = || std::fs::read_to_string(format!("/proc/{sleeper}/stat")).unwrap_or_default();
        let gone = || state().is_empty() || state().contains(") Z ");
        let began = Instant::now();
        while !gone() && began.elapsed() < most {
            std::thread::sleep(LOOK);
        }
        assert!(gone(), "{}", state());
    }
}
