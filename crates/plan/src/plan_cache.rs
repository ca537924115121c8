//! The plan cache: the offline generator of ParaRC (section 6.1) as a bounded store.
//!
//! A search is worth keeping. What it found does not depend on which machines a stripe is on, only
//! on the DAG, on who plays which part, and on how the links compare. So a placement is kept by
//! parts (the home of the first chunk, of the second, ..., the targets), under a fingerprint of all
//! that, and fits every stripe of the same kind.

use crate::{PlacementStrategy, Plan, Problem, Result, SearchBudget};
use std::collections::{HashMap, VecDeque};

/// First bytes of a saved plan cache; the last one is the version.
const MAGIC: &[u8; 8] = b"kilnpln\x01";

/// A bounded store of placements; the ones that were not used for longest go first.
#[derive(Debug, Clone, Default)]
pub struct PlanCache {
    limit: usize,
    places: HashMap<u128, Vec<u16>>,
    /// Fingerprints, the latest used at the end.
    order: VecDeque<u128>,
    hits: u64,
}

impl PlanCache {
    /// An empty store of at most `limit` placements.
    pub fn new(limit: usize) -> PlanCache {
        PlanCache { limit, ..PlanCache::default() }
    }

    /// Plans from the store, or by the strategy, and then keeps the plan. Plans that place another
    /// DAG than the problem's, and those that fell back to another strategy, are not kept.
    pub fn plan(
        &mut self,
        strategy: &'static PlacementStrategy,
        problem: &Problem,
        budget: &mut SearchBudget<'_>,
    ) -> Result<Plan> {
        let execution = execution(problem);
        let key = fingerprint(strategy.name, problem, &execution, budget);
        let count = placed(problem);
        if let Some(place) = self.place(key, count, execution.len()) {
            let nodes =
                place.iter().map(|&node_execution| execution[node_execution as usize]).collect();
            self.hits += 1;
            self.order.retain(|&other| other != key);
            self.order.push_back(key);
            return Plan::new(problem, problem.dag().clone(), nodes, strategy.name);
        }
        let plan = strategy.plan(problem, budget)?;
        if std::sync::Arc::ptr_eq(plan.dag(), problem.dag()) && plan.note().is_none() {
            let first = problem.dag().inputs().len();
            let node_execution = |v: usize| execution.iter().position(|&node| node == plan.node(v));
            let place: Option<Vec<u16>> = (first..first + count)
                .map(|v| node_execution(v).map(|node_execution| node_execution as u16))
                .collect();
            if let Some(place) = place {
                self.keep(key, place);
            }
        }
        Ok(plan)
    }

    /// Returns whether a plan would come from the store, at once. What the budget's clock says does
    /// not matter.
    pub fn has(
        &self,
        strategy: &PlacementStrategy,
        problem: &Problem,
        budget: &SearchBudget<'_>,
    ) -> bool {
        let execution = execution(problem);
        let key = fingerprint(strategy.name, problem, &execution, budget);
        self.place(key, placed(problem), execution.len()).is_some()
    }

    /// A placement of so many vertices on so many nodes.
    fn place(&self, key: u128, vertices: usize, nodes: usize) -> Option<&[u16]> {
        let place = self.places.get(&key)?;
        let fits = place.len() == vertices && place.iter().all(|&node| usize::from(node) < nodes);
        fits.then_some(place)
    }

    fn keep(&mut self, key: u128, place: Vec<u16>) {
        while self.order.len() >= self.limit.max(1) {
            if let Some(oldest) = self.order.pop_front() {
                self.places.remove(&oldest);
            }
        }
        if self.places.insert(key, place).is_none() {
            self.order.push_back(key);
        }
    }

    /// Returns how many placements there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns how many plans came from the store.
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// The store as bytes, to be loaded at the next start.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for key in &self.order {
            let Some(place) = self.places.get(key) else { continue };
            bytes.extend(key.to_le_bytes());
            bytes.extend((place.len() as u32).to_le_bytes());
            bytes.extend(place.iter().flat_map(|node_execution| node_execution.to_le_bytes()));
        }
        let sum = Fingerprint::of(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    /// A store from bytes, with at most `limit` placements, the latest. Nothing when they are not
    /// whole: a store is only a cache, so loading starts with an empty one then.
    pub fn from_bytes(bytes: &[u8], limit: usize) -> Option<PlanCache> {
        let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(16)?)?;
        if sum != Fingerprint::of(body).to_le_bytes() {
            return None;
        }
        let mut rest = body.strip_prefix(MAGIC)?;
        let mut cache = PlanCache::new(limit);
        while !rest.is_empty() {
            let (key, tail) = rest.split_first_chunk::<16>()?;
            let (length, tail) = tail.split_first_chunk::<4>()?;
            let length = (u32::from_le_bytes(*length) as usize).checked_mul(2)?;
            let (place, tail) = tail.split_at_checked(length)?;
            let place = place.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]]));
            cache.keep(u128::from_le_bytes(*key), place.collect());
            rest = tail;
        }
        Some(cache)
    }
}

/// Returns how many vertices a plan of the DAG as it is places.
fn placed(problem: &Problem) -> usize {
    problem.dag().vertices() - problem.dag().inputs().len()
}

/// The nodes by role, in an order that any stripe of the same kind has: homes by chunk,
/// targets by chunk, then other workers.
fn execution(problem: &Problem) -> Vec<usize> {
    let reads = problem.dag().reads();
    let homes = reads.iter().filter_map(|reads| problem.home(reads.chunk as u32));
    let all = homes.chain(problem.targets().map(|(_, node)| node));
    let mut execution: Vec<usize> = Vec::new();
    for node in all.chain(problem.workers().iter().copied()) {
        if !execution.contains(&node) {
            execution.push(node);
        }
    }
    execution
}

/// FNV-1a with 128 bits. A collision costs a plan that is not the best, never a wrong one: any
/// placement of a DAG computes what the DAG computes.
struct Fingerprint(u128);

impl Fingerprint {
    fn new() -> Fingerprint {
        Fingerprint(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u128::from(byte)).wrapping_mul((1 << 88) + 0x13b);
        }
    }

    fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    fn of(bytes: &[u8]) -> u128 {
        let mut print = Fingerprint::new();
        print.bytes(bytes);
        print.0
    }
}

fn fingerprint(
    name: &str,
    problem: &Problem,
    execution: &[usize],
    budget: &SearchBudget<'_>,
) -> u128 {
    let mut print = Fingerprint::new();
    print.bytes(name.as_bytes());
    print.number(budget.moves);
    print.number(budget.seed);
    let (dag, cluster) = (problem.dag(), problem.cluster());
    for (at, v) in
        dag.inputs().iter().map(|at| (at, 0)).chain(dag.outputs().iter().map(|o| (&o.0, o.1)))
    {
        print.number(u64::from(at.chunk) << 32 | u64::from(at.position));
        print.number(u64::from(v));
    }
    for step in dag.steps() {
        print.number(u64::from(step.first));
        step.sources.iter().for_each(|&source| print.number(u64::from(source)));
        // Which coefficients are zero matters, their values do not.
        let zero = |&c: &u8| u8::from(c == 0);
        print.bytes(&step.matrix.data().iter().map(zero).collect::<Vec<u8>>());
    }
    let node_execution = |node: Option<usize>| {
        execution
            .iter()
            .position(|&p| Some(p) == node)
            .map_or(u64::MAX, |node_execution| node_execution as u64)
    };
    for reads in dag.reads() {
        print.number(node_execution(problem.home(reads.chunk as u32)));
    }
    problem.targets().for_each(|(_, node)| print.number(node_execution(Some(node))));
    let nodes = cluster.nodes();
    let fastest = execution.iter().flat_map(|&p| [nodes[p].rate_up(), nodes[p].rate_down()]);
    let fastest = fastest.fold(f64::MIN_POSITIVE, f64::max);
    for &p in execution {
        // Rates to a percent of the fastest: a plan need not change with every hiccup.
        for rate in [nodes[p].rate_up(), nodes[p].rate_down()] {
            print.number((rate / fastest * 100.0).round() as u64);
        }
        let domain = execution.iter().position(|&other| cluster.together(other, p));
        print.number(domain.map_or(u64::MAX, |domain| domain as u64));
    }
    print.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cluster, Node, strategy};
    use kiln_code::Codec;
    use std::sync::Arc;

    fn problem(spec: &str, lost: usize, slow: bool) -> Problem {
        let codec = Codec::new(&spec.parse().unwrap()).unwrap();
        let n = codec.shape().n();
        let available: Vec<usize> = (0..n).filter(|&i| i != lost).collect();
        let dag = Arc::new(codec.repair_dag(&[lost], &available).unwrap().1);
        let rate = |i: usize| if slow && i == 1 { 1e8 } else { 1e9 };
        let nodes = (0..n).map(|i| Node::new(format!("n{i}")).with_link(rate(i), rate(i)));
        let all: Vec<(usize, usize)> = (0..n).map(|i| (i, i)).collect();
        let cluster = Arc::new(Cluster::new(nodes.collect()).unwrap());
        Problem::new(dag, cluster, &all, &all).unwrap()
    }

    #[test]
    fn keeps_the_latest_and_tells_kinds_apart() {
        let hub = strategy("hub").unwrap();
        let mut cache = PlanCache::new(2);
        let plan = |cache: &mut PlanCache, problem: &Problem| {
            let (mut budget, before) = (SearchBudget::default(), cache.hits());
            let had = cache.has(hub, problem, &budget);
            cache.plan(hub, problem, &mut budget).unwrap().check().unwrap();
            assert!(had == (cache.hits() > before) && cache.has(hub, problem, &budget));
            assert!(!cache.has(hub, problem, &SearchBudget::new(7)));
            (cache.hits(), cache.len())
        };
        let (a, b) = (problem("clay:2+2", 0, false), problem("clay:2+2", 0, true));
        assert_eq!(plan(&mut cache, &a), (0, 1));
        assert_eq!(plan(&mut cache, &a), (1, 1));
        assert_eq!(plan(&mut cache, &b), (1, 2)); // other links
        assert_eq!(plan(&mut cache, &problem("clay:2+2", 1, false)), (1, 2)); // a goes
        assert_eq!(plan(&mut cache, &b), (2, 2));
        assert_eq!(plan(&mut cache, &a), (2, 2));
        assert!(!cache.is_empty());
    }

    #[test]
    fn damaged_bytes_are_refused() {
        let mut cache = PlanCache::new(4);
        let hub = strategy("hub").unwrap();
        cache.plan(hub, &problem("clay:4+2", 3, false), &mut SearchBudget::default()).unwrap();
        let bytes = cache.to_bytes();
        assert_eq!(PlanCache::from_bytes(&bytes, 4).unwrap().len(), 1);
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert!(PlanCache::from_bytes(&bad, 4).is_none());
            assert!(PlanCache::from_bytes(&bytes[..at], 4).is_none());
        }
    }
}
