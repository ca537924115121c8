//! Row-Diagonal Parity (Corbett et al., FAST 2004): rows, and diagonals that run over the row
//! parity too, p - 1 of the p there are. The fewest XORs possible.

use super::xor::{self, Equations, XorCode};
use super::{Code, CodeFamily};
use crate::{CodeSpec, Result, Shape, spec::K_PLUS_M};

pub(super) const FAMILY: CodeFamily = CodeFamily {
    name: "rdp",
    about: "Row-Diagonal Parity: two parities with the fewest XORs; p-1 sub-chunks a chunk, \
            p a prime above k; rebuilding a chunk reads 3/4 of k",
    syntax: "rdp:k+2[,p=PRIME][,packet=BYTES]",
    example: "rdp:10+2",
    examples: &["rdp:4+2", "rdp:5+2,p=11", "rdp:6+2"],
    numbers: K_PLUS_M,
    profile: None,
    resolve: |words| {
        xor::only_parities(words, 2)?;
        Ok(vec![xor::take_prime(words, "p", words.k + 1)?, xor::take_packet(words)?])
    },
    build,
};

fn build(spec: &CodeSpec) -> Result<Box<dyn Code>> {
    let (k, p) = (spec.k(), xor::number(spec, "p")?);
    let mut equations = Equations::new(Shape { k, m: 2, alpha: p - 1 });
    for i in 0..p - 1 {
        let row = (0..=k).map(|chunk| equations.cell(chunk, i)).collect();
        equations.add(row);
    }
    // Data are columns 0 to k-1, those up to p-2 are virtual, the row parity is column p-1.
    let columns = || (0..k).map(|j| (j, j)).chain([(p - 1, k)]);
    for d in 0..p - 1 {
        let cells = columns().map(|(column, chunk)| (chunk, (d + p - column) % p));
        let mut cells: Vec<u32> = cells
            .filter(|&(_, row)| row < p - 1)
            .map(|(chunk, row)| equations.cell(chunk, row))
            .collect();
        cells.push(equations.cell(k + 1, d));
        equations.add(cells);
    }
    Ok(Box::new(XorCode::new(equations, xor::packet(spec))))
}
