//! Faults of a simulated run, all from one seed.

use kiln_testkit::Random;

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
