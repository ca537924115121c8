//! Carrying out what the planner says: windows of adjacent stripes are read at once.
//!
//! The bytes are checked where they are taken out, stripe by stripe, as strictly as without a
//! planner. What lies in gaps is never looked at.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use kiln_code::{CodeError, RepairPlan};
use kiln_store::device::{Combine, Cover, DeviceModel, Devices};
use kiln_store::{ReadCost, StoreError};

use super::choice::{Choice, ReadsReport};
use crate::engine::chunks::Chunks;

/// Bytes of all windows in memory together, about; larger chunks are read stripe by stripe.
const WINDOWS_BYTES: u64 = 64 << 20;
/// Most stripes of a window.
const WINDOW_STRIPES_MAX: u64 = 64;
/// Windows of one shard kept: workers are never farther apart than the frames in flight.
const WINDOWS_KEPT: usize = 8;
/// A longer read goes in pieces of this size, so that buffers stay small.
pub(crate) const PIECE_BYTES: u64 = 16 << 20;
/// Decisions remembered, at most.
const DECISIONS_MAX: usize = 32;

/// Windows whose reads are remembered.
const COVERS_KEPT: usize = 4;

/// Which plan was chosen for chunks lost and chunks available.
type Decision = (Vec<usize>, Vec<usize>, Arc<RepairPlan>);

/// Reads shards as planned, ahead of the stripe that asks.
pub(crate) struct Ahead<'a> {
    chunks: &'a dyn Chunks,
    devices: &'a Devices,
    /// The device of each chunk's shard.
    device_of: Vec<Option<usize>>,
    first: u64,
    window: u64,
    shards: Vec<Mutex<VecDeque<Window>>>,
    decisions: Mutex<Vec<Decision>>,
    covers: Mutex<VecDeque<Planned>>,
    report: Mutex<Option<ReadsReport>>,
}

/// Reads that were planned for ranges, as if the first began at the file's start.
struct Planned {
    device: usize,
    alignment: u64,
    wanted: Vec<Range<u64>>,
    cover: Cover,
}

/// Adjacent stripes of a shard that a repair reads at once, where a device's costs are known: of n
/// chunks of so many bytes.
///
/// ```
/// use kiln_pool::window_stripes;
/// assert_eq!(window_stripes(18, 256 << 10), 7);
/// assert_eq!((window_stripes(18, 64), window_stripes(18, 1 << 30)), (64, 1));
/// ```
#[must_use]
pub fn window_stripes(n: usize, chunk: u64) -> u64 {
    // Two windows of each shard are in memory when workers cross from one to the next.
    let stripe_bytes = (2 * n as u64).saturating_mul(chunk).max(1);
    (WINDOWS_BYTES / stripe_bytes).clamp(1, WINDOW_STRIPES_MAX)
}

/// What was read of one shard for a window of stripes.
struct Window {
    number: u64,
    runs: Vec<Range<u32>>,
    cover: Cover,
    /// Where the bytes of each read start in `bytes`.
    starts: Vec<usize>,
    /// The bytes; `None` when reading them failed, so that stripes are read one by one.
    bytes: Option<Vec<u8>>,
    /// Stripes that have not taken theirs.
    left: u64,
}

impl<'a> Ahead<'a> {
    /// For these chunks from stripe `first` on, if all of them have devices.
    pub(crate) fn new(
        chunks: &'a dyn Chunks,
        devices: Option<&'a Devices>,
        first: u64,
    ) -> Option<Ahead<'a>> {
        let devices = devices?;
        let n = chunks.codec().shape().n();
        let device_of: Vec<Option<usize>> =
            (0..n).map(|chunk| devices.of(&chunks.node_name(chunk))).collect();
        let stripes = first..chunks.stripes();
        if stripes.is_empty()
            || (0..n).any(|chunk| device_of[chunk].is_none() && chunks.covers(chunk, first))
        {
            return None;
        }
        let window = window_stripes(n, chunks.chunk_capacity() as u64);
        Some(Ahead {
            chunks,
            devices,
            device_of,
            first,
            window,
            shards: (0..n).map(|_| Mutex::default()).collect(),
            decisions: Mutex::default(),
            covers: Mutex::default(),
            report: Mutex::default(),
        })
    }

    /// The cheaper one, on these devices, of the repair with the fewest bytes and the decode from
    /// whole chunks.
    pub(crate) fn plan(
        &self,
        lost: &[usize],
        available: &[usize],
    ) -> Result<Arc<RepairPlan>, CodeError> {
        let mut decisions = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((.., plan)) = decisions.iter().find(|d| d.0 == lost && d.1 == available) {
            return Ok(Arc::clone(plan));
        }
        let codec = self.chunks.codec();
        let repair = codec.repair_plan(lost, available)?;
        let decode = codec.decode_plan(lost, available)?;
        let choice = Choice::between(&repair, &decode, self);
        let plan = if choice.decode { decode } else { repair };
        let mut report = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        report.get_or_insert(choice.report);
        if decisions.len() >= DECISIONS_MAX {
            decisions.remove(0);
        }
        decisions.push((lost.to_vec(), available.to_vec(), Arc::clone(&plan)));
        Ok(plan)
    }

    /// What was decided first, and why.
    pub(crate) fn report(&self) -> Option<ReadsReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn devices(&self) -> &Devices {
        self.devices
    }

    pub(crate) fn device_of(&self, chunk: usize) -> Option<usize> {
        self.device_of[chunk]
    }

    pub(crate) fn window_stripes(&self) -> u64 {
        self.window
    }

    /// Stripes that this reader will read.
    pub(crate) fn stripes(&self) -> u64 {
        self.chunks.stripes() - self.first
    }

    /// The reads of a shard for the window with this number, and the stripes in it.
    pub(crate) fn cover(&self, chunk: usize, number: u64, runs: &[Range<u32>]) -> (Cover, u64) {
        let (wanted, count) = self.wanted(chunk, number, runs);
        let alignment = self.chunks.alignment(chunk);
        let Some(device) = self.device_of[chunk] else {
            // Only shards that are gone have none, and nobody reads them.
            let none = DeviceModel::new(1.0, 1.0, Combine::Sum);
            return (Cover::as_runs(&wanted, alignment, &none), count);
        };
        // Helpers of one loss mostly read the same ranges of their files, and windows the same
        // ranges after one another: planned once, from where they begin. Whoever comes while they
        // are being planned waits, instead of planning them too.
        let base = wanted.first().map_or(0, |range| range.start / alignment * alignment);
        let wanted = moved(&wanted, |at| at - base);
        let back =
            |cover: &Cover| Cover { reads: moved(&cover.reads, |at| at + base), ..cover.clone() };
        let mut covers = self.covers.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |known: &&Planned| {
            known.device == device && known.alignment == alignment && known.wanted == wanted
        };
        if let Some(known) = covers.iter().find(same) {
            return (back(&known.cover), count);
        }
        let cover = Cover::best(&wanted, alignment, self.devices.model(device));
        if covers.len() >= COVERS_KEPT {
            covers.pop_front();
        }
        let planned = back(&cover);
        covers.push_back(Planned { device, alignment, wanted, cover });
        (planned, count)
    }

    /// One read a run instead.
    pub(crate) fn cover_as_runs(&self, chunk: usize, number: u64, runs: &[Range<u32>]) -> Cover {
        let (wanted, _) = self.wanted(chunk, number, runs);
        let model = self.device_of[chunk].map(|device| self.devices.model(device).clone());
        let model = model.unwrap_or_else(|| DeviceModel::new(1.0, 1.0, Combine::Sum));
        Cover::as_runs(&wanted, self.chunks.alignment(chunk), &model)
    }

    /// What runs are in a shard's file for all stripes of a window, and the number of those.
    fn wanted(&self, chunk: usize, number: u64, runs: &[Range<u32>]) -> (Vec<Range<u64>>, u64) {
        let start = self.first + number * self.window;
        let stripes = start..(start + self.window).min(self.chunks.stripes());
        let mut wanted = Vec::new();
        let mut count = 0;
        for stripe in stripes.filter(|&stripe| self.chunks.covers(chunk, stripe)) {
            wanted.extend(self.chunks.ranges(chunk, stripe, runs));
            count += 1;
        }
        (wanted, count)
    }

    /// Reads runs of a stripe, verified, from the window that holds it.
    pub(crate) fn read(
        &self,
        chunk: usize,
        stripe: u64,
        runs: &[Range<u32>],
        buf: &mut [u8],
    ) -> Result<ReadCost, StoreError> {
        let mut shard = self.shards[chunk].lock().unwrap_or_else(PoisonError::into_inner);
        let (at, fresh) = self.window_at(&mut shard, chunk, stripe, runs);
        let mut cost = own_cost(self.chunks, chunk, stripe, runs);
        if fresh {
            shard[at].bytes = self.load(chunk, &shard[at].cover.reads);
            add_device(&mut cost, &shard[at].cover);
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

    /// What [`Ahead::read`] would cost; the same windows are counted, nothing is read.
    pub(crate) fn cost(&self, chunk: usize, stripe: u64, runs: &[Range<u32>]) -> ReadCost {
        let mut shard = self.shards[chunk].lock().unwrap_or_else(PoisonError::into_inner);
        let (at, fresh) = self.window_at(&mut shard, chunk, stripe, runs);
        let mut cost = own_cost(self.chunks, chunk, stripe, runs);
        if fresh {
            add_device(&mut cost, &shard[at].cover);
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
        let number = (stripe - self.first) / self.window;
        if let Some(at) = shard.iter().position(|w| w.number == number && w.runs == runs) {
            return (at, false);
        }
        let (cover, left) = self.cover(chunk, number, runs);
        let runs = runs.to_vec();
        let mut next = 0;
        let starts = cover.reads.iter().map(|read| {
            let start = next;
            next += length(read);
            start
        });
        let (starts, bytes) = (starts.collect(), None);
        if shard.len() >= WINDOWS_KEPT {
            shard.pop_front();
        }
        shard.push_back(Window { number, runs, cover, starts, bytes, left });
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
            let read = self.cover.reads.partition_point(|read| read.end <= range.start);
            let from = self.starts[read] + (range.start - self.cover.reads[read].start) as usize;
            let (now, later) = rest.split_at_mut(length(range));
            now.copy_from_slice(&bytes[from..from + now.len()]);
            rest = later;
        }
        true
    }
}

/// What the runs of a stripe are, without what reading them asks of the device.
fn own_cost(chunks: &dyn Chunks, chunk: usize, stripe: u64, runs: &[Range<u32>]) -> ReadCost {
    ReadCost { device_bytes: 0, device_reads: 0, ..chunks.cost_of(chunk, stripe, runs) }
}

fn add_device(cost: &mut ReadCost, cover: &Cover) {
    cost.device_bytes += cover.bytes;
    cost.device_reads += pieces(&cover.reads).len() as u64;
}

fn moved(ranges: &[Range<u64>], to: impl Fn(u64) -> u64) -> Vec<Range<u64>> {
    ranges.iter().map(|range| to(range.start)..to(range.end)).collect()
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
