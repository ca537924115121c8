//! The repairer of objects.

use crate::data::writer::ObjectWriter;
use crate::manifest::store::ManifestStore;
use crate::map::cluster_map::ClusterMap;
use crate::members::membership::Membership;

/// Finds damage and repairs it: survey, object repair, scrub, rebalance.
#[derive(Copy, Clone, Debug)]
pub struct Repairer<'a> {
    pub(crate) map: &'a ClusterMap,
    pub(crate) manifests: ManifestStore<'a>,
    pub(crate) members: Membership<'a>,
    pub(crate) writer: ObjectWriter<'a>,
}

impl<'a> Repairer<'a> {
    pub(crate) fn new(map: &'a ClusterMap) -> Repairer<'a> {
        Repairer {
            map,
            manifests: ManifestStore::new(map),
            members: Membership::new(map),
            writer: ObjectWriter::new(map),
        }
    }
}
