//! A segment: an object of the pool with blocks of a volume, and a header that says which.
//!
//! The header comes first, padded to whole blocks; then the blocks. It has a header of 80 bytes,
//! the blocks' numbers (8 bytes each), their CRC-32Cs (4 each), in a cleaned segment where each was
//! moved from (segment 8, index 4), freed ranges (first 8, count 8), and its own CRC-32C. All
//! numbers are little-endian:
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 8 | `kilnvseg` |
//! | 8 | 16 | the volume's id |
//! | 24 | 8 | generation of its writer |
//! | 32 | 8 | number of the segment |
//! | 40 | 8 | last batch of the log that is wholly in this segment and those before |
//! | 48 | 4 | blocks |
//! | 52 | 4 | freed ranges |
//! | 56 | 4 | 1: from the log, 2: moved from other segments, 3: written without the log |
//! | 60 | 4 | blocks of 4096 bytes that the header has |
//! | 64 | 8 | of one without the log: the batch that says that it counts; else zeros |
//! | 72 | 8 | zeros |

use crate::BLOCK;
use crate::bytes::{Fields, Push};
use kiln_store::{checksum, names::hex};
use std::collections::BTreeMap;

const MAGIC: [u8; 8] = *b"kilnvseg";
const HEADER: usize = 80;
const FROM_LOG: u32 = 1;
const MOVED: u32 = 2;
const LONG: u32 = 3;
/// Most blocks of a segment.
pub(crate) const MAX_BLOCKS: usize = 1 << 16;
/// Most freed ranges of a segment.
pub(crate) const MAX_FREED: usize = 1 << 16;

/// Identity of a segment: its volume and number.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SegmentId {
    pub volume: [u8; 16],
    pub generation: u64,
    pub number: u64,
}

impl SegmentId {
    /// Its object's name.
    pub fn name(&self) -> String {
        let (volume, generation, number) = (hex(&self.volume), self.generation, self.number);
        format!("{}/{volume}/segment/{generation:08x}-{number:012x}", crate::DATA)
    }
}

/// Earlier location of a block of a cleaned segment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub number: u64,
    pub index: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHead {
    pub id: SegmentId,
    /// Batches up to this one are wholly in this segment and those before it.
    pub log_seq: u64,
    /// Of one that was written without the log: the batch that says that it counts.
    pub seq: Option<u64>,
    /// Numbers of its blocks.
    pub blocks: Vec<u64>,
    pub sums: Vec<u32>,
    /// Earlier locations of blocks that were moved; none for those from the log.
    pub origins: Vec<Origin>,
    /// Ranges that were freed and not written since: first block and how many.
    pub freed: Freed,
}

impl SegmentHead {
    pub fn bytes(&self) -> Vec<u8> {
        let pages = self.pages();
        let mut out = Vec::with_capacity(pages * BLOCK);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.id.volume);
        out.put64(self.id.generation);
        out.put64(self.id.number);
        out.put64(self.log_seq);
        out.put32(self.blocks.len() as u32);
        out.put32(self.freed.len() as u32);
        out.put32(match (self.seq, self.origins.is_empty()) {
            (Some(_), _) => LONG,
            (None, true) => FROM_LOG,
            (None, false) => MOVED,
        });
        out.put32(pages as u32);
        out.put64(self.seq.unwrap_or_default());
        out.resize(HEADER, 0);
        self.blocks.iter().for_each(|block| out.put64(*block));
        self.sums.iter().for_each(|sum| out.put32(*sum));
        for origin in &self.origins {
            out.put64(origin.number);
            out.put32(origin.index);
        }
        for (block, count) in self.freed.iter() {
            out.put64(block);
            out.put64(count);
        }
        let sum = checksum(&out);
        out.put32(sum);
        out.resize(pages * BLOCK, 0);
        out
    }

    /// Blocks that the header takes.
    pub fn pages(&self) -> usize {
        pages(self.blocks.len(), self.freed.len(), !self.origins.is_empty())
    }

    /// Blocks that a header takes which begins with these bytes; `None`: they are no header.
    pub fn pages_of(start: &[u8]) -> Option<usize> {
        let mut fields = Fields::new(start);
        if fields.array()? != MAGIC {
            return None;
        }
        fields.take(52)?;
        let pages = fields.u32()? as usize;
        let most = (HEADER + MAX_BLOCKS * 24 + MAX_FREED * 16 + 4).div_ceil(BLOCK);
        (1..=most).contains(&pages).then_some(pages)
    }

    pub fn parse(bytes: &[u8]) -> Option<SegmentHead> {
        let mut fields = Fields::new(bytes);
        if fields.array()? != MAGIC {
            return None;
        }
        let (volume, generation, number) = (fields.array()?, fields.u64()?, fields.u64()?);
        let log_seq = fields.u64()?;
        let (count, freed) = (fields.u32()? as usize, fields.u32()? as usize);
        let kind = fields.u32()?;
        fields.u32()?;
        let seq = fields.u64()?;
        fields.u64()?;
        let known = matches!(kind, FROM_LOG | MOVED | LONG);
        if count > MAX_BLOCKS || freed > MAX_FREED || !known {
            return None;
        }
        let each = if kind == MOVED { 24 } else { 12 };
        let len = HEADER + count * each + freed * 16;
        let sum = Fields::new(bytes.get(len..)?).u32()?;
        if checksum(&bytes[..len]) != sum {
            return None;
        }
        let blocks = (0..count).map(|_| fields.u64()).collect::<Option<_>>()?;
        let sums = (0..count).map(|_| fields.u32()).collect::<Option<_>>()?;
        let origin = |_| Some(Origin { number: fields.u64()?, index: fields.u32()? });
        let moved = if kind == MOVED { count } else { 0 };
        let origins = (0..moved).map(origin).collect::<Option<_>>()?;
        let mut ranges = Freed::default();
        for _ in 0..freed {
            let (block, count) = (fields.u64()?, fields.u64()?);
            block.checked_add(count)?;
            ranges.add(block, count);
        }
        let id = SegmentId { volume, generation, number };
        let seq = (kind == LONG).then_some(seq);
        Some(SegmentHead { id, log_seq, seq, blocks, sums, origins, freed: ranges })
    }
}

fn pages(blocks: usize, freed: usize, moved: bool) -> usize {
    let each = if moved { 24 } else { 12 };
    (HEADER + blocks * each + freed * 16 + 4).div_ceil(BLOCK)
}

/// Length of segments, in blocks, so that they are of whole stripes: what lies in a shorter one
/// at the end does not begin where blocks of a disk do, and takes two of them to be read.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stripes(usize);

impl Stripes {
    /// Of stripes of so many bytes.
    pub fn of(bytes: Option<u64>) -> Stripes {
        let whole = bytes.filter(|bytes| bytes.is_multiple_of(BLOCK as u64));
        Stripes(whole.map_or(0, |bytes| bytes as usize / BLOCK))
    }

    /// Blocks of data that go into a segment of about so many and fill whole stripes with their
    /// header. Where a stripe is too long for that, as many as they are.
    pub fn capacity(&self, blocks: usize, moved: bool) -> usize {
        let all = blocks + pages(blocks, 0, moved);
        let whole = if self.0 > 0 { all - all % self.0 } else { 0 };
        if whole * 4 < blocks * 3 {
            return blocks;
        }
        let fits = |count: &usize| count + pages(*count, 0, moved) <= whole;
        (0..=whole.min(blocks)).rev().find(fits).unwrap_or(blocks)
    }

    /// Blocks to write so that the last stripe is a whole one, if little is missing.
    pub fn padded(&self, blocks: usize) -> usize {
        if self.0 == 0 || blocks < self.0 {
            return blocks;
        }
        let whole = blocks.next_multiple_of(self.0);
        if (whole - blocks) * 16 <= blocks { whole } else { blocks }
    }
}

/// Ranges of blocks that were freed, none of which touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Freed(BTreeMap<u64, u64>);

impl Freed {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// First blocks and how many.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(&start, &end)| (start, end - start))
    }

    /// Blocks from `block` on are freed.
    pub fn add(&mut self, block: u64, count: u64) {
        let (mut start, mut end) = (block, block.saturating_add(count));
        let touching: Vec<u64> = (self.0.range(..=end))
            .rev()
            .take_while(|(_, e)| **e >= start)
            .map(|(s, _)| *s)
            .collect();
        for at in touching {
            if let Some(other) = self.0.remove(&at) {
                (start, end) = (start.min(at), end.max(other));
            }
        }
        if start < end {
            self.0.insert(start, end);
        }
    }

    /// A block is written again.
    pub fn remove(&mut self, block: u64) {
        let Some((&start, &end)) = self.0.range(..=block).next_back() else { return };
        if end <= block {
            return;
        }
        self.0.remove(&start);
        if start < block {
            self.0.insert(start, block);
        }
        if block + 1 < end {
            self.0.insert(block + 1, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_fill_whole_stripes_where_these_are_short_enough() {
        // clay:6+3: 6 chunks of 27 sub-chunks of 32 KiB.
        let stripes = Stripes::of(Some(6 * 27 * (32 << 10)));
        let (fresh, moved) = (stripes.capacity(8192, false), stripes.capacity(8192, true));
        assert_eq!(fresh + pages(fresh, 0, false), 6 * 1296);
        assert_eq!(moved + pages(moved, 0, true), 6 * 1296);
        assert!(fresh > moved && moved > 7700);
        assert_eq!(stripes.padded(6 * 1296 - 30), 6 * 1296);
        assert_eq!(stripes.padded(6 * 1296), 6 * 1296);
        for as_it_is in [0, 5, 1295, 1900, 5 * 1296 + 1] {
            assert_eq!(stripes.padded(as_it_is), as_it_is);
        }
        // Of small segments, of objects in manifests, and of odd stripes nothing is known.
        assert_eq!(stripes.capacity(16, false), 16);
        for bytes in [None, Some(4095), Some(0)] {
            let none = Stripes::of(bytes);
            assert_eq!((none.capacity(8192, true), none.padded(9)), (8192, 9));
        }
    }

    #[test]
    fn headers_are_read_back_and_no_flipped_byte_passes() {
        let id = SegmentId { volume: [9; 16], generation: 4, number: 77 };
        for (moved, seq) in [(false, None), (true, None), (false, Some(6))] {
            let blocks: Vec<u64> = (0..500).map(|i| i * 7919 % 100_003).collect();
            let sums = blocks.iter().map(|b| (b * 31 + 5) as u32).collect();
            let origin = |i: u64| Origin { number: i % 13, index: i as u32 * 3 };
            let origins = if moved { (0..500).map(origin).collect() } else { Vec::new() };
            let mut freed = Freed::default();
            freed.add(1 << 40, 5);
            freed.add(10, 1 << 33);
            let head = SegmentHead { id, log_seq: 5, seq, blocks, sums, origins, freed };
            let bytes = head.bytes();
            assert_eq!(bytes.len(), head.pages() * BLOCK);
            assert_eq!(SegmentHead::pages_of(&bytes[..BLOCK]), Some(head.pages()));
            assert_eq!(SegmentHead::parse(&bytes).as_ref(), Some(&head));
            for at in (0..HEADER + 500 * if moved { 24 } else { 12 } + 36).step_by(11) {
                let mut bad = bytes.clone();
                bad[at] ^= 4;
                assert!(SegmentHead::parse(&bad).is_none(), "byte {at}");
            }
        }
    }

    #[test]
    fn freed_ranges_join_and_part_as_single_blocks_would() {
        let (mut freed, mut model) = (Freed::default(), std::collections::BTreeSet::new());
        let mut seed = 1u64;
        for _ in 0..5000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            let (block, count) = ((seed >> 20) % 60, (seed >> 40) % 9);
            if seed >> 63 == 0 {
                freed.add(block, count);
                model.extend(block..block + count);
            } else {
                freed.remove(block);
                model.remove(&block);
            }
            let all: Vec<u64> = freed.iter().flat_map(|(b, n)| b..b + n).collect();
            assert_eq!(all, model.iter().copied().collect::<Vec<_>>());
            let ends: Vec<(u64, u64)> = freed.iter().map(|(b, n)| (b, b + n)).collect();
            assert!(ends.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }
}
