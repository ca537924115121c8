//! Recent throughput, for limits that follow what a network or disk really does.

use std::time::Duration;

/// Counts what is done in periods of a fixed length.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    period: Duration,
    start: Duration,
    now: u64,
    last: u64,
}

impl Pace {
    /// A counter of periods of this length.
    pub fn new(period: Duration) -> Pace {
        Pace { period, start: Duration::ZERO, now: 0, last: 0 }
    }

    /// So much was done.
    pub fn note(&mut self, now: Duration, amount: u64) {
        if now >= self.start + self.period {
            let adjacent = now < self.start + 2 * self.period;
            self.last = if adjacent { self.now } else { 0 };
            (self.start, self.now) = (now, 0);
        }
        self.now += amount;
    }

    /// Returns the amount of the last whole period, or of this one when it is more already.
    pub fn lately(&self) -> u64 {
        self.now.max(self.last)
    }
}
