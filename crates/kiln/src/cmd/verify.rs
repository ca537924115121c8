//! `kiln verify`

use std::path::PathBuf;

use clap::Args;
use kiln_files::{discover, raw::verify_raw};
use kiln_stripe::{Depth, VerifyReport};

use crate::exit::{Exit, Result};
use crate::print::{count, damages, pace};
use crate::setup::{Folders, RawFlags, ReadFlags, Setup};
use crate::{args::help, cmd::multi_object, lists, sizes};

/// Check whether all shards are there and intact
///
/// Changes nothing. Exit code 1 means: damage was found, and kiln repair can fix it; 2 means that
/// too much is lost.
#[derive(Debug, Args)]
#[command(after_help = help("verify"))]
pub struct Verify {
    /// Folders with the shards
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Also compute parity again and compare it with what is stored
    #[arg(long, conflicts_with = "quick")]
    deep: bool,
    /// Check headers, checksum tables and trailers only: finds what is missing, not what is corrupt
    #[arg(long)]
    quick: bool,
    /// All objects in the folders, and in all folders below them
    #[arg(long, conflicts_with = "object")]
    all: bool,
    #[command(flatten)]
    reads: ReadFlags,
    #[command(flatten)]
    raw: RawFlags,
}

impl Verify {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let raw = self.raw.setup()?;
        if self.all {
            multi_object::refuse_raw(raw.is_some())?;
            return self.verify_all(setup);
        }
        let folders = Folders::to_read(setup, &self.folders, self.reads.mode())?;
        folders.refuse_unreadable(self.raw.object.as_deref())?;
        let settings = setup.settings();
        let outcome = match raw {
            Some(raw) => verify_raw(&raw.request(), folders.nodes(), &settings),
            None => discover(folders.nodes(), self.raw.object.as_deref())
                .and_then(|set| kiln_files::verify(&set, self.depth(), &settings)),
        };
        setup.observer.finish();
        let mut report = outcome?;
        report.seconds = setup.seconds();
        setup.report(&report, || text(&report, setup))?;
        Ok(exit(&report))
    }

    fn verify_all(&self, setup: &Setup) -> Result<Exit> {
        let groups = multi_object::groups(setup, &self.folders, self.reads.mode())?;
        let settings = setup.settings();
        multi_object::each(&groups, setup, |group| {
            group.folders.refuse_unreadable(Some(&group.object))?;
            let set = discover(group.folders.nodes(), Some(&group.object))?;
            let mut report = kiln_files::verify(&set, self.depth(), &settings)?;
            report.seconds = setup.seconds() - group.begun.get();
            Ok((exit(&report), text(&report, setup), report))
        })
    }

    fn depth(&self) -> Depth {
        match (self.quick, self.deep) {
            (true, _) => Depth::Headers,
            (false, false) => Depth::Data,
            (false, true) => Depth::Parity,
        }
    }
}

fn exit(report: &VerifyReport) -> Exit {
    match (report.clean, report.recoverable) {
        (true, _) => Exit::Done,
        (false, true) => Exit::Damaged,
        (false, false) => Exit::NotRecoverable,
    }
}

fn text(report: &VerifyReport, setup: &Setup) -> String {
    let mut text = format!(
        "{} ({}, {}): {}\n",
        report.object,
        report.code,
        sizes::show(report.size),
        verdict(report)
    );
    if !report.missing.is_empty() {
        text += &format!("  missing: {}\n", lists::named(&report.missing));
    }
    text += &damages(&report.damaged, report.damaged_count);
    for note in &report.notes {
        text += &format!("  note: {note}\n");
    }
    if !report.unrecoverable_stripes.is_empty() {
        let shown: Vec<String> =
            report.unrecoverable_stripes.iter().take(20).map(u64::to_string).collect();
        text += &format!("  lost stripes: {}\n", shown.join(", "));
    }
    if setup.verbose {
        let read = report.bytes_read + report.metadata_bytes_read;
        text += &format!("read {}\n", sizes::show(read));
    }
    text += &format!("{}\n", pace(report.bytes_read, report.seconds));
    text
}

fn verdict(report: &VerifyReport) -> String {
    let depth = match report.depth {
        Depth::Headers => "headers and tables checked",
        Depth::Data => "every byte checked",
        Depth::Parity => "every byte checked, parity computed again",
    };
    match (report.clean, report.recoverable) {
        (true, _) => format!("all shards intact, {depth}"),
        (false, true) => {
            let lost = match report.lost.len() as u64 {
                0 => "only names to put right".to_owned(),
                lost => format!("{} to rebuild", count(lost, "shard")),
            };
            format!("damaged but recoverable, {lost}; run kiln repair ({depth})")
        }
        (false, false) => format!("NOT RECOVERABLE ({depth})"),
    }
}
