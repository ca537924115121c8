//! Cauchy Reed-Solomon by XOR (Blömer et al., 1995): every element of a Cauchy matrix over GF(2^w)
//! becomes a w x w bit matrix. `good` scales the matrix so that it has few ones (Plank and Xu,
//! 2006), with the very choices of Jerasure.

mod matrix;

use super::xor::{self, Equations, XorCode};
use super::{Code, CodeFamily};
use crate::spec::{K_PLUS_M, Param, Words};
use crate::{CodeSpec, Result, Shape};
use matrix::{BinaryField, WORD_SIZES};

pub(super) const FAMILY: CodeFamily = CodeFamily {
    name: "cauchy",
    about: "Cauchy Reed-Solomon as bit matrices: any k and m by XOR only, w sub-chunks a chunk",
    syntax: "cauchy:k+m[,w=2..13|16|32][,matrix=good|orig][,packet=BYTES]",
    example: "cauchy:10+4,w=8",
    examples: &[
        "cauchy:4+2", "cauchy:4+3", "cauchy:6+4,w=5,matrix=orig", "cauchy:7+3", "cauchy:10+4,w=8",
        "cauchy:7+3,w=5", "cauchy:6+4,w=4,matrix=orig",
    ],
    numbers: K_PLUS_M,
    profile: None,
    resolve,
    build,
};

fn resolve(words: &mut Words<'_>) -> Result<Vec<Param>> {
    let n = words.k + words.m;
    let fits = |w: &usize| 1_u64 << w >= n as u64;
    let smallest = WORD_SIZES.into_iter().find(fits).unwrap_or(8);
    let w = words.take_number("w")?.unwrap_or(smallest);
    if !WORD_SIZES.contains(&w) || !fits(&w) {
        let legal = WORD_SIZES.into_iter().filter(fits);
        let nearest = xor::nearest(legal, w);
        let reason =
            format!("2^w is at least k + m = {n}: w from {smallest} to 13, 16 or 32; {nearest}");
        return Err(words.bad("w", &w.to_string(), reason));
    }
    let matrix = words.take("matrix").unwrap_or("good");
    if !["good", "orig"].contains(&matrix) {
        return Err(words.bad("matrix", matrix, "known: good, orig".into()));
    }
    let w = Param::new("w", w.to_string(), &smallest.to_string());
    Ok(vec![w, Param::new("matrix", matrix.into(), "good"), xor::take_packet(words)?])
}

fn build(spec: &CodeSpec) -> Result<Box<dyn Code>> {
    let shape = Shape { k: spec.k(), m: spec.m(), alpha: xor::number(spec, "w")? };
    let equations = equations(shape, spec.value("matrix") == "good")?;
    Ok(Box::new(XorCode::new(equations, xor::packet(spec))))
}

/// The equations of `cauchy_good` or `cauchy_orig`, with w = alpha.
pub(super) fn equations(shape: Shape, good: bool) -> Result<Equations> {
    let field = BinaryField::new(shape.alpha)?;
    let matrix = match good {
        true => field.good(shape.k, shape.m),
        false => field.original(shape.k, shape.m),
    };
    Ok(Equations::of_blocks(shape, |r, j, l| {
        // Column c of an element's block holds the bits of e * 2^c, row l is bit l.
        let mut power = matrix[r][j];
        let mut columns = Vec::new();
        for c in 0..shape.alpha {
            if power >> l & 1 == 1 {
                columns.push(c);
            }
            power = field.double(power);
        }
        columns
    }))
}
