//! Long writes: they go straight into segments, and never through the log.
//!
//! Such a segment is in the pool before anybody hears of it. Then an empty batch in the log says
//! that it counts, and makes sure that this writer still is the one: whoever opens the volume later
//! takes segments up to the last batch that is there.

use std::collections::BTreeMap;
use std::io::{self, Read};

use kiln_pool::StreamSource;
use kiln_store::checksum;

use crate::generation::Generation;
use crate::kept::lock;
use crate::record::batch_len;
use crate::ring::Room;
use crate::segment::{Freed, SegmentHead};
use crate::state::State;
use crate::volume::{Op, Volume};
use crate::{BLOCK, Result};

/// A write is long if it has at least this part of a segment's blocks.
const PART: usize = 4;

impl Volume {
    /// Writes all of it into segments, if it is long enough, of whole blocks, and nothing that the
    /// log has yet to give to segments has to do with it; whether that was so.
    pub(crate) fn write_long(&self, generation: &mut Generation, ops: &[Op<'_>]) -> Result<bool> {
        let capacity = lock(&self.state).capacity();
        let Some(blocks) = blocks_of(ops, capacity / PART) else { return Ok(false) };
        if !lock(&self.state).may_go_past_the_log(blocks.keys().copied()) {
            return Ok(false);
        }
        let blocks: Vec<(u64, &[u8])> = blocks.into_iter().collect();
        // A last one is not much shorter than the others.
        let count = blocks.len().div_ceil(capacity);
        for part in blocks.chunks(blocks.len().div_ceil(count)) {
            if !self.write_segment(generation, part)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes a segment of blocks; whether the pool has taken it.
    fn write_segment(&self, generation: &mut Generation, blocks: &[(u64, &[u8])]) -> Result<bool> {
        self.still_writes()?;
        // Of the batch that comes next, which no other writer can write meanwhile.
        let (seq, _) = self.wait_for_room(batch_len(&[]) as u64)?;
        let (slot, id, log_seq) = lock(&self.state).begin_long();
        let head = SegmentHead {
            id,
            log_seq,
            seq: Some(seq),
            blocks: blocks.iter().map(|(block, _)| *block).collect(),
            sums: blocks.iter().map(|(_, bytes)| checksum(bytes)).collect(),
            origins: Vec::new(),
            freed: Freed::default(),
        };
        let first = head.bytes();
        let size = (first.len() + blocks.len() * BLOCK) as u64;
        let source = || StreamSource::new(Blocks::new(&first, blocks)).with_size(size);
        if self.rim.put(&id.name(), source).is_err() {
            lock(&self.state).give_up_long(slot);
            // Should it appear later, it must not count: the log has what was written meanwhile.
            self.describe(|new| {
                if let Some(era) = new.era.last_mut() {
                    era.absent.push(id.number);
                }
                None
            })?;
            return Ok(false);
        }
        let took = |state: &mut State, seq, room: &Room, _: &[u32]| {
            state.took_long(seq, room, slot, &head);
        };
        self.commit_batch(generation, &[], took).inspect_err(|_| {
            lock(&self.state).give_up_long(slot);
        })?;
        self.count(|so_far| {
            so_far.long += 1;
            so_far.long_bytes += (blocks.len() * BLOCK) as u64;
            so_far.bytes_written += (blocks.len() * BLOCK) as u64;
        });
        Ok(true)
    }
}

/// The last bytes for each block, if there are at least so many and nothing else.
fn blocks_of<'a>(ops: &[Op<'a>], least: usize) -> Option<BTreeMap<u64, &'a [u8]>> {
    let whole = |op: &Op<'a>| match *op {
        Op::Write { offset, bytes } => {
            let block = BLOCK as u64;
            let whole = offset.is_multiple_of(block) && bytes.len().is_multiple_of(BLOCK);
            whole.then_some((offset / block, bytes))
        }
        Op::Zero { .. } => None,
    };
    let writes: Vec<(u64, &[u8])> = ops.iter().map(whole).collect::<Option<_>>()?;
    if writes.iter().map(|(_, bytes)| bytes.len() / BLOCK).sum::<usize>() < least {
        return None;
    }
    let all = writes.iter().flat_map(|(first, bytes)| (*first..).zip(bytes.chunks_exact(BLOCK)));
    let blocks: BTreeMap<u64, &[u8]> = all.collect();
    (blocks.len() >= least).then_some(blocks)
}

/// The bytes of a segment: its header, then its blocks.
struct Blocks<'a> {
    now: &'a [u8],
    rest: std::slice::Iter<'a, (u64, &'a [u8])>,
}

impl<'a> Blocks<'a> {
    fn new(head: &'a [u8], blocks: &'a [(u64, &'a [u8])]) -> Blocks<'a> {
        Blocks { now: head, rest: blocks.iter() }
    }
}

impl Read for Blocks<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while read < buf.len() {
            if self.now.is_empty() {
                let Some((_, next)) = self.rest.next() else { break };
                self.now = next;
            }
            read += self.now.read(&mut buf[read..])?;
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bytes_of_a_block_count_and_parts_of_blocks_go_through_the_log() {
        let bytes: Vec<u8> = (0..6 * BLOCK).map(|i| (i * 7 + i / 256 * 11) as u8).collect();
        let write = |first: u64, from: usize, to: usize| Op::Write {
            offset: first * BLOCK as u64,
            bytes: &bytes[from * BLOCK..to * BLOCK],
        };
        let found = blocks_of(&[write(9, 0, 3), write(10, 3, 6)], 4).unwrap();
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), [9, 10, 11, 12]);
        assert_eq!(found[&10], &bytes[3 * BLOCK..4 * BLOCK]);
        assert!(blocks_of(&[write(9, 0, 3), write(10, 3, 6)], 5).is_none());
        let zero = Op::Zero { offset: 0, len: 4096 };
        let part = Op::Write { offset: 1, bytes: &bytes };
        let end = Op::Write { offset: 0, bytes: &bytes[1..] };
        for other in [zero, part, end] {
            assert!(blocks_of(&[write(0, 0, 6), other], 1).is_none());
        }
        let (first, blocks) = (vec![5; 100], found.into_iter().collect::<Vec<_>>());
        let mut read = Vec::new();
        Blocks::new(&first, &blocks).read_to_end(&mut read).unwrap();
        let want: Vec<&[u8]> = blocks.iter().map(|(_, bytes)| *bytes).collect();
        assert_eq!(read, [&first[..], &want.concat()].concat());
    }
}
