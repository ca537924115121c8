//! An open volume: writes and reads.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use bytes::Bytes;
use kiln_pool::OpenObject;
use kiln_stripe::{PoolError, Silent};

use crate::kept::{Kept, lock};
use crate::record::{self, BatchId, Change, MAX_BLOCKS, MAX_ENTRIES};
use crate::{
    BLOCK, Result, Rim, Statistics, VolumeError, description::Held, generation::Generation,
    opened::Opened, ring::Room, segment::SegmentId, state::State,
};

/// Interval at which a waiting writer looks for room.
const PAUSE: Duration = Duration::from_millis(50);

/// A change of a volume by bytes of some kind; offsets and lengths are in bytes.
#[allow(missing_docs)] // of fields that their names describe
#[derive(Copy, Clone, Debug)]
pub enum VolumeOp<B> {
    /// Bytes at an offset. Each block of 4096 bytes is written as a whole or not at all.
    Write { offset: u64, bytes: B },
    /// Bytes that read as zeros from now on and take no space where they are whole blocks.
    Zero { offset: u64, len: u64 },
}

/// A change by borrowed bytes.
pub type Op<'a> = VolumeOp<&'a [u8]>;
/// A change with bytes of its own.
pub type OwnedOp = VolumeOp<Bytes>;

impl OwnedOp {
    /// The same change, by borrowed bytes.
    pub fn as_op(&self) -> Op<'_> {
        match self {
            OwnedOp::Write { offset, bytes } => Op::Write { offset: *offset, bytes },
            OwnedOp::Zero { offset, len } => Op::Zero { offset: *offset, len: *len },
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            OwnedOp::Write { bytes, .. } => bytes.len(),
            OwnedOp::Zero { .. } => 0,
        }
    }
}

impl Op<'_> {
    pub(crate) fn range(&self) -> (u64, u64) {
        match self {
            Op::Write { offset, bytes } => (*offset, bytes.len() as u64),
            Op::Zero { offset, len } => (*offset, *len),
        }
    }
}

/// An open volume; usable from several threads.
///
/// Every write that was acknowledged is found by the process that opens the volume later, whatever
/// ends this process, as long as no more nodes are lost than the pool's codes tolerate.
///
/// ```
/// # use std::sync::{Arc, atomic::{AtomicU8, Ordering}};
/// use kiln_volume::{CreateRequest, Op, OpenRequest, Rim, Volume};
/// # let ids = AtomicU8::new(0);
/// # let ids = move || [ids.fetch_add(1, Ordering::Relaxed); 16];
/// # let rim = Arc::new(Rim::new(kiln_pool::example_pool()?, ids, || 1));
/// let create = CreateRequest { segment: 256 << 10, log: 1 << 20, ..CreateRequest::of(64 << 20) };
/// Volume::create(&rim, "disk", &create)?;
/// let volume = Volume::open(&rim, "disk", &OpenRequest::of("example"))?;
/// volume.write(&[Op::Write { offset: 8192, bytes: &[7; 4096] }])?;
/// let mut bytes = [1; 8192];
/// volume.read(4096, &mut bytes)?;
/// assert!(bytes[..4096].iter().all(|byte| *byte == 0) && bytes[4096..] == [7; 4096]);
/// let extents = volume.extents(0, 64 << 20, 10)?;
/// assert_eq!(extents, [(8192, false), (4096, true), ((64 << 20) - 12288, false)]);
/// volume.close()?;
/// # Ok::<(), kiln_volume::VolumeError>(())
/// ```
#[derive(Debug)]
pub struct Volume {
    pub(crate) name: String,
    pub(crate) rim: Arc<Rim>,
    pub(crate) read_only: bool,
    pub(crate) state: Mutex<State>,
    /// A buffer was sealed, or closed.
    pub(crate) moved_on: Condvar,
    /// Held during a commit.
    pub(crate) generation: Mutex<Generation>,
    pub(crate) held: Mutex<Held>,
    pub(crate) sealer: Mutex<()>,
    pub(crate) keeper: Mutex<Kept>,
    opened: Mutex<Opened>,
    pub(crate) deposed: AtomicBool,
    pub(crate) closed: AtomicBool,
    /// Reason that buffers cannot be sealed, and whether it is a lack of room.
    pub(crate) failure: Mutex<Option<(String, bool)>>,
    pub(crate) statistics: Mutex<Statistics>,
    /// Counts what clients ask for: work behind them gives way while it changes.
    pub(crate) operations: AtomicU64,
    /// Reads of segments that are under way.
    pub(crate) reading: AtomicUsize,
    /// A commit waits for room, or for the end of what is done behind it.
    pub(crate) waiting: AtomicBool,
    /// There was no room for a log when it was opened, and there is none yet: the one of the writer
    /// before holds what is not in segments. Nothing is sealed, since numbers of segments count by
    /// a log.
    pub(crate) without_log: AtomicBool,
}

impl Volume {
    pub(crate) fn assemble(
        name: &str,
        rim: &Arc<Rim>,
        read_only: bool,
        state: State,
        generation: Generation,
        held: Held,
    ) -> Volume {
        let kept = Kept::new(&held.descriptor);
        Volume {
            name: name.to_owned(),
            rim: Arc::clone(rim),
            read_only,
            state: Mutex::new(state),
            moved_on: Condvar::new(),
            generation: Mutex::new(generation),
            held: Mutex::new(held),
            sealer: Mutex::new(()),
            keeper: Mutex::new(kept),
            opened: Mutex::default(),
            deposed: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            failure: Mutex::new(None),
            statistics: Mutex::default(),
            operations: AtomicU64::new(0),
            reading: AtomicUsize::new(0),
            waiting: AtomicBool::new(false),
            without_log: AtomicBool::new(false),
        }
    }

    /// A volume that gets a log when there is room for one: with the first write that finds it.
    pub(crate) fn assemble_without_log(
        name: &str,
        rim: &Arc<Rim>,
        state: State,
        held: Held,
    ) -> Volume {
        let generation = Generation { unsure: true, ..Generation::default() };
        let volume = Volume::assemble(name, rim, false, state, generation, held);
        volume.without_log.store(true, Ordering::Release);
        volume
    }

    /// A volume that is read as its log left it, in a pool without room for another log. It writes
    /// nothing, and serves nothing more once there is a writer.
    pub(crate) fn assemble_reader(name: &str, rim: &Arc<Rim>, state: State, held: Held) -> Volume {
        let volume = Volume::assemble(name, rim, true, state, Generation::default(), held);
        volume.closed.store(true, Ordering::Release);
        volume
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes that it has for its users.
    pub fn size(&self) -> u64 {
        lock(&self.state).size
    }

    /// The number of its log: each opening has a higher one than all before, and so has each log
    /// that a writer makes after a node has failed. 0 as long as there was no room for one.
    pub fn generation(&self) -> u64 {
        lock(&self.generation).number
    }

    /// Writes, in this order; all of it is durable in all copies of the log when this returns, and
    /// readers see it. Writers that come while another commits wait for it: a server of many
    /// hands over what has come meanwhile as one list, which is one commit.
    /// Errors: [`VolumeError::Usage`] past the end, [`VolumeError::ReadOnly`];
    /// [`VolumeError::Deposed`], after which every write fails; what keeps it from being durable.
    /// Then each block of what was to be written has its old or its new bytes.
    pub fn write(&self, ops: &[Op<'_>]) -> Result<()> {
        if self.read_only {
            return Err(VolumeError::ReadOnly { name: self.name.clone() });
        }
        self.operations.fetch_add(1, Ordering::Relaxed);
        let size = self.size();
        ops.iter().try_for_each(|op| self.check_range(op.range(), size))?;
        let mut generation = lock(&self.generation);
        match self.write_all(&mut generation, ops) {
            Err(error) if error.is_full() && ops.iter().all(|op| matches!(op, Op::Zero { .. })) => {
                self.make_room(ops)?;
                self.write_all(&mut generation, ops)
            }
            end => end,
        }
    }

    fn write_all(&self, generation: &mut Generation, ops: &[Op<'_>]) -> Result<()> {
        if self.without_log.load(Ordering::Acquire) {
            self.still_writes()?;
            self.renew(generation, &Vec::new())?;
        }
        if self.write_long(generation, ops)? {
            return Ok(());
        }
        let most = MAX_BLOCKS.min(lock(&self.state).capacity());
        let mut changes: Vec<Change<'_>> = Vec::new();
        let mut blocks = 0;
        for op in ops {
            let (offset, len) = op.range();
            for part in Parts::of(offset, len, most as u64) {
                let change = match (op, part.whole) {
                    (_, false) => {
                        // What it changes of its block may be in what waits.
                        self.commit(generation, &changes)?;
                        (changes, blocks) = (Vec::new(), 0);
                        self.write_part(generation, op, &part)?;
                        continue;
                    }
                    (Op::Write { bytes, .. }, true) => {
                        let start = (part.offset - offset) as usize;
                        let bytes = &bytes[start..start + part.len as usize];
                        Change::Data { block: part.offset / BLOCK as u64, bytes }
                    }
                    (Op::Zero { .. }, true) => {
                        let block = BLOCK as u64;
                        Change::Freed { block: part.offset / block, count: part.len / block }
                    }
                };
                if blocks + change.data_blocks() > most || changes.len() == MAX_ENTRIES {
                    self.commit(generation, &changes)?;
                    (changes, blocks) = (Vec::new(), 0);
                }
                blocks += change.data_blocks();
                changes.push(change);
            }
        }
        self.commit(generation, &changes)
    }

    pub(crate) fn check_range(&self, (offset, len): (u64, u64), size: u64) -> Result<()> {
        match offset.checked_add(len) {
            Some(end) if end <= size => Ok(()),
            _ => {
                let what = format!(
                    "{len} bytes from {offset} on do not lie within the {size} bytes of volume \
                     {:?}",
                    self.name
                );
                Err(VolumeError::Usage { what })
            }
        }
    }

    /// Changes a part of a block.
    fn write_part(&self, generation: &mut Generation, op: &Op<'_>, part: &Part) -> Result<()> {
        let mut bytes = vec![0; BLOCK];
        let block = part.offset / BLOCK as u64;
        self.read_blocks(block, &mut bytes)?;
        let start = (part.offset % BLOCK as u64) as usize;
        let target = &mut bytes[start..start + part.len as usize];
        match op {
            Op::Write { offset, bytes } => {
                let from = (part.offset - offset) as usize;
                target.copy_from_slice(&bytes[from..from + part.len as usize]);
            }
            Op::Zero { .. } => target.fill(0),
        }
        self.commit(generation, &[Change::Data { block, bytes: &bytes }])
    }

    /// Makes changes durable, then visible.
    fn commit(&self, generation: &mut Generation, changes: &[Change<'_>]) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        self.commit_batch(generation, changes, |state, seq, room, sums| {
            state.apply(seq, room, changes, sums);
        })?;
        let blocks: usize = changes.iter().map(Change::data_blocks).sum();
        self.count(|so_far| so_far.bytes_written += (blocks * BLOCK) as u64);
        Ok(())
    }

    /// Refuses to go on after another writer took the volume over.
    pub(crate) fn check_fence(&self) -> Result<()> {
        match self.deposed.load(Ordering::Acquire) {
            true => Err(VolumeError::Deposed { name: self.name.clone() }),
            false => Ok(()),
        }
    }

    /// Returns whether this writer can still write.
    pub(crate) fn still_writes(&self) -> Result<()> {
        self.check_fence()?;
        if self.closed.load(Ordering::Acquire) {
            let what = format!("volume {:?} was closed", self.name);
            return Err(VolumeError::Usage { what });
        }
        Ok(())
    }

    /// Makes a batch durable in all copies of the log, and then does what follows from it.
    pub(crate) fn commit_batch(
        &self,
        generation: &mut Generation,
        changes: &[Change<'_>],
        apply: impl FnOnce(&mut State, u64, &Room, &[u32]),
    ) -> Result<()> {
        loop {
            self.still_writes()?;
            if generation.unsure {
                self.renew(generation, &Vec::new())?;
            }
            let (seq, room) =
                self.wait_for_room(record::batch_len(changes, &generation.trust) as u64)?;
            let id = BatchId { volume: generation.volume, generation: generation.number, seq };
            let mut bytes = std::mem::take(&mut generation.scratch);
            let sums = record::encode(&id, changes, &generation.trust, &mut bytes);
            let bytes = Arc::new(bytes);
            let end = generation.logs.write(room.offset, &bytes);
            self.count(|so_far| {
                so_far.log_bytes += (bytes.len() * generation.places.len()) as u64;
                so_far.commits += 1;
            });
            // It is not shared any more, or it is made anew.
            generation.scratch = Arc::try_unwrap(bytes).unwrap_or_default();
            match end {
                Ok(()) => {
                    apply(&mut lock(&self.state), seq, &room, &sums);
                    self.moved_on.notify_all();
                    return Ok(());
                }
                Err(failed) => self.renew(generation, &failed)?,
            }
        }
    }

    /// Waits until a batch can be taken up; where no thread seals, this one does.
    pub(crate) fn wait_for_room(&self, len: u64) -> Result<(u64, Room)> {
        loop {
            let state = lock(&self.state);
            if state.has_room()
                && let Some(room) = state.ring.room(len)
            {
                self.waiting.store(false, Ordering::Release);
                return Ok((state.seq + 1, room));
            }
            drop(state);
            self.waiting.store(true, Ordering::Release);
            self.count(|so_far| so_far.waits += 1);
            match self.sealer.try_lock() {
                Ok(mut sealer) => {
                    self.seal_one(&mut sealer, &Silent)?;
                }
                Err(_) => {
                    let state = lock(&self.state);
                    if !state.has_room() {
                        drop(self.moved_on.wait_timeout(state, PAUSE));
                    }
                    if let Some((why, full)) = lock(&self.failure).clone() {
                        self.waiting.store(false, Ordering::Release);
                        return Err(VolumeError::Stalled { name: self.name.clone(), why, full });
                    }
                }
            }
        }
    }

    /// Counts what was done.
    pub(crate) fn count(&self, note: impl FnOnce(&mut Statistics)) {
        note(&mut lock(&self.statistics));
    }

    /// Returns the number of clients' operations so far.
    pub(crate) fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    /// Counts time that work behind clients left to them.
    pub(crate) fn count_rest(&self, rested: Duration) {
        // What is shorter was none.
        if rested >= Duration::from_millis(1) {
            self.count(|so_far| so_far.rested_ms += rested.as_millis() as u64);
        }
    }

    /// A segment's object, looked up once.
    pub(crate) fn object(&self, id: &SegmentId) -> Result<Arc<OpenObject>, PoolError> {
        if let Some(object) = lock(&self.opened).get(id) {
            return Ok(object);
        }
        let object = Arc::new(self.rim.with(|pool| pool.open_object(&id.name()))?);
        lock(&self.opened).insert(*id, Arc::clone(&object));
        Ok(object)
    }

    /// A segment is gone, or its shards moved.
    pub(crate) fn forget(&self, id: &SegmentId) {
        lock(&self.opened).forget(id);
    }

    /// Segments of which something could not be read are looked up anew: it may be back.
    pub(crate) fn forget_failed(&self) {
        lock(&self.opened).forget_failed();
    }

    /// Ranges that may hold data, and those that are zeros: how many blocks from one on are of
    /// which kind, up to a limit.
    /// Errors: [`VolumeError::Usage`] past the end.
    pub fn extents(&self, offset: u64, len: u64, most: usize) -> Result<Vec<(u64, bool)>> {
        self.check_fence()?;
        let state = lock(&self.state);
        self.check_range((offset, len), state.size)?;
        let mut extents: Vec<(u64, bool)> = Vec::new();
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let block = at / BLOCK as u64;
            let next = ((block + 1) * BLOCK as u64).min(end);
            let data = state.map.get(block).is_some();
            match extents.last_mut() {
                Some((len, kind)) if *kind == data => *len += next - at,
                last => {
                    if last.is_some() && extents.len() >= most {
                        break;
                    }
                    extents.push((next - at, data));
                }
            }
            at = next;
        }
        Ok(extents)
    }
}

/// A part of a range: whole blocks, or less than one.
pub(crate) struct Part {
    pub offset: u64,
    pub len: u64,
    pub whole: bool,
}

/// The parts of a range, in order: at most `most` whole blocks each.
pub(crate) struct Parts {
    at: u64,
    end: u64,
    most: u64,
}

impl Parts {
    pub fn of(offset: u64, len: u64, most: u64) -> Parts {
        Parts { at: offset, end: offset + len, most }
    }
}

impl Iterator for Parts {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        let (offset, left, block) = (self.at, self.end - self.at, BLOCK as u64);
        let within = offset % block;
        let (len, whole) = match left {
            0 => return None,
            _ if within > 0 => (left.min(block - within), false),
            _ if left < block => (left, false),
            _ => ((left / block).min(self.most) * block, true),
        };
        self.at += len;
        Some(Part { offset, len, whole })
    }
}
