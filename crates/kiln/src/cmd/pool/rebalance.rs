//! `kiln pool rebalance`

use clap::Args;
use kiln_pool::RebalanceRequest;
use minijinja::context;

use super::settle;
use crate::exit::{Exit, Result};
use crate::setup::{PoolFlags, Setup, now_ms};

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
        setup.tell("rebalance", &report, context! {})?;
        Ok(match (report.failed_count, report.shards_left) {
            (0, 0) => Exit::Done,
            (0, _) => Exit::Damaged,
            _ => Exit::Io,
        })
    }
}
