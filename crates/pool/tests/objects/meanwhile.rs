//! Objects that others remove and replace while somebody looks at the pool: what went away in
//! between is no loss.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{sync::Arc, time::Duration};

use kiln_pool::{Index, Key, NodeConfig, NodeFile, Pool, PutRequest, ScrubRequest};
use kiln_store::Backend;
use kiln_stripe::{PoolError, Settings, StreamSource};

use crate::recover::recover;
use crate::world::*;

/// Objects that change, of which each lacks a shard before.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Act of another client.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Remove,
    Replace,
    Recode,
}

/// Somebody who acts after so many looks at the disks.
struct Other {
    world: Arc<World>,
    act: Act,
    /// Looks until then.
    left: AtomicU64,
    /// On which objects that was done.
    acted: [AtomicBool; NAMES.len()],
}

impl Other {
    /// Tells them that a disk is looked at.
    fn look(&self) {
        let less = |left: u64| left.checked_sub(1);
        if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) == Ok(1) {
            self.now();
        }
    }

    /// Acts on every object that nobody has locked.
    fn now(&self) {
        let pool = self.world.pool();
        let no_wait = Settings { lock_wait: Duration::ZERO, ..settings() };
        for (at, name) in NAMES.iter().enumerate() {
            let run = self.world.run();
            let done = match self.act {
                Act::Remove => pool.remove(name, run, 2_000, &no_wait),
                Act::Replace => {
                    let req = PutRequest { name, run, now_ms: 2_000, replace: true };
                    let bytes = data(7_000, 50 + at as u64);
                    pool.put(&req, &mut StreamSource::new(&bytes[..]), &no_wait).map(drop)
                }
                Act::Recode => {
                    self.world.recode(&pool, &self.world.index(), name, "rs:4+2").map(drop)
                }
            };
            self.acted[at].store(done.is_ok(), Ordering::SeqCst);
        }
    }

    fn has_acted_on(&self, at: usize) -> bool {
        self.acted[at].load(Ordering::SeqCst)
    }

    /// The pool as it is seen while they are there.
    fn watched_pool(self: &Arc<Self>) -> Pool {
        let open = |node: &NodeConfig| {
            let (inner, other) = (self.world.open_node(node)?, Arc::clone(self));
            Ok(watched(inner, Arc::new(move || other.look())))
        };
        Pool::open(self.world.newest(), &open).unwrap()
    }
}

/// Removes the shards of an object that have these numbers.
fn lose(world: &World, name: &str, lost: std::ops::Range<u16>) {
    for (_, (node, file)) in world.shards(name).into_iter().filter(|(at, _)| lost.contains(at)) {
        world.disks[node].memory.remove(&file).unwrap();
    }
}

/// A pool of which an object is lost indeed, one lacks a shard, and those that will change do too.
fn world() -> World {
    let world = World::of_class("rs:3+2", 2048, 7);
    for (at, name) in NAMES.iter().chain(&["damaged", "lost", "whole"]).enumerate() {
        world.put(name, &data(9_000, at as u64)).unwrap();
    }
    lose(&world, "lost", 1..4);
    for name in NAMES.iter().chain(&["damaged"]) {
        lose(&world, name, 2..3);
    }
    world
}

/// Does something at which others come between, after each number of looks.
fn whenever(mut of: impl FnMut(&str, &Pool, &Index)) {
    let (first, mut at, mut acted) = (world(), 0, 0);
    loop {
        at += 1;
        let act = [Act::Remove, Act::Replace, Act::Recode][at as usize % 3];
        let world = Arc::new(first.copy());
        let index = world.index();
        let other = Arc::new(Other { world, act, left: 0.into(), acted: Default::default() });
        let watched = other.watched_pool();
        other.left.store(at, Ordering::SeqCst);
        of(&format!("{act:?} at {at}"), &watched, &index);
        if other.left.load(Ordering::SeqCst) > 0 {
            break;
        }
        acted += u64::from((0..NAMES.len()).any(|at| other.has_acted_on(at)));
        // Whatever was seen, what was written is there.
        for (at, name) in NAMES.iter().enumerate() {
            let expected = match (act, other.has_acted_on(at)) {
                (_, false) | (Act::Recode, _) => Some(data(9_000, at as u64)),
                (Act::Replace, true) => Some(data(7_000, 50 + at as u64)),
                (Act::Remove, true) => None,
            };
            match (expected, other.world.get(name)) {
                (Some(expected), Ok(found)) => assert!(found == expected, "{name}"),
                (None, Err(PoolError::NoObject { .. })) => {}
                (_, other) => panic!("{name}: {other:?}"),
            }
        }
    }
    assert!(acted > 10, "{acted} of {at}");
}

#[test]
fn a_survey_does_not_take_it_for_a_loss() {
    whenever(|when, pool, index| {
        let status = survey(pool, index);
        assert_eq!(status.unreadable, 1, "{when}: {status:#?}");
        let endangered: u64 = status.endangered.values().sum();
        assert!((1..=4).contains(&endangered), "{when}: {status:#?}");
        assert_eq!(status.whole + status.unreadable + endangered, status.objects);
    });
}

#[test]
fn a_repair_does_not_take_it_for_a_loss() {
    whenever(|when, pool, index| {
        let report = recover(pool, index, (3_000, false), &settings()).unwrap();
        assert_eq!(report.unreadable, 1, "{when}: {report:#?}");
        assert_eq!(report.failed_count, 0, "{when}: {report:#?}");
    });
}

#[test]
fn a_scrub_does_not_take_it_for_a_loss() {
    whenever(|when, pool, index| {
        let req = ScrubRequest { now_ms: 3_000, ..ScrubRequest::default() };
        let report = scrub(pool, index, &req).unwrap();
        assert_eq!(report.unreadable, 1, "{when}: {report:#?}");
        let found = |name| report.findings.iter().filter(|it| it.object == name).count();
        assert_eq!(found("damaged"), 1, "{when}: {report:#?}");
    });
}

/// A put, a removal, and another recode win.
#[test]
fn a_recode_takes_no_place_but_that_of_what_it_read() {
    whenever(|when, pool, index| {
        let other = World::new("rs:3+2", 7);
        let report = other.recode(pool, index, "", "clay:3+2").unwrap();
        assert_eq!(report.failed_count, 1, "{when}: {report:#?}");
        assert_eq!(report.recoded + report.changed, 5, "{when}: {report:#?}");
    });
}

/// The log of changes may start anew, or be lost with a crash: then nothing says that an object
/// changed but the object itself.
#[test]
fn without_logs_what_is_gone_is_no_loss_either() {
    let world = world();
    let index = world.index();
    for name in NAMES {
        world.remove(name).unwrap();
    }
    for disk in &world.disks {
        disk.memory.put(kiln_stripe::names::CHANGES, Vec::new());
    }
    let status = survey(&world.pool(), &index);
    assert_eq!((status.objects, status.unreadable, status.whole), (3, 1, 1), "{status:#?}");
}

#[test]
fn what_is_put_since_the_index_was_made_is_nobody_elses() {
    let world = World::new("rs:3+2", 7);
    for (at, name) in NAMES.iter().enumerate() {
        world.put(name, &data(9_000, at as u64)).unwrap();
    }
    let index = world.index();
    for (at, name) in ["a", "d", "e"].iter().enumerate() {
        world.put(name, &data(8_000, 10 + at as u64)).unwrap();
    }
    let status = survey(&world.pool(), &index);
    assert_eq!((status.unclaimed, status.whole, status.objects), (0, 3, 3), "{status:#?}");
    // What belongs to nobody is still told of.
    let (node, file) = world.shards("a")[&0].clone();
    let stray = NodeFile::Shard { key: Key::of("a").unwrap(), run: [9; 16], index: 0 }.name();
    let bytes = world.disks[node].memory.bytes(&file).unwrap();
    world.disks[node].memory.put(&stray, bytes);
    assert_eq!(survey(&world.pool(), &index).unclaimed, 1);
}
