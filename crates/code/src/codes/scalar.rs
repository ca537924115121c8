//! Scalar MDS codes as codes inside others: from k known symbols to the unknown ones.

use crate::spec::{Param, Words};
use crate::{CodeError, CodeSpec};
use kiln_gf::{GENERATORS, Matrix, generator};

/// The generator matrix used when a spec names none.
pub(super) const DEFAULT_MATRIX: &str = "cauchy";

/// Takes the name of a generator matrix out of a spec, under `key`.
pub(super) fn take_matrix(words: &mut Words<'_>, key: &'static str) -> Result<Param, CodeError> {
    let name = words.take(key).unwrap_or(DEFAULT_MATRIX);
    if !GENERATORS.iter().any(|g| g.name == name) {
        let known: Vec<&str> = GENERATORS.iter().map(|g| g.name).collect();
        return Err(words.bad(key, name, format!("known matrices: {}", known.join(", "))));
    }
    Ok(Param::new(key, name.into(), DEFAULT_MATRIX))
}

/// A systematic scalar MDS code: the generator [I; P] with k + m rows.
#[derive(Debug, Clone)]
pub(super) struct ScalarMds {
    generator: Matrix,
}

impl ScalarMds {
    /// Builds the named code for k data and m parity symbols.
    pub(super) fn new(spec: &CodeSpec, name: &str, k: usize, m: usize) -> Result<Self, CodeError> {
        let parity = generator(name)?.parity(k, m).map_err(|error| CodeError::Unsupported {
            spec: spec.to_string(),
            reason: error.to_string(),
        })?;
        Ok(ScalarMds { generator: Matrix::identity(k).stack(&parity)? })
    }

    /// The matrix that gives the symbols `wanted` from exactly k symbols `known`.
    pub(super) fn solve(&self, known: &[usize], wanted: &[usize]) -> Result<Matrix, CodeError> {
        let data = self.generator.select_rows(known).invert()?;
        Ok(self.generator.select_rows(wanted).mul(&data)?)
    }
}
