//! Room of places.

/// Bytes of a place, as its file system tells: other files of it count too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Space {
    /// All of them.
    pub total: u64,
    /// Bytes that can still be written.
    pub free: u64,
}

/// Most that is left alone, whatever the size.
const MOST_RESERVED: u64 = 1 << 30;

impl Space {
    /// Returns the bytes taken.
    pub fn used(&self) -> u64 {
        self.total.saturating_sub(self.free)
    }

    /// Returns whether so many bytes more can be written, with a hundredth (1 GiB at most) to
    /// spare.
    pub fn has_room_for(&self, bytes: u64) -> bool {
        let reserved = (self.total / 100).min(MOST_RESERVED);
        self.free.checked_sub(reserved).is_some_and(|free| bytes <= free)
    }
}
