//! Repair of many small objects as one: each node is asked once about all of them, gets all of its
//! rebuilt shards by one call, and one commit puts them in place.
//!
//! Shards are rebuilt in memory, where they must have their recorded digests, and are read back
//! from their nodes before the commit, as those of every repair. Where that is not enough (a helper
//! turns out to be damaged, a node is full or fails, another client changes the object meanwhile)
//! nothing is replaced, and the object is left to a repair of its own.

use std::{collections::BTreeSet, convert::Infallible, iter};

use kiln_store::{Digest, MemoryBackend, read_back};
use kiln_stripe::{Result, Sequence, Settings, node::Part, rebuild::chunk_bytes};

use crate::data::shards::ObjectShards;
use crate::manifest::commit::ByNode;
use crate::manifest::quorum::Found;
use crate::map::presence::Asked;
use crate::repair::object_repair::{
    InPlace, RepairRequest, RepairedObject, Target, Work, wrong_of,
};
use crate::{Key, MAX_TOGETHER, Manifest, repair::repairer::Repairer};

/// Most bytes of an object that is repaired together with others, and of all of them.
const SMALL_BYTES: u64 = 1 << 20;
const TOGETHER_BYTES: u64 = 16 << 20;
/// Objects that are rebuilt at once.
const AT_ONCE: u64 = 16;

/// Items that are repaired together, in order: small ones, or one.
pub fn together<T>(mut rest: &[T], bytes_of: impl Fn(&T) -> u64) -> impl Iterator<Item = &[T]> {
    iter::from_fn(move || {
        let mut all = 0;
        let fits = |item: &&T| {
            let bytes = bytes_of(item);
            all += bytes.min(TOGETHER_BYTES);
            bytes <= SMALL_BYTES && all <= TOGETHER_BYTES
        };
        let count = rest.iter().take(MAX_TOGETHER).take_while(fits).count().max(1);
        let (now, later) = rest.split_at_checked(count)?;
        rest = later;
        Some(now)
    })
}

/// An object whose lost shards are rebuilt, so far in memory.
pub(crate) struct Rebuilt {
    key: Key,
    run: [u8; 16],
    targets: Vec<Target>,
    /// The shards of the targets.
    files: Vec<Vec<u8>>,
    digests: Vec<Digest>,
    repaired: RepairedObject,
}

impl Rebuilt {
    /// An object that lacks nothing but copies of its manifest.
    fn of(manifest: &Manifest) -> Result<Rebuilt> {
        let (key, run, object) = (Key::of(&manifest.name)?, manifest.run, manifest.name.clone());
        let repaired = RepairedObject { object, manifest: true, ..RepairedObject::default() };
        let (targets, files, digests) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Rebuilt { key, run, targets, files, digests, repaired })
    }

    /// The shards with their targets.
    fn parts(&self) -> impl Iterator<Item = (&Rebuilt, &Target, &[u8])> {
        self.targets.iter().zip(&self.files).map(move |(target, file)| (self, target, &file[..]))
    }

    fn in_place(&self, now_ms: u64) -> InPlace<'_> {
        let Rebuilt { key, run, targets, repaired, .. } = self;
        InPlace { key: *key, name: &repaired.object, run: *run, targets, now_ms }
    }
}

impl Repairer<'_> {
    /// Repairs objects, none of which is there twice, as [`Repairer::repair`] does each of them,
    /// with an end for each, in order. Small ones are much faster together: they share questions,
    /// locks and syncs. Their rebuilt shards are held in memory, see [`together`].
    pub fn repair_all(
        &self,
        objects: &[(&str, RepairRequest)],
        settings: &Settings<'_>,
    ) -> Vec<Result<RepairedObject>> {
        let names: Vec<&str> = objects.iter().map(|(name, _)| *name).collect();
        let now_ms = objects.first().map_or(0, |(_, req)| req.now_ms);
        let together = self.rebuild_all(&names, now_ms, settings, |at, found, asked, settings| {
            self.rebuild_lacking(&objects[at].1, found, asked, settings)
        });
        let end = |((name, req), done): (&(&str, RepairRequest), Option<RepairedObject>)| {
            done.map_or_else(|| self.repair(name, req, settings), Ok)
        };
        objects.iter().zip(together).map(end).collect()
    }

    /// Has objects rebuilt, and puts them in place together. `None`: an object needs another look.
    pub(crate) fn rebuild_all(
        &self,
        names: &[&str],
        now_ms: u64,
        settings: &Settings<'_>,
        rebuild: impl Fn(usize, &Found, &Asked, &Settings<'_>) -> Result<Option<Rebuilt>> + Sync,
    ) -> Vec<Option<RepairedObject>> {
        let keys: Result<Vec<(Key, bool)>> =
            names.iter().map(|name| Ok((Key::of(name)?, true))).collect();
        let found = match keys {
            Ok(keys) if keys.len() > 1 => self.manifests.ask_each(&keys).unwrap_or_default(),
            _ => Vec::new(),
        };
        if found.is_empty() {
            return names.iter().map(|_| None).collect();
        }
        // Each object on one thread: beside it others are rebuilt.
        let (in_turn, memory) = (Sequence::new(|_| 0), settings.memory / AT_ONCE);
        let one = Settings { threads: 1, memory, sequence: Some(&in_turn), ..*settings };
        let asked = self.map.asked();
        let rebuilt = self.map.in_parallel(found, |at, found| {
            // A version on too few homes is on enough of them after the commit.
            let found = self.manifests.sure(found, names[at]);
            let rebuilt = found.and_then(|found| rebuild(at, &found, &asked, &one));
            Ok::<_, Infallible>(rebuilt.ok().flatten())
        });
        let mut rebuilt = rebuilt.unwrap_or_else(|never| match never {});
        for failed in self.write_rebuilt(&rebuilt) {
            rebuilt[failed] = None;
        }
        let there = rebuilt.iter().flatten().map(|object| object.in_place(now_ms));
        let there: Vec<InPlace<'_>> = there.collect();
        let ends = self.put_all_in_place(&there, settings).unwrap_or_default();
        let mut ends = ends.into_iter();
        let mut is_done = |_: &Rebuilt| matches!(ends.next(), Some(Ok(true)));
        let done = rebuilt.into_iter().map(|object| Some(object.filter(&mut is_done)?.repaired));
        done.collect()
    }

    /// Rebuilds what an object lacks; `None`: that takes more than one step, or it lacks nothing.
    fn rebuild_lacking(
        &self,
        req: &RepairRequest,
        found: &Found,
        asked: &Asked,
        settings: &Settings<'_>,
    ) -> Result<Option<Rebuilt>> {
        let Some(manifest) = &found.newest else { return Ok(None) };
        let Work { health, shards, todo, left, renew } =
            self.work(found, (req.away, &req.suspects), settings)?;
        let rebuilt = if todo.is_empty() {
            renew.then(|| Rebuilt::of(manifest)).transpose()?
        } else if let Some(shards) = shards.filter(|_| health.margin >= 0)
            && let bytes = chunk_bytes(&shards, 0)
            && let (targets, None) = self.targets(manifest, &todo, bytes, asked)?
        {
            self.rebuilt(&shards, targets, &wrong_of(&req.suspects), settings)?
        } else {
            None
        };
        Ok(rebuilt.map(|mut object| {
            object.repaired.left = left;
            object
        }))
    }

    /// Rebuilds shards in memory, without reading those that are `wrong`; `None`: others turned out
    /// to be damaged, or a target is a place without parts.
    pub(crate) fn rebuilt(
        &self,
        shards: &ObjectShards,
        targets: Vec<Target>,
        wrong: &[usize],
        settings: &Settings<'_>,
    ) -> Result<Option<Rebuilt>> {
        if targets.iter().any(|target| self.manifests.is_direct(target.node)) {
            return Ok(None);
        }
        let memory = MemoryBackend::new();
        let part = |target: &Target| {
            let (index, store, name) = (target.index, &memory as _, target.part.clone());
            Part { index, store, name }
        };
        let parts: Vec<Part<'_>> = targets.iter().map(part).collect();
        let mut rebuilt = Rebuilt { digests: shards.digests(), ..Rebuilt::of(&shards.manifest)? };
        let bad = self.rebuild_parts(shards, &parts, wrong, &mut rebuilt.repaired, settings)?;
        rebuilt.files = parts.iter().filter_map(|part| memory.bytes(&part.name)).collect();
        let id = |at: usize| self.map.nodes[at].config.id.clone();
        let nodes = targets.iter().map(|target| (target.index as u16, id(target.node)));
        rebuilt.repaired.rebuilt = nodes.collect();
        Ok(bad.is_empty().then_some(Rebuilt { targets, ..rebuilt }))
    }

    /// Writes rebuilt shards to their nodes, those of a node by one call, and reads them back: they
    /// are durable parts then. Gives the objects of which some are not; their parts are removed.
    fn write_rebuilt(&self, rebuilt: &[Option<Rebuilt>]) -> BTreeSet<usize> {
        let mut parts = ByNode::new();
        for (of, object) in rebuilt.iter().enumerate() {
            for (object, target, bytes) in object.iter().flat_map(Rebuilt::parts) {
                parts.entry(target.node).or_default().push((of, object, target, bytes));
            }
        }
        let parts: Vec<(usize, Vec<_>)> = parts.into_iter().collect();
        let written = self.map.in_parallel(parts, |_, (at, parts)| {
            let files: Vec<(&str, &[u8])> =
                parts.iter().map(|(_, _, target, bytes)| (&target.part[..], *bytes)).collect();
            let ends = self.manifests.for_each(at, &files, |store| store.write_all(&files));
            Ok::<_, Infallible>(parts.into_iter().zip(ends).collect::<Vec<_>>())
        });
        let written = written.unwrap_or_else(|never| match never {}).into_iter().flatten();
        let read = self.map.in_parallel(written.collect(), |_, ((of, object, target, _), end)| {
            let back = || {
                let store = self.map.usable(target.node)?;
                Ok(read_back(store, &target.part, &object.digests[target.index])?)
            };
            Ok::<_, Infallible>((of, end.and_then(|()| back()).is_ok()))
        });
        let read = read.unwrap_or_else(|never| match never {}).into_iter();
        let failed: BTreeSet<usize> = read.filter(|(_, whole)| !whole).map(|(of, _)| of).collect();
        for target in failed.iter().flat_map(|of| &rebuilt[*of]).flat_map(|of| &of.targets) {
            if let Ok(store) = self.map.usable(target.node) {
                // A repair of its own says what is wrong.
                let _ = store.remove(&target.part);
            }
        }
        failed
    }
}
