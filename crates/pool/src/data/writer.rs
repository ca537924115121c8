//! The writer of objects.

use crate::manifest::store::ManifestStore;
use crate::map::cluster_map::ClusterMap;

/// Writes and removes objects, and the folders that they stand in.
#[derive(Copy, Clone, Debug)]
pub struct ObjectWriter<'a> {
    pub(crate) map: &'a ClusterMap,
    pub(crate) manifests: ManifestStore<'a>,
}

impl<'a> ObjectWriter<'a> {
    pub(crate) fn new(map: &'a ClusterMap) -> ObjectWriter<'a> {
        ObjectWriter { map, manifests: ManifestStore::new(map) }
    }
}
