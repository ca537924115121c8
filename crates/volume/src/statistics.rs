//! What an open volume has done so far.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// Counts, from the opening on.
///
/// ```
/// assert_eq!(kiln_volume::Statistics::default().bytes_written, 0);
/// ```
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
}

/// The same while they change.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    bytes_written: AtomicU64,
    bytes_read: AtomicU64,
    log_bytes: AtomicU64,
    commits: AtomicU64,
    waits: AtomicU64,
    sealed: AtomicU64,
    sealed_bytes: AtomicU64,
    cleaned: AtomicU64,
    moved_bytes: AtomicU64,
    segment_bytes_read: AtomicU64,
    rebuilt_reads: AtomicU64,
    checkpoints: AtomicU64,
    checkpoint_bytes: AtomicU64,
    removed: AtomicU64,
}

fn add(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

impl Counters {
    pub fn written(&self, bytes: u64) {
        add(&self.bytes_written, bytes);
    }

    pub fn logged(&self, bytes: u64) {
        add(&self.log_bytes, bytes);
        add(&self.commits, 1);
    }

    pub fn waited(&self) {
        add(&self.waits, 1);
    }

    pub fn read(&self, bytes: u64) {
        add(&self.bytes_read, bytes);
    }

    pub fn device_read(&self, bytes: u64) {
        add(&self.segment_bytes_read, bytes);
    }

    pub fn rebuilt(&self) {
        add(&self.rebuilt_reads, 1);
    }

    pub fn sealed(&self, bytes: u64) {
        add(&self.sealed, 1);
        add(&self.sealed_bytes, bytes);
    }

    pub fn cleaned(&self, bytes: u64) {
        add(&self.cleaned, 1);
        add(&self.moved_bytes, bytes);
    }

    pub fn checkpointed(&self, bytes: u64) {
        add(&self.checkpoints, 1);
        add(&self.checkpoint_bytes, bytes);
    }

    pub fn removed(&self) {
        add(&self.removed, 1);
    }

    pub fn so_far(&self) -> Statistics {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            bytes_written: get(&self.bytes_written),
            bytes_read: get(&self.bytes_read),
            log_bytes: get(&self.log_bytes),
            commits: get(&self.commits),
            waits: get(&self.waits),
            sealed: get(&self.sealed),
            sealed_bytes: get(&self.sealed_bytes),
            cleaned: get(&self.cleaned),
            moved_bytes: get(&self.moved_bytes),
            segment_bytes_read: get(&self.segment_bytes_read),
            rebuilt_reads: get(&self.rebuilt_reads),
            checkpoints: get(&self.checkpoints),
            checkpoint_bytes: get(&self.checkpoint_bytes),
            removed: get(&self.removed),
        }
    }
}
