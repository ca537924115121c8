//! Open files: reading at any offset, appending at the end.

use super::tag::Tag;
use crate::Result;
use std::ops::Range;

/// An open file for reading, usable from several threads at once.
pub trait ReadAt: Send + Sync {
    /// Length in bytes when it was opened.
    fn len(&self) -> u64;

    /// Returns whether the file has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buf` from `offset` bytes on; past the end gives
    /// [`StoreError::Truncated`](crate::StoreError::Truncated).
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()>;

    /// Fills all buffers, together where the place can do that: one helper's runs then cost one
    /// round of its device. By itself this method reads one after the other.
    /// Errors: as [`ReadAt::read_at`]; all buffers are then undefined.
    fn read_batch(&self, reads: &mut [BatchRead<'_>]) -> Result<()> {
        reads.iter_mut().try_for_each(|read| self.read_at(read.offset, read.buf))
    }

    /// Returns the tag of these bytes among all that ever had the name, where the place has that:
    /// for [`crate::Existing::Same`].
    fn tag(&self) -> Option<Tag> {
        None
    }

    /// Reads will be short and anywhere: nothing is worth reading ahead. Only advice.
    fn expect_random(&self) {}

    /// Returns the alignment of the device's reads: 1 unless reads go past
    /// the page cache. See [`issued`].
    fn alignment(&self) -> u64 {
        1
    }

    /// Returns the start of stored bytes, from `offset` on: a sparse file has holes, which read as
    /// zeros. `None`: there is only a hole up to the end. A place that cannot tell says `offset`.
    fn next_data(&self, offset: u64) -> Option<u64> {
        Some(offset)
    }
}

/// One read of a batch, see [`ReadAt::read_batch`].
#[derive(Debug)]
pub struct BatchRead<'a> {
    /// Byte offset in the file.
    pub offset: u64,
    /// The buffer to fill.
    pub buf: &'a mut [u8],
}

impl<'a> BatchRead<'a> {
    /// A read of `buf.len()` bytes.
    pub fn new(offset: u64, buf: &'a mut [u8]) -> BatchRead<'a> {
        BatchRead { offset, buf }
    }
}

/// Reads ranges of a file, one after the other into `bytes`, all submitted together. Ranges may
/// reach past the end of the file, as aligned ones do; the bytes there stay as they were.
pub fn read_ranges(file: &dyn ReadAt, ranges: &[Range<u64>], bytes: &mut [u8]) -> Result<()> {
    let len = file.len();
    let mut batch = Vec::with_capacity(ranges.len());
    let mut rest = bytes;
    for range in ranges {
        let (now, later) = rest.split_at_mut((range.end - range.start) as usize);
        let there = len.saturating_sub(range.start).min(now.len() as u64) as usize;
        batch.push(BatchRead::new(range.start, &mut now[..there]));
        rest = later;
    }
    file.read_batch(&mut batch)
}

/// The reads that a batch of these byte ranges (ascending) becomes where offsets must be multiples
/// of `alignment`: each range grown to the next multiples, ranges that then touch or overlap
/// joined. With an alignment of 1 the ranges stay as they are.
pub fn issued(wanted: &[Range<u64>], alignment: u64) -> Vec<Range<u64>> {
    if alignment <= 1 {
        return wanted.to_vec();
    }
    let mut reads: Vec<Range<u64>> = Vec::with_capacity(wanted.len());
    for range in wanted.iter().filter(|range| !range.is_empty()) {
        let start = range.start / alignment * alignment;
        let end = range.end.next_multiple_of(alignment);
        match reads.last_mut() {
            Some(last) if last.start <= start && start <= last.end => last.end = last.end.max(end),
            _ => reads.push(start..end),
        }
    }
    reads
}

/// An open file for appending.
///
/// After an error the file's end is unknown: stop, and open it again at a known length.
pub trait Append: Send {
    /// Writes all of `bytes` at the end, which is where this writer's bytes end: two that write the
    /// same to one file do no harm.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Length in bytes, everything appended included.
    fn len(&self) -> u64;

    /// Returns whether nothing was written yet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says that nobody will read soon what is appended from here on: the system need not keep it
    /// in memory when the device has it. By itself nothing changes.
    fn drop_behind(&mut self) {}

    /// Makes all appended bytes durable. An error here is final: never retry it.
    fn sync(&mut self) -> Result<()>;

    /// Ends a file of [`Objects::write_once`](crate::Objects::write_once): it is there, whole and
    /// durable. Nothing may be appended afterwards. By itself this is [`Append::sync`].
    fn complete(&mut self) -> Result<()> {
        self.sync()
    }
}
