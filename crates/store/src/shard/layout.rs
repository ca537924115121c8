//! The layout of a shard: pure arithmetic on five numbers.

use crate::{Result, StoreError, SumKind};
use std::ops::Range;

/// Bytes of the header block, and the alignment of every segment's start.
pub const BLOCK: u64 = 4096;
/// Most sub-chunks per chunk.
pub const MAX_ALPHA: u32 = 1 << 20;
/// Most bytes per chunk; callers hold whole chunks in memory.
pub const MAX_CHUNK: u64 = 1 << 30;
/// Most bytes that all chunks of a stripe have, parity included, with whoever reads or writes it: a
/// stripe is held in memory as a whole, and what its shards say must not decide about that.
pub const MAX_STRIPE: u64 = 1 << 30;
/// Most entries in a segment's checksum table, which is read as a whole.
pub const MAX_TABLE_ENTRIES: u64 = 1 << 20;
/// Most bytes per shard; file offsets are signed 64-bit numbers.
pub const MAX_FILE: u64 = 1 << 62;
/// The last stripe's sub-chunks are a multiple of this many bytes (or `sub_chunk`, if smaller).
pub const LAST_STRIPE_ALIGN: u64 = 16;

/// The geometry of a shard: pure arithmetic, no I/O.
///
/// Stripe `s` covers the object's bytes from `s * k * alpha * sub_chunk` on. The last stripe, if
/// only `rem` bytes are left for it, has shorter sub-chunks: `ceil(rem / (k * alpha))` rounded up
/// to 16, at most `sub_chunk`. An object of 0 bytes has no stripes.
///
/// Arguments `stripe`, `sub` and `segment` must be below `stripes()`, alpha and `segments()`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    k: u64,
    alpha: u64,
    sub_chunk: u64,
    segment_stripes: u64,
    size: Option<u64>,
    stripes: u64,
    last_sub_len: u64,
    sums: SumKind,
}

impl Layout {
    /// Geometry of an object of `size` bytes; with `None` (not known yet) every stripe counts as
    /// full and [`Layout::stripes`] is the most that the format can hold. `sums` are in the tables.
    /// Errors: [`StoreError::BadField`] when a number is outside the limits of the format.
    pub fn new(
        k: u16,
        alpha: u32,
        sub_chunk: u32,
        segment_stripes: u32,
        size: Option<u64>,
        sums: SumKind,
    ) -> Result<Self> {
        within("k", k.into(), 1, 256)?;
        within("alpha", alpha.into(), 1, MAX_ALPHA.into())?;
        within("sub_chunk", sub_chunk.into(), 1, MAX_CHUNK / u64::from(alpha))?;
        within("segment_stripes", segment_stripes.into(), 1, MAX_TABLE_ENTRIES / u64::from(alpha))?;
        let mut layout = Self {
            k: k.into(),
            alpha: alpha.into(),
            sub_chunk: sub_chunk.into(),
            segment_stripes: segment_stripes.into(),
            size,
            stripes: 0,
            last_sub_len: sub_chunk.into(),
            sums,
        };
        let segments = (MAX_FILE - 2 * BLOCK) / layout.stride();
        let most = (segments * layout.segment_stripes).min(MAX_FILE / layout.full_stripe());
        layout.stripes = most;
        if let Some(size) = size {
            within("size", size, 0, most * layout.full_stripe())?;
            layout.stripes = size.div_ceil(layout.full_stripe());
            let rem = size % layout.full_stripe();
            if rem > 0 {
                let even = rem.div_ceil(layout.k * layout.alpha);
                let sub_len = even.next_multiple_of(LAST_STRIPE_ALIGN);
                layout.last_sub_len = sub_len.min(layout.sub_chunk);
            }
        }
        Ok(layout)
    }

    /// Bytes of the object, if known.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// Checks of sub-chunks.
    pub fn sums(&self) -> SumKind {
        self.sums
    }

    /// Number of stripes; with unknown size the largest number that the format can hold.
    pub fn stripes(&self) -> u64 {
        self.stripes
    }

    /// Number of segments.
    pub fn segments(&self) -> u64 {
        self.stripes.div_ceil(self.segment_stripes)
    }

    /// Stripes of every segment but perhaps the last.
    pub fn segment_stripes(&self) -> u64 {
        self.segment_stripes
    }

    /// Sub-chunks per chunk.
    pub fn alpha(&self) -> u32 {
        self.alpha as u32
    }

    /// Bytes of a sub-chunk of this stripe.
    pub fn sub_len(&self, stripe: u64) -> usize {
        let last = self.size.is_some() && stripe + 1 == self.stripes;
        (if last { self.last_sub_len } else { self.sub_chunk }) as usize
    }

    /// Bytes of a chunk of this stripe: alpha * sub_len.
    pub fn chunk_len(&self, stripe: u64) -> usize {
        self.alpha as usize * self.sub_len(stripe)
    }

    /// Bytes of the object that this stripe covers; the last one may cover fewer than its k
    /// chunks hold, the rest is zeros.
    pub fn stripe_bytes(&self, stripe: u64) -> u64 {
        let full = self.full_stripe();
        match self.size {
            Some(size) => size.saturating_sub(self.stripe_start(stripe)).min(full),
            None => full,
        }
    }

    /// Returns the byte of the object at which this stripe starts.
    pub fn stripe_start(&self, stripe: u64) -> u64 {
        stripe * self.full_stripe()
    }

    /// Byte offset in the file of a sub-chunk.
    pub fn offset(&self, stripe: u64, sub: u32) -> u64 {
        self.segment_start(self.segment_of(stripe))
            + (stripe % self.segment_stripes) * self.full_chunk()
            + u64::from(sub) * self.sub_len(stripe) as u64
    }

    /// The bytes of the file that runs of sub-chunks of a stripe lie in, a range for each.
    pub fn ranges(&self, stripe: u64, runs: &[Range<u32>]) -> Vec<Range<u64>> {
        let range = |run: &Range<u32>| self.offset(stripe, run.start)..self.offset(stripe, run.end);
        runs.iter().map(range).collect()
    }

    /// Byte offset and length of a segment's checksum table, without padding.
    pub fn table(&self, segment: u64) -> (u64, u64) {
        let range = self.segment_range(segment);
        let last = range.end - 1;
        let offset = self.offset(last, 0) + self.chunk_len(last) as u64;
        (offset, self.table_len((range.end - range.start) * self.alpha))
    }

    /// Bytes of zeros between a segment's table and the next segment; none after the last.
    pub fn padding(&self, segment: u64) -> u64 {
        if segment + 1 == self.segments() {
            return 0;
        }
        let (offset, len) = self.table(segment);
        self.segment_start(segment + 1) - offset - len
    }

    /// The segment that holds this stripe.
    pub fn segment_of(&self, stripe: u64) -> u64 {
        stripe / self.segment_stripes
    }

    /// The stripes of a segment.
    #[must_use]
    pub fn segment_range(&self, segment: u64) -> Range<u64> {
        let start = segment * self.segment_stripes;
        start..(start + self.segment_stripes).min(self.stripes)
    }

    /// Bytes of chunk data in the whole shard (not meaningful while the size is unknown).
    pub fn data_bytes(&self) -> u64 {
        match self.stripes {
            0 => 0,
            n => (n - 1) * self.full_chunk() + self.chunk_len(n - 1) as u64,
        }
    }

    /// Byte offset of the trailer: the end of the last table, and of the list of all tables' hashes
    /// where the digest is a tree.
    pub fn trailer_offset(&self) -> u64 {
        let (offset, len) = self.roots();
        offset + len
    }

    /// Byte offset and length of the list of all tables' hashes, its own checksum included; nothing
    /// where there are no segments, or the digest is no tree.
    pub fn roots(&self) -> (u64, u64) {
        let len = match (self.sums, self.segments()) {
            (SumKind::Crc32c, _) | (_, 0) => 0,
            (SumKind::Blake3, segments) => self.table_len(segments),
        };
        (self.tables_end(), len)
    }

    /// Byte offset of the end of the last table.
    fn tables_end(&self) -> u64 {
        match self.segments() {
            0 => BLOCK,
            n => {
                let (offset, len) = self.table(n - 1);
                offset + len
            }
        }
    }

    /// Stripes from the first on that can be verified in a file of so many bytes: those whose
    /// segment is in it up to the end of its checksum table. Whatever a header says, no more can
    /// be read.
    pub fn stripes_within(&self, bytes: u64) -> u64 {
        if self.tables_end() <= bytes {
            return self.stripes;
        }
        // The last segment is not whole, and all others are equally long.
        let entries = self.segment_stripes * self.alpha;
        let segment = self.segment_stripes * self.full_chunk() + self.table_len(entries);
        let Some(more) = bytes.checked_sub(BLOCK + segment) else { return 0 };
        let whole = more / self.stride() + 1;
        whole.min(self.segments().saturating_sub(1)) * self.segment_stripes
    }

    /// The segment that a byte of the file lies in, or would if there were more of them.
    pub(crate) fn segment_at(&self, offset: u64) -> u64 {
        offset.saturating_sub(BLOCK) / self.stride()
    }

    /// Bytes of all checksum tables of a shard, without padding.
    pub fn tables_bytes(&self) -> u64 {
        match self.segments() {
            0 => 0,
            n => (n - 1) * self.table_len(self.segment_stripes * self.alpha) + self.table(n - 1).1,
        }
    }

    /// Stripes that are certainly full: all of them, or all but a short last one.
    pub(crate) fn full_stripes(&self) -> u64 {
        self.size.map_or(self.stripes, |size| size / self.full_stripe())
    }

    fn segment_start(&self, segment: u64) -> u64 {
        BLOCK + segment * self.stride()
    }

    fn full_chunk(&self) -> u64 {
        self.alpha * self.sub_chunk
    }

    fn full_stripe(&self) -> u64 {
        self.k * self.full_chunk()
    }

    /// Bytes from one segment's start to the next one's.
    fn stride(&self) -> u64 {
        let data = self.segment_stripes * self.full_chunk();
        (data + self.table_len(self.segment_stripes * self.alpha)).next_multiple_of(BLOCK)
    }

    /// Bytes of a table: its entries and its own checksum.
    fn table_len(&self, entries: u64) -> u64 {
        self.sums.sum_len() as u64 * entries + 4
    }
}

/// Checks one number against its limits, both inclusive.
pub(super) fn within(field: &'static str, value: u64, least: u64, most: u64) -> Result<()> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let limit = format!("{least} to {most}");
    Err(StoreError::BadField { field, value: value.to_string(), limit })
}

/// The usual number of stripes per segment: tables of at most 4096 entries (16 KiB) and segments
/// of at most 64 MiB of data, but at least one stripe.
pub fn segment_stripes(alpha: u32, sub_chunk: u32) -> u32 {
    let chunk = u64::from(alpha.max(1)) * u64::from(sub_chunk.max(1));
    let by_entries = 4096 / u64::from(alpha.max(1));
    by_entries.min((64 << 20) / chunk).max(1) as u32
}
