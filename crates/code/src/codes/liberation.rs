//! Liberation codes (Plank, FAST 2008): m = 2, w an odd prime, the lowest density there is: one bit
//! more than an identity in every block of Q but the first.

use super::xor::{self, Equations, XorCode};
use super::{Code, CodeFamily};
use crate::{CodeSpec, Result, Shape, spec::K_PLUS_M};

pub(super) const FAMILY: CodeFamily = CodeFamily {
    name: "liberation",
    about: "Liberation: two parities by XOR only, close to the fewest XORs and updates; \
            w sub-chunks a chunk, w an odd prime from k on",
    syntax: "liberation:k+2[,w=PRIME][,packet=BYTES]",
    example: "liberation:11+2",
    examples: &[
        "liberation:1+2", "liberation:4+2", "liberation:4+2,w=11", "liberation:7+2",
        "liberation:5+2", "liberation:4+2,w=7",
    ],
    numbers: K_PLUS_M,
    profile: None,
    resolve: |words| {
        xor::only_parities(words, 2)?;
        Ok(vec![xor::take_prime(words, "w", words.k)?, xor::take_packet(words)?])
    },
    build,
};

fn build(spec: &CodeSpec) -> Result<Box<dyn Code>> {
    let w = xor::number(spec, "w")?;
    let shape = Shape { k: spec.k(), m: 2, alpha: w };
    Ok(Box::new(XorCode::new(
        Equations::of_blocks(shape, |r, j, l| match r {
            0 => vec![l],
            _ => columns(w, j, l),
        }),
        xor::packet(spec),
    )))
}

/// The set columns of row l of Q's block for data chunk j (paper, section 3).
fn columns(w: usize, j: usize, l: usize) -> Vec<usize> {
    let mut columns = vec![(l + j) % w];
    if j > 0 && l == j * ((w - 1) / 2) % w {
        columns.push((l + j - 1) % w);
    }
    columns
}
