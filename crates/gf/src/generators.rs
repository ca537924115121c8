//! The named parity matrices: those of other libraries, byte for byte, and kiln's default.

use crate::field::{div, exp, inv, mul, pow};
use crate::{GfError, Matrix};

/// A named family of parity matrices, one for each k and m.
#[derive(Debug)]
pub struct Generator {
    /// Name in code specs: `rs:10+4,matrix=NAME`.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// The legal k and m, for people.
    legal: &'static str,
    /// True if the construction exists for k and m (both at least 1, k + m at most 256).
    exists: fn(usize, usize) -> bool,
    build: fn(usize, usize) -> Result<Matrix, GfError>,
    /// True if theory does not promise MDS, so that each matrix has to be checked.
    check: bool,
}

/// All named generators, the default first.
pub static GENERATORS: &[Generator] = &[
    Generator {
        name: "cauchy",
        about: "kiln's default: Cauchy, first row and column all ones, nested in k and m",
        legal: "k >= 1, m >= 1, k + m <= 256",
        exists: |_, _| true,
        build: |k, m| Ok(cauchy(k, m)),
        check: false,
    },
    Generator {
        name: "vandermonde",
        about: "systematic form of the Vandermonde matrix with points 2^0, 2^1, ...",
        legal: "k >= 1, m >= 1, k + m <= 255",
        exists: |k, m| k + m <= 255,
        build: |k, m| systematic(k, &Matrix::from_fn(k + m, k, |i, j| exp(i * j))),
        check: false,
    },
    Generator {
        name: "isa",
        about: "ISA-L's gf_gen_rs_matrix, Ceph's isa reed_sol_van: rows 2^(rj)",
        legal: ISA_LEGAL,
        exists: |_, _| true,
        build: |k, m| Ok(Matrix::from_fn(m, k, |r, j| exp(r * j))),
        check: true,
    },
    Generator {
        name: "isa-cauchy",
        about: "ISA-L's gf_gen_cauchy1_matrix, Ceph's isa cauchy: 1 / ((k + r) ^ j)",
        legal: "k >= 1, m >= 1, k + m <= 256",
        exists: |_, _| true,
        build: |k, m| Ok(Matrix::from_fn(m, k, |r, j| inv((k + r) as u8 ^ j as u8))),
        check: false,
    },
    Generator {
        name: "jerasure",
        about: "Jerasure's and Ceph's reed_sol_van, w=8: scaled extended Vandermonde",
        legal: "k >= 1, m >= 1, k + m <= 256",
        exists: |_, _| true,
        build: jerasure,
        check: false,
    },
    Generator {
        name: "jerasure-r6",
        about: "Jerasure's and Ceph's reed_sol_r6_op, w=8: RAID 6, rows 1 and 2^j",
        legal: "1 <= k <= 254, m = 2",
        exists: |_, m| m == 2,
        build: |k, m| Ok(Matrix::from_fn(m, k, |r, j| exp(r * j))),
        check: false,
    },
    Generator {
        name: "backblaze",
        about: "Backblaze's and klauspost's default: systematic Vandermonde, points 0, 1, 2, ...",
        legal: "k >= 1, m >= 1, k + m <= 256",
        exists: |_, _| true,
        build: |k, m| systematic(k, &Matrix::from_fn(k + m, k, |i, j| pow(i as u8, j))),
        check: false,
    },
    Generator {
        name: "zfec",
        about: "zfec's and Rizzo's: systematic Vandermonde, points 0, 2^0, 2^1, ...",
        legal: "k >= 1, m >= 1, k + m <= 256",
        exists: |_, _| true,
        build: |k, m| systematic(k, &Matrix::from_fn(k + m, k, rizzo)),
        check: false,
    },
];

/// Found by checking all minors; the tests repeat that.
const ISA_LEGAL: &str = "k + m <= 256 with k <= 3 or m <= 3, m = 4 with k <= 21, k = 4 with \
     m <= 21, or k = m = 5";

/// The generator with this name; [`GfError::UnknownGenerator`] lists all names.
pub fn generator(name: &str) -> Result<&'static Generator, GfError> {
    GENERATORS.iter().find(|row| row.name == name).ok_or_else(|| {
        let known: Vec<_> = GENERATORS.iter().map(|row| row.name).collect();
        GfError::UnknownGenerator { name: name.to_owned(), known: known.join(", ") }
    })
}

impl Generator {
    /// The m x k parity matrix for `k` data and `m` parity chunks.
    ///
    /// Fails with [`GfError::Parameters`] where there is no such matrix and with
    /// [`GfError::GeneratorNotMds`] where some loss of m chunks could not be decoded; both say
    /// what is legal.
    pub fn parity(&self, k: usize, m: usize) -> Result<Matrix, GfError> {
        let in_field = k >= 1 && m >= 1 && k.saturating_add(m) <= 256;
        if !in_field || !(self.exists)(k, m) {
            let legal = self.legal.to_owned();
            return Err(GfError::Parameters { generator: self.name, k, m, legal });
        }
        let parity = (self.build)(k, m)?;
        if self.check {
            self.check_isa(&parity)?;
        }
        Ok(parity)
    }

    /// Checks ISA-L's Vandermonde matrix, which is not MDS in general.
    ///
    /// For m <= 3 it is: rows 1, x, x^2 with distinct x = 2^j have no singular minor; so it is
    /// for k <= 3, as the matrix is symmetric. Beyond, each matrix is a corner of larger ones,
    /// and the corner 6 x 22 holds a singular minor for every k and m whose minors would be too
    /// many to check (k=22 m=4, k=6 m=5, k=5 m=6).
    fn check_isa(&self, parity: &Matrix) -> Result<(), GfError> {
        let (k, m) = (parity.cols(), parity.rows());
        if m <= 3 || k <= 3 {
            return Ok(());
        }
        let corner = Matrix::from_fn(m.min(6), k.min(22), |r, j| parity.at(r, j));
        corner.check_mds().and_then(|()| parity.check_mds()).map_err(|error| match error {
            GfError::NotMds { rows, cols } => {
                let legal = self.legal.to_owned();
                GfError::GeneratorNotMds { generator: self.name, k, m, rows, cols, legal }
            }
            other => other,
        })
    }
}

/// kiln's default. Points x_r = 255 - r and y_j = j meet only when k + m > 256; scaling columns
/// and then rows makes the first of each all ones, so one parity is plain XOR. No element
/// depends on k or m.
fn cauchy(k: usize, m: usize) -> Matrix {
    let cross = |r: usize, j: usize| (255 - r) as u8 ^ j as u8;
    Matrix::from_fn(m, k, |r, j| div(mul(cross(0, j), cross(r, 0)), mul(cross(r, j), cross(0, 0))))
}

/// Element (i, j) of a Vandermonde matrix with the points 0, 2^0, 2^1, ...
fn rizzo(i: usize, j: usize) -> u8 {
    match i {
        0 => u8::from(j == 0),
        i => exp((i - 1) * j),
    }
}

/// The parity part of V x inverse(top of V), for an n x k matrix whose every k rows are
/// independent.
fn systematic(k: usize, vandermonde: &Matrix) -> Result<Matrix, GfError> {
    let top: Vec<usize> = (0..k).collect();
    let bottom: Vec<usize> = (k..vandermonde.rows()).collect();
    vandermonde.select_rows(&bottom).mul(&vandermonde.select_rows(&top).invert()?)
}

/// Jerasure's `reed_sol_van`: the extended Vandermonde matrix (points 0, 1, ..., n-2 and
/// infinity) made systematic; then columns scaled so that row 0 is ones, and the other rows so
/// that column 0 is ones.
fn jerasure(k: usize, m: usize) -> Result<Matrix, GfError> {
    let last = k + m - 1;
    let extended = Matrix::from_fn(k + m, k, |i, j| match i {
        _ if i == last => u8::from(j == k - 1),
        _ => pow(i as u8, j),
    });
    let plain = systematic(k, &extended)?;
    let by_column = |r, j| div(plain.at(r, j), plain.at(0, j));
    Ok(Matrix::from_fn(m, k, |r, j| match r {
        0 => 1,
        _ => div(by_column(r, j), by_column(r, 0)),
    }))
}

#[cfg(test)]
mod tests;
