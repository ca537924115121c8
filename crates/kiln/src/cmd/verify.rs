//! `kiln verify`

use std::path::PathBuf;

use clap::Args;
use kiln_files::{discover, raw::verify_raw};
use kiln_stripe::{Depth, VerifyReport};
use minijinja::{Value, context};

use crate::exit::{Exit, Result};
use crate::print::damages;
use crate::setup::{Folders, RawFlags, ReadFlags, Setup};
use crate::{args::help, cmd::multi_object};

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
        setup.tell("verify", &report, found(&report))?;
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
            Ok((exit(&report), setup.text("verify", &report, found(&report)), report))
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

/// Damaged places, for the text.
fn found(report: &VerifyReport) -> Value {
    context! { damages => damages(&report.damaged, report.damaged_count) }
}

fn exit(report: &VerifyReport) -> Exit {
    match (report.clean, report.recoverable) {
        (true, _) => Exit::Done,
        (false, true) => Exit::Damaged,
        (false, false) => Exit::NotRecoverable,
    }
}
