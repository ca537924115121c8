//! Parcels of a task for a node that fetches them.
//!
//! A reader of a lost chunk is a node of the plan, but no agent: nobody can connect to it. What it
//! is to get waits here until it asks. What was handed out counts as sent, so a task goes on as far
//! as its reader asks, and no further than its own windows reach.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::ConnectionId;
use super::connection::Pending;
use crate::task::Parcel;

/// Somebody who fetches.
#[derive(Debug)]
struct Taker {
    pending: Pending,
    /// Bytes that it takes at most; no parcel is larger.
    max: usize,
    /// When it is answered even if there is nothing.
    until: Duration,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    /// By window and by when they came.
    waiting: BTreeMap<(u64, u64), Parcel>,
    takers: VecDeque<Taker>,
    /// Windows below this one are asked for.
    below: u64,
    count: u64,
}

impl Shelf {
    /// Takes a parcel.
    pub fn put(&mut self, parcel: Parcel) {
        self.count += 1;
        self.waiting.insert((parcel.window, self.count), parcel);
    }

    /// Somebody asks for parcels of windows below one.
    pub fn ask(&mut self, pending: Pending, below: u64, max: u32, until: Duration) {
        self.below = self.below.max(below);
        self.takers.push_back(Taker { pending, max: max as usize, until });
    }

    /// The next answer: parcels of the lowest window, or none for whom has waited long enough.
    pub fn next(&mut self, now: Duration) -> Option<(Pending, Vec<Parcel>)> {
        let first = self.waiting.first_key_value();
        let Some(window) = first.map(|((window, _), _)| *window).filter(|w| *w < self.below) else {
            let due = self.takers.iter().position(|taker| taker.until <= now)?;
            return self.takers.remove(due).map(|taker| (taker.pending, Vec::new()));
        };
        let taker = self.takers.pop_front()?;
        let mut parcels = Vec::new();
        let mut room = taker.max;
        while let Some(entry) = self.waiting.first_entry()
            && entry.key().0 == window
            && entry.get().bytes.len() <= room
        {
            room -= entry.get().bytes.len();
            parcels.push(entry.remove());
        }
        Some((taker.pending, parcels))
    }

    /// When somebody is to be answered although there is nothing.
    pub fn wake_at(&self) -> Option<Duration> {
        self.takers.iter().map(|taker| taker.until).min()
    }

    /// Nobody answers requests of a connection that ended.
    pub fn forget(&mut self, connection: ConnectionId) {
        self.takers.retain(|taker| taker.pending.connection != connection);
    }

    /// Whoever still waits when the task ends.
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

    fn parcel(window: u64, piece: u32, bytes: usize) -> Parcel {
        let (bytes, total) = (Bytes::from(vec![7; bytes]), bytes as u32);
        Parcel { window, piece, to: 0, at: 0, total, bytes }
    }

    fn next(shelf: &mut Shelf, seconds: u64) -> Option<(u64, Vec<(u64, u32)>)> {
        let (pending, parcels) = shelf.next(Duration::from_secs(seconds))?;
        Some((pending.connection, parcels.iter().map(|p| (p.window, p.piece)).collect()))
    }

    #[test]
    fn the_lowest_window_goes_first_and_none_that_is_not_asked_for() {
        let mut shelf = Shelf::default();
        for (window, piece) in [(4, 1), (2, 1), (2, 2), (2, 3), (3, 1)] {
            shelf.put(parcel(window, piece, 400));
        }
        assert_eq!(next(&mut shelf, 9), None);
        (1..=4)
            .for_each(|connection| shelf.ask(taker(connection), 4, 1000, Duration::from_secs(1)));
        assert_eq!(next(&mut shelf, 0), Some((1, vec![(2, 1), (2, 2)])));
        assert_eq!(next(&mut shelf, 0), Some((2, vec![(2, 3)])));
        assert_eq!(next(&mut shelf, 0), Some((3, vec![(3, 1)])));
        // Window 4 is too far, until somebody asks for it; whoever waits then gets it.
        assert_eq!((next(&mut shelf, 0), shelf.wake_at()), (None, Some(Duration::from_secs(1))));
        shelf.ask(taker(5), 5, 1000, Duration::from_secs(2));
        assert_eq!(next(&mut shelf, 0), Some((4, vec![(4, 1)])));
        assert_eq!(next(&mut shelf, 1), None);
        assert_eq!(next(&mut shelf, 2), Some((5, Vec::new())));
        shelf.ask(taker(6), 9, 1000, Duration::from_secs(2));
        shelf.forget(6);
        assert_eq!(shelf.close().count(), 0);
    }
}
