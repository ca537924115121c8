//! `kiln pool limit`

use clap::Args;
use kiln_recovery::RateLimits;
use minijinja::context;

use crate::args::size;
use crate::exit::{Exit, Failure, Result};
use crate::setup::{LimitFile, PoolFlags, Setup};

#[derive(Debug, Args)]
pub struct Limit {
    /// Bytes per second that each node may send, and receive, for repairs
    #[arg(long, value_name = "SIZE", value_parser = size,
          required_unless_present_any = ["total", "off"])]
    rate: Option<u64>,
    /// Bytes per second that all nodes together may send for repairs
    #[arg(long, value_name = "SIZE", value_parser = size)]
    total: Option<u64>,
    /// No limit
    #[arg(long, conflicts_with_all = ["rate", "total"])]
    off: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Limit {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        // So that a wrong name is reported, and not written to an unused file.
        let config = self.pool.config()?;
        let (node, total) = (self.rate.unwrap_or(0), self.total.unwrap_or(0));
        if !self.off && node == 0 && total == 0 {
            let problem = "must be at least 1 byte per second; --off lifts the limit".to_owned();
            return Err(Failure::Flag { flag: "--rate", problem });
        }
        LimitFile::new(self.pool.limits_path()).write(RateLimits { node, total })?;
        let limits = serde_json::json!({ "pool": config.name, "rate": node, "total": total });
        setup.tell("pool limit", &limits, context! {})
    }
}
