//! AVX-512 without GFNI: a product with a constant is the sum of two look-ups, one for each half
//! of the byte, in tables of 16 bytes; `vpshufb` looks up 64 bytes at once.

use std::arch::x86_64::*;

use super::Kernel;
use super::engine::{AHEAD, Engine, Pass};
use super::fetch::prefetch;
use super::nibbles;
use super::xor_only;

/// Bytes of a vector.
pub(super) const WIDTH: usize = 64;

/// `vpternlogq` function: XOR of its three inputs.
pub(super) const XOR3: i32 = 0x96;

/// A value of this type proves that the CPU has AVX-512F and AVX-512BW.
#[derive(Debug)]
struct Avx512(());

pub(super) fn detect() -> Option<&'static dyn Kernel> {
    static AVX512: Avx512 = Avx512(());
    let here = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    here.then_some(&AVX512)
}

impl Kernel for Avx512 {
    fn name(&self) -> &'static str {
        "avx512"
    }

    fn vector_len(&self) -> usize {
        WIDTH
    }
}

impl Engine for Avx512 {
    fn most_rows(&self) -> usize {
        6
    }

    fn table_len(&self) -> usize {
        nibbles::TABLE_LEN
    }

    fn tabulate(&self, coefficient: u8, table: &mut [u8]) {
        nibbles::tabulate(coefficient, table);
    }

    unsafe fn pass(&self, pass: &Pass<'_>) {
        // Rows x vectors per step: at most 12 sums, leaving registers for halves and tables.
        // SAFETY: the caller vouches for the operands, `self` for the CPU.
        unsafe {
            match pass.dsts.len() {
                _ if xor_only::only_adds(pass) => xor_only::avx512(pass, 0),
                1 => all::<1, 4>(pass),
                2 => all::<2, 4>(pass),
                3 => all::<3, 4>(pass),
                4 => all::<4, 2>(pass),
                5 => all::<5, 2>(pass),
                6 => all::<6, 2>(pass),
                rows => unreachable!("{rows} rows in one pass"),
            }
        }
    }
}

/// All bytes of a pass with R rows, N vectors at a time.
///
/// # Safety
/// As [`Engine::pass`]; `dsts` has R elements.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn all<const R: usize, const N: usize>(pass: &Pass<'_>) {
    let mut at = 0;
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
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn step<const R: usize, const N: usize>(pass: &Pass<'_>, at: usize, mask: u64) {
    let low_bits = _mm512_set1_epi8(0x0f);
    let mut sums = [[_mm512_setzero_si512(); N]; R];
    // SAFETY: the caller promises R destinations, R x cols tables of twice 16 bytes, and that the
    // vectors lie within the operands.
    unsafe {
        if pass.add {
            for (r, sums) in sums.iter_mut().enumerate() {
                *sums = load(pass.dsts.get_unchecked(r).add(at), mask);
            }
        }
        let mut tables: *const __m128i = pass.tables.as_ptr().cast();
        for src in pass.srcs {
            if N > 1 && pass.stream {
                prefetch(src.wrapping_add(at + AHEAD), N * WIDTH);
            }
            let bytes: [__m512i; N] = load(src.add(at), mask);
            let (mut low, mut high) = (bytes, bytes);
            for n in 0..N {
                low[n] = _mm512_and_si512(bytes[n], low_bits);
                high[n] = _mm512_and_si512(_mm512_srli_epi64::<4>(bytes[n]), low_bits);
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let low_table = _mm512_broadcast_i32x4(_mm_load_si128(tables.add(2 * r)));
                let high_table = _mm512_broadcast_i32x4(_mm_load_si128(tables.add(2 * r + 1)));
                for n in 0..N {
                    let low = _mm512_shuffle_epi8(low_table, low[n]);
                    let high = _mm512_shuffle_epi8(high_table, high[n]);
                    sums[n] = _mm512_ternarylogic_epi64::<XOR3>(sums[n], low, high);
                }
            }
            tables = tables.add(2 * R);
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

/// N vectors from `from` on; with N = 1 the masked bytes only, the others being 0.
///
/// # Safety
/// The N vectors, or the masked bytes, are readable.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn load<const N: usize>(from: *const u8, mask: u64) -> [__m512i; N] {
    let mut vectors = [_mm512_setzero_si512(); N];
    for (n, vector) in vectors.iter_mut().enumerate() {
        // SAFETY: promised by the caller; masked-out bytes are not accessed.
        *vector = unsafe {
            match N {
                1 => _mm512_maskz_loadu_epi8(mask, from.cast()),
                _ => _mm512_loadu_si512(from.add(n * WIDTH).cast()),
            }
        };
    }
    vectors
}

/// The opposite of [`load`].
///
/// # Safety
/// The N vectors, or the masked bytes, are writable.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn store<const N: usize>(to: *mut u8, vectors: &[__m512i; N], mask: u64) {
    for (n, &vector) in vectors.iter().enumerate() {
        // SAFETY: promised by the caller; masked-out bytes are not accessed.
        unsafe {
            match N {
                1 => _mm512_mask_storeu_epi8(to.cast(), mask, vector),
                _ => _mm512_storeu_si512(to.add(n * WIDTH).cast(), vector),
            }
        }
    }
}

/// As [`store`] of whole vectors, past the caches.
///
/// # Safety
/// The N vectors are writable and `to` is a multiple of 64.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) unsafe fn stream<const N: usize>(to: *mut u8, vectors: &[__m512i; N]) {
    for (n, &vector) in vectors.iter().enumerate() {
        // SAFETY: promised by the caller.
        unsafe { _mm512_stream_si512(to.add(n * WIDTH).cast(), vector) };
    }
}
