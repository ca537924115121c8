//! Objects as stripes over nodes: encode, decode, verify and repair, one by one or as a pool.
//!
//! An object is cut into stripes; each stripe is k data and m parity chunks; all chunks with one
//! index make a shard; each shard lives on one [`Node`]. This crate moves the bytes: it reads and
//! writes shards by `kiln_store` and computes by `kiln_code`, and never asks which code it is.
//!
//! | file | holds |
//! |---|---|
//! | `node`, `settings`, `source` | what the caller hands in: places, resources, input |
//! | `geometry` | default sizes of sub-chunks |
//! | `pipeline` | the one bounded pipeline: source, workers, ordered sink |
//! | `set` | [`discover`]: which shards of an object are there, and how they are |
//! | `stripe` | reading one stripe with verification and re-planning |
//! | `reads` | which reads a device is asked for, by what it costs |
//! | `write`, `read`, `verify`, `repair` | the four operations on shards |
//! | `raw` | the same four on bare chunks without metadata |
//! | `config`, `policy`, `placement`, `key`, `manifest` | what a pool is, where objects go |
//! | `pool` | many objects over many nodes: put, get, remove, scrub, repair, index |
//! | `queue` | what to repair next, as pure logic |
//! | `sequence` | everything on one thread, for simulations |
//! | `report`, `error` | what comes back |
//!
//! No clock and no randomness live here: run identifiers come from the caller, and `seconds` in
//! reports is filled by the caller.
#![forbid(unsafe_code)]

mod config;
mod error;
mod frame;
mod geometry;
mod key;
mod lanes;
mod manifest;
mod names;
mod node;
mod pipeline;
mod placement;
mod policy;
mod pool;
pub mod queue;
pub mod raw;
mod read;
pub mod reads;
mod repair;
mod report;
mod rounds;
mod sequence;
mod set;
mod settings;
mod shards;
mod source;
mod stripe;
mod tally;
mod verify;
mod write;

pub use config::{MAX_NODES, NodeConfig, PoolConfig};
pub use error::{ErrorKind, PoolError, Result};
pub use geometry::default_sub_chunk;
pub use key::{Key, MAX_NAME, NodeFile};
pub use manifest::{
    Body, MANIFEST_VERSION, MAX_COPIES, MAX_INLINE, MAX_MANIFEST, MAX_NODE_ID, Manifest, Place,
    Placed,
};
pub use node::Node;
pub use placement::{Candidate, place, ranked};
pub use policy::{Class, INLINE, Policy};
pub use pool::{
    Degraded, Finding, GetReport, GetRequest, Helpers, Index, Lacking, Listed, MendRequest, Mended,
    Needs, NodeStatus, Opener, Pool, PoolStatus, PutReport, PutRequest, Rebuilt, RecoverReport,
    RecoverRequest, Refreshed, ScrubReport, ScrubRequest, ShardState, StatReport,
};
pub use read::decode;
pub use repair::{RepairRequest, repair};
pub use report::{
    Damage, DecodeReport, EncodeReport, MAX_DAMAGE_ENTRIES, Moved, NodeLoad, RepairReport,
    SetReport, ShardPlace, ShardReport, VerifyReport,
};
pub use rounds::limit_readers;
pub use sequence::in_sequence;
pub use set::{ShardSet, discover};
pub use settings::{Observer, Settings, Silent};
pub use source::{FileSource, Source, StreamSource};
pub use verify::{Depth, verify};
pub use write::{EncodeRequest, encode};
