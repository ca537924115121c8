//! The crate's one error type.

use kiln_net::NetError;
use kiln_plan::PlanError;
use kiln_stripe::PoolError;

/// Result of everything in this crate that is about pools.
pub type Result<T, E = RecoveryError> = std::result::Result<T, E>;

/// An error of a recovery or a degraded read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecoveryError {
    /// Agents, and the network to them.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The pool.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A plan that cannot be made.
    #[error("\"a plan of repairs\" is refused: {0}")]
    Plan(#[from] PlanError),
}

impl RecoveryError {
    /// Returns whether the same call may succeed when simply tried again.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Net(error) => error.is_retryable(),
            Self::Pool(error) => error.is_retryable(),
            Self::Plan(_) => false,
        }
    }
}
