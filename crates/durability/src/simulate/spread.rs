//! Stripes on random nodes, repaired by all nodes together, the worst first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;

use super::{Risk, State, risk, until_failure};
use crate::{Placement, PoolModel};

/// The stripes of each node, ascending.
pub(super) struct Homes {
    starts: Vec<usize>,
    stripes: Vec<u32>,
    /// Hours in which the pool rebuilds one chunk.
    hours: f64,
}

impl Homes {
    fn of(&self, node: u32) -> &[u32] {
        &self.stripes[self.starts[node as usize]..self.starts[node as usize + 1]]
    }
}

/// A node that failed and is not rebuilt yet. Its stripes are rebuilt in their order, but for those
/// that lost more chunks, which come first.
#[derive(Debug, Clone)]
struct Down {
    node: u32,
    detected_at: f64,
    /// Stripes that the order has passed, with the part of the one under way.
    passed: f64,
    /// Stripes further on that were rebuilt out of order.
    ahead: BTreeSet<u32>,
}

impl Down {
    /// Returns the stripes that are still to be rebuilt.
    fn left(&self, homes: &Homes) -> f64 {
        homes.of(self.node).len() as f64 - self.passed - self.ahead.len() as f64
    }

    /// Returns whether a stripe lacks the chunk that was here.
    fn lacks(&self, stripe: u32, homes: &Homes) -> bool {
        let place = homes.of(self.node).binary_search(&stripe);
        place.is_ok_and(|place| place as f64 >= self.passed.floor())
            && !self.ahead.contains(&stripe)
    }
}

/// The lost nodes, and the stripes that lost several chunks.
#[derive(Debug, Clone, Default)]
pub(super) struct Pool {
    now: f64,
    /// In the order of their failure.
    down: Vec<Down>,
    /// By stripe with several lost chunks, the nodes that had them.
    several: BTreeMap<u32, Vec<u32>>,
    /// Stripes among them with a chunk whose loss is known, the worst first.
    queue: BTreeSet<(Reverse<usize>, u32)>,
    /// Hours that the first of them has been rebuilt for.
    begun: f64,
    /// Numbers of stripes that have lost 2, 3, ... chunks.
    counts: Vec<usize>,
}

impl Pool {
    fn detected(&self, node: u32) -> bool {
        self.down.iter().any(|down| down.node == node && down.detected_at <= self.now)
    }

    /// Counts a stripe that had lost `before` chunks and puts it where it belongs now.
    fn recount(&mut self, stripe: u32, before: usize) {
        let now = self.several.get(&stripe).map_or(0, Vec::len);
        self.counts.resize(self.counts.len().max(now.max(before) + 1), 0);
        self.counts[before] = self.counts[before].saturating_sub(1);
        self.counts[now] += 1;
        self.enqueue(stripe, before);
    }

    /// Puts a stripe into the queue, or out of it.
    fn enqueue(&mut self, stripe: u32, before: usize) {
        self.queue.remove(&(Reverse(before), stripe));
        let Some(nodes) = self.several.get(&stripe) else { return };
        if nodes.iter().any(|&node| self.detected(node)) {
            self.queue.insert((Reverse(nodes.len()), stripe));
        }
    }

    /// Returns the hours until the worst stripes are all better, or a sixteenth of those that
    /// survive no further loss: while a step lasts as many count as at its beginning.
    fn until_better(&self, pool: &PoolModel, homes: &Homes) -> f64 {
        let worst = self.queue.first().map(|&(Reverse(lost), _)| lost);
        let alike = self.queue.iter().take_while(|&&(Reverse(lost), _)| Some(lost) == worst);
        let parts = if worst == Some(pool.tolerance.most()) { 16 } else { 1 };
        let count = alike.count().div_ceil(parts);
        count as f64 * homes.hours - self.begun
    }

    /// Rebuilds a chunk of the worst stripe.
    fn rebuild_worst(&mut self, homes: &Homes) {
        self.begun = 0.0;
        let Some(&(Reverse(before), stripe)) = self.queue.first() else { return };
        let Some(nodes) = self.several.get(&stripe) else { return };
        let Some(at) = nodes.iter().position(|&node| self.detected(node)) else { return };
        let mut nodes = nodes.clone();
        let node = nodes.remove(at);
        match nodes.len() < 2 {
            true => self.several.remove(&stripe),
            false => self.several.insert(stripe, nodes),
        };
        self.recount(stripe, before);
        if let Some(down) = self.down.iter_mut().find(|down| down.node == node) {
            down.ahead.insert(stripe);
        }
        self.down.retain(|down| down.left(homes) > 1e-6);
    }

    fn fail(&mut self, pool: &PoolModel, homes: &Homes, rng: &mut Rng) -> Risk {
        let node = loop {
            let node = rng.u32(..pool.nodes as u32);
            if !self.down.iter().any(|down| down.node == node) {
                break node;
            }
        };
        if homes.of(node).is_empty() {
            return Risk::Chance(0.0);
        }
        let mut worse = Vec::new();
        for &stripe in homes.of(node) {
            if let Some(nodes) = self.several.get_mut(&stripe) {
                nodes.push(node);
                worse.push((stripe, nodes.len() - 1));
            } else if let Some(other) = self.down.iter().find(|down| down.lacks(stripe, homes)) {
                self.several.insert(stripe, vec![other.node, node]);
                worse.push((stripe, 1));
            }
        }
        let detected_at = self.now + pool.detection_hours;
        self.down.push(Down { node, detected_at, passed: 0.0, ahead: BTreeSet::new() });
        let (mut certain, mut fine) = (false, 1.0);
        // Stripes that lost nothing else are at risk where one loss is the most, or none.
        let alone = homes.of(node).len() - worse.len();
        let alone = (0..alone).map(|_| 0).take_while(|_| pool.tolerance.most() < 2);
        for before in worse.iter().map(|&(_, before)| before).chain(alone) {
            match risk(pool, before, rng) {
                Risk::Certain => certain = true,
                Risk::Chance(chance) => fine *= 1.0 - chance,
            }
        }
        worse.into_iter().for_each(|(stripe, before)| self.recount(stripe, before));
        if certain { Risk::Certain } else { Risk::Chance(1.0 - fine) }
    }
}

impl State for Pool {
    type Homes = Homes;

    fn place(pool: &PoolModel, rng: &mut Rng) -> Homes {
        let Placement::Spread { stripes } = pool.placement else {
            return Homes { starts: vec![0; pool.nodes + 1], stripes: Vec::new(), hours: 1.0 };
        };
        let chunks = pool.tolerance.chunks();
        let mut pairs: Vec<(u32, u32)> = Vec::with_capacity(stripes as usize * chunks);
        let mut order: Vec<u32> = (0..pool.nodes as u32).collect();
        for stripe in 0..stripes as u32 {
            for place in 0..chunks {
                let other = rng.usize(place..order.len());
                order.swap(place, other);
                pairs.push((order[place], stripe));
            }
        }
        pairs.sort_unstable();
        let begin = |node: u32| pairs.partition_point(|pair| pair.0 < node);
        let starts = (0..=pool.nodes as u32).map(begin).collect();
        let stripes = pairs.iter().map(|pair| pair.1).collect();
        // The mean node is rebuilt in the hours that the pool has for one.
        Homes { starts, stripes, hours: pool.repair_hours / pool.stripes_on(1) }
    }

    fn step(&mut self, pool: &PoolModel, homes: &Homes, rng: &mut Rng) -> Risk {
        let failure = until_failure(pool, pool.nodes - self.down.len(), rng);
        let hidden = self.down.iter().find(|down| down.detected_at > self.now);
        let detection = hidden.map_or(f64::INFINITY, |down| down.detected_at - self.now);
        let hidden = hidden.map(|down| down.node);
        let first = self.down.iter().position(|down| down.detected_at <= self.now);
        let repair = match (self.queue.is_empty(), first) {
            (false, _) => self.until_better(pool, homes),
            (true, Some(first)) => self.down[first].left(homes) * homes.hours,
            (true, None) => f64::INFINITY,
        };
        let hours = failure.min(detection).min(repair).max(0.0);
        self.now += hours;
        let idle = self.queue.is_empty();
        match (idle, first) {
            (false, _) => {
                // All chunks that were due until now.
                let total = self.begun + hours;
                let due = (total / homes.hours + 1e-9).floor();
                (0..due as usize).for_each(|_| self.rebuild_worst(homes));
                self.begun = (total - due * homes.hours).max(0.0);
            }
            (true, Some(first)) => {
                let down = &mut self.down[first];
                let (all, left) = (homes.of(down.node).len() as f64, down.left(homes));
                // Chunks rebuilt out of order are passed in no time; they lie anywhere.
                let jump = hours / homes.hours * (all - down.passed) / left.max(1e-6);
                let part = jump / (all - down.passed).max(1e-6);
                let gone = (down.ahead.len() as f64 * part).round() as usize;
                down.passed += hours / homes.hours + gone as f64;
                for _ in 0..gone {
                    down.ahead.pop_first();
                }
            }
            (true, None) => {}
        }
        if hours >= failure {
            return self.fail(pool, homes, rng);
        }
        if hours >= detection {
            let Some(node) = hidden else { return Risk::Chance(0.0) };
            let found = self.down.iter_mut().filter(|down| down.node == node);
            found.for_each(|down| down.detected_at = self.now);
            let with = self.several.iter().filter(|(_, nodes)| nodes.contains(&node));
            let with: Vec<(u32, usize)> =
                with.map(|(&stripe, nodes)| (stripe, nodes.len())).collect();
            with.into_iter().for_each(|(stripe, before)| self.enqueue(stripe, before));
        } else if idle {
            first.map(|first| self.down.remove(first));
        }
        Risk::Chance(0.0)
    }

    fn level(&self) -> usize {
        let several = (2..self.counts.len()).rev().find(|&lost| self.counts[lost] > 0);
        several.unwrap_or(usize::from(!self.down.is_empty()))
    }

    fn critical(&self, pool: &PoolModel) -> f64 {
        let most = pool.tolerance.most();
        let stripes = self.counts.get(most).copied().unwrap_or(0);
        let alive = (pool.nodes - self.down.len()) as f64;
        let spared = 1.0 - (pool.tolerance.chunks() - most) as f64 / alive;
        alive * (1.0 - spared.powi(stripes as i32))
    }

    fn now(&self) -> f64 {
        self.now
    }
}
