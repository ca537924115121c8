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
//! | `repair` | survey, repair [`queue`], object repair, scrub, rebalance |
//! | `members` | changes of the map |
//!
//! Costs of reads on devices are in [`kiln_store::device`].
//!
//! No clock and no randomness live here: run identifiers come from the caller, and `seconds` in
//! reports is filled by the caller.
#![forbid(unsafe_code)]

mod layout;
mod map;
mod manifest;
mod index;
mod data;
mod members;
mod repair;
mod pool;

pub use data::get::{GetReport, GetRequest};
pub use data::helpers::{Degraded, Helpers, Rebuilt};
pub use data::nested::{ATTRIBUTES, attributes_in, folders_of, is_attributes};
pub use data::object_reader::OpenObject;
pub use data::parents::Way;
pub use data::put::{MAX_TOGETHER, PutReport, PutRequest};
pub use data::reader::ObjectReader;
pub use data::stat::{ShardState, StatReport};
pub use data::writer::ObjectWriter;
pub use index::{Index, Listed, Refreshed};
// Shards, stripes and the error type, under the names that dependents of this crate use.
pub use kiln_files::{
    EncodeRequest, Missing, RepairRequest, Salvaged, ShardSet, decode, decode_range, discover,
    discover_any, encode, object_names, raw, repair, salvage, verify,
};
pub use kiln_stripe::{
    Advice, BreakEven, Buffers, Condition, Damage, DecodeReport, Depth, EncodeReport, ErrorKind,
    FileSource, MAX_DAMAGE_ENTRIES, Moved, Node, NodeLoad, Observer, PoolError, ReadCosts,
    ReadsReport, RepairReport, Result, Sequence, SetReport, Settings, ShardPlace, ShardReport,
    Silent, Source, StreamSource, VerifyReport, default_sub_chunk, in_parallel, limit_readers,
    names, sub_chunk_sizes, window_stripes,
};
pub use layout::disk_usage::DiskUsage;
pub use layout::key::{Key, MAX_NAME, NodeFile};
pub use layout::manifest::{
    Body, MANIFEST_VERSION, MAX_COPIES, MAX_INLINE, MAX_MANIFEST, MAX_NODE_ID, Manifest, Place,
    Placed,
};
pub use layout::placement::{Candidate, place, ranked};
pub use layout::policy::{Class, INLINE, Policy};
pub use manifest::store::ManifestStore;
pub use map::cluster_map::{ClusterMap, Opener};
pub use map::config::{MAX_NODES, NodeConfig, NodeState, PastMap, PastNode, PoolConfig};
pub use map::seal::{PoolKeys, Sealer, Seals};
pub use members::membership::Membership;
pub use members::sealing::SealReport;
pub use pool::{Pool, example_pool};
pub use repair::object_repair::{ExpectedReads, HealRequest, Healed};
pub use repair::queue;
pub use repair::rebalance::{RebalanceReport, RebalanceRequest};
pub use repair::rebuild::{Looked, MissingShards, Needs, RebuiltShards};
pub use repair::recover::{RecoverReport, RecoverRequest};
pub use repair::repairer::Repairer;
pub use repair::scrub::{Finding, ScrubReport, ScrubRequest};
pub use repair::survey::{NodeStatus, PoolStatus};
