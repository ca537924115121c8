//! Elimination over GF(2).

/// Result of elimination for one unknown.
pub(super) type Combination = Option<Vec<usize>>;

/// Solves `rows` (each the unknowns it holds, as indices below `unknowns`): for every unknown the
/// rows whose sum is just that unknown, or nothing where the rows do not determine it.
pub(super) fn eliminate(rows: &[Vec<usize>], unknowns: usize) -> Vec<Combination> {
    let words = (unknowns + rows.len()).div_ceil(64);
    let mut bits: Vec<Vec<u64>> = Vec::with_capacity(rows.len());
    for (index, row) in rows.iter().enumerate() {
        let mut line = vec![0_u64; words];
        for &column in row.iter().chain([&(unknowns + index)]) {
            line[column / 64] ^= 1 << (column % 64);
        }
        bits.push(line);
    }
    let has = |line: &[u64], column: usize| line[column / 64] >> (column % 64) & 1 == 1;
    let mut rank = 0;
    let mut pivots = vec![None; unknowns];
    for (column, pivot) in pivots.iter_mut().enumerate() {
        let Some(found) = (rank..bits.len()).find(|&r| has(&bits[r], column)) else { continue };
        bits.swap(rank, found);
        let line = bits[rank].clone();
        for (r, other) in bits.iter_mut().enumerate() {
            if r != rank && has(other, column) {
                other.iter_mut().zip(&line).for_each(|(a, b)| *a ^= b);
            }
        }
        *pivot = Some(rank);
        rank += 1;
    }
    let alone = |line: &[u64]| (0..unknowns).filter(|&c| has(line, c)).count() == 1;
    let combination = |r: usize| {
        let line = &bits[r];
        alone(line).then(|| (0..rows.len()).filter(|&i| has(line, unknowns + i)).collect())
    };
    pivots.into_iter().map(|pivot| pivot.and_then(combination)).collect()
}
