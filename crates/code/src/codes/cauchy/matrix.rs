//! GF(2^w) and the Cauchy matrices over it, with Jerasure's polynomials and choices.

use crate::{CodeError, Result};

/// The word sizes that have a polynomial here.
pub(super) const WORD_SIZES: [usize; 14] = [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 16, 32];
const POLYNOMIALS: [u64; 14] = [
    0x7, 0xb, 0x13, 0x25, 0x43, 0x89, 0x11d, 0x211, 0x409, 0x805, 0x1053, 0x201b, 0x1100b,
    0x1_0040_0007,
];

/// GF(2^w): integers below 2^w, bit i the coefficient of x^i.
#[derive(Debug, Clone, Copy)]
pub(super) struct BinaryField {
    w: usize,
    polynomial: u64,
}

impl BinaryField {
    pub(super) fn new(w: usize) -> Result<BinaryField> {
        let known = WORD_SIZES.into_iter().zip(POLYNOMIALS).find(|&(known, _)| known == w);
        let (w, polynomial) =
            known.ok_or_else(|| CodeError::Internal(format!("no polynomial for w={w}")))?;
        Ok(BinaryField { w, polynomial })
    }

    /// e * 2.
    pub(super) fn double(&self, e: u64) -> u64 {
        let twice = e << 1;
        if twice >> self.w & 1 == 1 { twice ^ self.polynomial } else { twice }
    }

    fn mul(&self, a: u64, b: u64) -> u64 {
        let (mut sum, mut power) = (0, a);
        for bit in 0..self.w {
            if b >> bit & 1 == 1 {
                sum ^= power;
            }
            power = self.double(power);
        }
        sum
    }

    /// 1 / e by e^(2^w - 2); e is not 0.
    fn inverse(&self, e: u64) -> u64 {
        let (mut result, mut square) = (1, e);
        for _ in 1..self.w {
            square = self.mul(square, square);
            result = self.mul(result, square);
        }
        result
    }

    /// Ones in the bit matrix of e: its XORs.
    fn ones(&self, e: u64) -> u32 {
        let powers = std::iter::successors(Some(e), |&e| Some(self.double(e)));
        powers.take(self.w).map(u64::count_ones).sum()
    }

    /// The Cauchy matrix 1 / (i + (m + j)).
    pub(super) fn original(&self, k: usize, m: usize) -> Vec<Vec<u64>> {
        let element = |i: usize, j: usize| self.inverse(i as u64 ^ (m + j) as u64);
        (0..m).map(|i| (0..k).map(|j| element(i, j)).collect()).collect()
    }

    /// The matrix with few ones.
    pub(super) fn good(&self, k: usize, m: usize) -> Vec<Vec<u64>> {
        match self.sparsest(k).filter(|_| m == 2) {
            Some(second) => vec![vec![1; k], second],
            None => self.improved(k, m),
        }
    }

    /// The k elements with the fewest ones, for the second row where the first is all ones: two
    /// such rows are MDS whatever the (distinct) elements. Jerasure has tables up to w = 11.
    fn sparsest(&self, k: usize) -> Option<Vec<u64>> {
        const TABLE_W: usize = 11;
        const TABLE_11: usize = 1023;
        let room = if self.w == TABLE_W { TABLE_11 } else { (1 << self.w.min(TABLE_W)) - 1 };
        if self.w > TABLE_W || k > room {
            return None;
        }
        let mut elements: Vec<u64> = (1..1 << self.w).collect();
        elements.sort_by_key(|&e| (self.ones(e), e));
        elements.truncate(k);
        Some(elements)
    }

    /// Columns scaled so that the first row is ones, then every other row divided by whichever of
    /// its elements leaves the fewest ones.
    fn improved(&self, k: usize, m: usize) -> Vec<Vec<u64>> {
        let mut matrix = self.original(k, m);
        for j in 0..k {
            let scale = self.inverse(matrix[0][j]);
            matrix.iter_mut().for_each(|row| row[j] = self.mul(row[j], scale));
        }
        for row in &mut matrix[1..] {
            let divided = |by: u64| -> Vec<u64> {
                let scale = self.inverse(by);
                row.iter().map(|&e| self.mul(e, scale)).collect()
            };
            let ones = |row: &[u64]| row.iter().map(|&e| self.ones(e)).sum::<u32>();
            let candidates = row.iter().copied().filter(|&e| e != 1).map(divided);
            let best = candidates.map(|row| (ones(&row), row)).min_by_key(|(ones, _)| *ones);
            if let Some((fewer, better)) = best
                && fewer < ones(row)
            {
                *row = better;
            }
        }
        matrix
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of Jerasure.
    #[test]
    fn matrices_are_those_of_jerasure() {
        let field = |w| BinaryField::new(w).unwrap();
        let orig = [[142, 244, 71, 167], [244, 142, 167, 71]];
        assert_eq!(field(8).original(4, 2), orig);
        assert_eq!(field(8).good(11, 2)[1], [1, 2, 142, 4, 71, 8, 70, 173, 3, 35, 143]);
        let four = [1, 2, 9, 4, 8, 13, 3, 6, 12, 5, 11, 15, 10, 14, 7];
        assert_eq!(field(4).good(15, 2)[1], four);
        let rows = [[1; 6], [200, 151, 172, 1, 225, 166], [202, 143, 114, 101, 200, 1]];
        assert_eq!(field(8).good(6, 3), rows);
        assert_eq!(field(8).good(8, 4)[1], [66, 235, 38, 13, 138, 73, 1, 147]);
    }

    #[test]
    fn inverses_invert_in_every_field() {
        for w in WORD_SIZES {
            let field = BinaryField::new(w).unwrap();
            let last = (1_u64 << w) - 1;
            for e in (1..last.min(500)).chain([last]) {
                assert_eq!(field.mul(e, field.inverse(e)), 1, "w={w} e={e}");
            }
        }
    }
}
