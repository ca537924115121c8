//! A planning problem: a DAG, the machines, and which of them a chunk concerns.

use crate::{Cluster, PlanError, Result};
use kiln_code::{Dag, dag::At};
use std::{collections::BTreeMap, sync::Arc};

/// The most vertices of a DAG that is planned.
const VERTICES_MAX: usize = 1 << 24;

/// A repair to be placed on nodes. Cheap to clone: the DAG and the cluster are shared.
///
/// A new node may be outside of the stripe or store other chunks of it; a client that reads a lost
/// chunk is the node where it is to be "rebuilt".
#[derive(Debug, Clone)]
pub struct Problem {
    dag: Arc<Dag>,
    cluster: Arc<Cluster>,
    homes: Arc<BTreeMap<u32, usize>>,
    targets: Arc<BTreeMap<u32, usize>>,
    workers: Arc<[usize]>,
    /// True if lost chunks are wanted as a whole.
    whole: bool,
}

impl Problem {
    /// A repair whose helpers' chunks are stored by `homes` and whose lost chunks are wanted by
    /// `targets`, as (chunk, node). Further entries are ignored.
    /// Errors: a chunk of the DAG has no node, a node is not in the cluster, or the DAG is too
    /// large.
    pub fn new(
        dag: Arc<Dag>,
        cluster: Arc<Cluster>,
        homes: &[(usize, usize)],
        targets: &[(usize, usize)],
    ) -> Result<Problem> {
        let (got, limit) = (dag.vertices(), VERTICES_MAX);
        if got > limit {
            return Err(PlanError::TooMany { what: "vertices of a DAG", got, limit });
        }
        let nodes = cluster.nodes().len();
        let chosen = |chunks: Vec<u32>, list: &[(usize, usize)], role| {
            let mut map = BTreeMap::new();
            for chunk in chunks {
                let known = list.iter().find(|entry| entry.0 == chunk as usize);
                let &(chunk, node) =
                    known.ok_or(PlanError::NoNode { chunk: chunk as usize, role })?;
                if node >= nodes {
                    return Err(PlanError::BadNode { node, nodes, role });
                }
                map.insert(chunk as u32, node);
            }
            Ok(map)
        };
        let read = dag.reads().iter().map(|reads| reads.chunk as u32).collect();
        let homes = chosen(read, homes, "read")?;
        let mut made: Vec<u32> = dag.outputs().iter().map(|(at, _)| at.chunk).collect();
        made.dedup();
        let targets = chosen(made, targets, "rebuilt")?;
        let mut workers: Vec<usize> = homes.values().chain(targets.values()).copied().collect();
        workers.sort_unstable();
        workers.dedup();
        let (homes, targets) = (Arc::new(homes), Arc::new(targets));
        Ok(Problem { dag, cluster, homes, targets, workers: workers.into(), whole: true })
    }

    /// The usual picture of the papers: equal nodes, chunk i belongs to node i, and the node of a
    /// lost chunk is a new, empty one.
    /// Errors: the DAG is too large.
    pub fn on_own_nodes(dag: Dag) -> Result<Problem> {
        let chunks = dag.inputs().iter().chain(dag.outputs().iter().map(|(at, _)| at));
        let count = chunks.map(|at| at.chunk as usize + 1).max().unwrap_or(0);
        let all: Vec<(usize, usize)> = (0..count).map(|i| (i, i)).collect();
        Problem::new(Arc::new(dag), Arc::new(Cluster::uniform(count)?), &all, &all)
    }

    /// The same problem for some of the sub-chunks only: a degraded read of a range. What only
    /// the others need is neither computed nor read.
    /// Errors: no sub-chunk is wanted.
    pub fn of_range(&self, wanted: impl Fn(At) -> bool) -> Result<Problem> {
        let dag = Arc::new(self.dag.restricted(|_| true, wanted)?);
        let list = |map: &BTreeMap<u32, usize>| -> Vec<(usize, usize)> {
            map.iter().map(|(&chunk, &node)| (chunk as usize, node)).collect()
        };
        let whole = self.whole && dag.outputs().len() == self.dag.outputs().len();
        let problem =
            Problem::new(dag, self.cluster.clone(), &list(&self.homes), &list(&self.targets))?;
        Ok(Problem { whole, ..problem })
    }

    /// The same problem with further nodes that may compute, though they store nothing of it.
    /// Errors: a node is not in the cluster.
    pub fn with_workers(mut self, more: &[usize]) -> Result<Problem> {
        let nodes = self.cluster.nodes().len();
        if let Some(&node) = more.iter().find(|&&node| node >= nodes) {
            return Err(PlanError::BadNode { node, nodes, role: "a worker" });
        }
        let mut workers: Vec<usize> = self.workers.iter().chain(more).copied().collect();
        workers.sort_unstable();
        workers.dedup();
        self.workers = workers.into();
        Ok(self)
    }

    /// Returns what is computed: the code's own DAG.
    pub fn dag(&self) -> &Arc<Dag> {
        &self.dag
    }

    /// Returns whether lost chunks are wanted as a whole, not a range of them.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// The machines.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// The node that stores a chunk which is read.
    pub fn home(&self, chunk: u32) -> Option<usize> {
        self.homes.get(&chunk).copied()
    }

    /// The node where a chunk is rebuilt.
    pub fn target(&self, chunk: u32) -> Option<usize> {
        self.targets.get(&chunk).copied()
    }

    /// The nodes where chunks are rebuilt, by chunk.
    pub fn targets(&self) -> impl Iterator<Item = (u32, usize)> {
        self.targets.iter().map(|(&chunk, &node)| (chunk, node))
    }

    /// Nodes that may compute: who stores or gets something, and who was added. Ascending.
    pub fn workers(&self) -> &[usize] {
        &self.workers
    }
}
