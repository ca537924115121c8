//! What the hub rule promises, for every block: the bound, the frontier, optimal disk reads.

use kiln_code::Codec;
use kiln_plan::{Bound, Plan, Problem, SearchBudget, frontier, strategy};

fn problem(codec: &Codec, lost: usize) -> Problem {
    let available: Vec<usize> = (0..codec.shape().n()).filter(|&i| i != lost).collect();
    Problem::on_own_nodes(codec.repair_dag(&[lost], &available).unwrap().1).unwrap()
}

fn codec(spec: &str) -> Codec {
    Codec::new(&spec.parse().unwrap()).unwrap()
}

fn plan(problem: &Problem, moves: u64) -> Plan {
    let mut budget = SearchBudget::new(1).with_moves(moves);
    let plan = strategy("hub").unwrap().plan(problem, &mut budget).unwrap();
    plan.check().unwrap();
    assert_eq!(plan.note(), None);
    plan
}

#[test]
fn clay_meets_the_bound_at_every_block_without_search() {
    for spec in ["clay:2+2", "clay:4+2", "clay:6+3", "clay:8+4", "clay:10+4", "clay:12+4"] {
        let codec = codec(spec);
        let shape = codec.shape();
        let (n, w, q) = (shape.n(), shape.alpha, shape.m);
        for lost in 0..n {
            let problem = problem(&codec, lost);
            let costs = plan(&problem, 0).costs();
            assert_eq!(costs.max_load(), w, "{spec} {lost}");
            assert_eq!(costs.bandwidth() * q, w * (q + n - 2), "{spec} {lost}");
            assert_eq!(costs.read() * q, w * (n - 1), "{spec} {lost}");
        }
    }
}

#[test]
fn every_point_of_the_frontier_is_on_the_bound() {
    for spec in ["clay:2+2", "clay:4+2", "clay:6+3", "clay:8+4", "clay:10+4", "clay:12+4"] {
        let codec = codec(spec);
        for lost in [0, codec.shape().k - 1, codec.shape().n() - 1] {
            let problem = problem(&codec, lost);
            let bound = Bound::of(&problem).unwrap();
            let plans = frontier(&problem, &mut SearchBudget::new(1).with_moves(0)).unwrap();
            assert_eq!(plans.len(), codec.shape().m + 1);
            for plan in plans {
                plan.check().unwrap();
                let costs = plan.costs();
                let received = costs.nodes()[lost].received;
                assert_eq!(costs.max_load(), received, "{spec} {lost}");
                assert_eq!(costs.bandwidth(), bound.sub_chunks(received), "{spec} {lost}");
                assert_eq!(costs.read(), problem.dag().inputs().len());
            }
        }
    }
}

/// k - 1 > q^2: two columns of hubs share the layers, by a rule too.
#[test]
fn more_data_chunks_share_the_layers_between_columns() {
    for (spec, above) in [("clay:20+4", 0.0), ("clay:17+3", 0.011)] {
        let codec = codec(spec);
        let problem = problem(&codec, 3);
        let costs = plan(&problem, 0).costs();
        let w = codec.shape().alpha;
        let bound = Bound::of(&problem).unwrap().sub_chunks(w) as f64;
        assert_eq!(costs.max_load(), w, "{spec}");
        assert!(costs.bandwidth() as f64 <= bound * (1.0 + above), "{spec}");
    }
}

#[test]
fn two_parities_and_many_data_chunks_are_searched() {
    for spec in ["clay:10+2", "clay:12+2"] {
        let codec = codec(spec);
        let problem = problem(&codec, 0);
        let costs = plan(&problem, 200_000).costs();
        let w = codec.shape().alpha;
        assert_eq!(costs.max_load(), w, "{spec}");
        let bound = Bound::of(&problem).unwrap().sub_chunks(w) as f64;
        assert!(costs.bandwidth() as f64 <= 1.05 * bound, "{spec}");
    }
}

#[test]
fn sums_on_the_way_need_k_chunks_of_traffic() {
    let problem = problem(&codec("rs:10+4"), 2);
    let costs = |name: &str| {
        let plan = strategy(name).unwrap().plan(&problem, &mut SearchBudget::default()).unwrap();
        let proof = plan.check();
        assert!(proof.is_ok());
        (plan.costs().max_load(), plan.costs().bandwidth())
    };
    assert_eq!(costs("central"), (10, 10));
    assert_eq!(costs("pipeline"), (1, 10));
    // Ten helpers meet in pairs, 10 to 5 to 2 to 1: one of them is there three times.
    assert_eq!(costs("ppr"), (3, 10));
}

#[test]
fn searches_come_near_the_optimum_of_small_repairs() {
    let problem = problem(&codec("clay:2+2"), 0);
    for name in ["anneal", "pareto", "vertices"] {
        let plan = strategy(name).unwrap().plan(&problem, &mut SearchBudget::new(3)).unwrap();
        plan.check().unwrap();
        assert_eq!((plan.costs().max_load(), plan.costs().bandwidth()), (4, 8), "{name}");
    }
}
