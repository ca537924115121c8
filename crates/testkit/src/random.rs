//! Random numbers from a seed.

use kiln_store::SplitMix64;
use std::time::Duration;

/// Bytes that differ at every position a test could confuse.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 167 + i / 256 * 13 + i / 65_536 * 7 + 5) as u8).collect()
}

/// Random numbers that are the same for the same seed.
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "numbers never end")]
    pub fn next(&mut self) -> u64 {
        let mut numbers = SplitMix64(self.0);
        let next = numbers.next();
        self.0 = numbers.0;
        next
    }

    /// A number below a limit; 0 below 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// An index into that many things; 0 into none.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// True once in so many times, on average.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// True `per_mille` times in a thousand.
    pub fn strikes(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// A time below so many milliseconds, to the microsecond.
    pub fn millis(&mut self, limit: u64) -> Duration {
        Duration::from_micros(self.below(limit * 1000))
    }

    /// Bytes that differ at every position.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let seed = self.next();
        (0..len as u64).map(|i| ((i * 167 + i / 256 * 13) ^ seed ^ (seed >> 17)) as u8).collect()
    }
}
