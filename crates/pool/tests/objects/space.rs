//! Room on nodes: full nodes are passed over, and shards move to nodes that joined.

use std::{collections::BTreeMap, io::ErrorKind};

use kiln_pool::layout::place;
use kiln_pool::{
    Key, NodeConfig, NodeState, PutReport, PutRequest, RebalanceReport, RebalanceRequest,
    ScrubRequest,
};
use kiln_store::{MemoryBackend, Operation};
use kiln_stripe::{PoolError, Result, StreamSource};
use kiln_testkit::{Fault, FaultAction};

use crate::recover::recover;
use crate::world::{Disk, World, data, settings};

fn objects(world: &World, count: usize) -> BTreeMap<String, Vec<u8>> {
    let sizes = [40, 3_000, 4_500];
    let object = |at: usize| (format!("o{at:02}"), data(sizes[at % 3], at as u64));
    let objects: BTreeMap<_, _> = (0..count).map(object).collect();
    objects.iter().for_each(|(name, bytes)| drop(put(world, name, bytes).unwrap()));
    objects
}

/// Puts bytes of which it is known how many they are, as those of a file.
fn put(world: &World, name: &str, bytes: &[u8]) -> Result<PutReport> {
    let req = PutRequest { name, run: world.run(), now_ms: 1_000, replace: true };
    let mut source = StreamSource::new(bytes).with_size(bytes.len() as u64);
    world.pool().put(&req, &mut source, &settings())
}

fn all_are_read(world: &World, objects: &BTreeMap<String, Vec<u8>>) {
    for (name, bytes) in objects {
        assert!(world.get(name).unwrap() == *bytes, "{name}");
    }
}

fn repair(world: &World) {
    let report = recover(&world.pool(), &world.index(), (2_000, false), &settings()).unwrap();
    assert_eq!((report.failed_count, report.waiting), (0, 0), "{report:#?}");
}

fn rebalance(world: &World, dry_run: bool) -> RebalanceReport {
    let req = RebalanceRequest { now_ms: 3_000, dry_run };
    world.pool().repairer().rebalance(&world.index(), &req, &settings()).unwrap()
}

fn join(world: &mut World, weight: f64) {
    let at = world.disks.len();
    world.disks.push(Disk::new(MemoryBackend::new()));
    let mut node = NodeConfig::new(&format!("n{at:02}"), &format!("memory://{at}"));
    node.weight = weight;
    let open = |node: &NodeConfig| world.open_node(node);
    world.config = world.pool().members().add_node(node, world.run(), &open, &settings()).unwrap();
    repair(world);
}

/// Returns whether every shard is on one of the nodes that it would be placed on now.
fn all_in_place(world: &World) -> bool {
    let config = world.newest();
    let nodes: Vec<_> = config.node.iter().filter(|n| n.state == NodeState::In).collect();
    let candidates: Vec<_> = nodes.iter().map(|node| node.candidate()).collect();
    let mut good = true;
    world
        .index()
        .each("", None, |listed| {
            let key = Key::of(&listed.name)?;
            let wanted = place(&key, &candidates, listed.nodes.len(), &[]);
            good &= listed.nodes.iter().all(|id| wanted.iter().any(|at| nodes[*at].id == *id));
            Ok(true)
        })
        .unwrap();
    good
}

#[test]
pub fn a_full_node_is_passed_over() {
    for full in 0..6 {
        let world = World::new("rs:2+1", 6);
        let before = objects(&world, 6);
        world.disks[full].faulty.limit_space(50);
        let files = world.files(full);
        let mut after = objects(&world, 30);
        assert!(world.files(full).iter().all(|file| files.contains(file)), "{full}");
        after.extend(before);
        all_are_read(&world, &after);
        world.disks[full].faulty.heal();
        repair(&world);
        all_are_read(&world, &after);
    }
}

/// Nor does a disk that fails writes hinder small objects, which have other homes; and what such a
/// disk could not be given is no loss.
#[test]
fn a_disk_that_fails_writes_is_passed_over_by_manifests() {
    for bad in 0..6 {
        let world = World::new("rs:2+1", 6);
        let faulty = &world.disks[bad].faulty;
        let fail = |operation| Fault::new(FaultAction::Fail(ErrorKind::Other)).on(operation);
        faulty.inject(fail(Operation::Rename).always());
        // Some end halfway: a reader gives them to another home.
        let halves: Vec<String> = (0..8).map(|at| format!("h{at}")).collect();
        halves.iter().for_each(|name| drop(put(&world, name, &data(50, 1))));
        faulty.inject(fail(Operation::Create).always());
        halves.iter().for_each(|name| assert!(world.get(name).unwrap() == data(50, 1), "{name}"));
        (0..8).for_each(|at| drop(put(&world, &format!("s{at}"), &data(50, at)).unwrap()));
        let req = ScrubRequest { now_ms: 3_000, ..ScrubRequest::default() };
        let report = world.scrub(&world.index(), &req);
        assert_eq!(report.unreadable, 0, "{bad} {report:#?}");
    }
}

#[test]
pub fn too_many_full_nodes_are_named_and_nothing_is_changed() {
    let world = World::new("rs:2+1", 4);
    let objects = objects(&world, 9);
    world.disks[0].faulty.limit_space(10);
    world.disks[2].faulty.limit_space(10);
    let error = put(&world, "more", &data(3_000, 4)).unwrap_err();
    assert!(matches!(error, PoolError::Full { .. }), "{error}");
    assert!(error.to_string().contains("no room on n"), "{error}");
    put(&world, "small", &data(50, 4)).unwrap_err();
    world.disks.iter().for_each(|disk| disk.faulty.heal());
    assert!(matches!(world.get("more"), Err(PoolError::NoObject { .. })));
    assert!(matches!(world.get("small"), Err(PoolError::NoObject { .. })));
    all_are_read(&world, &objects);
}

#[test]
pub fn shards_move_to_nodes_that_joined_and_no_others_do() {
    let mut world = World::new("rs:3+2", 7);
    let objects = objects(&world, 60);
    assert_eq!(rebalance(&world, false).shards_misplaced, 0);
    join(&mut world, 1.0);
    let planned = rebalance(&world, true);
    assert!(world.files(7).iter().all(|file| file.ends_with(".manifest")));
    // Two thirds of the objects have 5 shards each, of which an eighth goes to the new node.
    assert!((10..45).contains(&planned.shards_misplaced), "{planned:#?}");
    let report = rebalance(&world, false);
    assert_eq!(RebalanceReport { dry_run: true, ..report.clone() }, planned);
    assert_eq!((report.shards_moved, report.shards_left), (planned.shards_misplaced, 0));
    let shards = world.files(7).iter().filter(|file| file.ends_with(".kiln")).count();
    assert_eq!(shards as u64, report.shards_moved, "only the new node gets any");
    assert!(all_in_place(&world));
    all_are_read(&world, &objects);
    assert_eq!(rebalance(&world, false).shards_misplaced, 0);
    // Any two further losses are survived.
    for first in 0..8 {
        for second in 0..first {
            world.away = [first, second].into();
            all_are_read(&world, &objects);
        }
    }
}

#[test]
pub fn an_interrupted_rebalance_goes_on() {
    let mut world = World::new("rs:3+2", 7);
    let objects = objects(&world, 40);
    join(&mut world, 2.0);
    let misplaced = rebalance(&world, true).shards_misplaced;
    for operation in [Operation::Write, Operation::Sync, Operation::Rename, Operation::Create] {
        // Shards that move together are synced once, and first; of manifests others have copies.
        let after = if operation == Operation::Sync { 0 } else { 3 };
        let fault = Fault::new(FaultAction::Fail(ErrorKind::Other)).on(operation).after(after);
        let fault = fault.always();
        world.disks[7].faulty.inject(fault);
        let report = rebalance(&world, false);
        assert!(report.failed_count > 0, "{operation}: {report:#?}");
        world.disks.iter().for_each(|disk| disk.faulty.heal());
        all_are_read(&world, &objects);
    }
    // One node of those that give is unavailable: its shards stay, and go later.
    world.away = [3].into();
    let report = rebalance(&world, false);
    assert_eq!(report.failed_count, 0, "{report:#?}");
    all_are_read(&world, &objects);
    world.away.clear();
    let last = rebalance(&world, false);
    assert_eq!((last.failed_count, last.shards_left), (0, 0), "{last:#?}");
    assert!(misplaced > last.shards_misplaced && all_in_place(&world));
    // What has no room is left where it is, and said.
    join(&mut world, 4.0);
    world.disks[8].faulty.limit_space(200);
    let report = rebalance(&world, false);
    assert!(report.shards_left > 0 && report.shards_moved == 0, "{report:#?}");
    all_are_read(&world, &objects);
}

/// Shards that can be given to nobody do not keep manifests from their homes: else a pool whose map
/// changes could not take a node back in the end, with which there would be room again (seed 16347
/// of the simulator at an earlier commit).
#[test]
pub fn manifests_find_their_homes_where_shards_find_none() {
    let mut world = World::new("rs:3+2", 5);
    let objects = objects(&world, 12);
    // More often than the map has epochs that it remembers.
    for at in 0..20 {
        world.set_state(&[at % 5], NodeState::Out);
        let report = recover(&world.pool(), &world.index(), (2_000, true), &settings()).unwrap();
        assert_eq!(report.failed_count, 8, "each with shards: {report:#?}");
        assert!(report.failed[0].1.contains("no domain left for shards ["), "{report:#?}");
        assert!(report.settled.is_some(), "{report:#?}");
        all_are_read(&world, &objects);
        world.set_state(&[at % 5], NodeState::In);
    }
    repair(&world);
    all_are_read(&world, &objects);
}

/// Of two lost shards one has a place: it is rebuilt, and what is left is said. Manifests that a
/// scrub found corrupt are whole then, and the map is settled: a node that is back can take part.
#[test]
pub fn what_has_a_place_is_rebuilt() {
    let mut world = World::new("rs:3+2", 6);
    let objects = objects(&world, 12);
    for file in world.files(0).iter().filter(|file| file.ends_with(".manifest")) {
        let mut bytes = world.disks[0].memory.bytes(file).unwrap();
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        world.disks[0].memory.put(file, bytes);
    }
    let found = world.scrub(&world.index(), &ScrubRequest { now_ms: 1_500, ..Default::default() });
    assert!(found.under_replicated > 0, "{found:#?}");
    world.set_state(&[1, 4], NodeState::Out);
    let report = recover(&world.pool(), &world.index(), (2_000, true), &settings()).unwrap();
    assert_eq!(report.failed_count, 8, "{report:#?}");
    assert!(report.settled.is_some(), "{report:#?}");
    let marks = (0..6).flat_map(|node| world.files(node)).find(|file| file.ends_with(".damaged"));
    assert_eq!(marks, None);
    all_are_read(&world, &objects);
    let shards = |node: &usize| world.files(*node).iter().filter(|f| f.ends_with(".kiln")).count();
    assert_eq!([0, 2, 3, 5].iter().map(shards).sum::<usize>(), 8 * 4, "one of two has a place");
}
