//! X-Code (Xu and Bruck, IEEE Trans. Inf. Theory 1999): a p x p array, p a prime, parity along both
//! diagonals in the two last rows of *every* column.
//!
//! A chunk is a column, parity rows included, and chunks here are data or parity as a whole. X-Code
//! is MDS by columns, so any p-2 whole columns may hold data and the code determines the other two:
//! the arrays are those of X-Code, only the data stand in columns 0 to k-1 instead of in rows 0 to
//! p-3. Encoding is then X-Code's own decoder of two lost columns, with the same k-1 XORs a parity
//! sub-chunk; reads, repair and decode are X-Code's. What does not survive is the optimal update:
//! a change of one data sub-chunk changes many parities, not two.

use super::xor::{self, Equations, XorCode};
use super::{Code, CodeFamily};
use crate::{CodeSpec, Result, Shape, spec::K_PLUS_M};

pub(super) const FAMILY: CodeFamily = CodeFamily {
    name: "xcode",
    about: "X-Code, with data and parity in chunks of their own: two parities with the fewest \
            XORs; p sub-chunks a chunk, p a prime from k+2 on; dear partial updates",
    syntax: "xcode:k+2[,p=PRIME][,packet=BYTES]",
    example: "xcode:9+2",
    examples: &["xcode:3+2", "xcode:5+2"],
    numbers: K_PLUS_M,
    profile: None,
    resolve: |words| {
        xor::only_parities(words, 2)?;
        Ok(vec![xor::take_prime(words, "p", words.k + 2)?, xor::take_packet(words)?])
    },
    build,
};

fn build(spec: &CodeSpec) -> Result<Box<dyn Code>> {
    let (k, p) = (spec.k(), xor::number(spec, "p")?);
    let mut equations = Equations::new(Shape { k, m: 2, alpha: p });
    // Columns k to p-3 are virtual, whole columns of zeros; the last two are the parity chunks.
    let chunk_of = |column: usize| match column {
        column if column < k => Some(column),
        column => (column + 2).checked_sub(p).map(|parity| k + parity),
    };
    for slope in 0..2 {
        for i in 0..p {
            let column = |row: usize| match slope {
                0 => (i + row + 2) % p,
                _ => (i + 2 * p - row - 2) % p,
            };
            let cells = (0..p - 2).map(|row| (column(row), row)).chain([(i, p - 2 + slope)]);
            let cells: Vec<u32> = cells
                .filter_map(|(column, row)| Some(equations.cell(chunk_of(column)?, row)))
                .collect();
            equations.add(cells);
        }
    }
    Ok(Box::new(XorCode::new(equations, xor::packet(spec))))
}
