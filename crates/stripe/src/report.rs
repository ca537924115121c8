//! Reports of operations. All types serialize; sizes are bytes; `seconds` is 0 until the caller
//! fills it.

use crate::ReadsReport;
use serde::Serialize;
use std::fmt;

/// Entries that one report lists at most as damaged; `damaged_count` counts all.
pub const MAX_DAMAGE_ENTRIES: usize = 1000;

/// A shard, or one chunk of it, that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Index of the shard; `None` for a file that does not even say which shard it is.
    pub index: Option<usize>,
    /// The stripe whose chunk is damaged; `None` when the shard as a whole is concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stripe: Option<u64>,
    /// The finding and its place.
    pub reason: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.index, self.stripe) {
            (Some(index), Some(stripe)) => write!(f, "shard {index}, stripe {stripe}: ")?,
            (Some(index), None) => write!(f, "shard {index}: ")?,
            (None, _) => {}
        }
        f.write_str(&self.reason)
    }
}

/// Place of one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShardPlace {
    /// Index of the shard, 0..n.
    pub index: usize,
    /// Name of its node.
    pub node: String,
    /// File name on the node.
    pub name: String,
    /// Bytes of the whole file.
    pub bytes: u64,
}

/// Report of an encode.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EncodeReport {
    /// Object's name.
    pub object: String,
    /// Canonical code spec.
    pub code: String,
    /// Order of the sub-chunks along a chunk.
    pub order: String,
    /// Run identifier, 32 hex digits; empty for bare chunks.
    pub run: String,
    /// Bytes of the object.
    pub size: u64,
    /// Number of stripes.
    pub stripes: u64,
    /// Data and parity chunks of a stripe.
    pub k: usize,
    /// Parity chunks of a stripe.
    pub m: usize,
    /// Shards that may be lost, whichever they are.
    pub margin: i32,
    /// Sub-chunks of a chunk.
    pub alpha: usize,
    /// Bytes of a sub-chunk (all stripes but a short last one).
    pub sub_chunk: u64,
    /// Bytes of a chunk (all stripes but a short last one).
    pub chunk: u64,
    /// Bytes in shard files, metadata included, what was resumed included.
    pub bytes_written: u64,
    /// Bytes of the object that an interrupted earlier encode had already secured.
    pub resumed_bytes: u64,
    /// Wall time, filled by the caller.
    pub seconds: f64,
    /// The n shards.
    pub shards: Vec<ShardPlace>,
}

/// Report of a decode.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DecodeReport {
    /// Object's name.
    pub object: String,
    /// Canonical code spec.
    pub code: String,
    /// Order of the sub-chunks along a chunk.
    pub order: String,
    /// "direct" when data chunks were just joined, else "decode", or "mixed".
    pub strategy: String,
    /// Bytes of the object, all handed out.
    pub size: u64,
    /// Indices of shards that could not be used at all.
    pub lost: Vec<usize>,
    /// Indices of shards that were read.
    pub helpers: Vec<usize>,
    /// Chunk bytes read.
    pub bytes_read: u64,
    /// Contiguous reads of chunk bytes.
    pub read_runs: u64,
    /// Bytes of headers, checksum tables and trailers read.
    pub metadata_bytes_read: u64,
    /// Bytes handed out.
    pub bytes_written: u64,
    /// Wall time, filled by the caller.
    pub seconds: f64,
    /// Every byte handed out was covered by a checksum, and rebuilt shards matched their digest.
    pub verified: bool,
    /// Damage found on the way, at most [`MAX_DAMAGE_ENTRIES`].
    pub damaged: Vec<Damage>,
    /// Number that were found wrong.
    pub damaged_count: u64,
    /// Shards of other encode runs, misplaced files, duplicates: one line each.
    pub notes: Vec<String>,
}

/// Depth to which a verify reads and computes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Depth {
    /// Headers, trailers, names, and checksum tables against the recorded digests.
    Headers,
    /// All chunk data against its checksums too.
    #[default]
    Data,
    /// All that, and parity computed again from data.
    Parity,
}

/// Findings of a verify.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct VerifyReport {
    /// Object's name.
    pub object: String,
    /// Canonical code spec.
    pub code: String,
    /// Order of the sub-chunks along a chunk.
    pub order: String,
    /// Bytes of the object.
    pub size: u64,
    /// Number of stripes.
    pub stripes: u64,
    /// Depth of the verify.
    pub depth: Depth,
    /// All n shards are present, whole, well placed.
    pub clean: bool,
    /// Every byte can be had: at most m chunks of each stripe are missing or damaged.
    pub recoverable: bool,
    /// Indices without any usable shard.
    pub missing: Vec<usize>,
    /// Indices of shards that a repair would rebuild: missing or damaged.
    pub lost: Vec<usize>,
    /// Chunk bytes read.
    pub bytes_read: u64,
    /// Bytes of headers, checksum tables and trailers read.
    pub metadata_bytes_read: u64,
    /// Wall time, filled by the caller.
    pub seconds: f64,
    /// Damage found, at most [`MAX_DAMAGE_ENTRIES`].
    pub damaged: Vec<Damage>,
    /// Number that were found wrong.
    pub damaged_count: u64,
    /// Shards of other encode runs, misplaced files, duplicates: one line each.
    pub notes: Vec<String>,
    /// First stripes with more than m bad chunks, at most [`MAX_DAMAGE_ENTRIES`].
    pub unrecoverable_stripes: Vec<u64>,
}

/// Load of one node during a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeLoad {
    /// Name of the node.
    pub node: String,
    /// Index of its shard.
    pub index: usize,
    /// Chunk bytes read from its store.
    pub bytes_read: u64,
    /// Contiguous runs of them.
    pub read_runs: u64,
    /// Bytes asked of its device for these runs; see [`RepairReport::device_bytes_read`].
    pub device_bytes_read: u64,
    /// Reads asked of its device for these runs.
    pub device_reads: u64,
    /// Chunk bytes it sends to the rebuilding node.
    pub bytes_sent: u64,
    /// Chunk bytes it receives from others.
    pub bytes_received: u64,
}

/// A shard file that was renamed to where it belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Index of the shard.
    pub index: usize,
    /// Name of its node.
    pub node: String,
    /// Old file name.
    pub from: String,
    /// New file name.
    pub to: String,
}

/// Report of a repair, or (dry run) of a planned one.
///
/// `bytes_*` are chunk data only, as the plan counts them: sub-chunks x stripes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RepairReport {
    /// Object's name.
    pub object: String,
    /// Canonical code spec.
    pub code: String,
    /// Order of the sub-chunks along a chunk.
    pub order: String,
    /// "repair", "decode" or "mixed"; "none" when nothing was to rebuild.
    pub strategy: String,
    /// Indices of the shards rebuilt.
    pub lost: Vec<usize>,
    /// Indices of the shards that helped.
    pub helpers: Vec<usize>,
    /// Chunk bytes read from helpers.
    pub bytes_read: u64,
    /// Contiguous runs of chunk bytes.
    pub read_runs: u64,
    /// Bytes asked of devices for these runs: more than `bytes_read` where reads must be aligned
    /// (direct reads) or gaps are read through because that is cheaper.
    pub device_bytes_read: u64,
    /// Reads asked of devices for these runs: fewer than `read_runs` where runs were joined.
    pub device_reads: u64,
    /// Decision of the read planner; only where reads were planned for devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<ReadsReport>,
    /// Bytes of all reads that this process asked of the nodes' stores, for headers, checksum
    /// tables and looks at what is there too; filled by the caller. With direct reads the devices'
    /// own statistics say the same.
    pub issued_bytes: u64,
    /// All reads that this process asked of the nodes' stores; filled by the caller.
    pub issued_reads: u64,
    /// Chunk bytes that helpers send to the rebuilding node.
    pub bytes_sent: u64,
    /// Largest of max(sent, received) over the nodes.
    pub max_node_load: u64,
    /// Chunk bytes written to rebuilt shards.
    pub bytes_written: u64,
    /// Bytes of headers, checksum tables and trailers read.
    pub metadata_bytes_read: u64,
    /// Chunk bytes read only to look for damage.
    pub scan_bytes_read: u64,
    /// Chunk bytes of rebuilt shards that an interrupted earlier repair had secured.
    pub resumed_bytes: u64,
    /// Wall time, filled by the caller.
    pub seconds: f64,
    /// Every rebuilt shard matched its recorded digest before it replaced anything.
    pub verified: bool,
    /// Nothing was written: numbers come from the plan.
    pub dry_run: bool,
    /// Load of each node that took part.
    pub nodes: Vec<NodeLoad>,
    /// Damage found, at most [`MAX_DAMAGE_ENTRIES`].
    pub damaged: Vec<Damage>,
    /// Number that were found wrong.
    pub damaged_count: u64,
    /// Files renamed to where they belong.
    pub moved: Vec<Moved>,
    /// Shards of other encode runs, misplaced files, duplicates: one line each.
    pub notes: Vec<String>,
}

/// Condition of a shard by its header and trailer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// It is whole, as far as one sees without reading its data.
    Complete,
    /// Header, trailer or length are bad.
    Damaged,
    /// It was not found.
    #[default]
    Missing,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Complete => "complete",
            Self::Damaged => "damaged",
            Self::Missing => "missing",
        })
    }
}

/// State of one shard of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ShardReport {
    /// Index, 0..n.
    pub index: usize,
    /// "data" or "parity".
    pub role: String,
    /// Condition by header, trailer and length.
    pub state: Condition,
    /// Name of the node that holds it.
    pub node: Option<String>,
    /// File name there.
    pub name: Option<String>,
    /// Bytes of the file.
    pub bytes: Option<u64>,
}

/// Condition of an object by headers and trailers: the answer of `kiln inspect`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SetReport {
    /// Object's name.
    pub object: String,
    /// Canonical code spec.
    pub code: String,
    /// Every parameter of the code written out, as the shards have it.
    pub spec: String,
    /// Order of the sub-chunks along a chunk.
    pub order: String,
    /// Run identifier, 32 hex digits.
    pub run: String,
    /// Bytes of the object.
    pub size: u64,
    /// Number of stripes.
    pub stripes: u64,
    /// Data chunks of a stripe.
    pub k: usize,
    /// Parity chunks of a stripe.
    pub m: usize,
    /// Sub-chunks of a chunk.
    pub alpha: usize,
    /// Bytes of a sub-chunk (all stripes but a short last one).
    pub sub_chunk: u64,
    /// Bytes of a chunk (all stripes but a short last one).
    pub chunk: u64,
    /// Bytes of one whole shard file.
    pub shard_bytes: u64,
    /// True if the shards that are there are enough, as far as headers and trailers tell.
    pub recoverable: bool,
    /// One entry for each index.
    pub shards: Vec<ShardReport>,
    /// Damage, as far as headers and trailers tell.
    pub damaged: Vec<Damage>,
    /// Shards of other encode runs, misplaced files, duplicates: one line each.
    pub notes: Vec<String>,
}
