//! The one error type of this crate.

use kiln_code::{CodeError, dag::At};

/// Result of this crate's operations.
pub type Result<T, E = PlanError> = std::result::Result<T, E>;

/// Failure between a DAG and a proven plan.
#[allow(missing_docs)] // of fields that their names describe
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A number of the cluster snapshot makes no sense.
    #[error("node {node}: {what} is {value}; {expected}")]
    Cluster { node: usize, what: &'static str, value: f64, expected: &'static str },
    /// Too many nodes, chunks or vertices.
    #[error("{what}: {got}, the limit is {limit}")]
    TooMany {
        what: &'static str,
        /// Number that was found.
        got: usize,
        /// Number that is possible.
        limit: usize,
    },
    /// The DAG reads a chunk, or makes one, for which no node was named.
    #[error("no node is given for chunk {chunk}, which is {role}")]
    NoNode {
        chunk: usize,
        /// `read` or `rebuilt`.
        role: &'static str,
    },
    /// A node's index is outside of the cluster.
    #[error("node {node} of {nodes}: {role}")]
    BadNode {
        node: usize,
        nodes: usize,
        /// Role that it was given for.
        role: &'static str,
    },
    /// A stripe of a recovery cannot be planned.
    #[error("stripe {stripe}: {reason}")]
    BadStripe { stripe: usize, reason: String },
    /// A stripe has lost more than its code can rebuild.
    #[error("stripe {stripe}: {left} chunks are left, {needed} are needed: not recoverable")]
    NotRecoverable {
        stripe: usize,
        /// Chunks that are left.
        left: usize,
        /// Chunks that the code needs.
        needed: usize,
    },
    /// A strategy of that name is not known.
    #[error("unknown strategy '{name}'; known strategies: {known}")]
    UnknownStrategy {
        name: String,
        /// All names, comma separated.
        known: String,
    },
    /// A placement does not fit its DAG.
    #[error("a placement of {got} vertices for a DAG that computes {expected}")]
    Placement {
        /// Vertices that the DAG computes.
        expected: usize,
        /// Vertices that were placed.
        got: usize,
    },
    /// The plan reads something that the repair does not.
    #[error("the plan reads sub-chunk {} of chunk {}, the repair does not", at.position, at.chunk)]
    Reads { at: At },
    /// A node needs a piece in a round, and has not got it by then.
    #[error("node {node} needs piece {piece} in round {round} and has not got it")]
    Missing { node: usize, piece: u32, round: u32 },
    /// The plan does not deliver a sub-chunk, delivers it twice, or to another node.
    #[error("sub-chunk {} of chunk {} is delivered {times} times", at.position, at.chunk)]
    Delivery { at: At, times: usize },
    /// The plan computes something else than the repair.
    #[error("sub-chunk {} of chunk {} is computed wrongly", at.position, at.chunk)]
    Wrong { at: At },
    /// The code's own error.
    #[error(transparent)]
    Code(#[from] CodeError),
    /// A plan breaks a rule of this crate: a bug of this library.
    #[error("internal error, please report: {0}")]
    Internal(String),
}

impl PlanError {
    /// Returns whether the same call may succeed later. Planning is pure, so never.
    pub fn is_retryable(&self) -> bool {
        false
    }
}
