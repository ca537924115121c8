//! Reads while some nodes stand still: they end with what the others have, or wait where they must.

use std::{sync::Arc, thread};

use kiln_pool::{GetRequest, Pool, RepairRequest};
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
fn a_node_that_stands_still_is_not_asked_for_manifests_or_who_it_is() {
    let bytes = data(50_000, 4);
    let (world, nodes) = world("rs:4+2", 9, &bytes);
    let (before, hedge) = pool(&world);
    let before = Arc::new(before);
    for node in 0..9 {
        // The last two are open, but looked at no node yet, and saw no version committed: the first
        // of them gives it to other homes. Whichever node stands still, its questions are left
        // behind, and those after them are asked of others.
        let pools = [Arc::clone(&before), Arc::new(pool(&world).0), Arc::new(pool(&world).0)];
        assert_eq!(get(&pools[0], None).unwrap(), bytes);
        let hang = Fault::new(FaultAction::Hang).on(Operation::Open).always();
        world.disks[node].faulty.inject(hang);
        for pool in &pools {
            assert_eq!(get(pool, Some(7..20_000)).unwrap(), bytes[7..20_000], "{node}");
            assert_eq!(get(pool, None).unwrap(), bytes, "{node}");
        }
        world.disks[node].faulty.heal();
        // One of the next version, whose commit was not seen, waits for nothing that is lacking.
        world.put("object", &bytes).unwrap();
    }
    // Nor are two, as many as the code tolerates, of those that have shards.
    let (pool, late) = (pool(&world).0, hedge.counts().late);
    nodes[..2].iter().for_each(|node| hang(&world, *node, Operation::Open));
    assert_eq!(get(&pool, None).unwrap(), bytes);
    assert!(late > 0);
    world.disks.iter().for_each(|disk| disk.faulty.heal());
}

#[test]
fn single_blocks_are_rebuilt_without_a_slow_node() {
    let bytes = data(500_000, 6);
    for (code, n) in [("rs:4+2", 6), ("lrc:4+2+2", 8)] {
        let (world, nodes) = world(code, n, &bytes);
        let (pool, hedge) = pool(&world);
        let object = pool.open_object("object").unwrap();
        hang(&world, nodes[1], Operation::Read);
        let mut parts = 0;
        for at in (0..bytes.len() - 4096).step_by(8192) {
            let mut block = [0; 4096];
            if object.read_unchecked(&pool, at as u64, &mut block)
                || object.rebuild_unchecked(&pool, at as u64, &mut block)
            {
                assert_eq!(block, bytes[at..at + 4096], "{code} {at}");
                parts += 1;
            }
        }
        assert!(parts > 0 && hedge.counts().late > 0 && !object.met_failure(), "{code}");
        world.disks.iter().for_each(|disk| disk.faulty.heal());
    }
}

#[test]
fn repairs_read_around_a_slow_node() {
    let bytes = data(2_000_000, 7);
    for (code, n) in [("rs:4+2", 8), ("clay:4+2", 8)] {
        let (mut world, nodes) = world(code, n, &bytes);
        world.replace_disk(nodes[0]);
        let (pool, hedge) = pool(&world);
        // After its shard was opened: what is lost is not known before all have answered.
        let hang = Fault::new(FaultAction::Hang).on(Operation::Read).named(".kiln").after(6);
        world.disks[nodes[2]].faulty.inject(hang.always());
        let req = RepairRequest { now_ms: 1, away: true, ..RepairRequest::default() };
        let repaired = thread::scope(|scope| {
            let repair = scope.spawn(|| pool.repairer().repair("object", &req, &settings()));
            // The shard is in its place before the slow node answers; then all are looked at again.
            let is_there = || world.files(nodes[0]).iter().any(|name| name.ends_with(".kiln"));
            while !is_there() && !repair.is_finished() {
                thread::yield_now();
            }
            world.disks.iter().for_each(|disk| disk.faulty.heal());
            repair.join().unwrap().unwrap()
        });
        assert!(repaired.rebuilt.len() == 1 && hedge.counts().late > 0, "{code}");
        assert_eq!(world.get("object").unwrap(), bytes);
    }
}
