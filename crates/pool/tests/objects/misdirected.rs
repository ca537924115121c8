//! Writes that went to the wrong place: whole bytes, with right checksums of their own, under the
//! name of another file. No read takes them, a scrub names them, a repair rebuilds that file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kiln_pool::{Index, Key, NodeConfig, NodeFile, Pool, PoolConfig};
use kiln_store::{Backend, MemoryBackend};
use kiln_stripe::PoolError;

use crate::recover::recover;
use crate::sealed::{keys, seal};
use crate::world::*;

/// Objects of one size, so that shards are of one length; an inline one; versions that are kept.
const OBJECTS: [(&str, usize); 4] = [("a", 900), ("b", 900), ("c", 40), ("d", 41)];
const MAP: &str = "kiln-pool.toml";

fn bytes_of(at: usize) -> Vec<u8> {
    data(OBJECTS[at].1, 20 + at as u64)
}

fn world(sealed: bool) -> World {
    let mut world = World::new("rs:2+1", 5);
    if sealed {
        seal(&mut world, keys(&[3]));
    }
    world.keep(&[("b", 2)]);
    for (name, size) in OBJECTS {
        world.put(name, &data(size, 1)).unwrap();
        world.put("gone", &data(size, 2)).unwrap();
    }
    world.remove("gone").unwrap();
    for (at, (name, _)) in OBJECTS.iter().enumerate() {
        world.put(name, &bytes_of(at)).unwrap();
    }
    world
}

fn reads_right(world: &World, what: &str) {
    for (at, (name, _)) in OBJECTS.iter().enumerate() {
        assert!(world.get(name).unwrap() == bytes_of(at), "{what}: {name}");
    }
    assert!(matches!(world.get("gone"), Err(PoolError::NoObject { .. })), "{what}");
}

fn kind(name: &str) -> &'static str {
    match NodeFile::parse(name) {
        Some(NodeFile::Manifest { .. }) => "manifest",
        Some(NodeFile::Shard { .. }) => "shard",
        _ if name == MAP => "map",
        _ => "",
    }
}

/// Puts the bytes of one file at the place of another one, and follows what becomes of it.
fn check(world: &World, node: usize, name: &str, bytes: Vec<u8>, what: &str) {
    let index = world.index();
    world.disks[node].memory.put(name, bytes.clone());
    // A read repairs manifests.
    reads_right(&world.copy(), what);
    let report = world.scrub(&index, &at_once(9_000));
    match NodeFile::parse(name) {
        // A tombstone goes, with all copies.
        Some(file) if file.key() == Key::of("gone").unwrap() && report.forgotten == 1 => {}
        Some(file) => {
            let names = report.findings.iter().map(|one| Key::of(&one.object).unwrap());
            let shards = report.findings.iter().map(|one| Key::of_shards(&one.object).unwrap());
            assert!(names.chain(shards).any(|key| key == file.key()), "{what}: {report:#?}");
        }
        // The map is written again at once.
        None => assert!(world.away.is_empty() && report.away.is_empty(), "{what}: {report:#?}"),
    }
    recover(&world.pool(), &index, (9_500, false), &settings()).unwrap();
    let clean = world.scrub(&Index::in_memory().unwrap(), &at_once(9_900));
    assert!(clean.clean, "{what}: {clean:#?}");
    reads_right(world, what);
    assert!(world.disks[node].memory.bytes(name) != Some(bytes), "{what}: still there");
}

fn each_file_in_the_place_of_another(world: &World) {
    let mut seen = BTreeMap::new();
    let files = |node: usize| world.disks[node].memory.list().unwrap().into_iter();
    for node in 0..world.disks.len() {
        for name in files(node).filter(|name| !kind(name).is_empty()) {
            let mut others = BTreeSet::new();
            for from in files(node).chain(files((node + 1) % 5)).filter(|from| *from != name) {
                // All of its kind, and one of each other one.
                let (own, other) = (kind(&name), kind(&from));
                if other.is_empty() || (own != other && !others.insert(other)) {
                    continue;
                }
                let copy = world.copy();
                let disk = |at: usize| copy.disks[at].memory.bytes(&from);
                let Some(bytes) = disk(node).or_else(|| disk((node + 1) % 5)) else { continue };
                if copy.disks[node].memory.bytes(&name).as_ref() == Some(&bytes) {
                    continue;
                }
                check(&copy, node, &name, bytes, &format!("{from} in place of {name} on {node}"));
                *seen.entry(own).or_insert(0) += 1;
            }
        }
    }
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), ["manifest", "map", "shard"], "{seen:?}");
}

#[test]
fn misdirected_files_are_found_and_repaired() {
    each_file_in_the_place_of_another(&world(false));
}

#[test]
fn misdirected_files_of_a_sealed_pool_are_found_and_repaired() {
    each_file_in_the_place_of_another(&world(true));
}

#[test]
fn the_map_of_another_pool_is_none_of_this_one() {
    for revision in [1, 5, 900] {
        let world = world(false);
        let (policy, other) = (world.config.policy.clone(), MemoryBackend::new());
        let config = PoolConfig::new([8; 16], "x", policy);
        let node = vec![NodeConfig::new("x", "memory://0")];
        Pool::create(PoolConfig { revision, node, ..config }, &|_| Ok(Arc::new(other.clone())))
            .unwrap();
        let text = other.bytes(MAP).unwrap();
        check(&world, 0, MAP, text, &format!("another pool's map of epoch {revision}"));
    }
}
