//! The heuristic of ParaRC (section 4): a search on the Pareto frontier, for comparison.
//!
//! From a random placement, all neighbours (one vertex elsewhere) of every placement in the
//! un-searched pool are looked at. One that no candidate beats in both maximum load and bandwidth
//! becomes a candidate and is searched later; one that is as good in either is not beaten. The
//! paper leaves the order open: here the placement with the least load is searched next. When the
//! pool is empty, the search starts again from another random placement, as the paper proposes.

use super::{Basis, PlacementStrategy, central};
use crate::{Plan, Problem, Result, SearchBudget, edges::Edges, traffic_table::TrafficTable};
use kiln_code::seed::below;
use std::collections::BTreeMap;

/// Neighbours between two questions whether a search is over.
const ASK_EVERY: u64 = 1 << 10;
/// The most placements that wait to be searched; those with the largest load are left out.
const POOL_MAX: usize = 1 << 12;

pub(super) const STRATEGY: PlacementStrategy = PlacementStrategy {
    name: "pareto",
    about: "ParaRC's own heuristic, for comparison: random placements improved one vertex at a \
            time along the frontier of load and traffic",
    searches: true,
    basis: Basis::Vertices,
    variants: None,
    promise: central::no_busier,
    place,
};

/// A candidate: its score and the worker of every computed vertex.
type Candidate = ((u32, u32), Vec<u16>);

fn place(problem: &Problem, budget: &mut SearchBudget<'_>) -> Result<Plan> {
    let (dag, edges) = (problem.dag(), Edges::new(problem.dag()));
    let workers = problem.workers();
    let count = dag.vertices() - dag.inputs().len();
    let mut random = budget.seed;
    let mut best: Option<Candidate> = None;
    let mut moves = 0;
    while !budget.is_over(moves) && count > 0 {
        let start: Vec<u16> =
            (0..count).map(|_| below(&mut random, workers.len()) as u16).collect();
        let found =
            run(TrafficTable::new(problem, dag, &edges, &start), workers.len(), &mut moves, budget);
        if best.as_ref().is_none_or(|best| found.0 < best.0) {
            best = Some(found);
        }
    }
    let central = central::nodes(problem);
    let plan = match best {
        Some((_, place)) => {
            let nodes = place.into_iter().map(|worker| workers[worker as usize]).collect();
            Plan::new(problem, dag.clone(), nodes, STRATEGY.name)?
        }
        None => Plan::new(problem, dag.clone(), central.clone(), STRATEGY.name)?,
    };
    let alone = Plan::new(problem, dag.clone(), central, STRATEGY.name)?;
    match plan.costs().max_load() <= alone.costs().max_load() {
        true => Ok(plan),
        false => Ok(alone
            .with_note("central instead of pareto: nothing better was found in the moves allowed")),
    }
}

/// Returns whether a score beats another one in load and in traffic: the paper's cases 1 and 4.
fn beats(one: (u32, u32), other: (u32, u32)) -> bool {
    one.0 < other.0 && one.1 < other.1
}

/// One run from a random start; returns the candidate of the least maximum load.
fn run(
    mut table: TrafficTable<'_>,
    workers: usize,
    moves: &mut u64,
    budget: &mut SearchBudget<'_>,
) -> Candidate {
    let mut best = (table.score(), table.places().to_vec());
    let mut pool = BTreeMap::from([best.clone()]);
    let mut candidates = vec![best.0];
    let inputs = table.inputs();
    while let Some((score, place)) = pool.pop_first() {
        // Beaten since it came into the pool: its neighbours would be as well.
        if candidates.iter().any(|&other| beats(other, score)) {
            continue;
        }
        for (index, &worker) in place.iter().enumerate() {
            table.place(inputs + index, worker);
        }
        for v in inputs..inputs + place.len() {
            let own = table.worker(v);
            for to in (0..workers as u16).filter(|&to| to != own) {
                *moves += 1;
                if (*moves).is_multiple_of(ASK_EVERY) && budget.is_over(*moves) {
                    return best;
                }
                table.place(v, to);
                let score = table.score();
                if candidates.iter().any(|&other| other == score || beats(other, score)) {
                    continue;
                }
                candidates.retain(|&other| !beats(score, other));
                candidates.push(score);
                let place = table.places().to_vec();
                if score < best.0 {
                    best = (score, place.clone());
                }
                pool.insert(score, place);
                if pool.len() > POOL_MAX {
                    pool.pop_last();
                }
            }
            table.place(v, own);
        }
    }
    best
}
