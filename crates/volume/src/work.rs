//! Background work: sealing, cleaning, checkpoints, and removing what is not needed.

use std::{cell::Cell, io::Read, sync::atomic::Ordering};

use kiln_stripe::{Observer, Silent, StreamSource};

use crate::kept::{Kept, lock};
use crate::segment::{SegmentHead, SegmentId};
use crate::state::{Closed, Moving};
use crate::{
    BLOCK, DATA, Op, Result, VolumeError, checkpoint::CheckpointReader, description::swap,
    descriptor::Descriptor, map::BYTES_PER_BLOCK, reading::Wanted, volume::Volume,
};

/// A checkpoint is due when so many times its own bytes were made into segments.
const CHECKPOINT_EVERY: u64 = 32;
/// Segments after which it is due at the earliest.
const CHECKPOINT_LEAST: u64 = 64;
/// Dead segments that are removed together.
const REMOVE_TOGETHER: usize = 16;

/// The work that was done.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Worked {
    /// There is nothing to do now.
    Nothing,
    /// A buffer became a segment.
    Sealed,
    /// Segments were cleaned into a new one.
    Cleaned,
    /// A checkpoint was made.
    Checkpoint,
    /// Segments that nothing needs were removed.
    Removed,
}

impl Volume {
    /// Seals one buffer, if one is closed. Buffers become segments one after the other.
    /// Errors: the pool cannot take it now. Nothing is lost: it is in the log.
    pub fn seal(&self) -> Result<Worked> {
        self.seal_watched(&Silent)
    }

    /// As [`Volume::seal`]; `observer` hears of bytes, and may slow it down.
    pub(crate) fn seal_watched(&self, observer: &dyn Observer) -> Result<Worked> {
        let mut sealer = lock(&self.sealer);
        self.seal_one(&mut sealer, observer)
    }

    pub(crate) fn seal_one(&self, _sealer: &mut (), observer: &dyn Observer) -> Result<Worked> {
        let closed = lock(&self.state).closed.front().cloned();
        let Some(closed) = closed.filter(|_| !self.closed.load(Ordering::Acquire)) else {
            return Ok(Worked::Nothing);
        };
        self.refuse_without_log()?;
        let sealed = self.put_closed(&closed, observer);
        *lock(&self.failure) =
            sealed.as_ref().err().map(|error| (error.to_string(), error.is_full()));
        sealed?;
        self.moved_on.notify_all();
        Ok(Worked::Sealed)
    }

    fn put_closed(&self, closed: &Closed, observer: &dyn Observer) -> Result<()> {
        let head = closed.head();
        self.put_segment(&head, &closed.buffer.data, observer)?;
        self.count(|so_far| {
            so_far.sealed += 1;
            so_far.sealed_bytes += closed.buffer.data.len() as u64;
        });
        lock(&self.state).sealed(head.pages() as u32);
        Ok(())
    }

    fn put_segment(&self, head: &SegmentHead, data: &[u8], observer: &dyn Observer) -> Result<()> {
        let first = head.bytes();
        let padded = lock(&self.state).stripes.padded((first.len() + data.len()) / BLOCK);
        let size = (padded * BLOCK) as u64;
        let all = || first.chain(data).chain(std::io::repeat(0)).take(size);
        let source = || StreamSource::new(all()).with_size(size);
        Ok(self.rim.put_with(&head.id.name(), source, &self.rim.settings(observer))?)
    }

    /// Cleans segments, makes a checkpoint, or removes what is not needed: what is due first. Only
    /// one at a time does.
    /// Errors: the pool cannot do it now. Nothing is lost.
    pub fn keep(&self) -> Result<Worked> {
        self.keep_watched(&Silent)
    }

    /// As [`Volume::keep`]; `observer` hears of bytes that are cleaned, and may slow that down.
    pub(crate) fn keep_watched(&self, observer: &dyn Observer) -> Result<Worked> {
        if self.closed.load(Ordering::Acquire) || self.refuse_without_log().is_err() {
            return Ok(Worked::Nothing);
        }
        let mut kept = lock(&self.keeper);
        let (cleaning, dead, due) = {
            let state = lock(&self.state);
            let made = state.next_number().saturating_sub(kept.covered);
            let every = CHECKPOINT_EVERY * state.map.mapped() * BYTES_PER_BLOCK
                / (state.capacity() * BLOCK) as u64;
            let due = made >= every.max(CHECKPOINT_LEAST);
            (state.wants_cleaning(), state.dead(kept.covered).len(), due)
        };
        if dead >= REMOVE_TOGETHER {
            return self.remove_dead(&kept);
        }
        if due {
            self.checkpoint(&mut kept)?;
            return Ok(Worked::Checkpoint);
        }
        if cleaning && self.clean(observer)? {
            return Ok(Worked::Cleaned);
        }
        Ok(Worked::Nothing)
    }

    /// Moves what is live in some segments to a new one.
    fn clean(&self, observer: &dyn Observer) -> Result<bool> {
        let victims = {
            let state = lock(&self.state);
            let victims = state.victims();
            victims.into_iter().map(|at| (at, state.slots[at as usize])).collect::<Vec<_>>()
        };
        let mut moving: Vec<Moving> = Vec::new();
        let mut data = Vec::new();
        for (slot, segment) in &victims {
            let head = self.head_of(&segment.id)?;
            let (mut live, most) = {
                let state = lock(&self.state);
                (state.live_of(*slot, &head), state.moved_capacity())
            };
            live.truncate(most - moving.len());
            self.read_moving(&segment.id, segment.head, &live, &mut data)?;
            observer.advance((live.len() * BLOCK) as u64);
            moving.extend(live);
        }
        if moving.is_empty() {
            return Ok(false);
        }
        let (id, head) = {
            let mut state = lock(&self.state);
            let id = state.begin();
            let head = SegmentHead {
                id,
                log_seq: 0,
                seq: None,
                blocks: moving.iter().map(|moving| moving.block).collect(),
                sums: moving.iter().map(|moving| moving.sum).collect(),
                origins: moving.iter().map(|moving| state.origin_of(moving.from)).collect(),
                freed: crate::segment::Freed::default(),
            };
            (id, head)
        };
        let put = self.put_segment(&head, &data, observer);
        let mut state = lock(&self.state);
        match put {
            Ok(()) => state.moved(id, head.pages() as u32, &moving),
            Err(error) => {
                state.give_up(&id);
                return Err(error);
            }
        }
        drop(state);
        self.count(|so_far| {
            so_far.cleaned += 1;
            so_far.moved_bytes += data.len() as u64;
        });
        Ok(true)
    }

    /// The header of a segment.
    pub(crate) fn head_of(&self, id: &SegmentId) -> Result<SegmentHead> {
        let object = self.object(id)?;
        read_head(&self.rim, &self.name, &object, id)
    }

    /// Adds the bytes of blocks that are to be moved; adjacent ones are read together.
    fn read_moving(
        &self,
        id: &SegmentId,
        head: u32,
        live: &[Moving],
        data: &mut Vec<u8>,
    ) -> Result<()> {
        if let (Some(first), Some(last)) = (live.first(), live.last())
            && self.object(id)?.is_sealed()
        {
            return self.read_sealed(id, head, first.from.index..last.from.index + 1, live, data);
        }
        let begin = data.len();
        data.resize(begin + live.len() * BLOCK, 0);
        let sums: Vec<u32> = live.iter().map(|moving| moving.sum).collect();
        let (mut wanted, mut blocks, mut sums) = (Vec::new(), live, &sums[..]);
        let mut room = &mut data[begin..];
        while let Some(first) = blocks.first() {
            let index = first.from.index;
            let run =
                (index..).zip(blocks).take_while(|(at, moving)| *at == moving.from.index).count();
            let start = u64::from(head + index) * BLOCK as u64;
            let (now, later) = sums.split_at(run);
            let (target, rest) = std::mem::take(&mut room).split_at_mut(run * BLOCK);
            wanted.push(Wanted { id: *id, start, sums: now, target });
            (blocks, sums, room) = (&blocks[run..], later, rest);
        }
        self.for_each(wanted, |one| self.read_segment(one).map(drop))
    }

    /// The same in a sealed pool, where hashes are of more than a block: all of it is read at once.
    fn read_sealed(
        &self,
        id: &SegmentId,
        head: u32,
        indices: std::ops::Range<u32>,
        live: &[Moving],
        data: &mut Vec<u8>,
    ) -> Result<()> {
        let object = self.object(id)?;
        let byte = |index: u32| u64::from(head + index) * BLOCK as u64;
        let settings = self.rim.settings(&Silent);
        let range = byte(indices.start)..byte(indices.end);
        let found = self.rim.with(|pool| object.read(pool, range.clone(), &settings))?;
        for moving in live {
            let start = (moving.from.index - indices.start) as usize * BLOCK;
            data.extend_from_slice(&found[start..start + BLOCK]);
        }
        Ok(())
    }

    /// The name of the next map that is put into the pool.
    pub(crate) fn next_map(&self, kept: &mut Kept) -> String {
        kept.checkpoints += 1;
        let held = lock(&self.held);
        let (id, generation) = (&held.descriptor.id, held.descriptor.generation);
        format!("{DATA}/{id}/map/{generation:08x}-{:08x}", kept.checkpoints)
    }

    /// Writes the map into the pool, and names it in the description.
    pub(crate) fn checkpoint(&self, kept: &mut Kept) -> Result<()> {
        let moment = lock(&self.state).moment();
        let name = self.next_map(kept);
        let bytes = self.put_checkpoint(&name, &moment)?;
        self.count(|so_far| {
            so_far.checkpoints += 1;
            so_far.checkpoint_bytes += bytes;
        });
        let before = self.describe(|new| {
            let before = new.checkpoint.replace(name.clone());
            (new.next_number, new.size) = (moment.head.next_number, moment.head.size);
            // What came before is in the map.
            let first = new.era.iter().rposition(|era| era.first <= new.next_number);
            new.era.drain(..first.unwrap_or(0));
            Ok(before)
        })?;
        if let Some(before) = before {
            self.rim.remove(&before)?;
        }
        kept.covered = moment.head.next_number;
        self.remove_segments(&moment.dead)
    }

    /// Puts a map into the pool; gives its bytes.
    pub(crate) fn put_checkpoint(&self, name: &str, moment: &crate::state::Moment) -> Result<u64> {
        let size = Cell::new(0);
        let source = || {
            let reader = CheckpointReader::new(&moment.head, &moment.segments, &moment.map);
            size.set(reader.size());
            StreamSource::new(reader).with_size(size.get())
        };
        self.rim.put(name, source)?;
        Ok(size.get())
    }

    /// Changes what the pool says of the volume, unless `change` refuses; gives the map that is
    /// named no more, if nothing else names it.
    pub(crate) fn describe(
        &self,
        change: impl Fn(&mut Descriptor) -> Result<Option<String>>,
    ) -> Result<Option<String>> {
        if self.closed.load(Ordering::Acquire) {
            return Err(VolumeError::ReadOnly { name: self.name.clone() });
        }
        let mut held = lock(&self.held);
        let (new, before, run) = loop {
            let mut new = held.descriptor.clone();
            let before = change(&mut new)?;
            match swap(&self.rim, &self.name, Some(held.run), &new) {
                Err(VolumeError::Deposed { .. }) if held.catch_up(&self.rim, &self.name)? => {}
                Err(VolumeError::Deposed { .. }) => return Err(self.depose()),
                run => break (new, before, run?),
            }
        };
        let before = before.filter(|map| new.frees(map));
        (held.descriptor, held.run) = (new, run);
        Ok(before)
    }

    /// Removes segments that neither the map nor the checkpoint needs. That this writer still is
    /// the one is made sure first, after all blocks were moved: the next writer begins with them
    /// where they are now.
    fn remove_dead(&self, kept: &Kept) -> Result<Worked> {
        let dead = lock(&self.state).dead(kept.covered);
        self.describe(|_| Ok(None))?;
        self.remove_segments(&dead)?;
        Ok(Worked::Removed)
    }

    fn remove_segments(&self, dead: &[u32]) -> Result<()> {
        for dead in dead.chunks(REMOVE_TOGETHER) {
            let ids: Vec<SegmentId> = {
                let state = lock(&self.state);
                dead.iter().map(|at| state.slots[*at as usize].id).collect()
            };
            let names: Vec<String> = ids.iter().map(SegmentId::name).collect();
            self.rim.remove_all(&names)?;
            ids.iter().for_each(|id| self.forget(id));
            self.count(|so_far| so_far.removed += dead.len() as u64);
            let mut state = lock(&self.state);
            for at in dead {
                state.removed(*at);
            }
        }
        Ok(())
    }

    /// Refuses to make segments as long as there was no room for a log.
    fn refuse_without_log(&self) -> Result<()> {
        match self.without_log.load(Ordering::Acquire) {
            true => Err(VolumeError::Stalled {
                name: self.name.clone(),
                why: "there was no room for its log".to_owned(),
                full: true,
            }),
            false => Ok(()),
        }
    }

    /// Takes what clients free out of the map, and removes the segments that nothing needs then:
    /// in a full pool there is no room to write of it before. Each block has its old bytes or zeros
    /// until the log has it, too.
    pub(crate) fn make_room(&self, ops: &[Op<'_>]) -> Result<()> {
        let mut kept = lock(&self.keeper);
        for op in ops {
            let (offset, len) = op.range();
            let (first, end) = (offset.div_ceil(BLOCK as u64), (offset + len) / BLOCK as u64);
            lock(&self.state).free(first, end.saturating_sub(first));
        }
        self.checkpoint(&mut kept)
    }

    /// Makes all that is in memory into segments.
    pub(crate) fn seal_all(&self) -> Result<()> {
        {
            let mut state = lock(&self.state);
            let (seq, head) = (state.seq, state.ring.head());
            state.close(seq, head);
        }
        while self.seal()? == Worked::Sealed {}
        Ok(())
    }

    /// Ends: all is made into segments, a checkpoint is made, and the log is given back. A volume
    /// that is not closed keeps its log, and is opened from that.
    /// Errors: the pool cannot take it; the log stays then.
    pub fn close(&self) -> Result<()> {
        let mut generation = lock(&self.generation);
        if self.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        if self.deposed.load(Ordering::Acquire) {
            return Err(VolumeError::Deposed { name: self.name.clone() });
        }
        if self.without_log.load(Ordering::Acquire) {
            self.renew(&mut generation, &Vec::new())?;
        }
        self.seal_all()?;
        let mut kept = lock(&self.keeper);
        self.checkpoint(&mut kept)?;
        let seq = lock(&self.state).seq;
        let said = self.describe(|new| {
            new.log.clear();
            new.log_key.clear();
            new.writer.clear();
            new.first_seq = seq + 1;
            Ok(None)
        });
        // It may be said all the same: then the log counts for nothing.
        said.inspect_err(|_| generation.unsure = true)?;
        self.closed.store(true, Ordering::Release);
        generation.logs = crate::logs::Logs::default();
        crate::generation::remove_logs(&self.rim, generation.places.iter());
        Ok(())
    }
}

/// The header of a segment; `None`: it cannot be read.
pub(crate) fn read_head(
    rim: &crate::Rim,
    volume: &str,
    object: &kiln_pool::OpenObject,
    id: &SegmentId,
) -> Result<SegmentHead> {
    let pool = rim.pool();
    let whole = |start: &[u8]| {
        let pages = SegmentHead::pages_of(start)?;
        let mut bytes = vec![0; pages * BLOCK];
        let read = object.read_unchecked(&pool, 0, &mut bytes);
        read.then(|| SegmentHead::parse(&bytes)).flatten()
    };
    let mut first = vec![0; BLOCK];
    let found = match !object.is_sealed() && object.read_unchecked(&pool, 0, &mut first) {
        true => whole(&first),
        false => None,
    };
    // A disk that wrote elsewhere has the whole header of another segment there.
    let found = match found.filter(|head| head.id == *id) {
        Some(head) => Some(head),
        None => read_head_checked(rim, object)?,
    };
    found.filter(|head| head.id == *id).ok_or_else(|| {
        let what = format!("the header of {} is none", id.name());
        VolumeError::Damaged { name: volume.to_owned(), what }
    })
}

/// The same by the pool, which finds out what is wrong with a node, and reads around it. That it
/// cannot, since too many are unavailable, is not damage.
fn read_head_checked(
    rim: &crate::Rim,
    object: &kiln_pool::OpenObject,
) -> Result<Option<SegmentHead>> {
    let settings = rim.settings(&Silent);
    let read = |end: usize| rim.with(|pool| object.read(pool, 0..end as u64, &settings));
    let Some(pages) = SegmentHead::pages_of(&read(BLOCK)?) else { return Ok(None) };
    Ok(SegmentHead::parse(&read(pages * BLOCK)?))
}
