//! Errors of this crate.

/// A description of a pool that cannot be computed with.
#[allow(missing_docs)] // of fields that their names describe
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DurabilityError {
    /// A number is outside of its range.
    #[error("{what} is {value}: {expected}")]
    Number { what: &'static str, value: f64, expected: &'static str },
    /// Nodes fail faster than the pool rebuilds them, so nothing lasts.
    #[error("repairs would take {busy:.2} of the time: nodes fail faster than they are rebuilt")]
    Overloaded {
        /// The part of the time in which the pool would repair.
        busy: f64,
    },
    /// A simulation saw no loss and no way towards one within its effort.
    #[error(
        "{lost} lost chunks of a stripe were never seen in {trials} trials: allow more trials, or \
         take the chain, which is exact"
    )]
    NotReached {
        /// The number of lost chunks that no trial reached.
        lost: usize,
        /// Trials that were made.
        trials: u64,
    },
}

/// Checks that a number is in its range.
pub(crate) fn within(
    what: &'static str,
    value: f64,
    range: std::ops::RangeInclusive<f64>,
    expected: &'static str,
) -> Result<(), DurabilityError> {
    match range.contains(&value) {
        true => Ok(()),
        false => Err(DurabilityError::Number { what, value, expected }),
    }
}
