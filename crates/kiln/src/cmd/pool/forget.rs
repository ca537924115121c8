//! `kiln pool forget`

use clap::Args;
use kiln_stripe::{Observer, PoolError};
use minijinja::context;

use crate::exit::{Exit, Failure, Result};
use crate::print::count;
use crate::setup::{Confirm, PoolFlags, Setup, logs, volumes};

/// Names of lost objects that are printed.
const MAX_TOLD: usize = 1000;

#[derive(Debug, Args)]
pub struct Forget {
    /// Ids of nodes that will not come back
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// Give up the objects that cannot be read without them
    #[arg(long)]
    lose: bool,
    /// Do it although so many nodes are unavailable that they could not be asked
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Forget {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let _lock = self.pool.lock("config")?;
        let pool = match self.force {
            true => self.pool.open_at_newest(true, setup)?,
            false => self.pool.open(setup)?,
        };
        for id in &self.ids {
            if pool.config().position(id).is_none() {
                let problem = format!("the pool has no node {id}");
                return Err(Failure::Flag { flag: "ID", problem });
            }
        }
        let rim = volumes::rim_over(pool, &self.pool, setup);
        let pool = rim.pool();
        let index = self.pool.index_to_list(&pool, setup)?;
        let (mut lost, mut lost_count) =
            pool.members().lost_without(&self.ids, &index, MAX_TOLD)?;
        let logs = logs::all(&rim, &index, setup)?;
        for log in logs.iter().filter(|log| log.is_lost_without(&self.ids)) {
            lost_count += 1;
            lost.push(format!("what only the log of volume {:?} has", log.volume));
        }
        setup.observer.finish();
        if lost_count > 0 && !self.lose {
            let objects = count(lost_count, "object");
            let names = lost.join(", ");
            let what = format!(
                "without {} {objects} cannot be read: {names}; bring nodes back, or give --lose \
                 to do without them",
                self.ids.join(", ")
            );
            return Err(PoolError::Refused { what }.into());
        }
        let away: Vec<&str> = pool.away().iter().map(|(node, _)| &node.id[..]).collect();
        let healthy: Vec<&str> =
            self.ids.iter().map(|id| &id[..]).filter(|id| !away.contains(id)).collect();
        self.ask(&healthy, pool.members().too_wide_without(&self.ids, &index)?)?;
        if self.force {
            setup.observer.warn(
                "unavailable nodes are not asked: if unreachable nodes are still serving, the \
                 pool will split-brain",
            );
        }
        let config = pool.members().forget(&self.ids, self.force, &setup.settings())?;
        self.pool.reopen(config.clone(), setup)?;
        setup.tell("pool forget", &config, context! { lost, ids => self.ids })?;
        Ok(if lost_count > 0 { Exit::NotRecoverable } else { Exit::Done })
    }

    /// Asks about healthy nodes, and about a code with more shards than domains that would be left.
    fn ask(&self, healthy: &[&str], wide: Option<(String, usize, usize)>) -> Result<(), PoolError> {
        let mut ask = Vec::new();
        if !healthy.is_empty() {
            let ids = healthy.join(", ");
            ask.push(format!(
                "{ids}: healthy, and its shards are given up, so fewer further losses are \
                 survived until a repair has ended; kiln pool drain moves them first"
            ));
        }
        if let Some((code, shards, left)) = wide {
            let domains = count(left as u64, "domain");
            ask.push(format!(
                "{domains} would be left for the {shards} shards of {code}: fewer losses are \
                 survived, and no repair mends that; add a node first"
            ));
        }
        if ask.is_empty() { Ok(()) } else { self.confirm.ask(&ask.join("; ")) }
    }
}
