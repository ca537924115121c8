//! Everything at the node that wants it: the least traffic, all of it through one link.

use super::{Basis, PlacementStrategy};
use crate::{Costs, Plan, Problem, Result, SearchBudget};

pub(super) const STRATEGY: PlacementStrategy = PlacementStrategy {
    name: "central",
    about: "the new node reads from all helpers and computes alone: least traffic, one busy link",
    searches: false,
    basis: Basis::OneNode,
    variants: None,
    promise: |problem, costs| {
        // Sub-chunks that the new node stores itself do not travel; with one new node nothing
        // travels twice.
        problem.targets().count() > 1 || costs.bandwidth() <= problem.dag().inputs().len()
    },
    place,
};

fn place(problem: &Problem, _: &mut SearchBudget<'_>) -> Result<Plan> {
    alone(problem, STRATEGY.name)
}

/// The central plan under the name of the strategy that falls back to it.
pub(super) fn alone(problem: &Problem, name: &'static str) -> Result<Plan> {
    Plan::new(problem, problem.dag().clone(), nodes(problem), name)
}

/// The promise of strategies that save time: the central plan is not faster.
pub(super) fn no_slower(problem: &Problem, costs: &Costs) -> bool {
    let seconds = |costs: &Costs| costs.seconds(problem.cluster(), 1 << 20);
    let central = alone(problem, STRATEGY.name);
    central.is_ok_and(|central| seconds(costs) <= seconds(&central.costs()) * 1.000_001)
}

/// The promise of strategies that spread load: no node has more of it than in the central plan.
pub(super) fn no_busier(problem: &Problem, costs: &Costs) -> bool {
    let central = alone(problem, STRATEGY.name);
    central.is_ok_and(|central| costs.max_load() <= central.costs().max_load())
}

/// The central node of every computed vertex. With several new nodes the one with the fastest link
/// computes everything and hands the others their chunks.
pub(crate) fn nodes(problem: &Problem) -> Vec<usize> {
    let dag = problem.dag();
    let rate = |node: usize| problem.cluster().nodes()[node].rate_down();
    let mut best: Option<usize> = None;
    for (_, node) in problem.targets() {
        if best.is_none_or(|best| rate(node) > rate(best)) {
            best = Some(node);
        }
    }
    vec![best.unwrap_or(0); dag.vertices() - dag.inputs().len()]
}
