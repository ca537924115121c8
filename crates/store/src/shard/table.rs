//! Checksum tables: one per segment, bound to the run, the shard and the segment they belong to.

use crate::{Layout, ReadAt, Result, ShardInfo, StoreError};
use std::sync::Arc;

/// Bytes of a table: entries and the checksum over (run, index, segment, entries).
pub(super) fn encode(info: &ShardInfo, segment: u64, entries: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(entries.len() + 4);
    bytes.extend(entries);
    let sum = own_sum(info, segment, &bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// The hashes of all segments' tables and their own checksum, where the digest is a tree; nothing
/// where it is not.
pub(super) fn encode_roots(info: &ShardInfo, roots: &[u8]) -> Vec<u8> {
    if roots.is_empty() {
        return Vec::new();
    }
    encode(info, ROOTS, roots)
}

/// Reads and verifies what [`encode_roots`] wrote.
pub(super) fn read_roots(
    file: &dyn ReadAt,
    origin: Origin<'_>,
    info: &ShardInfo,
    layout: &Layout,
) -> Result<Arc<[u8]>> {
    let (offset, len) = layout.roots();
    read_checked(file, origin, info, ROOTS, offset, len, 0)
}

/// Stands for the number of a segment in the list of all their hashes: no segment has it.
pub(super) const ROOTS: u64 = u64::MAX;

/// The error for a segment's table, or the list of all, that is not what it should be.
pub(super) fn damaged(origin: Origin<'_>, segment: u64, what: &str) -> StoreError {
    StoreError::Damaged {
        place: origin.place.to_string(),
        name: origin.name.to_string(),
        part: match segment {
            ROOTS => "list of its checksum tables".to_string(),
            _ => format!("checksum table of segment {segment}"),
        },
        what: what.to_string(),
    }
}

/// A table's own checksum: a table of another run, shard or segment does not have it.
fn own_sum(info: &ShardInfo, segment: u64, entries: &[u8]) -> u32 {
    let mut bound = [0; 26];
    bound[..16].copy_from_slice(&info.run);
    bound[16..18].copy_from_slice(&info.index.to_le_bytes());
    bound[18..].copy_from_slice(&segment.to_le_bytes());
    let mut sum = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    sum.update(&bound);
    sum.update(entries);
    // 32 significant bits: the crate serves wider sums by the same type.
    sum.finalize() as u32
}

/// Source of a table, for messages.
#[derive(Clone, Copy)]
pub(super) struct Origin<'a> {
    pub place: &'a str,
    pub name: &'a str,
}

/// Reads and verifies a table, and the zeros after it if `padding` says how many there must be.
pub(super) fn read(
    file: &dyn ReadAt,
    origin: Origin<'_>,
    info: &ShardInfo,
    layout: &Layout,
    segment: u64,
    padding: u64,
) -> Result<Arc<[u8]>> {
    let (offset, len) = layout.table(segment);
    read_checked(file, origin, info, segment, offset, len, padding)
}

fn read_checked(
    file: &dyn ReadAt,
    origin: Origin<'_>,
    info: &ShardInfo,
    segment: u64,
    offset: u64,
    len: u64,
    padding: u64,
) -> Result<Arc<[u8]>> {
    // Before the buffer is made: a header may promise more than the file holds.
    if offset + len + padding > file.len() {
        return Err(StoreError::Truncated {
            place: origin.place.to_string(),
            name: origin.name.to_string(),
            need: offset + len + padding,
            have: file.len(),
        });
    }
    let mut bytes = vec![0; (len + padding) as usize];
    file.read_at(offset, &mut bytes)?;
    let (table, zeros) = bytes.split_at(len as usize);
    let (entries, sum) = table.split_at(table.len() - 4);
    if own_sum(info, segment, entries).to_le_bytes() != *sum {
        return Err(damaged(origin, segment, "its checksum is wrong"));
    }
    if zeros.iter().any(|&byte| byte != 0) {
        return Err(damaged(origin, segment, "the padding after it is not zero"));
    }
    Ok(entries.into())
}
