//! Tables of the products with nibbles, for kernels without GFNI.

use crate::field::mul;

/// Bytes of table per coefficient c: 16 products c x, then 16 products c (16 x).
pub(super) const TABLE_LEN: usize = 32;

/// Writes the table of one coefficient.
pub(super) fn tabulate(coefficient: u8, table: &mut [u8]) {
    for half in 0..16 {
        table[usize::from(half)] = mul(coefficient, half);
        table[usize::from(half) + 16] = mul(coefficient, half << 4);
    }
}

/// Bytes of the tables of all coefficients.
#[cfg_attr(not(unix), allow(dead_code))] // only machine code has them all
pub(super) const ALL_LEN: usize = 256 * TABLE_LEN;

/// Writes the tables of all coefficients, `ALL_LEN` bytes.
#[cfg_attr(not(unix), allow(dead_code))]
pub(super) fn tabulate_all(tables: &mut [u8]) {
    for (factor, table) in (0..=255).zip(tables.chunks_mut(TABLE_LEN)) {
        tabulate(factor, table);
    }
}
