//! `kiln stat`

use clap::Args;
use kiln_pool::StatReport;

use crate::args::{help, in_pool};
use crate::exit::{Exit, Result};
use crate::print::{count, one_line};
use crate::setup::{PoolFlags, Setup};
use crate::sizes;

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
        setup.answer(&report, || text(&report, lost))?;
        let under_replicated = report.copies.len() < report.object.manifests.len();
        Ok(match (lost, under_replicated) {
            (0, false) => Exit::Done,
            _ if report.recoverable => Exit::Damaged,
            _ => Exit::NotRecoverable,
        })
    }
}

fn text(report: &StatReport, lost: usize) -> String {
    let object = &report.object;
    let mut text = format!(
        "{}: {} ({} bytes), {}, version {}\n",
        one_line(&object.name),
        sizes::show(object.size),
        object.size,
        object.code,
        object.version
    );
    if !report.shards.is_empty() {
        let away = report.shards.iter().filter(|shard| shard.is_away).count();
        let asked = match away {
            0 => String::new(),
            away => format!(" and {away} on nodes that cannot be asked"),
        };
        text += &format!(
            "  {} of {} sub-chunks of {} a chunk; {} of {} shards are missing or damaged{asked}, \
             {} may be\n",
            count(report.stripes, "stripe"),
            report.alpha,
            sizes::show(report.sub_chunk),
            lost - away,
            report.shards.len(),
            report.m
        );
    }
    for shard in &report.shards {
        let problem = shard.problem.as_deref().unwrap_or("");
        text += format!("{:>5}  {}  {problem}", shard.index, shard.node).trim_end();
        text.push('\n');
    }
    text += &format!(
        "  manifest on {} ({} of {} there)\n",
        object.manifests.join(", "),
        report.copies.len(),
        object.manifests.len()
    );
    text
}
