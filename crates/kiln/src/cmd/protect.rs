//! `kiln protect`

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{ffi::OsStr, os::fd::OwnedFd, path::PathBuf, sync::Arc};

use clap::Args;
use kiln_protect::{Check, Geometry, ProtectError, Report, Update, Watch, check, protect};
use kiln_stripe::Observer;
use minijinja::context;

use crate::exit::{Exit, Failure, Result};
use crate::interrupt::{keep, remove_when_interrupted};
use crate::{args::help, setup::Setup};

/// More threads wait for each other's memory.
const THREADS: usize = 8;

/// Keep parity beside files that stay where they are
///
/// Makes parity for all files below a folder, or brings it up to date. A file that is missing or
/// damaged later comes back with --repair; one with another time than before has changed, and is
/// left alone. Links are not followed, and not protected.
#[derive(Debug, Args)]
#[command(after_help = help("protect"))]
pub struct Protect {
    /// Folder with the files
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Compare every byte with its checksum; changes nothing
    #[arg(long, conflicts_with_all = ["repair", "parity", "losses", "prune"])]
    verify: bool,
    /// Bring back files that are missing or damaged, and parity
    #[arg(long, conflicts_with_all = ["parity", "losses", "prune"])]
    repair: bool,
    /// With --repair: also files that changed since, as they were protected
    #[arg(long, requires = "repair")]
    revert: bool,
    /// Share of parity, when a folder is protected for the first time [default: 10%]
    #[arg(long, value_name = "PERCENT")]
    parity: Option<String>,
    /// Files, or disks below the folder, of which any so many may be lost [default: 1]
    #[arg(long, value_name = "N")]
    losses: Option<usize>,
    /// Folder for parity, on another disk; may be repeated
    #[arg(long, value_name = "DIR")]
    parity_dir: Vec<PathBuf>,
    /// Forget files that are not there any more, which --repair would bring back
    #[arg(long)]
    prune: bool,
}

impl Protect {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let watch = Progress { setup, begun: Instant::now(), total: AtomicU64::new(0) };
        let outcome = self.outcome(setup, &watch);
        setup.observer.finish();
        let report = Report { seconds: setup.seconds(), ..outcome? };
        let more = context! {
            folder => self.folder.display().to_string(),
            verifies => self.verify,
            repairs => self.repair,
            clean => report.is_clean(),
            passed => watch.total.load(Ordering::Relaxed),
        };
        setup.tell("protect", &report, more)?;
        let has = |what| report.count(what) > 0;
        Ok(match self.repair {
            _ if has("lost") || report.index_lost > 0 => Exit::NotRecoverable,
            true if report.parity_lost > 0 => Exit::NotRecoverable,
            _ if has("failed") => Exit::Io,
            false if !report.is_clean() => Exit::Damaged,
            _ => Exit::Done,
        })
    }

    fn outcome(&self, setup: &Setup, watch: &Progress<'_>) -> Result<Report> {
        let threads = setup.threads().min(THREADS);
        let parity_dirs = self.parity_dir.clone();
        if self.verify || self.repair {
            let (repair, revert) = (self.repair, self.revert);
            let options = Check { parity_dirs, repair, revert, threads };
            return Ok(check(&self.folder, &options, watch)?);
        }
        let options =
            Update { geometry: self.geometry()?, parity_dirs, prune: self.prune, threads };
        Ok(protect(&self.folder, &options, watch)?)
    }

    fn geometry(&self) -> Result<Option<Geometry>> {
        if self.parity.is_none() && self.losses.is_none() {
            return Ok(None);
        }
        let losses = self.losses.unwrap_or(1);
        let text = self.parity.clone().unwrap_or_else(|| format!("{}", losses.saturating_mul(10)));
        let percent: Option<f64> = text.trim_end_matches('%').parse().ok();
        percent.and_then(|percent| Geometry::new(percent, losses)).map(Some).ok_or_else(|| {
            let problem = format!("no code has '{text}' with losses of {losses}; try 10%");
            Failure::Flag { flag: "--parity", problem }
        })
    }
}

impl From<ProtectError> for Failure {
    fn from(error: ProtectError) -> Failure {
        match error {
            ProtectError::Io { action, path, source } => Failure::Io { action, path, source },
            ProtectError::Code(error) => Failure::Code(error),
            error => Failure::Protect(error),
        }
    }
}

/// Shows progress, keeps to the rate, has unfinished files removed at a signal.
struct Progress<'a> {
    setup: &'a Setup,
    begun: Instant,
    total: AtomicU64,
}

impl Watch for Progress<'_> {
    fn begin(&self, bytes: u64) {
        self.setup.observer.begin("protect", Some(bytes));
    }

    fn advance(&self, bytes: u64) {
        let total = self.total.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.setup.observer.advance(bytes);
        if let Some(rate) = self.setup.limit_rate() {
            let due = Duration::from_secs_f64(total as f64 / rate.max(1) as f64);
            std::thread::sleep(due.saturating_sub(self.begun.elapsed()));
        }
    }

    fn begun(&self, folder: &Arc<OwnedFd>, name: &OsStr) {
        remove_when_interrupted(folder, name);
    }

    fn ended(&self, folder: &Arc<OwnedFd>, name: &OsStr) {
        keep(folder, name);
    }
}
