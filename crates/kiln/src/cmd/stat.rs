//! `kiln stat`

use clap::Args;
use minijinja::context;

use crate::args::{help, in_pool};
use crate::exit::{Exit, Result};
use crate::setup::{PoolFlags, Setup};

/// Show where an object's shards and manifests are
///
/// Looks at headers and trailers only; kiln scrub reads everything. Exit code 1 means that
/// something is missing, 2 that too much is missing to read the object.
#[derive(Debug, Args)]
#[command(after_help = help("stat"))]
pub struct Stat {
    /// Name of the object
    #[arg(value_parser = in_pool)]
    name: String,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Stat {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let (_, report) = self.pool.open_for(setup, |pool| pool.stat(&self.name))?;
        let lost = report.shards.iter().filter(|shard| shard.problem.is_some()).count();
        setup.show("stat", &report, context! {})?;
        let under_replicated = report.copies.len() < report.object.manifests.len();
        Ok(match (lost, under_replicated) {
            (0, false) => Exit::Done,
            _ if report.recoverable => Exit::Damaged,
            _ => Exit::NotRecoverable,
        })
    }
}
