//! Passes whose coefficients are all 0 or 1: XORs of sources, without tables or multiplications.
//!
//! XOR codes are made of these on kernels that make no machine code of blocks.

use super::engine::Pass;

/// Whether a pass only adds.
pub(super) fn only_adds(pass: &Pass<'_>) -> bool {
    pass.coefficients.iter().all(|&coefficient| coefficient <= 1)
}

/// From byte `at` on, byte by byte.
///
/// # Safety
/// As [`super::engine::Engine::pass`].
unsafe fn rest(pass: &Pass<'_>, at: usize) {
    let rows = pass.dsts.len();
    for (r, dst) in pass.dsts.iter().enumerate() {
        for byte in at..pass.len {
            // SAFETY: the byte lies within `len`.
            unsafe {
                let mut sum = if pass.add { *dst.add(byte) } else { 0 };
                for (j, src) in pass.srcs.iter().enumerate() {
                    sum ^= *src.add(byte) * pass.coefficients[j * rows + r];
                }
                *dst.add(byte) = sum;
            }
        }
    }
}

mod x86 {
    use super::super::engine::Pass;
    use std::arch::x86_64::{
        _mm256_loadu_si256, _mm256_setzero_si256, _mm256_storeu_si256, _mm256_xor_si256,
        _mm512_loadu_si512, _mm512_setzero_si512, _mm512_storeu_si512, _mm512_xor_si512,
    };

    /// Vectors of a row that are summed at once: enough to wait for loads, few enough for
    /// registers.
    const UNROLLED: usize = 4;

    macro_rules! sums {
        ($name:ident, $row:ident, $feature:literal, $width:literal, $load:ident, $store:ident,
         $xor:ident, $zero:ident) => {
            /// A pass that only adds, from byte `at` on.
            ///
            /// # Safety
            /// As [`super::super::engine::Engine::pass`], and the CPU has the feature.
            #[target_feature(enable = $feature)]
            pub(in super::super) unsafe fn $name(pass: &Pass<'_>, mut at: usize) {
                // SAFETY: all vectors lie within `len`, and so do the bytes after the last one.
                unsafe {
                    // All rows of a stretch while its sources are in the nearest cache.
                    while at + UNROLLED * $width <= pass.len {
                        (0..pass.dsts.len()).for_each(|r| $row::<UNROLLED>(pass, r, at));
                        at += UNROLLED * $width;
                    }
                    while at + $width <= pass.len {
                        (0..pass.dsts.len()).for_each(|r| $row::<1>(pass, r, at));
                        at += $width;
                    }
                    super::rest(pass, at);
                }
            }

            /// N vectors of one row.
            ///
            /// # Safety
            /// As the pass; the vectors lie within `len`, and row `r` exists.
            #[inline]
            #[target_feature(enable = $feature)]
            unsafe fn $row<const N: usize>(pass: &Pass<'_>, r: usize, at: usize) {
                let mut sums = [$zero(); N];
                let row = pass.coefficients.iter().skip(r).step_by(pass.dsts.len());
                // SAFETY: as the caller promises.
                unsafe {
                    let dst = pass.dsts.get_unchecked(r).add(at);
                    if pass.add {
                        for (n, sum) in sums.iter_mut().enumerate() {
                            *sum = $load(dst.add(n * $width).cast());
                        }
                    }
                    for (src, _) in pass.srcs.iter().zip(row).filter(|(_, one)| **one == 1) {
                        for (n, sum) in sums.iter_mut().enumerate() {
                            *sum = $xor(*sum, $load(src.add(at + n * $width).cast()));
                        }
                    }
                    for (n, &sum) in sums.iter().enumerate() {
                        $store(dst.add(n * $width).cast(), sum);
                    }
                }
            }
        };
    }

    sums!(
        avx2,
        avx2_row,
        "avx2",
        32,
        _mm256_loadu_si256,
        _mm256_storeu_si256,
        _mm256_xor_si256,
        _mm256_setzero_si256
    );
    sums!(
        avx512,
        avx512_row,
        "avx512f",
        64,
        _mm512_loadu_si512,
        _mm512_storeu_si512,
        _mm512_xor_si512,
        _mm512_setzero_si512
    );
}

pub(super) use x86::{avx2, avx512};
