//! Many objects over many nodes, found by name: put, get, remove, scrub, repair.
//!
//! An object is cut into stripes by `kiln_stripe`; each shard of it lives on one node, and copies
//! of its manifest on several. [`Pool`] is the door; each room behind it has a type of its own.
//!
//! | folder | holds |
//! |---|---|
//! | `layout` | pure: names, codes by size, placement, the manifest as a record |
//! | `map` | the cluster map: members, keys, homes of objects |
//! | `manifest` | manifests on nodes: quorum reads and conditional commits |
//! | `index` | the local index of all objects |
//! | `data` | reading and writing objects |
//! | `repair` | survey, repair [queue](repair::queue), object repair, scrub, rebalance |
//! | `members` | changes of the map |
//!
//! Costs of reads on devices are in [`kiln_store::device`].
//!
//! No clock lives here, and no randomness but that of keys: run identifiers come from the caller,
//! and `seconds` in reports is filled by the caller.
#![forbid(unsafe_code)]

pub mod layout;
pub mod map;
mod manifest;
mod index;
mod data;
mod members;
pub mod repair;
mod pool;

pub use data::get::{GetReport, GetRequest};
pub use data::helpers::{Degraded, Helpers, Rebuilt};
pub use data::put::{MAX_TOGETHER, Over, PutReport, PutRequest};
pub use data::recode::{Moved, RecodeReport, RecodeRequest};
pub use data::recoder::{Recoder, Recoding, Written};
pub use data::stat::{ShardState, StatReport};
pub use data::{object_reader::OpenObject, reader::ObjectReader, writer::ObjectWriter};
pub use index::{Index, Listed, Refreshed, versions::Version};
pub use layout::data_key::{WrappedKey, random};
pub use layout::key::{Key, NodeFile};
pub use layout::manifest::{Kept, Manifest};
pub use layout::{keep::KeepRule, keep::Snapshot, policy::Policy, seal::PoolKeys};
pub use manifest::store::ManifestStore;
pub use map::cluster_map::ClusterMap;
pub use map::config::{NodeConfig, NodeState, PoolConfig};
pub use members::{membership::Membership, rekeying::RekeyReport, sealing::SealReport};
pub use pool::{Pool, example_pool};
pub use repair::object_repair::{RepairRequest, RepairedObject};
pub use repair::rebalance::{RebalanceReport, RebalanceRequest};
pub use repair::scrub::{ScrubReport, ScrubRequest};
pub use repair::survey::{NodeStatus, PoolStatus};
pub use repair::{prune::PruneReport, repairer::Repairer};
