//! Pools with a key: whoever can write to nodes, but has no key, can hide and destroy what is on
//! them, and never have something else read in its place.

use kiln_pool::layout::Body;
use kiln_pool::{Manifest, Membership, Pool, PoolConfig, PoolKeys, ScrubReport};
use kiln_store::{Backend, MemoryBackend, ShardReader, ShardWriter, SumKind, checksum, checksums};
use kiln_stripe::{Depth, ErrorKind, PoolError};

use crate::world::{World, data, manifest, settings};
use crate::{forged, recover::recover};

/// The text of a key's file with these keys.
pub fn keys(secrets: &[u8]) -> PoolKeys {
    let text: String = secrets.iter().map(|byte| PoolKeys::text_of(&[*byte; 32])).collect();
    PoolKeys::parse(&text).unwrap()
}

/// Seals by the first of these keys; how many manifests were sealed.
pub fn seal(world: &mut World, keys: PoolKeys) -> u64 {
    world.config.keys = keys;
    if let Some(config) = world.pool().members().begin_sealing(&settings()).unwrap() {
        world.config = config;
    }
    let sealed = world.pool().members().seal_all(&world.index(), 2_000, &settings());
    let (config, report) = sealed.unwrap();
    world.config = config;
    report.sealed
}

fn sealed_world(code: &str, count: usize) -> World {
    let mut world = World::new(code, count);
    seal(&mut world, keys(&[1]));
    world
}

fn scrub(world: &World, depth: Depth) -> ScrubReport {
    forged::scrub(world, &world.index(), depth)
}

/// Scrubs and repairs until nothing is left to do.
fn heal(world: &World) {
    let index = world.index();
    forged::scrub(world, &index, Depth::Data);
    let report = recover(&world.pool(), &index, (6_000, false), &settings()).unwrap();
    assert_eq!(report.failed_count, 0, "{report:#?}");
    let again = scrub(world, Depth::Parity);
    assert!(again.clean, "{again:#?}");
}

/// Returns what somebody without the key can make of a manifest: no seal, another key's, an old
/// seal over new bytes.
fn forgeries(world: &World, name: &str) -> Vec<Vec<u8>> {
    let right = world.pool().manifest(name).unwrap();
    let forged = Manifest {
        version: right.version + 90,
        size: 6,
        body: Body::Inline(b"forged".to_vec()),
        ..right.clone()
    };
    let mut other = world.config.clone();
    (other.keys, other.sealed) = (keys(&[9]), keys(&[9]).ids());
    let mut patched = right.sealed_bytes(&world.config.seals());
    patched[48] += 90;
    let end = patched.len() - 4;
    let sum = checksum(&patched[..end]).to_le_bytes();
    patched[end..].copy_from_slice(&sum);
    vec![forged.to_bytes(), forged.sealed_bytes(&other.seals()), patched]
}

#[test]
pub fn a_forged_manifest_is_found_and_never_believed() {
    for size in [50, 20_000] {
        let world = sealed_world("rs:4+2", 8);
        let bytes = data(size, 3);
        world.put("x", &bytes).unwrap();
        let file = manifest("x");
        for forged in forgeries(&world, "x") {
            for node in 0..8 {
                let right = world.disks[node].memory.bytes(&file);
                world.disks[node].memory.put(&file, forged.clone());
                if right.is_some() {
                    let report = scrub(&world, Depth::Headers);
                    let notes = report.findings[0].notes.join("; ");
                    assert!(notes.contains("seal"), "{size} {node}: {notes}");
                }
                // A reader gives what is in force to more homes, and may replace the forged copy.
                assert!(world.get("x").unwrap() == bytes, "{size} {node}");
                heal(&world);
                assert!(world.get("x").unwrap() == bytes, "{size} {node}");
                assert_ne!(world.disks[node].memory.bytes(&file), Some(forged.clone()));
            }
        }
        // All copies: it is lost, not another one.
        let forged = forgeries(&world, "x").remove(0);
        world.disks.iter().for_each(|disk| disk.memory.put(&file, forged.clone()));
        assert!(world.get("x").is_err());
    }
}

#[test]
pub fn without_a_key_nothing_is_promised_of_forgeries() {
    let world = World::new("rs:4+2", 8);
    world.put("x", &data(50, 3)).unwrap();
    let right = world.pool().manifest("x").unwrap();
    let body = Body::Inline(b"forged".to_vec());
    let forged = Manifest { version: right.version + 1, size: 6, body, ..right };
    let file = manifest("x");
    world.disks.iter().for_each(|disk| disk.memory.put(&file, forged.to_bytes()));
    assert_eq!(world.get("x").unwrap(), b"forged");
}

/// A shard as somebody would write it who wants other bytes to be read: all its own checksums
/// hold. `hide`: with the trailer of the right one.
fn forged_shard(right: Vec<u8>, hide: bool) -> Vec<u8> {
    let disk = MemoryBackend::new();
    disk.put("right", right.clone());
    let reader = ShardReader::open(&disk, "right").unwrap();
    let (info, layout) = (reader.info().clone(), reader.layout().clone());
    let mut writer = ShardWriter::create(&disk, "wrong", &info).unwrap();
    for stripe in 0..layout.stripes() {
        let chunk = vec![0x66; layout.chunk_len(stripe)];
        let mut sums = Vec::new();
        checksums(info.sums, &chunk, layout.sub_len(stripe), &mut sums);
        writer.append_chunk(&chunk, &sums).unwrap();
    }
    let mut digests = reader.digests().unwrap().to_vec();
    digests[usize::from(info.index)] = writer.seal().unwrap();
    writer.finish(info.size.unwrap(), &digests).unwrap();
    let mut wrong = disk.bytes("wrong").unwrap();
    if hide {
        let trailer = layout.trailer_offset() as usize;
        wrong.splice(trailer.., right[trailer..].iter().copied());
    }
    wrong
}

#[test]
pub fn a_forged_shard_is_never_read_and_never_repaired_from() {
    for code in ["rs:4+2", "clay:4+2", "lrc:4+2+2", "rep:3"] {
        let world = sealed_world(code, 9);
        let bytes = data(20_000, 3);
        world.put("x", &bytes).unwrap();
        let Body::Shards(placed) = world.pool().manifest("x").unwrap().body else {
            panic!("it is in shards")
        };
        assert_eq!(placed.sums, SumKind::Blake3);
        let file = |index: usize| {
            let (at, name) = world.shards("x")[&(index as u16)].clone();
            (&world.disks[at].memory, name)
        };
        let n = placed.places.len();
        for (forged, hide) in (0..n).flat_map(|index| [(index, false), (index, true)]) {
            let (disk, name) = file(forged);
            let right = disk.bytes(&name).unwrap();
            disk.put(&name, forged_shard(right, hide));
            assert!(world.get("x").unwrap() == bytes, "{code} {forged} {hide}");
            for start in [0, 64, 9_990] {
                let (part, _) = world.part_of("x", Some(start..start + 100)).unwrap();
                assert!(part == bytes[start as usize..][..100], "{code} {forged} {start}");
            }
            // Another shard is lost: what is rebuilt does not come from the forged one.
            let (lost_disk, lost) = file((forged + 1) % n);
            let before = lost_disk.bytes(&lost).unwrap();
            lost_disk.remove(&lost).unwrap();
            let report = scrub(&world, Depth::Data);
            let named: Vec<u16> = report.findings[0].lost.clone();
            assert!(named.contains(&(forged as u16)), "{code} {forged} {hide}: {report:#?}");
            heal(&world);
            // All but the header, which did not know the size of a stream.
            let after = lost_disk.bytes(&lost).unwrap();
            assert!(after[4096..] == before[4096..], "{code} {forged} {hide}");
            assert!(world.get("x").unwrap() == bytes, "{code} {forged} {hide}");
        }
    }
}

#[test]
pub fn keys_are_exchanged_while_the_pool_is_used() {
    let mut world = World::new("rs:4+2", 8);
    let (small, large) = (data(60, 1), data(20_000, 2));
    world.put("before/small", &small).unwrap();
    world.put("before/large", &large).unwrap();
    world.put("gone", &small).unwrap();
    world.pool().remove("gone", world.run(), 1_500, &settings()).unwrap();
    assert_eq!(seal(&mut world, keys(&[1])), 3, "a removal is sealed too");
    assert_eq!(seal(&mut world, keys(&[1])), 0, "nothing is left to do");
    world.put("between", &large).unwrap();
    let old = world.config.clone();
    assert_eq!(seal(&mut world, keys(&[2, 1])), 4);
    assert_eq!(world.config.sealed, keys(&[2]).ids());
    world.config.keys = keys(&[2]);
    for (name, bytes) in [("before/small", &small), ("before/large", &large), ("between", &large)] {
        assert!(world.get(name).unwrap() == *bytes, "{name}");
    }
    assert!(matches!(world.get("gone"), Err(PoolError::NoObject { .. })));
    assert!(scrub(&world, Depth::Parity).clean);
    // Whoever has both keys and an old description finds the new one; with the old key alone the
    // new map is not even believed.
    world.config = PoolConfig { keys: keys(&[2, 1]), ..old };
    assert!(world.get("between").unwrap() == large);
    // A put by the old key alone changes nothing.
    let late = PoolConfig { keys: keys(&[1]), ..world.config.clone() };
    let pool = Pool::open(late, &|node| world.open_node(node)).unwrap();
    assert!(pool.remove("between", world.run(), 9_000, &settings()).is_err());
    assert!(world.get("between").unwrap() == large);
}

#[test]
pub fn a_pool_whose_key_is_lost_gets_another_one() {
    let mut world = sealed_world("rs:4+2", 8);
    let (small, large) = (data(60, 1), data(20_000, 2));
    world.put("small", &small).unwrap();
    world.put("large", &large).unwrap();
    let sealed = world.config.clone();
    // The map has changed since the description was written.
    world.config = world.pool().members().change(false, &settings(), |_| Ok(())).unwrap();
    let lost = PoolConfig { keys: PoolKeys::default(), ..sealed.clone() };
    let without = |world: &World| {
        Membership::without_key(lost.clone(), &|node| world.open_node(node), &settings())
    };
    world.away.insert(3);
    assert_eq!(without(&world).unwrap_err().kind(), ErrorKind::Refused);
    world.away.clear();
    // Nothing was done: the key that is found after all still counts.
    assert!(world.get("large").unwrap() == large);
    world.config = without(&world).unwrap();
    assert!(world.config.sealed.is_empty() && world.config.revision > sealed.revision + 1);
    assert!(world.get("small").unwrap() == small);
    assert_eq!(seal(&mut world, keys(&[3])), 2);
    assert_eq!(world.config.sealed, keys(&[3]).ids());
    for (name, bytes) in [("small", &small), ("large", &large)] {
        assert!(world.get(name).unwrap() == *bytes, "{name}");
    }
    assert!(scrub(&world, Depth::Parity).clean);
    // The lost key counts no more, nor does what is done by it.
    let old = Pool::open(sealed, &|node| world.open_node(node)).unwrap();
    assert!(old.remove("large", world.run(), 9_000, &settings()).is_err());
    assert!(world.get("large").unwrap() == large);
}

#[test]
pub fn without_the_key_of_the_pool_it_is_not_opened() {
    let world = sealed_world("rs:2+1", 4);
    for at_hand in [PoolKeys::default(), keys(&[9])] {
        let config = PoolConfig { keys: at_hand, ..world.config.clone() };
        let error = Pool::open(config, &|node| world.open_node(node)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains(&world.config.sealed[0]), "{error}");
    }
    // The key is on no node.
    let secret = PoolKeys::text_of(&[1; 32]);
    let secret = secret.lines().last().unwrap();
    for disk in &world.disks {
        for name in disk.memory.list().unwrap() {
            let bytes = disk.memory.bytes(&name).unwrap();
            assert!(!String::from_utf8_lossy(&bytes).contains(secret), "{name}");
        }
    }
}

#[test]
pub fn a_forged_map_is_no_map() {
    let world = sealed_world("rs:4+2", 8);
    let bytes = data(20_000, 3);
    world.put("x", &bytes).unwrap();
    // A higher epoch, in which nothing is sealed and half of the nodes are gone.
    let mut forged = world.config.clone();
    (forged.revision, forged.sealed) = (forged.revision + 7, Vec::new());
    forged.node.truncate(4);
    let text = forged.to_toml().unwrap();
    let text = format!("{text}# checksum = {:08x}\n", checksum(text.as_bytes()));
    for node in 0..2 {
        world.disks[node].memory.put("kiln-pool.toml", text.clone().into_bytes());
        assert_eq!(world.newest(), world.config, "{node}");
        assert!(world.get("x").unwrap() == bytes, "{node}");
    }
    world.put("y", &bytes).unwrap();
    assert!(world.get("y").unwrap() == bytes);
}

/// A lost description is written again from a copy that the key sealed, and from no other one.
#[test]
pub fn a_lost_description_comes_back_with_its_seal_alone() {
    let world = sealed_world("rs:4+2", 8);
    let copy = world.disks[0].memory.bytes("kiln-pool.toml").unwrap();
    let none = PoolKeys::default();
    assert_eq!(PoolConfig::from_copy(&copy, &keys(&[1])).unwrap(), world.config);
    // Without the key it is known to be sealed.
    assert_eq!(PoolConfig::from_copy(&copy, &none).unwrap().sealed, world.config.sealed);
    let open = PoolConfig { sealed: Vec::new(), revision: 900, ..world.config.clone() };
    let forged = open.to_toml().unwrap().into_bytes();
    for keys in [keys(&[1]), keys(&[9])] {
        let error = PoolConfig::from_copy(&forged, &keys).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    }
    assert!(PoolConfig::from_copy(&copy, &keys(&[9])).is_err());
    let mut damaged = copy.clone();
    damaged[90] ^= 1;
    assert!(PoolConfig::from_copy(&damaged, &keys(&[1])).is_err());
    // Nor is it taken where no key is at hand while other nodes say that there is one.
    let unsealed = PoolConfig::from_copy(&forged, &none).unwrap();
    let pool = Pool::open(unsealed, &|node| world.open_node(node)).unwrap();
    assert_eq!(pool.members().check_unsealed().unwrap_err().kind(), ErrorKind::Refused);
}

#[test]
pub fn shards_without_a_manifest_prove_nothing() {
    let world = sealed_world("rs:4+2", 8);
    world.put("x", &data(20_000, 3)).unwrap();
    let file = manifest("x");
    world.disks.iter().for_each(|disk| disk.memory.remove(&file).unwrap_or_default());
    let report = scrub(&world, Depth::Headers);
    assert_eq!((report.restored, report.unproven, report.clean), (0, 1, false), "{report:#?}");
    assert!(report.quarantined + report.leftovers_removed >= 6, "{report:#?}");
}
