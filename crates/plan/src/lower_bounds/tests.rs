//! Limits against the closed form, and plans of all strategies against limits.

use super::*;
use crate::{Bound, Node, STRATEGIES, SearchBudget, strategy};
use kiln_code::Codec;
use std::sync::Arc;

fn dag(spec: &str, lost: &[usize], absent: &[usize]) -> Dag {
    let codec = Codec::new(&spec.parse().unwrap()).unwrap();
    let available: Vec<usize> =
        (0..codec.shape().n()).filter(|i| !lost.contains(i) && !absent.contains(i)).collect();
    codec.repair_dag(lost, &available).unwrap().1
}

/// No plan of any strategy is below the limits; returns the best load and its bandwidth.
fn respected(problem: &Problem) -> (usize, usize, LowerBounds) {
    let limits = LowerBounds::of(problem).unwrap().unwrap();
    let mut best = (usize::MAX, usize::MAX);
    for row in STRATEGIES {
        let mut budget = SearchBudget::new(3).with_moves(20_000);
        let plan = row.plan(problem, &mut budget).unwrap();
        let costs = plan.costs();
        let (load, bandwidth) = (costs.max_load(), costs.bandwidth());
        assert!(load >= limits.max_load(), "{}", row.name);
        assert!(bandwidth >= limits.bandwidth(load), "{}: {bandwidth}", row.name);
        assert!(costs.across_domains() >= limits.across_domains(), "{}", row.name);
        let cluster = problem.cluster();
        let least = limits.seconds(cluster, 1 << 20);
        assert!(costs.seconds(cluster, 1 << 20) >= least * 0.999_999, "{}", row.name);
        best = best.min((load, bandwidth));
    }
    (best.0, best.1, limits)
}

/// With all helpers or fewer: the limits are the closed form of MDS codes, and met by hubs.
#[test]
fn limits_are_the_closed_form_for_one_lost_chunk() {
    for (spec, n, k, absent) in [
        ("clay:2+2", 4, 2, vec![]),
        ("clay:4+2", 6, 4, vec![]),
        ("butterfly:3+2", 5, 3, vec![]),
        ("clay:4+3,d=5", 6, 4, vec![6]),
    ] {
        let dag = dag(spec, &[0], &absent);
        let (w, d) = (dag.outputs().len(), dag.reads().len());
        let problem = Problem::on_own_nodes(dag).unwrap();
        let (load, bandwidth, limits) = respected(&problem);
        let bound = Bound::new(n, k, w).unwrap();
        assert_eq!((limits.max_load(), d), (w, n - 1), "{spec}");
        assert_eq!(limits.bandwidth(w), bound.sub_chunks(w), "{spec}");
        assert!(load == w && bandwidth <= limits.bandwidth(w) + 2, "{spec}: {bandwidth}");
    }
}

#[test]
fn several_lost_chunks() {
    for (spec, lost) in [("clay:4+2", vec![0, 5]), ("clay:3+3", vec![1, 4]), ("rs:4+2", vec![0, 1])]
    {
        let problem = Problem::on_own_nodes(dag(spec, &lost, &[])).unwrap();
        let (load, _, limits) = respected(&problem);
        assert_eq!(limits.max_load(), problem.dag().outputs().len() / lost.len(), "{spec}");
        assert!(load <= 3 * limits.max_load(), "{spec}: {load}");
    }
}

/// A node with a tenth of the link decides; a plan knows it.
#[test]
fn unequal_links() {
    let dag = Arc::new(dag("clay:4+2", &[0], &[]));
    let all: Vec<(usize, usize)> = (0..6).map(|i| (i, i)).collect();
    let node = |i: usize| {
        let rate = if i == 3 { 1e8 } else { 1e9 };
        Node::new(format!("n{i}")).with_link(rate, rate)
    };
    let cluster = Arc::new(Cluster::new((0..6).map(node).collect()).unwrap());
    let problem = Problem::new(dag, cluster.clone(), &all, &all).unwrap();
    let (_, _, limits) = respected(&problem);
    let least = limits.seconds(&cluster, 1_000_000);
    assert!((least - 4.0 * 1e6 / 1e8).abs() < 1e-9, "four sub-chunks over the slow link: {least}");
    let plan = strategy("anneal").unwrap();
    let plan = plan.plan(&problem, &mut SearchBudget::new(1).with_moves(100_000)).unwrap();
    assert!(plan.costs().seconds(&cluster, 1_000_000) <= 1.26 * least);
}

/// A new node that is a helper, and one that is outside; two chunks on one node.
#[test]
fn new_nodes_anywhere() {
    let dag = Arc::new(dag("clay:4+2", &[2], &[]));
    let cluster = Arc::new(Cluster::uniform(9).unwrap());
    let homes: Vec<(usize, usize)> = (0..6).map(|i| (i, i)).collect();
    for (target, received) in [(8, 8), (1, 4)] {
        let problem = Problem::new(dag.clone(), cluster.clone(), &homes, &[(2, target)]).unwrap();
        let (load, _, limits) = respected(&problem);
        assert!(limits.received[target] >= received, "{:?}", limits.received);
        assert!(load <= 2 * limits.max_load());
    }
    let together: Vec<(usize, usize)> = (0..6).map(|i| (i, i / 2)).collect();
    let problem = Problem::new(dag, cluster, &together, &[(2, 7)]).unwrap();
    respected(&problem);
}

/// A client that wants a part of a chunk: less is received and less is sent.
#[test]
fn ranges_of_a_chunk() {
    for spec in ["clay:4+2", "butterfly:4+2", "rs:4+2"] {
        let problem = Problem::on_own_nodes(dag(spec, &[1], &[])).unwrap();
        let whole = LowerBounds::of(&problem).unwrap().unwrap();
        let node_execution = problem.of_range(|at| at.position < 3).unwrap();
        let (_, _, limits) = respected(&node_execution);
        assert!(limits.max_load() <= whole.max_load());
        assert!(limits.bandwidth(8) <= whole.bandwidth(8));
        assert_eq!(limits.received.iter().sum::<usize>(), node_execution.dag().outputs().len());
    }
}

/// Racks: what must cross is known, and plans that are told so cross little more than that.
#[test]
fn racks() {
    let dag = Arc::new(dag("rs:4+2", &[0], &[]));
    let node = |i: usize| Node::new(format!("n{i}")).in_domain(format!("rack{}", i / 2));
    let cluster = Arc::new(Cluster::new((0..6).map(node).collect()).unwrap());
    let all: Vec<(usize, usize)> = (0..6).map(|i| (i, i)).collect();
    let problem = Problem::new(dag, cluster, &all, &all).unwrap();
    let (_, _, limits) = respected(&problem);
    // Helpers 1 to 4 in racks 0, 1, 1, 2: the sum of rack 1 and the chunk of rack 2 must come.
    assert_eq!(limits.across_domains(), 2);
    let plan = strategy("anneal").unwrap();
    let plan = plan.plan(&problem, &mut SearchBudget::new(1).with_moves(50_000)).unwrap();
    assert_eq!(plan.costs().across_domains(), 2);
}

/// Rotations of one set: 13 helpers in fours split every pair equally (a difference set), so that
/// the limit of 10+4 is the closed form; it holds for two losses of large codes too.
#[test]
fn large_repairs_have_limits() {
    assert_eq!(even_set(13, 4).1, 3);
    let problem = Problem::on_own_nodes(dag("clay:10+4", &[0], &[])).unwrap();
    let limits = LowerBounds::of(&problem).unwrap().unwrap();
    assert_eq!((limits.max_load(), limits.bandwidth(256)), (256, 1024));
    let problem = Problem::on_own_nodes(dag("clay:8+3", &[0, 5], &[])).unwrap();
    let (w, read) = (problem.dag().outputs().len() / 2, problem.dag().inputs().len());
    let limits = LowerBounds::of(&problem).unwrap().unwrap();
    assert!(limits.max_load() == w && limits.bandwidth(w) > read, "{limits:?}");
    for name in ["central", "pipeline"] {
        let costs =
            strategy(name).unwrap().plan(&problem, &mut SearchBudget::default()).unwrap().costs();
        assert!(costs.bandwidth() >= limits.bandwidth(costs.max_load()), "{name}");
    }
}
