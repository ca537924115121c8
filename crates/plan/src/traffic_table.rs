//! The traffic table of ParaRC (section 3.2), kept up to date while single vertices move.

use crate::{Problem, edges::Edges};
use kiln_code::Dag;

/// Sent and received sub-chunks of every worker under a placement, updated in the degree of the
/// vertex that moves.
#[derive(Debug, Clone)]
pub struct TrafficTable<'a> {
    edges: &'a Edges,
    workers: usize,
    /// Worker of every vertex.
    at: Vec<u16>,
    /// Users of a vertex at a worker, what targets want included: by vertex and worker.
    uses: Vec<u16>,
    sent: Vec<u32>,
    received: Vec<u32>,
    /// All traffic.
    pub total: u32,
}

impl<'a> TrafficTable<'a> {
    /// A placement: the worker's index of every computed vertex.
    pub fn new(problem: &Problem, dag: &Dag, edges: &'a Edges, place: &[u16]) -> TrafficTable<'a> {
        let list = problem.workers();
        let worker = |node: usize| list.partition_point(|&w| w < node) as u16;
        let workers = list.len();
        let homes = dag.inputs().iter().map(|at| problem.home(at.chunk).map_or(0, worker));
        let at: Vec<u16> = homes.chain(place.iter().copied()).collect();
        let mut uses = vec![0; at.len() * workers];
        for (v, &own) in at.iter().enumerate() {
            for &source in edges.sources(v) {
                uses[source as usize * workers + own as usize] += 1;
            }
        }
        for &(to, v) in dag.outputs() {
            let target = problem.target(to.chunk).map_or(0, worker);
            uses[v as usize * workers + target as usize] += 1;
        }
        let (sent, received) = (vec![0; workers], vec![0; workers]);
        let mut table = TrafficTable { edges, workers, at, uses, sent, received, total: 0 };
        for v in 0..table.at.len() {
            let own = table.at[v];
            table.send(v, own, true);
        }
        table
    }

    /// Counts what `from` sends of vertex v, or takes it away.
    fn send(&mut self, v: usize, from: u16, add: bool) {
        for to in 0..self.workers {
            if self.uses[v * self.workers + to] > 0 {
                self.count(from as usize, to, add);
            }
        }
    }

    fn count(&mut self, from: usize, to: usize, add: bool) {
        if from == to {
            return;
        }
        for load in [&mut self.sent[from], &mut self.received[to], &mut self.total] {
            *load = if add { *load + 1 } else { *load - 1 };
        }
    }

    /// Computes vertex `v` (an index of all vertices) at another worker.
    pub fn place(&mut self, v: usize, to: u16) {
        let (edges, from) = (self.edges, self.at[v]);
        if from == to {
            return;
        }
        for &source in edges.sources(v) {
            let source = source as usize;
            let home = self.at[source] as usize;
            let old = source * self.workers + from as usize;
            self.uses[old] -= 1;
            if self.uses[old] == 0 {
                self.count(home, from as usize, false);
            }
            let new = source * self.workers + to as usize;
            self.uses[new] += 1;
            if self.uses[new] == 1 {
                self.count(home, to as usize, true);
            }
        }
        self.send(v, from, false);
        self.at[v] = to;
        self.send(v, to, true);
    }

    /// Vertices that are read; they come first and never move.
    pub fn inputs(&self) -> usize {
        self.edges.inputs
    }

    /// The worker of a vertex.
    pub fn worker(&self, v: usize) -> u16 {
        self.at[v]
    }

    /// The largest load, and all traffic.
    pub fn score(&self) -> (u32, u32) {
        let load = self.sent.iter().chain(&self.received).copied().max().unwrap_or(0);
        (load, self.total)
    }

    /// The worker of every computed vertex.
    pub fn places(&self) -> &[u16] {
        &self.at[self.edges.inputs..]
    }
}
