//! Faults of a simulated run, all from one seed.

use std::time::Duration;

/// Numbers from a seed (Steele, Lea and Flood, "Fast splittable pseudorandom number generators").
#[derive(Debug, Clone)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "numbers never end")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below a limit; 0 below 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// Returns whether something happens that does so once in so many times.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// Returns whether something happens that does so `per_mille` times in a thousand.
    pub fn strikes(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    /// A time below so many milliseconds, to the microsecond.
    pub fn millis(&mut self, limit: u64) -> Duration {
        Duration::from_micros(self.below(limit * 1000))
    }
}

/// Rates of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faults {
    /// Agents that crash, each at a moment of its own; every second one comes back.
    pub crashes: u64,
    /// Agents that cannot be reached for a while.
    pub partitions: u64,
    /// Connections of a thousand frames that break.
    pub breaks_per_mille: u64,
    /// Frames of a thousand that arrive with a flipped bit.
    pub flips_per_mille: u64,
    /// Frames of a thousand that arrive twice.
    pub doubles_per_mille: u64,
    /// Longest delay of a frame in milliseconds.
    pub delay_ms: u64,
    /// Longest time of a disk job in milliseconds.
    pub disk_ms: u64,
    /// Helpers with a bit of their shard flipped.
    pub corrupt: u64,
    /// Disk operations of a thousand that fail.
    pub disk_errors_per_mille: u64,
}

impl Faults {
    /// No faults.
    #[must_use]
    pub fn none() -> Faults {
        Faults {
            crashes: 0,
            partitions: 0,
            breaks_per_mille: 0,
            flips_per_mille: 0,
            doubles_per_mille: 0,
            delay_ms: 2,
            disk_ms: 5,
            corrupt: 0,
            disk_errors_per_mille: 0,
        }
    }

    /// Ends what harms; delays stay.
    pub(super) fn heal(&mut self) {
        *self = Faults { delay_ms: self.delay_ms, disk_ms: self.disk_ms, ..Faults::none() };
    }

    /// Returns the faults of a seed: each kind in about every third run.
    #[must_use]
    pub fn of_seed(seed: u64) -> Faults {
        let mut random = Random(seed ^ 0xfa17);
        let mut some = |most: u64| if random.below(3) == 0 { 1 + random.below(most) } else { 0 };
        Faults {
            crashes: some(2),
            partitions: some(2),
            breaks_per_mille: some(20),
            flips_per_mille: some(10),
            doubles_per_mille: some(10),
            delay_ms: 1 + some(50),
            disk_ms: 1 + some(200),
            corrupt: some(2),
            disk_errors_per_mille: some(5),
        }
    }
}
