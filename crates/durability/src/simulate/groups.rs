//! Fixed groups of nodes, each of which rebuilds its lost nodes side by side.

use super::{Risk, State, risk, until_failure};
use crate::PoolModel;
use fastrand::Rng;
use std::collections::BTreeMap;

/// A node that is lost.
#[derive(Debug, Clone)]
struct Lost {
    detected_at: f64,
    /// Hours of repair that are left, if it is alone in its group.
    hours: f64,
}

/// The lost nodes by group; all others are whole.
#[derive(Debug, Clone, Default)]
pub(super) struct Pool {
    now: f64,
    lost: BTreeMap<usize, Vec<Lost>>,
}

impl Pool {
    /// Returns the hours until something happens in a group: a detection, or the end of a repair.
    fn next_in(&self, group: &[Lost]) -> f64 {
        let hidden = group.iter().filter(|node| node.detected_at > self.now);
        let detection = hidden.map(|node| node.detected_at - self.now);
        let found = group.iter().filter(|node| node.detected_at <= self.now);
        let sharing = found.clone().count() as f64;
        let repair = found.map(|node| node.hours * sharing);
        detection.chain(repair).fold(f64::INFINITY, f64::min)
    }
}

impl State for Pool {
    type Homes = ();

    fn place(_: &PoolModel, _: &mut Rng) {}

    fn step(&mut self, pool: &PoolModel, (): &(), rng: &mut Rng) -> Risk {
        let down: usize = self.lost.values().map(Vec::len).sum();
        let failure = until_failure(pool, pool.nodes - down, rng);
        let next = self.lost.values().map(|group| self.next_in(group));
        let hours = next.fold(failure, f64::min);
        let now = self.now;
        for group in self.lost.values_mut() {
            let sharing = group.iter().filter(|node| node.detected_at <= now).count() as f64;
            for node in group.iter_mut().filter(|node| node.detected_at <= now) {
                node.hours -= hours / sharing;
            }
            group.retain(|node| node.hours > 1e-9);
        }
        self.lost.retain(|_, group| !group.is_empty());
        self.now += hours;
        if hours < failure {
            // The clock may end a rounding before the moment of a detection.
            let now = self.now;
            let due = |node: &&mut Lost| (node.detected_at - now).abs() < 1e-9;
            self.lost.values_mut().flatten().filter(due).for_each(|node| node.detected_at = now);
            return Risk::Chance(0.0);
        }
        // Any node that is alive fails alike: a group by how many it has of them.
        let chunks = pool.tolerance.chunks();
        let group = loop {
            let node = rng.usize(..pool.nodes);
            let lost = self.lost.get(&(node / chunks)).map_or(0, Vec::len);
            if node % chunks >= lost {
                break node / chunks;
            }
        };
        let detected_at = self.now + pool.detection_hours;
        let lost = self.lost.entry(group).or_default();
        lost.push(Lost { detected_at, hours: pool.repair_hours });
        risk(pool, lost.len() - 1, rng)
    }

    fn level(&self) -> usize {
        self.lost.values().map(Vec::len).max().unwrap_or(0)
    }

    fn critical(&self, pool: &PoolModel) -> f64 {
        let most = pool.tolerance.most();
        let groups = self.lost.values().filter(|lost| lost.len() == most).count();
        (groups * (pool.tolerance.chunks() - most)) as f64
    }

    fn now(&self) -> f64 {
        self.now
    }
}
