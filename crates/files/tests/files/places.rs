//! Two runs mixed, misnamed, doubled and misplaced shards, several objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use kiln_files::{EncodeRequest, RepairRequest, discover, encode};
use kiln_stripe::{ErrorKind, Node, PoolError};

use crate::helpers::*;
use kiln_store::{Backend, MemoryBackend, StoreError, write_whole};
use kiln_testkit::Bucket;

fn world() -> (World, Vec<u8>) {
    let world = World::new("rs:4+2", 64);
    let bytes = data(3000);
    world.encode(&bytes);
    (world, bytes)
}

/// Shards of the same object from another run.
fn other_run() -> (World, Vec<u8>) {
    let world = World::new("rs:4+2", 64);
    let bytes = data(4000);
    let req = EncodeRequest { run: [8; 16], ..world.request() };
    encode(&req, &mut Known::new(&bytes), &world.nodes, &settings()).unwrap();
    (world, bytes)
}

#[test]
fn shards_of_two_runs_never_mix() {
    let (world, bytes) = world();
    let (other, _) = other_run();
    for index in [1, 4] {
        world.put(index, other.shard(index));
    }
    let (out, report) = world.decode().unwrap();
    assert!(out == bytes);
    assert_eq!(report.notes.iter().filter(|note| note.starts_with("foreign")).count(), 2);
    let report = world.repair(&RepairRequest::default()).unwrap();
    assert_eq!(report.lost, [1, 4]);
    // The foreign files are moved aside, not overwritten.
    assert_eq!(report.moved.len(), 2);
    let aside = world.stores[0].bytes("object.08080808.01.kiln").unwrap();
    assert!(aside == other.shard(1));
    assert!(world.decode().unwrap().0 == bytes);
    assert!(world.verify(Depth::Parity).unwrap().clean);
}

#[test]
fn three_of_each_run_is_not_recoverable() {
    let (world, _) = world();
    let (other, _) = other_run();
    for index in [1, 4, 5] {
        world.put(index, other.shard(index));
    }
    let error = world.decode().unwrap_err();
    assert!(error.to_string().matches("3 of 6 shards, needs 4").count() == 2, "{error}");
}

#[test]
fn two_whole_runs_are_refused() {
    let (world, _) = world();
    let (other, _) = other_run();
    for index in 0..6 {
        world.stores[0].put(&format!("old.{index}"), other.shard(index));
    }
    let error = world.decode().unwrap_err();
    assert!(matches!(error, PoolError::Refused { .. }), "{error}");
}

#[test]
fn misnamed_shards_are_used_and_renamed() {
    let (world, bytes) = world();
    let shards = world.all();
    // 0 and 1 swapped, a ring of 2, 3, 4, and 5 under a free name.
    let names = [(0, name(1)), (1, name(0)), (2, name(3)), (3, name(4)), (4, name(2))];
    world.lose(5);
    for (index, name) in &names {
        world.stores[0].put(name, shards[*index].clone());
    }
    world.stores[0].put("backup", shards[5].clone());
    assert!(world.decode().unwrap().0 == bytes);
    let report = world.verify(Depth::Parity).unwrap();
    assert_eq!((report.clean, report.lost.len()), (false, 0));
    let report = world.repair(&RepairRequest::default()).unwrap();
    assert_eq!(report.lost.len(), 0);
    assert!(report.moved.len() >= 6);
    assert!(world.all() == shards);
    world.assert_whole(&bytes);
}

#[test]
fn a_shard_under_the_name_of_a_lost_one_is_not_overwritten() {
    let (world, bytes) = world();
    let shards = world.all();
    world.lose(3);
    world.lose(2);
    world.put(3, shards[2].clone());
    let report = world.repair(&RepairRequest::default()).unwrap();
    assert_eq!(report.lost, [3]);
    assert!(world.all() == shards);
    world.assert_whole(&bytes);
}

#[test]
fn of_two_copies_the_good_one_is_taken() {
    let (world, bytes) = world();
    let shard = world.shard(2);
    world.stores[0].put("copy", shard.clone());
    world.put(2, shard[..5000.min(shard.len() - 1)].to_vec());
    let (out, report) = world.decode().unwrap();
    assert!(out == bytes && report.lost.is_empty());
    assert!(report.notes.iter().any(|note| note.starts_with("duplicate")), "{:?}", report.notes);
    world.repair(&RepairRequest::default()).unwrap();
    assert!(world.shard(2) == shard);
}

#[test]
fn several_objects_want_a_name() {
    let (world, bytes) = world();
    let req = EncodeRequest { object: "zebra", run: [9; 16], ..world.request() };
    encode(&req, &mut Known::new(b"stripes"), &world.nodes, &settings()).unwrap();
    let error = discover(&world.nodes, None).unwrap_err();
    assert!(error.to_string().ends_with("object, zebra"), "{error}");
    let set = discover(&world.nodes, Some("object")).unwrap();
    let mut out = Vec::new();
    kiln_files::decode(&set, &mut out, &settings()).unwrap();
    assert!(out == bytes);
    let error = discover(&world.nodes, Some("lion")).unwrap_err();
    assert!(matches!(error, PoolError::NotFound { .. }), "{error}");
}

#[test]
fn a_lost_shard_goes_back_to_its_node_or_where_it_is_told() {
    let mut world = World::spread("rs:4+2", 64);
    let bytes = data(2000);
    world.encode(&bytes);
    world.lose(4);
    // Nodes in another order: 4's is the one that holds nothing.
    world.nodes.reverse();
    world.repair(&RepairRequest::default()).unwrap();
    world.nodes.reverse();
    assert_eq!(world.stores[4].list().unwrap(), [name(4)]);
    // One node gone: it must be told.
    let gone = world.nodes.remove(2);
    let error = world.repair(&RepairRequest::default()).unwrap_err();
    assert!(matches!(error, PoolError::Usage { .. }) && error.to_string().contains("--to"));
    let (stores, fresh) = memory_nodes(1);
    let fresh = Node::new("fresh", fresh[0].store.clone());
    let targets = BTreeMap::from_iter((0..256).map(|index| (index, fresh.clone())));
    drop((gone, stores));
    let req = RepairRequest { targets, ..RepairRequest::default() };
    assert_eq!(world.repair(&req).unwrap().lost, [2]);
    assert_eq!(fresh.store.list().unwrap(), [name(2)]);
    world.nodes.push(fresh);
    assert!(world.verify(Depth::Parity).unwrap().clean);
    // Called lost where it is: it moves.
    let (_, other) = memory_nodes(1);
    let other = Node::new("other", other[0].store.clone());
    let targets = BTreeMap::from([(5, other.clone())]);
    let req = RepairRequest { targets, lost: vec![5], ..RepairRequest::default() };
    assert_eq!(world.repair(&req).unwrap().lost, [5]);
    assert_eq!(other.store.list().unwrap(), [name(5)]);
    assert!(world.stores[5].list().unwrap().is_empty());
}

/// Six nodes, one of which is a bucket.
fn with_a_bucket(bucket: Bucket) -> (World, Vec<Node>, Bucket) {
    let world = World::new("rs:4+2", 64);
    let stores = (0..5).map(|_| Arc::new(MemoryBackend::new()) as Arc<dyn Backend>);
    let stores = stores.chain([Arc::new(bucket.clone()) as Arc<dyn Backend>]).enumerate();
    let nodes = stores.map(|(at, store)| Node::new(format!("n{at}"), store)).collect();
    (world, nodes, bucket)
}

fn assert_incapable(error: &PoolError) {
    assert!(matches!(error, PoolError::Store(StoreError::Incapable { .. })), "{error}");
    assert_eq!(error.kind(), ErrorKind::Usage);
    let text = error.to_string();
    assert!(text.contains("bucket cannot append to files") && text.contains("name another"));
}

#[test]
fn shards_live_in_buckets_that_copy_and_lock() {
    let (mut world, _, _) = with_a_bucket(Bucket::default());
    let buckets: Vec<Bucket> = (0..6).map(|_| Bucket::default()).collect();
    let node =
        |(at, bucket): (usize, &Bucket)| Node::new(format!("b{at}"), Arc::new(bucket.clone()));
    world.nodes = buckets.iter().enumerate().map(node).collect();
    for seed in [1, 2] {
        // The second time over what is there.
        let bytes: Vec<u8> = data(3000).into_iter().map(|byte| byte ^ seed).collect();
        let req = EncodeRequest { run: [seed; 16], replace: true, ..world.request() };
        encode(&req, &mut Known::new(&bytes), &world.nodes, &settings()).unwrap();
        assert!(world.decode().unwrap().0 == bytes);
        for (at, bucket) in buckets.iter().enumerate() {
            assert_eq!(bucket.list().unwrap(), [name(at)]);
        }
        let shard = |at: usize| {
            let file = buckets[at].open(&name(at)).unwrap();
            let mut bytes = vec![0; file.len() as usize];
            file.read_at(0, &mut bytes).unwrap();
            bytes
        };
        // One is gone, one is damaged, two have each other's names.
        let whole: Vec<Vec<u8>> = (0..6).map(shard).collect();
        buckets[3].remove(&name(3)).unwrap();
        let mut bad = whole[4].clone();
        bad[5000.min(whole[4].len() / 2)] ^= 1;
        write_whole(&buckets[4], &name(4), &bad).unwrap();
        write_whole(&buckets[0], "elsewhere", &whole[0]).unwrap();
        buckets[0].remove(&name(0)).unwrap();
        assert!(world.decode().unwrap().0 == bytes);
        let report = world.repair(&RepairRequest { scan: true, ..Default::default() }).unwrap();
        assert_eq!(report.lost, [3, 4]);
        assert!((0..6).map(shard).collect::<Vec<_>>() == whole);
        assert!(world.verify(Depth::Parity).unwrap().clean);
        assert_eq!(buckets[0].list().unwrap(), [name(0)]);
    }
}

#[test]
fn a_place_that_cannot_hold_shards_is_refused_before_a_byte_moves() {
    let (world, nodes, _) = with_a_bucket(Bucket::reads_only());
    let bytes = data(3000);
    let req = world.request();
    let error = encode(&req, &mut Known::new(&bytes), &nodes, &settings()).unwrap_err();
    assert_incapable(&error);
    assert!(nodes.iter().all(|node| node.store.list().unwrap().is_empty()));
}

#[test]
fn shards_are_read_from_a_place_that_cannot_hold_new_ones() {
    let (mut world, nodes, bucket) = with_a_bucket(Bucket::reads_only());
    let bytes = data(3000);
    world.encode(&bytes);
    for (index, node) in nodes.iter().enumerate() {
        let name = kiln_stripe::names::shard(NAME, index);
        write_whole(&*node.store, &name, &world.shard(index)).unwrap();
    }
    world.nodes = nodes;
    assert!(world.decode().unwrap().0 == bytes);
    assert!(world.verify(Depth::Parity).unwrap().clean);
    world.nodes[0].store.remove(&kiln_stripe::names::shard(NAME, 0)).unwrap();
    assert!(world.decode().unwrap().0 == bytes);
    assert_incapable(&world.repair(&RepairRequest::default()).unwrap_err());
    assert!(world.nodes[0].store.list().unwrap().is_empty());
    assert_eq!(bucket.list().unwrap(), ["object.05.kiln"]);
}
