//! One pass of a repair: some shards are rebuilt side by side.

use kiln_store::{Digest, ShardWriter, digest_of, valid_segments};

use super::RepairRequest;
use super::place::{Target, target};
use crate::engine::lanes::{Lanes, in_parallel};
use crate::engine::ledger::{Ledger, PassSums};
use crate::engine::names::{self, Kind};
use crate::engine::rebuild::{Rebuild, chunk_bytes};
use crate::engine::tally::Findings;
use crate::{Moved, PoolError, Result, Settings, ShardSet};

/// What a pass is to do.
pub(super) struct Job<'a> {
    /// The shards as they are.
    pub set: &'a ShardSet,
    /// The request.
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
    pub(super) fn run(&self, ledger: &mut Ledger, settings: &Settings<'_>) -> Result<Vec<usize>> {
        let mut targets: Vec<Target> = Vec::new();
        for &index in self.targets {
            targets.push(target(self.set, self.req, index, &targets)?);
        }
        let found = self.write_parts(&targets, ledger, settings).inspect_err(|_| {
            // The failure itself is what the user must hear of.
            for target in &targets {
                let _ = target.node.store.remove(&target.part);
            }
        })?;
        for target in &targets {
            if let Some(aside) = &target.aside {
                target.node.store.rename(&target.name, aside)?;
                ledger.moved.push(Moved {
                    index: target.index,
                    node: target.node.name.clone(),
                    from: target.name.clone(),
                    to: aside.clone(),
                });
            }
            target.node.store.rename(&target.part, &target.name)?;
        }
        self.remove_replaced(&targets)?;
        Ok(found)
    }

    fn write_parts(
        &self,
        targets: &[Target],
        ledger: &mut Ledger,
        settings: &Settings<'_>,
    ) -> Result<Vec<usize>> {
        let first = self.resumable(targets)?;
        let writers = in_parallel(targets.iter().collect(), |_, target: &Target| {
            let info = self.set.info_of(target.index);
            let store = &*target.node.store;
            match first {
                0 => ShardWriter::create(store, &target.part, &info),
                _ => ShardWriter::resume_verified(store, &target.part, &info, first),
            }
        })?;
        let (set, indices, discard) = (self.set, self.targets, self.discard);
        let devices = self.req.devices.as_ref();
        let rebuild = Rebuild { chunks: set, targets: indices, discard, first, devices };
        let mut lanes = Lanes::new(writers, settings.threads());
        let mut tally = rebuild.run(&mut lanes, settings)?;
        let mut writers = lanes.into_inner();
        let sealed: Vec<Digest> =
            writers.iter_mut().map(ShardWriter::seal).collect::<Result<_, _>>()?;
        let digests = self.digests(&sealed)?;
        in_parallel(writers, |_, writer| writer.finish(set.size(), &digests))?;
        let found = tally.bad_indices();
        let findings = std::mem::take(&mut tally.findings);
        ledger.findings.extend(&self.untold(findings));
        ledger.unverified |= set.digests.is_none();
        let each = chunk_bytes(set, first);
        ledger.resumed_bytes += (chunk_bytes(set, 0) - each) * targets.len() as u64;
        ledger.add(&PassSums {
            targets: indices,
            target_nodes: targets.iter().map(|target| target.node.name.clone()).collect(),
            tally: &tally,
            written_each: each,
        });
        Ok(found.into_iter().filter(|index| !indices.contains(index)).collect())
    }

    /// How many stripes all parts of an interrupted repair have already.
    fn resumable(&self, targets: &[Target]) -> Result<u64> {
        let counts = in_parallel(targets.iter().collect(), |_, target: &Target| {
            let info = self.set.info_of(target.index);
            valid_segments(&*target.node.store, &target.part, &info)
        })?;
        let least = counts.into_iter().min().unwrap_or(0);
        Ok(least * u64::from(self.set.info.segment_stripes))
    }

    /// Digests of all n shards. Those recorded must be met; where none is left, they are computed.
    fn digests(&self, sealed: &[Digest]) -> Result<Vec<Digest>> {
        let set = self.set;
        if let Some(recorded) = &set.digests {
            for (&index, digest) in self.targets.iter().zip(sealed) {
                if *digest != recorded[index] {
                    let todo = "nothing was replaced; keep all shards and report this".into();
                    let object = set.object().to_owned();
                    return Err(PoolError::Mismatch { object, index, todo });
                }
            }
            return Ok(recorded.clone());
        }
        let mut digests = Vec::with_capacity(set.members.len());
        for (index, member) in set.members.iter().enumerate() {
            let at = self.targets.iter().position(|&target| target == index);
            digests.push(match (at, member) {
                (Some(at), _) => sealed[at],
                (None, Some(member)) => digest_of(&member.reader)?,
                (None, None) => {
                    let what = format!("shard {index} is missing but not a target");
                    return Err(PoolError::Internal { what });
                }
            });
        }
        Ok(digests)
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
