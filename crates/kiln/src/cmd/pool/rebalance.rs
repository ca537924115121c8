//! `kiln pool rebalance`

use clap::Args;
use kiln_pool::{RebalanceReport, RebalanceRequest};

use super::settle;
use crate::exit::{Exit, Result};
use crate::print::{count, pace};
use crate::setup::{PoolFlags, Setup, now_ms};
use crate::sizes;

#[derive(Debug, Args)]
pub struct Rebalance {
    /// Only say what would be moved
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Rebalance {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let mut pool = self.pool.open(setup)?;
        let _lock = if self.dry_run { None } else { Some(self.pool.lock("repair")?) };
        if !self.dry_run {
            // Manifests first, so that readers look in the right places before shards move.
            pool = settle(&self.pool, pool, setup)?;
        }
        let index = self.pool.index(&pool, setup)?;
        let req = RebalanceRequest { now_ms: now_ms(), dry_run: self.dry_run };
        let outcome = pool.repairer().rebalance(&index, &req, &setup.settings());
        setup.observer.finish();
        let mut report = outcome?;
        report.seconds = setup.seconds();
        setup.report(&report, || text(&report))?;
        Ok(match (report.failed_count, report.shards_left) {
            (0, 0) => Exit::Done,
            (0, _) => Exit::Damaged,
            _ => Exit::Io,
        })
    }
}

fn text(report: &RebalanceReport) -> String {
    let did = if report.dry_run { "would be moved" } else { "moved and verified" };
    let mut text = match report.shards_misplaced {
        0 => format!("{}: every shard is where it belongs\n", count(report.objects, "object")),
        misplaced => format!(
            "{} of {misplaced} misplaced shards {did}: {}\n",
            report.shards_moved,
            sizes::show(report.bytes_moved)
        ),
    };
    if report.shards_left > 0 {
        text += &format!(
            "{} left where they are: a node is unavailable or has no room\n",
            count(report.shards_left, "shard")
        );
    }
    for (object, why) in &report.failed {
        text += &format!("  {object}: {why}\n");
    }
    text += &format!("{}\n", pace(report.bytes_moved, report.seconds));
    text
}
