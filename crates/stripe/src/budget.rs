//! Memory that the stripes of several operations share.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A bound on the memory of all stripes of the puts that share it ([`crate::Settings::budget`]).
///
/// A put asks for a stripe at a time, in the order of asking, and for the next one only after it
/// has filled the last: those that are full are written and given back without asking. So one that
/// waits keeps nothing that its turn depends on, and each gets its turn. A stripe that is larger
/// than the bound is alone.
#[derive(Debug)]
pub struct Budget {
    state: Mutex<State>,
    changed: Condvar,
    most: u64,
    stripe: u64,
}

#[derive(Debug, Default)]
struct State {
    taken: u64,
    next: u64,
    waiting: VecDeque<u64>,
}

/// Memory of one stripe, given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    /// Shares so many bytes; stripes that are made have at most `stripe`, parity included, as long
    /// as their sub-chunks are no smaller than a disk's unit of reading for it.
    pub fn new(most: u64, stripe: u64) -> Arc<Budget> {
        Arc::new(Budget { state: Mutex::default(), changed: Condvar::new(), most, stripe })
    }

    /// Returns the most bytes of a stripe.
    pub fn stripe(&self) -> u64 {
        self.stripe
    }

    /// Returns whether operations wait for their turn.
    pub fn is_waited_for(&self) -> bool {
        !self.locked().waiting.is_empty()
    }

    /// Takes bytes, after all that asked before.
    pub(crate) fn take(self: &Arc<Budget>, bytes: u64) -> Share {
        let mut state = self.locked();
        let ticket = state.next;
        state.next += 1;
        state.waiting.push_back(ticket);
        while state.waiting.front() != Some(&ticket)
            || state.taken > 0 && state.taken.saturating_add(bytes) > self.most
        {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting.pop_front();
        state.taken += bytes;
        drop(state);
        self.changed.notify_all();
        Share { budget: Arc::clone(self), bytes }
    }

    /// Takes bytes that need not be there, if nothing waits for them.
    pub fn try_take(self: &Arc<Budget>, bytes: u64) -> Option<Share> {
        let mut state = self.locked();
        let free = state.waiting.is_empty() && state.taken.saturating_add(bytes) <= self.most;
        state.taken += if free { bytes } else { 0 };
        free.then(|| Share { budget: Arc::clone(self), bytes })
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.locked().taken -= self.bytes;
        self.budget.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn many_take_turns_and_never_more_than_there_is() {
        let (budget, taken) = (Budget::new(100, 40), AtomicU64::new(0));
        thread::scope(|scope| {
            for at in 0..16 {
                let (budget, taken) = (&budget, &taken);
                scope.spawn(move || {
                    for turn in 0..50 {
                        // One of them is larger than the bound: it is alone.
                        let bytes = if at == 7 && turn % 10 == 0 { 250 } else { 10 + at * 2 };
                        let share = budget.take(bytes);
                        let now = taken.fetch_add(bytes, Ordering::SeqCst) + bytes;
                        assert!(now <= 100 || now == bytes, "{now}");
                        thread::yield_now();
                        taken.fetch_sub(bytes, Ordering::SeqCst);
                        drop(share);
                    }
                });
            }
        });
        assert!(!budget.is_waited_for());
        assert_eq!(budget.locked().taken, 0);
    }

    #[test]
    fn turns_come_in_the_order_of_asking() {
        let (budget, ends) = (Budget::new(100, 40), Mutex::new(Vec::new()));
        thread::scope(|scope| {
            let first = budget.take(60);
            assert!(budget.try_take(41).is_none());
            drop(budget.try_take(40).unwrap());
            // None of them fits beside the one before it, so they end in the order of their turns.
            for (at, bytes) in [(0, 95), (1, 10), (2, 95)] {
                let (theirs, ends) = (&budget, &ends);
                scope.spawn(move || {
                    let share = theirs.take(bytes);
                    ends.lock().unwrap().push(at);
                    drop(share);
                });
                // A request that would fit does not overtake one that does not.
                while budget.locked().waiting.len() <= at {
                    thread::yield_now();
                }
            }
            assert!(ends.lock().unwrap().is_empty() && budget.try_take(1).is_none());
            drop(first);
        });
        assert_eq!(ends.into_inner().unwrap(), [0, 1, 2]);
    }
}
