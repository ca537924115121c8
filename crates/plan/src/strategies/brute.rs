//! Every placement there is, for small cases: the truth that other strategies are measured by.

use super::{Basis, PlacementStrategy, central, partial_sums};
use crate::edges::Edges;
use crate::traffic_table::TrafficTable;
use crate::{Plan, PlanError, Problem, SearchBudget};
use kiln_code::Dag;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Placements looked at for each move of the search budget: they cost less than a move of a search.
const A_MOVE: u64 = 128;
/// Placements between two questions whether the search is over.
const ASK_EVERY: u64 = 1 << 12;

pub(super) const STRATEGY: PlacementStrategy = PlacementStrategy {
    name: "brute",
    about: "all placements of a small repair: the least maximum load, then the least traffic",
    searches: false,
    basis: Basis::Everything,
    variants: None,
    promise: central::no_busier,
    place,
};

fn place(problem: &Problem, budget: &mut SearchBudget<'_>) -> Result<Plan, PlanError> {
    let Some(dag) = small(problem, budget) else {
        let central = central::nodes(problem);
        let plan = Plan::new(problem, problem.dag().clone(), central, STRATEGY.name)?;
        let why = "there are too many placements to look at each";
        return Ok(plan.with_note(format!("central instead of brute: {why}")));
    };
    let mut best: Option<((u32, u32), Vec<u16>)> = None;
    each(problem, &dag, budget, |table| {
        let score = table.score();
        if best.as_ref().is_none_or(|best| score < best.0) {
            best = Some((score, table.places().to_vec()));
        }
    });
    let best = best.map(|(_, place)| place).unwrap_or_default();
    let nodes = best.into_iter().map(|worker| problem.workers()[worker as usize]).collect();
    Plan::new(problem, dag, nodes, STRATEGY.name)
}

/// All pairs of (maximum load, bandwidth) that placements of a small repair have, ascending: the
/// dots of ParaRC's figure 5. Nothing when there are too many placements.
pub fn spectrum(problem: &Problem, budget: &mut SearchBudget<'_>) -> Option<Vec<(u32, u32)>> {
    let dag = small(problem, budget)?;
    let mut all = BTreeSet::new();
    let mut last = (0, 0);
    each(problem, &dag, budget, |table| {
        // Neighbours often score the same: one comparison saves most look-ups.
        if table.score() != last {
            last = table.score();
            all.insert(last);
        }
    });
    Some(all.into_iter().collect())
}

/// The DAG to place: the code's own, or every output straight from what is read, if one of them
/// has few enough placements.
fn small(problem: &Problem, budget: &SearchBudget<'_>) -> Option<Arc<Dag>> {
    let limit = budget.moves.saturating_mul(A_MOVE);
    let few = |dag: &Dag| {
        let vertices = (dag.vertices() - dag.inputs().len()).min(64) as u32;
        let count = (problem.workers().len() as u64).checked_pow(vertices);
        count.is_some_and(|count| count <= limit)
    };
    if few(problem.dag()) {
        return Some(problem.dag().clone());
    }
    partial_sums::flat(problem.dag()).filter(few).map(Arc::new)
}

/// Visits all placements in the order of a reflected Gray code: one vertex moves at a time.
fn each(
    problem: &Problem,
    dag: &Dag,
    budget: &mut SearchBudget<'_>,
    mut visit: impl FnMut(&TrafficTable<'_>),
) {
    let edges = Edges::new(dag);
    let count = dag.vertices() - dag.inputs().len();
    let workers = problem.workers().len() as u16;
    let mut table = TrafficTable::new(problem, dag, &edges, &vec![0; count]);
    let mut up = vec![true; count];
    let mut seen: u64 = 0;
    loop {
        visit(&table);
        seen += 1;
        if seen.is_multiple_of(ASK_EVERY) && budget.is_over(0) {
            return;
        }
        let turn = |v: &usize| {
            let at = table.worker(edges.inputs + v);
            if up[*v] { at + 1 < workers } else { at > 0 }
        };
        let Some(v) = (0..count).find(turn) else { return };
        up[..v].iter_mut().for_each(|up| *up = !*up);
        let at = table.worker(edges.inputs + v);
        table.place(edges.inputs + v, if up[v] { at + 1 } else { at - 1 });
    }
}
