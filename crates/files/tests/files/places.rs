//! Shards in buckets. Sessions of the program (`mixed.txt`, `shards.txt`) have shards that are
//! mixed, misnamed, doubled or misplaced.

use std::sync::Arc;

use kiln_files::{EncodeRequest, RepairRequest, encode};
use kiln_stripe::{ErrorKind, Node, PoolError};

use crate::helpers::*;
use kiln_store::{Backend, MemoryBackend, StoreError, write_whole};
use kiln_testkit::{Bucket, battery::read};

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
        let shard = |at: usize| read(&buckets[at], &name(at));
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
