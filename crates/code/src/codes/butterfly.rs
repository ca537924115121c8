//! Butterfly codes (Gad et al., ISIT 2013; Pamies-Juarez et al., FAST 2016, section 3): two
//! parities by XOR only, and any chunk but the last is rebuilt from half of every other.
//!
//! The sources define both parities by halving the array: with the first column cut in halves a, b
//! and the other columns in A, B, and P for "upside down",
//!
//! ```text
//! H = | a + H(A) |     butterfly parity = | P b + Q(A)             |
//!     | b + H(B) |                        | P (a + H(A) + Q(P B))  |
//! ```
//!
//! Unrolled, which is how it is built here: let row r have k-1 bits, let m_j = 2^(k-1-j) - 1, let
//! D_j be the data columns and S_j the sum of D_j to D_(k-1). Then H\[r\] = S_0\[r\], and Q\[r\] is
//! the sum over j of *one* value of row r ^ m_j each: S_j where bit k-2-j of the Gray code r ^ r/2
//! is set, else D_j. So a line is a chain of k values that nodes have at hand from adding up rows,
//! and each parity costs k-1 XORs a sub-chunk, the fewest there can be.
//!
//! *Repair of data chunk c.* f(r) = bit k-2-c of the Gray code of r, or bit 0 for the last, has
//! f(m_j) = 0 for all j but c (for the last: 1). So the rows with f = 0 and the lines that stay
//! in them hold each lost sub-chunk just once: half of every chunk. *Repair of H*: the lower
//! halves, whose lines contain all of the upper H. The last chunk has no such half (for k = 2 and 3
//! no choice of fewer than k chunks' sub-chunks determines it: tried exhaustively).

use super::CodeFamily;
use super::xor::{self, Equations, XorCode};
use crate::dag::{At, Hint};
use crate::{CodeError, CodeSpec, Result, Shape, order::LAYERS_MAX, spec::K_PLUS_M};

pub(super) const FAMILY: CodeFamily = CodeFamily {
    name: "butterfly",
    about: "Butterfly (MSR): two parities by XOR only; rebuilding any chunk but the last reads \
            half of every other; 2^(k-1) sub-chunks a chunk",
    syntax: "butterfly:k+2",
    example: "butterfly:6+2",
    examples: &[
        "butterfly:1+2", "butterfly:2+2", "butterfly:3+2", "butterfly:4+2", "butterfly:6+2",
        "butterfly:8+2",
    ],
    numbers: K_PLUS_M,
    profile: None,
    resolve: |words| {
        xor::only_parities(words, 2)?;
        Ok(vec![])
    },
    build: |spec| {
        let shape = shape(spec)?;
        Ok(Box::new(XorCode::new(equations(shape), None).with_half_reads(half_reads)))
    },
};

/// The numbers of the code, refused where 2^(k-1) is too large.
fn shape(spec: &CodeSpec) -> Result<Shape> {
    let (k, most) = (spec.k(), LAYERS_MAX.ilog2() as usize + 1);
    if k > most {
        return Err(CodeError::AlphaTooLarge {
            spec: spec.to_string(),
            alpha: format!("2^{}", k - 1),
            q: 2,
            t: k - 1,
            limit: LAYERS_MAX,
            hint: format!("butterfly takes at most {most} data chunks, clay:{k}+2 takes more"),
        });
    }
    Ok(Shape { k, m: 2, alpha: 1 << (k - 1) })
}

/// m_j: what a line's number and the row of its value in column j differ by.
fn mask(k: usize, j: usize) -> usize {
    (1 << (k - 1 - j)) - 1
}

/// Returns whether line r takes the sum S_j, not D_j, of its row in column j.
fn takes_sum(k: usize, r: usize, j: usize) -> bool {
    j + 1 < k && (r ^ (r >> 1)) >> (k - 2 - j) & 1 == 1
}

/// Rows and lines as chains of three-term equations: the partial sums are the auxiliary values, so
/// that a planner may compute every link where its data is.
fn equations(shape: Shape) -> Equations {
    let Shape { k, alpha, .. } = shape;
    let mut equations = Equations::new(shape);
    if k == 1 {
        for parity in 1..3 {
            equations.add(vec![equations.cell(0, 0), equations.cell(parity, 0)]);
        }
        return equations;
    }
    // S_j[x]; the first is H and the last is D.
    let mut sums = vec![vec![0; alpha]; k];
    for x in 0..alpha {
        sums[0][x] = equations.cell(k, x);
        sums[k - 1][x] = equations.cell(k - 1, x);
        for column in sums.iter_mut().take(k - 1).skip(1) {
            column[x] = equations.auxiliary();
        }
        for j in 0..k - 1 {
            let link = vec![sums[j][x], equations.cell(j, x), sums[j + 1][x]];
            equations.add_at(link, place(x, j));
        }
    }
    for r in 0..alpha {
        let value = |equations: &Equations, j: usize| match takes_sum(k, r, j) {
            true => sums[j][r ^ mask(k, j)],
            false => equations.cell(j, r ^ mask(k, j)),
        };
        let mut before = value(&equations, 0);
        for j in 1..k {
            let after = match j + 1 < k {
                true => equations.auxiliary(),
                false => equations.cell(k + 1, r),
            };
            let link = vec![before, value(&equations, j), after];
            equations.add_at(link, place(r ^ mask(k, j), j));
            before = after;
        }
    }
    equations
}

/// A link of a chain belongs to the row and column of the value that it adds.
fn place(row: usize, column: usize) -> Hint {
    Hint { layer: row as u32, column: column as u32 }
}

/// Returns what rebuilds a chunk from half of every other; nothing for the last chunk.
fn half_reads(shape: Shape, lost: usize) -> Option<Vec<At>> {
    let Shape { k, alpha, .. } = shape;
    if lost > k || alpha < 2 {
        return None;
    }
    let bit = |r: usize| match lost {
        // H: the lower half; so that the wanted bit is always zero, upside down.
        lost if lost == k => !r >> (k - 2) & 1,
        lost if lost + 1 == k => r & 1,
        lost => (r ^ (r >> 1)) >> (k - 2 - lost) & 1,
    };
    let mut reads = Vec::with_capacity((k + 1) * alpha / 2);
    for chunk in (0..k + 2).filter(|&chunk| chunk != lost) {
        // The last data chunk's lines are those of the other rows.
        let wanted = usize::from(chunk == k + 1 && lost + 1 == k);
        let rows = (0..alpha).filter(|&r| bit(r) == wanted);
        reads.extend(rows.map(|r| At { chunk: chunk as u32, position: r as u32 }));
    }
    Some(reads)
}

#[cfg(test)]
mod tests;
