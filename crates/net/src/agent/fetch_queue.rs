//! Fragments of a task for a node that fetches them.
//!
//! A reader of a lost chunk is a node of the plan, but no agent: no peer can connect to it. What it
//! is to get waits here until it asks. What was handed out counts as sent, so a task goes on as far
//! as its reader asks, and no further than its own windows reach.

use super::{ConnectionId, connection::Pending};
use crate::task::Fragment;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A reader that fetches.
#[derive(Debug)]
struct Taker {
    pending: Pending,
    /// Bytes that it takes at most; no fragment is larger.
    max: usize,
    /// When it is answered even if there is nothing.
    until: Duration,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct FetchQueue {
    /// By window and by when they came.
    waiting: BTreeMap<(u64, u64), Fragment>,
    takers: VecDeque<Taker>,
    /// Windows below this one are asked for.
    below: u64,
    count: u64,
}

impl FetchQueue {
    /// Takes a fragment.
    pub fn put(&mut self, fragment: Fragment) {
        self.count += 1;
        self.waiting.insert((fragment.window, self.count), fragment);
    }

    /// A reader asks for fragments of windows below one.
    pub fn ask(&mut self, pending: Pending, below: u64, max: u32, until: Duration) {
        self.below = self.below.max(below);
        self.takers.push_back(Taker { pending, max: max as usize, until });
    }

    /// The next answer: fragments of the lowest window, or none for whom has waited long enough.
    pub fn next(&mut self, now: Duration) -> Option<(Pending, Vec<Fragment>)> {
        let first = self.waiting.first_key_value();
        let Some(window) = first.map(|((window, _), _)| *window).filter(|w| *w < self.below) else {
            let due = self.takers.iter().position(|taker| taker.until <= now)?;
            return self.takers.remove(due).map(|taker| (taker.pending, Vec::new()));
        };
        let taker = self.takers.pop_front()?;
        let mut fragments = Vec::new();
        let mut room = taker.max;
        while let Some(entry) = self.waiting.first_entry()
            && entry.key().0 == window
            && entry.get().bytes.len() <= room
        {
            room -= entry.get().bytes.len();
            fragments.push(entry.remove());
        }
        Some((taker.pending, fragments))
    }

    /// The time of the next answer without fragments.
    pub fn wake_at(&self) -> Option<Duration> {
        self.takers.iter().map(|taker| taker.until).min()
    }

    /// Drops the requests of a connection that ended.
    pub fn forget(&mut self, connection: ConnectionId) {
        self.takers.retain(|taker| taker.pending.connection != connection);
    }

    /// Returns the requests that still wait when the task ends.
    pub fn close(self) -> impl Iterator<Item = Pending> {
        self.takers.into_iter().map(|taker| taker.pending)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Priority;
    use bytes::Bytes;

    fn taker(connection: ConnectionId) -> Pending {
        let (request, priority, wait) = (1, Priority::Client, false);
        let (deadline, handle, slot, task) = (None, None, None, None);
        Pending { connection, request, priority, deadline, handle, slot, wait, task }
    }

    fn fragment(window: u64, piece: u32, bytes: usize) -> Fragment {
        let (bytes, total) = (Bytes::from(vec![7; bytes]), bytes as u32);
        Fragment { window, piece, to: 0, at: 0, total, bytes }
    }

    fn next(fetch_queue: &mut FetchQueue, seconds: u64) -> Option<(u64, Vec<(u64, u32)>)> {
        let (pending, fragments) = fetch_queue.next(Duration::from_secs(seconds))?;
        Some((pending.connection, fragments.iter().map(|p| (p.window, p.piece)).collect()))
    }

    #[test]
    fn the_lowest_window_goes_first_and_none_that_is_not_asked_for() {
        let mut fetch_queue = FetchQueue::default();
        for (window, piece) in [(4, 1), (2, 1), (2, 2), (2, 3), (3, 1)] {
            fetch_queue.put(fragment(window, piece, 400));
        }
        assert_eq!(next(&mut fetch_queue, 9), None);
        (1..=4).for_each(|connection| {
            fetch_queue.ask(taker(connection), 4, 1000, Duration::from_secs(1))
        });
        assert_eq!(next(&mut fetch_queue, 0), Some((1, vec![(2, 1), (2, 2)])));
        assert_eq!(next(&mut fetch_queue, 0), Some((2, vec![(2, 3)])));
        assert_eq!(next(&mut fetch_queue, 0), Some((3, vec![(3, 1)])));
        // Window 4 is too far, until a reader asks for it; a reader that waits then gets it.
        assert_eq!(
            (next(&mut fetch_queue, 0), fetch_queue.wake_at()),
            (None, Some(Duration::from_secs(1)))
        );
        fetch_queue.ask(taker(5), 5, 1000, Duration::from_secs(2));
        assert_eq!(next(&mut fetch_queue, 0), Some((4, vec![(4, 1)])));
        assert_eq!(next(&mut fetch_queue, 1), None);
        assert_eq!(next(&mut fetch_queue, 2), Some((5, Vec::new())));
        fetch_queue.ask(taker(6), 9, 1000, Duration::from_secs(2));
        fetch_queue.forget(6);
        assert_eq!(fetch_queue.close().count(), 0);
    }
}
