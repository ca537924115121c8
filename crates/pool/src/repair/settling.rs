//! The end of a change of members: all manifests are where the map of now expects them.

use crate::repair::survey::{NodeStatus, PoolStatus};
use crate::{Index, Key, PoolConfig, map::cluster_map::PoolNode, repair::repairer::Repairer};
use kiln_stripe::{Result, Settings};
use std::sync::Arc;

/// Objects that are asked for at once.
const BATCH: usize = 1_000;

impl Repairer<'_> {
    /// Settles the map if a survey found that no manifest is missing anywhere: from then on only
    /// the homes of now are asked. The index is the one that was surveyed by. `None`: it was
    /// settled, or it cannot be yet.
    /// Errors: as [`Membership::change`](crate::Membership::change); a node that cannot be written.
    pub fn settle(
        &self,
        status: &PoolStatus,
        index: &Index,
        settings: &Settings<'_>,
    ) -> Result<Option<PoolConfig>> {
        let as_seen = |(node, row): (&Arc<PoolNode>, &NodeStatus)| row.present == node.is_here();
        let as_seen = self.map.nodes.iter().zip(&status.nodes).all(as_seen);
        if !as_seen || status.under_replicated > 0 || !self.map.is_backfilling() {
            return Ok(None);
        }
        if !self.is_sure_of_all(index)? {
            return Ok(None);
        }
        self.members.settle_now(settings)
    }

    /// Returns whether the homes of every object, those of before included, tell which version is
    /// the newest. A survey reads names, and with as many domains unavailable as may be one
    /// manifest that is corrupt is enough to hide a version: then all of them are read.
    fn is_sure_of_all(&self, index: &Index) -> Result<bool> {
        let sure =
            |at: usize, since| self.map.nodes[at].is_here() && !self.map.is_newer_than(at, since);
        if self.map.config.all_visible_with_less(sure) {
            return Ok(true);
        }
        let mut all = true;
        index.in_batches("", BATCH, true, |batch| {
            let keys = batch.iter().map(|listed| Ok((Key::of(&listed.name)?, true)));
            let found = self.manifests.ask_each(&keys.collect::<Result<Vec<_>>>()?)?;
            all = found.iter().all(|found| found.certain);
            Ok(all)
        })?;
        Ok(all)
    }
}
