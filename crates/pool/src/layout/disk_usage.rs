//! Space of an object on disk, computed from its manifest alone: pure.
//!
//! File systems give a file whole blocks, mostly of 4 KiB. For a small object these, and the files
//! themselves, are what it costs: 5 KiB in 14 shards of 8 KiB each are 22 times their size.

use crate::{layout::Body, layout::manifest::Manifest};
use kiln_stripe::Result;

/// Bytes that a file takes are a multiple of this.
const BLOCK: u64 = 4096;

/// Files of an object, and the bytes that they take on disk. The least of several is the one of
/// fewer bytes; of equal ones that of fewer files.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiskUsage {
    /// Bytes, whole blocks of 4 KiB.
    pub bytes: u64,
    /// Files.
    pub files: u64,
}

impl DiskUsage {
    /// Of an object with this manifest: its copies, and all shards that it names.
    /// Errors: the manifest is of shards that cannot be.
    pub fn of(manifest: &Manifest) -> Result<DiskUsage> {
        let blocks = |bytes: u64| bytes.next_multiple_of(BLOCK);
        let copies = manifest.copies.len() as u64;
        let mut usage =
            DiskUsage { bytes: copies * blocks(manifest.to_bytes().len() as u64), files: copies };
        if let (Body::Shards(placed), Some(info)) = (&manifest.body, manifest.shard_info(0)) {
            let shards = placed.places.len() as u64;
            // They differ in their contents only.
            usage.bytes += shards * blocks(info.file_bytes()?);
            usage.files += shards;
        }
        Ok(usage)
    }
}
