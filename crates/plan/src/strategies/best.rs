//! The best of the others, for users who do not want to choose.
//!
//! Rules come first: where one of them meets the lower bound there is nothing to search for. Then
//! layers are searched over hubs, where the hub rule applies; unless that comes near the bound,
//! annealing and chains follow, each with all moves. The plan keeps the name of the strategy that
//! made it.

use super::{ACROSS, Basis, PlacementStrategy, anneal, central, chain, hub, partial_sums};
use crate::{Bound, Plan, Problem, Result, SearchBudget};

/// Factor above the bound at which a plan of hubs is good enough.
const NEAR: f64 = 1.1;
/// Chains are not searched where hubs apply and a DAG has more vertices: each cut takes long there.
const CHAINS_MAX: usize = 1 << 16;

pub(super) const STRATEGY: PlacementStrategy = PlacementStrategy {
    name: "best",
    about: "the best plan of the others: rules, and where they miss the bound the search that fits",
    searches: true,
    basis: Basis::Others,
    variants: None,
    promise: central::no_slower,
    place,
};

fn place(problem: &Problem, budget: &mut SearchBudget<'_>) -> Result<Plan> {
    let moves = budget.moves;
    let found = within(problem, budget, moves);
    budget.moves = moves;
    found
}

fn within(problem: &Problem, budget: &mut SearchBudget<'_>, moves: u64) -> Result<Plan> {
    budget.moves = 0;
    let rule = hub::STRATEGY.plan(problem, budget)?;
    let hubs = rule.note().is_none();
    if hubs && meets_bound(&rule) {
        return Ok(rule);
    }
    let mut best = rule;
    for row in [&central::STRATEGY, &partial_sums::PIPELINE, &partial_sums::PPR] {
        take(&mut best, row.plan(problem, budget)?);
    }
    budget.moves = moves;
    let over = |budget: &mut SearchBudget<'_>| budget.is_over(0);
    if hubs && !meets_bound(&best) && !over(budget) {
        take(&mut best, hub::STRATEGY.plan(problem, budget)?);
    }
    if !near_bound(&best) {
        let large = hubs && problem.dag().vertices() > CHAINS_MAX;
        let rows = [&anneal::STRATEGY, &chain::STRATEGY];
        for row in rows.iter().take(if large { 1 } else { 2 }) {
            if over(budget) {
                break;
            }
            take(&mut best, row.plan(problem, budget)?);
        }
    }
    let why = "central: no strategy found a plan that loads a link less";
    Ok(match best.note() {
        Some(_) => best.with_note(why),
        None => best,
    })
}

/// Keeps the better plan; of equal ones the first, unless that is a fallback.
fn take(best: &mut Plan, plan: Plan) {
    let score = |plan: &Plan| {
        let costs = plan.costs();
        let seconds = costs.seconds(plan.problem().cluster(), 1 << 20);
        (seconds, costs.bandwidth() as f64 + (ACROSS - 1.0) * costs.across_domains() as f64)
    };
    let (ours, theirs) = (score(best), score(&plan));
    if theirs < ours || theirs == ours && best.note().is_some() && plan.note().is_none() {
        *best = plan;
    }
}

/// Returns whether nothing can be better: the least load and, with it, the least traffic.
fn meets_bound(plan: &Plan) -> bool {
    let Some(bound) = Bound::of(plan.problem()) else { return false };
    let (costs, least) = (plan.costs(), bound.load() as usize);
    let exact = costs.max_load() == least && costs.bandwidth() <= bound.sub_chunks(least);
    exact && plain(plan.problem())
}

/// Returns whether no more is to be gained than a search over hubs may leave: such a plan is not
/// annealed.
fn near_bound(plan: &Plan) -> bool {
    let Some(bound) = Bound::of(plan.problem()) else { return false };
    let (costs, least) = (plan.costs(), bound.load() as usize);
    let near = costs.bandwidth() as f64 <= NEAR * bound.bandwidth(bound.load());
    let hub = plan.strategy() == hub::STRATEGY.name;
    plain(plan.problem()) && costs.max_load() == least && (near && hub || meets_bound(plan))
}

/// Returns whether all links are equal and every node is a domain of its own.
fn plain(problem: &Problem) -> bool {
    let (cluster, workers) = (problem.cluster(), problem.workers());
    let rate = |node: usize| {
        let node = &cluster.nodes()[node];
        (node.rate_up(), node.rate_down())
    };
    let equal =
        |pair: &[usize]| rate(pair[0]) == rate(pair[1]) && rate(pair[0]).0 == rate(pair[1]).1;
    let mut domains: Vec<Option<u32>> = workers.iter().map(|&node| cluster.domain(node)).collect();
    domains.sort_unstable();
    domains.dedup();
    workers.windows(2).all(equal) && domains.len() == workers.len()
}

#[cfg(test)]
mod tests {
    use crate::{Problem, SearchBudget, strategy};
    use kiln_code::Codec;

    fn best(spec: &str, lost: usize, moves: u64) -> (&'static str, usize, usize) {
        let codec = Codec::new(&spec.parse().unwrap()).unwrap();
        let available: Vec<usize> = (0..codec.shape().n()).filter(|&i| i != lost).collect();
        let dag = codec.repair_dag(&[lost], &available).unwrap().1;
        let problem = Problem::on_own_nodes(dag).unwrap();
        let mut budget = SearchBudget::new(1).with_moves(moves);
        let plan = strategy("best").unwrap().plan(&problem, &mut budget).unwrap();
        plan.check().unwrap();
        assert_eq!((plan.note(), budget.moves), (None, moves), "{spec}");
        (plan.strategy(), plan.costs().max_load(), plan.costs().bandwidth())
    }

    #[test]
    fn each_code_gets_what_fits_it() {
        assert_eq!(best("rs:10+4", 3, 50_000), ("pipeline", 1, 10));
        assert_eq!(best("clay:10+4", 3, 50_000), ("hub", 256, 1024));
        assert_eq!(best("rep:3", 1, 50_000).1, 1);
        for lost in 0..5 {
            let (name, load, bandwidth) = best("butterfly:4+2", lost, 200_000);
            assert!(load == 8 && bandwidth <= 26, "{lost}: {name} {load} {bandwidth}");
        }
        // The last parity needs all data: nothing beats a pipeline there.
        assert_eq!(best("butterfly:4+2", 5, 50_000), ("pipeline", 8, 32));
        let (name, load, bandwidth) = best("butterfly:10+2", 5, 300_000);
        assert!(name == "chain" && load == 512 && bandwidth <= 3_560, "{load} {bandwidth}");
    }
}
