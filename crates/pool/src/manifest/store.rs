//! The manifests of a pool, as one store of many copies.

use crate::map::cluster_map::ClusterMap;

/// Manifests on their homes: quorum reads and conditional commits.
#[derive(Copy, Clone, Debug)]
pub struct ManifestStore<'a> {
    pub(crate) map: &'a ClusterMap,
}

impl<'a> ManifestStore<'a> {
    pub(crate) fn new(map: &'a ClusterMap) -> ManifestStore<'a> {
        ManifestStore { map }
    }
}
