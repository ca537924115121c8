//! Bytes of chunks that fail their checksums, as far as the code itself proves them.
//!
//! The bytes at one offset of all chunks are a codeword of their own. If all parity equations hold
//! there, none of them is wrong; if they fail as up to half as many wrong bytes would make them
//! fail, and no others, those are found and put right.

use kiln_code::Matrix;

use super::solve::{add_multiple, eliminate};

/// Most sets of chunks that are tried for the wrong bytes of a stripe.
const TRIES_MAX: usize = 1 << 20;

/// The parity equations that chunks without any bytes have no part in.
struct Checks<'a> {
    /// Factors of all symbols, a row an equation.
    rows: Vec<Vec<u8>>,
    suspects: &'a [usize],
    tries: usize,
}

/// Puts right what can be proved of symbols whose bytes are there but fail their checksums; whether
/// each of their `sub` bytes is proved. `erased` symbols have no bytes.
pub(super) fn correct(
    parity: &Matrix,
    suspects: &[usize],
    erased: &[usize],
    bytes: &mut [u8],
    sub: usize,
) -> Vec<bool> {
    let mut checks = Checks::new(parity, suspects, erased);
    let mut sums = vec![vec![0; sub]; checks.rows.len()];
    for (sum, row) in sums.iter_mut().zip(&checks.rows) {
        let there = row.iter().enumerate().filter(|(_, factor)| **factor != 0);
        there.for_each(|(at, factor)| add_multiple(*factor, &bytes[at * sub..][..sub], sum));
    }
    let judge = |offset: usize| {
        let sums: Vec<u8> = sums.iter().map(|sum| sum[offset]).collect();
        let Some(wrong) = checks.wrong(&sums) else { return false };
        wrong.into_iter().for_each(|(symbol, error)| bytes[symbol * sub + offset] ^= error);
        true
    };
    (0..sub).map(judge).collect()
}

impl<'a> Checks<'a> {
    fn new(parity: &Matrix, suspects: &'a [usize], erased: &[usize]) -> Checks<'a> {
        let (k, m) = (parity.cols(), parity.rows());
        let factor = |row: usize, symbol: usize| match symbol < k {
            true => parity.at(row, symbol),
            false => u8::from(symbol - k == row),
        };
        let row = |row: usize| {
            let first = erased.iter().map(|&symbol| factor(row, symbol));
            first.chain((0..k + m).map(|symbol| factor(row, symbol))).collect()
        };
        let mut rows: Vec<Vec<u8>> = (0..m).map(row).collect();
        let used = eliminate(&mut rows, erased.len()).len();
        let rows = rows.into_iter().skip(used).map(|row| row[erased.len()..].to_vec()).collect();
        Checks { rows, suspects, tries: 0 }
    }

    /// Returns the wrong ones among the bytes of an offset with their errors, by the values of the
    /// equations; `None`: that cannot be proved.
    fn wrong(&mut self, sums: &[u8]) -> Option<Vec<(usize, u8)>> {
        if sums.iter().all(|sum| *sum == 0) {
            return (!sums.is_empty()).then(Vec::new);
        }
        for count in 1..=sums.len() / 2 {
            let mut found = Vec::new();
            self.search(&mut Vec::new(), 0, count, sums, &mut found);
            if self.tries > TRIES_MAX || found.len() > 1 {
                return None;
            }
            if let Some(only) = found.pop() {
                return Some(only);
            }
        }
        None
    }

    /// Finds all sets of so many more suspects whose errors explain the values.
    fn search(
        &mut self,
        chosen: &mut Vec<usize>,
        from: usize,
        more: usize,
        sums: &[u8],
        found: &mut Vec<Vec<(usize, u8)>>,
    ) {
        if more == 0 {
            self.tries += 1;
            found.extend(self.errors(chosen, sums));
            return;
        }
        for at in from..self.suspects.len() {
            if self.tries <= TRIES_MAX {
                chosen.push(self.suspects[at]);
                self.search(chosen, at + 1, more - 1, sums, found);
                chosen.pop();
            }
        }
    }

    fn errors(&self, chosen: &[usize], sums: &[u8]) -> Option<Vec<(usize, u8)>> {
        let line = |(row, sum): (&Vec<u8>, &u8)| {
            chosen.iter().map(|&symbol| row[symbol]).chain([*sum]).collect()
        };
        let mut system: Vec<Vec<u8>> = self.rows.iter().zip(sums).map(line).collect();
        let count = chosen.len();
        let is_one = eliminate(&mut system, count).len() == count;
        let explains = system.iter().skip(count).all(|row| row[count] == 0);
        let errors = chosen.iter().zip(&system).map(|(symbol, row)| (*symbol, row[count]));
        (is_one && explains).then(|| errors.collect())
    }
}

#[cfg(test)]
mod tests {
    use kiln_code::field;

    use super::*;

    /// Codewords of a code of Vandermonde's with four parities, with errors of each kind.
    #[test]
    fn up_to_half_as_many_wrong_bytes_as_parities_are_found() {
        let (k, m, sub) = (5, 4, 6);
        let power = |base: u8, exponent| (0..exponent).fold(1, |p, _| field::mul(p, base));
        // Any square part of a Cauchy matrix is regular.
        let factors =
            (0..m).flat_map(|row| (0..k).map(move |col| field::inv((16 + row as u8) ^ col as u8)));
        let parity = Matrix::new(m, k, factors.collect()).unwrap();
        let mut good: Vec<u8> = (0..k * sub).map(|at| power(3, at * 7 % 255)).collect();
        for row in 0..m {
            let mut sum = vec![0; sub];
            (0..k).for_each(|at| {
                add_multiple(parity.at(row, at), &good[at * sub..][..sub], &mut sum)
            });
            good.extend(sum);
        }
        let suspects = [0, 2, 3, 5, 8];
        let flip = |bytes: &mut [u8], of: &[(usize, usize)]| {
            of.iter()
                .for_each(|(symbol, offset)| bytes[symbol * sub + offset] ^= 1 + *symbol as u8);
        };
        let mut bytes = good.clone();
        flip(&mut bytes, &[(0, 1), (2, 2), (8, 2), (3, 3), (5, 3), (0, 3), (8, 5)]);
        let proved = correct(&parity, &suspects, &[], &mut bytes, sub);
        assert_eq!(proved, [true, true, true, false, true, true]);
        flip(&mut bytes, &[(3, 3), (5, 3), (0, 3)]);
        assert_eq!(bytes, good);
        // With two chunks away one wrong byte is found, with three it shows, with four it does not.
        for (away, proved) in [(2, [true; 2]), (3, [true, false]), (4, [false; 2])] {
            let erased: Vec<usize> = [1, 4, 6, 7][..away].to_vec();
            let mut bytes = good.clone();
            erased.iter().for_each(|at| bytes[at * sub..][..sub].fill(9));
            flip(&mut bytes, &[(2, 1)]);
            let found = correct(&parity, &suspects, &erased, &mut bytes, sub);
            assert_eq!(found[..2], proved, "{away} away");
            assert_eq!(bytes[2 * sub + 1] == good[2 * sub + 1], proved[1], "{away} away");
        }
    }
}
