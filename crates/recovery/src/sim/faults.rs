//! Faults of a simulated run, all from one seed.

/// Rates of faults.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
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
