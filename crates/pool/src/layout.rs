//! Pure records and decisions: names of objects, codes by size, seals, placement, manifests.

pub(crate) mod seal;
pub(crate) mod keep;
pub(crate) mod key;
pub(crate) mod data_key;
pub(crate) mod manifest;
pub(crate) mod disk_usage;
pub(crate) mod policy;
pub(crate) mod placement;
pub(crate) mod tier;

pub use data_key::WrappedKey;
pub use disk_usage::DiskUsage;
pub use keep::{KeepRule, Snapshot};
pub use key::{MAX_NAME, kept_name, kept_parts, object_name};
pub use manifest::{
    Body, Kept, MANIFEST_VERSION, MAX_COPIES, MAX_INLINE, MAX_MANIFEST, MAX_NODE_ID, Place, Placed,
};
pub use placement::{Candidate, place, ranked};
pub use policy::{Class, INLINE};
pub use seal::{Sealer, Seals};
pub use tier::Tier;
