//! Rebalancing: shards move to where they would be placed now.
//!
//! Placement is by rendezvous hashing, so what a node that joined takes, and what others give, is
//! the least that makes shares follow weights. Each object moves by itself: its shards are copied
//! as hidden parts, read back, and put in place by one commit; so an interrupted run is gone on
//! with by the next one.

use kiln_stripe::{Quiet, Result, Settings, rebuild::chunk_bytes};
use serde::Serialize;

use crate::data::shards::ObjectShards;
use crate::index::{Index, Listed};
use crate::layout::{Body, place};
use crate::manifest::commit::places;
use crate::repair::object_repair::{InPlace, RepairedObject, Target};
use crate::repair::repairer::Repairer;
use crate::repair::together::together;
use crate::{Key, Manifest, NodeState};

/// Failures told one by one.
const MOST_TOLD: usize = 1000;

/// Request to rebalance.
#[derive(Clone, Copy, Debug, Default)]
pub struct RebalanceRequest {
    /// The time, in ms since 1970.
    pub now_ms: u64,
    /// Only say what would be moved.
    pub dry_run: bool,
}

/// Report of a rebalancing.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RebalanceReport {
    /// Objects in the pool.
    pub objects: u64,
    /// Shards that lie elsewhere than they would be placed now.
    pub shards_misplaced: u64,
    /// Shards moved (in a dry run, that would be).
    pub shards_moved: u64,
    /// Chunk bytes moved (in a dry run, that would be).
    pub bytes_moved: u64,
    /// Shards that stay where they are: their nodes are unavailable, or where they should go is
    /// unavailable or has no room.
    pub shards_left: u64,
    /// Objects whose shards could not be moved, and why; at most 1000.
    pub failed: Vec<(String, String)>,
    /// Number that could not be moved.
    pub failed_count: u64,
    /// A dry run.
    pub dry_run: bool,
    /// Wall time, filled by the caller.
    pub seconds: f64,
}

impl Repairer<'_> {
    /// Moves shards to where they would be placed now. The index must be fresh.
    /// Errors: the index. An object that cannot be moved is in the report, and the others are
    /// moved.
    pub fn rebalance(
        &self,
        index: &Index,
        req: &RebalanceRequest,
        settings: &Settings<'_>,
    ) -> Result<RebalanceReport> {
        let mut report = RebalanceReport { dry_run: req.dry_run, ..RebalanceReport::default() };
        let (mut names, mut total) = (Vec::new(), 0);
        index.each_version("", None, |listed| {
            report.objects += 1;
            let misplaced = self.misplaced(&listed)?;
            if misplaced > 0 {
                total += misplaced * listed.size.div_ceil(u64::from(listed.k.max(1)));
                report.shards_misplaced += misplaced;
                names.push((listed.name, listed.size));
            }
            Ok(true)
        })?;
        settings.observer.begin("rebalance", Some(total));
        for names in together(&names, |(_, size)| *size) {
            let names: Vec<&str> = names.iter().map(|(name, _)| &name[..]).collect();
            self.rebalance_together(&names, req, &mut report, settings);
        }
        Ok(report)
    }

    /// Moves shards of objects together, and by themselves those of objects that need more.
    fn rebalance_together(
        &self,
        names: &[&str],
        req: &RebalanceRequest,
        report: &mut RebalanceReport,
        settings: &Settings<'_>,
    ) {
        let quiet = Settings { observer: &Quiet(settings.observer), ..*settings };
        let moved = self.rebuild_all(names, req.now_ms, &quiet, |_, found, _, settings| {
            let Some(manifest) = found.data().filter(|_| !req.dry_run) else { return Ok(None) };
            let shards = ObjectShards::open_with(self.map, manifest, settings)?;
            let (targets, left) = self.moves(manifest, chunk_bytes(&shards, 0))?;
            match targets.is_empty() || left > 0 {
                true => Ok(None),
                false => self.rebuilt(&shards, targets, &[], settings),
            }
        });
        for (name, moved) in names.iter().zip(moved) {
            let end = match moved {
                Some(moved) => {
                    report.shards_moved += moved.rebuilt.len() as u64;
                    report.bytes_moved += moved.bytes_written;
                    Ok(())
                }
                None => self.rebalance_object(name, req, report, &quiet),
            };
            if let Err(error) = end {
                report.failed_count += 1;
                if report.failed.len() < MOST_TOLD {
                    report.failed.push(((*name).to_owned(), error.to_string()));
                }
            }
        }
    }

    /// Nodes that an object's shards would be placed on now, by position.
    fn wanted(&self, key: &Key, count: usize) -> Vec<usize> {
        let (positions, candidates) =
            self.map.candidates(|node| node.config.state == NodeState::In);
        place(key, &candidates, count, &[]).into_iter().map(|at| positions[at]).collect()
    }

    fn misplaced(&self, listed: &Listed) -> Result<u64> {
        let wanted = self.wanted(&Key::of_shards(&listed.name)?, listed.nodes.len());
        let ids: Vec<&str> = wanted.iter().map(|&at| &self.map.nodes[at].config.id[..]).collect();
        let elsewhere = |node: &&String| !ids.contains(&&node[..]);
        Ok(listed.nodes.iter().filter(elsewhere).count() as u64)
    }

    fn rebalance_object(
        &self,
        name: &str,
        req: &RebalanceRequest,
        report: &mut RebalanceReport,
        settings: &Settings<'_>,
    ) -> Result<()> {
        let key = Key::of(name)?;
        let found = self.manifests.look_at_all(&key, name)?;
        // Removed or replaced by something small meanwhile: there is nothing to be moved.
        let Some(manifest) = found.data().filter(|m| matches!(m.body, Body::Shards(_))) else {
            return Ok(());
        };
        let shards = ObjectShards::open(self.map, manifest)?;
        let bytes = chunk_bytes(&shards, 0);
        let (targets, left) = self.moves(manifest, bytes)?;
        report.shards_left += left;
        if targets.is_empty() {
            return Ok(());
        }
        if !req.dry_run {
            let mut repaired = RepairedObject::default();
            self.write_parts(&shards, &targets, &[], &mut repaired, settings)?;
            let (run, now_ms) = (manifest.run, req.now_ms);
            let object = InPlace { key, name, run, targets: &targets, now_ms };
            if !self.put_in_place(&object, settings)? {
                return Ok(());
            }
        }
        report.shards_moved += targets.len() as u64;
        report.bytes_moved += bytes * targets.len() as u64;
        Ok(())
    }

    /// Returns which shards of an object go where, and how many cannot.
    fn moves(&self, manifest: &Manifest, bytes: u64) -> Result<(Vec<Target>, u64)> {
        let held: Vec<Option<usize>> =
            places(manifest).map(|(_, node)| self.map.config.position(node)).collect();
        let wanted = self.wanted(&Key::of_shards(&manifest.name)?, held.len());
        let misplaced = |at: &Option<usize>| at.is_none_or(|at| !wanted.contains(&at));
        let domain = |at: usize| &self.map.nodes[at].config.domain[..];
        // Where every shard is in the end: a domain never has two of them.
        let mut domains: Vec<Option<&str>> = held.iter().map(|at| at.map(domain)).collect();
        let free = wanted.iter().copied().filter(|at| !held.contains(&Some(*at)));
        let mut roomy = Vec::new();
        for at in free {
            if self.map.nodes[at].is_here() && self.writer.has_room(at, bytes)? {
                roomy.push(at);
            }
        }
        let (mut targets, mut left) = (Vec::new(), 0);
        for (index, at) in held.iter().enumerate().filter(|(_, at)| misplaced(at)) {
            let here = at.is_some_and(|at| self.map.nodes[at].is_here());
            domains[index] = if here { None } else { domains[index] };
            let fits = |to: &usize| !domains.contains(&Some(domain(*to)));
            match roomy.iter().position(fits).filter(|_| here) {
                Some(to) => {
                    let node = roomy.remove(to);
                    domains[index] = Some(domain(node));
                    targets.push(self.target(&manifest.name, manifest.run, index as u16, node)?);
                }
                None => {
                    domains[index] = at.map(domain);
                    left += 1;
                }
            }
        }
        Ok((self.named_directly(targets), left))
    }
}
