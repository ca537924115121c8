//! The reader of objects.

use crate::{manifest::store::ManifestStore, map::cluster_map::ClusterMap};

/// Reads objects, whole and in ranges, past what is damaged.
#[derive(Copy, Clone, Debug)]
pub struct ObjectReader<'a> {
    pub(crate) map: &'a ClusterMap,
    pub(crate) manifests: ManifestStore<'a>,
}

impl<'a> ObjectReader<'a> {
    pub(crate) fn new(map: &'a ClusterMap) -> ObjectReader<'a> {
        ObjectReader { map, manifests: ManifestStore::new(map) }
    }
}
