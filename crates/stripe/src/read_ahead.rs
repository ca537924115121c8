//! Carrying out what the planner says: windows of adjacent stripes are read at once.
//!
//! The bytes are checked where they are taken out, stripe by stripe, as strictly as without a
//! planner. What lies in gaps is never looked at.

use std::sync::{Arc, Mutex, PoisonError};
use std::{collections::VecDeque, ops::Range};

use kiln_code::{CodeError, RepairPlan};
use kiln_store::device::{Devices, ReadPlan};
use kiln_store::{ReadCost, Result};

use crate::choice::{Choice, ReadsReport};
use crate::{chunks::Chunks, windows::Windows};

/// Windows of one shard kept: workers are never farther apart than the frames in flight.
const WINDOWS_KEPT: usize = 8;
/// A longer read goes in pieces of this size, so that buffers stay small.
pub const PIECE_BYTES: u64 = 16 << 20;
/// Decisions remembered, at most.
const DECISIONS_MAX: usize = 32;

/// Plan that was chosen for chunks lost and chunks available.
type Decision = (Vec<usize>, Vec<usize>, Arc<RepairPlan>);

/// Reads shards as planned, ahead of the stripe that asks.
pub struct ReadAhead<'a> {
    chunks: &'a dyn Chunks,
    windows: Windows<'a>,
    shards: Vec<Mutex<VecDeque<Window>>>,
    decisions: Mutex<Vec<Decision>>,
    report: Mutex<Option<ReadsReport>>,
}

/// Bytes read of one shard for a window of stripes.
struct Window {
    number: u64,
    runs: Vec<Range<u32>>,
    read_plan: ReadPlan,
    /// Starts of the bytes of each read in `bytes`.
    starts: Vec<usize>,
    /// The bytes; `None` when reading them failed, so that stripes are read one by one.
    bytes: Option<Vec<u8>>,
    /// Stripes that have not taken theirs.
    left: u64,
}

impl<'a> ReadAhead<'a> {
    /// For these chunks from stripe `first` on, if all of them have devices.
    pub fn new(
        chunks: &'a dyn Chunks,
        devices: Option<&'a Devices>,
        first: u64,
    ) -> Option<ReadAhead<'a>> {
        let windows = Windows::new(chunks, devices, first)?;
        let n = chunks.codec().shape().n();
        Some(ReadAhead {
            chunks,
            windows,
            shards: (0..n).map(|_| Mutex::default()).collect(),
            decisions: Mutex::default(),
            report: Mutex::default(),
        })
    }

    /// The cheaper one, on these devices, of the repair with the fewest bytes and the decode from
    /// whole chunks.
    pub fn plan(&self, lost: &[usize], available: &[usize]) -> Result<Arc<RepairPlan>, CodeError> {
        let mut decisions = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((.., plan)) = decisions.iter().find(|d| d.0 == lost && d.1 == available) {
            return Ok(Arc::clone(plan));
        }
        let codec = self.chunks.codec();
        let repair = codec.repair_plan(lost, available)?;
        let decode = self.decode_plan(lost, available)?;
        let choice = Choice::between(&repair, &decode, &self.windows);
        let plan = if choice.decode { decode } else { repair };
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.get_or_insert(choice.report);
        if decisions.len() >= DECISIONS_MAX {
            decisions.remove(0);
        }
        decisions.push((lost.to_vec(), available.to_vec(), Arc::clone(&plan)));
        Ok(plan)
    }

    /// The decode from whole chunks; where costs add up, from the cheapest ones.
    fn decode_plan(
        &self,
        lost: &[usize],
        available: &[usize],
    ) -> Result<Arc<RepairPlan>, CodeError> {
        let (codec, devices) = (self.chunks.codec(), self.windows.devices());
        if !devices.add_up() {
            return codec.decode_plan(lost, available);
        }
        let bytes = (self.chunks.sub_len(0) * codec.shape().alpha) as u64;
        codec.cheapest_decode_plan(lost, available, |chunk| {
            let device = self.windows.device_of(chunk);
            device.map_or(f64::INFINITY, |at| devices.model(at).seconds(1, bytes))
        })
    }

    /// Returns what was decided first, and why.
    pub fn report(&self) -> Option<ReadsReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads runs of a stripe, verified, from the window that holds it.
    pub fn read(
        &self,
        chunk: usize,
        stripe: u64,
        runs: &[Range<u32>],
        buf: &mut [u8],
    ) -> Result<ReadCost> {
        let mut shard = self.shards[chunk].lock().unwrap_or_else(PoisonError::into_inner);
        let (at, fresh) = self.window_at(&mut shard, chunk, stripe, runs);
        let mut cost = own_cost(self.chunks, chunk, stripe, runs);
        if fresh {
            shard[at].bytes = self.load(chunk, &shard[at].read_plan.reads);
            add_device(&mut cost, &shard[at].read_plan);
        }
        let wanted = self.chunks.ranges(chunk, stripe, runs);
        let taken = shard[at].take(&wanted, buf);
        if shard[at].left == 0 {
            shard.remove(at);
        }
        drop(shard);
        if !taken {
            // One bad spot in a window must not cost its other stripes.
            let single = self.chunks.read(chunk, stripe, runs, buf)?;
            cost.device_bytes += single.device_bytes;
            cost.device_reads += single.device_reads;
            cost.metadata_bytes += single.metadata_bytes;
            return Ok(cost);
        }
        cost.metadata_bytes += self.chunks.check(chunk, stripe, runs, buf)?;
        Ok(cost)
    }

    /// Returns what [`ReadAhead::read`] would cost; the same windows are counted, nothing is read.
    pub fn cost(&self, chunk: usize, stripe: u64, runs: &[Range<u32>]) -> ReadCost {
        let mut shard = self.shards[chunk].lock().unwrap_or_else(PoisonError::into_inner);
        let (at, fresh) = self.window_at(&mut shard, chunk, stripe, runs);
        let mut cost = own_cost(self.chunks, chunk, stripe, runs);
        if fresh {
            add_device(&mut cost, &shard[at].read_plan);
        }
        shard[at].left = shard[at].left.saturating_sub(1);
        if shard[at].left == 0 {
            shard.remove(at);
        }
        cost
    }

    /// The window of a shard that holds these runs of this stripe, and whether it is new.
    fn window_at(
        &self,
        shard: &mut VecDeque<Window>,
        chunk: usize,
        stripe: u64,
        runs: &[Range<u32>],
    ) -> (usize, bool) {
        let number = self.windows.number(stripe);
        if let Some(at) = shard.iter().position(|w| w.number == number && w.runs == runs) {
            return (at, false);
        }
        let (read_plan, left) = self.windows.read_plan(chunk, number, runs);
        let runs = runs.to_vec();
        let mut next = 0;
        let starts = read_plan.reads.iter().map(|read| {
            let start = next;
            next += length(read);
            start
        });
        let (starts, bytes) = (starts.collect(), None);
        if shard.len() >= WINDOWS_KEPT {
            shard.pop_front();
        }
        shard.push_back(Window { number, runs, read_plan, starts, bytes, left });
        (shard.len() - 1, true)
    }

    /// The bytes of a window's reads, one after the other; `None` when one of them fails.
    fn load(&self, chunk: usize, reads: &[Range<u64>]) -> Option<Vec<u8>> {
        let pieces = pieces(reads);
        let mut bytes = vec![0; pieces.iter().map(length).sum()];
        let mut rest = &mut bytes[..];
        let mut at = 0;
        while at < pieces.len() {
            // All at once, unless that would take large buffers on the way.
            let mut sum = 0;
            let group = pieces[at..].iter().take_while(|piece| {
                let fits = sum == 0 || sum + length(piece) <= PIECE_BYTES as usize;
                sum += length(piece);
                fits
            });
            let group = &pieces[at..at + group.count()];
            let (now, later) = rest.split_at_mut(group.iter().map(length).sum());
            self.chunks.read_ranges(chunk, group, now).ok()?;
            (rest, at) = (later, at + group.len());
        }
        Some(bytes)
    }
}

impl Window {
    /// Copies the ranges of a stripe out; false when there are no bytes.
    fn take(&mut self, wanted: &[Range<u64>], buf: &mut [u8]) -> bool {
        self.left = self.left.saturating_sub(1);
        let Some(bytes) = &self.bytes else { return false };
        let mut rest = buf;
        for range in wanted {
            let read = self.read_plan.reads.partition_point(|read| read.end <= range.start);
            let from =
                self.starts[read] + (range.start - self.read_plan.reads[read].start) as usize;
            let (now, later) = rest.split_at_mut(length(range));
            now.copy_from_slice(&bytes[from..from + now.len()]);
            rest = later;
        }
        true
    }
}

/// Returns what the runs of a stripe are, without what reading them asks of the device.
fn own_cost(chunks: &dyn Chunks, chunk: usize, stripe: u64, runs: &[Range<u32>]) -> ReadCost {
    ReadCost { device_bytes: 0, device_reads: 0, ..chunks.cost_of(chunk, stripe, runs) }
}

fn add_device(cost: &mut ReadCost, read_plan: &ReadPlan) {
    cost.device_bytes += read_plan.bytes;
    cost.device_reads += pieces(&read_plan.reads).len() as u64;
}

fn length(range: &Range<u64>) -> usize {
    (range.end - range.start) as usize
}

/// Reads as they are issued: none longer than a piece.
fn pieces(reads: &[Range<u64>]) -> Vec<Range<u64>> {
    let cut = |read: &Range<u64>| {
        let end = read.end;
        let starts = (read.start..end).step_by(PIECE_BYTES as usize);
        starts.map(move |start| start..(start + PIECE_BYTES).min(end))
    };
    reads.iter().flat_map(cut).collect()
}
