//! AVX-512 without GFNI: a product with a constant is the sum of two look-ups, one for each half
//! of the byte, in tables of 16 bytes; `vpshufb` looks up 64 bytes at once.

use super::engine::{Engine, Pass};
use super::generic::{self, Vector};
use super::{Kernel, nibbles};
use std::arch::x86_64::*;

/// Bytes of a vector.
pub(super) const WIDTH: usize = 64;

/// `vpternlogq` function: XOR of its three inputs.
pub(super) const XOR3: i32 = 0x96;

generic::kernel! {
    /// A value of this type proves that the CPU has AVX-512F and AVX-512BW. At most 12 sums of a
    /// step leave registers for halves and tables.
    Avx512(Bytes) = "avx512",
    here: (is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")),
    features: "avx512f,avx512bw", tabulate: nibbles::tabulate, most: 6,
    rows: 1 x 4, 2 x 4, 3 x 4, 4 x 2, 5 x 2, 6 x 2
}

/// 64 bytes.
#[derive(Clone, Copy)]
struct Bytes(__m512i);

/// The operations of a vector of 64 bytes that do not multiply.
macro_rules! bytes_of_avx512 {
    ($bytes:ident) => {
        const WIDTH: usize = WIDTH;

        generic::operations! {
            fn zero() -> Self = $bytes(_mm512_setzero_si512());
            fn load(from: *const u8) -> Self = $bytes(_mm512_loadu_si512(from.cast()));
            fn store(self, to: *mut u8) -> () = _mm512_storeu_si512(to.cast(), self.0);
            fn stream(self, to: *mut u8) -> () = _mm512_stream_si512(to.cast(), self.0);
            fn load_part(from: *const u8, len: usize) -> Self =
                $bytes(_mm512_maskz_loadu_epi8(!0 >> (WIDTH - len), from.cast()));
            fn store_part(self, to: *mut u8, len: usize) -> () =
                _mm512_mask_storeu_epi8(to.cast(), !0 >> (WIDTH - len), self.0);
            fn xor(self, other: Self) -> Self = $bytes(_mm512_xor_si512(self.0, other.0));
        }
    };
}
pub(super) use bytes_of_avx512;

impl Vector for Bytes {
    bytes_of_avx512!(Bytes);
    const TABLE_LEN: usize = nibbles::TABLE_LEN;
    /// The lower halves of all bytes, and the upper ones.
    type Source = [__m512i; 2];
    type Map = [__m512i; 2];

    generic::operations! {
        fn source(self) -> Self::Source = {
            let low_bits = _mm512_set1_epi8(0x0f);
            let high = _mm512_and_si512(_mm512_srli_epi64::<4>(self.0), low_bits);
            [_mm512_and_si512(self.0, low_bits), high]
        };
        fn map(table: *const u8) -> Self::Map = {
            let (low, high) = (table.cast::<__m128i>(), table.add(16).cast::<__m128i>());
            [
                _mm512_broadcast_i32x4(_mm_load_si128(low)),
                _mm512_broadcast_i32x4(_mm_load_si128(high)),
            ]
        };
        fn add(self, source: Self::Source, map: Self::Map) -> Self = {
            let low = _mm512_shuffle_epi8(map[0], source[0]);
            let high = _mm512_shuffle_epi8(map[1], source[1]);
            Bytes(_mm512_ternarylogic_epi64::<XOR3>(self.0, low, high))
        };
    }
}
