//! Small dense matrices over GF(2^8), row by row, and the check that a code is MDS.

use crate::GfError;
use crate::field::{self, MUL};
use std::fmt;

/// Most minors that [`Matrix::check_mds`] looks at: about a second of work.
pub const MINOR_LIMIT: u64 = 20_000_000;

/// A matrix over GF(2^8), stored row by row.
///
/// Indices outside the matrix panic, as those of slices do.
///
/// ```
/// use kiln_gf::Matrix;
/// let matrix = Matrix::new(2, 2, vec![1, 1, 1, 2])?;
/// assert!(matrix.mul(&matrix.invert()?)?.is_identity());
/// assert_eq!(matrix.mul_vec(&[5, 6])?, [5 ^ 6, 5 ^ 12]);
/// # Ok::<(), kiln_gf::GfError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    data: Vec<u8>,
}

impl Matrix {
    /// A matrix of `rows` x `cols` elements given row by row.
    ///
    /// Fails with [`GfError::Shape`] when `data` has another number of elements.
    pub fn new(rows: usize, cols: usize, data: Vec<u8>) -> Result<Matrix, GfError> {
        let expected = rows.saturating_mul(cols);
        if data.len() != expected {
            let what = "elements of a matrix";
            return Err(GfError::Shape { what, expected, found: data.len() });
        }
        Ok(Matrix { rows, cols, data })
    }

    /// A matrix whose element in row r and column c is `element(r, c)`.
    pub fn from_fn(
        rows: usize,
        cols: usize,
        mut element: impl FnMut(usize, usize) -> u8,
    ) -> Matrix {
        let mut data = Vec::with_capacity(rows * cols);
        for r in 0..rows {
            data.extend((0..cols).map(|c| element(r, c)));
        }
        Matrix { rows, cols, data }
    }

    /// The n x n identity.
    pub fn identity(n: usize) -> Matrix {
        Matrix::from_fn(n, n, |r, c| u8::from(r == c))
    }

    /// The `rows` x `cols` matrix of zeros.
    pub fn zero(rows: usize, cols: usize) -> Matrix {
        Matrix { rows, cols, data: vec![0; rows * cols] }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// All elements, row by row.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// Row `r`.
    pub fn row(&self, r: usize) -> &[u8] {
        assert!(r < self.rows, "row {r} of a matrix with {} rows", self.rows);
        &self.data[r * self.cols..][..self.cols]
    }

    /// The element in row `r` and column `c`.
    pub fn at(&self, r: usize, c: usize) -> u8 {
        self.row(r)[c]
    }

    /// Replaces the element in row `r` and column `c`.
    pub fn set(&mut self, r: usize, c: usize, value: u8) {
        self.row_mut(r)[c] = value;
    }

    fn row_mut(&mut self, r: usize) -> &mut [u8] {
        assert!(r < self.rows, "row {r} of a matrix with {} rows", self.rows);
        &mut self.data[r * self.cols..][..self.cols]
    }

    /// The product `self` x `right`.
    ///
    /// Fails with [`GfError::Shape`] unless `right` has as many rows as `self` has columns.
    pub fn mul(&self, right: &Matrix) -> Result<Matrix, GfError> {
        if right.rows != self.cols {
            let what = "rows of the right factor";
            return Err(GfError::Shape { what, expected: self.cols, found: right.rows });
        }
        let mut product = Matrix::zero(self.rows, right.cols);
        for r in 0..self.rows {
            for (c, &coefficient) in self.row(r).iter().enumerate() {
                add_multiple(product.row_mut(r), right.row(c), coefficient);
            }
        }
        Ok(product)
    }

    /// The product `self` x `vector`, one element per row.
    ///
    /// Fails with [`GfError::Shape`] unless the vector has one element per column.
    pub fn mul_vec(&self, vector: &[u8]) -> Result<Vec<u8>, GfError> {
        if vector.len() != self.cols {
            let what = "elements of the vector";
            return Err(GfError::Shape { what, expected: self.cols, found: vector.len() });
        }
        let dot =
            |r| self.row(r).iter().zip(vector).fold(0, |sum, (&a, &b)| sum ^ field::mul(a, b));
        Ok((0..self.rows).map(dot).collect())
    }

    /// The inverse, by Gauss-Jordan elimination.
    ///
    /// Fails with [`GfError::Shape`] when the matrix is not square and with
    /// [`GfError::Singular`] when it has no inverse.
    pub fn invert(&self) -> Result<Matrix, GfError> {
        if self.rows != self.cols {
            let what = "columns of a matrix to invert";
            return Err(GfError::Shape { what, expected: self.rows, found: self.cols });
        }
        let size = self.rows;
        let wide = |r: usize, c| if c < size { self.at(r, c) } else { u8::from(c - size == r) };
        let mut wide = Matrix::from_fn(size, 2 * size, wide);
        let rank = wide.eliminate(size);
        if rank < size {
            return Err(GfError::Singular { size, rank });
        }
        Ok(Matrix::from_fn(size, size, |r, c| wide.at(r, size + c)))
    }

    /// The number of linearly independent rows.
    pub fn rank(&self) -> usize {
        self.clone().eliminate(self.cols)
    }

    /// Brings the first `cols` columns into reduced echelon form; returns their rank.
    fn eliminate(&mut self, cols: usize) -> usize {
        let mut rank = 0;
        for c in 0..cols {
            let Some(pivot) = (rank..self.rows).find(|&r| self.at(r, c) != 0) else { continue };
            if pivot != rank {
                let (upper, lower) = self.data.split_at_mut(pivot * self.cols);
                upper[rank * self.cols..][..self.cols].swap_with_slice(&mut lower[..self.cols]);
            }
            let scale = &MUL[field::inv(self.at(rank, c)) as usize];
            self.row_mut(rank).iter_mut().for_each(|element| *element = scale[*element as usize]);
            let pivot_row = self.row(rank).to_vec();
            for r in (0..self.rows).filter(|&r| r != rank) {
                let coefficient = self.at(r, c);
                add_multiple(self.row_mut(r), &pivot_row, coefficient);
            }
            rank += 1;
        }
        rank
    }

    /// The rows with these indices, in this order; an index may repeat.
    pub fn select_rows(&self, rows: &[usize]) -> Matrix {
        Matrix::from_fn(rows.len(), self.cols, |r, c| self.at(rows[r], c))
    }

    /// The columns with these indices, in this order; an index may repeat.
    pub fn select_cols(&self, cols: &[usize]) -> Matrix {
        Matrix::from_fn(self.rows, cols.len(), |r, c| self.at(r, cols[c]))
    }

    /// This matrix with the rows of `below` under its own.
    ///
    /// Fails with [`GfError::Shape`] unless both have as many columns.
    pub fn stack(&self, below: &Matrix) -> Result<Matrix, GfError> {
        if below.cols != self.cols {
            let what = "columns of the lower matrix";
            return Err(GfError::Shape { what, expected: self.cols, found: below.cols });
        }
        let data = [&self.data[..], &below.data].concat();
        Ok(Matrix { rows: self.rows + below.rows, cols: self.cols, data })
    }

    /// Returns whether this is a square matrix with ones on the diagonal and zeros elsewhere.
    pub fn is_identity(&self) -> bool {
        let unit = |(i, &element): (usize, &u8)| {
            element == u8::from(i.checked_div(self.cols) == i.checked_rem(self.cols))
        };
        self.rows == self.cols && self.data.iter().enumerate().all(unit)
    }

    /// Checks that this m x k parity matrix makes an MDS code: that every square submatrix is
    /// nonsingular, so that any k of the k + m chunks give all the others.
    ///
    /// Minors are checked from the smallest size up. Fails with [`GfError::NotMds`] naming the
    /// first singular one, which is of the smallest size, or with [`GfError::TooLarge`] when none
    /// was found among the sizes that fit in `MINOR_LIMIT` and larger ones remain.
    pub fn check_mds(&self) -> Result<(), GfError> {
        let mut minors: u64 = 0;
        for size in 1..=self.rows.min(self.cols) {
            let count = binomial(self.rows, size).saturating_mul(binomial(self.cols, size));
            minors = minors.saturating_add(count);
            if minors > MINOR_LIMIT {
                let limit = MINOR_LIMIT;
                return Err(GfError::TooLarge { rows: self.rows, cols: self.cols, limit });
            }
            self.check_minors(size)?;
        }
        Ok(())
    }

    /// Checks all minors of one size, those of smaller sizes being nonsingular.
    fn check_minors(&self, size: usize) -> Result<(), GfError> {
        let mut rows: Vec<usize> = (0..size).collect();
        loop {
            let mut search = MinorSearch { matrix: self, rows: &rows, cols: vec![], basis: vec![] };
            if search.find_dependent(0) {
                let cols = search.cols;
                return Err(GfError::NotMds { rows, cols });
            }
            if !next_combination(&mut rows, self.rows) {
                return Ok(());
            }
        }
    }
}

impl fmt::Debug for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Matrix {} x {} ", self.rows, self.cols)?;
        f.debug_list().entries((0..self.rows).map(|r| self.row(r))).finish()
    }
}

/// `row` += `coefficient` x `other`.
fn add_multiple(row: &mut [u8], other: &[u8], coefficient: u8) {
    if coefficient != 0 {
        let table = &MUL[coefficient as usize];
        row.iter_mut().zip(other).for_each(|(a, &b)| *a ^= table[b as usize]);
    }
}

/// n over k, or `u64::MAX` where that overflows.
fn binomial(n: usize, k: usize) -> u64 {
    let mut value: u64 = 1;
    for i in 0..k as u64 {
        // Exact: the product of i + 1 consecutive numbers is divisible by (i + 1)!.
        value = match value.checked_mul(n as u64 - i) {
            Some(product) => product / (i + 1),
            None => return u64::MAX,
        };
    }
    value
}

/// The next subset of 0..n in lexicographic order, or false after the last.
fn next_combination(subset: &mut [usize], n: usize) -> bool {
    let size = subset.len();
    let Some(i) = (0..size).rev().find(|&i| subset[i] < n - size + i) else { return false };
    subset[i] += 1;
    for later in i + 1..size {
        subset[later] = subset[later - 1] + 1;
    }
    true
}

/// Depth-first search for dependent columns among fixed rows. Minors that share their first
/// columns share the elimination of these, so one minor costs size^2 instead of size^3 steps.
struct MinorSearch<'a> {
    matrix: &'a Matrix,
    rows: &'a [usize],
    /// Columns chosen so far, ascending.
    cols: Vec<usize>,
    /// Per chosen column, its vector reduced by the earlier ones and its pivot, scaled to 1.
    basis: Vec<(Vec<u8>, usize)>,
}

impl MinorSearch<'_> {
    /// Returns whether some choice of further columns from `first` on is dependent; `cols` names
    /// it.
    fn find_dependent(&mut self, first: usize) -> bool {
        let size = self.rows.len();
        let mut vector = vec![0; size];
        for col in first..=self.matrix.cols - (size - self.cols.len()) {
            for (element, &row) in vector.iter_mut().zip(self.rows) {
                *element = self.matrix.at(row, col);
            }
            for (base, pivot) in &self.basis {
                let coefficient = vector[*pivot];
                add_multiple(&mut vector, base, coefficient);
            }
            self.cols.push(col);
            let pivot = vector.iter().position(|&element| element != 0);
            let found = match pivot {
                None => true,
                Some(_) if self.cols.len() == size => false,
                Some(pivot) => {
                    let scale = &MUL[field::inv(vector[pivot]) as usize];
                    let base = vector.iter().map(|&element| scale[element as usize]).collect();
                    self.basis.push((base, pivot));
                    let found = self.find_dependent(col + 1);
                    self.basis.pop();
                    found
                }
            };
            if found {
                return true;
            }
            self.cols.pop();
        }
        false
    }
}

#[cfg(test)]
mod tests;
