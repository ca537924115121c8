//! State and decisions of a volume, without I/O.
//!
//! Writes go to a buffer in memory, after they are durable in the log. A full buffer is closed,
//! gets its number, and is sealed: it becomes a segment of the pool, and its part of the log is
//! free again. Segments of which much was overwritten are cleaned: their live blocks move to a new
//! one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::checkpoint::{CheckpointHead, Referenced};
use crate::map::{BlockMap, Location, Mapped};
use crate::ring::{Ring, Room};
use crate::segment::{Freed, MAX_FREED, Origin, SegmentHead, SegmentId, Stripes};
use crate::{BLOCK, record::Change};

/// Closed buffers that may wait to be sealed; who writes more waits.
pub(crate) const MAX_CLOSED: usize = 2;
/// An index of a buffer whose block was freed.
const GONE: u64 = u64::MAX;

/// Stage of a segment's life.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// In memory, and growing.
    Forming,
    /// In memory, complete.
    Closed,
    /// In the pool.
    Sealed,
    /// In the pool, and nothing in it is needed.
    Dead,
    /// Removed from the pool.
    Removed,
}

/// A segment, of which locations name the slot.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Slot {
    pub id: SegmentId,
    pub stage: Stage,
    /// Blocks in it, and how many of those are live.
    pub blocks: u32,
    pub live: u32,
    /// Blocks of its header.
    pub head: u32,
    /// When it was made, be it of blocks that were moved, or the volume was opened: by the count of
    /// blocks written.
    pub made: u64,
    /// Another map needs it: a snapshot's, or the volume's that this one is a clone of.
    pub pinned: bool,
}

impl Slot {
    /// Returns the references of maps to it.
    fn referenced(&self) -> Referenced {
        Referenced { id: self.id, blocks: self.blocks, head: self.head }
    }
}

/// Blocks that are not yet in the pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    pub slot: u32,
    pub blocks: Vec<u64>,
    pub sums: Vec<u32>,
    pub data: Vec<u8>,
    pub freed: Freed,
    gone: usize,
    /// Position in the log of the first batch of which something is here.
    log_start: u64,
}

/// A buffer that is to become a segment.
#[derive(Debug)]
pub(crate) struct Closed {
    pub buffer: Buffer,
    pub id: SegmentId,
    pub log_seq: u64,
}

impl Buffer {
    /// Runs of its blocks that are adjacent in the volume as well, without those that were freed.
    pub fn live_runs(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let most = crate::record::MAX_BLOCKS;
        let mut at = 0;
        std::iter::from_fn(move || {
            while *self.blocks.get(at)? == GONE {
                at += 1;
            }
            let start = at;
            at += 1;
            let next = |at: usize| {
                let block = *self.blocks.get(at)?;
                (block != GONE && block == self.blocks[at - 1] + 1).then_some(())
            };
            while at - start < most && next(at).is_some() {
                at += 1;
            }
            Some(start..at)
        })
    }
}

impl Closed {
    pub fn head(&self) -> SegmentHead {
        SegmentHead {
            id: self.id,
            log_seq: self.log_seq,
            seq: None,
            blocks: self.buffer.blocks.clone(),
            sums: self.buffer.sums.clone(),
            origins: Vec::new(),
            freed: self.buffer.freed.clone(),
        }
    }
}

/// A block on its way to another segment.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moving {
    pub block: u64,
    pub from: Location,
    pub sum: u32,
}

/// All that is known of an open volume.
#[derive(Debug)]
pub(crate) struct State {
    pub volume: [u8; 16],
    pub generation: u64,
    pub size: u64,
    pub map: BlockMap,
    pub slots: Vec<Slot>,
    pub hot: Buffer,
    pub closed: VecDeque<Arc<Closed>>,
    pub ring: Ring,
    /// Of the last batch that is durable.
    pub seq: u64,
    /// Of the last batch that is wholly in segments.
    pub log_seq: u64,
    next_number: u64,
    in_flight: BTreeSet<u64>,
    capacity: usize,
    /// The same of blocks that are moved.
    moved_capacity: usize,
    pub stripes: Stripes,
    /// Blocks written so far.
    pub clock: u64,
    /// Slots of segments that were removed, to be used again.
    unused: Vec<u32>,
    /// Numbers of long writes that were given up, and may yet appear: the description does not say
    /// so yet.
    pub abandoned: Vec<u64>,
}

/// Contents of a checkpoint.
pub(crate) struct Moment {
    pub head: CheckpointHead,
    pub segments: Vec<Option<Referenced>>,
    pub map: BlockMap,
    /// Slots of segments that no map needs that begins with this one.
    pub dead: Vec<u32>,
}

impl State {
    /// An empty volume.
    pub fn new(volume: [u8; 16], size: u64, segment: u64, log_size: u64) -> State {
        let capacity = segment as usize / BLOCK;
        let mut state = State {
            volume,
            generation: 0,
            size,
            map: BlockMap::new(size / BLOCK as u64),
            slots: Vec::new(),
            hot: Buffer::default(),
            closed: VecDeque::new(),
            ring: Ring::new(log_size),
            seq: 0,
            log_seq: 0,
            next_number: 0,
            in_flight: BTreeSet::new(),
            capacity,
            moved_capacity: capacity,
            stripes: Stripes::default(),
            clock: 0,
            unused: Vec::new(),
            abandoned: Vec::new(),
        };
        state.hot.slot = state.new_slot(Stage::Forming);
        state
    }

    /// Segments are of whole stripes from now on.
    pub fn fit(&mut self, stripes: Stripes) {
        let capacity = self.capacity;
        self.capacity = stripes.capacity(capacity, false);
        self.moved_capacity = stripes.capacity(capacity, true);
        self.stripes = stripes;
    }

    fn new_slot(&mut self, stage: Stage) -> u32 {
        let id = SegmentId { volume: self.volume, generation: self.generation, number: u64::MAX };
        let (blocks, live, head, made, pinned) = (0, 0, 0, self.clock, false);
        let slot = Slot { id, stage, blocks, live, head, made, pinned };
        if let Some(at) = self.unused.pop() {
            self.slots[at as usize] = slot;
            return at;
        }
        self.slots.push(slot);
        self.slots.len() as u32 - 1
    }

    /// A segment is in the pool no more, or never was; nothing names it.
    pub fn removed(&mut self, slot: u32) {
        let this = &mut self.slots[slot as usize];
        if std::mem::replace(&mut this.stage, Stage::Removed) != Stage::Removed {
            self.unused.push(slot);
        }
    }

    /// Takes a map over as it was at some moment.
    pub fn load(&mut self, map: BlockMap, segments: &[Referenced], head: &CheckpointHead) {
        let first = self.slots.len() as u32;
        for segment in segments {
            let slot = self.new_slot(Stage::Sealed);
            let slot = &mut self.slots[slot as usize];
            (slot.id, slot.blocks, slot.head) = (segment.id, segment.blocks, segment.head);
            slot.pinned = segment.id.volume != self.volume;
        }
        for (page, blocks) in map.pages() {
            let start = u64::from(page) * crate::map::PAGE as u64;
            for (block, mapped) in (start..).zip(blocks) {
                let Some(Mapped { at, sum }) = mapped else { continue };
                if block >= self.size / BLOCK as u64 {
                    continue;
                }
                let at = Location { slot: at.slot + first, ..at };
                self.map.set(block, Some(Mapped { at, sum }));
                self.slots[at.slot as usize].live += 1;
            }
        }
        (self.next_number, self.log_seq) = (head.next_number, head.log_seq);
        (first..self.slots.len() as u32).for_each(|slot| self.bury(slot));
    }

    /// Number of the next segment.
    pub fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Segments up to this number were looked for.
    pub fn skip_to(&mut self, number: u64) {
        self.next_number = self.next_number.max(number);
    }

    /// Takes a segment of the pool over that the map may not know of yet. Segments come in the
    /// order of their numbers.
    pub fn replay_segment(&mut self, found: &SegmentHead) {
        // The map may name it, if one with a lower number came into the pool later.
        let there = self.slots.iter().position(|slot| slot.id == found.id);
        let slot = there.map_or_else(|| self.new_slot(Stage::Sealed), |slot| slot as u32);
        let known: BTreeMap<u64, u32> = match found.origins.is_empty() {
            true => BTreeMap::new(),
            false => (0..).zip(&self.slots).map(|(at, slot)| (slot.id.number, at)).collect(),
        };
        let this = &mut self.slots[slot as usize];
        (this.id, this.head, this.stage) = (found.id, found.pages() as u32, Stage::Sealed);
        this.blocks = found.blocks.len() as u32;
        for (block, count) in found.freed.iter() {
            self.free(block, count);
        }
        for (index, (&block, &sum)) in (0..).zip(found.blocks.iter().zip(&found.sums)) {
            let to = Mapped { at: Location { slot, index }, sum };
            // A block that was moved and written meanwhile is where it was written.
            let still = found.origins.get(index as usize).is_none_or(|origin| {
                let from = |at: &Location| known.get(&origin.number) == Some(&at.slot);
                let now = self.map.get(block).map(|mapped| mapped.at);
                now.is_some_and(|at| from(&at) && at.index == origin.index)
            });
            if still {
                self.put(block, to);
            }
        }
        if found.origins.is_empty() {
            self.log_seq = self.log_seq.max(found.log_seq);
        }
        self.next_number = self.next_number.max(found.id.number + 1);
        self.bury(slot);
    }

    /// Notes where a block is now.
    fn put(&mut self, block: u64, to: Mapped) {
        if block >= self.size / BLOCK as u64 {
            return;
        }
        match self.map.set(block, Some(to)) {
            Some(old) if old.at == to.at => return,
            Some(old) => self.leave(old.at),
            None => {}
        }
        self.slots[to.at.slot as usize].live += 1;
    }

    /// A block is no longer there.
    fn leave(&mut self, at: Location) {
        self.slots[at.slot as usize].live -= 1;
        if at.slot == self.hot.slot {
            self.hot.blocks[at.index as usize] = GONE;
            self.hot.gone += 1;
        }
        self.bury(at.slot);
    }

    fn bury(&mut self, slot: u32) {
        let slot = &mut self.slots[slot as usize];
        if slot.stage == Stage::Sealed && slot.live == 0 && !slot.pinned {
            slot.stage = Stage::Dead;
        }
    }

    /// Takes blocks out of the map.
    pub fn free(&mut self, block: u64, count: u64) {
        let range = block..block.saturating_add(count).min(self.size / BLOCK as u64);
        for block in self.map.mapped_in(range).collect::<Vec<_>>() {
            if let Some(old) = self.map.set(block, None) {
                self.leave(old.at);
            }
        }
    }

    /// Returns whether another batch can be taken up before buffers are sealed.
    pub fn has_room(&self) -> bool {
        self.closed.len() < MAX_CLOSED
    }

    /// A batch is durable in the log: its changes count from now on.
    pub fn apply(&mut self, seq: u64, room: &Room, changes: &[Change<'_>], sums: &[u32]) {
        self.ring.take(room);
        self.take_up(seq, room.start, changes, sums);
        // What the buffer absorbed lies in the log all the same.
        if self.ring.head() - self.hot.log_start > self.ring.size() / 3 {
            self.close(seq, room.end);
        }
    }

    /// Changes that lie in the log at `start`.
    pub fn take_up(&mut self, seq: u64, start: u64, changes: &[Change<'_>], sums: &[u32]) {
        // A batch is in one buffer: what is in segments is never replayed from the log, over what
        // went past it since.
        let blocks: usize = changes.iter().map(Change::data_blocks).sum();
        let ranges = self.hot.freed.len() + changes.len() + blocks;
        if self.hot.blocks.len() + blocks > self.capacity || ranges > MAX_FREED {
            self.close(seq - 1, start);
        }
        self.seq = seq;
        let mut sums = sums.iter();
        for change in changes {
            match change {
                Change::Data { block, bytes } => {
                    for (block, bytes) in (*block..).zip(bytes.chunks_exact(BLOCK)) {
                        let sum = sums.next().copied().unwrap_or_default();
                        self.write(block, bytes, sum);
                    }
                }
                Change::Freed { block, count } => {
                    self.free(*block, *count);
                    self.hot.freed.add(*block, *count);
                }
            }
        }
    }

    fn write(&mut self, block: u64, bytes: &[u8], sum: u32) {
        self.clock += 1;
        let slot = self.hot.slot;
        match self.map.get(block).map(|mapped| mapped.at) {
            Some(at) if at.slot == slot => {
                let start = at.index as usize * BLOCK;
                self.hot.data[start..start + BLOCK].copy_from_slice(bytes);
                self.hot.sums[at.index as usize] = sum;
                self.map.set(block, Some(Mapped { at, sum }));
            }
            _ => {
                let index = self.hot.blocks.len() as u32;
                self.hot.blocks.push(block);
                self.hot.sums.push(sum);
                self.hot.data.extend_from_slice(bytes);
                self.hot.freed.remove(block);
                self.put(block, Mapped { at: Location { slot, index }, sum });
            }
        }
    }

    /// Returns whether blocks can go into a segment while others wait in the log: replaying these
    /// must change nothing of those. If not, what is in the way will be in a segment soon.
    pub fn may_go_past_the_log(&mut self, mut blocks: impl Iterator<Item = u64>) -> bool {
        let waits = |at: Location| {
            matches!(self.slots[at.slot as usize].stage, Stage::Forming | Stage::Closed)
        };
        let freed = self.unsealed().any(|buffer| buffer.freed.len() > 0);
        let apart = !freed
            && !blocks.any(|block| self.map.get(block).is_some_and(|mapped| waits(mapped.at)));
        if !apart && self.has_room() {
            self.close(self.seq, self.ring.head());
        }
        apart
    }

    fn all_in_segments(&self) -> bool {
        self.closed.is_empty() && self.hot.blocks.is_empty() && self.hot.freed.len() == 0
    }

    /// Begins a segment that is written without the log and counts by a batch: its slot, its
    /// number, and the last batch that is wholly in segments. What is between are other long
    /// writes, which count before this one does.
    pub fn begin_long(&mut self, seq: u64) -> (u32, SegmentId, u64) {
        let (id, slot) = (self.begin(), self.new_slot(Stage::Closed));
        self.slots[slot as usize].id = id;
        (slot, id, if self.all_in_segments() { seq - 1 } else { self.log_seq })
    }

    /// The pool has not taken it.
    pub fn give_up_long(&mut self, slot: u32) {
        let number = self.slots[slot as usize].id.number;
        self.in_flight.remove(&number);
        self.abandoned.push(number);
        self.removed(slot);
    }

    /// It is in the pool, and the batch that says so is durable in the log.
    pub fn took_long(&mut self, seq: u64, room: &Room, slot: u32, head: &SegmentHead) {
        self.ring.take(room);
        self.seq = seq;
        self.clock += head.blocks.len() as u64;
        let this = &mut self.slots[slot as usize];
        (this.stage, this.head, this.made) = (Stage::Sealed, head.pages() as u32, self.clock);
        this.blocks = head.blocks.len() as u32;
        for (index, (&block, &sum)) in (0..).zip(head.blocks.iter().zip(&head.sums)) {
            self.put(block, Mapped { at: Location { slot, index }, sum });
        }
        self.in_flight.remove(&head.id.number);
        self.bury(slot);
        if self.all_in_segments() && head.log_seq + 1 == seq {
            self.log_seq = head.log_seq;
            self.hot.log_start = room.start;
            self.ring.release(room.start);
        } else if self.ring.head() - self.hot.log_start > self.ring.size() / 3 {
            self.close(seq, room.end);
        }
    }

    /// Closes the buffer, if there is anything in it; batches up to `log_seq` are wholly in it or
    /// before it, and what comes next lies in the log from `start` on.
    pub fn close(&mut self, log_seq: u64, start: u64) {
        if self.hot.blocks.is_empty() && self.hot.freed.len() == 0 {
            self.hot.log_start = start;
            return;
        }
        self.compact();
        let id = self.begin();
        let next = self.new_slot(Stage::Forming);
        let fresh = Buffer { slot: next, log_start: start, ..Buffer::default() };
        let buffer = std::mem::replace(&mut self.hot, fresh);
        let slot = &mut self.slots[buffer.slot as usize];
        (slot.id, slot.stage, slot.blocks) = (id, Stage::Closed, buffer.blocks.len() as u32);
        slot.made = self.clock;
        self.closed.push_back(Arc::new(Closed { buffer, id, log_seq }));
    }

    /// Leaves out of the buffer what was freed.
    fn compact(&mut self) {
        if self.hot.gone == 0 {
            return;
        }
        let slot = self.hot.slot;
        let (mut blocks, mut sums, mut data) = (Vec::new(), Vec::new(), Vec::new());
        for (from, (&block, &sum)) in self.hot.blocks.iter().zip(&self.hot.sums).enumerate() {
            if block == GONE {
                continue;
            }
            let at = Location { slot, index: blocks.len() as u32 };
            self.map.set(block, Some(Mapped { at, sum }));
            blocks.push(block);
            sums.push(sum);
            data.extend_from_slice(&self.hot.data[from * BLOCK..(from + 1) * BLOCK]);
        }
        (self.hot.blocks, self.hot.sums, self.hot.data, self.hot.gone) = (blocks, sums, data, 0);
    }

    /// The oldest closed buffer is in the pool: its part of the log is free.
    pub fn sealed(&mut self, head: u32) {
        let Some(closed) = self.closed.pop_front() else { return };
        let slot = &mut self.slots[closed.buffer.slot as usize];
        (slot.stage, slot.head) = (Stage::Sealed, head);
        self.in_flight.remove(&closed.id.number);
        self.log_seq = closed.log_seq;
        let next = self.closed.front().map_or(&self.hot, |closed| &closed.buffer);
        let start = next.log_start;
        self.ring.release(start);
        self.bury(closed.buffer.slot);
    }

    /// Blocks that a segment has at most.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The same of a segment of blocks that are moved.
    pub fn moved_capacity(&self) -> usize {
        self.moved_capacity
    }

    /// The segment of a block that is in the pool, and where in its object the block begins.
    pub fn place_of(&self, at: Location) -> (SegmentId, u64) {
        let slot = &self.slots[at.slot as usize];
        (slot.id, u64::from(slot.head + at.index) * BLOCK as u64)
    }

    /// The bytes of a block that is not yet in the pool.
    pub fn in_memory(&self, at: Location) -> Option<&[u8]> {
        let buffer = if at.slot == self.hot.slot {
            &self.hot
        } else {
            &self.closed.iter().find(|closed| closed.buffer.slot == at.slot)?.buffer
        };
        let start = at.index as usize * BLOCK;
        buffer.data.get(start..start + BLOCK)
    }

    /// Blocks that are to be in the log of a new generation: all that is not in the pool.
    pub fn unsealed(&self) -> impl Iterator<Item = &Buffer> {
        self.closed.iter().map(|closed| &closed.buffer).chain([&self.hot])
    }

    /// Buffers that were closed get numbers of this generation: what a put of an earlier one may
    /// still bring into the pool counts for nothing.
    pub fn renumber(&mut self, generation: u64) {
        self.generation = generation;
        for one in std::mem::take(&mut self.closed) {
            self.in_flight.remove(&one.id.number);
            let id = self.begin();
            self.slots[one.buffer.slot as usize].id = id;
            let (buffer, log_seq) = (one.buffer.clone(), one.log_seq);
            self.closed.push_back(Arc::new(Closed { buffer, id, log_seq }));
        }
    }

    /// All that is not in the pool lies in a new log, one buffer after the other: where each begins
    /// there, and its last batch.
    pub fn relogged(&mut self, ring: Ring, places: &[(u64, u64)]) {
        self.ring = ring;
        let mut places = places.iter().copied();
        for one in std::mem::take(&mut self.closed) {
            let (start, seq) = places.next().unwrap_or((0, self.seq));
            let mut buffer = one.buffer.clone();
            buffer.log_start = start;
            self.closed.push_back(Arc::new(Closed { buffer, id: one.id, log_seq: seq }));
            self.seq = seq;
        }
        if let Some((start, seq)) = places.next() {
            (self.hot.log_start, self.seq) = (start, seq);
        }
    }

    /// Returns the live blocks of a segment.
    pub fn live_of(&self, slot: u32, head: &SegmentHead) -> Vec<Moving> {
        let moving = |(index, &block)| {
            let from = Location { slot, index };
            let mapped = self.map.get(block)?;
            (mapped.at == from).then_some(Moving { block, from, sum: mapped.sum })
        };
        (0..).zip(&head.blocks).filter_map(moving).collect()
    }

    /// A number for a segment.
    pub fn begin(&mut self) -> SegmentId {
        let number = self.next_number;
        self.next_number += 1;
        self.in_flight.insert(number);
        SegmentId { volume: self.volume, generation: self.generation, number }
    }

    /// Nothing came of it.
    pub fn give_up(&mut self, id: &SegmentId) {
        self.in_flight.remove(&id.number);
    }

    pub fn origin_of(&self, from: Location) -> Origin {
        Origin { number: self.slots[from.slot as usize].id.number, index: from.index }
    }

    /// Blocks that were moved are in the pool; those that were written meanwhile stay where they
    /// are.
    pub fn moved(&mut self, id: SegmentId, head: u32, blocks: &[Moving]) {
        let slot = self.new_slot(Stage::Sealed);
        let this = &mut self.slots[slot as usize];
        (this.id, this.head, this.blocks) = (id, head, blocks.len() as u32);
        for (index, moving) in (0..).zip(blocks) {
            if self.map.get(moving.block).is_some_and(|mapped| mapped.at == moving.from) {
                let to = Mapped { at: Location { slot, index }, sum: moving.sum };
                self.put(moving.block, to);
            }
        }
        self.in_flight.remove(&id.number);
        self.bury(slot);
    }

    /// Returns the checkpoint of this moment.
    pub fn moment(&self) -> Moment {
        let next_number = self.in_flight.first().copied().unwrap_or(self.next_number);
        let segment = |slot: &Slot| {
            // Dead ones too: if they are not removed, the next writer does it.
            matches!(slot.stage, Stage::Sealed | Stage::Dead).then(|| slot.referenced())
        };
        let (volume, size, log_seq) = (self.volume, self.size, self.log_seq);
        Moment {
            head: CheckpointHead { volume, size, next_number, log_seq },
            segments: self.slots.iter().map(segment).collect(),
            map: self.map.clone(),
            dead: self.dead(next_number),
        }
    }

    /// Returns the checkpoint of a map that was taken some time ago: nothing that it names was
    /// removed since.
    pub fn moment_of(&self, map: BlockMap, size: u64) -> Moment {
        let named: BTreeSet<u32> = map
            .pages()
            .flat_map(|(_, blocks)| blocks.into_iter().flatten().map(|mapped| mapped.at.slot))
            .collect();
        let segment = |(at, slot): (u32, &Slot)| named.contains(&at).then(|| slot.referenced());
        let (volume, next_number, log_seq) = (self.volume, self.next_number, self.log_seq);
        Moment {
            head: CheckpointHead { volume, size, next_number, log_seq },
            segments: (0..).zip(&self.slots).map(segment).collect(),
            map,
            dead: Vec::new(),
        }
    }

    /// Segments that can go once a checkpoint covers all numbers below `next_number`.
    pub fn dead(&self, next_number: u64) -> Vec<u32> {
        let dead = |slot: &Slot| slot.stage == Stage::Dead && slot.id.number < next_number;
        (0..).zip(&self.slots).filter(|(_, slot)| dead(slot)).map(|(at, _)| at).collect()
    }

    /// A snapshot needs these segments.
    pub fn pin(&mut self, ids: &BTreeSet<SegmentId>) {
        for slot in &mut self.slots {
            slot.pinned |= ids.contains(&slot.id);
            if slot.pinned && slot.stage == Stage::Dead {
                slot.stage = Stage::Sealed;
            }
        }
    }

    /// Snapshots need these of the volume's own segments, and no others.
    pub fn unpin(&mut self, needed: &BTreeSet<SegmentId>) {
        for at in 0..self.slots.len() as u32 {
            let slot = &mut self.slots[at as usize];
            slot.pinned &= slot.id.volume != self.volume || needed.contains(&slot.id);
            self.bury(at);
        }
    }

    /// Changes the size; what lies past the end is freed.
    pub fn resize(&mut self, size: u64) {
        let blocks = size / BLOCK as u64;
        if size < self.size {
            self.free(blocks, self.size / BLOCK as u64 - blocks);
        }
        self.map.resize(blocks);
        self.size = size;
    }
}
