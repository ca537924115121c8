//! Reed-Solomon: every chunk is one sub-chunk, every repair reads k whole chunks.

use super::scalar::{self, ScalarMds};
use super::{Choice, Code, CodeFamily};
use crate::dag::{At, DagBuilder, Hint};
use crate::{CodeError, CodeSpec, Dag, Shape};

pub(super) const FAMILY: CodeFamily = CodeFamily {
    name: "rs",
    about: "Reed-Solomon: fastest to write, least overhead, but rebuilding one chunk reads k",
    syntax: "rs:k+m[,matrix=cauchy|vandermonde|isa|isa-cauchy|jerasure|jerasure-r6|backblaze]",
    example: "rs:10+4",
    resolve: |words| Ok(vec![scalar::take_matrix(words, "matrix")?]),
    build: |spec| Ok(Box::new(ReedSolomon::new(spec)?)),
};

struct ReedSolomon {
    shape: Shape,
    scalar: ScalarMds,
}

impl ReedSolomon {
    fn new(spec: &CodeSpec) -> Result<Self, CodeError> {
        let scalar = ScalarMds::new(spec, spec.value("matrix"), spec.k(), spec.m())?;
        Ok(ReedSolomon { shape: Shape { k: spec.k(), m: spec.m(), alpha: 1 }, scalar })
    }
}

impl Code for ReedSolomon {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn emit(&self, choice: &Choice) -> Result<Dag, CodeError> {
        let at = |chunk: usize| At { chunk: chunk as u32, position: 0 };
        let hint = |chunk: usize| Hint { layer: 0, column: chunk as u32 };
        let mut builder = DagBuilder::new();
        let solve = self.scalar.solve(&choice.helpers, &choice.lost)?;
        let matrix = builder.matrix(&solve);
        let sources: Vec<_> =
            choice.helpers.iter().map(|&h| builder.input(at(h), hint(h))).collect();
        let hints: Vec<Hint> = choice.lost.iter().map(|&l| hint(l)).collect();
        let out = builder.step(matrix, &sources, &hints)?;
        for (row, &lost) in choice.lost.iter().enumerate() {
            builder.output(at(lost), out.symbol(row));
        }
        builder.finish()
    }
}
