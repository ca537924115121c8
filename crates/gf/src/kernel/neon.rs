//! NEON: a product with a constant is the sum of two look-ups, one for each nibble, in
//! tables of 16 bytes; `tbl` looks up 16 bytes at once.

use std::arch::aarch64::*;
use std::arch::is_aarch64_feature_detected;

use super::engine::{Engine, Pass};
use super::generic::{self, Vector};
use super::{Kernel, nibbles};

/// Bytes of a vector.
pub(super) const WIDTH: usize = 16;

generic::kernel! {
    /// A value of this type proves that the CPU has NEON. At most 12 sums of a step leave
    /// registers for halves and tables.
    Neon(Bytes) = "neon", here: is_aarch64_feature_detected!("neon"), features: "neon",
    tabulate: nibbles::tabulate, most: 4, rows: 1 x 4, 2 x 4, 3 x 4, 4 x 3
}

/// 16 bytes.
#[derive(Clone, Copy)]
struct Bytes(uint8x16_t);

impl Vector for Bytes {
    const WIDTH: usize = WIDTH;
    const TABLE_LEN: usize = nibbles::TABLE_LEN;
    /// The lower halves of all bytes, and the upper ones.
    type Source = [uint8x16_t; 2];
    type Map = [uint8x16_t; 2];

    generic::operations! {
        fn zero() -> Self = Bytes(vdupq_n_u8(0));
        fn load(from: *const u8) -> Self = Bytes(vld1q_u8(from));
        fn store(self, to: *mut u8) -> () = vst1q_u8(to, self.0);
        fn xor(self, other: Self) -> Self = Bytes(veorq_u8(self.0, other.0));
        fn source(self) -> Self::Source = {
            [vandq_u8(self.0, vdupq_n_u8(0x0f)), vshrq_n_u8::<4>(self.0)]
        };
        fn map(table: *const u8) -> Self::Map = [vld1q_u8(table), vld1q_u8(table.add(WIDTH))];
        fn add(self, source: Self::Source, map: Self::Map) -> Self = {
            let low = vqtbl1q_u8(map[0], source[0]);
            let high = vqtbl1q_u8(map[1], source[1]);
            Bytes(veorq_u8(self.0, veorq_u8(low, high)))
        };
    }
}
