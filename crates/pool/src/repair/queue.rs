//! Queue of repairs: bounded, the most endangered object first. Pure: time and rules
//! are arguments, so a simulation and a real coordinator use the same one.
//!
//! Rules: an object that tolerates fewer further losses comes first; of equals the one that was
//! reported first. A loss that may pass by itself (a node that does not answer) waits before it
//! counts; certain damage (rot, a removed disk) does not. An object whose repair failed waits twice
//! as long each time.

use crate::Key;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Limits and waits of a queue; times in ms.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Objects in the queue at most; beyond that the least endangered are left out, and
    /// [`RepairQueue::overflowed`] says that a new scan is due.
    pub capacity: usize,
    /// Time that a loss must last that may pass by itself.
    pub transient_wait_ms: u64,
    /// Wait after the first failure; doubled with each.
    pub first_backoff_ms: u64,
    /// The longest wait.
    pub most_backoff_ms: u64,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            capacity: 100_000,
            transient_wait_ms: 10 * 60_000,
            first_backoff_ms: 1_000,
            most_backoff_ms: 10 * 60_000,
        }
    }
}

/// Known damage of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// The object.
    pub key: Key,
    /// Indices of the shards to rebuild.
    pub lost: Vec<u16>,
    /// Further losses that it tolerates; negative: it cannot be repaired now.
    pub margin: i32,
    /// Bytes to be rebuilt.
    pub bytes: u64,
    /// The loss may pass by itself: a node does not answer, but nothing says that its disk is gone.
    pub transient: bool,
}

#[derive(Clone, Debug)]
struct Entry {
    damaged: Damaged,
    /// When it was reported first: the order of arrival.
    arrival: u64,
    not_before_ms: u64,
    failures: u32,
    running: bool,
}

impl Entry {
    /// Least first.
    fn rank(&self) -> (i32, u64, Key) {
        (self.damaged.margin, self.arrival, self.damaged.key)
    }
}

/// The queue.
#[derive(Clone, Debug)]
pub struct RepairQueue {
    rules: Rules,
    entries: BTreeMap<Key, Entry>,
    /// Ranks of those that wait for their turn.
    ranks: BTreeSet<(i32, u64, Key)>,
    arrivals: u64,
    overflowed: bool,
}

impl RepairQueue {
    /// An empty queue.
    pub fn new(rules: Rules) -> RepairQueue {
        RepairQueue {
            rules,
            entries: BTreeMap::new(),
            ranks: BTreeSet::new(),
            arrivals: 0,
            overflowed: false,
        }
    }

    /// Tells of damage, or of what has changed about it. A repair that runs goes on; what is told
    /// meanwhile is what will be tried next if it fails.
    pub fn report(&mut self, damaged: Damaged, now_ms: u64) {
        let key = damaged.key;
        if let Some(entry) = self.entries.get_mut(&key) {
            self.ranks.remove(&entry.rank());
            // Certain news end the wait for a loss that might have passed.
            if entry.damaged.transient && !damaged.transient && entry.failures == 0 {
                entry.not_before_ms = now_ms;
            }
            entry.damaged = damaged;
            if !entry.running {
                self.ranks.insert(entry.rank());
            }
            return;
        }
        let wait = if damaged.transient { self.rules.transient_wait_ms } else { 0 };
        let entry = Entry {
            damaged,
            arrival: self.arrivals,
            not_before_ms: now_ms.saturating_add(wait),
            failures: 0,
            running: false,
        };
        self.arrivals += 1;
        self.ranks.insert(entry.rank());
        self.entries.insert(key, entry);
        if self.entries.len() > self.rules.capacity {
            self.overflowed = true;
            if let Some(rank) = self.ranks.pop_last() {
                self.entries.remove(&rank.2);
            }
        }
    }

    /// Takes over what a new survey found: what is damaged now is told, what waits here and is
    /// whole again is withdrawn. Waits go on where they are; repairs that run go on too.
    pub fn follow(&mut self, seen: &RepairQueue, now_ms: u64) {
        let over = |(key, entry): (&Key, &Entry)| {
            (!entry.running && !seen.entries.contains_key(key)).then_some(*key)
        };
        // A survey that had no room for all says nothing about what it left out.
        if !seen.overflowed {
            let over: Vec<Key> = self.entries.iter().filter_map(over).collect();
            over.iter().for_each(|key| self.withdraw(key));
        }
        let mut all: Vec<&Entry> = seen.entries.values().collect();
        all.sort_unstable_by_key(|entry| entry.arrival);
        all.into_iter().for_each(|entry| self.report(entry.damaged.clone(), now_ms));
        self.overflowed |= seen.overflowed;
    }

    /// The object is whole again by itself (its node came back), or gone.
    pub fn withdraw(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.ranks.remove(&entry.rank());
        }
    }

    /// Returns what to repair now, if anything may start: the most endangered that waits for
    /// nothing. The caller answers with [`RepairQueue::done`] or [`RepairQueue::failed`].
    pub fn next(&mut self, now_ms: u64) -> Option<Damaged> {
        let due = |key: &Key| {
            let entry = self.entries.get(key)?;
            (entry.not_before_ms <= now_ms && entry.damaged.margin >= 0).then_some(entry)
        };
        let first = self.ranks.iter().find_map(|(_, _, key)| due(key))?;
        let (rank, key) = (first.rank(), first.damaged.key);
        self.ranks.remove(&rank);
        let entry = self.entries.get_mut(&key)?;
        entry.running = true;
        Some(entry.damaged.clone())
    }

    /// A repair ended well.
    pub fn done(&mut self, key: &Key) {
        self.withdraw(key);
    }

    /// A repair failed: it is tried again later.
    pub fn failed(&mut self, key: &Key, now_ms: u64) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        self.ranks.remove(&entry.rank());
        let doubled = self.rules.first_backoff_ms.checked_shl(entry.failures).unwrap_or(u64::MAX);
        // A shift may lose the upper bits: many failures are the longest wait in any case.
        let longest = entry.failures >= 32;
        let wait = if longest { u64::MAX } else { doubled }.min(self.rules.most_backoff_ms);
        entry.failures = entry.failures.saturating_add(1);
        entry.not_before_ms = now_ms.saturating_add(wait);
        entry.running = false;
        self.ranks.insert(entry.rank());
    }

    /// A repair was not begun after all, or called off: it waits for its turn again.
    pub fn release(&mut self, key: &Key) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.running = false;
        self.ranks.insert(entry.rank());
    }

    /// Returns whether an object is in the queue.
    pub fn holds(&self, key: &Key) -> bool {
        self.entries.contains_key(key)
    }

    /// Objects in the queue, running ones included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether nothing waits and nothing runs.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Repairs that run.
    pub fn running(&self) -> usize {
        self.entries.values().filter(|entry| entry.running).count()
    }

    /// Objects that wait, by how many further losses they tolerate: the few numbers that tell how
    /// endangered a pool is.
    pub fn by_margin(&self) -> BTreeMap<i32, u64> {
        let mut counts = BTreeMap::new();
        for entry in self.entries.values() {
            *counts.entry(entry.damaged.margin).or_default() += 1;
        }
        counts
    }

    /// Bytes to be rebuilt in all.
    pub fn bytes(&self) -> u64 {
        self.entries.values().map(|entry| entry.damaged.bytes).sum()
    }

    /// When the next one becomes due, for a caller that has nothing to do: the least moment over
    /// those that wait and can be repaired.
    pub fn wakes_at(&self) -> Option<u64> {
        let waiting = self.ranks.iter().filter_map(|(_, _, key)| self.entries.get(key));
        waiting
            .filter(|entry| entry.damaged.margin >= 0)
            .map(|entry| Reverse(entry.not_before_ms))
            .max()
            .map(|Reverse(at)| at)
    }

    /// Returns whether something was left out for lack of room: scan again when the queue has
    /// become short.
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }
}

#[cfg(test)]
mod tests;
