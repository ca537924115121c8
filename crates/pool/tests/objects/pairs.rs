//! Every pair of what is done about nodes: when there is nothing to repair after it, any m further
//! losses are survived.

use std::collections::BTreeSet;

use kiln_pool::Pool;
use kiln_store::MemoryBackend;
use kiln_stripe::Result;

use crate::hands::{Hands, get, with_hands};
use crate::world::*;

/// Something that is done about a node, by its number.
struct Action {
    name: &'static str,
    /// Fate of the node before; none: it is well.
    happens: fn(&mut World, usize),
    act: fn(&Hands<'_>, usize) -> Result<()>,
}

fn id(at: usize) -> String {
    format!("n{at:02}")
}

fn goes_away(world: &mut World, at: usize) {
    world.away.insert(at);
}

const ACTIONS: [Action; 7] = [
    Action {
        name: "repair --away",
        happens: goes_away,
        act: |hands, _| hands.repair(true).map(drop),
    },
    Action { name: "coordinator", happens: goes_away, act: |hands, _| hands.coordinate() },
    Action { name: "forget", happens: goes_away, act: |hands, at| hands.forget(&id(at)) },
    Action { name: "drain", happens: |_, _| (), act: |hands, at| hands.drain(&id(at)) },
    Action {
        name: "replace",
        happens: |world, at| world.disks[at] = Disk::new(MemoryBackend::new()),
        act: |hands, at| hands.replace(&id(at)),
    },
    Action {
        name: "add-node",
        happens: |world, _| world.disks.push(Disk::new(MemoryBackend::new())),
        act: |hands, _| hands.add_node(hands.world.disks.len() - 1),
    },
    Action { name: "rebalance", happens: |_, _| (), act: |hands, _| hands.rebalance() },
];

/// All sets of so many of these.
pub fn subsets(of: &[usize], count: usize) -> Vec<BTreeSet<usize>> {
    match count {
        0 => vec![BTreeSet::new()],
        _ => (0..of.len())
            .flat_map(|first| {
                let rest = subsets(&of[first + 1..], count - 1);
                rest.into_iter().map(move |mut set| {
                    set.insert(of[first]);
                    set
                })
            })
            .collect(),
    }
}

fn any_further_losses_are_survived(code: &str, nodes: usize, first: &Action, then: &Action) {
    let what = format!("{code}: {} and {}", first.name, then.name);
    let mut world = World::new(code, nodes);
    let m = world.config.policy.manifest_copies - 1;
    let object = |at: usize| (format!("o{at}"), data([40, 3_000, 900][at % 3], at as u64));
    let objects: Vec<_> = (0..3).map(object).collect();
    objects.iter().for_each(|(name, bytes)| drop(world.put(name, bytes).unwrap()));
    world.put("gone", &data(800, 9)).unwrap();
    world.remove("gone").unwrap();
    for (action, node) in [(first, 1), (then, 3)] {
        (action.happens)(&mut world, node);
        let done = with_hands(&world, |hands| (action.act)(hands, node));
        done.unwrap_or_else(|error| panic!("{what}: {}: {error}", action.name));
    }
    let report = with_hands(&world, |hands| hands.repair(true)).unwrap();
    assert_eq!((report.damaged, report.waiting), (0, 0), "{what}: {report:#?}");
    let pool = world.pool();
    assert!(pool.config().is_settled(), "{what}: {:?}", pool.config().past);
    let there: Vec<usize> = (pool.config().node.iter())
        .map(|node| node.url.trim_start_matches("memory://").parse().unwrap())
        .filter(|at| !world.away.contains(at))
        .collect();
    let (away, map) = (world.away.clone(), pool.config().clone());
    for lost in subsets(&there, m) {
        world.away = &away | &lost;
        let pool = Pool::open(map.clone(), &|node| world.open_node(node)).unwrap();
        for (name, bytes) in &objects {
            let read = get(&pool, name);
            let read = read.unwrap_or_else(|error| panic!("{what}, {lost:?} lost: {error}"));
            assert!(read.as_ref() == Some(bytes), "{what}, {lost:?} lost: {name}");
        }
        assert_eq!(get(&pool, "gone").unwrap(), None, "{what}, {lost:?} lost");
    }
}

#[test]
pub fn after_every_pair_of_actions_m_further_losses_are_survived() {
    for (code, nodes) in [("rs:2+1", 6), ("rs:3+2", 8)] {
        for first in &ACTIONS {
            for then in &ACTIONS {
                any_further_losses_are_survived(code, nodes, first, then);
            }
        }
    }
}
