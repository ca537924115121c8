//! Full disks, unwritable nodes, inputs that fail or change: nothing lost, nothing left behind.

use std::{io::ErrorKind, sync::Arc};

use kiln_files::{RepairRequest, discover, encode, repair};
use kiln_stripe::{ErrorKind as Kind, Node, PoolError};

use crate::helpers::*;
use kiln_store::Operation;
use kiln_testkit::{Fault, FaultAction, FaultyBackend};

fn faulty(world: &World) -> (FaultyBackend, Vec<Node>) {
    let faulty = FaultyBackend::new(world.stores[0].clone());
    (faulty.clone(), vec![Node::new("disk", Arc::new(faulty))])
}

#[test]
fn a_full_disk_at_any_point_of_encode_leaves_nothing() {
    let bytes = data(5000);
    let written: u64 = {
        let world = World::new("rs:4+2", 64);
        world.encode(&bytes).bytes_written
    };
    for space in (0..written).step_by(701) {
        let world = World::new("rs:4+2", 64);
        let (disk, nodes) = faulty(&world);
        disk.limit_space(space);
        let mut source = Known::new(&bytes);
        let error = encode(&world.request(), &mut source, &nodes, &settings()).unwrap_err();
        let PoolError::Store(store) = &error else { panic!("{error}") };
        assert!(store.is_full() && error.kind() == Kind::Io);
        assert!(world.files().is_empty(), "{space}: {:?}", world.files());
    }
}

#[test]
fn a_full_disk_at_any_point_of_repair_touches_nothing() {
    let world = World::new("clay:4+2", 16);
    let bytes = data(3000);
    world.encode(&bytes);
    let shards = world.all();
    let len = shards[0].len() as u64;
    for space in (0..2 * len).step_by(401) {
        [1, 5].iter().for_each(|&index| world.lose(index));
        let (disk, nodes) = faulty(&world);
        disk.limit_space(space);
        let set = discover(&nodes, None).unwrap();
        let error = repair(&set, &RepairRequest::default(), &settings()).unwrap_err();
        assert!(error.to_string().contains("space"), "{error}");
        assert_eq!(world.files().len(), 4, "{space}: {:?}", world.files());
        assert!(world.decode().unwrap().0 == bytes);
        world.repair(&RepairRequest::default()).unwrap();
        assert!(world.all() == shards);
    }
}

#[test]
fn a_disk_that_garbles_what_is_repaired_replaces_nothing() {
    let world = World::new("clay:4+2", 16);
    let bytes = data(3000);
    world.encode(&bytes);
    let shards = world.all();
    for offset in [70, shards[0].len() as u64 - 60] {
        // One is missing, one is there but for a byte.
        world.lose(1);
        let (mut damaged, (disk, nodes)) = (shards[5].clone(), faulty(&world));
        damaged[4100] ^= 1;
        world.stores[0].put(&name(5), damaged.clone());
        let flip = Fault::new(FaultAction::Flip { offset, mask: 8 }).on(Operation::Write);
        disk.inject(flip.named("05.kiln.repair"));
        let set = discover(&nodes, None).unwrap();
        let req = RepairRequest { scan: true, ..RepairRequest::default() };
        let error = repair(&set, &req, &settings()).unwrap_err();
        assert!(error.kind() == Kind::Refused && error.to_string().contains("return"), "{error}");
        assert_eq!(world.files().len(), 5, "{:?}", world.files());
        assert!(world.stores[0].bytes(&name(5)).unwrap() == damaged);
        assert!(world.decode().unwrap().0 == bytes);
        world.repair(&req).unwrap();
        assert!(world.all() == shards);
    }
}

#[test]
fn an_unwritable_node_stops_an_encode_before_anything_is_in_place() {
    for index in [0, 3, 5] {
        let world = World::spread("rs:4+2", 64);
        let mut nodes = world.nodes.clone();
        let disk = FaultyBackend::new(world.stores[index].clone());
        let fault = Fault::new(FaultAction::Fail(ErrorKind::PermissionDenied));
        disk.inject(fault.on(Operation::Create).always());
        nodes[index] = Node::new("locked", Arc::new(disk));
        let mut source = Known::new(b"some bytes");
        let error = encode(&world.request(), &mut source, &nodes, &settings()).unwrap_err();
        assert_eq!(error.kind(), Kind::Io);
        assert!(world.files().is_empty());
    }
}

#[test]
fn a_sync_that_fails_is_a_failure() {
    let world = World::new("rs:4+2", 64);
    let (disk, nodes) = faulty(&world);
    disk.inject(Fault::new(FaultAction::Fail(ErrorKind::Other)).on(Operation::Sync).after(3));
    let mut source = Known::new(b"some bytes");
    encode(&world.request(), &mut source, &nodes, &settings()).unwrap_err();
    assert!(world.files().is_empty());
}

#[test]
fn an_input_that_changes_or_fails_leaves_nothing() {
    let bytes = data(5000);
    let changes: [fn(&mut Known<'_>); 4] = [
        |source| source.changed = true,
        |source| source.fail_at = 3000,
        |source| source.bytes = &source.bytes[..4000],
        |source| source.bytes = &[],
    ];
    for (case, change) in changes.into_iter().enumerate() {
        let world = World::new("rs:4+2", 64);
        // It tells the size that it had at first.
        let mut source = Known::new(&bytes);
        change(&mut source);
        let end = encode(&world.request(), &mut source, &world.nodes, &settings());
        let error = end.unwrap_err();
        assert!(
            matches!(error, PoolError::Changed { .. } | PoolError::Input { .. }),
            "{case}: {error}"
        );
        assert!(world.files().is_empty(), "{case}");
    }
}

#[test]
fn a_node_that_cannot_be_listed_is_as_good_as_lost() {
    let world = World::spread("rs:4+2", 64);
    let bytes = data(3000);
    world.encode(&bytes);
    let mut world = world;
    for index in [1, 2] {
        let disk = FaultyBackend::new(world.stores[index].clone());
        disk.inject(Fault::new(FaultAction::Fail(ErrorKind::Other)).always());
        world.nodes[index] = Node::new("dead", Arc::new(disk));
    }
    let (out, report) = world.decode().unwrap();
    assert!(out == bytes);
    assert_eq!(report.lost, [1, 2]);
    assert!(report.notes.iter().any(|note| note.contains("dead")));
}

#[test]
fn a_read_error_of_a_helper_is_an_erasure() {
    let world = World::new("rs:4+2", 64);
    let bytes = data(3000);
    world.encode(&bytes);
    let (disk, nodes) = faulty(&world);
    disk.inject(
        Fault::new(FaultAction::Fail(ErrorKind::Other)).on(Operation::Read).named("02").after(4),
    );
    let set = discover(&nodes, None).unwrap();
    let mut out = Vec::new();
    kiln_files::decode(&set, &mut out, &settings()).unwrap();
    assert!(out == bytes);
}

#[test]
fn an_output_that_fails_is_an_output_error() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let world = World::new("rs:4+2", 64);
    world.encode(&data(30_000));
    let set = discover(&world.nodes, None).unwrap();
    let error = kiln_files::decode(&set, &mut Full, &settings()).unwrap_err();
    assert!(matches!(error, PoolError::Output { .. }), "{error}");
}
