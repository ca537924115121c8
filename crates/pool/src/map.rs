//! The cluster map: members, places of nodes, accepted keys, and homes of objects.

pub(crate) mod config;
pub(crate) mod features;
pub(crate) mod meta_files;
pub(crate) mod cluster_map;
pub(crate) mod presence;
pub(crate) mod homes;

pub use cluster_map::Opener;
pub use config::{LATEST, MAX_NODES, PastMap, PastNode};
pub use features::MemberRelease;
