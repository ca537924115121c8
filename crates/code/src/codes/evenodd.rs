//! EVENODD (Blaum, Brady, Bruck and Menon, IEEE Trans. Computers 1995): rows and diagonals of a
//! (p-1) x p array, p a prime; the XOR S of one diagonal is added to all others.

use super::CodeFamily;
use super::xor::{self, Equations, XorCode};
use crate::{CodeSpec, Result, Shape, spec::K_PLUS_M};

pub(super) const FAMILY: CodeFamily = CodeFamily {
    name: "evenodd",
    about: "EVENODD: two parities by XOR only, rows and diagonals; p-1 sub-chunks a chunk, \
            p a prime from k on; rebuilding a chunk reads about 3/4 of k",
    syntax: "evenodd:k+2[,p=PRIME][,packet=BYTES]",
    example: "evenodd:11+2",
    examples: &["evenodd:4+2", "evenodd:4+2,p=7", "evenodd:5+2", "evenodd:3+2,p=5"],
    numbers: K_PLUS_M,
    profile: None,
    resolve: |words| {
        xor::only_parities(words, 2)?;
        Ok(vec![xor::take_prime(words, "p", words.k)?, xor::take_packet(words)?])
    },
    build: |spec| Ok(Box::new(XorCode::new(equations(spec, 2)?, xor::packet(spec)))),
};

/// The equations of EVENODD (m = 2) and of STAR, which has diagonals of the other slope as well.
pub(super) fn equations(spec: &CodeSpec, m: usize) -> Result<Equations> {
    let (k, p) = (spec.k(), xor::number(spec, "p")?);
    let mut equations = Equations::new(Shape { k, m, alpha: p - 1 });
    for i in 0..p - 1 {
        let row = (0..=k).map(|chunk| equations.cell(chunk, i)).collect();
        equations.add(row);
    }
    for slope in 1..m {
        // Diagonal d holds (d - j, j) or (d + j, j); row p-1 is imaginary and zero.
        let diagonal = |equations: &Equations, d: usize| -> Vec<u32> {
            let row = |j: usize| if slope == 1 { (d + p - j) % p } else { (d + j) % p };
            let cells = (0..k).filter(|&j| row(j) < p - 1);
            cells.map(|j| equations.cell(j, row(j))).collect()
        };
        let s = equations.auxiliary();
        for d in 0..p - 1 {
            let mut cells = diagonal(&equations, d);
            cells.extend([s, equations.cell(k + slope, d)]);
            equations.add(cells);
        }
        let mut cells = diagonal(&equations, p - 1);
        cells.push(s);
        equations.add(cells);
    }
    Ok(equations)
}
