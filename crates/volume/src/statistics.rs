//! Counters of an open volume.

use serde::Serialize;

/// Counts, from the opening on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Statistics {
    /// Bytes that clients wrote, in whole blocks.
    pub bytes_written: u64,
    /// Bytes that clients read.
    pub bytes_read: u64,
    /// Bytes written to copies of the log.
    pub log_bytes: u64,
    /// Commits.
    pub commits: u64,
    /// Times that a commit waited for room.
    pub waits: u64,
    /// Segments made of what clients wrote, and their bytes without parity.
    pub sealed: u64,
    /// Bytes of those.
    pub sealed_bytes: u64,
    /// Segments that long writes went into, past the log.
    pub long: u64,
    /// Bytes of those.
    pub long_bytes: u64,
    /// Segments made of blocks that were moved.
    pub cleaned: u64,
    /// Bytes read and written again for that.
    pub moved_bytes: u64,
    /// Bytes read from segments for clients.
    pub segment_bytes_read: u64,
    /// Reads for which something had to be rebuilt.
    pub rebuilt_reads: u64,
    /// Checkpoints, and their bytes.
    pub checkpoints: u64,
    /// Bytes of those.
    pub checkpoint_bytes: u64,
    /// Segments removed.
    pub removed: u64,
    /// Time that sealing and cleaning left to clients, in ms.
    pub rested_ms: u64,
}
