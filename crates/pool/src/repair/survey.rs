//! Damage of a pool, from names alone: which shards are listed by their nodes.
//!
//! Opening every shard of a million objects takes minutes; listing the nodes takes seconds. Memory
//! is bounded: nodes are taken in groups, and the queue has its capacity.

mod judge;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use kiln_stripe::Result;
use serde::Serialize;

use self::judge::{Counted, Lack};
use crate::index::{ASKED, Index, Lookup, THE_MANIFEST, suspected};
use crate::map::{config::is_zero, meta_files::epoch_of};
use crate::repair::damage_marks::Mark;
use crate::repair::queue::{Damaged, RepairQueue};
use crate::repair::repairer::Repairer;
use crate::{Key, NodeFile};

/// State of a pool, as far as the names on its nodes tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PoolStatus {
    /// The pool's name.
    pub pool: String,
    /// Objects.
    pub objects: u64,
    /// Of these, versions that were replaced or removed and are kept.
    #[serde(skip_serializing_if = "is_zero")]
    pub kept: u64,
    /// Bytes of all objects.
    pub bytes: u64,
    /// Objects that lack nothing.
    pub whole: u64,
    /// Objects that lack shards or manifests, by how many further losses they tolerate.
    pub endangered: BTreeMap<i32, u64>,
    /// Objects that cannot be read now.
    pub unreadable: u64,
    /// Objects of which it cannot be said now whether what is here is in force: too many of the
    /// nodes that would know are unavailable. They are neither whole nor damaged.
    #[serde(skip_serializing_if = "is_zero")]
    pub unasked: u64,
    /// Of the endangered ones those that lack nothing that could be rebuilt: nodes are unavailable
    /// that have copies of their manifests, or would be asked for them.
    #[serde(skip)]
    pub waiting: u64,
    /// Objects that lack copies of their manifest on nodes that are there.
    #[serde(rename = "thin")]
    pub under_replicated: u64,
    /// Bytes that a repair would write.
    pub to_rebuild: u64,
    /// The nodes.
    pub nodes: Vec<NodeStatus>,
    /// So many nodes are unavailable that there may be objects which only they know.
    pub incomplete: bool,
    /// Shards that belong to no object that is known: left over, or of an object whose manifests
    /// are lost. A scrub says which.
    pub unclaimed: u64,
    /// Shards that belong to an object and are there.
    #[serde(skip)]
    pub claimed: u64,
    /// Shards that repairs have begun to write: object, index, position of the node.
    #[serde(skip)]
    pub unfinished: Vec<(Key, u16, usize)>,
    /// Wall time, filled by the caller.
    pub seconds: f64,
}

/// One node.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NodeStatus {
    /// Its id.
    pub id: String,
    /// URL of its place.
    pub url: String,
    /// Its domain.
    pub domain: String,
    /// It can be used.
    pub present: bool,
    /// It is being emptied.
    pub draining: bool,
    /// It has a new disk, which may lack something still.
    #[serde(rename = "filling")]
    pub backfilling: bool,
    /// Bytes of its file system, where it can tell.
    #[serde(rename = "bytes_total", skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Of these, bytes that can still be written.
    #[serde(rename = "bytes_free", skip_serializing_if = "Option::is_none")]
    pub free: Option<u64>,
    /// Shards that are there.
    pub shards: u64,
    /// Manifests that are there.
    pub manifests: u64,
    /// Shards that should be there and are not.
    pub missing: u64,
    /// Its copy of the pool's map is lost or damaged.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub blind: bool,
    /// Why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Files of several nodes, as marks of 128 bits: all that a pass over the index compares with.
#[derive(Default)]
struct Group {
    /// Node id to position.
    nodes: HashMap<String, usize>,
    marks: HashSet<u128>,
    shards: u64,
    /// Objects that the index does not know, of which there are manifests.
    unknown: BTreeSet<Key>,
}

/// File of an object that a mark stands for.
#[derive(Copy, Clone)]
enum Part<'a> {
    Shard(&'a [u8; 16], u16),
    Manifest,
}

fn mark(node: usize, key: &Key, part: Part<'_>) -> u128 {
    let mut bytes = [0; 38];
    bytes[..16].copy_from_slice(&key.0);
    bytes[16..18].copy_from_slice(&(node as u16).to_le_bytes());
    if let Part::Shard(run, index) = part {
        bytes[18] = 1;
        bytes[19..35].copy_from_slice(run);
        bytes[35..37].copy_from_slice(&index.to_le_bytes());
    }
    xxhash_rust::xxh3::xxh3_128(&bytes)
}

/// Marks held at once: some 100 MB.
const MOST_MARKS: usize = 4_000_000;

/// Unfinished shards remembered: more only lose their head start.
const MOST_UNFINISHED: usize = 100_000;

/// Manifests of no known object that are looked at.
const MOST_UNKNOWN: usize = 100_000;

impl Repairer<'_> {
    /// Surveys the pool and fills the queue with what a repair should do, the most endangered
    /// first. The index must be fresh. `queue` bounds what is remembered of damaged objects.
    /// Errors: the index; a node that fails while it is listed counts as unavailable.
    pub fn survey(
        &self,
        index: &Index,
        queue: &mut RepairQueue,
        now_ms: u64,
    ) -> Result<PoolStatus> {
        let mut status = PoolStatus { pool: self.map.config.name.clone(), ..PoolStatus::default() };
        let mut lacks: BTreeMap<Key, Lack> = BTreeMap::new();
        let (mut marks, mut group) = (Vec::new(), Group::default());
        let lookup = index.lookup()?;
        self.map.enter(0..self.map.nodes.len());
        for at in 0..self.map.nodes.len() {
            let row = self.list_node(at, &lookup, &mut group, (&mut status.unfinished, &mut marks));
            status.nodes.push(row);
            if group.marks.len() >= MOST_MARKS {
                let unknown = std::mem::take(&mut group.unknown);
                let full = std::mem::replace(&mut group, Group { unknown, ..Group::default() });
                self.compare(index, &full, &mut status, &mut lacks)?;
            }
        }
        self.compare(index, &group, &mut status, &mut lacks)?;
        self.take_up_marks(index, marks)?;
        // Damaged objects only: bounded by the queue's capacity.
        for (key, mut lost) in index.damage(MOST_DAMAGED)? {
            let all = lost.len();
            lost.retain(|index| *index != THE_MANIFEST);
            lost.iter_mut().for_each(|index| *index = suspected(*index).0 as u16);
            let under_replicated = lost.len() < all;
            let lack = lacks.entry(key).or_default();
            lack.lost.extend(lost);
            lack.under_replicated |= under_replicated;
        }
        let seen = self.seen(&status);
        let mut all = Counted { status: &mut status, queue, now_ms };
        // Logs are read where something is lacking only: far away they are what a survey costs.
        let (mut changed, mut doubtful) = (None, Vec::new());
        index.each_version("", None, |listed| {
            all.status.kept += u64::from(listed.kept.is_some());
            let (key, judged) = self.judge(&listed, &lacks, &seen)?;
            if judged.lacks_something() && changed.is_none() {
                changed = Some(index.changed(self.map)?);
            }
            let has_changed = |keys: &HashSet<Key>| keys.contains(&key);
            let changed = changed.as_ref().and_then(|changed| changed.as_ref().map(has_changed));
            match judged.is_doubtful(changed) {
                true if doubtful.len() < MOST_DAMAGED => doubtful.push(key),
                _ => all.count(key, judged),
            }
            Ok(true)
        })?;
        self.look_again(&doubtful, lacks, &seen, index, &mut all)?;
        // That an object was removed must not be forgotten either.
        let unsettled = self.map.is_backfilling();
        for listed in index.tombstones()? {
            let key = Key::of(&listed.name)?;
            if self.is_misplaced(&key, &listed) || (unsettled && self.lacks_copies(&key)?) {
                status.under_replicated += 1;
                let (lost, transient) = (Vec::new(), false);
                queue.report(Damaged { key, lost, margin: 0, bytes: 0, transient }, now_ms);
            }
        }
        // Nor an object that is known by a manifest alone that cannot be read.
        for key in &group.unknown {
            status.under_replicated += u64::from(self.manifests.ask(key, true)?.may_hide());
        }
        let here: u64 = status.nodes.iter().map(|row| row.shards).sum();
        status.incomplete = !self.map.config.all_visible(|at, _| status.nodes[at].present);
        status.unclaimed = here.saturating_sub(status.claimed);
        Ok(status)
    }

    fn list_node(
        &self,
        at: usize,
        index: &Lookup,
        group: &mut Group,
        (unfinished, marks): (&mut Vec<(Key, u16, usize)>, &mut Vec<Mark>),
    ) -> NodeStatus {
        let config = &self.map.nodes[at].config;
        let mut row = NodeStatus {
            id: config.id.clone(),
            url: config.url.clone(),
            domain: config.domain.clone(),
            draining: config.is_leaving(),
            backfilling: false,
            ..NodeStatus::default()
        };
        group.nodes.insert(config.id.clone(), at);
        let listed = self.map.nodes[at].store().map_err(str::to_owned).and_then(|store| {
            let listed = store.each_name(&mut |name| {
                match NodeFile::parse(name) {
                    Some(NodeFile::Shard { key, run, index }) => {
                        row.shards += 1;
                        group.shards += 1;
                        group.marks.insert(mark(at, &key, Part::Shard(&run, index)));
                    }
                    Some(NodeFile::Manifest { key }) => {
                        row.manifests += 1;
                        group.marks.insert(mark(at, &key, Part::Manifest));
                        if group.unknown.len() < MOST_UNKNOWN && index.lacks(&key) {
                            group.unknown.insert(key);
                        }
                    }
                    Some(NodeFile::Damaged { key, run, index }) if marks.len() < MOST_DAMAGED => {
                        marks.push((key, run, index));
                    }
                    Some(NodeFile::RepairPart { key, index, by, .. })
                        if by == self.map.config.repairer && unfinished.len() < MOST_UNFINISHED =>
                    {
                        unfinished.push((key, index, at));
                    }
                    _ => {}
                }
                Ok(())
            });
            listed.map_err(|error| error.to_string())
        });
        row.present = listed.is_ok();
        let blind = |store| !matches!(epoch_of(store, &self.map.config), Ok(Some(_)));
        row.blind = row.present && self.map.usable(at).is_ok_and(blind);
        if let (true, Ok(Some(space))) =
            (row.present, self.map.usable(at).map(|s| s.space().ok().flatten()))
        {
            (row.total, row.free) = (Some(space.total), Some(space.free));
        }
        row.backfilling = row.present && self.map.is_unsure(at);
        row.why = listed.err();
        row
    }

    /// Goes through all objects and notes what the nodes of a group lack.
    fn compare(
        &self,
        index: &Index,
        group: &Group,
        status: &mut PoolStatus,
        lacks: &mut BTreeMap<Key, Lack>,
    ) -> Result<()> {
        if group.nodes.is_empty() {
            return Ok(());
        }
        let before = status.claimed;
        index.each_version("", None, |listed| {
            let (key, of_shards) = (Key::of(&listed.name)?, Key::of_shards(&listed.name)?);
            let run = kiln_stripe::names::unhex(&listed.run).unwrap_or_default();
            let mut lack = Lack::default();
            for (number, id) in listed.nodes.iter().enumerate() {
                let Some(&at) = group.nodes.get(id) else { continue };
                let (row, number) = (&mut status.nodes[at], number as u16);
                let there = row.present
                    && group.marks.contains(&mark(at, &of_shards, Part::Shard(&run, number)));
                row.missing += u64::from(!there);
                status.claimed += u64::from(there);
                if !there || row.draining {
                    lack.lost.push(number);
                }
                if !row.present && !row.draining {
                    lack.away.push(number);
                }
            }
            for id in &listed.manifests {
                let Some(&at) = group.nodes.get(id) else { continue };
                let row = &status.nodes[at];
                let there = group.marks.contains(&mark(at, &key, Part::Manifest));
                lack.manifests += u16::from(row.present && !there);
            }
            let lacks_something = !lack.lost.is_empty() || lack.manifests > 0;
            if lacks_something && (lacks.len() < MOST_DAMAGED || lacks.contains_key(&key)) {
                let known = lacks.entry(key).or_default();
                known.lost.extend(lack.lost);
                known.away.extend(lack.away);
                known.manifests += lack.manifests;
            }
            Ok(true)
        })?;
        if status.claimed - before < group.shards {
            status.claimed += self.claimed_since(index, group)?;
        }
        Ok(())
    }

    /// Shards of a group's nodes that are of what was put since the index was brought up to date,
    /// as far as logs tell of it.
    fn claimed_since(&self, index: &Index, group: &Group) -> Result<u64> {
        let mut changed: Vec<Key> = index.changed(self.map)?.into_iter().flatten().collect();
        // In one order, whatever the set's: a simulated run is the same each time.
        changed.sort_unstable();
        let mut claimed = 0;
        for keys in changed.chunks(ASKED) {
            for (key, new) in keys.iter().zip(self.manifests.listed_now(keys)?) {
                let Some(new) = new else { continue };
                let known = index.by_key(key)?.filter(|known| known.run == new.run);
                let run = kiln_stripe::names::unhex(&new.run).unwrap_or_default();
                for (number, id) in new.nodes.iter().enumerate() {
                    if known.as_ref().is_some_and(|known| known.nodes.get(number) == Some(id)) {
                        continue;
                    }
                    let Some(&at) = group.nodes.get(id) else { continue };
                    let key = Key::of_shards(&new.name)?;
                    let mark = mark(at, &key, Part::Shard(&run, number as u16));
                    claimed += u64::from(group.marks.contains(&mark));
                }
            }
        }
        Ok(claimed)
    }
}

/// Damaged objects remembered at once: some 100 MB; a pool with more is surveyed again after
/// these are repaired.
const MOST_DAMAGED: usize = 1_000_000;
