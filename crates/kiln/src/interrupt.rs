//! Ctrl-C: what stays, and how to go on.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Exit code that shells expect of a process that an interrupt ended.
const INTERRUPTED: i32 = 130;

/// Files that are of no use when the process ends.
static SCRAP: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Says at an interrupt what stays; nothing at all where the command watches signals itself.
pub fn watch(words: &'static str) {
    if words.is_empty() {
        return;
    }
    // Without this thread an interrupt ends the process at once, which is safe too.
    let _ = std::thread::Builder::new().name("interrupt".into()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return };
        if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
            end(words);
        }
    });
}

/// A file that an interrupt is to remove, until [`keep`] is called.
pub fn remove_when_interrupted(path: &Path) {
    SCRAP.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
}

/// The file has its name, or is gone.
pub fn keep(path: &Path) {
    SCRAP.lock().unwrap_or_else(PoisonError::into_inner).retain(|scrap| scrap != path);
}

fn end(words: &str) -> ! {
    for path in SCRAP.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        // One that stays is replaced by the next run.
        let _ = std::fs::remove_file(path);
    }
    let mut stderr = std::io::stderr();
    if stderr.is_terminal() {
        // Off the line of the progress, which the terminal has written ^C into.
        let _ = write!(stderr, "\r\x1b[K");
    }
    crate::print::error_line(&format!("interrupted: {words}"));
    std::process::exit(INTERRUPTED)
}
