//! `kiln pool prune`

use clap::Args;
use minijinja::context;

use crate::exit::{Exit, Result};
use crate::setup::{PoolFlags, Setup, now_ms};

#[derive(Debug, Args)]
pub struct Prune {
    /// Only print what would be removed
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Prune {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let pool = self.pool.open(setup)?;
        let index = self.pool.index(&pool, setup)?;
        let when = (now_ms(), self.dry_run);
        let report = pool.repairer().prune(&index, when, &setup.settings())?;
        setup.observer.finish();
        setup.tell("pool prune", &report, context! {})
    }
}
