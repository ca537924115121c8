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
/// Of all bytes read one in so many may be read in place of late ones.
const SHARE: u64 = 16;
/// Bytes that count for a read beside its own: the device has to seek.
const SEEK: u64 = 64 << 10;
/// Bytes of additional reads that may be saved up.
const SAVED: u64 = 32 << 20;
/// A node that was late is probed after so many times its delay, and after at most so long.
const TIMES: u32 = 10;
const LEFT_OUT: Duration = Duration::from_secs(10);
/// A slow node takes part again after so many probes in time, so far apart: one that stands still
/// for most of the time answers some of them.
const PROBES: u32 = 3;
const APART: Duration = Duration::from_millis(100);

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

/// Reasons of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It was asked for.
    Wanted,
    /// It replaces a late one.
    Instead,
    /// It is read to do without a slow node.
    Around,
    /// It shows whether a slow node is quick again; nothing waits for it.
    Probe,
}

/// Measured times of one node's reads.
#[derive(Debug, Default)]
struct Node {
    recent: [VecDeque<Duration>; SIZES.len()],
    /// Reads under way that are not waited for.
    late: usize,
    slow: Option<Slow>,
}

/// State of a node that was late.
#[derive(Clone, Copy, Debug)]
struct Slow {
    /// The largest size that was late: for a time smaller reads prove nothing.
    size: usize,
    since: Duration,
    /// The longest of its late reads.
    took: Duration,
    /// Time of the next probe; that of one under way comes after its end.
    probe: Duration,
    under_way: bool,
    /// Probes in time, one after the other.
    good: u32,
}

impl Slow {
    fn proves(&self, size: usize, now: Duration) -> bool {
        now >= self.probe && (size >= self.size || now >= self.since + LEFT_OUT)
    }
}

/// One read under way.
#[derive(Debug)]
struct Read {
    node: String,
    bytes: u64,
    begun: Duration,
    late: bool,
    probe: bool,
}

/// Decides how long a read is waited for, whether others may be asked in its place, and which nodes
/// are left out for now.
///
/// A read is late when it takes twice as long as 95 of 100 recent ones of its size take on the
/// node in the middle of all nodes: a slow node, or several, cannot make itself the measure. A node
/// that was late is read around until probes, which nothing waits for, come in time. All that is
/// read for this is less than was asked for, but for a burst; where it would be more, or most nodes
/// are slow, slow nodes are waited for.
#[derive(Debug)]
pub struct Pace {
    nodes: BTreeMap<String, Node>,
    reads: BTreeMap<u64, Read>,
    next: u64,
    patience: [Duration; SIZES.len()],
    /// Reads of each size since it was measured.
    unmeasured: [u32; SIZES.len()],
    saved: u64,
    /// Bytes of all that may be read beside what was asked for; below zero by one stripe at most.
    spare: i64,
    counts: HedgeCounts,
}

impl Default for Pace {
    fn default() -> Pace {
        let (nodes, reads, counts) = (BTreeMap::new(), BTreeMap::new(), HedgeCounts::default());
        let patience = [UNMEASURED; SIZES.len()];
        let unmeasured = [0; SIZES.len()];
        let (saved, spare) = (SAVED, SAVED as i64);
        Pace { nodes, reads, next: 0, patience, unmeasured, saved, spare, counts }
    }
}

fn size(bytes: u64) -> usize {
    SIZES.iter().position(|most| bytes <= *most).unwrap_or(SIZES.len() - 1)
}

impl Pace {
    /// Notes that a read begins; returns its number.
    pub fn begin(&mut self, node: &str, bytes: u64, purpose: Purpose, now: Duration) -> u64 {
        let cost = bytes + SEEK;
        if purpose == Purpose::Wanted {
            self.earn(cost);
        } else {
            self.spare = self.spare.saturating_sub_unsigned(cost);
            self.counts.extra_bytes += bytes;
        }
        if purpose == Purpose::Instead {
            self.saved = self.saved.saturating_sub(cost);
        }
        self.counts.reads += 1;
        self.next += 1;
        let probe = purpose == Purpose::Probe;
        let read = Read { node: node.to_owned(), bytes, begun: now, late: false, probe };
        self.reads.insert(self.next, read);
        self.nodes.entry(node.to_owned()).or_default();
        self.next
    }

    fn earn(&mut self, cost: u64) {
        self.saved = SAVED.min(self.saved + cost / SHARE);
        self.spare = (SAVED as i64).min(self.spare.saturating_add_unsigned(cost));
    }

    /// Notes that a read ended.
    pub fn end(&mut self, read: u64, now: Duration) {
        let Some(read) = self.reads.remove(&read) else { return };
        let took = now.saturating_sub(read.begun);
        let (patience, of) = (self.patience(read.bytes), size(read.bytes));
        let node = self.nodes.entry(read.node).or_default();
        let later = now + LEFT_OUT.min(took * TIMES);
        if read.late {
            node.late -= 1;
            let (size, took, probe) = node.slow.map_or((of, took, later), |slow| {
                (of.max(slow.size), took.max(slow.took), later.max(slow.probe))
            });
            node.slow = Some(Slow { size, since: now, took, probe, under_way: false, good: 0 });
        } else if let Some(slow) = &mut node.slow {
            slow.under_way &= !read.probe;
            if took > patience {
                (slow.good, slow.probe) = (0, slow.probe.max(later));
            } else if slow.proves(of, read.begun) {
                (slow.good, slow.probe) = (slow.good + 1, now + APART);
                node.slow = node.slow.filter(|slow| slow.good < PROBES);
            }
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
        if (late.len() * 2 > of && of > 1) || self.saved < SEEK || self.spare <= 0 {
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

    /// Returns whether a node is better not asked now: a read of it is late, or was and no probes
    /// came in time since. Of more than half of the nodes only the slowest are: a busy machine
    /// makes all of them late now and then, and those that stand still would hide among them.
    pub fn is_left_out(&self, node: &str) -> bool {
        let delay = |node: &Node| match node.late {
            0 => node.slow.map(|slow| slow.took),
            _ => Some(Duration::MAX),
        };
        let Some(own) = self.nodes.get(node).and_then(delay) else { return false };
        let slower = self.nodes.values().filter_map(delay).filter(|other| *other >= own);
        slower.count() * 2 <= self.nodes.len()
    }

    /// Asks whether a read that is wanted of a node is left out, and its bytes made of others:
    /// these count as [`Purpose::Around`], that one as read.
    pub fn avoid(&mut self, node: &str, bytes: u64) -> bool {
        let avoid = self.spare > 0 && self.is_left_out(node);
        if avoid {
            self.earn(bytes + SEEK);
        }
        avoid
    }

    /// Asks whether a node that is left out should be read once more, to see if it is quick again.
    pub fn probe(&mut self, node: &str, bytes: u64, now: Duration) -> bool {
        let Some(node) = self.nodes.get_mut(node).filter(|node| node.late == 0) else {
            return false;
        };
        let due = |slow: &&mut Slow| !slow.under_way && slow.proves(size(bytes), now);
        let Some(slow) = node.slow.as_mut().filter(due) else { return false };
        slow.under_way = self.spare > 0;
        slow.under_way
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> HedgeCounts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use kiln_store::SplitMix64;

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
            let left_out = pace.avoid("0", 4096);
            if pace.probe("0", 4096, now) {
                away.push((pace.begin("0", 4096, Purpose::Probe, now), now + slow));
            }
            asked += u64::from(!left_out);
            let names = (u64::from(left_out)..nodes).map(|node| node.to_string());
            let reads: Vec<u64> =
                names.map(|n| pace.begin(&n, 4096, Purpose::Wanted, now)).collect();
            let quick = usize::from(!left_out);
            reads[quick..].iter().for_each(|read| pace.end(*read, now + ms(5)));
            let mut took = ms(5);
            if !left_out {
                let patience = pace.patience(4096);
                took = slow.min(patience);
                let late = slow > patience && pace.give_up(&reads[..1], reads.len());
                if late {
                    away.push((reads[0], now + slow));
                    let extra = pace.begin("1", 4096, Purpose::Instead, now + took);
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
                names.map(|n| pace.begin(&n.to_string(), 0, Purpose::Wanted, ms(round))).collect();
            match pace.give_up(&reads[..1], 10) {
                true => extra += u64::from(pace.begin("x", 0, Purpose::Instead, ms(round)) > 0),
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
        let reads: Vec<u64> =
            (0..4).map(|n| pace.begin(&n.to_string(), 9, Purpose::Wanted, ms(0))).collect();
        assert!(!pace.give_up(&reads[..3], 4) && pace.give_up(&reads[..2], 4));
        assert!(pace.is_left_out("0") && !pace.is_left_out("2"));
        pace.end(reads[0], ms(100));
        assert!(pace.is_left_out("0") && !pace.probe("0", 9, ms(1_099)));
        assert!(pace.probe("0", 9, ms(1_100)) && !pace.probe("0", 9, ms(1_101)), "one at a time");
        assert!(pace.give_up(&[pace.next], 1), "one that is alone may be late");
    }

    #[test]
    fn whatever_is_slow_less_than_twice_of_what_is_wanted_is_read() {
        for seed in 0..16u64 {
            let mut random = SplitMix64(seed);
            let mut draw = |below: u64| random.next() % below;
            let (mut pace, nodes, helpers) = (Pace::default(), 3 + draw(20), 1 + draw(40));
            let mut delays: Vec<Duration> = (0..nodes).map(|_| ms(5)).collect();
            let (mut wanted, mut all, mut most, mut waits) = (0, 0, 0, Vec::new());
            for now in (0..4_000).map(ms) {
                if draw(200) == 0 {
                    delays[draw(nodes) as usize] = ms(5 + draw(2) * draw(3_000));
                }
                waits.retain(|(read, ends)| {
                    let is_over = *ends <= now;
                    is_over.then(|| pace.end(*read, *ends));
                    !is_over
                });
                let (node, bytes) = (draw(nodes), draw(2 << 20));
                let (delay, name, cost) = (delays[node as usize], node.to_string(), bytes + SEEK);
                (wanted, most) = (wanted + cost, cost.max(most));
                let mut read = |pace: &mut Pace, name: &str, purpose| {
                    all += cost;
                    let read = pace.begin(name, bytes, purpose, now);
                    waits.push((read, now + delay));
                    read
                };
                if pace.probe(&name, bytes, now) {
                    read(&mut pace, &name, Purpose::Probe);
                }
                let purpose = if pace.avoid(&name, bytes) {
                    Purpose::Around
                } else {
                    let number = read(&mut pace, &name, Purpose::Wanted);
                    if delay <= pace.patience(bytes) || !pace.give_up(&[number], 1) {
                        continue;
                    }
                    Purpose::Instead
                };
                for _ in 0..helpers {
                    read(&mut pace, "another", purpose);
                }
            }
            let bound = 2 * wanted + SAVED + (helpers + 1) * most;
            assert!(all <= bound, "seed {seed}: {all} of {bound}");
        }
    }

    #[test]
    fn a_node_takes_part_again_after_probes_in_time_and_apart() {
        let mut pace = Pace::default();
        for node in ["0", "1", "2", "3"] {
            pace.begin(node, 0, Purpose::Wanted, ms(0));
        }
        let big = pace.begin("0", 1 << 20, Purpose::Wanted, ms(0));
        assert!(pace.give_up(&[big], 1));
        pace.end(big, ms(400));
        assert!(pace.is_left_out("0") && pace.avoid("0", 9) && !pace.avoid("1", 9));
        // When a probe begins, how long it takes, and when the next one is due: once in time is not
        // enough, and a late one begins anew.
        let probes = [
            (4_400, 10, 4_510),
            (4_510, 10, 4_620),
            (4_620, 500, 10_120),
            (10_120, 1, 10_221),
            (10_221, 1, 10_322),
            (10_322, 1, 0),
        ];
        for (at, took, next) in probes {
            assert!(!pace.probe("0", 4096, ms(at)), "smaller reads prove nothing");
            assert!(!pace.probe("0", 1 << 20, ms(at - 1)) && pace.probe("0", 1 << 20, ms(at)));
            let probe = pace.begin("0", 1 << 20, Purpose::Probe, ms(at));
            pace.end(probe, ms(at + took));
            assert_eq!(pace.is_left_out("0"), next > 0, "{at}");
        }
        // Of four nodes two may be slow; of three slow ones none is.
        for node in ["1", "2", "3"] {
            let late = pace.begin(node, 0, Purpose::Wanted, ms(20_000));
            assert!(pace.give_up(&[late], 1));
            assert_eq!(pace.is_left_out("1"), node != "3");
        }
        // Once their reads end it is the slowest of them that are left out.
        for (number, took) in [(2, 31), (1, 200), (0, 30)] {
            pace.end(pace.next - number, ms(20_000 + took));
        }
        assert_eq!(["1", "2", "3"].map(|node| pace.is_left_out(node)), [true, true, false]);
    }
}
