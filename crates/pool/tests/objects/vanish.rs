//! "Whole" means that any m nodes may vanish: random histories of small pools, and whenever a
//! status says that all is whole, every set of m nodes is taken away and everything is read.

use std::collections::{BTreeMap, BTreeSet};

use kiln_pool::{Index, NodeState, Pool};
use kiln_store::MemoryBackend;
use kiln_stripe::{Result, Silent};

use crate::hands::{Hands, get, with_hands};
use crate::sealed::{keys, seal};
use crate::world::*;
use crate::{model::Random, pairs::subsets};

/// The codes, with m and the nodes of a pool.
const POOLS: [(&str, usize, usize); 4] =
    [("rs:3+2", 2, 7), ("clay:3+2", 2, 7), ("rs:2+1", 1, 5), ("rep:2", 1, 4)];
/// Names of objects.
const NAMES: usize = 7;

/// Number of histories; the environment may ask for more.
fn histories() -> u64 {
    let given = std::env::var("KILN_HISTORIES").ok();
    given.map_or(12, |text| text.parse().expect("KILN_HISTORIES is a number"))
}

struct Life {
    world: World,
    random: Random,
    m: usize,
    /// Contents that an object may have: one, unless a change of it failed. `None`: no object.
    expected: BTreeMap<String, Vec<Option<Vec<u8>>>>,
    /// Nodes with an empty disk.
    hurt: BTreeSet<usize>,
    /// The index of a client that looks at the pool now and then.
    kept: Index,
    log: Vec<String>,
    /// Times that all was whole.
    whole: u64,
}

impl Life {
    fn new(seed: u64) -> Life {
        let (code, m, nodes) = POOLS[seed as usize % POOLS.len()];
        let mut world = World::new(code, nodes);
        if seed / 4 % 3 == 2 {
            seal(&mut world, keys(&[1]));
        }
        let expected = (0..NAMES).map(|at| (format!("f/{at}"), vec![None])).collect();
        let (random, hurt, kept) = (Random(seed), BTreeSet::new(), Index::in_memory().unwrap());
        let log = vec![format!("seed {seed} {code}")];
        Life { world, random, m, expected, hurt, kept, log, whole: 0 }
    }

    /// Takes note of a step and does it.
    fn act(&mut self, what: String, act: impl FnOnce(&Hands<'_>) -> Result<()>) -> bool {
        let end = with_hands(&self.world, act);
        self.log.push(match &end {
            Ok(()) => what,
            Err(error) => format!("{what}: {error}"),
        });
        end.is_ok()
    }

    /// Returns the position of a node that may be lost besides those that are.
    fn victim(&mut self) -> Option<usize> {
        let node = self.random.below(self.world.disks.len());
        let mut bad: BTreeSet<usize> = self.hurt.union(&self.world.away).copied().collect();
        bad.insert(node);
        (bad.len() <= self.m).then_some(node)
    }

    /// Returns whether the pool has more nodes than its code and its manifests need.
    fn may_shrink(&self) -> bool {
        // Codes of m = 2 have five shards here, those of m = 1 at most three.
        self.world.newest().node.len() > 2 * self.m + 1
    }

    fn step(&mut self) {
        let name = format!("f/{}", self.random.below(NAMES));
        let id = format!("n{:02}", self.random.below(self.world.disks.len()));
        match self.random.below(16) {
            0..=3 => {
                let size = [0, 60, 99, 700, 4_000, 9_000][self.random.below(6)];
                let bytes = data(size + self.random.below(40), self.random.0);
                let done = self.act(format!("put {name}"), |hands| hands.put(&name, &bytes));
                self.changed(&name, done, Some(bytes));
            }
            4 | 5 => {
                let done = self.act(format!("rm {name}"), |hands| hands.remove(&name));
                self.changed(&name, done, None);
            }
            6 => {
                if let Some(node) = self.victim() {
                    self.log.push(format!("node {node} is away"));
                    self.world.away.insert(node);
                }
            }
            7 => {
                self.log.push("all nodes are back".into());
                self.world.away.clear();
            }
            8 => {
                if let Some(node) = self.victim() {
                    self.world.disks[node] = Disk::new(MemoryBackend::new());
                    self.world.away.remove(&node);
                    self.hurt.insert(node);
                    let id = format!("n{node:02}");
                    self.act(format!("{id} has a new disk"), |hands| hands.replace(&id));
                }
            }
            9 => drop(self.act("repair".into(), |hands| hands.repair(false).map(drop))),
            10 => drop(self.act("repair --away".into(), |hands| hands.repair(true).map(drop))),
            11 => drop(self.act("coordinator".into(), |hands| hands.coordinate())),
            12 => drop(self.act("scrub".into(), |hands| hands.scrub(9_000).map(drop))),
            13 if self.world.disks.len() < 10 => {
                self.world.disks.push(Disk::new(MemoryBackend::new()));
                let at = self.world.disks.len() - 1;
                self.act(format!("add n{at:02}"), |hands| hands.add_node(at));
            }
            13 => drop(self.act("rebalance".into(), |hands| hands.rebalance())),
            // One that is well is given up while all others are, and enough stay for the code.
            _ if !self.hurt.is_empty() || !self.world.away.is_empty() || !self.may_shrink() => {}
            14 => drop(self.act(format!("drain {id}"), |hands| hands.drain(&id))),
            _ => drop(self.act(format!("forget {id}"), |hands| hands.forget(&id))),
        }
    }

    fn changed(&mut self, name: &str, done: bool, now: Option<Vec<u8>>) {
        let known = self.expected.get_mut(name).unwrap();
        if done {
            known.clear();
        }
        known.push(now);
    }

    /// Returns whether `kiln status` ends with 0.
    fn says_whole(&self, pool: &Pool, index: &Index) -> bool {
        let status = survey(pool, index);
        let known = status.unreadable == 0 && !status.incomplete && status.unasked == 0;
        let here = status.nodes.iter().all(|node| node.present);
        known && here && status.whole == status.objects && status.unclaimed == 0
    }

    fn look(&mut self) {
        let pool = self.world.pool();
        self.world.config = pool.config().clone();
        let fresh = self.world.index();
        self.kept.refresh(&pool, b"", &Silent).unwrap();
        if !self.says_whole(&pool, &fresh) && !self.says_whole(&pool, &self.kept) {
            return;
        }
        self.hurt.clear();
        self.whole += 1;
        let members: Vec<usize> = (pool.config().node.iter())
            .filter(|node| node.state != NodeState::Out)
            .map(|node| node.url.trim_start_matches("memory://").parse().unwrap())
            .collect();
        for set in subsets(&members, self.m) {
            // Readers may mend what they find, and what is not durable is nothing.
            let mut after = self.world.copy();
            after.away.extend(&set);
            let without = after.pool();
            assert_eq!(without.config().revision, pool.config().revision, "{:#?}", self.log);
            for (name, allowed) in &self.expected {
                let found = get(&without, name).unwrap_or_else(|error| {
                    panic!("without {set:?} {name}: {error} {:#?}", self.log)
                });
                let fits = allowed.contains(&found);
                assert!(fits, "without {set:?} {name} is another one: {:#?}", self.log);
            }
        }
        for (name, allowed) in &mut self.expected {
            *allowed = vec![get(&pool, name).unwrap()];
        }
    }
}

#[test]
fn whole_means_that_any_m_nodes_may_vanish() {
    let mut whole = 0;
    for seed in 0..histories() {
        let mut life = Life::new(seed);
        for _ in 0..24 {
            life.step();
            if life.random.below(2) == 0 {
                life.look();
            }
        }
        life.world.away.clear();
        life.act("repair".into(), |hands| hands.repair(false).map(drop));
        life.look();
        whole += life.whole;
    }
    assert!(whole >= histories(), "{whole}");
}
