//! Work behind clients looks at the clock, and rests.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kiln_stripe::Observer;

use crate::pace::{self, Sealing};
use crate::{Volume, kept::lock};

/// Interval at which the end of a rest is looked for.
const LOOK: Duration = Duration::from_millis(10);
/// Clients are there if they did something within this time.
const LULL: Duration = Duration::from_millis(200);

/// Says whether clients are there: they were if their count of operations has changed lately.
#[derive(Debug)]
struct Lull {
    seen: u64,
    at: Instant,
}

impl Lull {
    fn new() -> Mutex<Lull> {
        Mutex::new(Lull { seen: 0, at: Instant::now() })
    }

    fn is_busy(&mut self, count: u64, now: Instant) -> bool {
        if count != self.seen {
            (self.seen, self.at) = (count, now);
        }
        now - self.at < LULL
    }
}

/// Rests while a buffer is sealed, as clients leave time for it.
pub(crate) struct SealPacer<'a> {
    volume: &'a Volume,
    ending: &'a AtomicBool,
    lull: Mutex<Lull>,
    done: AtomicU64,
    size: AtomicU64,
}

impl<'a> SealPacer<'a> {
    pub fn new(volume: &'a Volume, ending: &'a AtomicBool) -> SealPacer<'a> {
        let (done, size) = (AtomicU64::new(0), AtomicU64::new(0));
        SealPacer { volume, ending, lull: Lull::new(), done, size }
    }

    fn is_ahead(&self) -> bool {
        let told = |flag: &AtomicBool| flag.load(Ordering::Acquire);
        if told(self.ending) || told(&self.volume.waiting) {
            return false;
        }
        if !lock(&self.lull).is_busy(self.volume.operations(), Instant::now()) {
            return false;
        }
        let (done, size) = (self.done.load(Ordering::Relaxed), self.size.load(Ordering::Relaxed));
        // Who holds the state long makes it anew, and wants no sealing to wait for that.
        let state = lock(&self.volume.state);
        let (filled, capacity) = (state.hot.blocks.len() as u64, state.capacity() as u64);
        pace::is_ahead(&Sealing { done, size, filled, capacity, closed: state.closed.len() })
    }
}

impl Observer for SealPacer<'_> {
    fn begin(&self, _: &str, total_bytes: Option<u64>) {
        self.done.store(0, Ordering::Relaxed);
        self.size.store(total_bytes.unwrap_or(0), Ordering::Relaxed);
    }

    fn advance(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
        let began = Instant::now();
        while self.is_ahead() {
            std::thread::sleep(LOOK);
        }
        self.volume.count_rest(began.elapsed());
    }
}

/// Rests between pieces of cleaning.
pub(crate) struct CleanPacer<'a> {
    volume: &'a Volume,
    ending: &'a AtomicBool,
    /// Bytes a second; 0: as many as may be.
    limit: u64,
    lull: Mutex<Lull>,
    since: Mutex<Instant>,
}

impl<'a> CleanPacer<'a> {
    pub fn new(volume: &'a Volume, ending: &'a AtomicBool, limit: u64) -> CleanPacer<'a> {
        let since = Mutex::new(Instant::now());
        CleanPacer { volume, ending, limit, lull: Lull::new(), since }
    }

    /// Starts work.
    pub fn start(&self) {
        *lock(&self.since) = Instant::now();
    }
}

impl Observer for CleanPacer<'_> {
    fn advance(&self, bytes: u64) {
        let began = Instant::now();
        let worked = began - *lock(&self.since);
        loop {
            let busy = lock(&self.lull).is_busy(self.volume.operations(), Instant::now());
            let (live, total) = lock(&self.volume.state).fill();
            let share = pace::share(live, total);
            let rest = pace::rest(worked, bytes, share, busy, self.limit);
            let left = rest.saturating_sub(began.elapsed());
            let told = |flag: &AtomicBool| flag.load(Ordering::Acquire);
            if left.is_zero() || told(self.ending) || told(&self.volume.waiting) {
                break;
            }
            std::thread::sleep(left.min(LOOK));
        }
        self.volume.count_rest(began.elapsed());
        self.start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_there_while_their_count_changes() {
        let start = Instant::now();
        let mut lull = Lull { seen: 0, at: start };
        let at = |ms| start + Duration::from_millis(ms);
        assert!(!lull.is_busy(0, at(300)));
        assert!(lull.is_busy(1, at(400)) && lull.is_busy(1, at(599)) && !lull.is_busy(1, at(600)));
        assert!(lull.is_busy(2, at(601)));
    }
}
