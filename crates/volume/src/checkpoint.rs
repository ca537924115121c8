//! A map as an object of the pool: where the blocks of a volume were at some moment.
//!
//! All numbers are little-endian. A header of 64 bytes, the segments that are named, the pages:
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 8 | `kilnvmap` |
//! | 8 | 16 | the volume's id |
//! | 24 | 8 | bytes of the volume |
//! | 32 | 8 | number of the first segment that may not be in it |
//! | 40 | 8 | last batch of the log that is in it |
//! | 48 | 4 | segments |
//! | 52 | 4 | pages |
//! | 56 | 4 | CRC-32C of the 56 bytes before |
//! | 60 | 4 | zeros |
//! | 64 | 40 each | segments: volume (16), generation, number (8), blocks, header's (4) |
//! | | 4 | CRC-32C of the segments |
//! | | 6152 each | pages: number (4); 512 times segment, index, CRC-32C (4 each); its CRC-32C (4) |
//!
//! A block in no segment, whose number is all ones, is zeros.

use std::io::{self, Read};

use kiln_store::checksum;

use crate::bytes::{Fields, Push};
use crate::map::{BlockMap, Location, Mapped, PAGE};
use crate::segment::SegmentId;

const MAGIC: [u8; 8] = *b"kilnvmap";
const HEADER: usize = 64;
const SEGMENT: usize = 40;
const PAGE_LEN: usize = 4 + PAGE * 12 + 4;
const NOWHERE: u32 = u32::MAX;

/// A segment that blocks of a map lie in.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Referenced {
    pub id: SegmentId,
    /// Blocks of data.
    pub blocks: u32,
    /// Blocks of its header, which come before them.
    pub head: u32,
}

/// Head of a checkpoint: all but the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointHead {
    pub volume: [u8; 16],
    pub size: u64,
    pub next_number: u64,
    pub log_seq: u64,
}

/// The bytes of a checkpoint, made as they are read.
pub(crate) struct CheckpointReader<'a> {
    size: u64,
    pages: Box<dyn Iterator<Item = Vec<u8>> + Send + 'a>,
    now: io::Cursor<Vec<u8>>,
}

impl<'a> CheckpointReader<'a> {
    /// Of a map whose slots are `segments`; places in slots for which there is none are left out,
    /// as zeros: the log has them.
    pub fn new(
        head: &CheckpointHead,
        segments: &'a [Option<Referenced>],
        map: &'a BlockMap,
    ) -> CheckpointReader<'a> {
        let named: Vec<&Referenced> = segments.iter().flatten().collect();
        let mut ranks = vec![NOWHERE; segments.len()];
        let there = segments.iter().enumerate().filter(|(_, segment)| segment.is_some());
        for (rank, (slot, _)) in there.enumerate() {
            ranks[slot] = rank as u32;
        }
        let pages = map.pages().count();
        let mut out = Vec::with_capacity(HEADER + named.len() * SEGMENT + 4);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&head.volume);
        out.put64(head.size);
        out.put64(head.next_number);
        out.put64(head.log_seq);
        out.put32(named.len() as u32);
        out.put32(pages as u32);
        let sum = checksum(&out);
        out.put32(sum);
        out.resize(HEADER, 0);
        for segment in named {
            out.extend_from_slice(&segment.id.volume);
            out.put64(segment.id.generation);
            out.put64(segment.id.number);
            out.put32(segment.blocks);
            out.put32(segment.head);
        }
        let sum = checksum(&out[HEADER..]);
        out.put32(sum);
        let size = (out.len() + pages * PAGE_LEN) as u64;
        let pages = map.pages().map(move |(number, blocks)| page(number, &blocks, &ranks));
        CheckpointReader { size, pages: Box::new(pages), now: io::Cursor::new(out) }
    }

    /// Bytes of it.
    pub fn size(&self) -> u64 {
        self.size
    }
}

fn page(number: u32, blocks: &[Option<Mapped>], ranks: &[u32]) -> Vec<u8> {
    let mut out = Vec::with_capacity(PAGE_LEN);
    out.put32(number);
    for block in blocks {
        let rank = |at: &Mapped| ranks.get(at.at.slot as usize).copied().unwrap_or(NOWHERE);
        let found = block.as_ref().map(|at| (rank(at), at)).filter(|(rank, _)| *rank != NOWHERE);
        let (rank, index, sum) = found.map_or((NOWHERE, 0, 0), |(r, at)| (r, at.at.index, at.sum));
        out.put32(rank);
        out.put32(index);
        out.put32(sum);
    }
    let sum = checksum(&out);
    out.put32(sum);
    out
}

impl Read for CheckpointReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let got = self.now.read(buf)?;
            if got > 0 || buf.is_empty() {
                return Ok(got);
            }
            match self.pages.next() {
                Some(page) => self.now = io::Cursor::new(page),
                None => return Ok(0),
            }
        }
    }
}

/// A checkpoint as it was read: places are in slots that are positions of `segments`.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    pub head: CheckpointHead,
    pub segments: Vec<Referenced>,
    pub map: BlockMap,
}

/// Reads a checkpoint; `None`: these bytes are none.
pub(crate) fn parse(bytes: &[u8]) -> Option<Checkpoint> {
    let mut fields = Fields::new(bytes.get(..HEADER)?);
    if fields.array()? != MAGIC {
        return None;
    }
    let (volume, size) = (fields.array()?, fields.u64()?);
    let (next_number, log_seq) = (fields.u64()?, fields.u64()?);
    let (count, pages) = (fields.u32()? as usize, fields.u32()? as usize);
    if fields.u32()? != checksum(&bytes[..56]) || size > crate::descriptor::MAX_SIZE {
        return None;
    }
    // Nothing is made of what is not there.
    let table = count.checked_mul(SEGMENT)?;
    let rest = bytes.len().checked_sub(HEADER)?.checked_sub(table)?.checked_sub(4)?;
    if rest != pages.checked_mul(PAGE_LEN)? {
        return None;
    }
    let mut fields = Fields::new(&bytes[HEADER..]);
    let mut segments = Vec::with_capacity(count);
    for _ in 0..count {
        let volume = fields.array()?;
        let id = SegmentId { volume, generation: fields.u64()?, number: fields.u64()? };
        segments.push(Referenced { id, blocks: fields.u32()?, head: fields.u32()? });
    }
    if fields.u32()? != checksum(&bytes[HEADER..HEADER + table]) {
        return None;
    }
    let mut map = BlockMap::new(size / crate::BLOCK as u64);
    for page in bytes[HEADER + table + 4..].chunks_exact(PAGE_LEN) {
        let (body, sum) = page.split_at(PAGE_LEN - 4);
        if Fields::new(sum).u32()? != checksum(body) {
            return None;
        }
        let mut fields = Fields::new(body);
        let first = u64::from(fields.u32()?) * PAGE as u64;
        for block in first..first + PAGE as u64 {
            let (slot, index, sum) = (fields.u32()?, fields.u32()?, fields.u32()?);
            if slot == NOWHERE {
                continue;
            }
            if index >= segments.get(slot as usize)?.blocks {
                return None;
            }
            map.set(block, Some(Mapped { at: Location { slot, index }, sum }));
        }
    }
    let head = CheckpointHead { volume, size, next_number, log_seq };
    Some(Checkpoint { head, segments, map })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_are_read_back_and_no_flipped_byte_passes() {
        let id = |number| SegmentId { volume: [1; 16], generation: 2, number };
        let segment = |number| Some(Referenced { id: id(number), blocks: 100, head: 1 });
        let segments = [segment(5), None, segment(9)];
        let mut map = BlockMap::new(3000);
        for block in (0..3000u64).filter(|block| block % 7 < 3 && !(600..1100).contains(block)) {
            let at = Location { slot: (block % 3) as u32, index: (block % 100) as u32 };
            map.set(block, Some(Mapped { at, sum: block as u32 * 3 }));
        }
        let head =
            CheckpointHead { volume: [1; 16], size: 3000 * 4096, next_number: 12, log_seq: 88 };
        let mut bytes = Vec::new();
        let mut reader = CheckpointReader::new(&head, &segments, &map);
        let size = reader.size();
        reader.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, size);
        let found = parse(&bytes).unwrap();
        assert_eq!((found.head, found.segments.len()), (head, 2));
        for block in 0..3000 {
            let want = map.get(block).filter(|at| at.at.slot != 1);
            let got = found.map.get(block);
            assert_eq!(got.map(|at| (at.sum, at.at.index)), want.map(|at| (at.sum, at.at.index)));
            assert_eq!(got.map(|at| at.at.slot), want.map(|at| at.at.slot / 2));
        }
        for at in (0..60).chain((64..bytes.len()).step_by(13)) {
            let mut bad = bytes.clone();
            bad[at] ^= 16;
            assert!(parse(&bad).is_none(), "byte {at}");
        }
        assert!(parse(&bytes[..bytes.len() - 1]).is_none() && parse(&[]).is_none());
    }
}
