//! Every placement there is, for small cases: the truth that other strategies are measured by.

use kiln_code::Dag;
use kiln_plan::{Edges, Plan, PlanError, Problem, SearchBudget, TrafficTable, flat};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Placements looked at for each move of the search budget: they cost less than a move of a search.
const A_MOVE: u64 = 128;
/// Placements between two questions whether the search is over.
const ASK_EVERY: u64 = 1 << 12;

/// The placement with the least maximum load, then the least traffic; `None`: there are too many to
/// look at each.
pub(super) fn place(
    problem: &Problem,
    budget: &mut SearchBudget<'_>,
) -> Result<Option<Plan>, PlanError> {
    let Some(dag) = small(problem, budget) else { return Ok(None) };
    let mut best: Option<((u32, u32), Vec<u16>)> = None;
    each(problem, &dag, budget, |table| {
        let score = table.score();
        if best.as_ref().is_none_or(|best| score < best.0) {
            best = Some((score, table.places().to_vec()));
        }
    });
    let best = best.map(|(_, place)| place).unwrap_or_default();
    let nodes = best.into_iter().map(|worker| problem.workers()[worker as usize]).collect();
    Plan::new(problem, dag, nodes, "brute").map(Some)
}

/// All pairs of (maximum load, bandwidth) that placements of a small repair have, ascending: the
/// dots of ParaRC's figure 5. Nothing when there are too many placements.
pub(super) fn spectrum(
    problem: &Problem,
    budget: &mut SearchBudget<'_>,
) -> Option<Vec<(u32, u32)>> {
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
    flat(problem.dag()).filter(few).map(Arc::new)
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

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_code::Codec;

    #[test]
    fn all_placements_of_small_repairs() {
        let best = |spec: &str| {
            let codec = Codec::new(&spec.parse().unwrap()).unwrap();
            let problem = crate::plan::problem(&codec, 0).unwrap();
            let plan = place(&problem, &mut SearchBudget::default()).unwrap().unwrap();
            plan.check().unwrap();
            (plan.costs().max_load(), plan.costs().bandwidth())
        };
        assert_eq!(best("clay:2+2"), (4, 8));
        // 8 sub-chunks of 32 MiB: (256, 864) MiB, as the paper found with sums straight from what
        // is read. Partial sums do better, see the strategy chain.
        assert_eq!(best("butterfly:4+2"), (8, 27));
    }
}
