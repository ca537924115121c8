//! Objects that are put together, and what objects take on disk.

use std::sync::Arc;

use kiln_pool::layout::{Body, DiskUsage};
use kiln_pool::repair::{Needs, RebuiltShards};
use kiln_pool::{NodeConfig, NodeFile, Policy, Pool, PoolConfig, PutRequest, RepairRequest};
use kiln_store::{Backend, FileBackend, Result, write_whole};
use kiln_stripe::{ErrorKind, PoolError, StreamSource};

use crate::world::*;

#[test]
pub fn objects_put_together_have_their_own_ends() {
    let world = World::new("clay:3+2", 6);
    world.put("old", &data(50, 1)).unwrap();
    let puts = [
        ("small", data(60, 2)),
        ("old", data(70, 3)),
        ("../out", data(10, 4)),
        ("large", data(20_000, 5)),
    ];
    let ends = world.put_all(&world.pool(), &puts, false).unwrap();
    let error = |at: usize| ends[at].as_ref().unwrap_err();
    assert!(ends[0].is_ok() && ends[3].is_ok());
    assert_eq!((error(1).kind(), error(2).kind()), (ErrorKind::Refused, ErrorKind::Usage));
    for (at, expected) in [(0, &puts[0].1), (1, &data(50, 1)), (3, &puts[3].1)] {
        assert!(world.get(puts[at].0).unwrap() == *expected, "{at}");
    }
    // Nothing is left of what was refused: 3 manifests each, and 5 shards of the large one.
    let files: usize = (0..6).map(|node| world.files(node).len()).sum();
    assert_eq!(files, 3 * 3 + 5);
    let replaced = [("old", data(80, 6)), ("small", data(9_000, 7))];
    let ends = world.put_all(&world.pool(), &replaced, true).unwrap();
    assert!(ends.iter().all(Result::is_ok));
    assert!(world.get("old").unwrap() == replaced[0].1);
    assert!(world.get("small").unwrap() == replaced[1].1);
}

#[test]
pub fn what_cannot_be_put_together_is_refused_before_anything_changes() {
    let world = World::new("rs:2+1", 4);
    let twice = [("a", data(10, 1)), ("b", data(10, 2)), ("a", data(10, 3))];
    let error = world.put_all(&world.pool(), &twice, false).unwrap_err();
    assert!(error.kind() == ErrorKind::Usage && error.to_string().contains("\"a\""), "{error}");
    assert!(world.get("b").is_err());
    assert!(world.put_all(&world.pool(), &[], false).unwrap().is_empty());
}

#[test]
pub fn a_batch_asks_and_syncs_less_than_its_objects_one_by_one() {
    let names: Vec<String> = (0..20).map(|at| format!("o{at:02}")).collect();
    let alone = World::new("clay:3+2", 6);
    let before = alone.operations();
    names.iter().for_each(|name| drop(alone.put(name, &data(90, 1)).unwrap()));
    let one_by_one = alone.operations() - before;
    let world = World::new("clay:3+2", 6);
    let before = world.operations();
    let puts: Vec<_> = names.iter().map(|name| (&name[..], data(90, 1))).collect();
    let ends = world.put_all(&world.pool(), &puts, false).unwrap();
    assert!(ends.iter().all(Result::is_ok));
    let together = world.operations() - before;
    assert!(together * 2 < one_by_one, "{together} against {one_by_one}");
}

/// Loses the first shard of an object and has "somebody else" rebuild it where it was.
fn rebuilt_elsewhere(world: &World, name: &str) -> (usize, RebuiltShards) {
    let pool = world.pool();
    let manifest = pool.manifest(name).unwrap();
    let Body::Shards(placed) = &manifest.body else { panic!("{name} is in shards") };
    let node = placed.places[0].node.clone();
    let (at, shard) = world.shards(name)[&0].clone();
    let disk = &world.disks[at].memory;
    disk.rename(&shard, "aside").unwrap();
    let Needs::Rebuild(lacking) =
        pool.repairer().needs(name, &RepairRequest::default(), &settings()).unwrap()
    else {
        panic!("{name} lacks a shard")
    };
    disk.rename("aside", &lacking.part(0)).unwrap();
    (at, RebuiltShards { lacking: lacking.into(), nodes: vec![(0, node)] })
}

#[test]
pub fn objects_rebuilt_elsewhere_are_put_in_place_together_each_with_its_own_end() {
    let world = World::new("clay:3+2", 6);
    let names = ["whole", "removed", "wrong", "whole too", "nowhere"];
    names.iter().for_each(|name| drop(world.put(name, &data(20_000, 7)).unwrap()));
    let mut rebuilt: Vec<_> = names.iter().map(|name| rebuilt_elsewhere(&world, name)).collect();
    world.remove("removed").unwrap();
    let (at, wrong) = &rebuilt[2];
    write_whole(&*world.disks[*at].memory, &wrong.lacking.part(0), &data(9_000, 8)).unwrap();
    rebuilt[4].1.nodes[0].1 = "n77".into();
    let all: Vec<RebuiltShards> = rebuilt.iter().map(|(_, object)| object.clone()).collect();
    let ends = world.pool().repairer().put_rebuilt(&all, 2_000, &settings());
    let told: Vec<Result<bool, ErrorKind>> =
        ends.into_iter().map(|end| end.map_err(|error| error.kind())).collect();
    assert_eq!((&told[0], &told[1], &told[3]), (&Ok(true), &Ok(false), &Ok(true)), "{told:?}");
    assert!(told[2].is_err() && told[4] == Err(ErrorKind::Usage), "{told:?}");
    for (name, (at, object)) in names.iter().zip(&rebuilt) {
        let files = world.files(*at);
        let whole = name.starts_with("whole");
        assert_eq!(files.contains(&object.lacking.file(0)), whole, "{name}");
        assert_eq!(files.contains(&object.lacking.part(0)), !whole && *name != "removed", "{name}");
        assert!(*name == "removed" || world.get(name).unwrap() == data(20_000, 7), "{name}");
    }
    // What is in place is whole: nothing more is needed.
    let needs =
        world.pool().repairer().needs("whole", &RepairRequest::default(), &settings()).unwrap();
    assert!(matches!(needs, Needs::Nothing), "{needs:?}");
}

#[test]
pub fn objects_that_are_looked_for_together_have_their_own_ends_and_cost_less() {
    let world = World::new("clay:3+2", 6);
    let names: Vec<String> = (0..12).map(|at| format!("o{at:02}")).collect();
    names.iter().for_each(|name| drop(world.put(name, &data(9_000, 1)).unwrap()));
    let pool = world.pool();
    let (before, all) =
        (world.operations(), names.iter().map(|name| &name[..]).collect::<Vec<_>>());
    let looked = pool.repairer().look_for(&all);
    let together = world.operations() - before;
    let before = world.operations();
    all.iter().for_each(|name| assert!(pool.repairer().look_for(&[name])[0].is_ok()));
    let alone = world.operations() - before;
    assert!(together * 4 < alone * 3, "{together} against {alone}");
    for looked in looked {
        let needs =
            pool.repairer().needs_of(&looked.unwrap(), &RepairRequest::default(), &settings());
        assert!(matches!(needs, Ok(Needs::Nothing)), "{needs:?}");
    }
    // A name that cannot be one, and one that is no object.
    let looked = pool.repairer().look_for(&["o01", "../out", "none"]);
    assert_eq!(looked[1].as_ref().unwrap_err().kind(), ErrorKind::Usage);
    let needs = |at: usize| {
        let looked = looked[at].as_ref().unwrap();
        pool.repairer().needs_of(looked, &RepairRequest::default(), &settings())
    };
    assert!(matches!(needs(0), Ok(Needs::Nothing)));
    assert!(matches!(needs(2), Err(PoolError::NoObject { .. })));
}

#[test]
pub fn a_commit_of_many_rebuilt_objects_asks_less_than_one_each() {
    let names: Vec<String> = (0..12).map(|at| format!("o{at:02}")).collect();
    let operations = |at_once: usize| {
        let world = World::new("clay:3+2", 6);
        names.iter().for_each(|name| drop(world.put(name, &data(9_000, 1)).unwrap()));
        let rebuilt = names.iter().map(|name| rebuilt_elsewhere(&world, name).1);
        let rebuilt: Vec<RebuiltShards> = rebuilt.collect();
        let before = world.operations();
        for rebuilt in rebuilt.chunks(at_once) {
            let ends = world.pool().repairer().put_rebuilt(rebuilt, 2_000, &settings());
            assert!(ends.into_iter().all(|end| end.unwrap()));
        }
        world.operations() - before
    };
    let (together, alone) = (operations(12), operations(1));
    assert!(together * 2 < alone, "{together} against {alone}");
}

/// Objects in manifests and in shards of which each lost something with a disk; one has a damaged
/// helper, one lost too much, and one is not there.
#[test]
pub fn objects_repaired_together_end_as_those_repaired_alone_and_ask_less() {
    let mut first = World::new("clay:3+2", 6);
    let names: Vec<String> = (0..24).map(|at| format!("o{at:02}")).collect();
    let bytes = |at: usize| data([90, 9_000, 90_000][at % 3], at as u64);
    for (at, name) in names.iter().enumerate() {
        first.put(name, &bytes(at)).unwrap();
    }
    first.replace_disk(1);
    let mut all = names.iter().filter(|name| first.shards(name).len() == 4);
    let (helper, lost) = (all.next().unwrap(), all.next().unwrap());
    for (at, file) in first.shards(helper).values().take(1) {
        let mut bytes = first.disks[*at].memory.bytes(file).unwrap();
        bytes[4_200..5_600].iter_mut().for_each(|byte| *byte ^= 1);
        first.disks[*at].memory.put(file, bytes);
    }
    for (at, file) in first.shards(lost).values().take(2) {
        first.disks[*at].memory.remove(file).unwrap();
    }
    let due: Vec<(&str, RepairRequest)> = (names.iter().map(|name| &name[..]).chain(["none"]))
        .map(|name| (name, RepairRequest { now_ms: 5_000, ..RepairRequest::default() }))
        .collect();
    let repaired = |at_once: usize| {
        let world = first.copy();
        let (pool, before) = (world.pool(), world.operations());
        let all = due.chunks(at_once);
        let ends = all.flat_map(|due| pool.repairer().repair_all(due, &settings()));
        // Alone, the copies of a manifest may be made before it is looked at, and are not told.
        let told = |of| kiln_pool::RepairedObject { manifest: true, ..of };
        let ends: Vec<_> = ends.map(|end| end.map(told).map_err(|error| error.kind())).collect();
        let asked = world.operations() - before;
        for (at, name) in names.iter().enumerate().filter(|(_, name)| *name != lost) {
            let needs = pool.repairer().needs(name, &due[at].1, &settings());
            assert!(matches!(needs, Ok(Needs::Nothing)), "{name}: {needs:?}");
            assert!(world.get(name).unwrap() == bytes(at), "{name}");
        }
        assert!((0..6).flat_map(|at| world.files(at)).all(|file| !file.ends_with(".part")));
        (ends, asked)
    };
    let ((together, less), (alone, more)) = (repaired(due.len()), repaired(1));
    assert_eq!(together, alone);
    assert!(together.iter().filter(|end| end.is_err()).count() == 2, "{together:?}");
    // Most of it is reads of chunks, which stay as they are.
    assert!(less + 30 * due.len() as u64 <= more, "{less} against {more}");
}

/// Bytes and files of a pool's objects as a folder has them: whole blocks.
fn used(folder: &std::path::Path) -> DiskUsage {
    let mut used = DiskUsage::default();
    for entry in walk(folder) {
        if NodeFile::parse(&entry.file_name().to_string_lossy()).is_some() {
            let bytes = entry.metadata().unwrap().len();
            used.bytes += bytes.next_multiple_of(4096);
            used.files += 1;
        }
    }
    used
}

fn walk(folder: &std::path::Path) -> Vec<std::fs::DirEntry> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .flat_map(|entry| match entry.file_type().unwrap().is_dir() {
            true => walk(&entry.path()),
            false => vec![entry],
        })
        .collect()
}

/// Batches so long that folders are listed to see what is new.
#[test]
pub fn of_a_long_batch_what_was_there_is_known() {
    let root = tempfile::tempdir().unwrap();
    let mut config = PoolConfig::new([7; 16], "test", Policy::for_code("rs:2+1").unwrap());
    for at in 0..5 {
        let url = format!("file://{}", root.path().join(format!("n{at}")).display());
        config.node.push(NodeConfig::new(&format!("n{at}"), &url));
    }
    let open = |node: &NodeConfig| -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(FileBackend::create(node.url.trim_start_matches("file://"))?))
    };
    let pool = Pool::create(config, &open).unwrap();
    let names: Vec<String> = (0..400).map(|at| format!("o{at:03}")).collect();
    let put = |range: std::ops::Range<usize>, salt: u64, replace: bool| {
        let bytes: Vec<Vec<u8>> = range.clone().map(|at| data(50 + at, salt)).collect();
        let run = |at: usize| [salt as u8 + (at % 100) as u8; 16];
        let req = |at: usize| PutRequest { name: &names[at], run: run(at), now_ms: 1_000, replace };
        let puts = range.zip(&bytes).map(|(at, bytes)| (req(at), None, &bytes[..]));
        pool.writer().put_bytes(&puts.collect::<Vec<_>>(), &settings()).unwrap()
    };
    assert!(put(0..250, 1, false).iter().all(Result::is_ok));
    // Half of these are there: they are neither lost from sight nor replaced.
    for (at, end) in put(150..400, 2, false).into_iter().enumerate() {
        assert_eq!(end.is_err(), at < 100, "{at}");
    }
    let versions = put(0..400, 3, true).into_iter().map(|end| end.unwrap().version);
    assert!(versions.into_iter().all(|version| version == 2));
    for (at, name) in names.iter().enumerate() {
        let mut sink = Vec::new();
        let get = kiln_pool::GetRequest { name, range: None };
        pool.get(&get, &mut sink, &settings()).unwrap();
        assert!(sink == data(50 + at, 3), "{name}");
    }
}

#[test]
pub fn what_an_object_takes_is_what_was_computed_and_the_least() {
    for code in ["clay:10+4", "clay:4+2", "rs:2+1", "rs:10+4", "rep:3"] {
        let root = tempfile::tempdir().unwrap();
        let policy = Policy::for_code(code).unwrap();
        let below = policy.class[0].below.unwrap();
        let mut config = PoolConfig::new([7; 16], "test", policy);
        for at in 0..15 {
            let place = root.path().join(format!("n{at:02}"));
            let url = format!("file://{}", place.display());
            config.node.push(NodeConfig::new(&format!("n{at:02}"), &url));
        }
        let open = |node: &NodeConfig| -> Result<Arc<dyn Backend>> {
            Ok(Arc::new(FileBackend::create(node.url.trim_start_matches("file://"))?))
        };
        let pool = Pool::create(config, &open).unwrap();
        let mut before = used(root.path());
        for size in [0, 1, 3_000, 5_000, 5 << 10, 20_000, below - 1, below, 70_000, 5 << 20] {
            let (name, bytes) = (format!("objects/of/{size}"), data(size as usize, size));
            let mut run = [3; 16];
            run[..8].copy_from_slice(&size.to_be_bytes());
            let put = PutRequest { name: &name, run, now_ms: 1_000, replace: false };
            let report = pool.put(&put, &mut StreamSource::new(&bytes[..]), &settings()).unwrap();
            assert_eq!(report.code == "inline", size < below, "{code} {size}");
            let (now, computed) =
                (used(root.path()), DiskUsage::of(&pool.manifest(&name).unwrap()).unwrap());
            let took =
                DiskUsage { bytes: now.bytes - before.bytes, files: now.files - before.files };
            assert_eq!(took, computed, "{code} {size}");
            before = now;
        }
    }
}
