//! Recovery plans against bounds, brute checks of loads, and layouts of all kinds.

mod drain;

use super::*;
use crate::{Node, Result};
use kiln_code::Codec;
use std::ops::Range;

fn codec(spec: &str) -> Codec {
    Codec::new(&spec.parse().unwrap()).unwrap()
}

fn recover(
    codec: &Codec,
    cluster: Cluster,
    layout: Layout,
    destination: Destination,
    options: &RecoveryOptions,
) -> Result<RecoveryPlan> {
    let emit = |lost: &[usize], available: &[usize]| Ok(codec.repair_dag(lost, available)?.1);
    RecoveryPlan::new(Arc::new(cluster), layout, &emit, destination, options)
}

/// Stripes over random nodes, of which some have failed.
fn random(
    codec: &Codec,
    nodes: Range<usize>,
    failed: &[usize],
    stripes: usize,
    seed: u64,
) -> Layout {
    let tolerates = |lost: &[usize]| codec.tolerates(lost);
    Layout::random(codec.shape(), &tolerates, nodes, failed, stripes, seed).unwrap()
}

/// Every plan is proved, goes where it may, and the loads are the sums of the plans' loads, and of
/// the chunks that node 0 gives to be copied; how many these are.
fn prove(plan: &RecoveryPlan, destination: &Destination) -> usize {
    let (nodes, alpha) = (plan.cluster().nodes().len(), plan.shape().alpha);
    let (mut sent, mut received, mut copied) = (vec![0; nodes], vec![0; nodes], 0);
    for (index, job) in plan.jobs().enumerate() {
        if job.strategy == COPIED {
            assert!(plan.plan(index).is_err());
            sent[0] += alpha;
            received[usize::from(job.targets[0])] += alpha;
            copied += 1;
            continue;
        }
        let placed = plan.plan(index).unwrap();
        placed.check().unwrap();
        for (node, cost) in placed.costs().nodes().iter().enumerate() {
            sent[node] += cost.sent;
            received[node] += cost.received;
        }
        let homes = plan.layout.stripe(job.stripe).homes();
        for &target in job.targets {
            assert!(!homes.contains(&Some(target)), "two chunks of a stripe on one node");
            if let Destination::Nodes(list) = destination {
                assert!(list.contains(&usize::from(target)));
            }
        }
    }
    let equal = |counts: &[usize], said: Vec<f64>| {
        let pairs = counts.iter().zip(&said);
        pairs.into_iter().all(|(&count, said)| (count as f64 / alpha as f64 - said).abs() < 1e-6)
    };
    assert!(equal(&sent, plan.sent().collect()) && equal(&received, plan.received().collect()));
    assert!(plan.makespan() >= plan.bound() - 1e-9, "{} {}", plan.makespan(), plan.bound());
    copied
}

fn quick() -> RecoveryOptions {
    RecoveryOptions { moves: 2_000, ..RecoveryOptions::default() }
}

#[test]
fn every_recovery_is_proved_and_its_loads_are_exact() {
    let codes = ["clay:4+2", "rs:4+2", "butterfly:3+2", "clay:3+3,d=4", "rdp:4+2", "rep:3"];
    for spec in codes.into_iter().chain(["lrc:4+2+2"]) {
        let codec = codec(spec);
        let n = codec.shape().n();
        let links = |i: usize| 1e8 * (1 + i % 3) as f64;
        let node = |i: usize| Node::new(format!("n{i}")).with_link(links(i), links(i + 1));
        let nodes = 2 * n + 3;
        let layout = random(&codec, 0..nodes - 2, &[0, 1], 25, 4);
        let new = vec![0, nodes - 1, nodes - 2];
        let one = Destination::Nodes(vec![nodes - 1]);
        for destination in [Destination::Spread, Destination::Nodes(new), one] {
            let cluster = Cluster::new((0..nodes).map(node).collect()).unwrap();
            let plan = recover(&codec, cluster, layout.clone(), destination.clone(), &quick());
            prove(&plan.unwrap(), &destination);
        }
    }
}

/// A strategy may be asked for by itself, whatever it is and however many chunks are lost.
#[test]
fn every_strategy_recovers_by_itself() {
    for spec in ["rs:3+2", "clay:2+2"] {
        let codec = codec(spec);
        let layout = random(&codec, 0..8, &[0, 1], 12, 5);
        assert!(layout.stripes().any(|stripe| stripe.lost().count() == 2));
        for row in crate::STRATEGIES {
            let options = RecoveryOptions { strategies: vec![row.name], ..quick() };
            let cluster = Cluster::uniform(8).unwrap();
            let plan = recover(&codec, cluster, layout.clone(), Destination::Spread, &options);
            prove(&plan.unwrap(), &Destination::Spread);
        }
    }
}

/// The bar: 100 stripes of 10+4 on 20 survivors, in MiB for chunks of 256 MiB. Stripes planned
/// alone need a third more.
#[test]
fn spread_recovery_is_within_five_percent_of_the_bound() {
    let codec = codec("clay:10+4");
    let joint = RecoveryOptions { strategies: vec!["central"], ..RecoveryOptions::default() };
    let alone = RecoveryOptions { sweeps: 0, ..joint.clone() };
    for seed in 1..=3 {
        let layout = random(&codec, 0..21, &[0], 100, seed);
        let makespan = |options| {
            let cluster = Cluster::uniform(21).unwrap();
            let plan = recover(&codec, cluster, layout.clone(), Destination::Spread, options);
            let plan = plan.unwrap();
            (plan.makespan() * 256.0, plan.bound() * 256.0)
        };
        let (reached, bound) = makespan(&joint);
        assert!(bound >= 4160.0 && reached <= 1.05 * bound, "{reached} of {bound}");
        let (reached, bound) = makespan(&alone);
        assert!(reached > 1.25 * bound, "{reached} of {bound}");
    }
}

/// The bound of a spread recovery is that of the design: S B (n-1) / (q M), or the busiest helper.
#[test]
fn the_bound_is_the_known_one() {
    let codec = codec("clay:4+2");
    let layout = random(&codec, 0..13, &[12], 400, 9);
    let mut stored = [0; 12];
    for stripe in layout.stripes() {
        stripe.homes().iter().flatten().for_each(|&node| stored[usize::from(node)] += 1);
    }
    let busiest = f64::from(*stored.iter().max().unwrap()) / 2.0;
    let known = busiest.max(400.0 * 5.0 / (2.0 * 12.0));
    let cluster = Cluster::uniform(13).unwrap();
    let plan = recover(&codec, cluster, layout.clone(), Destination::Spread, &quick()).unwrap();
    assert!((plan.bound() - known).abs() < 1e-9, "{} {known}", plan.bound());
    // One replacement receives at least every lost chunk.
    let cluster = Cluster::uniform(13).unwrap();
    let one = Destination::Nodes(vec![12]);
    let plan = recover(&codec, cluster, layout, one, &quick()).unwrap();
    assert!(plan.bound() >= 400.0);
}

#[test]
fn stripes_at_risk_come_first() {
    let codec = codec("clay:4+3");
    let layout = random(&codec, 0..12, &[3, 5, 8], 200, 2);
    let cluster = Cluster::uniform(12).unwrap();
    let plan = recover(&codec, cluster, layout, Destination::Spread, &quick()).unwrap();
    let lost: Vec<usize> = plan.jobs().map(|job| job.lost.len()).collect();
    assert!(lost.is_sorted_by(|a, b| a >= b) && lost[0] == 3 && lost[199] == 1, "{lost:?}");
    let classes = plan.classes();
    assert_eq!(classes.iter().map(|class| class.lost).collect::<Vec<_>>(), [3, 2, 1]);
    assert!(classes.is_sorted_by(|a, b| a.makespan <= b.makespan));
    assert_eq!(classes.iter().map(|class| class.stripes).sum::<usize>(), 200);
}

#[test]
fn the_same_seed_gives_the_same_recovery() {
    let codec = codec("clay:4+2");
    let jobs = || {
        let layout = random(&codec, 0..10, &[1], 50, 3);
        let cluster = Cluster::uniform(10).unwrap();
        let plan = recover(&codec, cluster, layout, Destination::Spread, &quick()).unwrap();
        plan.jobs().map(|job| (job.stripe, job.targets.to_vec())).collect::<Vec<_>>()
    };
    assert_eq!(jobs(), jobs());
}

#[test]
fn impossible_recoveries_are_refused() {
    let codec = codec("rs:4+2");
    let refused = |homes: &[Option<u16>], nodes, destination| {
        let mut layout = Layout::new(codec.shape());
        layout.push(homes).unwrap();
        let cluster = Cluster::uniform(nodes).unwrap();
        recover(&codec, cluster, layout, destination, &quick()).unwrap_err().to_string()
    };
    let homes = |list: [i32; 6]| list.map(|home| u16::try_from(home).ok());
    let error = refused(&homes([-1, -1, -1, 3, 4, 5]), 9, Destination::Spread);
    assert!(error.contains("3 chunks are left, 4 are needed"), "{error}");
    let error = refused(&homes([-1, 1, 2, 3, 4, 4]), 9, Destination::Spread);
    assert!(error.contains("node 4 has two"), "{error}");
    let error = refused(&homes([-1, 1, 2, 3, 4, 5]), 6, Destination::Spread);
    assert!(error.contains("has one of its chunks already"), "{error}");
    let error = refused(&homes([-1, 1, 2, 3, 4, 9]), 9, Destination::Spread);
    assert!(error.contains("node 9 of 9"), "{error}");
    let error = refused(&homes([-1, 1, 2, 3, 4, 5]), 9, Destination::Nodes(vec![9]));
    assert!(error.contains("a destination"), "{error}");
    assert!(
        Layout::random(codec.shape(), &|lost| codec.tolerates(lost), 0..5, &[0], 1, 1).is_err()
    );
    assert!(
        Layout::random(codec.shape(), &|lost| codec.tolerates(lost), 0..9, &[9], 1, 1).is_err()
    );
    assert!(Layout::random(codec.shape(), &|lost| codec.tolerates(lost), 0..9, &[], 1, 1).is_err());
}

#[test]
fn nothing_lost_is_an_empty_plan() {
    let codec = codec("rs:2+1");
    let mut layout = Layout::new(codec.shape());
    layout.push(&[Some(0), Some(1), Some(2)]).unwrap();
    let cluster = Cluster::uniform(3).unwrap();
    let plan = recover(&codec, cluster, layout, Destination::Spread, &quick()).unwrap();
    assert_eq!((plan.jobs().count(), plan.makespan()), (0, 0.0));
    assert!(plan.plan(0).is_err());
}

/// New machines are filled at the speed of their links: hubs, different ones for every stripe,
/// keep the helpers out of the way.
#[test]
fn replacements_are_filled_at_the_bound() {
    let codec = codec("clay:10+4");
    let options = RecoveryOptions { strategies: vec!["central", "hub"], ..quick() };
    let layout = random(&codec, 0..21, &[0], 100, 1);
    for new in [vec![0], vec![21, 22]] {
        let cluster = Cluster::uniform(23).unwrap();
        let to = Destination::Nodes(new.clone());
        let plan = recover(&codec, cluster, layout.clone(), to, &options).unwrap();
        let (reached, bound) = (plan.makespan(), plan.bound());
        assert!((bound - 100.0 / new.len() as f64).abs() < 1e-9, "{bound}");
        assert!(reached <= 1.01 * bound, "{new:?}: {reached} of {bound}");
    }
}

/// Racks: a rebuilt chunk goes to a rack that has no chunk of its stripe, as long as there is one.
#[test]
fn rebuilt_chunks_keep_domains_apart() {
    // Eight racks of three machines; chunk i of a stripe is in a rack of its own.
    let node = |i: usize| Node::new(format!("n{i}")).in_domain(format!("rack{}", i / 3));
    let codec = codec("clay:4+2");
    let mut layout = Layout::new(codec.shape());
    for i in 0..60_u16 {
        // The first one or two chunks were on machines that are gone: those of rack 7.
        let home = |c: u16| Some((i + c) % 7 * 3 + (i / 7 + c) % 3);
        let lost = 1 + i % 2;
        let homes: Vec<Option<u16>> = (0..6).map(|c| home(c).filter(|_| c >= lost)).collect();
        layout.push(&homes).unwrap();
    }
    for sweeps in [0, 12] {
        let options = RecoveryOptions { sweeps, ..quick() };
        let cluster = Cluster::new((0..24).map(node).collect()).unwrap();
        let to = Destination::Nodes((0..24).collect());
        let plan = recover(&codec, cluster, layout.clone(), to, &options).unwrap();
        prove(&plan, &Destination::Spread);
        assert_eq!(plan.crowded(), 0);
        // Both new machines are in one rack: two chunks of a stripe share it, which is said.
        let cluster = Cluster::new((0..24).map(node).collect()).unwrap();
        let to = Destination::Nodes(vec![21, 22]);
        let plan = recover(&codec, cluster, layout.clone(), to, &options).unwrap();
        assert_eq!(plan.crowded(), 60, "both chunks of the thirty that lost two");
    }
}
