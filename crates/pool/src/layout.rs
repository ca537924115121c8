//! Pure records and decisions: names of objects, codes by size, placement, manifests.

pub(crate) mod key;
pub(crate) mod manifest;
pub(crate) mod disk_usage;
pub(crate) mod policy;
pub(crate) mod placement;
