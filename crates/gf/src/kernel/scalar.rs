//! The kernel written to be read: the oracle of all others, and the one that runs everywhere.

use super::Kernel;
use super::engine::{Engine, Pass};
use crate::field::MUL;
use std::slice;

/// The kernel without any CPU feature.
#[derive(Debug)]
pub(super) struct Scalar;

pub(super) static SCALAR: Scalar = Scalar;

pub(super) fn detect() -> Option<&'static dyn Kernel> {
    Some(&SCALAR)
}

impl Kernel for Scalar {
    fn name(&self) -> &'static str {
        "scalar"
    }

    fn vector_len(&self) -> usize {
        1
    }
}

impl Engine for Scalar {
    fn most_rows(&self) -> usize {
        1
    }

    fn table_len(&self) -> usize {
        0
    }

    fn tabulate(&self, _coefficient: u8, _table: &mut [u8]) {}

    unsafe fn pass(&self, pass: &Pass<'_>) {
        // SAFETY: the caller vouches for exactly this.
        unsafe { scalar(pass) }
    }
}

/// Any number of rows, without tables; other kernels use it for pieces shorter than a vector.
///
/// # Safety
/// As [`Engine::pass`], but for the tables, which may be anything.
pub(super) unsafe fn scalar(pass: &Pass<'_>) {
    let rows = pass.dsts.len();
    for (r, &dst) in pass.dsts.iter().enumerate() {
        // SAFETY: the caller promises `len` bytes that no other operand shares.
        let dst = unsafe { slice::from_raw_parts_mut(dst, pass.len) };
        if !pass.add {
            dst.fill(0);
        }
        for (j, &src) in pass.srcs.iter().enumerate() {
            // SAFETY: the caller promises `len` readable bytes; destinations lie elsewhere.
            let src = unsafe { slice::from_raw_parts(src, pass.len) };
            let table = &MUL[pass.coefficients[j * rows + r] as usize];
            dst.iter_mut().zip(src).for_each(|(sum, &byte)| *sum ^= table[byte as usize]);
        }
    }
}
