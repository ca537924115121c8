//! The repair of one object of a pool, once its shards have been looked at: where the rebuilt ones
//! go, by which plan, with whose help, and how often putting them in place is tried.

use std::collections::{BTreeMap, BTreeSet};

use kiln_plan::Plan;
use kiln_pool::{Listed, PoolConfig, repair::MissingShards};
use kiln_stripe::{PoolError, Result};

use super::batch::{Batch, DamagedObject, Snapshot};
use super::{attempts::Helper, report::Outcome};

/// Tries of a commit, since nodes may come and go meanwhile.
const COMMITS: u32 = 3;

/// The repair of one object by agents.
#[derive(Debug)]
pub(crate) struct ObjectRepair {
    /// The damage of the version that is there now.
    pub want: DamagedObject,
    /// Shards to rebuild, each with the position of the node that gets it.
    pub targets: Vec<(u16, usize)>,
    /// The joint plan, where it still holds.
    pub plan: Option<Plan>,
}

impl ObjectRepair {
    /// Decides by what is lacking now; a joint plan holds if it was made for just that. `None`:
    /// some of the shards can be given to no node.
    pub fn new(
        batch: &Batch,
        at: usize,
        pool: &Snapshot<'_>,
        lacking: &MissingShards,
        load: &BTreeMap<usize, u64>,
    ) -> Option<ObjectRepair> {
        let job = &batch.repairs()[at];
        let current = current(&job.want, lacking);
        let planned = batch.targets(job).filter(|targets| {
            current.is_none()
                && targets.iter().map(|(index, _)| *index).eq(lacking.lost.iter().copied())
                && targets.iter().all(|(_, node)| pool.usable[*node])
        });
        let plan = planned.as_ref().and_then(|_| batch.plan(job));
        let want = current.unwrap_or_else(|| job.want.clone());
        let load = |node: usize| load.get(&node).copied().unwrap_or(0);
        let targets = planned.or_else(|| pool.places(&want, &lacking.lost, &load))?;
        Some(ObjectRepair { want, targets, plan })
    }

    /// All nodes of the pool by position, with the shards that they are to read: `agents` are the
    /// addresses of those that are agents. Suspects are asked only where too few others are left.
    pub fn helpers(
        &self,
        config: &PoolConfig,
        agents: &[Option<String>],
        lacking: &MissingShards,
        suspects: &BTreeSet<usize>,
    ) -> Vec<Helper> {
        let good = |id: &String| config.position(id).is_some_and(|at| !suspects.contains(&at));
        let trusted = |index: &usize| {
            lacking.sources.iter().any(|(has, id, _)| usize::from(*has) == *index && good(id))
        };
        let others: Vec<usize> =
            (0..lacking.codec.shape().n()).filter(|index| !trusted(index)).collect();
        let choosy = lacking.codec.tolerates(&others);
        let nodes = config.node.iter().zip(agents);
        let helper = |(node, address): (&kiln_pool::NodeConfig, &Option<String>)| {
            let sources = lacking.sources.iter();
            let mine = sources.filter(|(_, id, _)| *id == node.id && (good(id) || !choosy));
            let copied = lacking.leaving.iter().filter(|(_, id, _)| *id == node.id && good(id));
            Helper {
                // Who has no address has no shard and gets none: only its place is kept.
                address: address.clone().unwrap_or_default(),
                shards: (mine.chain(copied))
                    .map(|(index, _, file)| (usize::from(*index), file.clone()))
                    .collect(),
            }
        };
        nodes.map(helper).collect()
    }

    /// The plan, if these nodes have all that it reads.
    pub fn plan_for(&mut self, nodes: &[Helper]) -> Option<Plan> {
        let has = |chunk: usize| nodes.iter().flat_map(|n| &n.shards).any(|s| s.0 == chunk);
        let reads =
            |plan: &Plan| plan.problem().dag().inputs().iter().all(|at| has(at.chunk as usize));
        self.plan.take().filter(reads)
    }
}

/// Returns the damage of an object that is not as it was listed; `None`: it is.
fn current(want: &DamagedObject, lacking: &MissingShards) -> Option<DamagedObject> {
    let (listed, info) = (&want.listed, &lacking.info);
    let size = info.size.unwrap_or(listed.size);
    if listed.nodes == lacking.homes && listed.size == size && listed.code == info.spec {
        return None;
    }
    let (nodes, code) = (lacking.homes.clone(), info.spec.clone());
    let listed = Listed { size, nodes, code, k: info.k, ..listed.clone() };
    // Unfinished parts are of the version that was listed.
    Some(DamagedObject { listed, parts: BTreeMap::new(), ..want.clone() })
}

/// Returns whether agents can repair it: all that have a shard compute, and its code is cut into
/// windows.
pub(crate) fn agents_can(
    config: &PoolConfig,
    agents: &[Option<String>],
    lacking: &MissingShards,
) -> bool {
    let agent = |id: &String| config.position(id).is_some_and(|at| agents[at].is_some());
    let mut read = lacking.sources.iter().chain(&lacking.leaving);
    lacking.codec.sliceable() && read.all(|(_, id, _)| agent(id))
}

/// Putting rebuilt shards in place, which is tried a few times.
#[derive(Debug, Default)]
pub(crate) struct Commit {
    tries: u32,
}

impl Commit {
    /// Returns the end after a try; `None`: a node may have gone since, and those that are left can
    /// commit, so the pool is opened anew and it is tried again.
    pub fn tried(&mut self, outcome: Result<bool>) -> Option<Outcome> {
        self.tries += 1;
        match outcome {
            Ok(true) => Some(Outcome::Repaired),
            Ok(false) => Some(Outcome::Gone),
            Err(PoolError::Store(_)) if self.tries < COMMITS => None,
            Err(error) => Some(Outcome::Failed(error.into())),
        }
    }
}
