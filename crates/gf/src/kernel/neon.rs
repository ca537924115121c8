//! NEON: a product with a constant is the sum of two look-ups, one for each nibble, in
//! tables of 16 bytes; `tbl` looks up 16 bytes at once.

use std::arch::aarch64::*;
use std::arch::is_aarch64_feature_detected;

use super::Kernel;
use super::engine::{Engine, Pass};
use super::nibbles::{self, KEEP};
use super::scalar::scalar;

/// Bytes of a vector.
pub(super) const WIDTH: usize = 16;

/// A value of this type proves that the CPU has NEON.
#[derive(Debug)]
pub(super) struct Neon(());

pub(super) fn detect() -> Option<&'static dyn Kernel> {
    proof().map(|neon| neon as &dyn Kernel)
}

/// The kernel as what it proves.
pub(super) fn proof() -> Option<&'static Neon> {
    static NEON: Neon = Neon(());
    is_aarch64_feature_detected!("neon").then_some(&NEON)
}

impl Kernel for Neon {
    fn name(&self) -> &'static str {
        "neon"
    }

    fn vector_len(&self) -> usize {
        WIDTH
    }
}

impl Engine for Neon {
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

impl Neon {
    /// A pass from byte `from` of every operand on.
    ///
    /// # Safety
    /// As [`Engine::pass`].
    pub(super) unsafe fn pass_from(&self, pass: &Pass<'_>, from: usize) {
        // Rows x vectors per step: at most 12 sums, leaving registers for halves and tables.
        // SAFETY: the caller vouches for the operands, `self` for the CPU.
        unsafe {
            match pass.dsts.len() {
                1 => all::<1, 4>(pass, from),
                2 => all::<2, 4>(pass, from),
                3 => all::<3, 4>(pass, from),
                4 => all::<4, 3>(pass, from),
                rows => unreachable!("{rows} rows in one pass"),
            }
        }
    }
}

/// All bytes from `at` on of a pass with R rows, N vectors at a time.
///
/// # Safety
/// As [`Engine::pass`]; `dsts` has R elements.
#[target_feature(enable = "neon")]
unsafe fn all<const R: usize, const N: usize>(pass: &Pass<'_>, mut at: usize) {
    // SAFETY: every step lies within `len`, which is at least one vector where steps are made.
    unsafe {
        if pass.len < WIDTH {
            return scalar(pass);
        }
        while at + N * WIDTH <= pass.len {
            step::<R, N>(pass, at, 0);
            at += N * WIDTH;
        }
        while at + WIDTH <= pass.len {
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
#[target_feature(enable = "neon")]
unsafe fn step<const R: usize, const N: usize>(pass: &Pass<'_>, at: usize, skip: usize) {
    let low_bits = vdupq_n_u8(0x0f);
    let mut sums = [[vdupq_n_u8(0); N]; R];
    // SAFETY: the caller promises R destinations, R x cols tables of twice 16 bytes, and that the
    // vectors lie within the operands.
    unsafe {
        let mut tables = pass.tables.as_ptr();
        for src in pass.srcs {
            let (mut low, mut high) = ([low_bits; N], [low_bits; N]);
            for n in 0..N {
                let bytes = vld1q_u8(src.add(at + n * WIDTH));
                low[n] = vandq_u8(bytes, low_bits);
                high[n] = vshrq_n_u8::<4>(bytes);
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let low_table = vld1q_u8(tables.add(nibbles::TABLE_LEN * r));
                let high_table = vld1q_u8(tables.add(nibbles::TABLE_LEN * r + WIDTH));
                for n in 0..N {
                    let low = vqtbl1q_u8(low_table, low[n]);
                    let high = vqtbl1q_u8(high_table, high[n]);
                    sums[n] = veorq_u8(sums[n], veorq_u8(low, high));
                }
            }
            tables = tables.add(nibbles::TABLE_LEN * R);
        }
        let ones = KEEP[1].len();
        let keep = vld1q_u8(KEEP.as_flattened().as_ptr().add(ones - skip));
        for (r, sums) in sums.iter().enumerate() {
            for (n, &sum) in sums.iter().enumerate() {
                let dst = pass.dsts.get_unchecked(r).add(at + n * WIDTH);
                let value = match pass.add {
                    true => {
                        let sum = if n == 0 { vandq_u8(sum, keep) } else { sum };
                        veorq_u8(vld1q_u8(dst), sum)
                    }
                    false => sum,
                };
                vst1q_u8(dst, value);
            }
        }
    }
}
