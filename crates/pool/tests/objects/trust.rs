//! Promises that broke in trials: old disks, half commits, lost manifests, nodes that are gone.

use std::collections::BTreeSet;

use kiln_pool::{
    GetRequest, Membership, NodeConfig, NodeState, Pool, PoolConfig, PoolStatus, PutRequest,
    ScrubReport, ScrubRequest,
};
use kiln_store::{Backend, MemoryBackend, Operation};
use kiln_stripe::{ErrorKind, PoolError, StreamSource};
use kiln_testkit::{Fault, FaultAction};

use crate::recover::{Recovered, recover};
use crate::world::*;

fn scrub_at(world: &World, now_ms: u64) -> ScrubReport {
    world.scrub(&world.index(), &ScrubRequest { now_ms, ..ScrubRequest::default() })
}

fn repair(world: &World, away: bool) -> Recovered {
    let report = recover(&world.pool(), &world.index(), (9_500, away), &settings()).unwrap();
    assert_eq!(report.failed_count, 0, "{report:#?}");
    report
}

fn status(world: &World) -> PoolStatus {
    world.survey(&world.index())
}

/// The pool as somebody with this description sees it.
fn open(world: &World, config: PoolConfig) -> Pool {
    Pool::open(config, &|node: &NodeConfig| world.open_node(node)).unwrap()
}

/// All sets of two of so many.
fn pairs(count: usize) -> impl Iterator<Item = BTreeSet<usize>> {
    (0..count).flat_map(move |a| (0..a).map(move |b| BTreeSet::from([a, b])))
}

/// A change of the map succeeds without some nodes. When it forgets removals, all of them get it:
/// a node with an older map is taken for one whose disk was rolled back, and what such disks alone
/// have counts as removed (seed 24000 of the simulator).
#[test]
pub fn nodes_that_missed_the_change_that_forgets_removals_are_told() {
    for missed in [vec![0], vec![0, 1]] {
        let world = World::new("rs:2+1", 5);
        world.put("kept", &data(90, 1)).unwrap();
        world.put("gone", &data(90, 2)).unwrap();
        world.remove("gone").unwrap();
        let copies = world.pool().manifest("kept").unwrap().copies;
        let holders: Vec<usize> =
            copies.iter().map(|id| world.config.position(id).unwrap()).collect();
        let fault = || {
            let fault = Fault::new(FaultAction::Fail(std::io::ErrorKind::ConnectionReset));
            fault.on(Operation::Rename).named("kiln-pool")
        };
        for &nth in &missed {
            world.disks[holders[nth]].faulty.inject(fault());
        }
        assert_eq!(scrub_at(&world, 9_000).forgotten, 1);
        // The other copy is lost, by a disk that knows the newest map.
        let mut world = world;
        world.config = world.newest();
        world.disks[holders[1]].faulty.remove(&manifest("kept")).unwrap();
        assert!(world.get("kept").unwrap() == data(90, 1), "{missed:?}");
        scrub_at(&world, 10_000);
        assert!(world.get("kept").unwrap() == data(90, 1));
        assert!(world.get("gone").is_err());
    }
}

/// A disk is lost, or not mounted any more, under a pool that was opened before: its place is
/// empty, and testifies nothing. With it the last copy that can be had is out of sight.
#[test]
pub fn an_empty_place_does_not_testify_that_there_is_no_object() {
    let mut world = World::new("clay:3+2", 7);
    let (old, new) = (data(50, 1), data(60, 2));
    let holders = world.put("a", &old).unwrap().manifests;
    let holders: Vec<usize> = holders.iter().map(|id| world.config.position(id).unwrap()).collect();
    let whole = world.copy();
    world.away.extend(&holders[1..]);
    let pool = world.pool();
    let mut out = Vec::new();
    let mut get = || pool.get(&GetRequest { name: "a", range: None }, &mut out, &settings());
    get().unwrap();
    for name in world.disks[holders[0]].memory.list().unwrap() {
        world.disks[holders[0]].memory.remove(&name).unwrap();
    }
    let found = get();
    assert!(matches!(found, Err(PoolError::Uncertain { .. })), "{found:?}");
    let put = PutRequest { name: "a", run: world.run(), now_ms: 2_000, replace: true };
    assert!(pool.put(&put, &mut StreamSource::new(&new[..]), &settings()).is_err());
    // With the disk back all is as it was.
    assert!(whole.get("a").unwrap() == old);
}

/// T1: a disk of before, put back after its node was emptied, replaced or given up.
#[test]
pub fn an_old_disk_brings_nothing_back() {
    for (size, way) in [(8_000, 0), (50, 0), (8_000, 1), (50, 1)] {
        let mut world = World::new("rs:4+2", 8);
        let (old, new) = (data(size, 1), data(size + 9, 2));
        world.put("a", &old).unwrap();
        let home = world.pool().manifest("a").unwrap().copies[0].clone();
        let at = world.config.position(&home).unwrap();
        let disk = world.disks[at].clone();
        match way {
            // Replaced by an empty one.
            0 => world.replace_disk(at),
            // Given up, and another node takes its place.
            _ => {
                world.away.insert(at);
                world.set_state(&[at], NodeState::Out);
                repair(&world, true);
                let ids = [home.clone()];
                world.config = world.pool().members().forget(&ids, false, &settings()).unwrap();
                world.away.clear();
            }
        }
        repair(&world, false);
        world.remove("a").unwrap();
        assert!(scrub_at(&world, 9_000).clean);
        assert!(scrub_at(&world, 9_000 + 25 * 3_600_000).clean);
        assert!(world.put("a", &new).unwrap().version > 2);
        // The old disk is back at its place.
        world.disks[at] = disk;
        assert!(world.get("a").unwrap() == new, "{size} {way}");
        let at_node = |node: &NodeConfig| world.open_node(node);
        if way == 1 {
            let node = NodeConfig::new(&home, &format!("memory://{at}"));
            let refused = world.pool().members().add_node(node, [9; 16], &at_node, &settings());
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Refused);
            let node = NodeConfig::new("other", &format!("memory://{at}"));
            let refused = world.pool().members().add_node(node, [9; 16], &at_node, &settings());
            assert!(refused.unwrap_err().to_string().contains("not believed"));
        }
        let report = scrub_at(&world, 10_000 + 50 * 3_600_000);
        assert_eq!((report.unreadable, report.leftovers), (0, 0), "{report:#?}");
        assert!(world.get("a").unwrap() == new, "{size} {way}");
    }
}

/// A disk restored from a snapshot of before is believed to be itself, and must do no harm.
#[test]
pub fn a_snapshot_brings_nothing_back() {
    let mut world = World::new("rs:3+2", 7);
    let kept = data(4_000, 3);
    world.put("kept", &kept).unwrap();
    for (round, size) in [(0, 9_000), (1, 60), (2, 70)] {
        let (name, bytes) = (format!("a{round}"), data(size, round));
        world.put(&name, &bytes).unwrap();
        let at = world.config.position(&world.pool().manifest(&name).unwrap().copies[0]).unwrap();
        let snapshot = world.disks[at].memory.crash(0);
        world.remove(&name).unwrap();
        let forgotten = scrub_at(&world, 9_000).forgotten;
        assert_eq!(forgotten, 1);
        world.disks[at] = Disk::new(snapshot);
        if round == 2 {
            // Nobody has looked at it when the map changes: it is not told.
            world.set_state(&[6], NodeState::Leaving);
            world.set_state(&[6], NodeState::In);
        }
        assert!(matches!(world.get(&name), Err(PoolError::NoObject { .. })), "{name}");
        let found = scrub_at(&world, 9_000);
        assert_eq!(found.restored, 0, "{found:#?}");
        assert!(matches!(world.get(&name), Err(PoolError::NoObject { .. })), "{name}");
        let told = world.disks[at].memory.bytes("kiln-pool.toml").unwrap();
        let told = String::from_utf8(told).unwrap();
        assert!(told.contains(&world.newest().to_toml().unwrap()), "{name}");
        assert!(world.get("kept").unwrap() == kept);
        assert!(world.put(&name, &bytes).unwrap().version > 2);
        assert!(world.get(&name).unwrap() == bytes);
        repair(&world, false);
    }
}

/// Disks restored from snapshots of before an object was put are like lost ones: m of them take
/// nothing along, be its version one of before something was forgotten or not.
#[test]
pub fn a_snapshot_takes_nothing_along() {
    for (code, nodes) in [("rs:2+1", 5), ("rs:3+2", 7)] {
        for (size, forgets) in [(60, false), (60, true), (9_000, false), (9_000, true)] {
            let what = format!("{code} {size} {forgets}");
            let mut world = World::new(code, nodes);
            let m = world.config.policy.manifest_copies - 1;
            let before: Vec<_> =
                world.disks.iter().map(|disk| Disk::new(disk.memory.crash(0))).collect();
            let bytes = data(size, 4);
            world.put("x", &bytes).unwrap();
            if forgets {
                world.put("y", &data(70, 5)).unwrap();
                world.remove("y").unwrap();
                assert_eq!(scrub_at(&world, 9_000).forgotten, 1);
            }
            let copies = world.pool().manifest("x").unwrap().copies;
            for id in &copies[..m] {
                let at = world.config.position(id).unwrap();
                world.disks[at] = before[at].clone();
            }
            assert!(world.get("x").unwrap() == bytes, "{what}");
            let report = scrub_at(&world, 10_000);
            assert_eq!((report.unreadable, report.restored), (0, 0), "{what}: {report:#?}");
            repair(&world, false);
            let report = scrub_at(&world, 11_000);
            assert!(report.clean, "{what}: {report:#?}");
            for lost in pairs(nodes).filter(|_| m == 2) {
                world.away = lost;
                assert!(world.get("x").unwrap() == bytes, "{what}");
            }
        }
    }
}

/// A manifest that nobody can read may be the last one of an object: until it is known to be of
/// none, homes of before are asked. A seed of the simulator found that they were not.
#[test]
pub fn a_corrupt_manifest_is_no_proof_that_there_is_nothing() {
    let mut world = World::new("rs:2+1", 5);
    let bytes = data(60, 1);
    world.put("small", &bytes).unwrap();
    let copies = world.pool().manifest("small").unwrap().copies;
    let [gone, corrupt] = [0, 1].map(|at: usize| world.config.position(&copies[at]).unwrap());
    let memory = world.disks[corrupt].memory.clone();
    let mut wrong = memory.bytes(&manifest("small")).unwrap();
    wrong[20] ^= 4;
    memory.put(&manifest("small"), wrong);
    world.away.insert(gone);
    world.set_state(&[gone], NodeState::Out);
    repair(&world, true);
    assert_eq!(status(&world).under_replicated, 1);
    scrub_at(&world, 9_000);
    assert!(!world.pool().config().is_settled());
    let read = world.get("small");
    assert!(matches!(read, Err(PoolError::Uncertain { .. })), "{read:?}");
    world.away.clear();
    world.set_state(&[gone], NodeState::In);
    assert!(world.get("small").unwrap() == bytes);
    repair(&world, false);
    assert!(world.pool().config().is_settled() && scrub_at(&world, 9_000).clean);
}

/// The same of a newer version, whose older one everybody knows: with m nodes unavailable a corrupt
/// manifest must not make the older one the newest.
#[test]
pub fn a_corrupt_manifest_brings_no_old_version_back() {
    let mut world = World::new("rs:3+2", 8);
    let (old, new) = (data(60, 1), data(61, 2));
    let at = |world: &World, id: &String| world.config.position(id).unwrap();
    world.put("x", &old).unwrap();
    let first = world.pool().manifest("x").unwrap().copies;
    let both = at(&world, &first[2]);
    world.away.extend([at(&world, &first[0]), at(&world, &first[1])]);
    world.put("x", &new).unwrap();
    let second = world.pool().manifest("x").unwrap().copies;
    let newer: Vec<usize> =
        second.iter().map(|id| at(&world, id)).filter(|at| *at != both).collect();
    let mut bytes = world.disks[both].memory.bytes(&manifest("x")).unwrap();
    bytes[20] ^= 4;
    world.disks[both].memory.put(&manifest("x"), bytes);
    world.away = newer.iter().copied().collect();
    world.set_state(&newer, NodeState::Out);
    repair(&world, true);
    assert!(!world.pool().config().is_settled());
    assert!(matches!(world.get("x"), Err(PoolError::Uncertain { .. })));
    world.away.clear();
    world.set_state(&newer, NodeState::In);
    assert!(world.get("x").unwrap() == new);
    repair(&world, false);
    assert!(world.pool().config().is_settled() && world.get("x").unwrap() == new);
}

/// A change is known to too few nodes, since the others lost their disks: only who forces it gets
/// on, and does.
#[test]
pub fn a_lost_majority_is_given_up_by_force() {
    let mut world = World::new("rs:2+1", 4);
    let known = world.newest();
    world.set_state(&[3], NodeState::Out);
    world.disks[1] = Disk::new(MemoryBackend::new());
    world.disks[2] = Disk::new(MemoryBackend::new());
    let at_place = |node: &NodeConfig| world.open_node(node);
    let newest = |force| Membership::newest(known.clone(), force, &at_place, &settings());
    assert!(matches!(newest(false), Err(PoolError::MapNotAgreed { .. })));
    let pool = open(&world, newest(true).unwrap());
    assert_eq!(pool.config().revision, 2);
    let lost = [1, 2].map(|at: usize| known.node[at].id.clone());
    assert!(matches!(
        pool.members().forget(&lost, false, &settings()),
        Err(PoolError::MapNotAgreed { .. })
    ));
    let mut config = pool.members().forget(&lost, true, &settings()).unwrap();
    // One node decides, and others may join it.
    for at in [1, 2] {
        let node = NodeConfig::new(&known.node[at].id, &known.node[at].url);
        let pool = open(&world, config);
        config = pool.members().add_node(node, [at as u8; 16], &at_place, &settings()).unwrap();
    }
    let out = config.position(&known.node[3].id).unwrap();
    world.config = config;
    world.set_state(&[out], NodeState::In);
    assert_eq!(world.config.node.len(), 4);
    repair(&world, false);
    assert!(world.pool().config().is_settled());
}

/// A node that joined lost nothing: until the map is settled as many losses are survived as ever.
#[test]
pub fn a_node_that_joined_is_no_loss() {
    for forgotten in [false, true] {
        let mut world = World::new("rs:2+1", 5);
        world.put("small", &data(40, 1)).unwrap();
        world.disks.push(Disk::new(MemoryBackend::new()));
        let node = NodeConfig::new("n05", "memory://5");
        let open = |node: &NodeConfig| world.open_node(node);
        world.config =
            world.pool().members().add_node(node, world.run(), &open, &settings()).unwrap();
        if forgotten {
            world.config =
                world.pool().members().forget(&["n01".into()], false, &settings()).unwrap();
        }
        assert!(!world.config.is_settled());
        let lost = world.config.position("n02").unwrap();
        if !forgotten {
            world.replace_disk(lost);
        }
        for number in 0..40 {
            let name = format!("o{number}");
            assert!(matches!(world.get(&name), Err(PoolError::NoObject { .. })), "{name}");
        }
        assert!(world.get("small").unwrap() == data(40, 1));
        repair(&world, false);
        assert!(world.pool().config().is_settled());
    }
}

/// One that was out, and is back, knows what it knew.
#[test]
pub fn nodes_that_are_back_are_witnesses() {
    let mut world = World::new("rs:2+1", 6);
    world.put("x", &data(3_000, 1)).unwrap();
    for node in [0, 1, 2] {
        world.away.insert(node);
        world.set_state(&[node], NodeState::Out);
        world.away.clear();
    }
    world.set_state(&[0, 1, 2], NodeState::In);
    assert!(world.get("x").unwrap() == data(3_000, 1));
    repair(&world, false);
    assert!(world.pool().config().is_settled());
}

/// A scrub found that a copy of a manifest is missing, and it was on a node that is given up: that
/// is one copy, not two.
#[test]
pub fn a_missing_copy_is_counted_once() {
    let mut world = World::new("rs:2+1", 5);
    world.put("small", &data(40, 1)).unwrap();
    let index = world.index();
    let copies = world.pool().manifest("small").unwrap().copies;
    world.config = world.pool().members().forget(&copies[..1], false, &settings()).unwrap();
    world.scrub(&index, &ScrubRequest { now_ms: 9_000, ..ScrubRequest::default() });
    let status = world.survey(&index);
    assert_eq!((status.unreadable, status.under_replicated), (0, 1), "{status:#?}");
}

/// The index follows hints. A scrub finds what none of them told of.
#[test]
pub fn a_scrub_finds_what_the_index_does_not_know() {
    let world = World::new("rs:2+1", 5);
    let index = world.index();
    world.put("x", &data(3_000, 1)).unwrap();
    // The logs are lost, and so is a shard.
    for at in 0..5 {
        world.disks[at].faulty.remove(".kiln-changes").unwrap();
    }
    let (at, shard) = &world.shards("x")[&1];
    world.disks[*at].memory.remove(shard).unwrap();
    world.refresh(&index);
    assert_eq!(index.len().unwrap(), 0);
    let req = ScrubRequest { now_ms: 9_000, ..ScrubRequest::default() };
    let report = world.scrub(&index, &req);
    assert_eq!((report.objects, report.damaged), (1, 1), "{report:#?}");
    assert_eq!(index.len().unwrap(), 1);
}

/// T2: a put that dies at its second manifest. Once read, its version stays.
#[test]
pub fn what_was_seen_is_not_unseen() {
    for removes in [false, true] {
        for alive in 0..3u64 {
            let mut world = World::new("rs:3+2", 7);
            let (old, new) = (data(6_000, 1), data(7_000, 2));
            world.put("x", &old).unwrap();
            // So many manifests are renamed, then the rest fails.
            let copies = world.pool().manifest("x").unwrap().copies;
            for id in copies.iter().skip(alive as usize) {
                let at = world.config.position(id).unwrap();
                let fault = Fault::new(FaultAction::Fail(std::io::ErrorKind::Other));
                let fault = fault.on(Operation::Rename).named(".manifest.part");
                world.disks[at].faulty.inject(fault);
            }
            let end = match removes {
                true => world.remove("x").map(drop),
                false => world.put("x", &new).map(drop),
            };
            assert!(end.is_err(), "{alive}");
            world.disks.iter().for_each(|disk| disk.faulty.heal());
            let read = |world: &World| match world.get("x") {
                Ok(bytes) => Some(bytes),
                Err(PoolError::NoObject { .. }) => None,
                Err(error) => panic!("{error}"),
            };
            let first = read(&world);
            assert!(first.as_ref().is_none_or(|bytes| *bytes == old || *bytes == new));
            for away in pairs(7) {
                world.away = away.clone();
                assert!(read(&world) == first, "{removes} {alive} without {away:?}");
            }
        }
    }
}

/// T3: all copies of a manifest are gone, the shards are not.
#[test]
pub fn an_object_without_a_manifest_is_made_again() {
    let world = World::new("rs:4+2", 8);
    let bytes = data(9_000, 5);
    world.put("x", &bytes).unwrap();
    for disk in &world.disks {
        let _ = Backend::remove(&*disk.memory, &manifest("x"));
    }
    assert!(matches!(world.get("x"), Err(PoolError::NoObject { .. })));
    assert_eq!(status(&world).unclaimed, 6);
    // In buckets a shard without a manifest may be arriving, as long as it is young.
    let later = 9_000 + ScrubRequest::default().grace_ms;
    let report = scrub_at(&world, later);
    assert_eq!((report.restored, report.leftovers_removed > 0), (1, true), "{report:#?}");
    assert!(world.get("x").unwrap() == bytes);
    repair(&world, false);
    let report = scrub_at(&world, later);
    assert!(report.clean && report.quarantined == 0, "{report:#?}");
}

#[test]
pub fn what_is_lost_with_a_node_is_named_before_it_is_given_up() {
    let mut world = World::new("rs:2+1", 4);
    world.put("small", &data(40, 1)).unwrap();
    world.put("large", &data(9_000, 2)).unwrap();
    world.away = world.shards("large").values().take(2).map(|(node, _)| *node).collect();
    let two: Vec<String> = world.away.iter().map(|at| world.config.node[*at].id.clone()).collect();
    let pool = world.pool();
    world.away.clear();
    let index = world.index();
    let (names, count) = pool.members().lost_without(&two, &index, 10).unwrap();
    assert!(count >= 1 && names.contains(&"large".to_owned()), "{names:?}");
    // Too many are unavailable to agree on anything.
    let refused = pool.members().forget(&two, false, &settings()).unwrap_err();
    assert!(matches!(refused, PoolError::MapNotAgreed { .. }), "{refused}");
    assert_eq!(refused.kind(), ErrorKind::NotRecoverable);
    world.config = pool.members().forget(&two, true, &settings()).unwrap();
    assert_eq!((world.config.node.len(), world.config.gone.len()), (2, 2));
}

/// A writer that did not hear of a change is refused, and changes nothing.
#[test]
pub fn an_old_map_is_refused() {
    let mut world = World::new("rs:3+2", 8);
    world.put("x", &data(6_000, 1)).unwrap();
    let stale = world.newest();
    world.set_state(&[3], NodeState::Leaving);
    let pool = open(&world, stale.clone());
    let put = PutRequest { name: "x", run: [77; 16], now_ms: 5, replace: true };
    let end = pool.put(&put, &mut StreamSource::new(&b"new"[..]), &settings());
    assert!(matches!(end, Err(PoolError::MapChanged { have: 1, newest: 2, .. })), "{end:?}");
    assert!(pool.check_map().is_err() && pool.stat("x").is_err());
    assert!(pool.members().set_state(&["n01".into()], NodeState::Out, false, &settings()).is_err());
    assert!(world.get("x").unwrap() == data(6_000, 1));
    // A change that reached few nodes is completed by whoever finds it.
    let next = world.newest();
    let text = next.to_toml().unwrap().replace("revision = 2", "revision = 3");
    world.disks[5].memory.put("kiln-pool.toml", text.into_bytes());
    assert_eq!(world.newest().revision, 3);
    let told = (0..8).filter(|at| {
        let text = world.disks[*at].memory.bytes("kiln-pool.toml").unwrap();
        String::from_utf8(text).unwrap().contains("revision = 3")
    });
    assert_eq!(told.count(), 8);
}

#[test]
pub fn a_description_that_was_edited_is_agreed_on() {
    let mut world = World::new("rs:3+2", 9);
    world.put("x", &data(6_000, 1)).unwrap();
    let mut mine = world.newest();
    assert_eq!(world.pool().members().edited(&settings()).unwrap(), None);
    mine.policy.manifest_copies = 4;
    mine.node[2].weight = 3.0;
    let agreed = open(&world, mine.clone()).members().edited(&settings()).unwrap().unwrap();
    assert_eq!((agreed.revision, agreed.past.len(), agreed.past[0].copies), (2, 1, 3));
    // What was put with three copies is read until it has four.
    for away in pairs(9) {
        world.away = away.clone();
        assert!(world.get("x").unwrap() == data(6_000, 1), "{away:?}");
    }
    world.away.clear();
    repair(&world, false);
    assert_eq!(world.pool().manifest("x").unwrap().copies.len(), 4);
    let mut wrong = world.newest();
    wrong.node.pop();
    assert_eq!(
        open(&world, wrong).members().edited(&settings()).unwrap_err().kind(),
        ErrorKind::Refused
    );
}
