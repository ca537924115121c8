//! `kiln pool keep`

use clap::Args;
use kiln_pool::{KeepRule, PoolConfig};
use minijinja::context;

use crate::exit::{Exit, Result};
use crate::setup::{PoolFlags, Setup};
use crate::{args::in_pool, times};

#[derive(Debug, Args)]
pub struct Keep {
    /// For objects whose names begin with this; of several rules the longest one counts
    #[arg(default_value = "", value_parser = in_pool)]
    prefix: String,
    /// Keep the newest N replaced and removed versions of each object
    #[arg(long, value_name = "N")]
    last: Option<u64>,
    /// Keep every version for so long after it was replaced or removed, e.g. 30d
    #[arg(long, value_name = "TIME", value_parser = times::parse)]
    all: Option<std::time::Duration>,
    /// Keep what was in force when each of the last N days began (UTC)
    #[arg(long, value_name = "N")]
    daily: Option<u64>,
    /// The same of weeks, which begin on Mondays
    #[arg(long, value_name = "N")]
    weekly: Option<u64>,
    /// The same of months
    #[arg(long, value_name = "N")]
    monthly: Option<u64>,
    /// Remove the rule
    #[arg(long, conflicts_with_all = ["last", "all", "daily", "weekly", "monthly"])]
    none: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Keep {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let _lock = self.pool.lock("config")?;
        let pool = self.pool.open(setup)?;
        let rule = KeepRule {
            prefix: self.prefix,
            last: self.last.unwrap_or(0),
            all_seconds: self.all.map_or(0, |all| all.as_secs()),
            daily: self.daily.unwrap_or(0),
            weekly: self.weekly.unwrap_or(0),
            monthly: self.monthly.unwrap_or(0),
        };
        let is_set = rule != KeepRule { prefix: rule.prefix.clone(), ..KeepRule::default() };
        let mut config = pool.config().clone();
        if is_set || self.none {
            let edit = |next: &mut PoolConfig| {
                next.keep.retain(|known| known.prefix != rule.prefix);
                next.keep.extend(is_set.then_some(rule));
                next.keep.sort_by(|a, b| a.prefix.cmp(&b.prefix));
                Ok(())
            };
            config = pool.members().change(false, &setup.settings(), edit)?;
            self.pool.reopen(config.clone(), setup)?;
        }
        setup.observer.finish();
        let rules = serde_json::json!({ "pool": config.name, "keep": config.keep });
        setup.tell("pool keep", &rules, context! {})
    }
}
