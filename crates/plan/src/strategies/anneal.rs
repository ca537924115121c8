//! Simulated annealing for everything that no rule fits.
//!
//! From the central plan: first whole layers move, then steps (both halves of a pair, all unknowns
//! of a layer), at last single vertices; each stage cools from 3 to 0.15 times a mean flow. The
//! cost is the traffic and twice what links carry beyond the least possible. The best plan of the
//! rules is polished vertex by vertex, and the better of both wins.

use super::{ACROSS, Basis, PlacementStrategy, STRATEGIES, central};
use crate::blocks::{Blocks, Score, Search};
use crate::{Plan, PlanError, Problem, Result, SearchBudget};
use kiln_code::Dag;
use std::collections::HashMap;

/// Heat at the start of a search, in mean weights of a flow.
const HEAT: f64 = 3.0;
/// Heat of polishing.
const POLISH: f64 = 0.5;

pub(super) const STRATEGY: PlacementStrategy = PlacementStrategy {
    name: "anneal",
    about: "search by simulated annealing from the central plan and from the best rule: for any \
            DAG, any links and domains; more moves give better plans",
    searches: true,
    basis: Basis::Vertices,
    variants: None,
    promise: central::no_slower,
    place,
};

fn place(problem: &Problem, budget: &mut SearchBudget<'_>) -> Result<Plan> {
    let dag = problem.dag();
    let start = central::alone(problem, STRATEGY.name)?;
    let mut best = vec![start.clone()];
    let (mut plan, moves) = (start, budget.moves);
    for block in [by_layer, by_step, by_vertex] {
        if budget.is_over(0) {
            break;
        }
        let block = block(dag);
        plan = improve(&plan, &block, HEAT, moves / 4, budget)?;
        best.push(plan.clone());
    }
    for row in STRATEGIES.iter().filter(|row| !row.searches || row.name == "hub") {
        // The rules alone: a search is what this strategy does itself.
        let rule = row.plan(problem, &mut SearchBudget::new(budget.seed).with_moves(0))?;
        if rule.note().is_none() {
            best.push(rule);
        }
    }
    let mut best: Vec<(Score, Plan)> = best.into_iter().map(|plan| (score(&plan), plan)).collect();
    best.sort_by(|a, b| a.0.partial_cmp(&b.0).unwrap_or(std::cmp::Ordering::Equal));
    let Some((_, first)) = best.into_iter().next() else {
        return Err(PlanError::Internal("no plan to polish".into()));
    };
    if budget.is_over(0) {
        return Ok(first.named(STRATEGY.name));
    }
    improve(&first, &by_vertex(first.dag()), POLISH, moves / 4, budget)
}

/// The plan after a search in which blocks of vertices move; never worse by [`Score`].
pub(crate) fn improve(
    plan: &Plan,
    block: &[u32],
    heat: f64,
    moves: u64,
    budget: &mut SearchBudget<'_>,
) -> Result<Plan> {
    let (problem, dag) = (plan.problem(), plan.dag());
    let workers = problem.workers();
    let blocks = Blocks::new(problem, dag, plan.edges(), block);
    let mut start = vec![None; blocks.free()];
    for (index, &b) in block.iter().enumerate() {
        let node = plan.node(dag.inputs().len() + index);
        let worker = workers.partition_point(|&w| w < node) as u16;
        // Blocks whose vertices are apart keep together where their first vertex is.
        start[b as usize].get_or_insert(worker);
    }
    let start: Vec<u16> = start.into_iter().map(|worker| worker.unwrap_or(0)).collect();
    let mut search = Search::new(problem, &blocks, &start, ACROSS);
    let mut seed = budget.seed;
    search.anneal(heat, &mut seed, moves, budget);
    let place = search.placement();
    let nodes = block.iter().map(|&b| workers[place[b as usize] as usize]).collect();
    let found = Plan::new(problem, dag.clone(), nodes, STRATEGY.name)?;
    Ok(if score(&found) <= score(plan) { found } else { plan.clone().named(STRATEGY.name) })
}

fn score(plan: &Plan) -> Score {
    let costs = plan.costs();
    let time = costs.seconds(plan.problem().cluster(), 1 << 20);
    let traffic = costs.bandwidth() as f64 + (ACROSS - 1.0) * costs.across_domains() as f64;
    Score { time, traffic }
}

/// A block for every layer of the hints.
pub(super) fn by_layer(dag: &Dag) -> Vec<u32> {
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    (dag.inputs().len()..dag.vertices())
        .map(|v| {
            let next = numbers.len() as u32;
            *numbers.entry(dag.hint(v as u32).map_or(0, |hint| hint.layer)).or_insert(next)
        })
        .collect()
}

/// A block for every step.
pub(super) fn by_step(dag: &Dag) -> Vec<u32> {
    let steps = dag.steps().enumerate();
    steps.flat_map(|(index, step)| step.vertices().map(move |_| index as u32)).collect()
}

/// A block for every vertex.
pub(super) fn by_vertex(dag: &Dag) -> Vec<u32> {
    (0..(dag.vertices() - dag.inputs().len()) as u32).collect()
}
