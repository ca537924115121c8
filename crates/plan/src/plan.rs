//! A plan: a DAG with a node for every vertex. Its costs, its parts and its proof are added to it
//! in `cost`, `execution` and `check`, which need it while it needs none of them.

use crate::{PlanError, Problem, Result, edges::Edges};
use kiln_code::Dag;
use std::sync::Arc;

/// A repair whose every vertex has a node.
///
/// The DAG may be another than the problem's: a strategy may split a sum into partial sums, which
/// are vertices like others. [`Plan::check`] proves that it computes the same.
#[derive(Debug, Clone)]
pub struct Plan {
    problem: Problem,
    dag: Arc<Dag>,
    /// By vertex, those that are read included.
    nodes: Vec<u16>,
    edges: Arc<Edges>,
    strategy: &'static str,
    note: Option<String>,
}

impl Plan {
    /// Places the vertices that `dag` computes, in their order, on `place`.
    /// Errors: the number of vertices differs, a node is not in the cluster, or the DAG reads a
    /// chunk or makes one that the problem does not name.
    pub fn new(
        problem: &Problem,
        dag: Arc<Dag>,
        place: Vec<usize>,
        strategy: &'static str,
    ) -> Result<Plan> {
        let expected = dag.vertices() - dag.inputs().len();
        if place.len() != expected {
            return Err(PlanError::Placement { expected, got: place.len() });
        }
        let count = problem.cluster().nodes().len();
        let mut nodes = Vec::with_capacity(dag.vertices());
        for at in dag.inputs() {
            let home = problem.home(at.chunk);
            let home = home.ok_or(PlanError::NoNode { chunk: at.chunk as usize, role: "read" })?;
            nodes.push(home as u16);
        }
        for node in place {
            if node >= count {
                return Err(PlanError::BadNode { node, nodes: count, role: "a vertex's node" });
            }
            nodes.push(node as u16);
        }
        for (at, _) in dag.outputs() {
            let chunk = at.chunk as usize;
            problem.target(at.chunk).ok_or(PlanError::NoNode { chunk, role: "rebuilt" })?;
        }
        let edges = Arc::new(Edges::new(&dag));
        Ok(Plan { problem: problem.clone(), dag, nodes, edges, strategy, note: None })
    }

    /// The same plan with something to say to people.
    pub fn with_note(self, note: impl Into<String>) -> Plan {
        Plan { note: Some(note.into()), ..self }
    }

    /// The same plan under the name of the strategy that took it over.
    pub(crate) fn named(self, strategy: &'static str) -> Plan {
        Plan { strategy, ..self }
    }

    /// Returns the problem that was planned.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The DAG that is placed.
    pub fn dag(&self) -> &Arc<Dag> {
        &self.dag
    }

    /// The node that computes a vertex, or stores it. Nothing for a vertex that does not exist.
    pub fn node_of(&self, vertex: u32) -> Option<usize> {
        self.nodes.get(vertex as usize).map(|&node| node as usize)
    }

    /// The strategy that made the plan.
    pub fn strategy(&self) -> &'static str {
        self.strategy
    }

    /// A note for people: above all that the strategy fell back to another one.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    pub(crate) fn edges(&self) -> &Edges {
        &self.edges
    }

    pub(crate) fn node(&self, vertex: usize) -> usize {
        self.nodes[vertex] as usize
    }
}
