//! Certainty of a held lock, as far as its holder can know.

use kiln_store::{Result, StoreError};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The name of the file that is a place's lock.
pub const LOCK: &str = ".kiln-lock";
/// After this time without a sign of life a lock is taken over.
pub const LEASE: Duration = Duration::from_secs(30);
/// Interval of these signs.
pub const RENEW: Duration = Duration::from_secs(8);
/// Longest lock that is read, in bytes.
pub const MAX_LOCK: u64 = 4096;
/// A holder that could give no sign of life for so long writes no more until it has given one:
/// others may soon think that it is gone.
const STALE: Duration = Duration::from_secs(20);

/// The last sign of life of a lock's holder.
#[derive(Debug)]
pub struct Fence {
    /// When it was sent; `None`: the lock is somebody else's.
    last: Mutex<Option<Instant>>,
    changed: Condvar,
}

impl Fence {
    /// Of a lock that was asked for then.
    pub fn new(sent: Instant) -> Fence {
        Fence { last: Mutex::new(Some(sent)), changed: Condvar::new() }
    }

    fn last(&self) -> MutexGuard<'_, Option<Instant>> {
        self.last.lock()
    }

    /// A sign of life arrived that was sent then. However late it is, it says that the lock was
    /// still this holder's: it must be one that fails where somebody else has taken the lock. A
    /// lock that was lost stays lost.
    pub fn renew(&self, sent: Instant) {
        let mut last = self.last();
        *last = last.map(|before| before.max(sent));
        self.changed.notify_all();
    }

    /// Somebody else has the lock.
    pub fn lose(&self) {
        *self.last() = None;
        self.changed.notify_all();
    }

    /// Returns the age of the last sign of life; of a lost lock, for ever.
    pub fn age(&self) -> Duration {
        self.last().map_or(Duration::MAX, |sent| sent.elapsed())
    }

    /// Returns whether somebody else is known to have the lock.
    pub fn is_lost(&self) -> bool {
        self.last().is_none()
    }

    /// Returns whether the lock is certainly still held.
    pub fn holds(&self) -> bool {
        self.age() < STALE
    }

    /// Returns whether the lock is still held, if need be after the next sign of life: a process
    /// that stood still gives one as soon as it runs again. Waits as long as others would have to,
    /// no longer.
    pub fn holds_or_will(&self) -> bool {
        self.will_hold_within(STALE)
    }

    fn will_hold_within(&self, time: Duration) -> bool {
        let uncertain = |last: &mut Option<Instant>| last.is_some_and(|at| at.elapsed() >= STALE);
        let mut last = self.last();
        self.changed.wait_while_for(&mut last, uncertain, time);
        last.is_some_and(|sent| sent.elapsed() < STALE)
    }
}

/// Check before each write of a place: the fence of the lock that is held, if one is.
#[derive(Debug, Default)]
pub struct Fenced(Mutex<Weak<Fence>>);

impl Fenced {
    fn fence(&self) -> MutexGuard<'_, Weak<Fence>> {
        self.0.lock()
    }

    /// From now on writes are under this lock.
    pub fn by(&self, fence: &Arc<Fence>) {
        *self.fence() = Arc::downgrade(fence);
    }

    /// From now on they are under none.
    pub fn free(&self) {
        *self.fence() = Weak::new();
    }

    /// Refuses to write if a lock was held and is lost, or is not certain again in time.
    /// Errors: [`StoreError::Fenced`].
    pub fn check(&self, place: &str) -> Result<()> {
        let fence = self.fence().upgrade();
        match fence.is_none_or(|fence| fence.holds_or_will()) {
            true => Ok(()),
            false => Err(StoreError::Fenced { place: place.to_owned(), name: LOCK.to_owned() }),
        }
    }
}

/// Names this process, for the messages of others.
pub fn holder() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("process {} on {}", std::process::id(), host.trim())
}

/// Returns the holder's name from this line of its lock.
pub fn holder_said(lock: &[u8], line: usize) -> Option<String> {
    let text = String::from_utf8_lossy(lock);
    text.lines().nth(line).map(|line| line.chars().take(200).collect())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn stale() -> Fence {
        Fence::new(Instant::now().checked_sub(2 * STALE).unwrap())
    }

    #[test]
    fn a_late_sign_of_life_counts_and_is_waited_for() {
        let fence = stale();
        assert!(!fence.holds() && !fence.is_lost());
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(120));
                // It was on its way for too long, so nothing is certain yet.
                fence.renew(Instant::now().checked_sub(STALE).unwrap());
                thread::sleep(Duration::from_millis(120));
                fence.renew(Instant::now());
            });
            let begin = Instant::now();
            assert!(fence.holds_or_will() && begin.elapsed() >= Duration::from_millis(200));
        });
        // An older one that arrives later takes nothing back.
        fence.renew(Instant::now().checked_sub(STALE).unwrap());
        assert!(fence.holds());
        // And not for ever.
        assert!(!stale().will_hold_within(Duration::from_millis(50)));
    }

    #[test]
    fn a_lost_lock_is_refused_at_once_and_stays_lost() {
        let fence = Arc::new(stale());
        let fenced = Fenced::default();
        assert!(fenced.check("p").is_ok());
        fenced.by(&fence);
        let begin = Instant::now();
        thread::scope(|scope| {
            let waits = scope.spawn(|| fenced.check("p"));
            thread::sleep(Duration::from_millis(50));
            fence.lose();
            assert!(waits.join().unwrap().unwrap_err().is_fenced());
        });
        fence.renew(Instant::now());
        assert!(fence.is_lost() && fenced.check("p").is_err() && begin.elapsed() < STALE);
        fenced.free();
        assert!(fenced.check("p").is_ok());
    }

    #[test]
    fn what_a_holder_says_is_short() {
        assert!(holder().starts_with("process "));
        assert_eq!(holder_said(b"a\nb\nprocess 7\n", 2).as_deref(), Some("process 7"));
        assert_eq!(holder_said(&[b'x'; 4096], 0).map(|said| said.len()), Some(200));
        assert_eq!(holder_said(b"", 0), None);
    }
}
