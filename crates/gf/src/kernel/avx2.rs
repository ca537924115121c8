//! AVX2: a product with a constant is the sum of two look-ups, one for each nibble, in
//! tables of 16 bytes; `vpshufb` looks up 32 bytes at once.

use std::arch::x86_64::*;

use super::Kernel;
use super::engine::{AHEAD, Engine, Pass};
use super::fetch::prefetch;
use super::nibbles::{self, KEEP};
use super::scalar::scalar;
use super::xor_only;

/// Bytes of a vector.
pub(super) const WIDTH: usize = 32;

/// A value of this type proves that the CPU has AVX2.
#[derive(Debug)]
pub(super) struct Avx2(());

pub(super) fn detect() -> Option<&'static dyn Kernel> {
    proof().map(|avx2| avx2 as &dyn Kernel)
}

/// The kernel as what it proves.
pub(super) fn proof() -> Option<&'static Avx2> {
    static AVX2: Avx2 = Avx2(());
    is_x86_feature_detected!("avx2").then_some(&AVX2)
}

impl Kernel for Avx2 {
    fn name(&self) -> &'static str {
        "avx2"
    }

    fn vector_len(&self) -> usize {
        WIDTH
    }
}

impl Engine for Avx2 {
    fn most_rows(&self) -> usize {
        4
    }

    fn table_len(&self) -> usize {
        nibbles::TABLE_LEN
    }

    fn tabulate(&self, coefficient: u8, table: &mut [u8]) {
        nibbles::tabulate(coefficient, table);
    }

    unsafe fn pass(&self, pass: &Pass<'_>) {
        // SAFETY: promised by the caller.
        unsafe { self.pass_from(pass, 0) };
    }
}

impl Avx2 {
    /// A pass from byte `from` of every operand on.
    ///
    /// # Safety
    /// As [`Engine::pass`].
    pub(super) unsafe fn pass_from(&self, pass: &Pass<'_>, from: usize) {
        // SAFETY: the caller vouches for the operands, `self` for the CPU.
        unsafe {
            match pass.dsts.len() {
                _ if xor_only::only_adds(pass) => xor_only::avx2(pass, from),
                1 => all::<1>(pass, from),
                2 => all::<2>(pass, from),
                3 => all::<3>(pass, from),
                4 => all::<4>(pass, from),
                rows => unreachable!("{rows} rows in one pass"),
            }
        }
    }
}

/// All bytes from `at` on of a pass with R rows, two vectors at a time: at most 8 sums, 4 halves,
/// their mask and two tables, which just fit in 16 registers.
///
/// # Safety
/// As [`Engine::pass`]; `dsts` has R elements.
#[target_feature(enable = "avx2")]
unsafe fn all<const R: usize>(pass: &Pass<'_>, mut at: usize) {
    // SAFETY: every step lies within `len`, which is at least one vector where steps are made.
    unsafe {
        if pass.len < WIDTH {
            return scalar(pass);
        }
        while at + 2 * WIDTH <= pass.len {
            step::<R, 2>(pass, at, 0);
            at += 2 * WIDTH;
        }
        if at + WIDTH <= pass.len {
            step::<R, 1>(pass, at, 0);
            at += WIDTH;
        }
        if at < pass.len {
            let last = pass.len - WIDTH;
            step::<R, 1>(pass, last, at - last);
        }
    }
}

/// N vectors of each of R destinations, from byte `at` on; the first `skip` bytes, fewer than a
/// vector, hold their results already.
///
/// # Safety
/// As [`Engine::pass`]; `dsts` has R elements, the N vectors lie within `len`, `skip < WIDTH`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn step<const R: usize, const N: usize>(pass: &Pass<'_>, at: usize, skip: usize) {
    let low_bits = _mm256_set1_epi8(0x0f);
    let mut sums = [[_mm256_setzero_si256(); N]; R];
    // SAFETY: the caller promises R destinations, R x cols tables of twice 16 bytes, and that the
    // vectors lie within the operands.
    unsafe {
        let mut tables: *const __m128i = pass.tables.as_ptr().cast();
        for src in pass.srcs {
            if N > 1 && pass.stream {
                prefetch(src.wrapping_add(at + AHEAD), N * WIDTH);
            }
            let (mut low, mut high) = ([low_bits; N], [low_bits; N]);
            for n in 0..N {
                let bytes = _mm256_loadu_si256(src.add(at + n * WIDTH).cast());
                low[n] = _mm256_and_si256(bytes, low_bits);
                high[n] = _mm256_and_si256(_mm256_srli_epi64::<4>(bytes), low_bits);
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let low_table = _mm256_broadcastsi128_si256(_mm_load_si128(tables.add(2 * r)));
                let high_table = _mm256_broadcastsi128_si256(_mm_load_si128(tables.add(2 * r + 1)));
                for n in 0..N {
                    let low = _mm256_shuffle_epi8(low_table, low[n]);
                    let high = _mm256_shuffle_epi8(high_table, high[n]);
                    sums[n] = _mm256_xor_si256(sums[n], _mm256_xor_si256(low, high));
                }
            }
            tables = tables.add(2 * R);
        }
        let keep = _mm256_loadu_si256(KEEP.as_flattened().as_ptr().add(WIDTH - skip).cast());
        for (r, sums) in sums.iter().enumerate() {
            for (n, &sum) in sums.iter().enumerate() {
                let dst: *mut __m256i = pass.dsts.get_unchecked(r).add(at + n * WIDTH).cast();
                if pass.add {
                    let sum = if n == 0 { _mm256_and_si256(sum, keep) } else { sum };
                    _mm256_storeu_si256(dst, _mm256_xor_si256(_mm256_loadu_si256(dst), sum));
                } else if N > 1 && pass.stream && dst.addr().is_multiple_of(WIDTH) {
                    _mm256_stream_si256(dst, sum);
                } else {
                    _mm256_storeu_si256(dst, sum);
                }
            }
        }
    }
}
