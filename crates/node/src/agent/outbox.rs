//! What an agent has to send to others for its tasks: in which order, and how much at once.
//!
//! All tasks share the connection to a peer. The oldest task goes first, and of a task the lowest
//! window: what a receiver needs next must not queue behind what it needs later. So only a little
//! is handed to the connection, about what it delivered lately, and the rest waits here, in order.
//! Small parcels of one window travel together: each frame costs bytes of its own, and an answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::tasks::TaskId;
use crate::pace::Pace;
use crate::task::Parcel;

/// Bytes on the way to a peer at least: enough to begin with, and little on a slow link.
const LEAST: u64 = 128 << 10;
/// Bytes on the way to a peer at most, well below the credit of its connection.
const MOST: u64 = 8 << 20;
/// Parcels travel together up to so many bytes; a connection sends that in a few packets.
const TOGETHER: u64 = 64 << 10;
/// What is on the way may be what was delivered in this time, twice.
const PERIOD: Duration = Duration::from_millis(50);

/// Where a parcel stands in the queue: age of its task, window, when it was put here.
type Turn = (u64, u64, u64);

#[derive(Debug)]
struct Entry {
    task: TaskId,
    parcel: Parcel,
}

/// The way to one peer.
#[derive(Debug)]
struct Lane {
    waiting: BTreeMap<Turn, Entry>,
    /// Bytes on the way.
    bytes: u64,
    /// Parcels on the way of each task (by age) and window.
    under_way: BTreeMap<(u64, u64), u32>,
    /// Bytes delivered.
    pace: Pace,
}

/// Parcels that wait, by the address of their receiver.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    lanes: BTreeMap<String, Lane>,
    ages: BTreeMap<TaskId, u64>,
    /// Tasks that ended while parcels of theirs were on the way.
    ended: BTreeSet<TaskId>,
    count: u64,
}

impl Outbox {
    /// Takes a parcel; [`Outbox::next`] gives it when it is its turn.
    pub fn put(&mut self, task: TaskId, address: &str, parcel: Parcel) {
        let age = self.age(task);
        self.count += 1;
        let turn = (age, parcel.window, self.count);
        let lane = self.lanes.entry(address.to_owned()).or_insert_with(Lane::new);
        lane.waiting.insert(turn, Entry { task, parcel });
    }

    fn age(&mut self, task: TaskId) -> u64 {
        self.count += 1;
        *self.ages.entry(task).or_insert(self.count)
    }

    /// The next parcels to be sent to an address in one frame, all of one window, if any may be
    /// sent now.
    pub fn next(&mut self, address: &str) -> Option<(TaskId, Vec<Parcel>)> {
        let lane = self.lanes.get_mut(address)?;
        let turn = lane.turn()?;
        let Entry { task, parcel } = lane.waiting.remove(&turn)?;
        let (age, window, _) = turn;
        let (mut sum, mut parcels) = (parcel.bytes.len() as u64, vec![parcel]);
        while let Some(entry) = lane.waiting.range((age, window, 0)..(age, window + 1, 0)).next() {
            let (turn, bytes) = (*entry.0, entry.1.parcel.bytes.len() as u64);
            if sum + bytes > TOGETHER {
                break;
            }
            sum += bytes;
            parcels.extend(lane.waiting.remove(&turn).map(|entry| entry.parcel));
        }
        lane.bytes += sum;
        *lane.under_way.entry((age, window)).or_default() += parcels.len() as u32;
        Some((task, parcels))
    }

    /// Parcels were answered, whatever the answer.
    pub fn settled(&mut self, now: Duration, task: TaskId, address: &str, parcels: &[Parcel]) {
        let (Some(lane), Some(age)) = (self.lanes.get_mut(address), self.ages.get(&task)) else {
            return;
        };
        for parcel in parcels {
            let (window, bytes) = (parcel.window, parcel.bytes.len() as u64);
            lane.bytes = lane.bytes.saturating_sub(bytes);
            if let Some(count) = lane.under_way.get_mut(&(*age, window)) {
                *count -= 1;
                if *count == 0 {
                    lane.under_way.remove(&(*age, window));
                }
            }
            lane.pace.note(now, bytes);
        }
        if lane.waiting.is_empty() && lane.under_way.is_empty() {
            self.lanes.remove(address);
        }
        if self.ended.contains(&task) {
            self.forget(task);
        }
    }

    /// Drops what waits of a task. What is on the way is still to be answered.
    pub fn forget(&mut self, task: TaskId) {
        self.lanes.values_mut().for_each(|lane| lane.waiting.retain(|_, e| e.task != task));
        let Some(age) = self.ages.get(&task) else { return };
        let answers = |lane: &Lane| lane.under_way.keys().any(|(of, _)| of == age);
        if self.lanes.values().any(answers) {
            self.ended.insert(task);
            return;
        }
        self.ages.remove(&task);
        self.ended.remove(&task);
        self.lanes.retain(|_, lane| !lane.waiting.is_empty() || !lane.under_way.is_empty());
    }

    /// Addresses for which something waits.
    pub fn addresses(&self) -> Vec<String> {
        let waits = self.lanes.iter().filter(|(_, lane)| !lane.waiting.is_empty());
        waits.map(|(address, _)| address.clone()).collect()
    }
}

impl Lane {
    fn new() -> Lane {
        let (waiting, under_way) = (BTreeMap::new(), BTreeMap::new());
        Lane { waiting, bytes: 0, under_way, pace: Pace::new(PERIOD) }
    }

    /// Whose turn it is. Receivers hold back the answer to what comes too early for them, so
    /// tasks must not be able to block one another: whatever is on the way, a parcel below all
    /// windows of its task that are on the way may go.
    fn turn(&self) -> Option<Turn> {
        let (first, entry) = self.waiting.first_key_value()?;
        let limit = LEAST.max(2 * self.pace.lately()).min(MOST);
        if self.bytes == 0 || self.bytes + entry.parcel.bytes.len() as u64 <= limit {
            return Some(*first);
        }
        let mut from = (0, 0, 0);
        // The lowest window of each task that waits.
        while let Some((turn, _)) = self.waiting.range(from..).next() {
            let (age, window, _) = *turn;
            let below = self.under_way.range((age, 0)..(age + 1, 0)).next();
            if below.is_none_or(|((_, lowest), _)| window < *lowest) {
                return Some(*turn);
            }
            from = (age + 1, 0, 0);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    const A: TaskId = [1; 16];
    const B: TaskId = [2; 16];

    fn parcel(window: u64, bytes: usize) -> Parcel {
        let (bytes, total) = (Bytes::from(vec![7; bytes]), bytes as u32);
        Parcel { window, piece: 0, to: 0, at: 0, total, bytes }
    }

    fn drain(outbox: &mut Outbox) -> Vec<(TaskId, u64)> {
        let frames = std::iter::from_fn(|| outbox.next("x"));
        frames.map(|(task, parcels)| (task, parcels[0].window)).collect()
    }

    #[test]
    fn the_oldest_task_and_the_lowest_window_go_first() {
        let mut outbox = Outbox::default();
        for (task, window) in [(A, 5), (B, 0), (A, 3), (A, 4), (B, 1)] {
            outbox.put(task, "x", parcel(window, 1000));
        }
        assert_eq!(drain(&mut outbox), [(A, 3), (A, 4), (A, 5), (B, 0), (B, 1)]);
        assert!(outbox.addresses().is_empty());
    }

    #[test]
    fn what_is_on_the_way_is_limited_and_grows_with_what_is_delivered() {
        let mut outbox = Outbox::default();
        let half = LEAST as usize / 2;
        (0..400).for_each(|window| outbox.put(A, "x", parcel(window, half)));
        assert_eq!(drain(&mut outbox).len(), 2);
        // Everything is answered within a millisecond: the limit doubles again and again.
        let mut most = 0;
        let mut window = 0;
        for ms in 1..=40 {
            for answered in window..window + 8 {
                outbox.settled(Duration::from_millis(ms), A, "x", &[parcel(answered, half)]);
            }
            window += 8;
            most = most.max(drain(&mut outbox).len());
        }
        assert!(most > 8, "{most}");
        assert!(outbox.lanes["x"].bytes <= MOST);
    }

    #[test]
    fn small_parcels_of_one_window_travel_together_and_no_others() {
        let mut outbox = Outbox::default();
        for (task, window) in [(A, 1), (B, 1), (A, 2), (A, 1), (B, 1)] {
            outbox.put(task, "x", parcel(window, 1000));
        }
        outbox.put(A, "x", parcel(1, TOGETHER as usize));
        let frames = std::iter::from_fn(|| outbox.next("x"));
        let frames: Vec<_> = frames.map(|(task, p)| (task, p[0].window, p.len())).collect();
        assert_eq!(frames, [(A, 1, 2), (A, 1, 1), (A, 2, 1), (B, 1, 2)]);
        let answered = [parcel(1, 1000), parcel(1, 1000)];
        outbox.settled(Duration::ZERO, A, "x", &answered);
        outbox.settled(Duration::ZERO, B, "x", &answered);
        outbox.settled(Duration::ZERO, A, "x", &[parcel(1, TOGETHER as usize)]);
        outbox.settled(Duration::ZERO, A, "x", &[parcel(2, 1000)]);
        assert!(outbox.lanes.is_empty());
    }

    #[test]
    fn no_task_waits_for_the_answers_of_another_one() {
        let mut outbox = Outbox::default();
        (10..20).for_each(|window| outbox.put(A, "x", parcel(window, LEAST as usize)));
        assert_eq!(drain(&mut outbox), [(A, 10)]);
        // The receiver holds A's answer back until something lower comes.
        outbox.put(B, "x", parcel(3, 1000));
        outbox.put(B, "x", parcel(4, LEAST as usize));
        outbox.put(A, "x", parcel(9, LEAST as usize));
        assert_eq!(drain(&mut outbox), [(A, 9), (B, 3)]);
    }

    #[test]
    fn a_task_that_is_forgotten_leaves_nothing_behind() {
        let mut outbox = Outbox::default();
        (0..3).for_each(|window| outbox.put(A, "x", parcel(window, LEAST as usize)));
        assert_eq!(drain(&mut outbox), [(A, 0)]);
        outbox.forget(A);
        assert_eq!(drain(&mut outbox), []);
        outbox.settled(Duration::ZERO, A, "x", &[parcel(0, LEAST as usize)]);
        assert!(outbox.lanes.is_empty() && outbox.ages.is_empty() && outbox.ended.is_empty());
    }
}
