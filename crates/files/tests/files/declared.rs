//! Declarations of shards decide neither the time of a reader nor the memory it takes: time
//! is counted in operations on the places.

use std::{os::unix::fs::FileExt, sync::Arc};

use kiln_files::{RepairRequest, decode, discover, repair, verify};
use kiln_store::{Backend, FileBackend, MemoryBackend, ShardInfo, ShardReader, ShardWriter};
use kiln_stripe::{Node, PoolError, Result};
use kiln_testkit::FaultyBackend;

use crate::helpers::*;

/// A header that declares 2^53 bytes, and what follows the header of this shard.
fn declared(bytes: &[u8], len: usize) -> Vec<u8> {
    let (disk, whole) = (MemoryBackend::new(), MemoryBackend::new());
    whole.put("shard", bytes.to_vec());
    let info = ShardReader::open(&whole, "shard").unwrap().info().clone();
    let info = ShardInfo { size: Some(1 << 53), ..info };
    drop(ShardWriter::create(&disk, "shard", &info).unwrap());
    [disk.bytes("shard").unwrap(), bytes[4096..len].to_vec()].concat()
}

/// The nodes of a world, with their operations counted.
fn counted(world: &World) -> (Vec<FaultyBackend>, Vec<Node>) {
    let count = |store: &Arc<MemoryBackend>| FaultyBackend::new(store.clone());
    let places: Vec<FaultyBackend> = world.stores.iter().map(count).collect();
    let node = |(at, place): (usize, &FaultyBackend)| {
        Node::new(format!("n{at}"), Arc::new(place.clone()) as Arc<dyn Backend>)
    };
    let nodes = places.iter().enumerate().map(node).collect();
    (places, nodes)
}

#[test]
fn work_is_bounded_by_what_files_hold() {
    let world = World::spread("rs:3+2", 16);
    // Segments of 4096 stripes: two whole ones, and a bit of a third.
    let bytes = data(9_000 * world.stripe());
    world.encode(&bytes);
    let shards = world.all();
    let segment = 4096 * 16 + 4 * 4096 + 4;
    let cut = [4096, 4096 + segment, 4096 + segment + 100];
    for (len, stripes) in cut.into_iter().zip([0, 4096, 4096]) {
        (0..world.n()).for_each(|index| world.put(index, declared(&shards[index], len)));
        let (places, nodes) = counted(&world);
        let set = discover(&nodes, None).unwrap();
        let report = verify(&set, Depth::Parity, &settings()).unwrap();
        let all = (1u64 << 53).div_ceil(world.stripe() as u64);
        assert_eq!((report.stripes, report.recoverable), (all, false));
        assert_eq!(report.unrecoverable_stripes.first(), Some(&stripes));
        assert_eq!(report.unrecoverable_stripes.len(), kiln_stripe::MAX_DAMAGE_ENTRIES);
        assert_eq!(report.bytes_read, 5 * 16 * stripes);
        assert_eq!(report.lost, [0, 1, 2, 3, 4]);
        assert!(report.damaged.iter().all(|damage| damage.reason.contains("cut short")));
        let lost = |result: Result<()>| match result.unwrap_err() {
            PoolError::StripeLost { stripe, .. } => assert_eq!(stripe, stripes),
            other => panic!("{other}"),
        };
        lost(decode(&set, &mut Vec::new(), &settings()).map(drop));
        for dry_run in [true, false] {
            let req = RepairRequest { dry_run, ..RepairRequest::default() };
            lost(repair(&set, &req, &settings()).map(drop));
        }
        // A look at a shard, and what is read of each stripe that is there, three times.
        for place in &places {
            let most = 200 + 6 * stripes;
            assert!(place.operations() < most, "{} of {most}", place.operations());
        }
    }
}

#[test]
fn one_long_shard_is_read_to_its_end_alone() {
    let world = World::spread("rep:2", 16);
    world.encode(&data(9_000 * 16));
    let shards = world.all();
    world.put(0, declared(&shards[0], 4096));
    world.put(1, declared(&shards[1], shards[1].len() - 1));
    let (places, nodes) = counted(&world);
    let report = verify(&discover(&nodes, None).unwrap(), Depth::Data, &settings());
    // The last segment declares to be a full one, and is not.
    assert_eq!(report.unwrap().unrecoverable_stripes.first(), Some(&8192));
    assert!(places[0].operations() < 10 && places[1].operations() < 2 * 8192 + 20);
}

#[test]
fn holes_of_sparse_files_take_no_time() {
    let world = World::spread("rep:2", 16);
    world.encode(&data(9_000 * 16));
    let shards = world.all();
    let folder = tempfile::tempdir().unwrap();
    let place = FaultyBackend::new(Arc::new(FileBackend::open(folder.path()).unwrap()));
    for (index, shard) in shards.iter().enumerate() {
        // A whole segment, then terabytes of nothing, with a little data in one place of them.
        let path = folder.path().join(name(index));
        std::fs::write(&path, declared(shard, 4096 + 4096 * 16 + 4 * 4096 + 4)).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_len(1 << 42).unwrap();
        file.write_all_at(&[1; 9000], 1 << 40).unwrap();
    }
    if place.open(&name(0)).unwrap().next_data(1 << 41).is_some() {
        // This file system does not know its holes: nobody can pass over them.
        return;
    }
    let nodes = [Node::new("here", Arc::new(place.clone()) as Arc<dyn Backend>)];
    let set = discover(&nodes, None).unwrap();
    let report = verify(&set, Depth::Data, &settings()).unwrap();
    assert_eq!((report.recoverable, report.stripes), (false, 1 << 49));
    assert_eq!(report.unrecoverable_stripes.first(), Some(&4096));
    assert!(place.operations() < 8 * 4096, "{} operations", place.operations());
    let req = RepairRequest { dry_run: true, ..RepairRequest::default() };
    let error = repair(&set, &req, &settings()).unwrap_err();
    assert!(matches!(error, PoolError::StripeLost { stripe: 4096, .. }), "{error}");
}

#[test]
fn memory_is_bounded_by_a_limit_of_stripes() {
    let world = World::spread("rs:2+2", 16);
    world.encode(&data(100));
    let shards = world.all();
    // 4 chunks of 512 MiB: 2 GiB, in files of a few KiB.
    for (index, shard) in shards.iter().enumerate() {
        let (disk, whole) = (MemoryBackend::new(), MemoryBackend::new());
        whole.put("shard", shard.clone());
        let info = ShardReader::open(&whole, "shard").unwrap().info().clone();
        let info = ShardInfo { sub_chunk: 512 << 20, segment_stripes: 1, ..info };
        drop(ShardWriter::create(&disk, "shard", &info).unwrap());
        world.put(index, disk.bytes("shard").unwrap());
    }
    let error = discover(&world.nodes, None).unwrap_err();
    assert!(matches!(error, PoolError::NotRecoverable { .. }), "{error}");
    assert!(error.to_string().contains("parity included"), "{error}");
    // Nor does anybody write such shards.
    let world = World::spread("rs:2+2", (256 << 20) + 1);
    let error = world.try_encode(b"a few bytes").unwrap_err();
    assert!(error.to_string().contains("1 to 268435456 bytes"), "{error}");
}
