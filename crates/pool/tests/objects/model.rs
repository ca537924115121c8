//! Random operations and losses against a plain map: what was acknowledged is what is read, and a
//! repair makes the pool whole again.

use std::collections::{BTreeMap, BTreeSet};

use kiln_pool::Index;
use kiln_store::Backend;
use kiln_stripe::PoolError;

use crate::recover::{Recovered, recover};
use crate::world::*;

const NODES: usize = 8;
const M: usize = 2;

/// A small generator.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % limit.max(1)
    }
}

struct Play {
    world: World,
    index: Index,
    random: Random,
    expected: BTreeMap<String, Vec<u8>>,
    /// Nodes with rot or an empty new disk.
    hurt: BTreeSet<usize>,
    log: Vec<String>,
}

impl Play {
    fn new(seed: u64) -> Play {
        Play {
            world: World::new("clay:3+2", NODES),
            index: Index::in_memory().unwrap(),
            random: Random(seed),
            expected: BTreeMap::new(),
            hurt: BTreeSet::new(),
            log: vec![format!("seed {seed}")],
        }
    }

    fn bad(&self) -> BTreeSet<usize> {
        self.hurt.union(&self.world.away).copied().collect()
    }

    fn name(&mut self) -> String {
        format!("folder/{}", self.random.below(7))
    }

    fn step(&mut self) {
        match self.random.below(14) {
            0..=3 => self.put(),
            4 => self.remove(),
            5..=7 => self.read(),
            8 => self.lose_node(),
            9 => {
                self.world.away.pop_first();
                self.log.push("a node came back".into());
            }
            10 => self.new_disk(),
            11 => self.rot(),
            12 => self.scrub_and_repair(),
            _ => self.list(),
        }
    }

    fn put(&mut self) {
        let name = self.name();
        let size = [0, 50, 99, 700, 4_000, 6_000, 30_000][self.random.below(7)];
        let bytes = data(size + self.random.below(50), self.random.0);
        self.log.push(format!("put {name} {}", bytes.len()));
        self.world.put(&name, &bytes).unwrap_or_else(|error| panic!("{error}: {:#?}", self.log));
        self.expected.insert(name, bytes);
    }

    fn remove(&mut self) {
        let name = self.name();
        self.log.push(format!("rm {name}"));
        match (self.world.remove(&name), self.expected.remove(&name)) {
            (Ok(()), Some(_)) | (Err(PoolError::NoObject { .. }), None) => {}
            (end, there) => panic!("{end:?} {} {:#?}", there.is_some(), self.log),
        }
    }

    fn read(&mut self) {
        let name = self.name();
        match (self.world.get(&name), self.expected.get(&name)) {
            (Ok(bytes), Some(expected)) => assert!(bytes == *expected, "{name} {:#?}", self.log),
            (Err(PoolError::NoObject { .. }), None) => return,
            (end, _) => panic!("{name}: {:?} {:#?}", end.map(|b| b.len()), self.log),
        }
        let expected = &self.expected[&name];
        let start = self.random.below(expected.len() + 1);
        let end = start + self.random.below(900);
        let range = Some(start as u64..end as u64);
        let (part, _) = self.world.part_of(&name, range).unwrap();
        assert!(part == expected[start..end.min(expected.len())], "{:#?}", self.log);
    }

    fn lose_node(&mut self) {
        let node = self.random.below(NODES);
        if self.bad().len() < M || self.bad().contains(&node) {
            self.log.push(format!("node {node} is unavailable"));
            self.world.away.insert(node);
        }
    }

    fn new_disk(&mut self) {
        let node = self.random.below(NODES);
        if self.bad().len() < M || self.bad().contains(&node) {
            self.log.push(format!("node {node} has a new disk"));
            self.world.replace_disk(node);
            self.hurt.insert(node);
        }
    }

    fn rot(&mut self) {
        let node = self.random.below(NODES);
        let there = !self.world.away.contains(&node);
        if !there || (self.bad().len() >= M && !self.bad().contains(&node)) {
            return;
        }
        self.hurt.insert(node);
        for name in self.world.files(node) {
            if self.random.below(2) == 0 {
                let memory = self.world.disks[node].memory.clone();
                let mut bytes = memory.bytes(&name).unwrap();
                let at = self.random.below(bytes.len());
                bytes[at] ^= 1 << self.random.below(8);
                self.log.push(format!("rot in {name} on {node} at {at}"));
                memory.put(&name, bytes);
            }
        }
    }

    fn list(&mut self) {
        self.world.refresh(&self.index);
        let mut names = Vec::new();
        let see = |listed: kiln_pool::Listed| {
            names.push((listed.name, listed.size));
            Ok(true)
        };
        self.index.each("", None, see).unwrap();
        let expected: Vec<(String, u64)> =
            self.expected.iter().map(|(name, b)| (name.clone(), b.len() as u64)).collect();
        assert_eq!(names, expected, "{:#?}", self.log);
    }

    fn scrub(&self) -> kiln_pool::ScrubReport {
        self.world.refresh(&self.index);
        self.world.scrub(&self.index, &at_once(10_000))
    }

    fn repair(&self) -> Recovered {
        self.world.refresh(&self.index);
        recover(&self.world.pool(), &self.index, (20_000, false), &settings()).unwrap()
    }

    fn scrub_and_repair(&mut self) {
        self.log.push("scrub and repair".into());
        let found = self.scrub();
        assert_eq!(found.unreadable, 0, "{:#?} {:#?}", found.findings, self.log);
        let report = self.repair();
        assert_eq!(report.failed_count, 0, "{:#?} {:#?}", report.failed, self.log);
        self.hurt.clear();
        if self.world.away.is_empty() {
            self.assert_whole();
        }
    }

    fn assert_whole(&self) {
        let after = self.scrub();
        assert!(after.clean, "{after:#?} {:#?}", self.log);
        assert_eq!(self.repair().damaged, 0, "{:#?}", self.log);
    }
}

#[test]
pub fn what_was_acknowledged_is_what_is_read() {
    for seed in 0..25 {
        let mut play = Play::new(seed);
        for _ in 0..70 {
            play.step();
        }
        play.world.away.clear();
        play.scrub_and_repair();
        // What was in quarantine has no grace here, and goes.
        assert_eq!(play.scrub().quarantined, 0);
        let names: Vec<String> = play.expected.keys().cloned().collect();
        for name in names {
            assert!(play.world.get(&name).unwrap() == play.expected[&name], "{:#?}", play.log);
        }
        // Nothing is on the nodes but what belongs there.
        let mut files = 0;
        for node in 0..NODES {
            files += play.world.disks[node].memory.list().unwrap().len();
        }
        let inline = play.expected.values().filter(|bytes| bytes.len() < 100).count();
        let others = play.expected.len() - inline;
        let per_node = 3; // identity, description, log
        // A read while a node was away may have left a copy of a manifest on each other home.
        let least = inline * 5 + others * 10;
        let lists: Vec<_> = (0..NODES).map(|node| play.world.files(node)).collect();
        let whole = files <= least + NODES * per_node;
        assert!(whole, "{files} files {lists:#?} {:?} {:#?}", play.expected.keys(), play.log);
    }
}
