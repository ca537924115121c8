//! The fault sweep: a kill, a failure and a full disk at every file operation of everything that
//! changes a pool. Afterwards an object is the old one or the new one, what was acknowledged is the
//! new one, doing it again completes it, and a scrub with a repair makes the pool whole, also where
//! it is not done again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use kiln_store::{Backend, MemoryBackend};
use kiln_stripe::{PoolError, Result};
use kiln_testkit::{Failing, Fuse};

use crate::hands::{Hands, get, through, with_hands};
use crate::sealed::keys;
use crate::world::*;

/// Failures that leave the objects whole, whatever moment they strike at.
const ALL: [Failing; 3] = [Failing::Kill, Failing::Error, Failing::Full];

/// Puts a fuse to a disk of a world, which is reached through `inner`.
fn fused(
    world: &World,
    disk: usize,
    inner: Arc<dyn Backend>,
    fuse: &Arc<Fuse>,
) -> Arc<dyn Backend> {
    let memory = MemoryBackend::clone(&world.disks[disk].memory);
    fuse.wrap_together(&format!("disk {disk}"), inner, memory)
}

/// Something that changes a pool.
struct Row {
    name: &'static str,
    prepare: fn(&mut World),
    act: fn(&Hands<'_>) -> Result<()>,
    /// Object `x`, before and after.
    x: [Option<u64>; 2],
}

impl Row {
    /// Returns whether it is about data alone: then nothing has to be done again before the pool is
    /// made whole.
    fn is_of_data(&self) -> bool {
        self.x[0] != self.x[1] || matches!(self.name, "repair" | "recode")
    }
}

const OLD: Option<u64> = Some(1);
const NEW: Option<u64> = Some(2);

/// Contents of `x` by its number.
fn bytes_of(x: Option<u64>) -> Option<Vec<u8>> {
    x.map(|seed| data(if seed == 1 { 900 } else { 700 }, seed))
}

/// The node that something is done about; it has a shard of `x`.
const NODE: &str = "n03";

fn lose_node(world: &mut World) {
    world.away.insert(world.config.position(NODE).unwrap());
}

fn lose_disk(world: &mut World) {
    let at = world.config.position(NODE).unwrap();
    world.disks[at] = Disk::new(MemoryBackend::new());
}

fn new_place(world: &mut World) {
    world.disks.push(Disk::new(MemoryBackend::new()));
}

const NEXT: usize = 6;

/// All that changes a pool; what is new becomes a row.
const ROWS: &[Row] = &[
    Row {
        name: "put",
        prepare: |_| (),
        act: |hands| hands.put("x", &bytes_of(NEW).unwrap()),
        x: [None, NEW],
    },
    Row {
        name: "overwrite",
        prepare: |_| (),
        act: |hands| hands.put("x", &bytes_of(NEW).unwrap()),
        x: [OLD, NEW],
    },
    Row {
        name: "overwrite by a small one",
        prepare: |_| (),
        act: |hands| hands.put("x", &data(30, 3)),
        x: [OLD, Some(3)],
    },
    Row {
        name: "put together",
        prepare: |_| (),
        act: |hands| together(hands, bytes_of(NEW).unwrap()),
        x: [None, NEW],
    },
    Row {
        name: "overwrite together by a small one",
        prepare: |_| (),
        act: |hands| together(hands, data(30, 3)),
        x: [OLD, Some(3)],
    },
    Row { name: "rm", prepare: |_| (), act: |hands| hands.remove("x"), x: [OLD, None] },
    Row {
        name: "repair",
        prepare: |world| {
            let at = world.config.position(NODE).unwrap();
            world.replace_disk(at);
        },
        act: |hands| hands.repair(false).map(drop),
        x: [OLD, OLD],
    },
    Row {
        name: "repair --away",
        prepare: lose_node,
        act: |hands| hands.repair(true).map(drop),
        x: [OLD, OLD],
    },
    Row { name: "drain", prepare: |_| (), act: |hands| hands.drain(NODE), x: [OLD, OLD] },
    Row { name: "forget", prepare: lose_node, act: |hands| hands.forget(NODE), x: [OLD, OLD] },
    Row { name: "add-node", prepare: new_place, act: |hands| hands.add_node(NEXT), x: [OLD, OLD] },
    Row { name: "replace", prepare: lose_disk, act: |hands| hands.replace(NODE), x: [OLD, OLD] },
    Row {
        name: "rebalance",
        prepare: |world| {
            new_place(world);
            with_hands(world, |hands| hands.add_node(NEXT)).unwrap();
        },
        act: |hands| hands.rebalance(),
        x: [OLD, OLD],
    },
    Row {
        name: "recode",
        prepare: |_| (),
        act: |hands| hands.recode("x", "clay:3+2"),
        x: [OLD, OLD],
    },
    Row {
        name: "back in",
        prepare: |world| {
            lose_node(world);
            with_hands(world, |hands| hands.repair(true)).unwrap();
            world.away.clear();
        },
        act: |hands| hands.repair(false).map(drop),
        x: [OLD, OLD],
    },
    Row {
        name: "scrub",
        // A tombstone is forgotten, and a shard goes into quarantine and out of it.
        prepare: |world| {
            let stray = world.files(0).into_iter().find(|name| name.ends_with(".kiln"));
            let bytes = stray.map(|name| (world.disks[0].memory.bytes(&name).unwrap(), name));
            if let Some((bytes, name)) = bytes {
                let at = (1..NEXT).find(|at| !world.files(*at).contains(&name)).unwrap();
                world.disks[at].memory.put(&name, bytes);
            }
        },
        act: |hands| hands.scrub(6_000).map(drop),
        x: [OLD, OLD],
    },
];

/// Changes of a pool that keeps versions, beside all others.
const KEEPING_ROWS: &[Row] = &[
    Row {
        name: "prune",
        prepare: |world| {
            world.keep(&[("", 9)]);
            [400, 30, 500].iter().for_each(|size| drop(world.put("old", &data(*size, 5)).unwrap()));
            world.keep(&[("past", 9), ("x", 9), ("old", 1)]);
        },
        act: |hands| hands.prune(),
        x: [OLD, OLD],
    },
    Row {
        name: "undelete",
        prepare: |world| {
            world.put("x", &bytes_of(OLD).unwrap()).unwrap();
            world.remove("x").unwrap();
        },
        act: |hands| hands.undelete("x").map(drop),
        x: [None, OLD],
    },
];

/// Changes of encrypted pools, beside all others.
const ENCRYPTED_ROWS: &[Row] = &[Row {
    name: "rekey",
    prepare: |world| world.config.data_keys = keys(&[10, 9]),
    act: |hands| hands.rekey(),
    x: [OLD, OLD],
}];

/// Contents of versions that are kept of an object that was removed, the newest first.
fn past() -> Vec<Vec<u8>> {
    vec![data(40, 22), data(600, 21)]
}

/// Objects that nothing is done with.
fn others() -> [(&'static str, Vec<u8>); 2] {
    [("small", data(40, 7)), ("large", data(640, 8))]
}

/// Objects that are there after they were put together with `x`.
fn fellows() -> [(&'static str, Vec<u8>); 2] {
    [("new and small", data(45, 11)), ("new and large", data(720, 12))]
}

/// Puts `x` together with new objects, and with those that are there, as they are.
fn together(hands: &Hands<'_>, x: Vec<u8>) -> Result<()> {
    let all = [("x", x)].into_iter().chain(fellows()).chain(others());
    hands.put_all(&all.collect::<Vec<_>>())
}

fn fresh(row: &Row, keeping: bool) -> World {
    let mut world = World::new("rs:3+2", NEXT);
    if keeping {
        world.keep(&[("past", 9), ("x", 9)]);
        past().iter().rev().for_each(|bytes| drop(world.put("past", bytes).unwrap()));
        world.remove("past").unwrap();
    }
    others().iter().for_each(|(name, bytes)| drop(world.put(name, bytes).unwrap()));
    world.put("gone", &data(50, 9)).unwrap();
    world.remove("gone").unwrap();
    if let Some(bytes) = bytes_of(row.x[0]) {
        world.put("x", &bytes).unwrap();
    }
    (row.prepare)(&mut world);
    world
}

/// The contents that `x` may have after a row: by number, or a small one of its own.
fn is(found: Option<&[u8]>, x: Option<u64>) -> bool {
    let expected = if x == Some(3) { Some(data(30, 3)) } else { bytes_of(x) };
    found == expected.as_deref()
}

/// Nothing but `x` may have changed, and `x` must be one of these; what was put together with it is
/// whole or not there. Where versions are kept, what `x` was before a row is there for ever.
fn check(
    hands: &Hands<'_>,
    when: &str,
    before: Option<u64>,
    allowed: &[Option<u64>],
) -> Result<(), String> {
    let pool = hands.pool().map_err(|error| format!("{when}: {error}"))?;
    let read = |name: &str| get(&pool, name).map_err(|error| format!("{when}: {name}: {error}"));
    for (name, bytes) in others() {
        if read(name)? != Some(bytes) {
            return Err(format!("{when}: {name} is another one"));
        }
    }
    for (name, bytes) in fellows() {
        if read(name)?.is_some_and(|found| found != bytes) {
            return Err(format!("{when}: {name} is another one"));
        }
    }
    if read("gone")?.is_some() {
        return Err(format!("{when}: what was removed is back"));
    }
    let x = read("x")?;
    if pool.config().has_versions() {
        let kept = |name| hands.past(name).map_err(|error| format!("{when}: {name}: {error}"));
        if kept("past")? != past() {
            return Err(format!("{when}: versions are missing"));
        }
        let (old, replaced) = (bytes_of(OLD), before == OLD && !is(x.as_deref(), OLD));
        if replaced && !kept("x")?.iter().any(|kept| Some(kept) == old.as_ref()) {
            return Err(format!("{when}: the version that was replaced is not kept"));
        }
    }
    match allowed.iter().any(|allowed| is(x.as_deref(), *allowed)) {
        true => Ok(()),
        false => Err(format!("{when}: x has {:?} bytes", x.map(|bytes| bytes.len()))),
    }
}

/// Returns what the disks have after the power went.
fn reboot(world: &mut World, seed: u64) {
    for (at, disk) in world.disks.iter_mut().enumerate() {
        *disk = Disk::new(disk.memory.crash(seed.wrapping_mul(31).wrapping_add(at as u64)));
    }
}

/// Makes a pool whole.
fn make_whole(hands: &Hands<'_>) -> Result<(), String> {
    let fail = |error: PoolError| format!("made whole: {error}");
    hands.scrub(9_000).map_err(fail)?;
    hands.repair(false).map_err(fail)?;
    let last = hands.scrub(9_500).map_err(fail)?;
    let settled = hands.pool().map_err(fail)?.config().is_settled();
    match last.clean && last.leftovers == 0 && settled {
        true => Ok(()),
        false => Err(format!("not whole, settled {settled}: {last:?}")),
    }
}

/// Contents of `x`, and of what is put together with it.
fn contents(hands: &Hands<'_>) -> Result<Vec<Option<Vec<u8>>>, String> {
    let pool = hands.pool().map_err(|error| error.to_string())?;
    let names = ["x", fellows()[0].0, fellows()[1].0].into_iter();
    names.map(|name| get(&pool, name).map_err(|error| format!("{name}: {error}"))).collect()
}

/// Plays one moment of one row; `Err` says what is wrong.
fn trial(row: &Row, start: &World, failing: Failing, moment: i64) -> Result<(), String> {
    let mut world = start.copy();
    let fuse = Fuse::new(failing, moment);
    let wrap = |disk, inner| fused(&world, disk, inner, &fuse);
    let (end, acknowledged) =
        through(&world, wrap, |hands| ((row.act)(hands), hands.acknowledged.take()));
    if failing == Failing::Kill {
        reboot(&mut world, moment as u64);
    }
    let is_new = end.is_ok() || acknowledged.contains("x");
    let allowed = if is_new { &row.x[1..] } else { &row.x };
    let found = with_hands(&world, |hands| {
        check(hands, "after", row.x[0], allowed)?;
        contents(hands)
    })?;
    for ((name, _), found) in fellows().iter().zip(&found[1..]) {
        if found.is_none() && acknowledged.contains(*name) {
            return Err(format!("{name} was acknowledged and is lost"));
        }
    }
    // A reboot takes the folder away in which a server of buckets has what was begun, the record of
    // the put among it: a scrub may make the object of its shards then.
    let kept = !matches!(DISKS.get(), Disks::Served);
    if failing == Failing::Kill && row.is_of_data() && kept {
        with_hands(&world.copy(), |hands| {
            make_whole(hands)?;
            match contents(hands)? == found {
                true => Ok(()),
                false => Err("changed by making it whole".to_owned()),
            }
        })?;
    }
    with_hands(&world, |hands| {
        (row.act)(hands).map_err(|error| format!("done again: {error}"))?;
        check(hands, "done again", row.x[0], &row.x[1..])
    })?;
    world.away.clear();
    with_hands(&world, |hands| {
        make_whole(hands)?;
        check(hands, "made whole", row.x[0], &row.x[1..])
    })
}

/// Returns how many operations a row has that change something.
fn moments(row: &Row, start: &World) -> i64 {
    let world = start.copy();
    let all = 1_000_000;
    let fuse = Fuse::new(Failing::Kill, all);
    let wrap = |disk, inner| fused(&world, disk, inner, &fuse);
    let end = through(&world, wrap, |hands| (row.act)(hands));
    end.unwrap_or_else(|error| panic!("{}: {error}", row.name));
    all - fuse.left()
}

#[test]
pub fn a_fault_at_every_operation() {
    sweep(ROWS, false);
}

/// The same in a pool that keeps versions: none is ever lost.
#[test]
pub fn a_fault_where_versions_are_kept() {
    sweep(ROWS, true);
    sweep(KEEPING_ROWS, true);
}

#[test]
fn a_fault_where_data_is_encrypted() {
    DISKS.set(Disks::Encrypted);
    sweep(ENCRYPTED_ROWS, true);
    DISKS.set(Disks::Files);
}

fn sweep(rows: &'static [Row], keeping: bool) {
    let disks = DISKS.get();
    let mut trials = Vec::new();
    let starts: Vec<World> = rows.iter().map(|row| fresh(row, keeping)).collect();
    for (row, start) in rows.iter().zip(&starts) {
        let all = moments(row, start);
        assert!((5..2_000).contains(&all), "{}: {all} operations", row.name);
        // In pools that keep versions kinds of faults take turns: all of them are tried without.
        let turns = move |kind: usize, at: &i64| !keeping || *at as usize % ALL.len() == kind;
        let each = ALL.iter().enumerate().flat_map(|(kind, failing)| {
            (0..all).filter(move |at| turns(kind, at)).map(move |at| (*failing, at))
        });
        trials.extend(each.map(|(failing, at)| (row, start, failing, at)));
    }
    let (next, wrong) = (AtomicUsize::new(0), std::sync::Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                DISKS.set(disks);
                while let Some((row, start, failing, at)) =
                    trials.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let end = catch_unwind(AssertUnwindSafe(|| trial(row, start, *failing, *at)));
                    if let Err(why) = end.unwrap_or_else(|_| Err("a panic".into())) {
                        let why = format!("{} {failing:?} at {at}: {why}", row.name);
                        wrong.lock().unwrap().push(why);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    // A line of its own, whatever the harness has written before.
    println!("\n{{\"faults_tried\": {}, \"faults_wrong\": {}}}", trials.len(), wrong.len());
    assert!(wrong.is_empty(), "{} faults:\n{}", wrong.len(), wrong.join("\n"));
}
