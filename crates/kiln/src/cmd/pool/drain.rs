//! `kiln pool drain`

use clap::Args;
use kiln_pool::queue::{RepairQueue, Rules};
use kiln_pool::{Observer, Pool, RecoverRequest};
use kiln_store::Absent;

use super::check_domains;
use crate::cmd::repair::show_recovery;
use crate::exit::{Exit, Failure};
use crate::setup::{PoolFlags, Setup, now_ms};

// Arguments; the summary is in `pool.rs`.
#[derive(Debug, Args)]
pub struct Drain {
    /// Id of the node
    #[arg(value_name = "ID")]
    id: String,

    /// Cancel the drain: use the node again
    #[arg(long)]
    undo: bool,

    #[command(flatten)]
    pool: PoolFlags,
}

impl Drain {
    pub fn run(self, setup: &Setup) -> Result<Exit, Failure> {
        let _lock = self.pool.lock("config")?;
        let _repair = self.pool.lock("repair")?;
        let mut config = self.pool.config()?;
        let Some(at) = config.position(&self.id) else {
            let problem = format!("the pool has no node {}", self.id);
            return Err(Failure::Flag { flag: "ID", problem });
        };
        config.node[at].draining = !self.undo;
        config.revision += 1;
        // Check that there is room elsewhere before anything is moved.
        check_domains(&config)?;
        self.pool.write(&config)?;
        let pool = self.pool.open(setup)?;
        pool.write_description()?;
        if self.undo {
            return Ok(Exit::Done);
        }
        let index = self.pool.index(&pool, setup)?;
        let req = RecoverRequest { now_ms: now_ms(), away: false, dry_run: false };
        let outcome = pool.recover(&index, &req, &setup.settings());
        setup.observer.finish();
        let mut report = outcome?;
        report.seconds = setup.seconds();
        drop(index);
        let index = self.pool.index(&pool, setup)?;
        let mut queue = RepairQueue::new(Rules::default());
        let status = pool.survey(&index, &mut queue, now_ms())?;
        show_recovery(&report, setup)?;
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
        config.node.remove(at);
        config.revision += 1;
        self.pool.write(&config)?;
        Pool::open(config, &|node| setup.open_node(node, Absent::Refuse))?.write_description()?;
        Ok(Exit::Done)
    }
}
