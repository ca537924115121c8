//! Versions that are kept: as durable as the object, whatever becomes of nodes.

use std::collections::BTreeMap;

use kiln_store::MemoryBackend;

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
