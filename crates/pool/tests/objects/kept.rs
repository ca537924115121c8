//! Versions that are kept: as durable as the object, whatever becomes of nodes.

use std::collections::BTreeMap;

use kiln_pool::{PoolConfig, Snapshot};
use kiln_store::MemoryBackend;
use kiln_stripe::PoolError;

use crate::hands::{get, with_hands};
use crate::world::*;

/// Overwrites and removals with nodes away and back with what they had, a lost disk, a drain, a
/// node more and a rebalance: once a survey says that all is whole, every version is read after any
/// m further nodes are lost.
#[test]
pub fn any_m_nodes_may_be_lost_for_all_that_is_kept() {
    let mut world = World::new("clay:3+2", 7);
    world.keep(&[("", 99)]);
    let mut ever: BTreeMap<&str, Vec<Vec<u8>>> = BTreeMap::new();
    let names = ["inline", "rs", "clay", "mixed"];
    for round in 0..6u64 {
        // A node that is away keeps manifests of now, and is back two rounds later.
        world.away = [(round / 2) as usize].into();
        for (name, size) in
            names.iter().zip([60, 900, 7_000, [40, 3_000, 6_000][round as usize % 3]])
        {
            let bytes = data(size + round as usize, round);
            world.put(name, &bytes).unwrap();
            ever.entry(name).or_default().insert(0, bytes);
            if round == 3 {
                world.remove(name).unwrap();
                let back = with_hands(&world, |hands| hands.undelete(name)).unwrap();
                assert!(back, "{name}");
            }
        }
    }
    world.away.clear();
    with_hands(&world, |hands| hands.repair(false)).unwrap();
    world.replace_disk(4);
    with_hands(&world, |hands| hands.repair(false)).unwrap();
    world.disks.push(Disk::new(MemoryBackend::new()));
    with_hands(&world, |hands| {
        hands.add_node(7)?;
        hands.drain("n01")?;
        hands.rebalance()?;
        hands.scrub(6_000)?;
        hands.repair(false)?;
        hands.scrub(7_000).map(|report| assert!(report.clean, "{report:?}"))
    })
    .unwrap();
    let there = [0, 2, 3, 4, 5, 6, 7];
    for (at, first) in there.iter().enumerate() {
        for second in &there[at + 1..] {
            world.away = [*first, *second].into();
            with_hands(&world, |hands| {
                for name in names {
                    let versions = &ever[name];
                    let live = get(&hands.pool().unwrap(), name).unwrap();
                    assert_eq!(live.as_ref(), Some(&versions[0]), "{name}, {:?}", world.away);
                    assert!(hands.past(name).unwrap() == versions[1..], "{name}, {:?}", world.away);
                }
            });
        }
    }
}

/// A snapshot by a clock far ahead of that of all writers: what was in force when it was made is
/// kept without any rule, from writers who did not know of it too, until it is removed.
#[test]
pub fn a_snapshot_keeps_what_was_in_force() {
    let mut world = World::new("rs:3+2", 6);
    let bytes = [data(900, 1), data(40, 2), data(800, 3)];
    world.put("a/x", &bytes[0]).unwrap();
    world.put("a/small", &bytes[1]).unwrap();
    world.put("b", &bytes[2]).unwrap();
    let change = |world: &mut World, edit: &dyn Fn(&mut Vec<Snapshot>)| {
        let edit = |next: &mut PoolConfig| {
            edit(&mut next.snapshot);
            Ok(())
        };
        world.config = world.pool().members().change(false, &settings(), edit).unwrap();
    };
    let before = world.pool();
    let one = |name: &str| Snapshot { name: name.into(), prefix: "a/".into(), at_ms: 9_000 };
    change(&mut world, &|all| all.push(one("one")));
    let late = before.remove("a/x", world.run(), 1_000, &settings());
    assert!(matches!(late, Err(PoolError::MapChanged { .. })), "{late:?}");
    let put = world.put("a/x", &data(700, 4)).unwrap();
    assert_eq!(put.created_ms, 9_001);
    ["a/x", "a/small", "b"].iter().for_each(|name| world.remove(name).unwrap());
    let past = |world: &World, name: &str| {
        with_hands(world, |hands| hands.prune().and_then(|()| hands.past(name))).unwrap()
    };
    assert_eq!(past(&world, "a/x"), bytes[..1]);
    assert_eq!(past(&world, "a/small"), bytes[1..2]);
    assert!(past(&world, "b").is_empty());
    // By a snapshot of the time without it the object must be another one when it is back.
    change(&mut world, &|all| all.push(Snapshot { at_ms: 9_500, ..one("two") }));
    assert!(!with_hands(&world, |hands| hands.undelete("a/small")).unwrap());
    change(&mut world, &|all| all.truncate(1));
    assert!(with_hands(&world, |hands| hands.undelete("a/small")).unwrap());
    assert_eq!(world.get("a/small").unwrap(), bytes[1]);
    world.remove("a/small").unwrap();
    assert_eq!(past(&world, "a/small"), bytes[1..2]);
    change(&mut world, &|all| all.clear());
    assert!(past(&world, "a/x").is_empty() && past(&world, "a/small").is_empty());
}
