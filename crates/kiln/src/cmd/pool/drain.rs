//! `kiln pool drain`

mod cost;

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use kiln_pool::{Index, NodeState, Pool};
use kiln_recovery::OnDemand;
use kiln_stripe::Observer;
use kiln_volume::LogReport;

use super::domains::check_domains;
use crate::cmd::repair::{recover, show_recovery};
use crate::exit::{Exit, Failure, Result};
use crate::setup::{PoolFlags, Setup, logs, volumes};
use crate::volume_logs::Tended;

/// Servers of volumes look every 5 seconds whether a node with their log leaves.
const SERVERS: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
pub struct Drain {
    /// Id of the node
    #[arg(value_name = "ID")]
    id: String,
    /// Cancel the drain: use the node again
    #[arg(long)]
    undo: bool,
    /// Only mark the node and say what emptying it costs links: `kiln coordinator --wait 0` then
    /// has the agents do it, and a drain without --mark drops the empty node
    #[arg(long, conflicts_with = "undo")]
    mark: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Drain {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let _lock = self.pool.lock("config")?;
        let _repair = self.pool.lock("repair")?;
        let pool = self.pool.open(setup)?;
        let mut config = pool.config().clone();
        let Some(at) = config.position(&self.id) else {
            let problem = format!("the pool has no node {}", self.id);
            return Err(Failure::Flag { flag: "ID", problem });
        };
        let state = if self.undo { NodeState::In } else { NodeState::Leaving };
        let ids = [self.id.clone()];
        let pool = if config.node[at].state == state {
            pool
        } else {
            // Check that there is room elsewhere before anything is moved.
            config.node[at].state = state;
            check_domains(&config, "--node")?;
            self.pool
                .reopen(pool.members().set_state(&ids, state, false, &setup.settings())?, setup)?
        };
        if self.undo {
            return Ok(Exit::Done);
        }
        let index = self.pool.index(&pool, setup)?;
        if self.mark || setup.verbose {
            cost::show(&pool, &index, &self.id, self.mark, setup)?;
        }
        if self.mark {
            return Ok(Exit::Done);
        }
        let on_demand = OnDemand::default();
        let outcome =
            recover(&Arc::new(pool), &index, on_demand, &self.pool, (setup, &setup.settings()));
        setup.observer.finish();
        let mut report = outcome?;
        report.seconds = setup.seconds();
        drop(index);
        // The repair may have settled the map.
        let pool = self.pool.open_quietly(setup)?;
        let index = self.pool.index(&pool, setup)?;
        let (tended, volumes) = self.logs(&index, setup)?;
        show_recovery(&report, &tended, &(), setup)?;
        if let Some(problem) = self.what_stays(&pool, &index, &volumes)? {
            setup.observer.warn(&problem);
            return Ok(Exit::Damaged);
        }
        self.pool.reopen(pool.members().forget(&ids, false, &setup.settings())?, setup)?;
        Ok(Exit::Done)
    }

    /// Closes volumes that are not in use and have a copy of their log on the node, and waits for
    /// those that are in use: who writes one moves its log by itself. Names those that did not.
    fn logs(&self, index: &Index, setup: &Setup) -> Result<(Vec<Tended>, Vec<String>), Failure> {
        let rim = volumes::rim_over(self.pool.open_quietly(setup)?, &self.pool, setup);
        let here = || -> Result<Vec<LogReport>> {
            let mut logs = logs::all(&rim, index, setup)?;
            logs.retain(|log| log.copies.iter().any(|(id, _)| *id == self.id));
            Ok(logs)
        };
        let tended = logs::tend(&rim, here()?, false);
        let (until, mut kept) = (Instant::now() + SERVERS, here()?);
        while !kept.is_empty() && Instant::now() < until {
            std::thread::sleep(LOOK);
            kept = here()?;
        }
        Ok((tended, kept.into_iter().map(|log| log.volume).collect()))
    }

    /// Why the pool cannot do without the node yet, if so.
    fn what_stays(&self, pool: &Pool, index: &Index, volumes: &[String]) -> Result<Option<String>> {
        let (id, mut left, mut objects) = (&self.id, 0, 0);
        index.each_version("", None, |listed| {
            objects += 1;
            left += u64::from(listed.nodes.contains(id) || listed.manifests.contains(id));
            Ok(true)
        })?;
        let problem = if left > 0 {
            format!(
                "node {id} still stores shards or manifests of {left} of {objects} objects; run \
                 kiln repair, then drain again"
            )
        } else if !pool.config().is_settled() {
            // Readers still ask it: without it they would tolerate one loss less.
            format!(
                "node {id} is empty, but not everything is known to be in place yet; run kiln \
                 repair, then drain again"
            )
        } else if !volumes.is_empty() {
            format!(
                "node {id} still has a copy of the log of volume {}; its server should have moved \
                 it: end it, then drain again",
                volumes.join(", ")
            )
        } else {
            return Ok(None);
        };
        Ok(Some(problem))
    }
}
