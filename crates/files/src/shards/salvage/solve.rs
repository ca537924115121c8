//! Unknown symbols that follow from known ones: linear equations over GF(2^8).

use kiln_code::{Matrix, field};

/// An unknown symbol and what it is the sum of.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Solved {
    /// Number of the data symbol.
    pub symbol: usize,
    /// Rows of the parity matrix, each with a factor; a row stands for the parity symbol plus all
    /// known data symbols in it.
    pub terms: Vec<(usize, u8)>,
}

/// Largest system that is tried, in entries.
const ENTRIES_MAX: usize = 1 << 24;

/// Finds the unknown data symbols that follow from what is known: `known` has the data symbols
/// (columns of `parity`), then the parity symbols (its rows).
pub(super) fn solve(parity: &Matrix, known: &[bool]) -> Vec<Solved> {
    let data = parity.cols();
    let unknown: Vec<usize> = (0..data).filter(|&symbol| !known[symbol]).collect();
    let of_use = |&row: &usize| {
        known[data + row] && unknown.iter().any(|&symbol| parity.at(row, symbol) != 0)
    };
    let rows: Vec<usize> = (0..parity.rows()).filter(of_use).collect();
    let width = unknown.len() + rows.len();
    if rows.len().saturating_mul(width) > ENTRIES_MAX {
        return Vec::new();
    }
    // Beside the coefficients stands which equations a row is the sum of.
    let mut system: Vec<Vec<u8>> = (rows.iter().enumerate())
        .map(|(at, &row)| {
            let mut line: Vec<u8> = unknown.iter().map(|&symbol| parity.at(row, symbol)).collect();
            line.resize(width, 0);
            line[unknown.len() + at] = 1;
            line
        })
        .collect();
    let pivots = eliminate(&mut system, unknown.len());
    let mut solved = Vec::new();
    for (line, &pivot) in system.iter().zip(&pivots) {
        let alone = (0..unknown.len()).all(|column| column == pivot || line[column] == 0);
        if alone {
            let terms = rows.iter().zip(&line[unknown.len()..]);
            let terms = terms.filter(|(_, factor)| **factor != 0);
            let terms = terms.map(|(&row, &factor)| (row, factor)).collect();
            solved.push(Solved { symbol: unknown[pivot], terms });
        }
    }
    solved.sort_by_key(|solved| solved.symbol);
    solved
}

/// Brings the first `columns` columns into reduced echelon form; gives the pivot of each of the
/// first rows.
pub(super) fn eliminate(system: &mut [Vec<u8>], columns: usize) -> Vec<usize> {
    let mut pivots = Vec::new();
    for column in 0..columns {
        let at = pivots.len();
        let Some(found) = (at..system.len()).find(|&row| system[row][column] != 0) else {
            continue;
        };
        system.swap(at, found);
        let scale = field::inv(system[at][column]);
        system[at].iter_mut().for_each(|entry| *entry = field::mul(scale, *entry));
        let pivot = std::mem::take(&mut system[at]);
        for row in system.iter_mut().filter(|row| !row.is_empty() && row[column] != 0) {
            let factor = row[column];
            add_multiple(factor, &pivot, row);
        }
        system[at] = pivot;
        pivots.push(column);
    }
    pivots
}

/// Adds a multiple of some bytes to others.
pub(super) fn add_multiple(factor: u8, bytes: &[u8], sum: &mut [u8]) {
    let table: [u8; 256] = std::array::from_fn(|byte| field::mul(factor, byte as u8));
    for (sum, byte) in sum.iter_mut().zip(bytes) {
        *sum ^= table[usize::from(*byte)];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_is_found_and_nothing_else() {
        // Parity 0 = d0 + d1, parity 1 = d1 + 2 d2, parity 2 = d2.
        let parity = Matrix::new(3, 3, vec![1, 1, 0, 0, 1, 2, 0, 0, 1]).unwrap();
        let all = solve(&parity, &[false, false, false, true, true, true]);
        assert_eq!(all.iter().map(|s| s.symbol).collect::<Vec<_>>(), [0, 1, 2]);
        let data = [7u8, 9, 200];
        let sums = parity.mul_vec(&data).unwrap();
        for solved in &all {
            let value = solved.terms.iter().fold(0, |v, &(r, f)| v ^ field::mul(f, sums[r]));
            assert_eq!(value, data[solved.symbol]);
        }
        // Without parity 2 and d2 only d0 is one unknown of two; d1 known gives both others.
        assert_eq!(solve(&parity, &[false, false, false, true, true, false]), []);
        let some = solve(&parity, &[false, true, false, true, true, false]);
        assert_eq!(some.iter().map(|s| s.symbol).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(solve(&parity, &[false, true, true, false, true, true]), []);
    }
}
