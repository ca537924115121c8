//! `kiln protect`

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{ffi::OsStr, os::fd::OwnedFd, path::PathBuf, sync::Arc};

use clap::Args;
use kiln_protect::{Check, Geometry, ProtectError, Report, Update, Watch, check, protect};
use kiln_stripe::Observer;

use crate::exit::{Exit, Failure, Result};
use crate::interrupt::{keep, remove_when_interrupted};
use crate::print::{count, one_line, pace};
use crate::{args::help, setup::Setup, sizes};

/// Texts list so many files; --json lists all.
const SHOWN: usize = 20;

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

/// Lists whose files are named; of the others only the number is.
const NAMED: [(&str, &str); 7] = [
    ("missing", "missing"),
    ("damaged", "damaged"),
    ("hindered", "not protected as it is now"),
    ("changed", "changed since"),
    ("restored", "restored and verified"),
    ("lost", "LOST (the parity is not enough)"),
    ("failed", "cannot be read or written"),
];
const COUNTED: [(&str, &str); 4] = [
    ("added", "new"),
    ("renamed", "renamed"),
    ("forgotten", "forgotten"),
    ("unprotected", "not protected yet"),
];

impl Protect {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let watch = Progress { setup, begun: Instant::now(), total: AtomicU64::new(0) };
        let outcome = self.outcome(setup, &watch);
        setup.observer.finish();
        let report = Report { seconds: setup.seconds(), ..outcome? };
        let pace = || pace(watch.total.load(Ordering::Relaxed), report.seconds);
        setup.report(&report, || format!("{}{}\n", self.text(&report), pace()))?;
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

    fn text(&self, report: &Report) -> String {
        let has = |what| report.count(what) > 0;
        let state = match (self.verify, self.repair, report.is_clean()) {
            _ if has("lost") => "NOT RECOVERABLE in part",
            (false, false, _) => "protected",
            (_, _, true) => "every byte checked, all intact",
            (_, true, _) if has("failed") || report.parity_lost > 0 => "repaired in part",
            (_, true, _) => "repaired",
            _ => "damaged but recoverable; run kiln protect --repair",
        };
        let mut text = format!(
            "{}: {} ({}), {} of parity: {state}\n",
            self.folder.display(),
            count(report.files, "file"),
            sizes::show(report.bytes),
            sizes::show(report.parity_bytes),
        );
        for (list, what) in NAMED {
            let names = report.lists.get(list).map_or(&[][..], Vec::as_slice);
            for name in names.iter().take(SHOWN) {
                text += &format!("  {what}: {}\n", one_line(name));
            }
            if names.len() > SHOWN {
                text += &format!("  {what}: {} more; --json lists all\n", names.len() - SHOWN);
            }
        }
        let mut counts: Vec<_> =
            COUNTED.iter().map(|(list, what)| (report.count(list) as u64, *what)).collect();
        counts.push((report.others, "links and others, which are not protected"));
        counts.push((report.parity_lost, "cells of parity damaged"));
        counts.push((report.parity_renewed, "cells of parity written anew"));
        counts.push((report.index_damaged.into(), "copies of the index damaged or missing"));
        counts.push((report.index_lost, "records of the index lost"));
        let counts = counts.iter().filter(|(number, _)| *number > 0);
        let counts: Vec<String> = counts.map(|(number, what)| format!("{number} {what}")).collect();
        if !counts.is_empty() {
            text += &format!("  {}\n", counts.join(", "));
        }
        let survives = &report.survives;
        text += &format!(
            "survives any of: {} of the {} blocks of each set; {} in a row, files in the order of \
             names",
            survives.blocks,
            survives.of,
            sizes::show(survives.bytes_in_a_row),
        );
        if survives.files > 0 {
            text += &format!("; {} deleted", count(survives.files as u64, "file"));
        }
        text += "\n";
        if survives.too_large > 0 {
            let files = count(survives.too_large as u64, "file");
            text += &format!("too large to come back when deleted whole: {files}\n");
        }
        let written = report.parity_written + report.index_written;
        if written > 0 { text + &format!("wrote {}\n", sizes::show(written)) } else { text }
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
