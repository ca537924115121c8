//! The repair of one object of a pool.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kiln_plan::Plan;
use kiln_pool::{Lacking, Listed, MendRequest, Needs, Pool, PoolError};

use super::report::NodeLoad;
use super::{Control, FULL, SUSPECT, Shared, locked};
use crate::batch::{Batch, Want};
use crate::net::Address;
use crate::net::recover::{Defeat, Helper, Recovered, Recovery, Watcher};
use crate::proto::assignment::Geometry;
use crate::task::usual_slice;
use crate::{NodeError, Result};

/// How often a commit is tried, since nodes may come and go meanwhile.
const COMMITS: u32 = 3;
const BETWEEN: Duration = Duration::from_millis(500);
/// Windows under way at each agent for one repair at least: disk, computing and network overlap.
const LEAST_WINDOWS: u32 = 3;

/// How the repair of an object ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It is done.
    Repaired,
    /// There was nothing to do.
    Whole,
    /// The object was removed or replaced.
    Gone,
    /// Not now.
    Failed(NodeError),
}

/// An end with what it took.
#[derive(Debug)]
pub(super) struct Ended {
    pub outcome: Outcome,
    /// Strategy of the plan; `None`: computed here.
    pub strategy: Option<&'static str>,
    /// By id of the node.
    pub nodes: BTreeMap<String, NodeLoad>,
    pub rebuilt: u64,
    pub resumed: u64,
    pub given_up: Vec<String>,
    /// Shards that turned out to be damaged.
    pub rotten: Vec<u16>,
    /// Bytes read and written by a repair that was computed here.
    pub central: (u64, u64),
}

impl Ended {
    fn with(outcome: Outcome) -> Ended {
        Ended {
            outcome,
            strategy: None,
            nodes: BTreeMap::new(),
            rebuilt: 0,
            resumed: 0,
            given_up: Vec::new(),
            rotten: Vec::new(),
            central: (0, 0),
        }
    }

    pub fn failed(error: NodeError) -> Ended {
        Ended::with(Outcome::Failed(error))
    }
}

/// Tells progress of one repair as what it adds to all.
struct Watch<'a> {
    control: &'a dyn Control,
    shared: &'a Shared<'a>,
    told: AtomicU64,
}

impl Watcher for Watch<'_> {
    fn kept(&self, bytes: u64, _total: u64) {
        let before = self.told.fetch_max(bytes, Ordering::Relaxed);
        let more = bytes.saturating_sub(before);
        self.shared.kept.fetch_add(more, Ordering::Relaxed);
        self.control.advance(more);
    }

    fn beside(&self) -> u64 {
        self.shared.kept.load(Ordering::Relaxed)
    }

    fn replanned(&self, why: &str) {
        self.control.warn(&format!("planned again {why}"));
    }

    fn rate(&self) -> Option<u64> {
        if self.shared.recovery.options.jobs <= 1 {
            // Nobody else looks at them meanwhile.
            self.shared.look_at_limits();
        }
        Some(self.shared.rate.load(Ordering::Relaxed))
    }

    fn stopped(&self) -> bool {
        self.control.stopped()
    }
}

/// What is wanted of an object that is not as it was listed; `None`: it is.
fn current(want: &Want, lacking: &Lacking) -> Option<Want> {
    let (listed, info) = (&want.listed, &lacking.info);
    let size = info.size.unwrap_or(listed.size);
    if listed.nodes == lacking.homes && listed.size == size && listed.code == info.spec {
        return None;
    }
    let (nodes, code) = (lacking.homes.clone(), info.spec.clone());
    let listed = Listed { size, nodes, code, k: info.k, ..listed.clone() };
    // Unfinished parts are of the version that was listed.
    Some(Want { listed, parts: BTreeMap::new(), ..want.clone() })
}

impl Shared<'_> {
    /// Repairs the object of a job.
    pub fn job(&self, batch: &Batch, at: usize) -> Ended {
        let job = &batch.jobs()[at];
        let (pool, want) = (self.pool(), &job.want);
        let req = MendRequest {
            now_ms: self.recovery.control.now_ms(),
            away: true,
            suspects: want.suspects.clone(),
        };
        let name = &want.listed.name;
        let lacking = match pool.needs(name, &req, &self.recovery.settings) {
            Ok(Needs::Rebuild(lacking)) if self.agents_can(&pool, &lacking) => lacking,
            Ok(Needs::Nothing) => return Ended::with(Outcome::Whole),
            Ok(_) => return self.mend(&pool, name, &req),
            Err(PoolError::NoObject { .. }) => return Ended::with(Outcome::Gone),
            Err(error) => return Ended::failed(error.into()),
        };
        let snapshot = self.snapshot(&pool);
        // The object may be another version than the one that was listed.
        let current = current(want, &lacking);
        let want = current.as_ref().unwrap_or(want);
        // The joint plan holds if it was made for what is lost now.
        let planned = batch.targets(job).filter(|targets| {
            current.is_none()
                && targets.iter().map(|(index, _)| *index).eq(lacking.lost.iter().copied())
                && targets.iter().all(|(_, node)| snapshot.usable[*node])
        });
        let plan = planned.as_ref().and_then(|_| batch.plan(job));
        let load = |node: usize| locked(&self.load).get(&node).copied().unwrap_or(0);
        let targets = planned.or_else(|| snapshot.places(want, &lacking.lost, &load));
        match targets {
            Some(targets) => self.rebuild(&pool, want, &lacking, &targets, plan),
            None => {
                let what = format!(
                    "object {name:?}: there is no domain left for shards {:?}; replace a node's \
                     disk or add a node",
                    lacking.lost
                );
                Ended::failed(PoolError::Refused { what }.into())
            }
        }
    }

    /// Whether all that have a shard, or are to get one, can compute.
    fn agents_can(&self, pool: &Pool, lacking: &Lacking) -> bool {
        let agent = |id: &String| {
            let node = pool.config().position(id).map(|at| &pool.config().node[at]);
            node.is_some_and(|node| Address::is_meant(&node.url))
        };
        lacking.codec.sliceable() && lacking.sources.iter().all(|(_, id, _)| agent(id))
    }

    /// The repair that is computed here.
    fn mend(&self, pool: &Pool, name: &str, req: &MendRequest) -> Ended {
        match pool.mend(name, req, &self.recovery.settings) {
            Ok(mended) => Ended {
                rebuilt: mended.bytes_written,
                resumed: mended.resumed_bytes,
                central: (mended.bytes_read, mended.bytes_written),
                ..Ended::with(Outcome::Repaired)
            },
            Err(PoolError::NoObject { .. }) => Ended::with(Outcome::Gone),
            Err(error) => Ended::failed(error.into()),
        }
    }

    /// The repair that the agents compute.
    fn rebuild(
        &self,
        pool: &Pool,
        want: &Want,
        lacking: &Lacking,
        targets: &[(u16, usize)],
        plan: Option<Plan>,
    ) -> Ended {
        let options = &self.recovery.options;
        let nodes = match self.helpers(pool, lacking, targets) {
            Ok(nodes) => nodes,
            Err(error) => return Ended::failed(error),
        };
        let reads = |plan: &Plan| {
            let inputs = plan.problem().dag().inputs();
            let has = |chunk: usize| nodes.iter().flat_map(|n| &n.shards).any(|s| s.0 == chunk);
            inputs.iter().all(|at| has(at.chunk as usize))
        };
        let at_once = options.jobs.clamp(1, 64) as u32;
        let recovery = Recovery {
            codec: &lacking.codec,
            geometry: Geometry::of(&lacking.info, want.listed.size, &lacking.digests),
            targets: targets
                .iter()
                .map(|&(index, node)| {
                    (usize::from(index), node, lacking.part(index), lacking.file(index))
                })
                .collect(),
            strategy: plan.as_ref().map_or(self.rules.single(), |plan| plan.strategy()),
            first: plan.filter(reads),
            nodes,
            in_place: false,
            slice: options.slice.unwrap_or_else(|| usual_slice(lacking.info.alpha as usize)),
            windows: (options.windows / at_once).max(LEAST_WINDOWS),
            rate: self.rate.load(Ordering::Relaxed),
            seed: options.seed,
        };
        let watch = Watch { control: self.recovery.control, shared: self, told: AtomicU64::new(0) };
        let shard = want.shard_bytes();
        for (_, node) in targets {
            *locked(&self.load).entry(*node).or_default() += shard;
        }
        match recovery.run(self.recovery.network, (self.recovery.fresh)(), &watch) {
            Ok(done) => self.commit(pool, lacking, targets, done),
            Err(defeat) => self.defeated(pool, lacking, targets, *defeat),
        }
    }

    /// All nodes of the pool, with the shards of the object that can be read.
    fn helpers(
        &self,
        pool: &Pool,
        lacking: &Lacking,
        targets: &[(u16, usize)],
    ) -> Result<Vec<Helper>> {
        let suspects = self.suspects();
        let good: Vec<bool> = (lacking.sources.iter())
            .map(|(_, id, _)| pool.config().position(id).is_some_and(|at| !suspects.contains(&at)))
            .collect();
        // Whoever failed lately is asked only where too few others are left.
        let trusted = |index: &usize| {
            let mut sources = lacking.sources.iter().zip(&good);
            sources.any(|((source, ..), good)| usize::from(*source) == *index && *good)
        };
        let rest = (0..lacking.codec.shape().n()).filter(|index| !trusted(index));
        let choosy = lacking.codec.tolerates(&rest.collect::<Vec<_>>());
        let nodes = pool.config().node.iter().enumerate().map(|(at, node)| {
            let sources = lacking.sources.iter().zip(&good);
            let mine = sources.filter(|((_, id, _), good)| *id == node.id && (**good || !choosy));
            let shards: Vec<(usize, String)> =
                mine.map(|((index, _, file), _)| (usize::from(*index), file.clone())).collect();
            let needed = !shards.is_empty() || targets.iter().any(|(_, to)| *to == at);
            let address = match node.url.parse() {
                Ok(address) => address,
                Err(error) if needed => return Err(error),
                // Its place in the list must be kept; it is never asked.
                Err(_) => {
                    Address { host: "none".to_owned(), port: 0, place: String::new(), plain: false }
                }
            };
            Ok(Helper { address, shards })
        });
        nodes.collect()
    }

    /// Has the rebuilt shards put in place.
    fn commit(
        &self,
        pool: &Pool,
        lacking: &Lacking,
        targets: &[(u16, usize)],
        done: Recovered,
    ) -> Ended {
        let id = |node: usize| pool.config().node[node].id.clone();
        let rebuilt: Vec<(u16, String)> =
            targets.iter().map(|&(index, node)| (index, id(node))).collect();
        let mut tries = 0;
        let (mut latest, settings) = (self.pool(), &self.recovery.settings);
        let outcome = loop {
            let now_ms = self.recovery.control.now_ms();
            let put = {
                let _turn = locked(&self.commit);
                latest.put_rebuilt(lacking, &rebuilt, now_ms, settings)
            };
            tries += 1;
            match put {
                Ok(true) => break Outcome::Repaired,
                Ok(false) => break Outcome::Gone,
                Err(PoolError::Store(_)) if tries < COMMITS => {
                    // A node may have gone since: those that are left can commit.
                    self.recovery.network.sleep(BETWEEN);
                    match self.reopen() {
                        Ok(pool) => latest = pool,
                        Err(error) => break Outcome::Failed(error),
                    }
                }
                Err(error) => break Outcome::Failed(error.into()),
            }
        };
        let mut nodes: BTreeMap<String, NodeLoad> = BTreeMap::new();
        for (node, amounts) in &done.nodes {
            let load = nodes.entry(id(*node)).or_default();
            (load.read, load.sent) = (amounts.read, amounts.sent);
            (load.received, load.written) = (amounts.received, amounts.written);
        }
        for (node, costs) in done.planned.nodes().iter().enumerate() {
            if costs.sent > 0 || costs.received > 0 {
                let load = nodes.entry(id(node)).or_default();
                load.planned_sent = costs.sent as u64 * done.sub_bytes;
                load.planned_received = costs.received as u64 * done.sub_bytes;
            }
        }
        Ended {
            strategy: Some(done.strategy),
            rebuilt: done.resumed + nodes.values().map(|load| load.written).sum::<u64>(),
            nodes,
            resumed: done.resumed,
            given_up: done.given_up,
            rotten: done.rotten.iter().map(|chunk| *chunk as u16).collect(),
            ..Ended::with(outcome)
        }
    }

    /// Takes note of who failed; a part on a disk that failed only takes its room.
    fn defeated(
        &self,
        pool: &Pool,
        lacking: &Lacking,
        targets: &[(u16, usize)],
        defeat: Defeat,
    ) -> Ended {
        if let Some(node) = defeat.node {
            let storage = !defeat.error.is_retryable();
            self.suspect(node, if storage { FULL } else { SUSPECT });
            for (index, to) in targets.iter().filter(|(_, to)| storage && *to == node) {
                if let Some(place) = pool.place(&pool.config().node[*to].id) {
                    // A scrub removes what stays.
                    let _ = place.remove(&lacking.part(*index));
                }
            }
        }
        Ended { given_up: defeat.given_up, ..Ended::failed(defeat.error) }
    }
}
