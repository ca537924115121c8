//! Disks that are lost while a pool is open, with an empty folder in their place.

use std::io::ErrorKind;

use kiln_pool::{Index, Pool, PutReport, RepairRequest, ScrubRequest, repair::Needs};
use kiln_store::Backend;
use kiln_stripe::{PoolError, Silent};
use kiln_testkit::{Fault, FaultAction, battery::read};

use crate::recover::recover;
use crate::world::*;

/// A node's disk is lost; its place answers, and is empty.
fn lose(world: &World, node: usize) {
    let memory = &world.disks[node].memory;
    memory.list().unwrap().iter().for_each(|name| memory.remove(name).unwrap());
}

/// Nothing was made in these places; so they are taken as the disks that came instead, and the pool
/// is repaired.
fn made_whole(world: &mut World, nodes: &[usize]) {
    for &node in nodes {
        assert_eq!(world.disks[node].memory.list().unwrap(), Vec::<String>::new());
        world.take_disk(node);
    }
    recover(&world.pool(), &world.index(), (9_500, false), &settings()).unwrap();
}

fn put(world: &World, pool: &Pool, objects: &[(String, Vec<u8>)]) -> Vec<PutReport> {
    let all: Vec<_> = objects.iter().map(|(name, bytes)| (&name[..], bytes.clone())).collect();
    world.put_all(pool, &all, true).unwrap().into_iter().map(Result::unwrap).collect()
}

/// Objects in their manifests, and in shards.
fn objects(round: usize) -> Vec<(String, Vec<u8>)> {
    let sizes = [50, 80, 3_000, 20_000].into_iter().cycle().take(16).enumerate();
    sizes.map(|(at, size)| (format!("o{round}-{at}"), data(size, at as u64))).collect()
}

#[test]
pub fn nothing_is_made_in_an_empty_place_of_a_node() {
    let mut world = World::new("clay:4+2", 7);
    let pool = world.pool();
    let all: Vec<_> = (0..3).map(objects).collect();
    put(&world, &pool, &all[0]);
    lose(&world, 2);
    let reports = put(&world, &pool, &all[1]);
    for report in &reports {
        let id = &world.config.node[2].id;
        assert!(!report.manifests.contains(id) && !report.nodes.contains(id), "{report:?}");
        assert_eq!(report.missing, [0; 0], "there are others: {report:?}");
    }
    // With one more lost there are too few for shards, of which one may be left out.
    lose(&world, 4);
    for report in put(&world, &pool, &all[2]) {
        let lost = [2, 4].map(|at: usize| &world.config.node[at].id);
        assert!(lost.iter().all(|id| !report.manifests.contains(id)), "{report:?}");
        let missing = usize::from(!report.nodes.is_empty());
        assert_eq!(report.missing.len(), missing, "{report:?}");
        assert!(report.missing.iter().all(|at| lost.contains(&&report.nodes[*at])), "{report:?}");
    }
    pool.remove("o1-0", world.run(), 1_000, &settings()).unwrap();
    assert!(pool.remove("o1-0", world.run(), 1_000, &settings()).is_err());
    made_whole(&mut world, &[2, 4]);
    world.away = [1, 5].into();
    for (name, bytes) in all.iter().flatten().filter(|(name, _)| name != "o1-0") {
        assert!(world.get(name).unwrap() == *bytes, "{name}");
    }
}

/// Repairs and changes of the map by a pool that was opened before: as by one that is opened now,
/// the node is away, and what it lacks is left, or rebuilt elsewhere when that is asked for.
#[test]
pub fn repairs_and_changes_of_the_map_leave_an_empty_place_empty() {
    let mut world = World::new("clay:4+2", 8);
    let (pool, all) = (world.pool(), objects(0));
    let reports = put(&world, &pool, &all);
    let index = world.index();
    lose(&world, 2);
    let id = world.config.node[2].id.clone();
    let (mut left, mut moved) = (0, 0);
    for away in [false, true] {
        for ((name, _), report) in all.iter().zip(&reports) {
            let shards = report.nodes.iter().filter(|node| **node == id).count();
            let req = RepairRequest { now_ms: 5_000, away, ..RepairRequest::default() };
            let needs = pool.repairer().needs(name, &req, &settings()).unwrap();
            let rebuilds = shards > 0 && away;
            assert_eq!(matches!(needs, Needs::Rebuild(_)), rebuilds, "{name}: {needs:?}");
            let healed = pool.repairer().repair(name, &req, &settings()).unwrap();
            assert_eq!(healed.rebuilt.len(), if away { shards } else { 0 }, "{healed:?}");
            assert!(healed.rebuilt.iter().all(|(_, node)| *node != id), "{healed:?}");
            left += healed.left.len();
            moved += healed.rebuilt.len();
        }
    }
    assert!(left > 0 && left == moved, "{left} left, {moved} moved");
    scrub(&pool, &index, &at_once(9_000)).unwrap();
    let config = pool.members().change(false, &settings(), |next| {
        next.name = "another".into();
        Ok(())
    });
    world.config = config.unwrap();
    made_whole(&mut world, &[2]);
    world.away = [1, 5].into();
    for (name, bytes) in &all {
        assert!(world.get(name).unwrap() == *bytes, "{name}");
    }
}

/// A home that gets a copy of a manifest since another one is full is looked at, too.
#[test]
pub fn a_home_that_stands_in_for_a_full_one_is_still_there() {
    let world = World::new("rs:2+1", 6);
    let pool = world.pool();
    put(&world, &pool, &objects(0));
    lose(&world, 2);
    for full in [0, 1, 3, 4, 5] {
        world.disks[full].faulty.limit_space(0);
        let all = [(format!("small-{full}"), data(60, full as u64))];
        let report = &put(&world, &pool, &all)[0];
        let on = |at: usize| report.manifests.contains(&world.config.node[at].id);
        assert!(!on(full) && !on(2), "{report:?}");
        world.disks[full].faulty.heal();
        assert_eq!(world.disks[2].memory.list().unwrap(), Vec::<String>::new());
    }
}

/// A process that puts one object has just looked at the nodes: nothing is asked again. One that
/// goes on asks each node once for all that it puts together.
#[test]
pub fn nodes_are_asked_once_for_all_that_is_put_together() {
    let large = |count: usize| -> Vec<(String, Vec<u8>)> {
        (0..count).map(|at| (format!("l{at}"), data(8_000, at as u64))).collect()
    };
    for count in [1, 8] {
        let operations = |looked: bool| {
            let world = World::new("clay:4+2", 6);
            let pool = world.pool();
            let before = world.operations();
            if looked {
                assert_eq!(pool.away().len(), 0);
            }
            let looks = world.operations() - before;
            put(&world, &pool, &large(count));
            (looks, world.operations() - before)
        };
        let ((_, new), (looks, known)) = (operations(false), operations(true));
        assert!(looks > 0);
        assert_eq!(known - new, 6, "{count} objects: {known} operations, {new} with new nodes");
    }
}

/// As long as shards of an object that was removed lie about, that it was removed is remembered:
/// else they would be those of an object whose manifest was lost.
#[test]
pub fn what_was_removed_stays_so_while_shards_of_it_are_left() {
    (0..7).for_each(removed_stays_removed);
}

fn removed_stays_removed(lost: usize) {
    let mut world = World::new("clay:4+2", 7);
    world.put("removed", &data(9_000, 2)).unwrap();
    let shards = |disk: &Disk| -> Vec<(String, Vec<u8>)> {
        let names = disk.memory.list().unwrap().into_iter();
        let names = names.filter(|name| name.ends_with(".kiln") && !name.starts_with('.'));
        names.map(|name| (name.clone(), read(&*disk.memory, &name))).collect()
    };
    let before: Vec<_> = world.disks.iter().map(shards).collect();
    world.remove("removed").unwrap();
    // As nodes have them that were away when it was removed.
    for (disk, shards) in world.disks.iter().zip(before) {
        let there = disk.memory.list().unwrap();
        for (name, bytes) in shards.iter().filter(|(name, _)| !there.contains(name)) {
            kiln_store::write_whole(&*disk.memory, name, bytes).unwrap();
        }
    }
    let (index, mut forgotten) = (Index::in_memory().unwrap(), 0);
    world.replace_disk(lost);
    for now_ms in [9_000, 10_000, 11_000, 12_000] {
        world.refresh(&index);
        let report = world.scrub(&index, &at_once(now_ms));
        forgotten += report.forgotten;
        assert_eq!(report.restored, 0, "node {lost}: {report:?}");
        let got = world.get("removed");
        assert!(matches!(got, Err(PoolError::NoObject { .. })), "node {lost}: {got:?}");
    }
    assert_eq!(forgotten, 1, "node {lost}: in the end nothing is left of it");
}

/// A node that goes away while a scrub reads is no damage.
#[test]
fn a_node_that_leaves_during_a_scrub_damages_nothing() {
    let first = World::new("clay:4+2", 8);
    for (name, bytes) in objects(0) {
        first.put(&name, &bytes).unwrap();
    }
    let mut ended = 0;
    for after in (0..400).step_by(20) {
        let world = first.copy();
        let (pool, index) = (world.pool(), Index::in_memory().unwrap());
        // By the same client, which sees all nodes before one leaves.
        index.refresh(&pool, b"", &Silent).unwrap();
        let fault = FaultAction::Fail(ErrorKind::NotConnected);
        world.disks[3].faulty.inject(Fault::new(fault).after(after).always());
        let req = ScrubRequest { now_ms: 3_000, ..ScrubRequest::default() };
        // The steps after the objects need the locks of all nodes.
        if let Ok(report) = scrub(&pool, &index, &req) {
            let found = (report.damaged, report.unreadable, report.findings.len());
            assert_eq!(found, (0, 0, 0), "{after}: {report:#?}");
            ended += 1;
        }
        world.disks[3].faulty.heal();
        let status = world.survey(&index);
        assert_eq!(status.whole, status.objects, "{after}: {status:#?}");
    }
    assert!(ended > 10, "{ended}");
}

/// An index that missed a removal, of which nothing tells any more.
#[test]
fn an_index_that_missed_a_removal_heals() {
    let world = World::new("rs:3+2", 8);
    for (name, bytes) in objects(0) {
        world.put(&name, &bytes).unwrap();
    }
    let stale = [(), ()].map(|()| world.index());
    world.remove("o0-0").unwrap();
    world.remove("o0-3").unwrap();
    let month_ms = 30 * 24 * 3_600_000;
    let req = ScrubRequest { now_ms: month_ms, ..ScrubRequest::default() };
    let report = world.scrub(&world.index(), &req);
    assert_eq!(report.forgotten, 2, "{report:#?}");
    for (stale, logs) in stale.iter().zip([true, false]) {
        if logs {
            world.refresh(stale);
        }
        let status = world.survey(stale);
        let said = (status.objects, status.whole, status.unreadable);
        assert_eq!(said, (14, 14, 0), "{logs}: {status:#?}");
    }
}

/// Returns what a scrub found is seen by a client that has another index, until it is repaired.
#[test]
fn damage_that_one_client_found_is_seen_by_others() {
    let world = World::new("rs:4+2", 8);
    world.put("o", &data(20_000, 1)).unwrap();
    for (node, file) in world.shards("o").values().take(2) {
        let mut bytes = world.disks[*node].memory.bytes(file).unwrap();
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
        world.disks[*node].memory.put(file, bytes);
    }
    let whole = || world.survey(&world.index()).whole;
    assert_eq!(whole(), 1, "names do not show it");
    let req = ScrubRequest { now_ms: 3_000, ..ScrubRequest::default() };
    let report = world.scrub(&world.index(), &req);
    assert_eq!((report.damaged, report.leftovers), (1, 0), "{report:#?}");
    let status = world.survey(&world.index());
    assert_eq!((status.whole, status.endangered.get(&0)), (0, Some(&1)), "{status:#?}");
    let report = recover(&world.pool(), &world.index(), (5_000, false), &settings()).unwrap();
    assert_eq!((report.repaired, report.failed_count), (1, 0), "{report:#?}");
    assert_eq!(whole(), 1);
    let left = (0..8).flat_map(|node| world.files(node)).find(|file| file.ends_with(".damaged"));
    assert_eq!(left, None);
    assert!(world.get("o").unwrap() == data(20_000, 1));
}
