//! Placed repairs and degraded reads alike: the problem, its plan, and the share of every node.

use std::{ops::Range, sync::Arc};

use kiln_code::{Codec, Dag};
use kiln_plan::{Cluster, Execution, Plan, PlanError, Problem, STRATEGIES, SearchBudget, strategy};

use kiln_net::proto::assignment::{Assignment, Geometry, TargetFile};
use kiln_net::{NetError, Result};

/// Nodes with their chunks of an object, the lost chunks, and their targets. Nodes have numbers.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub codec: &'a Codec,
    /// Number of nodes.
    pub nodes: usize,
    /// Chunks that can be read, each with the node that has it. Where all lost ones are among them,
    /// they are copied, and nothing else is read.
    pub homes: Vec<(usize, usize)>,
    /// Lost chunks, each with the node that gets it.
    pub targets: Vec<(usize, usize)>,
    /// Sub-chunks that are wanted of each lost chunk; `None`: all.
    pub runs: Option<&'a [(usize, Range<u32>)]>,
}

impl Wanted<'_> {
    /// Returns whether all lost chunks can be read, and are only to be moved.
    pub fn is_copy(&self) -> bool {
        let has = |lost: usize| self.homes.iter().any(|(chunk, _)| *chunk == lost);
        !self.targets.is_empty() && self.targets.iter().all(|(lost, _)| has(*lost))
    }

    /// Returns the problem, on equal nodes.
    pub fn problem(&self) -> Result<Problem, PlanError> {
        self.problem_of(&self.homes, Arc::new(Cluster::uniform(self.nodes)?))
    }

    /// The same where only these chunks are to be read, on these nodes.
    pub fn problem_of(
        &self,
        homes: &[(usize, usize)],
        cluster: Arc<Cluster>,
    ) -> Result<Problem, PlanError> {
        let lost: Vec<usize> = self.targets.iter().map(|(chunk, _)| *chunk).collect();
        let others = homes.iter().map(|(chunk, _)| *chunk).filter(|chunk| !lost.contains(chunk));
        let dag = match self.is_copy() {
            true => Dag::copy(&lost, self.codec.shape().alpha)?,
            false => self.codec.repair_dag(&lost, &others.collect::<Vec<usize>>())?.1,
        };
        let problem = Problem::new(Arc::new(dag), cluster, homes, &self.targets)?;
        let Some(runs) = self.runs else { return Ok(problem) };
        problem.of_range(|at| {
            let of_chunk = |(chunk, _): &&(usize, Range<u32>)| *chunk == at.chunk as usize;
            runs.iter().filter(of_chunk).any(|(_, run)| run.contains(&at.position))
        })
    }
}

/// The plan by the strategy of a name, proved.
pub(crate) fn plan(problem: &Problem, name: &str, seed: u64) -> Result<Plan, PlanError> {
    plan_within(problem, name, SearchBudget::new(seed))
}

/// As [`plan`], with what a search may take.
pub(crate) fn plan_within(
    problem: &Problem,
    name: &str,
    mut budget: SearchBudget<'_>,
) -> Result<Plan, PlanError> {
    let plan = strategy(name)?.plan(problem, &mut budget)?;
    plan.check()?;
    Ok(plan)
}

/// The plan with the least load of those that are found at once, proved.
pub(crate) fn plan_at_once(problem: &Problem) -> Result<Plan, PlanError> {
    let mut budget = SearchBudget::default();
    let cost = |plan: &Plan| (plan.costs().max_load(), plan.costs().bandwidth());
    let mut least: Result<Plan, PlanError> =
        Err(PlanError::Internal("no strategy plans at once".into()));
    for row in STRATEGIES.iter().filter(|row| row.suits_reads()) {
        let other = row.plan(problem, &mut budget);
        least = match (least, other) {
            (Ok(least), Ok(other)) if cost(&least) <= cost(&other) => Ok(least),
            (Err(_), Err(error)) => Err(error),
            (Ok(plan), Err(_)) | (_, Ok(plan)) => Ok(plan),
        };
    }
    let plan = least?;
    plan.check()?;
    Ok(plan)
}

/// Common parts of the shares of a plan.
pub(crate) struct Shares<'a> {
    pub parts: &'a Execution,
    /// Stripes of the object.
    pub stripes: Range<u64>,
    /// Bytes of every sub-chunk in a window.
    pub slice: u32,
    /// Windows under way at each node.
    pub windows: u32,
    /// Bytes a second for each node (0: no limit).
    pub rate: u64,
    pub geometry: Geometry,
    /// The address of a node; empty: it fetches what is for it.
    pub address: &'a dyn Fn(usize) -> String,
}

impl Shares<'_> {
    /// The share of a node that has these shards and gets those; `None`: it has nothing to do.
    pub fn of(
        &self,
        node: usize,
        shards: &[(usize, String)],
        targets: Vec<TargetFile>,
    ) -> Option<Assignment> {
        Some(Assignment {
            first: self.stripes.start,
            end: self.stripes.end,
            slice: self.slice,
            windows: self.windows,
            rate: self.rate,
            geometry: self.geometry.clone(),
            targets,
            ..Assignment::of(self.parts, node)?.connected(self.address, shards)
        })
    }
}

/// Returns the error of a plan that cannot be made.
pub(crate) fn refused(what: &str, error: &dyn std::fmt::Display) -> NetError {
    NetError::Setup { what: format!("a plan for {what}"), why: error.to_string() }
}
