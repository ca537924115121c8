//! Stripes of coded data through a bounded pipeline: encode, decode, scan, rebuild, planned reads.
//!
//! An object is cut into stripes; each stripe is k data and m parity chunks; all chunks with one
//! index make a shard; each shard lives on one [`Node`]. This crate moves the bytes: it reads and
//! writes chunks by `kiln_store` and computes by `kiln_code`, and never asks which code it is.
//! Shards in folders (`kiln_files`) and objects of pools (`kiln_pool`) are built on it.
//!
//! | file | holds |
//! |---|---|
//! | `error`, `names` | the error type, names of files on nodes |
//! | `node`, `settings`, `source` | the caller's parts: places, resources, input |
//! | `budget`, `buffers` | memory that stripes of several operations share, or that is kept |
//! | `geometry` | default sizes of sub-chunks, limits of stripes |
//! | `frame`, `pipeline`, `sinks` | buffers of stripes; source, workers, sink; files written |
//! | `rounds`, `sequence` | reads at the same time; everything on one thread, for simulations |
//! | `pace`, `hedge` | reads that do not wait for the slowest node |
//! | `chunks` | places of chunks that are read: shards, or bare chunk files |
//! | `stripe` | reading one stripe with verification and planning again |
//! | `windows`, `choice`, `read_ahead`, `advice` | reads as planned for devices |
//! | `encode`, `decode`, `scan`, `rebuild`, `estimate` | the loops over all stripes |
//! | `stripe_statistics`, `repair_statistics`, `report` | costs and findings of these loops |
//!
//! But for `hedge` no clock and no randomness live here: run identifiers come from the caller, and
//! `seconds` in reports is filled by the caller.
#![forbid(unsafe_code)]

mod budget;
mod buffers;
pub mod chunks;
mod error;
pub mod frame;
pub mod names;
mod sequence;
mod rounds;
mod pace;
mod hedge;
mod settings;
pub mod geometry;
pub mod node;
pub mod pipeline;
pub mod sinks;
mod source;
pub mod encode;
mod windows;
mod choice;
mod advice;
mod read_ahead;
mod report;
pub mod stripe;
mod blame;
pub mod stripe_statistics;
pub mod decode;
pub mod estimate;
pub mod rebuild;
pub mod repair_statistics;
pub mod scan;

pub use advice::{Advice, BreakEven, ReadCosts, sub_chunk_sizes};
pub use budget::{Budget, Share};
pub use buffers::Buffers;
pub use choice::ReadsReport;
pub use error::{ErrorKind, PoolError, Result};
pub use geometry::default_sub_chunk;
pub use hedge::{Hedge, Race};
pub use node::Node;
pub use pace::{HedgeCounts, Purpose};
pub use report::{
    Condition, Damage, DecodeReport, Depth, EncodeReport, MAX_DAMAGE_ENTRIES, Moved, NodeLoad,
    RepairReport, SetReport, ShardPlace, ShardReport, VerifyReport,
};
pub use rounds::limit_readers;
pub use sequence::Sequence;
pub use settings::{Observer, Quiet, Settings, Silent};
pub use sinks::in_parallel;
pub use source::{FileSource, Source, StreamSource};
pub use windows::window_stripes;
