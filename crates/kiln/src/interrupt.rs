//! Signals that end a command: files that they remove, and what stays.

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, unlinkat};
use tokio::signal::unix::{SignalKind, signal};

/// With the signal's number, the exit code that shells expect of a process that one ended.
const SIGNALED: i32 = 128;

/// The signal of a write past `ulimit -f`.
const SIGXFSZ: i32 = rustix::process::Signal::XFSZ.as_raw();

/// Files that are of no use when the process ends.
static SCRAP: Mutex<Vec<(Arc<OwnedFd>, OsString)>> = Mutex::new(Vec::new());

/// Done when a signal ends the process.
static AT_END: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

/// Signals that end a command, and what the message calls each.
const ENDING: [(SignalKind, &str); 8] = [
    (SignalKind::interrupt(), "interrupted"),
    (SignalKind::terminate(), "terminated"),
    (SignalKind::hangup(), "hung up"),
    (SignalKind::quit(), "quit"),
    (SignalKind::alarm(), "ended by SIGALRM"),
    (SignalKind::user_defined1(), "ended by SIGUSR1"),
    (SignalKind::user_defined2(), "ended by SIGUSR2"),
    (SignalKind::from_raw(rustix::process::Signal::XCPU.as_raw()), "out of CPU time"),
];

/// Says at a signal what stays; nothing at all where the command watches signals itself.
///
/// From here on a file that grows past the limit of the process is an error of the write, not the
/// end of the process.
pub fn watch(words: &'static str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return };
    // A handler stays when nobody waits for its signal any longer.
    drop(runtime.block_on(async { signal(SignalKind::from_raw(SIGXFSZ)) }));
    if words.is_empty() {
        return;
    }
    // Without this thread a signal ends the process at once, which is safe too.
    let _ = std::thread::Builder::new().name("interrupt".into()).spawn(move || {
        runtime.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            for (kind, word) in ENDING {
                // One that is ignored, as under nohup, stays so.
                if is_ignored(kind) {
                    continue;
                }
                let Ok(mut signals) = signal(kind) else { continue };
                tasks.spawn(async move {
                    signals.recv().await;
                    end(kind.as_raw_value(), word, words)
                });
            }
            tasks.join_next().await;
        });
    });
}

/// Returns whether this process was started with a signal ignored.
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (kind.as_raw_value() - 1) & 1 == 1
}

/// Has something done when a signal ends the process.
pub fn at_end(act: impl FnOnce() + Send + 'static) {
    *AT_END.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(act));
}

/// A file that a signal is to remove, until [`keep`] is called.
pub fn remove_when_interrupted(folder: &Arc<OwnedFd>, name: &OsStr) {
    scrap().push((folder.clone(), name.to_owned()));
}

/// The file has its name, or is gone.
pub fn keep(folder: &Arc<OwnedFd>, name: &OsStr) {
    scrap().retain(|(at, of)| !Arc::ptr_eq(at, folder) || of != name);
}

fn scrap() -> MutexGuard<'static, Vec<(Arc<OwnedFd>, OsString)>> {
    SCRAP.lock().unwrap_or_else(PoisonError::into_inner)
}

fn end(signal: i32, what: &str, words: &str) -> ! {
    for (folder, name) in scrap().iter() {
        // One that stays is replaced by the next run.
        let _ = unlinkat(folder, name, AtFlags::empty());
    }
    let act = AT_END.lock().unwrap_or_else(PoisonError::into_inner).take();
    act.into_iter().for_each(|act| act());
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        // Off the line of the progress, which the terminal has written ^C into.
        let _ = write!(stderr, "\r\x1b[K");
    }
    crate::print::error_line(&format!("{what}: {words}"));
    std::process::exit(SIGNALED + signal)
}
