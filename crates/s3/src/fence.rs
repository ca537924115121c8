//! Whether a lock that was got is still held, as far as its holder can know.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The name of the lock.
pub(crate) const LOCK: &str = ".kiln-lock";
/// A holder that could give no sign of life for so long writes no more: others may soon think that
/// it is gone.
const STALE: Duration = Duration::from_secs(20);

/// The last sign of life of a lock's holder.
#[derive(Debug)]
pub(crate) struct Fence(Mutex<(Instant, bool)>);

impl Fence {
    pub(crate) fn new() -> Fence {
        Fence(Mutex::new((Instant::now(), false)))
    }

    /// A sign of life arrived that was sent then.
    pub(crate) fn renew(&self, sent: Instant) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 = sent;
    }

    /// Somebody else has the lock.
    pub(crate) fn lose(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
    }

    /// How long ago the last sign of life was sent.
    pub(crate) fn age(&self) -> Duration {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.elapsed()
    }

    /// Whether somebody else is known to have the lock.
    pub(crate) fn is_lost(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1
    }

    /// Whether the lock is still held, if need be after the next sign of life: a process that stood
    /// still gives one as soon as it runs again, and that succeeds only if nobody has taken the
    /// lock meanwhile.
    pub(crate) fn holds_or_will(&self) -> bool {
        let begin = Instant::now();
        while !self.holds() {
            if self.is_lost() || begin.elapsed() >= STALE {
                return false;
            }
            thread::sleep(Duration::from_millis(50));
        }
        true
    }

    /// Whether the lock is certainly still held.
    pub(crate) fn holds(&self) -> bool {
        !self.is_lost() && self.age() < STALE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stale() -> Fence {
        let fence = Fence::new();
        fence.renew(Instant::now().checked_sub(2 * STALE).unwrap());
        fence
    }

    #[test]
    fn a_late_sign_of_life_counts_and_a_lost_lock_is_lost_at_once() {
        let fence = stale();
        assert!(!fence.holds());
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(120));
                fence.renew(Instant::now());
            });
            assert!(fence.holds_or_will());
        });
        let fence = stale();
        fence.lose();
        let begin = Instant::now();
        assert!(!fence.holds_or_will() && begin.elapsed() < STALE);
    }
}
