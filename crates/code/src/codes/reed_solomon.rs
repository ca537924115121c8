//! Reed-Solomon: every chunk is one sub-chunk, every repair reads k whole chunks.

use super::scalar::{self, ScalarCode};
use super::{Choice, Code, CodeFamily};
use crate::{Dag, Result, Shape, spec::K_PLUS_M};

pub(super) const FAMILY: CodeFamily = CodeFamily {
    name: "rs",
    about: "Reed-Solomon: fastest to write, least overhead, but rebuilding one chunk reads k",
    syntax: "rs:k+m[,matrix=cauchy|vandermonde|isa|isa-cauchy|jerasure|jerasure-r6|backblaze|zfec]",
    example: "rs:10+4",
    examples: &[
        "rs:1+1", "rs:4+2", "rs:5+4,matrix=jerasure", "rs:6+3,matrix=isa",
        "rs:6+3,matrix=vandermonde", "rs:6+4,matrix=isa-cauchy", "rs:7+3,matrix=backblaze",
        "rs:7+4,matrix=zfec", "rs:8+2,matrix=jerasure-r6",
    ],
    numbers: K_PLUS_M,
    profile: None,
    resolve: |words| Ok(vec![scalar::take_matrix(words, "matrix")?]),
    build: |spec| {
        let code = ScalarCode::mds(spec, spec.value("matrix"), spec.k(), spec.m())?;
        Ok(Box::new(ReedSolomon(code)))
    },
};

struct ReedSolomon(ScalarCode);

impl Code for ReedSolomon {
    fn shape(&self) -> Shape {
        self.0.shape()
    }

    fn emit(&self, choice: &Choice) -> Result<Dag> {
        self.0.emit(choice)
    }
}
