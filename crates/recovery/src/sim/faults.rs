//! Faults of a simulated run, all from one seed.

/// Rates of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Faults {
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
}

impl Faults {
    /// No faults.
    pub fn none() -> Faults {
        Faults {
            breaks_per_mille: 0,
            flips_per_mille: 0,
            doubles_per_mille: 0,
            delay_ms: 2,
            disk_ms: 5,
        }
    }

    /// Ends what harms; delays stay.
    pub(super) fn heal(&mut self) {
        *self = Faults { delay_ms: self.delay_ms, disk_ms: self.disk_ms, ..Faults::none() };
    }
}
