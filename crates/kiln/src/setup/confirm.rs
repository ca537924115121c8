//! Questions before something that loses data or safety: a terminal is asked, a script gives
//! `--yes`.

use std::io::{BufRead, IsTerminal, Write, stderr, stdin};
use std::path::Path;

use clap::Args;
use kiln_stripe::{PoolError, Result};

use crate::setup::local;

/// The flag of commands that ask.
#[derive(Debug, Clone, Args)]
pub struct Confirm {
    /// Do it without a question, though data or safety is lost; without a terminal there is no
    /// other way
    #[arg(long)]
    pub yes: bool,
}

impl Confirm {
    /// Asks whether to go on, unless that was said before; `what` says what is lost, with numbers.
    /// Errors: [`PoolError::Refused`]: no, or there is no terminal to ask.
    pub fn ask(&self, what: &str) -> Result<()> {
        if self.yes {
            return Ok(());
        }
        if is_terminal() {
            let mut answer = String::new();
            let asked = write!(stderr(), "{what}. Go on? [y/N] ");
            let read = asked.and_then(|()| stdin().lock().read_line(&mut answer));
            if read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes") {
                return Ok(());
            }
        }
        Err(PoolError::Refused { what: format!("{what}; give --yes to do it all the same") })
    }

    /// Asks a terminal; a script that says what to remove need not say more.
    /// Errors: [`PoolError::Refused`]: no.
    pub fn ask_at_terminal(&self, what: &str) -> Result<()> {
        if is_terminal() { self.ask(what) } else { Ok(()) }
    }

    /// Asks before a folder with files of others, or a mount point without its file system, becomes
    /// a node.
    pub fn ask_for_folder(&self, place: &Path) -> Result<()> {
        let Ok(folder) = local(place) else { return Ok(()) };
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let own = |name: &std::ffi::OsStr| {
            let name = name.to_string_lossy();
            name == "lost+found" || name.starts_with("kiln") || name.ends_with(".part")
        };
        let others = entries.filter(|entry| !own(&entry.file_name())).count();
        if others > 0 {
            let place = folder.display();
            self.ask(&format!("{place} is not empty: kiln did not make {others} of its entries"))?;
        }
        if is_unmounted(folder) {
            let place = folder.display();
            self.ask(&format!("{place} is a mount point of /etc/fstab and is not mounted"))?;
        }
        Ok(())
    }
}

fn is_terminal() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Returns whether a folder is to be mounted by `/etc/fstab`, and is not.
fn is_unmounted(folder: &Path) -> bool {
    let has = |table: &str| {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        let mut points = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        points.any(|line| line.split_whitespace().nth(1).is_some_and(|at| Path::new(at) == folder))
    };
    has("/etc/fstab") && !has("/proc/self/mounts")
}
