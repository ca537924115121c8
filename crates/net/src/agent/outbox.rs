//! Fragments that an agent sends for its tasks: their order, and the amount at once.
//!
//! All tasks share the connection to a peer. A peer says with every answer up to which window of a
//! task it has room; what is beyond stays here, so nothing is sent that would have to wait there,
//! and whatever is on the way is answered as soon as it arrives. Of what may go the lowest window
//! goes first, whichever task it is of: all agents then prefer the same windows, so that these are
//! complete soon, and no task starves. Where several peers could be sent to, those that the lowest
//! window is for get twice as much as the others. Only a little is handed to the connection, about
//! what it delivered lately, and the rest waits here, in order. Small fragments of one window
//! travel together: each frame costs bytes of its own, and an answer.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;

use super::TaskId;
use crate::{pace::Pace, task::Fragment};

/// Bytes on the way to a peer at least: enough to begin with, and little on a slow link. Where
/// twenty send to one at 100 Mbit/s, this is a queue of 100 ms; from 200 ms on TCP sends again what
/// is only late.
const LEAST: u64 = 64 << 10;
/// Bytes on the way to a peer at most, well below the credit of its connection.
const MOST: u64 = 8 << 20;
/// Fragments travel together up to so many bytes; a connection sends that in a few packets.
const TOGETHER: u64 = 64 << 10;
/// With much delivered lately, they do so up to half of what may be on the way, and at most
/// up to this.
const MOST_TOGETHER: u64 = 256 << 10;
/// Half of what was delivered in this time may be on the way. Answers come in bursts: a
/// shorter time would take a burst for a fast link.
const PERIOD: Duration = Duration::from_millis(200);

/// Waiting fragments of one task for one peer.
#[derive(Debug)]
struct TaskQueue {
    /// Added to its windows it says when they are due beside those of other tasks.
    start: u64,
    /// The peer has room for windows below this one.
    upto: u64,
    /// Windows for which the peer was asked whether it has room, or will be asked again: the answer
    /// comes when it has. Windows are not ready in their order, so there may be several; a lower
    /// one is asked for by itself, since the peer may wait for just that.
    asked: BTreeSet<u64>,
    /// Frames on the way, requests for room left out.
    under_way: u32,
    /// By window and when it came.
    waiting: BTreeMap<(u64, u64), Fragment>,
}

/// The way to one peer.
#[derive(Debug)]
struct PeerQueue {
    queues: BTreeMap<TaskId, TaskQueue>,
    /// Frames and bytes on the way, of tasks that have ended too.
    frames: u32,
    bytes: u64,
    /// Bytes delivered.
    pace: Pace,
}

/// Fragments that wait, by the address of their receiver.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    peers: BTreeMap<String, PeerQueue>,
    count: u64,
    /// When what went last was due.
    clock: u64,
}

impl Outbox {
    /// Takes a fragment; [`Outbox::next`] gives it when it is its turn. One without bytes is a
    /// request for room that is to be asked again.
    pub fn put(&mut self, task: TaskId, address: &str, fragment: Fragment) {
        self.count += 1;
        let (count, now) = (self.count, self.urgent().map_or(self.clock, |(due, _)| due));
        let peer = self.peers.entry(address.to_owned()).or_insert_with(PeerQueue::new);
        let start = now.saturating_sub(fragment.window);
        // A new task begins where the others are.
        let new = TaskQueue {
            start,
            upto: 0,
            asked: BTreeSet::new(),
            under_way: 0,
            waiting: BTreeMap::new(),
        };
        let queue = peer.queues.entry(task).or_insert(new);
        if fragment.bytes.is_empty() {
            queue.asked.remove(&fragment.window);
        } else {
            queue.waiting.insert((fragment.window, count), fragment);
        }
    }

    /// The next fragments to be sent to an address in one frame, all of one window, if any may be
    /// sent now. One without bytes asks for room.
    pub fn next(&mut self, address: &str) -> Option<(TaskId, Vec<Fragment>)> {
        let urgent = self.urgent();
        let peer = self.peers.get_mut(address)?;
        if let Some((task, fragment)) = peer.question() {
            peer.frames += 1;
            return Some((task, vec![fragment]));
        }
        let (task, queue) = peer.queues.iter_mut().filter(|(_, queue)| queue.may_go()).min_by_key(
            // Of several the same one at every agent, since names of tasks are the same everywhere.
            |(task, queue)| (queue.due(), **task),
        )?;
        let ((window, _), first) = queue.waiting.first_key_value()?;
        let (window, mut sum) = (*window, first.bytes.len() as u64);
        let hurry = urgent.is_some_and(|(due, peers)| peers > 1 && due == queue.due());
        let least = if hurry { 2 * LEAST } else { LEAST };
        let limit = least.max(peer.pace.lately() / 2).min(MOST);
        if peer.bytes > 0 && peer.bytes + sum > limit {
            return None;
        }
        let together = (limit / 2).clamp(TOGETHER, MOST_TOGETHER);
        self.clock = queue.start + window;
        let mut fragments: Vec<Fragment> =
            queue.waiting.pop_first().into_iter().map(|e| e.1).collect();
        while let Some(entry) = queue.waiting.first_entry() {
            let bytes = entry.get().bytes.len() as u64;
            if entry.key().0 != window || sum + bytes > together {
                break;
            }
            sum += bytes;
            fragments.push(entry.remove());
        }
        queue.under_way += 1;
        let task = *task;
        (peer.frames, peer.bytes) = (peer.frames + 1, peer.bytes + sum);
        Some((task, fragments))
    }

    /// Fragments were answered; `upto`: they were taken, and windows below this one may come.
    pub fn settled(
        &mut self,
        now: Duration,
        task: TaskId,
        address: &str,
        fragments: &[Fragment],
        upto: Option<u64>,
    ) {
        let Some(peer) = self.peers.get_mut(address) else { return };
        let bytes = fragments.iter().map(|fragment| fragment.bytes.len() as u64).sum();
        peer.frames = peer.frames.saturating_sub(1);
        peer.bytes = peer.bytes.saturating_sub(bytes);
        peer.pace.note(now, bytes);
        if let Some(queue) = peer.queues.get_mut(&task) {
            match (bytes, fragments.first()) {
                // One that failed is put here again after a while.
                (0, Some(question)) if upto.is_some() => {
                    queue.asked.remove(&question.window);
                }
                (0, _) => {}
                _ => queue.under_way = queue.under_way.saturating_sub(1),
            }
            queue.upto = queue.upto.max(upto.unwrap_or(0));
        }
        if peer.is_over() {
            self.peers.remove(address);
        }
    }

    /// When what is most urgent of all that may go is due, and how many peers could be sent to.
    fn urgent(&self) -> Option<(u64, usize)> {
        let first = |peer: &PeerQueue| {
            peer.queues.values().filter(|queue| queue.may_go()).map(TaskQueue::due).min()
        };
        let each = self.peers.values().filter_map(first);
        each.fold(None, |found, due| {
            Some(found.map_or((due, 1), |(least, peers)| (due.min(least), peers + 1)))
        })
    }

    /// Drops what waits of a task. What is on the way is still to be answered.
    pub fn forget(&mut self, task: TaskId) {
        self.peers.retain(|_, peer| {
            peer.queues.remove(&task);
            !peer.is_over()
        });
    }

    /// Addresses for which something waits.
    pub fn addresses(&self) -> Vec<String> {
        let waits = |peer: &PeerQueue| peer.queues.values().any(|queue| !queue.waiting.is_empty());
        let waits = self.peers.iter().filter(|(_, peer)| waits(peer));
        waits.map(|(address, _)| address.clone()).collect()
    }
}

impl TaskQueue {
    /// The window that is next.
    fn window(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|((window, _), _)| *window)
    }

    fn may_go(&self) -> bool {
        self.window().is_some_and(|window| window < self.upto)
    }

    fn due(&self) -> u64 {
        self.start + self.window().unwrap_or(0)
    }
}

impl PeerQueue {
    fn new() -> PeerQueue {
        let (queues, pace) = (BTreeMap::new(), Pace::new(PERIOD));
        PeerQueue { queues, frames: 0, bytes: 0, pace }
    }

    fn is_over(&self) -> bool {
        self.queues.is_empty() && self.frames == 0
    }

    /// A request for room, for a task that has no answer on the way which would tell.
    fn question(&mut self) -> Option<(TaskId, Fragment)> {
        self.queues.iter_mut().find_map(|(task, queue)| {
            let first = queue.waiting.values().next()?;
            let asked = queue.asked.first().is_some_and(|asked| *asked <= first.window);
            if asked || queue.under_way > 0 || queue.may_go() {
                return None;
            }
            let fragment = Fragment { bytes: Bytes::new(), ..first.clone() };
            queue.asked.insert(fragment.window);
            Some((*task, fragment))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: TaskId = [1; 16];
    const B: TaskId = [2; 16];

    fn fragment(window: u64, bytes: usize) -> Fragment {
        let (bytes, total) = (Bytes::from(vec![7; bytes]), bytes as u32);
        Fragment { window, piece: 0, to: 0, at: 0, total, bytes }
    }

    /// An outbox whose peer "x" has room for the windows below `upto` of these tasks.
    fn open(tasks: &[TaskId], upto: u64) -> Outbox {
        let mut outbox = Outbox::default();
        for &task in tasks {
            outbox.put(task, "x", fragment(0, 1));
            let (_, fragments) = outbox.next("x").unwrap();
            outbox.settled(Duration::ZERO, task, "x", &fragments, Some(upto));
            let (_, fragments) = outbox.next("x").unwrap();
            outbox.settled(Duration::ZERO, task, "x", &fragments, Some(upto));
        }
        outbox
    }

    /// Returns what goes now: task, window, bytes of the first fragment.
    fn drain(outbox: &mut Outbox) -> Vec<(TaskId, u64, usize)> {
        let frames = std::iter::from_fn(|| outbox.next("x"));
        frames
            .map(|(task, fragments)| (task, fragments[0].window, fragments[0].bytes.len()))
            .collect()
    }

    #[test]
    fn the_lowest_window_goes_first_whichever_task_it_is_of() {
        let mut outbox = open(&[A, B], 9);
        for (task, window) in [(A, 5), (B, 0), (A, 3), (A, 4), (B, 4)] {
            outbox.put(task, "x", fragment(window, 1000));
        }
        let order = drain(&mut outbox).into_iter().map(|(task, window, _)| (task, window));
        assert_eq!(order.collect::<Vec<_>>(), [(B, 0), (A, 3), (A, 4), (B, 4), (A, 5)]);
        assert!(outbox.addresses().is_empty());
    }

    #[test]
    fn a_new_task_begins_where_the_others_are() {
        let mut outbox = open(&[A], 99);
        (50..54).for_each(|window| outbox.put(A, "x", fragment(window, 100)));
        assert_eq!(drain(&mut outbox).len(), 4);
        outbox.put(A, "x", fragment(54, 100));
        outbox.put(A, "x", fragment(55, 100));
        outbox.put(B, "x", fragment(0, 100));
        assert_eq!(drain(&mut outbox), [(B, 0, 0), (A, 54, 100), (A, 55, 100)]);
        outbox.put(A, "x", fragment(56, 100));
        outbox.settled(Duration::ZERO, B, "x", &[fragment(0, 0)], Some(9));
        assert_eq!(drain(&mut outbox), [(B, 0, 100), (A, 56, 100)]);
    }

    #[test]
    fn what_is_on_the_way_is_limited_and_grows_with_what_is_delivered() {
        let mut outbox = open(&[A], 1000);
        let half = LEAST as usize / 2;
        (0..400).for_each(|window| outbox.put(A, "x", fragment(window, half)));
        let mut sent = drain(&mut outbox);
        assert_eq!(sent.len(), 2);
        // Everything is answered within a millisecond: the limit doubles again and again.
        let mut most = 0;
        for now in (1..=40).map(Duration::from_millis) {
            for (task, window, _) in sent {
                outbox.settled(now, task, "x", &[fragment(window, half)], Some(1000));
            }
            sent = drain(&mut outbox);
            most = most.max(sent.len());
        }
        assert!(most > 8, "{most}");
        assert!(most as u64 * half as u64 <= MOST);
    }

    #[test]
    fn small_fragments_of_one_window_travel_together_and_no_others() {
        let mut outbox = open(&[A, B], 9);
        let third = TOGETHER as usize / 3;
        for (task, window) in [(A, 1), (B, 1), (A, 2), (A, 1), (B, 1), (A, 1), (A, 1)] {
            outbox.put(task, "x", fragment(window, third));
        }
        let mut frames = Vec::new();
        while let Some((task, fragments)) = outbox.next("x") {
            frames.push((task, fragments[0].window, fragments.len()));
            outbox.settled(Duration::ZERO, task, "x", &fragments, Some(9));
        }
        assert_eq!(frames, [(A, 1, 3), (A, 1, 1), (B, 1, 2), (A, 2, 1)]);
    }

    #[test]
    fn nothing_goes_for_which_the_peer_has_no_room() {
        let mut outbox = open(&[A], 2);
        (1..5).for_each(|window| outbox.put(A, "x", fragment(window, 100)));
        assert_eq!(drain(&mut outbox), [(A, 1, 100)]);
        // The answer tells that there is none yet; then it is asked, once, and answered in time.
        outbox.settled(Duration::ZERO, A, "x", &[fragment(1, 100)], Some(2));
        assert_eq!(drain(&mut outbox), [(A, 2, 0)]);
        assert_eq!(drain(&mut outbox), []);
        outbox.settled(Duration::ZERO, A, "x", &[fragment(2, 0)], Some(4));
        assert_eq!(drain(&mut outbox), [(A, 2, 100), (A, 3, 100)]);
    }

    /// The peer had room for windows below 5 when it was asked for 5, and needs 4 to have more.
    #[test]
    fn a_window_that_is_ready_after_a_later_one_is_asked_for_by_itself() {
        let mut outbox = open(&[A], 3);
        outbox.put(A, "x", fragment(5, 100));
        assert_eq!(drain(&mut outbox), [(A, 5, 0)]);
        outbox.put(A, "x", fragment(6, 100));
        assert_eq!(drain(&mut outbox), []);
        outbox.put(A, "x", fragment(4, 100));
        assert_eq!(drain(&mut outbox), [(A, 4, 0)]);
        outbox.settled(Duration::ZERO, A, "x", &[fragment(4, 0)], Some(5));
        assert_eq!(drain(&mut outbox), [(A, 4, 100)]);
        // That of 5 is still to be answered, and of 6 its answer will tell.
        outbox.settled(Duration::ZERO, A, "x", &[fragment(4, 100)], Some(5));
        assert_eq!(drain(&mut outbox), []);
        outbox.settled(Duration::ZERO, A, "x", &[fragment(5, 0)], Some(7));
        assert_eq!(drain(&mut outbox), [(A, 5, 100), (A, 6, 100)]);
    }

    #[test]
    fn a_question_that_failed_is_asked_again_when_it_comes_back() {
        let mut outbox = open(&[A], 1);
        outbox.put(A, "x", fragment(1, 100));
        assert_eq!(drain(&mut outbox), [(A, 1, 0)]);
        outbox.settled(Duration::ZERO, A, "x", &[fragment(1, 0)], None);
        assert_eq!(drain(&mut outbox), []);
        outbox.put(A, "x", fragment(1, 0));
        assert_eq!(drain(&mut outbox), [(A, 1, 0)]);
    }

    #[test]
    fn a_task_that_is_forgotten_leaves_nothing_behind() {
        let mut outbox = open(&[A], 9);
        (0..3).for_each(|window| outbox.put(A, "x", fragment(window, LEAST as usize)));
        assert_eq!(drain(&mut outbox).len(), 1);
        outbox.forget(A);
        assert_eq!(drain(&mut outbox), []);
        outbox.settled(Duration::ZERO, A, "x", &[fragment(0, LEAST as usize)], Some(9));
        assert!(outbox.peers.is_empty());
    }
}
