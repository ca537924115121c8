//! Power cuts at every moment of a put, an overwrite, a removal and a repair: afterwards an object
//! is the old one or the new one, and a scrub with a repair makes the pool whole.

use std::ops::Range;
use std::sync::Arc;

use kiln_pool::{Index, Pool, RepairRequest};
use kiln_store::{Backend, StoreError};
use kiln_stripe::{PoolError, Silent, Source};

use crate::fuse::{Failing, Fuse, fused};
use crate::recover::recover;
use crate::world::*;

/// Does something with the power on for so many operations; returns how many were left.
fn with_power(world: &World, operations: i64, body: impl FnOnce(&Pool)) -> i64 {
    // Opening is not what is to be tried: it has power enough.
    let fuse = Fuse::new(Failing::PowerCut, i64::MAX);
    let open = |node: &kiln_pool::NodeConfig| -> Result<Arc<dyn Backend>, StoreError> {
        let disk = world.config.position(&node.id).unwrap();
        Ok(fused(world, disk, world.open_node(node)?, &fuse))
    };
    let pool = Pool::open(world.config.clone(), &open).unwrap();
    fuse.burn(operations);
    body(&pool);
    fuse.left()
}

/// The disks after power came back.
fn reboot(world: &mut World, seed: u64) {
    for (at, disk) in world.disks.iter_mut().enumerate() {
        *disk = Disk::new(disk.memory.crash(seed.wrapping_mul(31).wrapping_add(at as u64)));
    }
}

/// Scrub and repair: then everything is as it should be.
fn tidy(world: &World, what: &str) {
    let index = Index::in_memory().unwrap();
    let scrub = || {
        world.refresh(&index);
        world.scrub(&index, &at_once(9_000))
    };
    let first = scrub();
    assert_eq!(first.unreadable, 0, "{what}: {first:#?}");
    world.refresh(&index);
    let report = recover(&world.pool(), &index, (9_500, false), &settings()).unwrap();
    assert_eq!(report.failed_count, 0, "{what}: {report:#?}");
    let last = scrub();
    assert!(last.clean && last.leftovers == 0, "{what}: {last:#?}");
}

/// Moments to cut the power at: all near the ends, a sample between.
fn moments(all: i64) -> Vec<i64> {
    let edges: [Range<i64>; 2] = [0..10.min(all), (all - 90).max(0)..all];
    let mut moments: Vec<i64> = edges.into_iter().flatten().collect();
    moments.extend((0..all).step_by((all / 12).max(1) as usize));
    moments.sort_unstable();
    moments.dedup();
    moments
}

/// One kind of operation, cut at every moment. `expected` are the contents that may be there
/// afterwards (`None`: no object).
fn cut_everywhere(
    prepare: impl Fn(&mut World),
    act: impl Fn(&World, &Pool),
    expected: &[Option<Vec<u8>>],
) {
    let fresh = || {
        let mut world = World::new("clay:3+2", 6);
        prepare(&mut world);
        world
    };
    let world = fresh();
    let all = 1_000_000 - with_power(&world, 1_000_000, |pool| act(&world, pool));
    assert!((20..5_000).contains(&all), "{all} operations");
    for (seed, moment) in moments(all).into_iter().enumerate() {
        let mut world = fresh();
        with_power(&world, moment, |pool| act(&world, pool));
        reboot(&mut world, seed as u64);
        let read = |world: &World| match world.get("x") {
            Ok(bytes) => Some(bytes),
            Err(PoolError::NoObject { .. }) => None,
            Err(error) => panic!("cut at {moment} of {all}: {error}"),
        };
        let after = read(&world);
        assert!(expected.contains(&after), "cut at {moment} of {all}: something else");
        tidy(&world, &format!("cut at {moment} of {all}"));
        assert!(read(&world) == after, "cut at {moment} of {all}: changed by tidying up");
        world.put("x", b"and on we go").unwrap();
        assert_eq!(world.get("x").unwrap(), b"and on we go");
    }
}

#[test]
pub fn a_put_is_whole_or_nothing() {
    let bytes = data(6_000, 1);
    cut_everywhere(
        |_| (),
        |world, pool| {
            let run = world.run();
            let req = kiln_pool::PutRequest { name: "x", run, now_ms: 1_000, replace: true };
            let source = &mut kiln_stripe::StreamSource::new(&bytes[..]);
            let _ = pool.put(&req, source, &settings());
        },
        &[None, Some(bytes.clone())],
    );
}

#[test]
pub fn an_overwrite_is_the_old_or_the_new() {
    let (old, new) = (data(7_000, 2), data(5_500, 3));
    cut_everywhere(
        |world| drop(world.put("x", &old).unwrap()),
        |world, pool| {
            let run = world.run();
            let req = kiln_pool::PutRequest { name: "x", run, now_ms: 1_000, replace: true };
            let source = &mut kiln_stripe::StreamSource::new(&new[..]);
            let _ = pool.put(&req, source, &settings());
        },
        &[Some(old.clone()), Some(new.clone())],
    );
}

#[test]
pub fn a_removal_is_done_or_not() {
    let old = data(6_500, 4);
    cut_everywhere(
        |world| drop(world.put("x", &old).unwrap()),
        |world, pool| drop(pool.remove("x", world.run(), 1_000, &settings())),
        &[Some(old.clone()), None],
    );
}

#[test]
pub fn a_repair_never_makes_it_worse() {
    let old = data(6_500, 5);
    cut_everywhere(
        |world| {
            let put = world.put("x", &old).unwrap();
            let lost = world.config.position(&put.nodes[1]).unwrap();
            world.replace_disk(lost);
        },
        |_, pool| {
            let _ = pool.repairer().repair(
                "x",
                &RepairRequest { now_ms: 1_000, ..RepairRequest::default() },
                &settings(),
            );
        },
        &[Some(old.clone())],
    );
}

#[test]
pub fn a_recode_leaves_the_old_or_the_new() {
    let old = data(6_500, 6);
    cut_everywhere(
        |world| drop(world.put("x", &old).unwrap()),
        |world, pool| {
            let index = Index::in_memory().unwrap();
            let _ = index.refresh(pool, b"", &Silent);
            let _ = world.recode(pool, &index, "x", "rs:4+2");
        },
        &[Some(old.clone())],
    );
}

/// Contents after a batch that was cut: the name, before and after.
type BeforeAfter<'a> = (&'a str, Option<Vec<u8>>, Vec<u8>);

fn put_together(world: &World, pool: &Pool, puts: &[BeforeAfter<'_>]) -> Vec<bool> {
    let mut sources: Vec<_> =
        puts.iter().map(|(_, _, bytes)| kiln_stripe::StreamSource::new(&bytes[..])).collect();
    let put = |name| {
        let run = world.run();
        kiln_pool::PutRequest { name, run, now_ms: 1_000, replace: true }
    };
    let puts = puts.iter().zip(&mut sources);
    let puts = puts.map(|((name, ..), source)| (put(*name), source as &mut dyn Source)).collect();
    let ends = pool.put_all(puts, &settings());
    ends.map_or(Vec::new(), |ends| ends.into_iter().map(|end| end.is_ok()).collect())
}

#[test]
pub fn of_objects_put_together_each_is_the_old_or_the_new_and_what_was_acknowledged_stays() {
    // In manifests and in shards, new and in place of older ones of either kind.
    let puts: [BeforeAfter<'_>; 5] = [
        ("a", None, data(60, 1)),
        ("b", Some(data(50, 2)), data(70, 3)),
        ("c", None, data(6_000, 4)),
        ("d", Some(data(7_000, 5)), data(80, 6)),
        ("e", Some(data(90, 7)), data(5_500, 8)),
    ];
    let fresh = || {
        let world = World::new("clay:3+2", 6);
        for (name, before, _) in &puts {
            before.iter().for_each(|bytes| drop(world.put(name, bytes).unwrap()));
        }
        world
    };
    let world = fresh();
    let all = 1_000_000
        - with_power(&world, 1_000_000, |pool| {
            assert_eq!(put_together(&world, pool, &puts), [true; 5]);
        });
    assert!((100..5_000).contains(&all), "{all} operations");
    let mut halfway = 0;
    for (seed, moment) in moments(all).into_iter().enumerate() {
        let mut world = fresh();
        let mut acknowledged = Vec::new();
        with_power(&world, moment, |pool| acknowledged = put_together(&world, pool, &puts));
        reboot(&mut world, seed as u64);
        let read = |world: &World, name: &str| match world.get(name) {
            Ok(bytes) => Some(bytes),
            Err(PoolError::NoObject { .. }) => None,
            Err(error) => panic!("{name}, cut at {moment} of {all}: {error}"),
        };
        let mut found = Vec::new();
        for (at, (name, before, after)) in puts.iter().enumerate() {
            let now = read(&world, name);
            let new = now.as_ref() == Some(after);
            assert!(new || now == *before, "{name}, cut at {moment} of {all}: something else");
            let done = acknowledged.get(at).is_some_and(|done| *done);
            assert!(new || !done, "{name}, cut at {moment} of {all}: acknowledged and lost");
            halfway += u32::from(new && !done);
            found.push(now);
        }
        tidy(&world, &format!("cut at {moment} of {all}"));
        for ((name, ..), found) in puts.iter().zip(found) {
            assert!(read(&world, name) == found, "{name}, cut at {moment}: changed by tidying up");
        }
    }
    assert!(halfway > 0, "never between the first name and the last");
}
