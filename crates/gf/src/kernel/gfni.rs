//! GFNI with AVX-512: a product with a constant is a linear map of the 8 bits of a byte, so one
//! `vgf2p8affineqb` with that map's bit-matrix multiplies 64 bytes. (`vgf2p8mulb` is of no use:
//! its polynomial is 0x11b.)

use std::arch::x86_64::*;

use super::Kernel;
use super::avx512::{WIDTH, XOR3, load, store, stream};
use super::engine::{AHEAD, Engine, Pass};
use super::fetch::prefetch;
use crate::field::mul;

/// A value of this type proves that the CPU has GFNI, AVX-512F and AVX-512BW.
#[derive(Debug)]
pub(super) struct Gfni(());

pub(super) fn detect() -> Option<&'static dyn Kernel> {
    proof().map(|gfni| gfni as &dyn Kernel)
}

/// The kernel as what it proves.
pub(super) fn proof() -> Option<&'static Gfni> {
    static GFNI: Gfni = Gfni(());
    let here = is_x86_feature_detected!("gfni")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw");
    here.then_some(&GFNI)
}

impl Kernel for Gfni {
    fn name(&self) -> &'static str {
        "gfni"
    }

    fn vector_len(&self) -> usize {
        WIDTH
    }
}

impl Engine for Gfni {
    fn most_rows(&self) -> usize {
        8
    }

    fn table_len(&self) -> usize {
        8
    }

    fn tabulate(&self, coefficient: u8, table: &mut [u8]) {
        // The instruction's row for output bit i is byte 7 - i; its bit j selects input bit j.
        for (byte, row) in table.iter_mut().enumerate() {
            let bit = 7 - byte;
            *row = (0..8).fold(0, |row, j| row | ((mul(coefficient, 1 << j) >> bit) & 1) << j);
        }
    }

    unsafe fn pass(&self, pass: &Pass<'_>) {
        // SAFETY: promised by the caller.
        unsafe { self.pass_from(pass, 0) };
    }
}

impl Gfni {
    /// A pass from byte `from` of every operand on.
    ///
    /// # Safety
    /// As [`Engine::pass`].
    pub(super) unsafe fn pass_from(&self, pass: &Pass<'_>, from: usize) {
        // Rows x vectors per step: 16 sums of the 32 registers, so that none is spilled.
        // SAFETY: the caller vouches for the operands, `self` for the CPU.
        unsafe {
            match pass.dsts.len() {
                1 => all::<1, 4>(pass, from),
                2 => all::<2, 4>(pass, from),
                3 => all::<3, 4>(pass, from),
                4 => all::<4, 4>(pass, from),
                5 => all::<5, 2>(pass, from),
                6 => all::<6, 2>(pass, from),
                7 => all::<7, 2>(pass, from),
                8 => all::<8, 2>(pass, from),
                rows => unreachable!("{rows} rows in one pass"),
            }
        }
    }
}

/// All bytes from `at` on of a pass with R rows, N vectors at a time.
///
/// # Safety
/// As [`Engine::pass`]; `dsts` has R elements.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
unsafe fn all<const R: usize, const N: usize>(pass: &Pass<'_>, mut at: usize) {
    // SAFETY: each step stays below `len`: whole vectors while they fit, then masked ones.
    unsafe {
        while at + N * WIDTH <= pass.len {
            step::<R, N>(pass, at, !0);
            at += N * WIDTH;
        }
        while at < pass.len {
            let rest = (pass.len - at).min(WIDTH);
            step::<R, 1>(pass, at, !0 >> (WIDTH - rest));
            at += WIDTH;
        }
    }
}

/// N vectors of each of R destinations, from byte `at` on. With N = 1 only the bytes that `mask`
/// selects are touched; otherwise it is ignored.
///
/// # Safety
/// As [`Engine::pass`]; `dsts` has R elements, and the N vectors, or the masked bytes, from `at`
/// on lie within `len`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
unsafe fn step<const R: usize, const N: usize>(pass: &Pass<'_>, at: usize, mask: u64) {
    let mut sums = [[_mm512_setzero_si512(); N]; R];
    // SAFETY: the caller promises R destinations, cols sources, R x cols tables of 8 bytes at an
    // aligned address, and that the vectors lie within the operands.
    unsafe {
        if pass.add {
            for (r, sums) in sums.iter_mut().enumerate() {
                *sums = load(pass.dsts.get_unchecked(r).add(at), mask);
            }
        }
        let mut maps: *const i64 = pass.tables.as_ptr().cast();
        let mut srcs = pass.srcs.chunks_exact(2);
        if N > 1 && pass.stream {
            for src in pass.srcs {
                prefetch(src.wrapping_add(at + AHEAD), N * WIDTH);
            }
        }
        for pair in &mut srcs {
            let [a, b]: [[__m512i; N]; 2] =
                [load(pair[0].add(at), mask), load(pair[1].add(at), mask)];
            for (r, sums) in sums.iter_mut().enumerate() {
                let map_a = _mm512_set1_epi64(*maps.add(r));
                let map_b = _mm512_set1_epi64(*maps.add(R + r));
                for n in 0..N {
                    let a = _mm512_gf2p8affine_epi64_epi8::<0>(a[n], map_a);
                    let b = _mm512_gf2p8affine_epi64_epi8::<0>(b[n], map_b);
                    sums[n] = _mm512_ternarylogic_epi64::<XOR3>(sums[n], a, b);
                }
            }
            maps = maps.add(2 * R);
        }
        if let [last] = srcs.remainder() {
            let a: [__m512i; N] = load(last.add(at), mask);
            for (r, sums) in sums.iter_mut().enumerate() {
                let map = _mm512_set1_epi64(*maps.add(r));
                for n in 0..N {
                    let a = _mm512_gf2p8affine_epi64_epi8::<0>(a[n], map);
                    sums[n] = _mm512_xor_si512(sums[n], a);
                }
            }
        }
        for (r, sums) in sums.iter().enumerate() {
            let to = pass.dsts.get_unchecked(r).add(at);
            match N > 1 && pass.stream && to.addr().is_multiple_of(WIDTH) {
                true => stream(to, sums),
                false => store(to, sums, mask),
            }
        }
    }
}
