//! Combinations of two costs.

use serde::{Deserialize, Serialize};

/// Combination of the costs of reads and of bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Combine {
    /// One after the other: a head seeks, then reads.
    Sum,
    /// Side by side: limits of reads and of bytes a second, of which one binds. So are volumes of
    /// clouds, and drives that work on many reads at once.
    Larger,
}

impl Combine {
    /// Both costs together.
    pub fn of(self, reads: f64, bytes: f64) -> f64 {
        match self {
            Combine::Sum => reads + bytes,
            Combine::Larger => reads.max(bytes),
        }
    }
}
