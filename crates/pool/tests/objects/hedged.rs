//! Reads while some nodes stand still: they end with what the others have, or wait where they must.

use std::{sync::Arc, thread};

use kiln_pool::{GetRequest, Pool};
use kiln_store::Operation;
use kiln_stripe::{Hedge, Result};
use kiln_testkit::{Fault, FaultAction};

use crate::world::*;

/// A pool of n nodes that have a shard of an object each, and the nodes by the shard's index.
fn world(code: &str, n: usize, bytes: &[u8]) -> (World, Vec<usize>) {
    let world = World::new(code, n);
    let report = world.put("object", bytes).unwrap();
    let nodes = report.nodes.iter().map(|id| id.trim_start_matches('n').parse().unwrap());
    (world, nodes.collect())
}

fn hang(world: &World, node: usize, operation: Operation) {
    let fault = Fault::new(FaultAction::Hang).on(operation).named(".kiln").always();
    world.disks[node].faulty.inject(fault);
}

fn pool(world: &World) -> (Pool, Arc<Hedge>) {
    let hedge = Arc::new(Hedge::default());
    (world.pool().hedged(hedge.clone()), hedge)
}

fn get(pool: &Pool, range: Option<std::ops::Range<u64>>) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    pool.get(&GetRequest { name: "object", range }, &mut out, &settings()).map(|_| out)
}

#[test]
fn reads_end_without_nodes_that_stand_still() {
    let bytes = data(50_000, 1);
    for (code, n, m) in [("rs:4+2", 6, 2), ("clay:4+2", 6, 2), ("lrc:4+2+2", 8, 2)] {
        for operation in [Operation::Open, Operation::Read] {
            let (world, nodes) = world(code, n, &bytes);
            let (pool, hedge) = pool(&world);
            assert_eq!(get(&pool, None).unwrap(), bytes);
            // Manifests are on these nodes, too: they are files of other names.
            nodes[..m].iter().for_each(|node| hang(&world, *node, operation));
            assert_eq!(get(&pool, None).unwrap(), bytes, "{code} {operation:?}");
            assert_eq!(get(&pool, Some(100..5_000)).unwrap(), bytes[100..5_000], "{code}");
            assert!(hedge.counts().late > 0, "{code} {operation:?}");
            let mut object = pool.open_object("object").unwrap();
            for at in [0, 20_000, 49_000] {
                let range = at..at + 1_000;
                let read = object.read(&pool, range.clone(), &settings()).unwrap();
                assert_eq!(read, bytes[at as usize..][..1_000]);
                object = object.closed();
            }
            world.disks.iter().for_each(|disk| disk.faulty.heal());
        }
    }
}

#[test]
fn what_needs_a_node_that_stands_still_waits_for_it() {
    let bytes = data(50_000, 2);
    for operation in [Operation::Open, Operation::Read] {
        let (world, nodes) = world("rs:4+2", 6, &bytes);
        let (pool, _) = pool(&world);
        nodes[..3].iter().for_each(|node| hang(&world, *node, operation));
        thread::scope(|scope| {
            let reads = [None, Some(7..20_000), Some(30_000..30_010)].map(|range| {
                let pool = &pool;
                let wanted = range.clone().unwrap_or(0..bytes.len() as u64);
                (wanted, scope.spawn(move || get(pool, range)))
            });
            nodes[..3].iter().for_each(|node| world.disks[*node].faulty.heal());
            for (wanted, read) in reads {
                let read = read.join().unwrap().unwrap();
                assert_eq!(read, bytes[wanted.start as usize..wanted.end as usize]);
            }
        });
    }
}

#[test]
fn damage_beside_a_node_that_stands_still_is_no_loss() {
    let bytes = data(50_000, 3);
    let (world, nodes) = world("rs:4+2", 6, &bytes);
    let (pool, _) = pool(&world);
    for node in &nodes[3..5] {
        let flip = FaultAction::Flip { offset: 5_000, mask: 1 };
        world.disks[*node].faulty.inject(Fault::new(flip).named(".kiln").always());
    }
    hang(&world, nodes[0], Operation::Read);
    thread::scope(|scope| {
        let read = scope.spawn(|| get(&pool, None));
        world.disks[nodes[0]].faulty.heal();
        assert_eq!(read.join().unwrap().unwrap(), bytes);
    });
}

#[test]
fn manifests_that_were_seen_to_be_committed_are_not_asked_of_slow_nodes() {
    let bytes = data(50_000, 4);
    let (world, _) = world("rs:4+2", 9, &bytes);
    let (pool, hedge) = pool(&world);
    // Whichever node stands still: its questions, for maps and manifests, are left behind, and
    // those after them are asked of others.
    for node in 0..9 {
        assert_eq!(get(&pool, None).unwrap(), bytes);
        let hang = Fault::new(FaultAction::Hang).on(Operation::Open).always();
        world.disks[node].faulty.inject(hang);
        for _ in 0..3 {
            assert_eq!(get(&pool, None).unwrap(), bytes, "{node}");
        }
        world.disks[node].faulty.heal();
        // One of the next version, whose commit was not seen, waits for nothing that is lacking.
        world.put("object", &bytes).unwrap();
    }
    assert!(hedge.counts().late > 0);
}
