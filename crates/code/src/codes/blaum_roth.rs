//! Blaum-Roth codes of lowest density (Blaum and Roth, "On lowest density MDS codes", IEEE Trans.
//! Inf. Theory 1999), in the form of Jerasure: m = 2, w + 1 a prime.

use super::xor::{self, Equations, PRIME_MAX, XorCode};
use super::{Code, CodeFamily};
use crate::spec::{K_PLUS_M, Param, Words};
use crate::{CodeSpec, Result, Shape};

pub(super) const FAMILY: CodeFamily = CodeFamily {
    name: "blaum-roth",
    about: "Blaum-Roth: two parities by XOR only, as liberation but with w + 1 a prime",
    syntax: "blaum-roth:k+2[,w=PRIME-1][,packet=BYTES]",
    example: "blaum-roth:10+2",
    examples: &["blaum-roth:4+2", "blaum-roth:5+2,w=10,packet=64", "blaum-roth:6+2"],
    numbers: K_PLUS_M,
    profile: None,
    resolve,
    build,
};

/// Ceph's default, kept by it although 8 is no prime.
const CEPH_W: usize = 7;

fn resolve(words: &mut Words<'_>) -> Result<Vec<Param>> {
    xor::only_parities(words, 2)?;
    let least = words.k.max(2);
    let legal = || (least..PRIME_MAX).filter(|&w| xor::is_prime(w + 1));
    let Some(smallest) = legal().next() else {
        let reason = format!("blaum-roth has at most {} data chunks", PRIME_MAX - 1);
        return Err(words.bad("k", &words.k.to_string(), reason));
    };
    let w = words.take_number("w")?.unwrap_or(smallest);
    let ceph = w == CEPH_W && words.k <= w;
    if !ceph && !legal().any(|legal| legal == w) {
        let some: Vec<String> = legal().take(4).map(|w| w.to_string()).collect();
        let (some, nearest) = (some.join(", "), xor::nearest(legal(), w));
        let reason = format!("w is at least k and w + 1 is a prime: {some}, ...; {nearest}");
        return Err(words.bad("w", &w.to_string(), reason));
    }
    let w = Param::new("w", w.to_string(), &smallest.to_string());
    Ok(vec![w, xor::take_packet(words)?])
}

fn build(spec: &CodeSpec) -> Result<Box<dyn Code>> {
    let w = xor::number(spec, "w")?;
    let shape = Shape { k: spec.k(), m: 2, alpha: w };
    let equations = Equations::of_blocks(shape, |r, j, l| match r {
        0 => vec![l],
        _ => columns(w, j, l),
    });
    let code = XorCode::new(equations, xor::packet(spec));
    match xor::is_prime(w + 1) {
        true => Ok(Box::new(code)),
        false => Ok(Box::new(code.check_mds(spec, "let w + 1 be a prime")?)),
    }
}

/// The set columns of row l of Q's block for data chunk j.
fn columns(w: usize, j: usize, l: usize) -> Vec<usize> {
    let (p, l) = (w + 1, l + 1);
    if j == 0 {
        return vec![l - 1];
    }
    if l + j != p {
        return vec![(l + j) % p - 1];
    }
    let half = if j.is_multiple_of(2) { j / 2 } else { p / 2 + 1 + j / 2 };
    vec![j - 1, half - 1]
}
