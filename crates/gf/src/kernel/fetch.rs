//! Asking for data ahead of its use: into which cache, and how far ahead.
//!
//! Lines on their way into the first level are few (24 on Zen 4), and blocks on data in memory load
//! from more streams than the hardware follows by itself. AMD's processors keep what is asked for
//! into the second level apart from those: on Zen 4 Clay codes from DRAM gained 14 to 45% with
//! AVX-512 (lab/results/zen4.md) and 15 to 50% with AVX2 (lab/results/avx2.md). What others do
//! with it was not measured.

#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

/// Where a line is brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    First,
    Second,
}

/// Operands that the hardware follows by itself. Codes of Reed-Solomon with AVX2 were 10 to 15%
/// faster with the first level where there are eight, as fast with ten, 15% slower with sixteen.
const FOLLOWED: usize = 8;

impl Level {
    /// The better one here for code that loads so many operands.
    pub(crate) fn of(loaded: usize) -> Level {
        match loaded > FOLLOWED && keeps_second_apart() {
            true => Level::Second,
            false => Level::First,
        }
    }

    /// How many lines of every operand lie between what is fetched and what is used. Of six in the
    /// second level the first ones are used before they are there; ten in the first level push
    /// each other out: blocks load from the same few sets of it.
    pub(crate) const fn ahead(self) -> usize {
        match self {
            Level::First => 6,
            Level::Second => 10,
        }
    }

    /// Whether code that stores past the caches then brings a line into the first level too, one
    /// column before it is used. Code that multiplies takes long enough for it: Clay codes from
    /// DRAM gained 2 to 13% on Zen 4 (lab/results/zen4.md). Codes that only add lost a fifth, and
    /// repairs with ordinary stores, which wait for lines of the first level themselves, up to 8%.
    pub(crate) fn fetches_again(self, multiplies: bool) -> bool {
        self == Level::Second && multiplies
    }
}

/// Asks the CPU to load `len` bytes from `from` on into its caches, where it can be asked.
#[inline]
pub(crate) fn prefetch(from: *const u8, len: usize) {
    prefetch_into(Level::First, from, len);
}

/// The same, into the cache of a level.
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

/// Whether lines on their way into the second level are others than those into the first: where
/// AMD made the processor, or Hygon, whose are of that kind. Asked once.
#[cfg(target_arch = "x86_64")]
fn keeps_second_apart() -> bool {
    use std::arch::x86_64::__cpuid;
    static APART: OnceLock<bool> = OnceLock::new();
    *APART.get_or_init(|| {
        #[allow(unused_unsafe)] // it is safe from some compiler on
        // SAFETY: every x86-64 has the instruction.
        let found = unsafe { __cpuid(0) };
        let name = [found.ebx, found.edx, found.ecx].map(u32::to_le_bytes).concat();
        name == b"AuthenticAMD" || name == b"HygonGenuine"
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn keeps_second_apart() -> bool {
    false
}
