//! The writer of objects.

use crate::{manifest::store::ManifestStore, map::cluster_map::ClusterMap};
use kiln_stripe::{PoolError, Result};

/// Writes and removes objects.
#[derive(Copy, Clone, Debug)]
pub struct ObjectWriter<'a> {
    pub(crate) map: &'a ClusterMap,
    pub(crate) manifests: ManifestStore<'a>,
}

impl<'a> ObjectWriter<'a> {
    pub(crate) fn new(map: &'a ClusterMap) -> ObjectWriter<'a> {
        ObjectWriter { map, manifests: ManifestStore::new(map) }
    }

    /// Returns whether there is an object of that name.
    /// Errors: as [`crate::ManifestStore::manifest`], but for [`PoolError::NoObject`].
    pub fn has(&self, name: &str) -> Result<bool> {
        match self.manifests.manifest(name) {
            Ok(_) => Ok(true),
            Err(PoolError::NoObject { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
