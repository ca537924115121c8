//! Refusal of places that cannot do what an operation needs.

use super::Backend;
use crate::{Capabilities, Result, StoreError};

impl Capabilities {
    /// Refuses a place that shards cannot be written to: it must meet [`Capabilities::FILES`] or
    /// [`Capabilities::OBJECTS`].
    /// Errors: [`StoreError::Incapable`].
    pub fn require_writable(place: &dyn Backend, what: &str) -> Result<()> {
        match Capabilities::OBJECTS.lacking(place.capabilities()) {
            None => Ok(()),
            Some(_) => Capabilities::FILES.require(place, what),
        }
    }

    /// Refuses a place that does not meet these needs; `what` needs them. To be asked before
    /// anything is written.
    /// Errors: [`StoreError::Incapable`].
    pub fn require(self, place: &dyn Backend, what: &str) -> Result<()> {
        match self.lacking(place.capabilities()) {
            None => Ok(()),
            Some(lacks) => Err(StoreError::incapable(place.place(), lacks, what.to_owned())),
        }
    }
}
