//! `kiln pool drain`

mod plan;

use std::time::{Duration, Instant};

use clap::Args;
use kiln_pool::queue::{RepairQueue, Rules};
use kiln_pool::{NodeState, Observer, RecoverRequest};
use kiln_volume::LogReport;

use super::check_domains;
use crate::cmd::repair::show_recovery;
use crate::exit::{Exit, Failure};
use crate::setup::{PoolFlags, Setup, logs, now_ms, volumes};

/// Servers of volumes look every 5 seconds whether a node with their log leaves.
const SERVERS: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(500);

// Arguments; the summary is in `pool.rs`.
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
    pub fn run(self, setup: &Setup) -> Result<Exit, Failure> {
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
            check_domains(&config)?;
            self.pool.reopen(pool.set_state(&ids, state, false, &setup.settings())?, setup)?
        };
        if self.undo {
            return Ok(Exit::Done);
        }
        let index = self.pool.index(&pool, setup)?;
        if self.mark || setup.verbose {
            let planned = plan::of(&pool, &index, &self.id, setup)?;
            planned.show(self.mark, setup)?;
        }
        if self.mark {
            return Ok(Exit::Done);
        }
        let req = RecoverRequest { now_ms: now_ms(), away: false, dry_run: false };
        let outcome = pool.recover(&index, &req, &setup.settings());
        setup.observer.finish();
        let mut report = outcome?;
        report.seconds = setup.seconds();
        drop(index);
        // The repair may have settled the map.
        let pool = self.pool.open_quietly(setup)?;
        let index = self.pool.index(&pool, setup)?;
        let mut queue = RepairQueue::new(Rules::default());
        let status = pool.survey(&index, &mut queue, now_ms())?;
        let rim = volumes::rim_over(self.pool.open_quietly(setup)?, &self.pool, setup);
        let logs = || -> Result<Vec<LogReport>, Failure> {
            let mut logs = logs::all(&rim, &index, setup)?;
            logs.retain(|log| log.copies.iter().any(|(id, _)| *id == self.id));
            Ok(logs)
        };
        // Of volumes that nobody uses; who writes one moves its log by itself.
        let tended = logs::tend(&rim, logs()?, false);
        let until = Instant::now() + SERVERS;
        let mut kept = logs()?;
        while !kept.is_empty() && Instant::now() < until {
            std::thread::sleep(LOOK);
            kept = logs()?;
        }
        let volumes: Vec<String> = kept.into_iter().map(|log| log.volume).collect();
        show_recovery(&report, &tended, setup)?;
        let mut left = 0;
        index.each("", None, |listed| {
            left +=
                u64::from(listed.nodes.contains(&self.id) || listed.manifests.contains(&self.id));
            Ok(true)
        })?;
        if left > 0 {
            let problem = format!(
                "node {} still stores shards or manifests of {left} of {} objects; run kiln \
                repair, then drain again",
                self.id, status.objects
            );
            setup.observer.warn(&problem);
            return Ok(Exit::Damaged);
        }
        if !pool.config().is_settled() {
            // Readers still ask it: without it they could bear one loss less.
            setup.observer.warn(&format!(
                "node {} is empty, but not everything is known to be in place yet; run kiln \
                repair, then drain again",
                self.id
            ));
            return Ok(Exit::Damaged);
        }
        if !volumes.is_empty() {
            setup.observer.warn(&format!(
                "node {} still has a copy of the log of volume {}; its server should have moved \
                 it: end it, then drain again",
                self.id,
                volumes.join(", ")
            ));
            return Ok(Exit::Damaged);
        }
        self.pool.reopen(pool.forget(&ids, false, &setup.settings())?, setup)?;
        Ok(Exit::Done)
    }
}
