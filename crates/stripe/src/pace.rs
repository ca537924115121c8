//! Patience with reads, and the budget of those that are asked for in place of late ones.
//!
//! Nothing here knows a clock: the time is an argument.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The shortest and the longest patience: below the first nothing is gained, and a busy machine is
/// that late by itself.
const FLOOR: Duration = Duration::from_millis(30);
const LONGEST: Duration = Duration::from_secs(1);
/// Patience while too few reads were measured.
const UNMEASURED: Duration = Duration::from_millis(300);
/// Reads of a node and a size that are remembered, how many make a measurement, and after how many
/// of all nodes there is another one.
const KEPT: usize = 64;
const LEAST: usize = 8;
const EVERY: u32 = 16;
/// Sizes that are measured apart; opening a file counts as none.
const SIZES: [u64; 4] = [0, 64 << 10, 1 << 20, u64::MAX];
/// Of all bytes read one in so many may be read in addition.
const SHARE: u64 = 16;
/// Bytes that count for a read beside its own: the device has to seek.
const SEEK: u64 = 64 << 10;
/// Bytes of additional reads that may be saved up.
const SAVED: u64 = 32 << 20;
/// A node that was late is left out for so many times its delay, and for at most so long.
const TIMES: u32 = 10;
const LEFT_OUT: Duration = Duration::from_secs(10);

/// Counts of reads, for reports and metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HedgeCounts {
    /// Reads that were begun.
    pub reads: u64,
    /// Reads of these that were not waited for.
    pub late: u64,
    /// Bytes that were read in place of theirs.
    pub extra_bytes: u64,
}

/// Measured times of one node's reads.
#[derive(Debug, Default)]
struct Node {
    recent: [VecDeque<Duration>; SIZES.len()],
    /// Reads under way that are not waited for.
    late: usize,
    left_out: Duration,
}

/// One read under way.
#[derive(Debug)]
struct Read {
    node: String,
    bytes: u64,
    begun: Duration,
    late: bool,
}

/// Decides how long a read is waited for, whether others may be asked in its place, and which nodes
/// are left out for now.
///
/// A read is late when it takes twice as long as 95 of 100 recent ones of its size take on the
/// node in the middle of all nodes: a slow node, or several, cannot make itself the measure.
#[derive(Debug)]
pub struct Pace {
    nodes: BTreeMap<String, Node>,
    reads: BTreeMap<u64, Read>,
    next: u64,
    patience: [Duration; SIZES.len()],
    /// Reads of each size since it was measured.
    unmeasured: [u32; SIZES.len()],
    saved: u64,
    counts: HedgeCounts,
}

impl Default for Pace {
    fn default() -> Pace {
        let (nodes, reads, counts) = (BTreeMap::new(), BTreeMap::new(), HedgeCounts::default());
        let patience = [UNMEASURED; SIZES.len()];
        let unmeasured = [0; SIZES.len()];
        Pace { nodes, reads, next: 0, patience, unmeasured, saved: SAVED, counts }
    }
}

fn size(bytes: u64) -> usize {
    SIZES.iter().position(|most| bytes <= *most).unwrap_or(SIZES.len() - 1)
}

impl Pace {
    /// Notes that a read begins; returns its number. `instead`: of a late one.
    pub fn begin(&mut self, node: &str, bytes: u64, instead: bool, now: Duration) -> u64 {
        let cost = bytes + SEEK;
        if instead {
            self.saved = self.saved.saturating_sub(cost);
            self.counts.extra_bytes += bytes;
        } else {
            self.saved = SAVED.min(self.saved + cost / SHARE);
        }
        self.counts.reads += 1;
        self.next += 1;
        let read = Read { node: node.to_owned(), bytes, begun: now, late: false };
        self.reads.insert(self.next, read);
        self.next
    }

    /// Notes that a read ended.
    pub fn end(&mut self, read: u64, now: Duration) {
        let Some(read) = self.reads.remove(&read) else { return };
        let took = now.saturating_sub(read.begun);
        let node = self.nodes.entry(read.node).or_default();
        if read.late {
            node.late -= 1;
            node.left_out = node.left_out.max(now + LEFT_OUT.min(took * TIMES));
        }
        let size = size(read.bytes);
        let recent = &mut node.recent[size];
        if recent.len() == KEPT {
            recent.pop_front();
        }
        recent.push_back(took);
        self.unmeasured[size] += 1;
        if self.unmeasured[size] >= EVERY {
            self.unmeasured[size] = 0;
            self.measure(size);
        }
    }

    fn measure(&mut self, size: usize) {
        let of_node = |node: &Node| {
            let mut times: Vec<Duration> = node.recent[size].iter().copied().collect();
            times.sort_unstable();
            (times.len() >= LEAST).then(|| times[times.len() * 19 / 20])
        };
        let mut nodes: Vec<Duration> = self.nodes.values().filter_map(of_node).collect();
        nodes.sort_unstable();
        if let Some(middle) = nodes.get(nodes.len() / 2) {
            self.patience[size] = (*middle * 2).clamp(FLOOR, LONGEST);
        }
    }

    /// Returns how long a read of so many bytes is waited for before others are asked.
    pub fn patience(&self, bytes: u64) -> Duration {
        self.patience[size(bytes)]
    }

    /// Asks whether these reads, of so many that were begun together, need not be waited for any
    /// longer. Not so where most are late, since then all nodes are busy, or where too much was
    /// read in place of others already.
    pub fn give_up(&mut self, late: &[u64], of: usize) -> bool {
        if (late.len() * 2 > of && of > 1) || self.saved < SEEK {
            return false;
        }
        for read in late {
            let Some(read) = self.reads.get_mut(read).filter(|read| !read.late) else { continue };
            read.late = true;
            self.nodes.entry(read.node.clone()).or_default().late += 1;
            self.counts.late += 1;
        }
        true
    }

    /// Returns whether a node is better not asked now: a read of it is late, or was a moment ago.
    pub fn is_left_out(&self, node: &str, now: Duration) -> bool {
        self.nodes.get(node).is_some_and(|node| node.late > 0 || now < node.left_out)
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> HedgeCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Rounds of one read at each of 10 nodes, of which node 0 takes `slow`; gives the time of the
    /// longest wait and the rounds that node 0 took part in.
    fn play(pace: &mut Pace, at: &mut Duration, rounds: u64, slow: Duration) -> (Duration, u64) {
        let (nodes, mut now, mut longest, mut asked) = (10, *at, ms(0), 0);
        let mut away: Vec<(u64, Duration)> = Vec::new();
        for _ in 0..rounds {
            away.retain(|(read, ends)| {
                let over = *ends <= now;
                if over {
                    pace.end(*read, *ends);
                }
                !over
            });
            let left_out = pace.is_left_out("0", now);
            asked += u64::from(!left_out);
            let names = (u64::from(left_out)..nodes).map(|node| node.to_string());
            let reads: Vec<u64> = names.map(|n| pace.begin(&n, 4096, false, now)).collect();
            let quick = usize::from(!left_out);
            reads[quick..].iter().for_each(|read| pace.end(*read, now + ms(5)));
            let mut took = ms(5);
            if !left_out {
                let patience = pace.patience(4096);
                took = slow.min(patience);
                let late = slow > patience && pace.give_up(&reads[..1], reads.len());
                if late {
                    away.push((reads[0], now + slow));
                    let extra = pace.begin("1", 4096, true, now + took);
                    took += ms(5);
                    pace.end(extra, now + took);
                } else {
                    took = slow;
                    pace.end(reads[0], now + slow);
                }
            }
            (now, longest) = (now + took, longest.max(took));
        }
        away.iter().for_each(|(read, ends)| pace.end(*read, *ends));
        *at = now + slow;
        (longest, asked)
    }

    #[test]
    fn one_slow_node_costs_a_bounded_wait_and_is_asked_rarely() {
        let (mut pace, mut now) = (Pace::default(), ms(0));
        assert_eq!(play(&mut pace, &mut now, 100, ms(5)), (ms(5), 100));
        assert_eq!(pace.patience(4096), FLOOR, "twice the quantile is below the floor");
        assert_eq!(pace.patience(10 << 20), UNMEASURED);
        let (longest, asked) = play(&mut pace, &mut now, 2_000, ms(500));
        assert!(longest <= FLOOR + ms(5), "{longest:?}");
        assert!(asked < 20, "{asked}");
        assert_eq!(pace.patience(4096), FLOOR, "the slow one is not the measure");
        // As soon as it is quick again it takes part.
        let (_, asked) = play(&mut pace, &mut now, 2_000, ms(5));
        assert!(asked > 900, "{asked}");
    }

    #[test]
    fn additional_reads_are_few_even_where_every_round_has_a_late_one() {
        let mut pace = Pace::default();
        let (mut extra, mut refused) = (0, 0);
        for round in 0..5_000 {
            let names = (0..10).map(|node| (round + node) % 30);
            let reads: Vec<u64> =
                names.map(|n| pace.begin(&n.to_string(), 0, false, ms(round))).collect();
            match pace.give_up(&reads[..1], 10) {
                true => extra += u64::from(pace.begin("x", 0, true, ms(round)) > 0),
                false => refused += 1,
            }
            reads.iter().for_each(|read| pace.end(*read, ms(round + 1)));
        }
        assert!(refused > 0 && extra <= 50_000 / SHARE + SAVED / SEEK, "{extra}");
        assert_eq!((pace.counts().reads, pace.counts().late), (50_000 + extra, extra));
    }

    #[test]
    fn where_most_are_late_nobody_is() {
        let mut pace = Pace::default();
        let reads: Vec<u64> = (0..4).map(|n| pace.begin(&n.to_string(), 9, false, ms(0))).collect();
        assert!(!pace.give_up(&reads[..3], 4) && pace.give_up(&reads[..2], 4));
        assert!(pace.is_left_out("0", ms(5)) && !pace.is_left_out("2", ms(5)));
        pace.end(reads[0], ms(100));
        assert!(pace.is_left_out("0", ms(1_099)) && !pace.is_left_out("0", ms(1_100)));
        assert!(pace.give_up(&[pace.next], 1), "one that is alone may be late");
    }
}
