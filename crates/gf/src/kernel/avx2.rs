//! AVX2: a product with a constant is the sum of two look-ups, one for each nibble, in
//! tables of 16 bytes; `vpshufb` looks up 32 bytes at once.

use super::engine::{Engine, Pass};
use super::generic::{self, Vector};
use super::{Kernel, nibbles};
use std::arch::x86_64::*;

/// Bytes of a vector.
pub(super) const WIDTH: usize = 32;

generic::kernel! {
    /// A value of this type proves that the CPU has AVX2. Of 16 registers a step takes at most 8
    /// for sums, 4 for halves, and those of their mask and of two tables.
    Avx2(Bytes) = "avx2", here: is_x86_feature_detected!("avx2"), features: "avx2",
    tabulate: nibbles::tabulate, most: 4, rows: 1 x 2, 2 x 2, 3 x 2, 4 x 2
}

/// 32 bytes.
#[derive(Clone, Copy)]
struct Bytes(__m256i);

impl Vector for Bytes {
    const WIDTH: usize = WIDTH;
    const TABLE_LEN: usize = nibbles::TABLE_LEN;
    /// The lower halves of all bytes, and the upper ones.
    type Source = [__m256i; 2];
    type Map = [__m256i; 2];

    generic::operations! {
        fn zero() -> Self = Bytes(_mm256_setzero_si256());
        fn load(from: *const u8) -> Self = Bytes(_mm256_loadu_si256(from.cast()));
        fn store(self, to: *mut u8) -> () = _mm256_storeu_si256(to.cast(), self.0);
        fn stream(self, to: *mut u8) -> () = _mm256_stream_si256(to.cast(), self.0);
        fn xor(self, other: Self) -> Self = Bytes(_mm256_xor_si256(self.0, other.0));
        fn source(self) -> Self::Source = {
            let low_bits = _mm256_set1_epi8(0x0f);
            let high = _mm256_and_si256(_mm256_srli_epi64::<4>(self.0), low_bits);
            [_mm256_and_si256(self.0, low_bits), high]
        };
        fn map(table: *const u8) -> Self::Map = {
            let (low, high) = (table.cast::<__m128i>(), table.add(16).cast::<__m128i>());
            [
                _mm256_broadcastsi128_si256(_mm_load_si128(low)),
                _mm256_broadcastsi128_si256(_mm_load_si128(high)),
            ]
        };
        fn add(self, source: Self::Source, map: Self::Map) -> Self = {
            let low = _mm256_shuffle_epi8(map[0], source[0]);
            let high = _mm256_shuffle_epi8(map[1], source[1]);
            Bytes(_mm256_xor_si256(self.0, _mm256_xor_si256(low, high)))
        };
    }
}
