//! Scalar codes, one symbol a chunk: from known symbols to the unknown ones. Some are codes of
//! their own, some are inside others.

use super::Choice;
use crate::dag::{At, DagBuilder, Hint, Symbol};
use crate::spec::{Param, Words};
use crate::{CodeError, CodeSpec, Dag, Result, Shape};
use kiln_gf::{GENERATORS, Matrix, field, generator};
use std::collections::BTreeMap;

/// The generator matrix used when a spec names none.
pub(super) const DEFAULT_MATRIX: &str = "cauchy";

/// Takes the name of a generator matrix out of a spec, under `key`.
pub(super) fn take_matrix(words: &mut Words<'_>, key: &'static str) -> Result<Param> {
    let name = words.take(key).unwrap_or(DEFAULT_MATRIX);
    if !GENERATORS.iter().any(|g| g.name == name) {
        let known: Vec<&str> = GENERATORS.iter().map(|g| g.name).collect();
        return Err(words.bad(key, name, format!("known matrices: {}", known.join(", "))));
    }
    Ok(Param::new(key, name.into(), DEFAULT_MATRIX))
}

/// A systematic scalar code: the generator [I; P], one row a chunk.
#[derive(Debug, Clone)]
pub(super) struct ScalarCode {
    generator: Matrix,
}

impl ScalarCode {
    /// The named MDS code for k data and m parity symbols.
    pub(super) fn mds(spec: &CodeSpec, name: &str, k: usize, m: usize) -> Result<Self> {
        let parity = generator(name)?.parity(k, m).map_err(|error| CodeError::Unsupported {
            spec: spec.to_string(),
            reason: error.to_string(),
        })?;
        ScalarCode::of_parity(&parity)
    }

    /// The code with these coefficients, one row a parity symbol.
    pub(super) fn of_parity(parity: &Matrix) -> Result<Self> {
        Ok(ScalarCode { generator: Matrix::identity(parity.cols()).stack(parity)? })
    }

    pub(super) fn shape(&self) -> Shape {
        let k = self.generator.cols();
        Shape { k, m: self.generator.rows() - k, alpha: 1 }
    }

    /// Returns what of `chunks` follows from none before it: k of them, where they determine
    /// everything.
    pub(super) fn independent(&self, chunks: &[usize]) -> Vec<usize> {
        self.echelon(chunks).into_iter().map(|(chunk, _)| chunk).collect()
    }

    /// The independent chunks, and for each a column in which it is independent of the others.
    fn echelon(&self, chunks: &[usize]) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let mut reduced: Vec<(usize, Vec<u8>)> = Vec::new();
        for &chunk in chunks {
            let mut row = self.generator.row(chunk).to_vec();
            for (pivot, known) in &reduced {
                let factor = row[*pivot];
                row.iter_mut().zip(known).for_each(|(a, &b)| *a ^= field::mul(factor, b));
            }
            let Some(pivot) = row.iter().position(|&entry| entry != 0) else { continue };
            let scale = field::inv(row[pivot]);
            row.iter_mut().for_each(|entry| *entry = field::mul(*entry, scale));
            reduced.push((pivot, row));
            found.push((chunk, pivot));
        }
        found
    }

    /// The matrix that gives the symbols `wanted` from `known`, which are independent.
    pub(super) fn solve(&self, known: &[usize], wanted: &[usize]) -> Result<Matrix> {
        let (have, want) = (self.generator.select_rows(known), self.generator.select_rows(wanted));
        if known.len() == self.generator.cols() {
            return Ok(want.mul(&have.invert()?)?);
        }
        // As many columns as there are rows determine the factors, the other columns check them.
        let columns: Vec<usize> = self.echelon(known).into_iter().map(|(_, pivot)| pivot).collect();
        let factors = want.select_cols(&columns).mul(&have.select_cols(&columns).invert()?)?;
        match factors.mul(&have)? == want {
            true => Ok(factors),
            false => Err(CodeError::NotRecoverable {
                lost: wanted.to_vec(),
                available: known.len(),
                independent: known.len(),
                needed: self.generator.cols(),
            }),
        }
    }

    /// Returns whether the symbols `lost` follow from all others: their columns in the checks are
    /// independent.
    pub(super) fn tolerates(&self, lost: &[usize]) -> bool {
        let Shape { k, m, .. } = self.shape();
        let column = |row: usize, chunk: usize| match chunk.checked_sub(k) {
            None => self.generator.at(k + row, chunk),
            Some(parity) => u8::from(parity == row),
        };
        lost.len() <= m
            && Matrix::from_fn(m, lost.len(), |row, i| column(row, lost[i])).rank() == lost.len()
    }

    /// The DAG of a choice of whole chunks. What has the same sources is one step: for an MDS code
    /// everything, else every group alone, so that no product is by zero.
    pub(super) fn emit(&self, choice: &Choice) -> Result<Dag> {
        self.emit_with_sums(choice, &choice.lost, &[])
    }

    /// As [`ScalarCode::emit`] for the lost chunks of `solved`; the other ones are sums, each of
    /// chunks that are read or come before it.
    pub(super) fn emit_with_sums(
        &self,
        choice: &Choice,
        solved: &[usize],
        sums: &[(usize, Vec<usize>)],
    ) -> Result<Dag> {
        let at = |chunk: usize| At { chunk: chunk as u32, position: 0 };
        let hint = |chunk: usize| Hint { layer: 0, column: chunk as u32 };
        let mut builder = DagBuilder::new();
        let mut known: BTreeMap<usize, Symbol> =
            choice.helpers.iter().map(|&h| (h, builder.input(at(h), hint(h)))).collect();
        let of = |known: &BTreeMap<usize, Symbol>, chunks: &[usize]| {
            let symbols = chunks.iter().map(|chunk| known.get(chunk).copied());
            symbols.collect::<Option<Vec<Symbol>>>().ok_or_else(unknown)
        };
        let sources = of(&known, &choice.helpers)?;
        let mut steps: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
        let solve = match solved {
            [] => Matrix::zero(0, 0),
            _ => self.solve(&choice.helpers, solved)?,
        };
        for row in 0..solve.rows() {
            let used = (0..solve.cols()).filter(|&column| solve.at(row, column) != 0).collect();
            steps.entry(used).or_default().push(row);
        }
        for (columns, rows) in steps {
            let matrix = builder.matrix(&solve.select_rows(&rows).select_cols(&columns));
            let sources: Vec<_> = columns.iter().map(|&column| sources[column]).collect();
            let hints: Vec<Hint> = rows.iter().map(|&row| hint(solved[row])).collect();
            let out = builder.step(matrix, &sources, &hints)?;
            known.extend(rows.iter().enumerate().map(|(i, &row)| (solved[row], out.symbol(i))));
        }
        for (chunk, others) in sums {
            let ones = builder.matrix(&Matrix::from_fn(1, others.len(), |_, _| 1));
            let out = builder.step(ones, &of(&known, others)?, &[hint(*chunk)])?;
            known.insert(*chunk, out.symbol(0));
        }
        for (&chunk, symbol) in choice.lost.iter().zip(of(&known, &choice.lost)?) {
            builder.output(at(chunk), symbol);
        }
        builder.finish()
    }
}

/// Error of a chunk that nothing gives.
fn unknown() -> CodeError {
    CodeError::Internal("a sum of chunks that are not known".into())
}
