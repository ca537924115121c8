//! Whether a lock that was got is still held, as far as its holder can know.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The name of the lock.
pub(crate) const LOCK: &str = ".kiln-lock";
/// A holder that could give no sign of life for so long writes no more: others may soon think that
/// it is gone.
const STALE: Duration = Duration::from_secs(20);

/// When the last sign of life was sent; `None`: the lock is somebody else's.
#[derive(Debug)]
pub(crate) struct Fence(Mutex<Option<Instant>>);

impl Fence {
    pub(crate) fn new(sent: Instant) -> Fence {
        Fence(Mutex::new(Some(sent)))
    }

    fn last(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A sign of life arrived that was sent then, or the lock was gone.
    pub(crate) fn note(&self, sent: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = sent;
    }

    /// Whether the lock is certainly still held.
    pub(crate) fn holds(&self) -> bool {
        self.last().is_some_and(|sent| sent.elapsed() < STALE)
    }

    /// Whether somebody else is known to have it.
    pub(crate) fn is_lost(&self) -> bool {
        self.last().is_none()
    }
}
