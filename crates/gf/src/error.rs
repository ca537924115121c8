//! The one error type of this crate.

use thiserror::Error;

/// Failure of a function of this crate.
#[allow(missing_docs)] // of fields that their names describe
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GfError {
    /// Sizes of matrices or vectors do not fit together.
    #[error("{what}: expected {expected}, found {found}")]
    Shape {
        /// The operation and the size.
        what: &'static str,
        /// The size that fits.
        expected: usize,
        /// The size that was given.
        found: usize,
    },
    /// The matrix to invert has no inverse.
    #[error("the {size} x {size} matrix is singular: its rank is only {rank}")]
    Singular {
        size: usize,
        /// Its rank, less than `size`.
        rank: usize,
    },
    /// A square submatrix of a parity matrix is singular, so some losses cannot be decoded.
    #[error("not MDS: parity rows {rows:?} x data columns {cols:?} form a singular matrix")]
    NotMds {
        /// Rows of the smallest singular minor, ascending.
        rows: Vec<usize>,
        /// Its columns, ascending.
        cols: Vec<usize>,
    },
    /// The exhaustive check would need too many steps.
    #[error("a {rows} x {cols} parity matrix has more than {limit} minors: too many to check")]
    TooLarge {
        rows: usize,
        cols: usize,
        /// Most minors that are checked.
        limit: u64,
    },
    /// A generator matrix does not exist for these parameters.
    #[error("matrix {generator} does not exist for k={k}, m={m}: legal is {legal}")]
    Parameters { generator: &'static str, k: usize, m: usize, legal: String },
    /// A generator exists for these parameters but some losses of m chunks could not be decoded.
    #[error(
        "matrix {generator} is not MDS for k={k}, m={m}: parity rows {rows:?} x data columns \
         {cols:?} are singular; legal is {legal}"
    )]
    GeneratorNotMds {
        generator: &'static str,
        k: usize,
        m: usize,
        /// Rows of a singular minor.
        rows: Vec<usize>,
        /// Columns of that minor.
        cols: Vec<usize>,
        legal: String,
    },
    /// No generator matrix has this name.
    #[error("unknown matrix {name:?}; known: {known}")]
    UnknownGenerator {
        name: String,
        /// All known names, separated by commas.
        known: String,
    },
    /// No kernel has this name.
    #[error("unknown kernel {name:?}; known: {known}")]
    UnknownKernel {
        name: String,
        /// All known names, separated by commas.
        known: String,
    },
    /// The kernel is known but this CPU cannot run it.
    #[error("kernel {name:?} does not run on this CPU; available here: {available}")]
    KernelUnavailable {
        name: String,
        /// Names of the kernels that run here, separated by commas.
        available: String,
    },
    /// An environment variable has a value that is not understood.
    #[error("{variable}: unknown value {value:?}; expected {expected}")]
    Setting { variable: &'static str, value: String, expected: &'static str },
    /// The number of sources or destinations is not that of the matrix.
    #[error("expected {expected} {side}s as the matrix has, found {found}")]
    OperandCount {
        /// "source" or "destination".
        side: &'static str,
        /// Columns (sources) or rows (destinations) of the matrix.
        expected: usize,
        found: usize,
    },
    /// Operands of one call differ in length.
    #[error("{side} {index} has {found} bytes where all operands must have {expected}")]
    OperandLength {
        /// "source" or "destination".
        side: &'static str,
        index: usize,
        /// Bytes of the first operand.
        expected: usize,
        /// Bytes of this one.
        found: usize,
    },
    /// A span reaches outside its region, or the region does not exist.
    #[error("{side} {index}: {len} bytes at {offset} lie outside region {region} ({size} bytes)")]
    OutOfBounds {
        /// "source" or "destination".
        side: &'static str,
        index: usize,
        region: u32,
        /// Offset of the span in bytes.
        offset: usize,
        /// Length of the span in bytes.
        len: usize,
        /// Bytes in the region, 0 if there is no such region.
        size: usize,
    },
    /// A destination lies in a region that was added for reading only.
    #[error("destination {index} lies in region {region}, which was added for reading only")]
    ReadOnly { index: usize, region: u32 },
    /// A destination shares bytes with another operand.
    #[error("destination {index} overlaps {side} {other} in region {region}")]
    Overlap {
        index: usize,
        /// "source" or "destination".
        side: &'static str,
        other: usize,
        /// The region both lie in.
        region: u32,
    },
    /// An operand of a block lies in a region of another kind than the block says.
    #[error("operand {index} of a block lies in region {region}, which is of another kind")]
    WrongSide { index: usize, region: u32 },
    /// A unit of an output or of scratch is read before anything is written to it.
    #[error("source {index} is unit {unit} of region {region}, which is not written before")]
    Unwritten { index: usize, region: u32, unit: u32 },
    /// A buffer of this size cannot be allocated.
    #[error("no memory for a buffer of {len} bytes")]
    NoMemory { len: usize },
}

impl GfError {
    /// Returns whether the same call may succeed later. Here never: all are mistakes in the
    /// request, except [`GfError::NoMemory`], which other work of the process may cure.
    pub fn is_retryable(&self) -> bool {
        matches!(self, GfError::NoMemory { .. })
    }
}
