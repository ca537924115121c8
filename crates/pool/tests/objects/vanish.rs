//! Random histories of small pools against a plain map: what was acknowledged is what is read, and
//! "whole" means that any m nodes may vanish: whenever a status says that all is whole, every set
//! of m nodes is taken away and everything is read.

use std::collections::{BTreeMap, BTreeSet};

use kiln_pool::{Index, NodeState, Pool, PoolConfig};
use kiln_store::MemoryBackend;
use kiln_stripe::{Result, Silent};
use kiln_testkit::Random;

use crate::hands::{Hands, get, with_hands};
use crate::pairs::subsets;
use crate::sealed::{keys, seal};
use crate::world::*;

/// The codes, with n, m and the nodes of a pool.
const POOLS: [(&str, usize, usize, usize); 4] =
    [("rs:3+2", 5, 2, 7), ("clay:3+2", 5, 2, 7), ("rs:2+1", 3, 1, 5), ("rep:2", 2, 1, 4)];
/// Names of objects.
const NAMES: usize = 7;

/// Number of histories; the environment may ask for more.
fn histories() -> u64 {
    let given = std::env::var("KILN_HISTORIES").ok();
    given.map_or(12, |text| text.parse().expect("KILN_HISTORIES is a number"))
}

/// The nodes that take part.
fn positions(map: &PoolConfig) -> Vec<usize> {
    let members = map.node.iter().filter(|node| node.state != NodeState::Out);
    members.map(|node| node.url.trim_start_matches("memory://").parse().unwrap()).collect()
}

struct Life {
    world: World,
    random: Random,
    n: usize,
    m: usize,
    /// Contents that an object may have: one, unless a change of it failed. `None`: no object.
    expected: BTreeMap<String, Vec<Option<Vec<u8>>>>,
    /// Nodes with rot or an empty disk.
    hurt: BTreeSet<usize>,
    /// There is rot that no scrub has looked for: a status goes by names.
    is_corrupt: bool,
    /// Something failed, or was put with shards left out: objects may tolerate less than m losses.
    may_lack: bool,
    /// The index of a client that looks at the pool now and then.
    kept: Index,
    log: Vec<String>,
    /// Times that all was whole.
    whole: u64,
}

impl Life {
    fn new(seed: u64) -> Life {
        let (code, n, m, nodes) = POOLS[seed as usize % POOLS.len()];
        let mut world = World::new(code, nodes);
        if seed / 4 % 3 == 2 {
            seal(&mut world, keys(&[1]));
        }
        let expected = (0..NAMES).map(|at| (format!("f/{at}"), vec![None])).collect();
        let (random, hurt, kept) = (Random(seed), BTreeSet::new(), Index::in_memory().unwrap());
        let log = vec![format!("seed {seed} {code}")];
        let (is_corrupt, may_lack, whole) = (false, false, 0);
        Life { world, random, n, m, expected, hurt, is_corrupt, may_lack, kept, log, whole }
    }

    /// Takes note of a step and does it.
    fn act(&mut self, what: String, act: impl FnOnce(&Hands<'_>) -> Result<()>) -> bool {
        let end = with_hands(&self.world, act);
        self.log.push(match &end {
            Ok(()) => what,
            Err(error) => format!("{what}: {error}"),
        });
        self.may_lack |= end.is_err();
        end.is_ok()
    }

    /// Returns the position of a node that may be lost besides those that are.
    fn victim(&mut self) -> Option<usize> {
        let node = self.random.index(self.world.disks.len());
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
        let name = format!("f/{}", self.random.index(NAMES));
        let id = format!("n{:02}", self.random.index(self.world.disks.len()));
        match self.random.below(20) {
            0..=3 => {
                let size = [0, 60, 99, 700, 4_000, 9_000, 30_000][self.random.index(7)];
                let bytes = data(size + self.random.index(40), self.random.0);
                self.may_lack |= self.world.disks.len() - self.world.away.len() < self.n;
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
            12 => self.scrub(),
            13 if self.world.disks.len() < 10 => {
                self.world.disks.push(Disk::new(MemoryBackend::new()));
                let at = self.world.disks.len() - 1;
                self.act(format!("add n{at:02}"), |hands| hands.add_node(at));
            }
            13 => drop(self.act("rebalance".into(), |hands| hands.rebalance())),
            14 => self.rot(),
            15..=17 => self.read(&name),
            // One that is well is given up while all others are, and enough stay for the code.
            _ if !self.hurt.is_empty() || !self.world.away.is_empty() || !self.may_shrink() => {}
            18 => drop(self.act(format!("drain {id}"), |hands| hands.drain(&id))),
            _ => drop(self.act(format!("forget {id}"), |hands| hands.forget(&id))),
        }
    }

    fn scrub(&mut self) {
        let mut away = true;
        let (lacks, hurt) = (self.may_lack, self.hurt.len());
        let log = format!("{:#?}", self.log);
        self.act("scrub".into(), |hands| {
            let report = hands.scrub(9_000)?;
            away = !report.away.is_empty();
            assert!(lacks || away || hurt > 0 || report.unreadable == 0, "{report:#?} {log}");
            Ok(())
        });
        self.is_corrupt &= away;
    }

    /// Flips a bit of half of a node's files.
    fn rot(&mut self) {
        let Some(node) = self.victim().filter(|node| !self.world.away.contains(node)) else {
            return;
        };
        self.hurt.insert(node);
        self.is_corrupt = true;
        for name in self.world.files(node) {
            if self.random.one_in(2) {
                let memory = self.world.disks[node].memory.clone();
                let mut bytes = memory.bytes(&name).unwrap();
                let at = self.random.index(bytes.len());
                bytes[at] ^= 1 << self.random.below(8);
                self.log.push(format!("rot in {name} on {node} at {at}"));
                memory.put(&name, bytes);
            }
        }
    }

    /// Reads an object, and a part of it.
    fn read(&mut self, name: &str) {
        let pool = self.world.pool();
        let found = match get(&pool, name) {
            Ok(found) => found,
            Err(error) => return assert!(self.may_lack, "{name}: {error} {:#?}", self.log),
        };
        assert!(self.expected[name].contains(&found), "{name} is another one: {:#?}", self.log);
        let Some(bytes) = found else { return };
        let start = self.random.index(bytes.len() + 1);
        let end = start + self.random.index(900);
        let (part, _) = self.world.part_of(name, Some(start as u64..end as u64)).unwrap();
        assert!(part == bytes[start..end.min(bytes.len())], "{name}: {:#?}", self.log);
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
        let whole = self.says_whole(&pool, &fresh) || self.says_whole(&pool, &self.kept);
        if self.is_corrupt || !whole {
            return;
        }
        self.hurt.clear();
        self.may_lack = false;
        self.whole += 1;
        let members = positions(pool.config());
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
        let mut there = Vec::new();
        for (name, allowed) in &mut self.expected {
            *allowed = vec![get(&pool, name).unwrap()];
            there.extend(allowed[0].as_ref().map(|bytes| (name.clone(), bytes.len() as u64)));
        }
        for index in [&fresh, &self.kept] {
            let mut listed = Vec::new();
            let see = |one: kiln_pool::Listed| {
                listed.push((one.name, one.size));
                Ok(true)
            };
            index.each("", None, see).unwrap();
            assert_eq!(listed, there, "{:#?}", self.log);
        }
    }

    /// Makes all whole; nothing is on the nodes afterwards but what belongs there.
    fn end(&mut self) {
        self.world.away.clear();
        for now_ms in [9_000, 10_000] {
            with_hands(&self.world, |hands| hands.scrub(now_ms)).unwrap();
            with_hands(&self.world, |hands| hands.repair(false)).unwrap();
        }
        self.is_corrupt = false;
        let last = with_hands(&self.world, |hands| hands.scrub(11_000)).unwrap();
        assert!(last.clean && last.quarantined == 0, "{last:#?} {:#?}", self.log);
        let before = self.whole;
        self.look();
        assert!(self.whole > before, "not whole in the end: {:#?}", self.log);
        let there = self.expected.values().filter_map(|allowed| allowed[0].as_ref());
        // A read while a node was away may have left a copy of a manifest on each other home.
        let shards = |bytes: &Vec<u8>| if bytes.len() < 100 { 0 } else { self.n };
        let most: usize = there.map(|bytes| 2 * self.m + 1 + shards(bytes)).sum();
        let members = positions(&self.world.newest());
        let lists: Vec<_> = members.into_iter().map(|node| self.world.files(node)).collect();
        let files = lists.iter().map(Vec::len).sum::<usize>();
        assert!(files <= most, "{files} of {most} files {lists:#?} {:#?}", self.log);
    }
}

#[test]
pub fn whole_means_that_any_m_nodes_may_vanish() {
    let mut whole = 0;
    for seed in 0..histories() {
        let mut life = Life::new(seed);
        for _ in 0..36 {
            life.step();
            if life.random.one_in(3) {
                life.look();
            }
        }
        life.end();
        whole += life.whole;
    }
    assert!(whole >= histories(), "{whole}");
}
