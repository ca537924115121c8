//! Uncertainty of a probe: the distance of measurements from its model, and the other models
//! explain them nearly as well.

use super::Combine;
use serde::{Deserialize, Serialize};

/// Another model that the measurements allow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlternativeModel {
    /// Seconds of one more read.
    pub read_seconds: f64,
    /// Seconds of one more byte.
    pub byte_seconds: f64,
    /// Combination of both.
    pub combine: Combine,
    /// As in [`super::DeviceModel::piece_bytes`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub piece_bytes: Option<u64>,
}

/// Trust in a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Uncertainty {
    /// Deviation of a measurement from the model, root of the mean square: 0.05 for 5%.
    pub error: f64,
    /// Median spread of repetitions of a measurement.
    pub spread: f64,
    /// Models that explain the measurements nearly as well: the ends of what they allow.
    #[serde(rename = "rivals")]
    pub alternatives: Vec<AlternativeModel>,
}

impl Uncertainty {
    /// No record has more alternatives.
    pub const ALTERNATIVES_MAX: usize = 16;

    /// From here on the planner says that it does not know the device well.
    pub const ERROR_LARGE: f64 = 0.10;

    /// Returns whether nothing is known of it: the model is taken at its word.
    pub fn is_none(&self) -> bool {
        *self == Uncertainty::default()
    }
}
