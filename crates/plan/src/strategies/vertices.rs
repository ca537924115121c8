//! Plans of the kind that ParaRC makes, by a better search than its own: what its system could run
//! if it had them.
//!
//! Each vertex of the repair's own DAG gets one worker, and what counts is what counts there: the
//! maximum load first, then all traffic, links being equal. No rule of layers or hubs is asked and
//! no sum is taken apart. The search anneals from the central plan in stages of ever smaller
//! blocks: whole layers find out which nodes solve what, steps and single vertices mend the rest,
//! and the last stage only polishes. Each starts from the best of those before.
//!
//! How hot the first stage is decides most. From 3 mean flows layers stay where they are and all
//! is left to steps: 10+4 ends at 1087 MiB of traffic for a chunk of 256 MiB, and with 6 at 1025,
//! where the least is 1024 (300,000 moves).

use super::anneal::{by_layer, by_step, by_vertex, improve};
use super::{Basis, PlacementStrategy, central};
use crate::{Cluster, Plan, Problem, Result, SearchBudget};
use kiln_code::Dag;
use std::sync::Arc;

pub(super) const STRATEGY: PlacementStrategy = PlacementStrategy {
    name: "vertices",
    about: "each vertex of the repair on one node, as in ParaRC's plans, by a better search than \
            its heuristic: layers annealed, then steps, then vertices one by one",
    searches: true,
    basis: Basis::Vertices,
    variants: None,
    promise: central::no_busier,
    place,
};

/// A stage: what moves together, and the heat at its start in mean weights of a flow.
type Stage = (fn(&Dag) -> Vec<u32>, f64);

/// The stages; each has an equal share of the moves.
const STAGES: [Stage; 4] = [(by_layer, 6.0), (by_step, 3.0), (by_vertex, 3.0), (by_vertex, 0.5)];

fn place(problem: &Problem, budget: &mut SearchBudget<'_>) -> Result<Plan> {
    let dag = problem.dag();
    let central = central::nodes(problem);
    let equal = on_equal_links(problem)?;
    let mut plan = Plan::new(&equal, dag.clone(), central.clone(), STRATEGY.name)?;
    let moves = budget.moves / STAGES.len() as u64;
    for (blocks, heat) in STAGES {
        if budget.is_over(0) {
            break;
        }
        plan = improve(&plan, &blocks(dag), heat, moves, budget)?;
    }
    let nodes: Vec<usize> = (dag.inputs().len()..dag.vertices()).map(|v| plan.node(v)).collect();
    let found = nodes != central;
    let plan = Plan::new(problem, dag.clone(), nodes, STRATEGY.name)?;
    Ok(match found {
        true => plan,
        false => plan.with_note(
            "central instead of vertices: nothing better was found in the moves allowed",
        ),
    })
}

/// The same problem on nodes with equal links, each a domain of its own: load and traffic are
/// counted in sub-chunks, as the paper counts them.
fn on_equal_links(problem: &Problem) -> Result<Problem> {
    let dag = problem.dag();
    let chunks = dag.reads().into_iter().map(|reads| reads.chunk);
    let homes: Vec<(usize, usize)> =
        chunks.filter_map(|chunk| Some((chunk, problem.home(chunk as u32)?))).collect();
    let targets: Vec<(usize, usize)> =
        problem.targets().map(|(chunk, node)| (chunk as usize, node)).collect();
    let cluster = Arc::new(Cluster::uniform(problem.cluster().nodes().len())?);
    Problem::new(dag.clone(), cluster, &homes, &targets)?.with_workers(problem.workers())
}

#[cfg(test)]
mod tests {
    use crate::{Cluster, Node, Problem, SearchBudget, strategy};
    use kiln_code::Codec;
    use std::sync::Arc;

    fn problem(spec: &str, lost: usize) -> Problem {
        let codec = Codec::new(&spec.parse().unwrap()).unwrap();
        let available: Vec<usize> = (0..codec.shape().n()).filter(|&i| i != lost).collect();
        Problem::on_own_nodes(codec.repair_dag(&[lost], &available).unwrap().1).unwrap()
    }

    /// Maximum load and traffic in MiB for chunks of 256 MiB.
    fn reached(problem: &Problem, budget: &mut SearchBudget<'_>) -> (f64, f64) {
        let plan = strategy("vertices").unwrap().plan(problem, budget).unwrap();
        plan.check().unwrap();
        assert_eq!(plan.note(), None);
        assert!(Arc::ptr_eq(plan.dag(), problem.dag()), "no other DAG is placed");
        let (costs, unit) = (plan.costs(), 256.0 / problem.dag().outputs().len() as f64);
        (costs.max_load() as f64 * unit, costs.bandwidth() as f64 * unit)
    }

    /// ParaRC's table 2 (block 0): what the paper's heuristic ended at, after 57 hours for 10+4.
    /// The load is the least possible; the third number is a little above what is found.
    #[test]
    fn every_plan_that_the_paper_shows_is_beaten_with_the_default_budget() {
        for (spec, paper, most) in [
            ("clay:8+4", (264.0, 1224.0), 896.0),
            ("clay:10+4", (271.0, 1609.0), 1051.0),
            ("clay:12+4", (281.0, 1774.0), 1180.0),
            ("butterfly:4+2", (256.0, 896.0), 832.0),
            ("butterfly:10+2", (297.0, 2216.0), 2000.0),
        ] {
            let (load, traffic) = reached(&problem(spec, 0), &mut SearchBudget::default());
            assert!(load == 256.0 && traffic <= most, "{spec}: ({load}, {traffic}) not {most}");
            assert!(load <= paper.0 && traffic <= paper.1, "{spec}: not {paper:?}");
        }
    }

    #[test]
    fn more_moves_meet_the_least_traffic_without_a_rule() {
        for (spec, lost, least) in [("clay:10+4", 3, 1024.0), ("clay:12+4", 15, 1152.0)] {
            let mut budget = SearchBudget::new(1).with_moves(3_000_000);
            assert_eq!(reached(&problem(spec, lost), &mut budget), (256.0, least), "{spec}");
        }
    }

    #[test]
    fn links_and_domains_do_not_count_and_a_search_can_be_stopped() {
        let plain = problem("clay:8+4", 2);
        let node = |i: usize| {
            let node = Node::new(format!("n{i}")).in_domain(format!("rack{}", i % 3));
            node.with_link(1e8 * (1 + i) as f64, 1e9)
        };
        let cluster = Arc::new(Cluster::new((0..12).map(node).collect()).unwrap());
        let all: Vec<(usize, usize)> = (0..12).map(|i| (i, i)).collect();
        let racks = Problem::new(plain.dag().clone(), cluster, &all, &all).unwrap();
        let places = |problem: &Problem, budget: &mut SearchBudget<'_>| -> Vec<Option<usize>> {
            let plan = strategy("vertices").unwrap().plan(problem, budget).unwrap();
            (0..plan.dag().vertices()).map(|v| plan.node_of(v as u32)).collect()
        };
        let budget = || SearchBudget::new(3).with_moves(20_000);
        assert_eq!(places(&plain, &mut budget()), places(&racks, &mut budget()));
        // Stopped at once it is the central plan, and says so.
        let mut stopped = SearchBudget::new(3).until(|| true);
        let plan = strategy("vertices").unwrap().plan(&plain, &mut stopped).unwrap();
        assert!(plan.note().is_some_and(|note| note.contains("central instead of vertices")));
        // Stopped later it is the best so far, and never busier than that.
        let mut asked = 0;
        let mut stopped = SearchBudget::new(3).until(|| {
            asked += 1;
            asked > 40
        });
        let (load, _) = reached(&plain, &mut stopped);
        assert!(load < 704.0, "{load}");
    }
}
