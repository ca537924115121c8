//! Scalar codes over bits: Jerasure's bit matrices.

use crate::codes::{cauchy, liber8tion};
use crate::{Result, Shape, codes::xor::Equations};
use kiln_gf::Matrix;

/// Scalar codes over bits, as Jerasure has them: [`BITS`] symbols a chunk.
#[derive(Debug)]
pub(super) struct BitMatrix {
    pub name: &'static str,
    equations: fn(Shape) -> Result<Equations>,
}

pub(super) const BITS: usize = 8;

const BIT_MATRICES: [BitMatrix; 3] = [
    BitMatrix { name: "cauchy-orig", equations: |shape| cauchy::equations(shape, false) },
    BitMatrix { name: "cauchy-good", equations: |shape| cauchy::equations(shape, true) },
    BitMatrix { name: "liber8tion", equations: |shape| Ok(liber8tion::equations(shape.k)) },
];

impl BitMatrix {
    pub(super) fn named(name: &str) -> Option<&'static BitMatrix> {
        BIT_MATRICES.iter().find(|bits| bits.name == name)
    }

    /// The bit matrix of m parities of k data symbols.
    pub(super) fn parity(&self, k: usize, m: usize) -> Result<Matrix> {
        Ok((self.equations)(Shape { k, m, alpha: BITS })?.parity_bits())
    }
}
