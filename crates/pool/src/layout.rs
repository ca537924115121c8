//! Pure records and decisions: names of objects, codes by size, seals, placement, manifests.

pub(crate) mod seal;
pub(crate) mod key;
pub(crate) mod manifest;
pub(crate) mod disk_usage;
pub(crate) mod policy;
pub(crate) mod placement;

pub use disk_usage::DiskUsage;
pub use key::MAX_NAME;
pub use manifest::{
    Body, MANIFEST_VERSION, MAX_COPIES, MAX_INLINE, MAX_MANIFEST, MAX_NODE_ID, Place, Placed,
};
pub use placement::{Candidate, place, ranked};
pub use policy::{Class, INLINE};
pub use seal::{Sealer, Seals};
