//! Prefetch instructions of loops that are compiled ahead of time.

use crate::tuning::Level;

/// Asks the CPU to load `len` bytes from `from` on into its first cache, where it can be asked.
#[inline]
pub(crate) fn prefetch(from: *const u8, len: usize) {
    prefetch_into(Level::First, from, len);
}

/// Asks the same for the cache of a level.
#[inline]
pub(crate) fn prefetch_into(level: Level, from: *const u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for offset in (0..len).step_by(64) {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        let at = from.wrapping_add(offset).cast();
        // SAFETY: a prefetch accesses nothing; any address will do.
        unsafe {
            match level {
                Level::First => _mm_prefetch::<_MM_HINT_T0>(at),
                Level::Second => _mm_prefetch::<_MM_HINT_T1>(at),
            }
        };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (level, from, len);
}
