//! Placing blocks of vertices: the traffic of a placement in which whole blocks move.
//!
//! Vertices that shall be computed at one node form a block. What a block sends, and to which
//! blocks, does not depend on the placement, so vertices of equal use are counted together as one
//! *flow* and a move of a block costs as much as the flows that touch it. Blocks of one vertex each
//! are the finest choice.

use crate::{Problem, SearchBudget, edges::Edges};
use kiln_code::Dag;
use kiln_code::seed::{below, next};
use std::collections::BTreeMap;

/// Moves between two questions whether a search is over.
const ASK_EVERY: u64 = 256;

/// Vertices that one block computes or stores and the same other blocks use.
struct Flow {
    from: u32,
    users: std::ops::Range<u32>,
    weight: u32,
}

/// The blocks of a DAG and the flows between them. Blocks 0 to workers-1 stand for what the
/// workers store and want: they never move.
pub(crate) struct Blocks {
    fixed: usize,
    count: usize,
    flows: Vec<Flow>,
    users: Vec<u32>,
    /// Flows that touch a block, by block.
    touching: Vec<Vec<u32>>,
}

impl Blocks {
    /// Blocks from a block number for every computed vertex of `dag`, numbered from 0 without gaps.
    pub(crate) fn new(problem: &Problem, dag: &Dag, edges: &Edges, block: &[u32]) -> Blocks {
        let workers = problem.workers();
        let worker = |node: usize| workers.partition_point(|&w| w < node) as u32;
        let fixed = workers.len();
        let home = |v: usize| problem.home(dag.inputs()[v].chunk).map_or(0, worker);
        let of = |v: usize| match v.checked_sub(edges.inputs) {
            Some(computed) => fixed as u32 + block[computed],
            None => home(v),
        };
        let mut wanted: Vec<Vec<u32>> = vec![Vec::new(); dag.vertices()];
        for &(at, v) in dag.outputs() {
            wanted[v as usize].extend(problem.target(at.chunk).map(worker));
        }
        let mut counted: BTreeMap<(u32, Vec<u32>), u32> = BTreeMap::new();
        for (v, wanted) in wanted.into_iter().enumerate() {
            let mut users = wanted;
            users.extend(edges.users(v).iter().map(|&user| of(user as usize)));
            users.retain(|&user| user != of(v));
            users.sort_unstable();
            users.dedup();
            if !users.is_empty() {
                *counted.entry((of(v), users)).or_default() += 1;
            }
        }
        let count = fixed + block.iter().map(|&b| b as usize + 1).max().unwrap_or(0);
        let (mut flows, mut users) = (Vec::with_capacity(counted.len()), Vec::new());
        let mut touching: Vec<Vec<u32>> = vec![Vec::new(); count];
        for (index, ((from, to), weight)) in counted.into_iter().enumerate() {
            for &block in to.iter().chain([&from]) {
                touching[block as usize].push(index as u32);
            }
            let start = users.len() as u32;
            users.extend(to);
            flows.push(Flow { from, users: start..users.len() as u32, weight });
        }
        Blocks { fixed, count, flows, users, touching }
    }

    /// The blocks that may move.
    pub(crate) fn free(&self) -> usize {
        self.count - self.fixed
    }

    fn mean_weight(&self) -> f64 {
        let sum: f64 = self.flows.iter().map(|flow| f64::from(flow.weight)).sum();
        sum / self.flows.len().max(1) as f64
    }
}

/// Cost of a placement, best first: the busiest link's time, then the traffic, with what crosses
/// domains counted more.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(crate) struct Score {
    /// Sub-chunks over the busiest link, in units of the mean link.
    pub time: f64,
    /// Sub-chunks sent, weighted.
    pub traffic: f64,
}

/// A placement of blocks under search.
pub(crate) struct Search<'a> {
    blocks: &'a Blocks,
    links: Links,
    /// Worker of each block.
    at: Vec<u16>,
    sent: Vec<f64>,
    received: Vec<f64>,
    traffic: f64,
    /// Marks of the workers that a flow has reached already.
    seen: Vec<u64>,
    stamp: u64,
}

/// The workers' links as times a sub-chunk, relative to the mean link, and their domains.
#[derive(Debug, Clone)]
struct Links {
    up: Vec<f64>,
    down: Vec<f64>,
    domain: Vec<usize>,
    /// Weight of a sub-chunk between domains; within one it is 1.
    across: f64,
    /// The time that no placement beats.
    least: f64,
}

impl Links {
    fn new(problem: &Problem, across: f64) -> Links {
        let nodes = problem.cluster().nodes();
        let workers = problem.workers();
        let rates = workers.iter().flat_map(|&w| [nodes[w].rate_up(), nodes[w].rate_down()]);
        let mean = rates.sum::<f64>() / (2 * workers.len().max(1)) as f64;
        let together = |a: usize, b: usize| problem.cluster().together(a, b);
        let first = |&w: &usize| workers.iter().position(|&v| together(v, w)).unwrap_or(0);
        let domain: Vec<usize> = workers.iter().map(first).collect();
        // Where every node is a domain of its own there is nothing to save.
        let alone = domain.iter().enumerate().all(|(worker, &domain)| worker == domain);
        let mut links = Links {
            up: workers.iter().map(|&w| mean / nodes[w].rate_up()).collect(),
            down: workers.iter().map(|&w| mean / nodes[w].rate_down()).collect(),
            domain,
            across: if alone { 1.0 } else { across },
            least: 0.0,
        };
        // A new node receives what it wants, less what it could make of what it stores itself.
        let mut wanted: BTreeMap<usize, f64> = BTreeMap::new();
        for (at, _) in problem.dag().outputs() {
            if let Some(node) = problem.target(at.chunk) {
                *wanted.entry(node).or_default() += 1.0;
            }
        }
        for (worker, node) in workers.iter().enumerate() {
            let stored = problem.dag().inputs().iter();
            let stored = stored.filter(|at| problem.home(at.chunk) == Some(*node)).count() as f64;
            let wanted = wanted.get(node).map_or(0.0, |&wanted| (wanted - stored).max(0.0));
            links.least = links.least.max(wanted * links.down[worker]);
        }
        links
    }
}

impl<'a> Search<'a> {
    /// A search from a start, given as a worker's index for every free block.
    pub(crate) fn new(
        problem: &Problem,
        blocks: &'a Blocks,
        start: &[u16],
        across: f64,
    ) -> Search<'a> {
        let workers = problem.workers().len();
        let mut search = Search {
            blocks,
            links: Links::new(problem, across),
            at: (0..blocks.fixed as u16).chain(start.iter().copied()).collect(),
            sent: vec![0.0; workers],
            received: vec![0.0; workers],
            traffic: 0.0,
            seen: vec![0; workers],
            stamp: 0,
        };
        (0..blocks.flows.len()).for_each(|flow| search.count(flow, 1.0));
        search
    }

    /// Adds a flow's traffic under the present placement, or takes it away.
    fn count(&mut self, flow: usize, sign: f64) {
        let blocks = self.blocks;
        let Flow { from, users, weight } = &blocks.flows[flow];
        let (from, weight) = (self.at[*from as usize] as usize, sign * f64::from(*weight));
        self.stamp += 1;
        self.seen[from] = self.stamp;
        for &user in &blocks.users[users.start as usize..users.end as usize] {
            let to = self.at[user as usize] as usize;
            if std::mem::replace(&mut self.seen[to], self.stamp) == self.stamp {
                continue;
            }
            self.sent[from] += weight;
            self.received[to] += weight;
            let within = self.links.domain[from] == self.links.domain[to];
            self.traffic += weight * if within { 1.0 } else { self.links.across };
        }
    }

    fn place(&mut self, block: usize, worker: u16) {
        let blocks = self.blocks;
        for &flow in &blocks.touching[block] {
            self.count(flow as usize, -1.0);
        }
        self.at[block] = worker;
        for &flow in &blocks.touching[block] {
            self.count(flow as usize, 1.0);
        }
    }

    /// Busy times of all links, up and down.
    fn times(&self) -> impl Iterator<Item = f64> {
        let up = self.sent.iter().zip(&self.links.up);
        up.chain(self.received.iter().zip(&self.links.down)).map(|(count, time)| count * time)
    }

    pub(crate) fn score(&self) -> Score {
        Score { time: self.times().fold(0.0, f64::max), traffic: self.traffic }
    }

    /// Traffic and twice what links carry beyond the least possible time.
    fn cost(&self) -> f64 {
        let over: f64 = self.times().map(|time| (time - self.links.least).max(0.0)).sum();
        self.traffic + 2.0 * over
    }

    /// Returns where the free blocks are now, as workers' indices.
    pub(crate) fn placement(&self) -> Vec<u16> {
        self.at[self.blocks.fixed..].to_vec()
    }

    /// Simulated annealing, from `heat` times the mean weight of a flow down to a twentieth of
    /// that. Ends with the best placement that it saw and returns its score.
    pub(crate) fn anneal(
        &mut self,
        heat: f64,
        state: &mut u64,
        moves: u64,
        budget: &mut SearchBudget<'_>,
    ) -> Score {
        let (mut best, mut best_score) = (self.placement(), self.score());
        let (free, workers) = (self.blocks.free(), self.sent.len());
        if free == 0 || workers < 2 {
            return best_score;
        }
        let scale = heat * self.blocks.mean_weight();
        let mut cost = self.cost();
        for step in 0..moves {
            if step % ASK_EVERY == 0 && budget.is_over(step) {
                break;
            }
            let heat = scale * 0.05_f64.powf(step as f64 / moves as f64);
            let block = self.blocks.fixed + below(state, free);
            let (from, to) = (self.at[block], self.goal(block, state));
            if from == to {
                continue;
            }
            self.place(block, to);
            let after = self.cost();
            let chance = (next(state) >> 11) as f64 / (1_u64 << 53) as f64;
            if after > cost && chance >= ((cost - after) / heat).exp() {
                self.place(block, from);
                continue;
            }
            cost = after;
            let score = self.score();
            if score < best_score {
                (best, best_score) = (self.placement(), score);
            }
        }
        for (index, &worker) in best.iter().enumerate() {
            self.place(self.blocks.fixed + index, worker);
        }
        best_score
    }

    /// A worker for a block: mostly one that the block's flows touch, sometimes any.
    fn goal(&self, block: usize, state: &mut u64) -> u16 {
        let touching = &self.blocks.touching[block];
        if touching.is_empty() || below(state, 8) == 0 {
            return below(state, self.sent.len()) as u16;
        }
        let flow = &self.blocks.flows[touching[below(state, touching.len())] as usize];
        let ends = flow.users.len() + 1;
        match below(state, ends).checked_sub(1) {
            None => self.at[flow.from as usize],
            Some(user) => self.at[self.blocks.users[flow.users.start as usize + user] as usize],
        }
    }
}
