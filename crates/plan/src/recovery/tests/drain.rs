//! Nodes that are emptied while they still answer.

use super::*;
use crate::{Node, Result};

/// Stripes over random nodes; what node 0 has is to leave it.
fn layout(codec: &Codec, nodes: usize, stripes: usize) -> Layout {
    random(codec, 0..nodes, &[0], stripes, 7)
}

fn drain(codec: &Codec, cluster: Cluster, layout: Layout, to: Destination) -> Result<RecoveryPlan> {
    let options = RecoveryOptions { leaving: Some(0), ..quick() };
    recover(codec, cluster, layout, to, &options)
}

/// Chunks that are copied, after a look at every job: no node gets two chunks of a stripe, and none
/// goes back to the one that is emptied.
fn copied(plan: &RecoveryPlan) -> usize {
    for job in plan.jobs() {
        let &[target] = job.targets else { panic!("{job:?}") };
        assert!(!plan.layout.stripe(job.stripe).has(target) && target != 0);
    }
    let copied = prove(plan, &Destination::Spread);
    assert_eq!(plan.strategies().get(COPIED).copied().unwrap_or(0), copied);
    copied
}

#[test]
fn a_node_is_emptied_near_the_bound_whatever_the_code() {
    for spec in ["clay:10+4", "clay:4+2", "rs:4+2", "rep:3", "lrc:4+2+2"] {
        let codec = codec(spec);
        let nodes = codec.shape().n() + 6;
        let cluster = || Cluster::uniform(nodes).unwrap();
        let layout = layout(&codec, nodes, 60);
        let plan = drain(&codec, cluster(), layout.clone(), Destination::Spread).unwrap();
        let copied = copied(&plan);
        // Copying alone has one link send all 60, and repairing alone is no better.
        let dead = recover(&codec, cluster(), layout, Destination::Spread, &quick()).unwrap();
        let (least, bound) = (plan.makespan(), plan.bound());
        assert!(least <= dead.makespan() && least < 60.0, "{spec} {least}");
        if ["clay:10+4", "clay:4+2", "rs:4+2"].contains(&spec) {
            assert!(least < 1.2 * bound && copied > 0, "{spec} {least} {bound}");
            assert!(least < 0.9 * dead.makespan(), "{spec} {least}");
        }
    }
}

#[test]
fn the_bound_is_one_that_brute_force_keeps() {
    // Two nodes left for one chunk each of two stripes of a replicated code: whichever node sends,
    // the busiest link has a chunk to carry, or two where both come from one node.
    let codec = codec("rep:2");
    let mut layout = Layout::new(codec.shape());
    layout.push(&[None, Some(1)]).unwrap();
    layout.push(&[None, Some(1)]).unwrap();
    let to = Destination::Nodes(vec![2, 3]);
    let plan = drain(&codec, Cluster::uniform(4).unwrap(), layout, to).unwrap();
    assert_eq!(copied(&plan), 1);
    assert!((plan.makespan() - 1.0).abs() < 1e-9 && (plan.bound() - 1.0).abs() < 1e-9);
}

#[test]
fn one_spare_node_receives_everything() {
    let codec = codec("clay:4+2");
    let layout = layout(&codec, 6, 30);
    let to = Destination::Nodes(vec![6]);
    let plan = drain(&codec, Cluster::uniform(7).unwrap(), layout, to).unwrap();
    copied(&plan);
    assert!((plan.makespan() - 30.0).abs() < 1.0, "{}", plan.makespan());
    assert!((plan.bound() - 30.0).abs() < 1e-9, "{}", plan.bound());
}

#[test]
fn a_slow_node_gives_little_itself() {
    let codec = codec("clay:4+2");
    let node = |at: usize| Node::new(format!("n{at}"));
    let cluster = |slow: f64| {
        let first = node(0).with_link(1.25e9 / slow, 1.25e9 / slow);
        Cluster::new([first].into_iter().chain((1..12).map(node)).collect()).unwrap()
    };
    let of = |slow: f64| {
        let layout = layout(&codec, 12, 60);
        copied(&drain(&codec, cluster(slow), layout, Destination::Spread).unwrap())
    };
    let (fast, slow) = (of(1.0), of(10.0));
    assert!(fast > 2 * slow, "{fast} {slow}");
}

#[test]
fn what_cannot_be_emptied_is_said() {
    let codec = codec("rs:2+1");
    let cluster = || Cluster::uniform(4).unwrap();
    let mut missing = Layout::new(codec.shape());
    missing.push(&[None, Some(1), Some(2)]).unwrap();
    let error = drain(&codec, cluster(), missing, Destination::Nodes(vec![0, 3])).unwrap_err();
    assert!(error.to_string().contains("destination"), "{error}");
    let mut there = Layout::new(codec.shape());
    there.push(&[Some(0), Some(1), None]).unwrap();
    let error = drain(&codec, cluster(), there, Destination::Nodes(vec![3])).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
    let mut whole = Layout::new(codec.shape());
    whole.push(&[Some(1), Some(2), Some(3)]).unwrap();
    let plan = drain(&codec, cluster(), whole, Destination::Spread).unwrap();
    assert!(plan.jobs().len() == 0 && plan.makespan() == 0.0 && plan.bound() == 0.0);
}
