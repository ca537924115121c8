//! One pass of a repair: some shards are rebuilt side by side.

use kiln_store::move_file;
use kiln_stripe::names::{self, Kind};
use kiln_stripe::node::Part;
use kiln_stripe::rebuild::rebuild_shards;
use kiln_stripe::repair_statistics::{PassStatistics, RepairStatistics};
use kiln_stripe::stripe_statistics::Findings;
use kiln_stripe::{Moved, Result, Settings};

use super::RepairRequest;
use super::place::{Target, target};
use crate::ShardSet;

/// Task of a pass.
pub(super) struct Job<'a> {
    /// The shards as they are.
    pub set: &'a ShardSet,
    pub req: &'a RepairRequest,
    /// Indices to rebuild, ascending.
    pub targets: &'a [usize],
    /// Indices of which nothing is to be read.
    pub discard: &'a [usize],
    /// Indices whose damage has been told already.
    pub told: &'a [bool],
}

impl Job<'_> {
    /// Does it. Returns the indices of other shards that turned out to be damaged.
    pub(super) fn run(
        &self,
        totals: &mut RepairStatistics,
        settings: &Settings<'_>,
    ) -> Result<Vec<usize>> {
        let mut targets: Vec<Target> = Vec::new();
        for &index in self.targets {
            targets.push(target(self.set, self.req, index, &targets)?);
        }
        let found = self.rebuild(&targets, totals, settings)?;
        for target in &targets {
            if let Some(aside) = &target.aside {
                move_file(&*target.node.store, &target.name, aside)?;
                totals.moved.push(Moved {
                    index: target.index,
                    node: target.node.name.clone(),
                    from: target.name.clone(),
                    to: aside.clone(),
                });
            }
            move_file(&*target.node.store, &target.part, &target.name)?;
        }
        self.remove_replaced(&targets)?;
        Ok(found)
    }

    fn rebuild(
        &self,
        targets: &[Target],
        totals: &mut RepairStatistics,
        settings: &Settings<'_>,
    ) -> Result<Vec<usize>> {
        let parts: Vec<Part<'_>> = (targets.iter())
            .map(|t| Part { index: t.index, store: &*t.node.store, name: t.part.clone() })
            .collect();
        let devices = self.req.devices.as_ref();
        let mut rebuilt = rebuild_shards(self.set, &parts, self.discard, devices, settings)?;
        let found = rebuilt.statistics.bad_indices();
        let findings = std::mem::take(&mut rebuilt.statistics.findings);
        totals.findings.extend(&self.untold(findings));
        totals.unverified |= self.set.digests.is_none();
        totals.resumed_bytes += rebuilt.kept_each * targets.len() as u64;
        totals.add(&PassStatistics {
            targets: self.targets,
            target_nodes: targets.iter().map(|target| target.node.name.clone()).collect(),
            statistics: &rebuilt.statistics,
            written_each: rebuilt.written_each,
        });
        Ok(found.into_iter().filter(|index| !self.targets.contains(index)).collect())
    }

    fn untold(&self, findings: Findings) -> Findings {
        if !self.told.contains(&true) {
            return findings;
        }
        let mut kept = Findings::default();
        let new = |index: Option<usize>| index.is_none_or(|index| !self.told[index]);
        findings.list.into_iter().filter(|d| new(d.index)).for_each(|d| kept.push(d));
        kept
    }

    /// A target that stood elsewhere (a damaged shard under a wrong name or on another node) is
    /// now in place; what it replaced goes.
    fn remove_replaced(&self, targets: &[Target]) -> Result<()> {
        for target in targets {
            let Some(member) = &self.set.members[target.index] else { continue };
            let node = &self.set.nodes[member.node];
            if !(node.is(&target.node) && member.name == target.name) {
                node.store.remove(&member.name)?;
            }
        }
        Ok(())
    }
}

/// Removes parts of earlier repairs that nobody needs any more.
pub(super) fn remove_stale_parts(set: &ShardSet) {
    for node in &set.nodes {
        for name in node.store.list().unwrap_or_default() {
            let stale = matches!(names::parse(&name), Some((Kind::RepairPart, Some((object, _))))
                if object == set.object());
            if stale {
                let _ = node.store.remove(&name);
            }
        }
    }
}
