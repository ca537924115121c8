//! Long writes: they go straight into segments, and never through the log.
//!
//! Such a segment is in the pool before a client hears of it. Then an empty batch in the log says
//! that it counts, and makes sure that this writer still is the one: the next process that opens
//! the volume takes segments up to the last batch that is there.

use std::io::{self, Read};
use std::{collections::BTreeMap, sync::atomic::Ordering};

use kiln_store::checksum;
use kiln_stripe::{Settings, Silent, StreamSource};

use crate::segment::{Freed, SegmentHead, SegmentId};
use crate::volume::{Op, Volume};
use crate::{
    BLOCK, Result, generation::Generation, kept::lock, record::EMPTY, ring::Room, state::State,
};

/// A write is long if it has at least this part of a segment's blocks.
pub(crate) const PART: usize = 4;

/// A long write that has its number, and the batch of the log that will say that it counts.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Long {
    slot: u32,
    id: SegmentId,
    log_seq: u64,
    seq: u64,
}

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
            let long = self.number_long(0)?;
            let (head, there) = self.put_blocks(&long, part);
            if !self.end_long(generation, &long, &head, there)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Begins a write that becomes one segment, after so many others that are on their way; `None`:
    /// it goes through the log. Nothing else is committed until it has ended.
    pub(crate) fn begin_long(&self, ops: &[Op<'_>], ahead: u64) -> Result<Option<Long>> {
        let capacity = lock(&self.state).capacity();
        let size = self.size();
        let writes = !self.read_only && !self.without_log.load(Ordering::Acquire);
        if !writes || ops.iter().any(|op| self.check_range(op.range(), size).is_err()) {
            return Ok(None);
        }
        let Some(blocks) = blocks_of(ops, capacity / PART) else { return Ok(None) };
        let fits = blocks.len() <= capacity;
        if !fits || !lock(&self.state).may_go_past_the_log(blocks.keys().copied()) {
            return Ok(None);
        }
        self.number_long(ahead).map(Some)
    }

    fn number_long(&self, ahead: u64) -> Result<Long> {
        self.still_writes()?;
        // Of the batch that comes next, which no other writer can write meanwhile.
        let (seq, _) = self.wait_for_room(EMPTY as u64 * (ahead + 1))?;
        let seq = seq + ahead;
        let (slot, id, log_seq) = lock(&self.state).begin_long(seq);
        Ok(Long { slot, id, log_seq, seq })
    }

    /// Makes a segment of changes that were begun: what it holds, and whether the pool has it.
    pub(crate) fn put_long(&self, long: &Long, ops: &[Op<'_>]) -> (SegmentHead, bool) {
        let blocks: Vec<(u64, &[u8])> =
            blocks_of(ops, 0).map_or(Vec::new(), |blocks| blocks.into_iter().collect());
        self.put_blocks(long, &blocks)
    }

    fn put_blocks(&self, long: &Long, blocks: &[(u64, &[u8])]) -> (SegmentHead, bool) {
        let head = SegmentHead {
            id: long.id,
            log_seq: long.log_seq,
            seq: Some(long.seq),
            blocks: blocks.iter().map(|(block, _)| *block).collect(),
            sums: blocks.iter().map(|(_, bytes)| checksum(bytes)).collect(),
            origins: Vec::new(),
            freed: Freed::default(),
        };
        let first = head.bytes();
        let padded = lock(&self.state).stripes.padded(first.len() / BLOCK + blocks.len());
        let size = (padded * BLOCK) as u64;
        let all = || Blocks::new(&first, blocks).chain(io::repeat(0)).take(size);
        let source = || StreamSource::new(all()).with_size(size);
        // Who writes long stretches reads others first, if any.
        let settings = Settings { drop_behind: true, ..self.rim.settings(&Silent) };
        let there = self.rim.put_with(&long.id.name(), source, &settings).is_ok();
        (head, there)
    }

    /// The pool has taken a long write, or not: makes it count, or gives it up; whether it counts.
    pub(crate) fn end_long(
        &self,
        generation: &mut Generation,
        long: &Long,
        head: &SegmentHead,
        there: bool,
    ) -> Result<bool> {
        // One of an earlier generation counts whatever its batch.
        let in_turn = {
            let state = lock(&self.state);
            state.generation != long.id.generation || state.seq + 1 == long.seq
        };
        if !there || !in_turn {
            lock(&self.state).give_up_long(long.slot);
            // Should it appear later, it must not count: the log has what was written meanwhile.
            self.describe(|new| {
                new.note_absent(long.id.number);
                Ok(None)
            })
            .inspect_err(|_| generation.unsure = true)?;
            lock(&self.state).abandoned.retain(|number| *number != long.id.number);
            return Ok(false);
        }
        let took = |state: &mut State, seq, room: &Room, _: &[u32]| {
            state.took_long(seq, room, long.slot, head);
        };
        self.commit_batch(generation, &[], took).inspect_err(|_| {
            lock(&self.state).give_up_long(long.slot);
        })?;
        let bytes = (head.blocks.len() * BLOCK) as u64;
        self.count(|so_far| {
            so_far.long += 1;
            so_far.long_bytes += bytes;
            so_far.bytes_written += bytes;
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
