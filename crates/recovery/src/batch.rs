//! Joint plans for the damaged objects of a pool: which plan and which new nodes for each, so that
//! the busiest link has little to carry. Pure: a snapshot goes in, jobs come out.
//!
//! Objects are planned together when they have the same code, shards of about the same size, and
//! the same choice of new nodes. A shard whose own node is there (with a new disk, say) goes back
//! to it; a part that an earlier attempt left is gone on with where it lies; all others go where
//! the balance is best.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kiln_code::Codec;
use kiln_plan::{COPIED, Cluster, Destination, Layout, Node, Plan, RecoveryOptions, RecoveryPlan};
use kiln_pool::{Listed, PoolConfig, repair::queue::Damaged};

use crate::{RecoveryError, Result};

/// A damaged object.
#[derive(Debug, Clone, Default)]
pub struct DamagedObject {
    /// Its entry in a listing.
    pub listed: Listed,
    /// Its damage.
    pub damaged: Option<Damaged>,
    /// Shards that a scrub found damaged.
    pub suspects: Vec<u16>,
    /// Nodes with a part of its rebuilt shards, by index of the shard.
    pub parts: BTreeMap<u16, usize>,
}

impl DamagedObject {
    /// Indices to rebuild, as known.
    fn lost(&self) -> &[u16] {
        self.damaged.as_ref().map_or(&[], |damaged| &damaged.lost)
    }

    /// Bytes of one of its shards.
    pub fn shard_bytes(&self) -> u64 {
        self.listed.size.div_ceil(u64::from(self.listed.k.max(1)))
    }
}

/// The pool as the planner sees it.
#[derive(Debug)]
pub struct Snapshot<'a> {
    /// Its nodes.
    pub config: &'a PoolConfig,
    /// Says whether a node, by position, can take part.
    pub usable: Vec<bool>,
    /// Nodes that rebuilt shards go to, by position; `None`: wherever there is room.
    pub to: Option<Vec<usize>>,
}

/// Rules by which plans are made.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Strategies whose plans may be chosen.
    pub candidates: Vec<&'static str>,
    /// Seed of the search.
    pub seed: u64,
    /// Its moves, at most.
    pub moves: u64,
}

/// The name that stands for all strategies that help.
pub const JOINT: &str = "joint";

impl Rules {
    /// Plans of one strategy, or of all that help ([`JOINT`]).
    pub fn new(strategy: &str, seed: u64) -> Result<Rules, kiln_plan::PlanError> {
        let RecoveryOptions { strategies, moves, .. } = RecoveryOptions::default();
        let candidates = match strategy {
            JOINT => strategies,
            name => vec![kiln_plan::strategy(name)?.name],
        };
        Ok(Rules { candidates, seed, moves })
    }

    /// The strategy that was named.
    pub fn named(&self) -> Option<&'static str> {
        match self.candidates[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// The strategy for an object that is planned by itself.
    pub fn single(&self) -> &'static str {
        self.named().unwrap_or(kiln_plan::UNDECIDED.name)
    }
}

/// An object to repair.
#[derive(Debug)]
pub struct PlannedRepair {
    /// The object.
    pub want: DamagedObject,
    /// Its place in a joint plan; `None`: it is planned when its turn comes.
    planned: Option<(usize, usize)>,
}

/// Jobs and their joint plans.
#[derive(Debug, Default)]
pub struct Batch {
    groups: Vec<Group>,
    jobs: Vec<PlannedRepair>,
}

/// Objects that are planned together.
#[derive(Debug)]
struct Group {
    plan: RecoveryPlan,
    /// Bytes of a shard, in the mean.
    bytes: f64,
    /// Says whether their shards leave a node that still answers.
    leaving: bool,
}

/// Nodes that may get a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Room {
    /// This one.
    Node(usize),
    /// Those that were named.
    Named,
    /// All.
    All,
}

/// Properties of objects that fit one plan: code, size to a power of two, targets, and the node
/// that they leave while it still answers.
type Kind = (String, u32, Room, Option<usize>);

/// The codes of the objects, by spec.
type Codecs = BTreeMap<String, Codec>;

fn codec_of<'a>(spec: &str, codecs: &'a mut Codecs) -> Result<&'a Codec> {
    if !codecs.contains_key(spec) {
        let codec = spec.parse().and_then(|spec| Codec::new(&spec));
        let codec =
            codec.map_err(|error| RecoveryError::from(kiln_plan::PlanError::from(error)))?;
        codecs.insert(spec.to_owned(), codec);
    }
    Ok(&codecs[spec])
}

impl Batch {
    /// Plans the repair of `wants`. What cannot be planned jointly stays to be planned by itself.
    /// Errors: a code that is unknown; an impossible cluster.
    pub fn new(wants: Vec<DamagedObject>, pool: &Snapshot<'_>, rules: &Rules) -> Result<Batch> {
        let nodes = pool.config.node.iter();
        let nodes = nodes.map(|node| Node::new(node.id.as_str()).in_domain(node.domain.as_str()));
        let cluster = Arc::new(Cluster::new(nodes.collect()).map_err(RecoveryError::from)?);
        let mut kinds: BTreeMap<Kind, Vec<DamagedObject>> = BTreeMap::new();
        let mut codecs = Codecs::new();
        let mut batch = Batch::default();
        for want in wants {
            match pool.kind(&want, &cluster, &mut codecs)? {
                Some(kind) => kinds.entry(kind).or_default().push(want),
                None => batch.jobs.push(PlannedRepair { want, planned: None }),
            }
        }
        for ((spec, _, room, leaving), wants) in kinds {
            let codec = codec_of(&spec, &mut codecs)?;
            let options = RecoveryOptions {
                strategies: rules.candidates.clone(),
                seed: rules.seed,
                moves: rules.moves,
                leaving,
                ..RecoveryOptions::default()
            };
            batch.add(codec, pool.destinations(room), wants, pool, &cluster, &options)?;
        }
        let margin =
            |job: &PlannedRepair| job.want.damaged.as_ref().map_or(0, |damaged| damaged.margin);
        // Stable: within a risk, joint plans keep the order that loads all links at any time.
        batch.jobs.sort_by_key(margin);
        Ok(batch)
    }

    /// Jobs in the order of these objects, each planned when its turn comes.
    pub fn unplanned(wants: Vec<DamagedObject>) -> Batch {
        let jobs = wants.into_iter().map(|want| PlannedRepair { want, planned: None }).collect();
        Batch { groups: Vec::new(), jobs }
    }

    fn add(
        &mut self,
        codec: &Codec,
        to: Vec<usize>,
        wants: Vec<DamagedObject>,
        pool: &Snapshot<'_>,
        cluster: &Arc<Cluster>,
        options: &RecoveryOptions,
    ) -> Result<()> {
        let bytes: u64 = wants.iter().map(DamagedObject::shard_bytes).sum();
        let bytes = bytes as f64 / wants.len().max(1) as f64;
        let mut layout = Layout::new(codec.shape());
        for want in &wants {
            layout.push(&pool.homes(want)).map_err(RecoveryError::from)?;
        }
        let emit = |lost: &[usize], available: &[usize]| Ok(codec.repair_dag(lost, available)?.1);
        let to = Destination::Nodes(to);
        let plan = RecoveryPlan::new(Arc::clone(cluster), layout, &emit, to, options);
        let mut wants: Vec<Option<DamagedObject>> = wants.into_iter().map(Some).collect();
        if let Ok(plan) = plan {
            let group = self.groups.len();
            for (index, job) in plan.jobs().enumerate() {
                let want = wants.get_mut(job.stripe).and_then(Option::take);
                let planned = Some((group, index));
                self.jobs.extend(want.map(|want| PlannedRepair { want, planned }));
            }
            self.groups.push(Group { plan, bytes, leaving: options.leaving.is_some() });
        }
        let left = wants.into_iter().flatten();
        self.jobs.extend(left.map(|want| PlannedRepair { want, planned: None }));
        Ok(())
    }

    /// The jobs, the most endangered objects first.
    pub fn repairs(&self) -> &[PlannedRepair] {
        &self.jobs
    }

    /// The new nodes of a job, by lost shard; nothing when it has no place in a joint plan.
    pub fn targets(&self, job: &PlannedRepair) -> Option<Vec<(u16, usize)>> {
        let (group, index) = job.planned?;
        let planned = self.groups.get(group)?.plan.jobs().nth(index)?;
        let targets = planned.targets.iter().map(|&node| usize::from(node));
        Some(planned.lost.iter().map(|&chunk| chunk as u16).zip(targets).collect())
    }

    /// The plan of a job, on nodes by their position in the pool.
    pub fn plan(&self, job: &PlannedRepair) -> Option<Plan> {
        let (group, index) = job.planned?;
        self.groups.get(group)?.plan.plan(index).ok()
    }

    /// Returns whether a job's shard is on a node that is to be emptied, and is to be rebuilt from
    /// the others all the same, since that node's link has enough to carry.
    pub fn rebuilds_leaving(&self, job: &PlannedRepair) -> bool {
        let planned = job.planned.and_then(|(group, index)| {
            let group = self.groups.get(group).filter(|group| group.leaving)?;
            group.plan.jobs().nth(index)
        });
        planned.is_some_and(|job| job.strategy != COPIED)
    }

    /// Returns the load of the busiest node, and the bytes that all send, as planned jointly.
    pub fn bytes(&self) -> (f64, f64) {
        self.loads(|group| group.bytes)
    }

    /// Returns the load of the busiest node, and what all send, as planned; a chunk of a group
    /// counts as `weight` says.
    fn loads(&self, weight: impl Fn(&Group) -> f64) -> (f64, f64) {
        let mut loads: Vec<(f64, f64)> = Vec::new();
        for group in &self.groups {
            let weight = weight(group);
            for (at, (sent, got)) in group.plan.sent().zip(group.plan.received()).enumerate() {
                if loads.len() <= at {
                    loads.push((0.0, 0.0));
                }
                loads[at].0 += sent * weight;
                loads[at].1 += got * weight;
            }
        }
        let busiest = loads.iter().map(|(sent, got)| sent.max(*got)).fold(0.0, f64::max);
        (busiest, loads.iter().map(|load| load.0).sum())
    }

    /// Returns a lower bound of the first of [`Batch::bytes`], where all objects are planned as
    /// one.
    pub fn bound_bytes(&self) -> Option<f64> {
        Some(self.bound()? * self.groups.first()?.bytes)
    }

    /// Bytes at the busiest node over all bytes sent, as planned; `None` without joint plans.
    pub fn concentration(&self) -> Option<f64> {
        let (load, sent) = self.loads(|_| 1.0);
        (sent > 0.0).then(|| load / sent)
    }

    /// Chunks that the busiest node sends or receives, as planned.
    pub fn busiest(&self) -> f64 {
        self.loads(|_| 1.0).0
    }

    /// Returns a lower bound of [`Batch::busiest`], where all objects are planned as one.
    pub fn bound(&self) -> Option<f64> {
        match &self.groups[..] {
            [only] if self.jobs.iter().all(|job| job.planned.is_some()) => Some(only.plan.bound()),
            _ => None,
        }
    }
}

impl Snapshot<'_> {
    /// The node of every shard; nothing for those to rebuild.
    fn homes(&self, want: &DamagedObject) -> Vec<Option<u16>> {
        let home = |(index, id): (usize, &String)| {
            let lost = want.lost().contains(&(index as u16));
            self.config.position(id).filter(|_| !lost).map(|at| at as u16)
        };
        want.listed.nodes.iter().enumerate().map(home).collect()
    }

    /// Returns the group of an object; `None`: it has none.
    fn kind(
        &self,
        want: &DamagedObject,
        cluster: &Cluster,
        codecs: &mut Codecs,
    ) -> Result<Option<Kind>> {
        let (lost, nodes) = (want.lost(), &want.listed.nodes);
        let known = |index: &u16| usize::from(*index) < nodes.len();
        if lost.is_empty() || !lost.iter().all(known) {
            return Ok(None);
        }
        let room = match codec_of(&want.listed.code, codecs)?.sliceable() {
            true => self.room(want, cluster),
            false => None,
        };
        let bits = want.shard_bytes().max(1).ilog2();
        let leaving = self.leaving(want);
        Ok(room.map(|room| (want.listed.code.clone(), bits, room, leaving)))
    }

    /// The node that an object's only shard to move leaves, and which can still give it.
    fn leaving(&self, want: &DamagedObject) -> Option<usize> {
        let [index] = want.lost() else { return None };
        let id = want.listed.nodes.get(usize::from(*index))?;
        let at = self.config.position(id)?;
        (self.usable[at] && self.config.node[at].is_leaving()).then_some(at)
    }

    /// Returns the targets of an object that can be planned jointly; `None`: it can not.
    fn room(&self, want: &DamagedObject, cluster: &Cluster) -> Option<Room> {
        let lost = want.lost();
        let homes = self.homes(want);
        let away = |home: &Option<u16>| home.is_some_and(|at| !self.usable[usize::from(at)]);
        if homes.iter().any(away) || homes.iter().filter(|home| home.is_none()).count() > lost.len()
        {
            return None;
        }
        let fixed = self.fixed(want);
        if let (None, true) = (fixed, lost.iter().any(|i| self.own(want, *i).is_some())) {
            // Several shards, some with a place of their own: no joint plan says that.
            return None;
        }
        let taken: Vec<_> = homes.iter().flatten().map(|at| cluster.domain((*at).into())).collect();
        let fits = |room: &Room| {
            let domains = self.destinations(*room).into_iter().map(|at| cluster.domain(at));
            let free: BTreeSet<_> = domains.filter(|domain| !taken.contains(domain)).collect();
            free.len() >= lost.len()
        };
        self.rooms(fixed).into_iter().find(fits)
    }

    /// Returns targets of a shard, the best first; if named nodes have no room for it, others.
    fn rooms(&self, fixed: Option<usize>) -> Vec<Room> {
        let named = self.to.as_ref().map(|_| Room::Named);
        fixed.map(Room::Node).into_iter().chain(named).chain([Room::All]).collect()
    }

    /// The one node that an object's only lost shard must go to.
    fn fixed(&self, want: &DamagedObject) -> Option<usize> {
        let [index] = want.lost() else { return None };
        self.own(want, *index)
    }

    /// The node that a shard must go to: the one named, its own, or the one with a part of it.
    fn own(&self, want: &DamagedObject, index: u16) -> Option<usize> {
        let usable = |at: &usize| self.usable.get(*at).copied().unwrap_or(false);
        let part = want.parts.get(&index).copied().filter(usable);
        if let Some(to) = &self.to {
            return part.filter(|at| to.contains(at));
        }
        let own = want.listed.nodes.get(usize::from(index));
        let own = own.and_then(|id| self.config.position(id));
        own.filter(|at| usable(at) && !self.config.node[*at].is_leaving()).or(part)
    }

    /// Nodes that may get shards.
    fn destinations(&self, room: Room) -> Vec<usize> {
        let wanted = match (room, &self.to) {
            (Room::Node(node), _) => vec![node],
            (Room::Named, Some(to)) => to.clone(),
            (Room::Named | Room::All, _) => (0..self.usable.len()).collect(),
        };
        let good = |at: &usize| self.usable[*at] && !self.config.node[*at].is_leaving();
        wanted.into_iter().filter(good).collect()
    }

    /// Nodes for the shards of an object that is planned by itself: `lost` go elsewhere than
    /// where `homes` says that the others are. `load` says how much a node has got already.
    pub fn places(
        &self,
        want: &DamagedObject,
        lost: &[u16],
        load: &dyn Fn(usize) -> u64,
    ) -> Option<Vec<(u16, usize)>> {
        let domain = |at: usize| &self.config.node[at].domain;
        let homes = want.listed.nodes.iter().enumerate();
        let kept = homes.filter(|(index, _)| !lost.contains(&(*index as u16)));
        let mut taken: Vec<&String> =
            kept.filter_map(|(_, id)| Some(domain(self.config.position(id)?))).collect();
        let mut places = Vec::new();
        for &index in lost {
            let free = |room: Room| {
                let free = self.destinations(room).into_iter();
                let apart = free.filter(|at| !taken.contains(&domain(*at)));
                apart.min_by_key(|at| (load(*at), *at))
            };
            let at = self.rooms(self.own(want, index)).into_iter().find_map(free)?;
            taken.push(domain(at));
            places.push((index, at));
        }
        Some(places)
    }
}

#[cfg(test)]
mod tests;
