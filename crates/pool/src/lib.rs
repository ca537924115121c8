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

mod objects;

// The former names of what is in kiln_stripe and kiln_files now.
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
