//! The one error type of this crate.

use kiln_gf::GfError;

/// Result of this crate's operations.
pub type Result<T, E = CodeError> = std::result::Result<T, E>;

/// Failure between a code spec and a finished chunk.
#[allow(missing_docs)] // of fields that their names describe
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodeError {
    /// The spec does not follow the grammar.
    #[error("code spec '{spec}': {reason}; expected family:k+m[,key=value...], e.g. clay:10+4")]
    Syntax {
        /// The spec as given.
        spec: String,
        reason: String,
    },
    /// No code of that name. An unknown code never silently becomes another one.
    #[error("unknown code '{name}'; known codes: {known}")]
    UnknownFamily {
        /// The name as given.
        name: String,
        /// All known families, comma separated.
        known: String,
    },
    /// The family has no such parameter.
    #[error("{family} has no parameter '{key}'; it takes: {known}")]
    UnknownKey {
        family: String,
        /// The key as given.
        key: String,
        known: String,
    },
    /// A parameter has a value that the family cannot work with.
    #[error("{family}: {key}={value} is not possible: {reason}")]
    BadValue {
        family: String,
        key: String,
        /// The value as given.
        value: String,
        /// Why not, and what would be legal.
        reason: String,
    },
    /// There is no such order of layers, or these layers cannot have it.
    #[error("order '{order}': {reason}")]
    BadOrder {
        /// The order as given, cut where it is long.
        order: String,
        /// Why not, and what would be legal.
        reason: String,
    },
    /// The parameters give no MDS code, or one larger than this library handles.
    #[error("{spec} is not possible: {reason}")]
    Unsupported {
        spec: String,
        /// Why not, and what would be legal.
        reason: String,
    },
    /// The sub-packetization would be larger than the limit.
    #[error("{spec} needs {alpha} sub-chunks a chunk (q={q}, t={t}), the limit is {limit}; {hint}")]
    AlphaTooLarge {
        spec: String,
        /// The sub-packetization q^t, as text because it may not fit any integer.
        alpha: String,
        /// d - k + 1.
        q: usize,
        t: usize,
        limit: usize,
        /// The d that would fit.
        hint: String,
    },
    /// More chunks are lost than the code can rebuild.
    #[error(
        "not recoverable: {available} chunks are available{}, {needed} are needed \
         (lost: {lost:?})",
        worth(*available, *independent)
    )]
    NotRecoverable {
        /// Chunks wanted.
        lost: Vec<usize>,
        /// Number of chunks that can be read.
        available: usize,
        /// Number of them that tell something which the others do not: all, unless chunks of the
        /// code follow from less than k others.
        independent: usize,
        /// Number of that kind that the code needs.
        needed: usize,
    },
    /// A chunk index is out of range, given twice, or both lost and available.
    #[error("chunk {index} is {reason} (the code has chunks 0 to {last})")]
    BadChunk {
        index: usize,
        reason: &'static str,
        /// The highest index.
        last: usize,
    },
    /// Buffers do not fit the operation.
    #[error("{what}: expected {expected}, got {got}")]
    Shape {
        what: &'static str,
        /// The expected number.
        expected: usize,
        /// The number as given.
        got: usize,
    },
    /// A schedule of XORs was asked of a DAG that multiplies.
    #[error("schedules order XORs, but this code multiplies by {coefficient}")]
    Multiplies { coefficient: u8 },
    /// The field or a kernel refused.
    #[error(transparent)]
    Field(#[from] GfError),
    /// A code produced a DAG that breaks its own rules: a bug of this library.
    #[error("internal error, please report: {0}")]
    Internal(String),
}

/// Describes chunks that are fewer than they look.
fn worth(available: usize, independent: usize) -> String {
    match independent == available {
        true => String::new(),
        false => format!(" that count as {independent}, since some follow from others"),
    }
}

impl CodeError {
    /// Returns whether the same call may succeed later. Coding is pure, so never.
    pub fn is_retryable(&self) -> bool {
        false
    }
}
