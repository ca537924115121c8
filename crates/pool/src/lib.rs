//! Objects as stripes over nodes: encode, decode, verify and repair, one by one or as a pool.
//!
//! An object is cut into stripes; each stripe is k data and m parity chunks; all chunks with one
//! index make a shard; each shard lives on one [`Node`]. This crate moves the bytes: it reads and
//! writes shards by `kiln_store` and computes by `kiln_code`, and never asks which code it is.
//!
//! It is three products on one engine:
//!
//! | folder | holds |
//! |---|---|
//! | `engine` | what all three share: bounded pipeline, planned reads, rebuilding |
//! | `shards` | one object as shards in folders: [`encode`], [`decode`], [`verify`], [`repair`] |
//! | `raw` | the same four on bare chunks without metadata |
//! | `objects` | many objects over many nodes: [`Pool`] and what to repair next, [`queue`] |
//!
//! What reads cost on devices is in [`kiln_store::device`].
//!
//! No clock and no randomness live here: run identifiers come from the caller, and `seconds` in
//! reports is filled by the caller.
#![forbid(unsafe_code)]

mod engine;
mod error;
mod objects;
pub mod raw;
mod shards;

pub use engine::advice::{Advice, BreakEven, ReadCosts, sub_chunk_sizes};
pub use engine::buffers::Buffers;
pub use engine::choice::ReadsReport;
pub use engine::geometry::default_sub_chunk;
pub use engine::names;
pub use engine::node::Node;
pub use engine::report::{
    Condition, Damage, DecodeReport, Depth, EncodeReport, MAX_DAMAGE_ENTRIES, Moved, NodeLoad,
    RepairReport, SetReport, ShardPlace, ShardReport, VerifyReport,
};
pub use engine::rounds::limit_readers;
pub use engine::sequence::Sequence;
pub use engine::settings::{Observer, Settings, Silent};
pub use engine::sinks::in_parallel;
pub use engine::source::{FileSource, Source, StreamSource};
pub use engine::windows::window_stripes;
pub use error::{ErrorKind, PoolError, Result};
pub use objects::{
    ATTRIBUTES, Body, Candidate, Class, Degraded, DiskUsage, ExpectedReads, Finding, GetReport,
    GetRequest, HealRequest, Healed, Helpers, INLINE, Index, Key, Listed, Looked, MANIFEST_VERSION,
    MAX_COPIES, MAX_INLINE, MAX_MANIFEST, MAX_NAME, MAX_NODE_ID, MAX_NODES, MAX_TOGETHER, Manifest,
    MissingShards, Needs, NodeConfig, NodeFile, NodeState, NodeStatus, OpenObject, Opener, PastMap,
    PastNode, Place, Placed, Policy, Pool, PoolConfig, PoolKeys, PoolStatus, PutReport, PutRequest,
    RebalanceReport, RebalanceRequest, Rebuilt, RebuiltShards, RecoverReport, RecoverRequest,
    Refreshed, ScrubReport, ScrubRequest, SealReport, Sealer, Seals, ShardState, StatReport, Way,
    attributes_in, folders_of, is_attributes, place, queue, ranked,
};
pub use shards::{
    EncodeRequest, Missing, RepairRequest, Salvaged, ShardSet, decode, decode_range, discover,
    discover_any, encode, object_names, repair, salvage, verify,
};
