//! Findings of simulated clusters (kiln-recovery's test `cluster`), as small as it can be.

use kiln_pool::repair::queue::{RepairQueue, Rules};
use kiln_pool::{Index, Key, NodeFile, PoolStatus, PutReport, ScrubReport};
use kiln_stripe::PoolError;

use crate::recover::recover;
use crate::world::*;
use kiln_store::Backend;

fn scrub(world: &World, index: &Index) -> ScrubReport {
    world.refresh(index);
    world.scrub(index, &at_once(9_000))
}

/// The nodes that have an object's manifest.
fn holders(world: &World, put: &PutReport) -> Vec<usize> {
    put.manifests.iter().map(|id| world.config.position(id).unwrap()).collect()
}

fn status(world: &World) -> PoolStatus {
    world.survey(&world.index())
}

fn repair(world: &World, index: &Index) {
    world.refresh(index);
    let report = recover(&world.pool(), index, (9_500, false), &settings()).unwrap();
    assert_eq!(report.failed_count, 0, "{report:#?}");
}

/// One node has a new disk, the other one with the manifest is unavailable for a moment. That
/// nobody has the manifest does not say that there is no object: a scrub that thought so removed
/// its shards.
#[test]
pub fn a_new_disk_does_not_testify_that_there_is_no_object() {
    let mut world = World::new("rs:2+1", 5);
    let bytes = data(6_000, 1);
    let put = world.put("x", &bytes).unwrap();
    let holders = holders(&world, &put);
    world.replace_disk(holders[0]);
    world.away.insert(holders[1]);
    assert!(matches!(world.get("x"), Err(PoolError::Uncertain { .. })));
    assert!(matches!(world.remove("x"), Err(PoolError::Uncertain { .. })));
    let report = scrub(&world, &Index::in_memory().unwrap());
    assert_eq!((report.leftovers, report.clean), (0, false), "{report:#?}");
    assert!(status(&world).nodes[holders[0]].backfilling);
    world.away.clear();
    assert!(world.get("x").unwrap() == bytes);
    // Once nothing is lacking the new disk counts as any other.
    repair(&world, &Index::in_memory().unwrap());
    assert!(!status(&world).nodes[holders[0]].backfilling);
    world.away.insert(holders[1]);
    assert!(world.get("x").unwrap() == bytes);
    assert!(matches!(world.get("y"), Err(PoolError::NoObject { .. })));
}

/// Parts of a scrub, however they are cut, see what one scrub sees, and remember it.
#[test]
fn parts_of_a_scrub_find_what_a_whole_one_finds() {
    let world = World::new("rs:2+1", 5);
    for (at, name) in ["a", "b", "b/c", "d", "e"].iter().enumerate() {
        world.put(name, &data(40_000 + at, at as u64)).unwrap();
        if at % 2 == 1 {
            // Of the second and the fourth one a shard is lost.
            let (node, file) = &world.shards(name)[&0];
            world.disks[*node].memory.remove(file).unwrap();
        }
    }
    let whole = scrub(&world, &Index::in_memory().unwrap());
    assert_eq!((whole.objects, whole.damaged, whole.clean), (5, 2, false), "{whole:#?}");
    for objects_a_part in [1, 2, 3, 9] {
        let index = world.index();
        let (mut after, mut sum, mut parts) = (None, ScrubReport::default(), 0);
        let mut queue = RepairQueue::new(Rules::default());
        let req = at_once(9_000);
        loop {
            let seen = std::cell::Cell::new(0);
            let go_on = || {
                seen.set(seen.get() + 1);
                seen.get() < objects_a_part
            };
            let (pool, after_now) = (world.pool(), after.as_deref());
            let part = pool
                .repairer()
                .scrub_part(&index, &mut queue, &req, after_now, &go_on, &settings())
                .unwrap();
            parts += 1;
            assert!(part.1.is_none() || after < part.1, "it goes on behind {after:?}: {part:?}");
            sum.objects += part.0.objects;
            sum.damaged += part.0.damaged;
            sum.findings.extend(part.0.findings);
            after = part.1;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(parts, 5 / objects_a_part + 1, "{objects_a_part}");
        assert_eq!((sum.objects, sum.damaged), (5, 2));
        assert_eq!(sum.findings, whole.findings);
        let key = |name: &str| index.damage_of(&Key::of(name).unwrap()).unwrap();
        assert_eq!((key("b"), key("d"), key("e")), (vec![0], vec![0], vec![]));
    }
}

/// With a silent loss instead nobody can know; but shards are not removed on such a word.
#[test]
pub fn shards_that_nobody_names_stay_while_somebody_is_away() {
    let mut world = World::new("rs:2+1", 5);
    let bytes = data(6_000, 2);
    let put = world.put("x", &bytes).unwrap();
    let holders = holders(&world, &put);
    let manifest = manifest("x");
    kiln_store::Backend::remove(&*world.disks[holders[0]].memory, &manifest).unwrap();
    world.away.insert(holders[1]);
    assert_eq!(scrub(&world, &Index::in_memory().unwrap()).leftovers_removed, 0);
    world.away.clear();
    assert!(world.get("x").unwrap() == bytes);
}

/// A commit that is cut short among its renames leaves the new manifest on one node and the old
/// one on others that both name. An index made then may follow the old one; a scrub corrects it.
#[test]
pub fn a_scrub_corrects_an_index_that_follows_an_old_manifest() {
    let world = World::new("clay:3+2", 6);
    let put = world.put("x", &data(6_000, 3)).unwrap();
    let mut holders = holders(&world, &put);
    holders.sort_unstable();
    let manifest = manifest("x");
    let old = world.disks[holders[0]].memory.bytes(&manifest).unwrap();
    let new = data(9_000, 4);
    world.put("x", &new).unwrap();
    for &holder in &holders[..2] {
        world.disks[holder].memory.put(&manifest, old.clone());
    }
    let index = world.index();
    let size = || index.by_key(&Key::of("x").unwrap()).unwrap().unwrap().size;
    assert_eq!(size(), 6_000, "the index finds it by itself now: drop this test");
    let report = scrub(&world, &index);
    // Looking at it has given the newest manifest to as many homes as must have it.
    assert_eq!((report.damaged, report.under_replicated, size()), (0, 0, 9_000), "{report:#?}");
    repair(&world, &index);
    assert!(scrub(&world, &index).clean && world.get("x").unwrap() == new);
}

/// Two machines repair one pool by descriptions of their own: neither writes into what the other
/// has begun, and what one leaves behind goes when the shard is there (seed 6186).
#[test]
pub fn repairs_by_two_descriptions_have_files_of_their_own() {
    let mut world = World::new("rs:2+1", 4);
    let bytes = data(70_001, 3);
    world.put("o", &bytes).unwrap();
    let manifest = world.pool().manifest("o").unwrap();
    let (node, shard) = world.shards("o")[&1].clone();
    world.disks[node].memory.remove(&shard).unwrap();
    let begun = data(900, 4);
    let part = |by| {
        let (key, run) = (Key::of("o").unwrap(), manifest.run);
        NodeFile::RepairPart { key, run, index: 1, by }.name()
    };
    world.disks[node].memory.put(&part(1), begun.clone());
    let index = Index::in_memory().unwrap();
    world.config.repairer = 2;
    scrub(&world, &index);
    let there = || world.disks[node].memory.bytes(&part(1));
    assert_eq!(there(), Some(begun.clone()), "the other one may go on with it");
    let status = status(&world);
    assert!(status.unfinished.is_empty(), "{status:?}");
    repair(&world, &index);
    assert_eq!(there(), Some(begun));
    assert_eq!(world.get("o").unwrap(), bytes);
    scrub(&world, &index);
    let left = world.files(node);
    assert!(!left.contains(&part(1)) && left.contains(&shard), "{left:?}");
    assert_eq!(world.get("o").unwrap(), bytes);
}
