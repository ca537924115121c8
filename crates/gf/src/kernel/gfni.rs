//! GFNI with AVX-512: a product with a constant is a linear map of the 8 bits of a byte, so one
//! `vgf2p8affineqb` with that map's bit-matrix multiplies 64 bytes. (`vgf2p8mulb` is of no use:
//! its polynomial is 0x11b.)

use std::arch::x86_64::*;

use super::Kernel;
use super::avx512::{WIDTH, XOR3, bytes_of_avx512};
use super::engine::{Engine, Pass};
use super::generic::{self, Vector};
use crate::field::mul;

generic::kernel! {
    /// A value of this type proves that the CPU has GFNI, AVX-512F and AVX-512BW. 16 sums of the 32
    /// registers are never spilled.
    Gfni(Bytes) = "gfni",
    here: (is_x86_feature_detected!("gfni")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")),
    features: "avx512f,avx512bw,gfni", tabulate: tabulate, most: 8,
    rows: 1 x 4, 2 x 4, 3 x 4, 4 x 4, 5 x 2, 6 x 2, 7 x 2, 8 x 2
}

/// Writes the bit-matrix of one coefficient.
fn tabulate(coefficient: u8, table: &mut [u8]) {
    // The instruction's row for output bit i is byte 7 - i; its bit j selects input bit j.
    for (byte, row) in table.iter_mut().enumerate() {
        let bit = 7 - byte;
        *row = (0..8).fold(0, |row, j| row | ((mul(coefficient, 1 << j) >> bit) & 1) << j);
    }
}

/// 64 bytes.
#[derive(Clone, Copy)]
struct Bytes(__m512i);

impl Vector for Bytes {
    bytes_of_avx512!(Bytes);
    const TABLE_LEN: usize = 8;
    const PAIRS: bool = true;
    type Source = __m512i;
    type Map = __m512i;

    generic::operations! {
        fn source(self) -> Self::Source = self.0;
        fn map(table: *const u8) -> Self::Map = _mm512_set1_epi64(*table.cast());
        fn add(self, source: Self::Source, map: Self::Map) -> Self = {
            let product = _mm512_gf2p8affine_epi64_epi8::<0>(source, map);
            Bytes(_mm512_xor_si512(self.0, product))
        };
        fn add_two(self, sources: [Self::Source; 2], maps: [Self::Map; 2]) -> Self = {
            let a = _mm512_gf2p8affine_epi64_epi8::<0>(sources[0], maps[0]);
            let b = _mm512_gf2p8affine_epi64_epi8::<0>(sources[1], maps[1]);
            Bytes(_mm512_ternarylogic_epi64::<XOR3>(self.0, a, b))
        };
    }
}
