//! Locks of places: one writer at a time.

use crate::Result;
use std::{fmt::Debug, time::Duration};

/// Longest pause before a lock that another one holds is tried again.
pub const LOCK_RETRY: Duration = Duration::from_millis(50);

/// Returns the pause before a lock is tried again that was waited for so long: it grows with the
/// wait, as most locks are held for some milliseconds.
pub fn lock_pause(waited: Duration) -> Duration {
    (waited / 4).clamp(Duration::from_millis(1), LOCK_RETRY)
}

/// The right to write to a place, see [`Locks::lock`](crate::Locks::lock); dropping it gives it
/// back.
#[derive(Debug)]
pub struct WriteLock {
    /// The holder of the lock, for example an open file that the system locks.
    held: Box<dyn Held>,
}

/// The answer of a place that was asked for its lock, see
/// [`Locks::begin_lock`](crate::Locks::begin_lock). A lock whose answer is dropped is given back.
pub struct LockAnswer<'a>(Option<Box<dyn FnOnce() -> Result<Option<WriteLock>> + 'a>>);

impl<'a> LockAnswer<'a> {
    /// The answer that this gives once there is one.
    pub fn of(answer: impl FnOnce() -> Result<Option<WriteLock>> + 'a) -> LockAnswer<'a> {
        LockAnswer(Some(Box::new(answer)))
    }

    /// Waits for it; `None`: another one holds the lock.
    pub fn take(mut self) -> Result<Option<WriteLock>> {
        self.0.take().map_or(Ok(None), |answer| answer())
    }
}

impl Drop for LockAnswer<'_> {
    fn drop(&mut self) {
        if let Some(answer) = self.0.take() {
            // The lock goes with the answer.
            let _ = answer();
        }
    }
}

/// The outcome of [`Locks::lock_within`](crate::Locks::lock_within).
#[derive(Debug)]
pub enum LockAttempt {
    /// The lock is ours.
    Granted {
        /// The lock.
        lock: WriteLock,
        /// Time it was waited for, about.
        waited: Duration,
    },
    /// Another one still holds it.
    Busy {
        /// Its holder, as far as that is known.
        holder: Option<String>,
    },
}

/// A holder of a lock: it gives it back when it is dropped.
pub trait Held: Debug + Send + Sync {
    /// Begins to give it back, where that takes a while. It is dropped next.
    fn begin_release(&mut self) {}
}

/// A holder that gives a lock back when it is dropped, and in no other way.
#[derive(Debug)]
struct Dropped<T>(T);

impl<T: Debug + Send + Sync> Held for Dropped<T> {}

impl WriteLock {
    /// A lock that lasts until this value is dropped.
    pub fn on(held: impl Debug + Send + Sync + 'static) -> WriteLock {
        WriteLock { held: Box::new(Dropped(held)) }
    }

    /// A lock that takes a while to give back.
    pub fn held_by(held: impl Held + 'static) -> WriteLock {
        WriteLock { held: Box::new(held) }
    }

    /// Gives locks back: all of them are begun with before the first is waited for.
    pub fn release_all(mut locks: Vec<WriteLock>) {
        locks.iter_mut().for_each(|lock| lock.held.begin_release());
    }
}
