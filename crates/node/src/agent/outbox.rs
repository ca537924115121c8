//! What an agent has to send to others for its tasks: in which order, and how much at once.
//!
//! All tasks share the connection to a peer. The oldest task goes first, and of a task the lowest
//! window: what a receiver needs next must not queue behind what it needs later. So only a little
//! is handed to the connection, about what it delivered lately, and the rest waits here, in order.
//! Small parcels of one window travel together: each frame costs bytes of its own, and an answer.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::tasks::TaskId;
use crate::pace::Pace;
use crate::task::Parcel;

/// Bytes on the way to a peer at least: enough to begin with, and little on a slow link. Where
/// twenty send to one at 100 Mbit/s, this is a queue of 100 ms; from 200 ms on TCP sends again what
/// is only late.
const LEAST: u64 = 64 << 10;
/// Bytes on the way to a peer at most, well below the credit of its connection.
const MOST: u64 = 8 << 20;
/// Parcels travel together up to so many bytes; a connection sends that in a few packets.
const TOGETHER: u64 = 64 << 10;
/// What was not answered for so long is held back by its receiver until its turn comes; it is not
/// on the way any more. Nothing else breaks the circle when tasks wait for one another. It is this
/// time, or less where answers come fast: see [`Lane::held`].
const HELD: Duration = Duration::from_millis(300);
/// Of so many answers the fastest tells how long a frame is on the way now.
const ANSWERS: usize = 4;
/// What is on the way may be half of what was delivered in this time. Answers come in bursts, since
/// receivers hold them back for a while: a shorter time would take a burst for a fast link.
const PERIOD: Duration = Duration::from_millis(200);

/// Where a parcel stands in the queue: age of its task, window, when it was put here.
type Turn = (u64, u64, u64);

#[derive(Debug)]
struct Entry {
    task: TaskId,
    parcel: Parcel,
}

/// Names a frame on its way.
type Flight = (u64, u64, u32, u32);

/// A frame that is not answered.
#[derive(Debug)]
struct Frame {
    sent: Duration,
    bytes: u64,
    /// It is taken for held back.
    held: bool,
    /// It went although the limit was reached.
    beyond: bool,
}

/// The way to one peer.
#[derive(Debug)]
struct Lane {
    waiting: BTreeMap<Turn, Entry>,
    /// Frames on the way, by age of their task, window, piece and offset of their first parcel.
    flying: BTreeMap<Flight, Frame>,
    /// Age of the task that went beyond the limit last.
    latest: u64,
    /// How long the last answers took.
    took: VecDeque<Duration>,
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
    pub fn next(&mut self, now: Duration, address: &str) -> Option<(TaskId, Vec<Parcel>)> {
        let lane = self.lanes.get_mut(address)?;
        let held = lane.held();
        lane.flying.values_mut().for_each(|frame| frame.held |= frame.sent + held <= now);
        let (turn, beyond) = lane.turn()?;
        let Entry { task, parcel } = lane.waiting.remove(&turn)?;
        let (age, window, _) = turn;
        if beyond {
            lane.latest = age;
        }
        let flight = (age, window, parcel.piece, parcel.at);
        let (mut sum, mut parcels) = (parcel.bytes.len() as u64, vec![parcel]);
        while let Some(entry) = lane.waiting.range((age, window, 0)..(age, window + 1, 0)).next() {
            let (turn, bytes) = (*entry.0, entry.1.parcel.bytes.len() as u64);
            if sum + bytes > TOGETHER {
                break;
            }
            sum += bytes;
            parcels.extend(lane.waiting.remove(&turn).map(|entry| entry.parcel));
        }
        lane.flying.insert(flight, Frame { sent: now, bytes: sum, held: false, beyond });
        *lane.under_way.entry((age, window)).or_default() += parcels.len() as u32;
        Some((task, parcels))
    }

    /// Parcels were answered, whatever the answer.
    pub fn settled(&mut self, now: Duration, task: TaskId, address: &str, parcels: &[Parcel]) {
        let (Some(lane), Some(age)) = (self.lanes.get_mut(address), self.ages.get(&task)) else {
            return;
        };
        let flight = |first: &Parcel| (*age, first.window, first.piece, first.at);
        if let Some(frame) = parcels.first().and_then(|first| lane.flying.remove(&flight(first))) {
            lane.took.truncate(ANSWERS - 1);
            lane.took.push_front(now.saturating_sub(frame.sent));
        }
        for parcel in parcels {
            let (window, bytes) = (parcel.window, parcel.bytes.len() as u64);
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

    /// When something that waits may go although nothing was answered.
    pub fn wake_at(&self) -> Option<Duration> {
        let lanes = self.lanes.values().filter(|lane| !lane.waiting.is_empty());
        let each = lanes.flat_map(|lane| {
            let fresh = lane.flying.values().filter(|frame| !frame.held);
            fresh.map(|frame| frame.sent + lane.held())
        });
        each.min()
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
        let (flying, took, pace) = (BTreeMap::new(), VecDeque::new(), Pace::new(PERIOD));
        Lane { waiting, flying, latest: 0, took, under_way, pace }
    }

    /// After how long without an answer a frame is held back: a few times what the fastest of the
    /// last answers took. A queue on the way lets all of them take longer.
    fn held(&self) -> Duration {
        match self.took.iter().min() {
            Some(least) if self.took.len() == ANSWERS => (3 * *least + HELD / 10).min(HELD),
            _ => HELD,
        }
    }

    /// Whose turn it is, and whether it goes beyond the limit. Receivers hold back the answer to
    /// what comes too early for them, so tasks must not be able to block one another: a parcel
    /// below all windows of its task that are on the way may go when the limit is reached, but one
    /// at a time, tasks in turn, so that none starves. If each task could send one, twenty tasks of
    /// twenty agents would flood the port of the node that all of them send to.
    fn turn(&self) -> Option<(Turn, bool)> {
        let (first, entry) = self.waiting.first_key_value()?;
        let limit = LEAST.max(self.pace.lately() / 2).min(MOST);
        let fresh = || self.flying.values().filter(|frame| !frame.held);
        let bytes: u64 = fresh().map(|frame| frame.bytes).sum();
        if bytes == 0 || bytes + entry.parcel.bytes.len() as u64 <= limit {
            return Some((*first, false));
        }
        if fresh().any(|frame| frame.beyond) {
            return None;
        }
        let after = (self.latest + 1, 0, 0);
        let turn = self.below(after, (u64::MAX, 0, 0)).or_else(|| self.below((0, 0, 0), after));
        turn.map(|turn| (turn, true))
    }

    /// The lowest window of the first task in a range that waits with one below all on the way.
    fn below(&self, mut from: Turn, to: Turn) -> Option<Turn> {
        while let Some((turn, _)) = self.waiting.range(from..to).next() {
            let (age, window, _) = *turn;
            let below = self.under_way.range((age, 0)..(age + 1, 0)).next();
            if below.is_none_or(|((_, lowest), _)| window < *lowest) {
                return Some(*turn);
            }
            from = (age + 1, 0, 0);
            if from >= to {
                break;
            }
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

    fn drain(outbox: &mut Outbox, now: Duration) -> Vec<(TaskId, u64)> {
        let frames = std::iter::from_fn(|| outbox.next(now, "x"));
        frames.map(|(task, parcels)| (task, parcels[0].window)).collect()
    }

    #[test]
    fn the_oldest_task_and_the_lowest_window_go_first() {
        let mut outbox = Outbox::default();
        for (task, window) in [(A, 5), (B, 0), (A, 3), (A, 4), (B, 1)] {
            outbox.put(task, "x", parcel(window, 1000));
        }
        assert_eq!(drain(&mut outbox, Duration::ZERO), [(A, 3), (A, 4), (A, 5), (B, 0), (B, 1)]);
        assert!(outbox.addresses().is_empty());
    }

    #[test]
    fn what_is_on_the_way_is_limited_and_grows_with_what_is_delivered() {
        let mut outbox = Outbox::default();
        let half = LEAST as usize / 2;
        (0..400).for_each(|window| outbox.put(A, "x", parcel(window, half)));
        let mut sent = drain(&mut outbox, Duration::ZERO);
        assert_eq!(sent.len(), 2);
        // Everything is answered within a millisecond: the limit doubles again and again.
        let mut most = 0;
        for now in (1..=40).map(Duration::from_millis) {
            for (task, window) in sent {
                outbox.settled(now, task, "x", &[parcel(window, half)]);
            }
            sent = drain(&mut outbox, now);
            most = most.max(sent.len());
        }
        assert!(most > 8, "{most}");
        assert!(most as u64 * half as u64 <= MOST);
    }

    #[test]
    fn small_parcels_of_one_window_travel_together_and_no_others() {
        let mut outbox = Outbox::default();
        let third = TOGETHER as usize / 3;
        for (task, window) in [(A, 1), (B, 1), (A, 2), (A, 1), (B, 1), (A, 1), (A, 1)] {
            outbox.put(task, "x", parcel(window, third));
        }
        let mut frames = Vec::new();
        while let Some((task, parcels)) = outbox.next(Duration::ZERO, "x") {
            frames.push((task, parcels[0].window, parcels.len()));
            outbox.settled(Duration::ZERO, task, "x", &parcels);
        }
        assert_eq!(frames, [(A, 1, 3), (A, 1, 1), (A, 2, 1), (B, 1, 2)]);
        assert!(outbox.lanes.is_empty());
    }

    #[test]
    fn no_task_waits_for_the_answers_of_another_one() {
        let mut outbox = Outbox::default();
        (10..20).for_each(|window| outbox.put(A, "x", parcel(window, LEAST as usize)));
        assert_eq!(drain(&mut outbox, Duration::ZERO), [(A, 10)]);
        // The receiver holds A's answer back until something lower comes.
        outbox.put(B, "x", parcel(3, 1000));
        outbox.put(B, "x", parcel(4, LEAST as usize));
        outbox.put(A, "x", parcel(9, LEAST as usize));
        // One goes beyond the limit, ...
        assert_eq!(drain(&mut outbox, Duration::ZERO), [(A, 9)]);
        assert_eq!(outbox.wake_at(), Some(HELD));
        // ... and everything goes on when both are taken for held back.
        assert_eq!(drain(&mut outbox, HELD), [(A, 11), (B, 3)]);
    }

    #[test]
    fn tasks_take_turns_beyond_the_limit() {
        let (mut outbox, third) = (Outbox::default(), [3; 16]);
        for (task, window) in [A, B, third].into_iter().flat_map(|t| [(t, 0), (t, 1), (t, 2)]) {
            outbox.put(task, "x", parcel(window, LEAST as usize));
        }
        assert_eq!(drain(&mut outbox, Duration::ZERO), [(A, 0), (B, 0)]);
        outbox.settled(Duration::ZERO, B, "x", &[parcel(0, LEAST as usize)]);
        assert_eq!(drain(&mut outbox, Duration::ZERO), [(third, 0)]);
        outbox.settled(Duration::ZERO, third, "x", &[parcel(0, LEAST as usize)]);
        assert_eq!(drain(&mut outbox, Duration::ZERO), [(B, 1)]);
    }

    #[test]
    fn a_task_that_is_forgotten_leaves_nothing_behind() {
        let mut outbox = Outbox::default();
        (0..3).for_each(|window| outbox.put(A, "x", parcel(window, LEAST as usize)));
        assert_eq!(drain(&mut outbox, Duration::ZERO), [(A, 0)]);
        outbox.forget(A);
        assert_eq!(drain(&mut outbox, Duration::ZERO), []);
        outbox.settled(Duration::ZERO, A, "x", &[parcel(0, LEAST as usize)]);
        assert!(outbox.lanes.is_empty() && outbox.ages.is_empty() && outbox.ended.is_empty());
    }
}
