//! Buffers of one stripe, used again and again.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};
use kiln_code::RebuildMethod;
use kiln_store::{ReadCost, Result, StoreError, SumKind, checksums};

use crate::budget::{Budget, Share};
use crate::buffers::Buffers;

/// Cache line: kernels like their operands to start at one.
const LINE: usize = 64;
/// Pages hold this much; see [`Buffer::new`].
const PAGE: usize = 4096;

/// One chunk's bytes: aligned, allocated at first use.
#[derive(Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    capacity: usize,
    /// Pool that its memory comes from.
    home: Option<Arc<Buffers>>,
    /// Number of lines by which it is shifted.
    shift: usize,
}

impl Buffer {
    /// Equal positions in the chunks of a stripe are used together; were they equal modulo the
    /// page size too, they would fight for the same places in the cache. So chunk `index` starts
    /// some lines later than the one before.
    fn new(capacity: usize, index: usize, home: Option<&Arc<Buffers>>) -> Buffer {
        let (shift, home) = (index * 9 % (PAGE / LINE), home.cloned());
        Buffer { bytes: Vec::new(), start: 0, capacity, home, shift }
    }

    /// Takes the buffer away, and leaves one that is allocated when it is used.
    pub fn take(&mut self) -> Buffer {
        let (capacity, shift, home) = (self.capacity, self.shift, self.home.clone());
        std::mem::replace(self, Buffer { bytes: Vec::new(), start: 0, capacity, home, shift })
    }

    /// The first `len` bytes to write to; what they held before stays.
    pub fn writable(&mut self, len: usize) -> &mut [u8] {
        debug_assert!(len <= self.capacity);
        if self.bytes.is_empty() {
            let len = self.capacity + LINE + PAGE;
            self.bytes = self.home.as_ref().map_or_else(|| vec![0; len], |home| home.take(len));
            self.start = self.bytes.as_ptr().align_offset(LINE).min(LINE) + self.shift * LINE;
        }
        &mut self.bytes[self.start..self.start + len]
    }

    /// Returns the first `len` bytes.
    pub fn readable(&self, len: usize) -> &[u8] {
        if len == 0 { &[] } else { &self.bytes[self.start..self.start + len] }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            home.give(std::mem::take(&mut self.bytes));
        }
    }
}

/// Share of a chunk that a frame holds.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Held {
    /// Nothing of use.
    Nothing,
    /// The whole chunk, verified or rebuilt.
    Whole,
    /// The runs that the current plan reads, one after the other.
    Runs,
}

/// Outcome of comparing parity with data of a stripe.
#[derive(Debug, PartialEq, Eq)]
pub enum Fit {
    /// All fit, as far as they are there.
    Good,
    /// All fit but this one.
    AllBut(usize),
    /// They do not fit, and it cannot be told which is wrong.
    Unknown,
}

/// Cost of reading one chunk's shard in one stripe.
#[derive(Copy, Clone, Debug, Default)]
pub struct Cost {
    /// Bytes of chunk data read.
    pub bytes: u64,
    /// Contiguous runs.
    pub runs: u64,
    /// Bytes asked of the device for them.
    pub device_bytes: u64,
    /// Reads asked of the device for them.
    pub device_reads: u64,
    /// Of these bytes, what was read to help others.
    pub sent: u64,
    /// Bytes of checksum tables read.
    pub metadata: u64,
}

impl Cost {
    /// Adds what a read cost.
    pub fn add(&mut self, read: &ReadCost, helps: bool) {
        self.bytes += read.data_bytes;
        self.runs += read.runs;
        self.device_bytes += read.device_bytes;
        self.device_reads += read.device_reads;
        self.sent += if helps { read.data_bytes } else { 0 };
        self.metadata += read.metadata_bytes;
    }

    /// Adds the costs of another stripe.
    pub fn merge(&mut self, other: &Cost) {
        self.bytes += other.bytes;
        self.runs += other.runs;
        self.device_bytes += other.device_bytes;
        self.device_reads += other.device_reads;
        self.sent += other.sent;
        self.metadata += other.metadata;
    }
}

/// A read that ended, perhaps after it was given up.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub chunk: usize,
    pub buffer: Buffer,
    /// State of the chunk if it was read well.
    pub held: Held,
    pub helps: bool,
    pub end: Result<ReadCost>,
}

/// Reads of one stripe that may be left behind.
#[derive(Debug)]
pub(crate) struct Hedged {
    pub ends: (Sender<Arrived>, Receiver<Arrived>),
    /// Chunks whose reads are late.
    pub late: Vec<usize>,
    /// A chunk is made of others, as its node is slow.
    pub around: bool,
    /// Chunks that are wanted whole: with the last one of them nothing else is waited for.
    pub goal: Vec<usize>,
    /// All reads are waited for: without the late ones the stripe cannot be rebuilt.
    pub patient: bool,
}

impl Default for Hedged {
    fn default() -> Hedged {
        let (late, goal) = (Vec::new(), Vec::new());
        Hedged { ends: unbounded(), late, around: false, goal, patient: false }
    }
}

/// All buffers and findings of one stripe in flight.
#[derive(Debug)]
pub struct Frame {
    /// A buffer for each chunk, then `spare` more.
    pub bufs: Vec<Buffer>,
    /// Contents of `bufs`.
    pub held: Vec<Held>,
    /// Checksums of sub-chunks.
    sum_kind: SumKind,
    /// Checksums of each chunk, filled on demand.
    pub sums: Vec<Vec<u8>>,
    /// Chunks found damaged in this stripe, and why.
    pub bad: Vec<(usize, String)>,
    /// Of these, chunks whose places could not be asked.
    pub away: Vec<usize>,
    /// Reading costs for each chunk.
    pub costs: Vec<Cost>,
    /// Bytes of a sub-chunk of this stripe.
    pub sub_len: usize,
    /// Bytes of a chunk of this stripe.
    pub chunk_len: usize,
    /// Strategy of the last plan run; `None` when none was needed.
    pub strategy: Option<RebuildMethod>,
    /// Helpers of the last plan run.
    pub helpers: Vec<usize>,
    /// The stripe cannot be rebuilt (only set where that is a finding, not an error).
    pub hopeless: bool,
    /// Parity and data do not fit each other although all checksums hold.
    pub fit: Fit,
    /// Bytes of the object in this stripe.
    pub object_bytes: u64,
    /// Reads that may be left behind.
    pub(crate) hedged: Option<Hedged>,
    /// Memory of its buffers, where it is shared.
    share: Option<Share>,
}

impl Frame {
    /// Buffers for n chunks and `spare` more of at most `chunk_capacity` bytes.
    pub fn new(
        (n, spare): (usize, usize),
        chunk_capacity: usize,
        sums: SumKind,
        home: Option<&Arc<Buffers>>,
    ) -> Frame {
        Frame {
            bufs: (0..n + spare).map(|i| Buffer::new(chunk_capacity, i, home)).collect(),
            held: vec![Held::Nothing; n],
            sum_kind: sums,
            sums: vec![Vec::new(); n],
            bad: Vec::new(),
            away: Vec::new(),
            costs: vec![Cost::default(); n],
            sub_len: 0,
            chunk_len: 0,
            strategy: None,
            helpers: Vec::new(),
            hopeless: false,
            fit: Fit::Good,
            object_bytes: 0,
            hedged: None,
            share: None,
        }
    }

    /// Waits until the memory of its buffers may be taken.
    pub(crate) fn take_share(&mut self, budget: &Arc<Budget>) {
        self.share = Some(budget.take(self.bufs.iter().map(|buf| buf.capacity as u64).sum()));
    }

    /// Gives memory back that is shared.
    pub(crate) fn give_back(&mut self) {
        if self.share.is_some() {
            self.bufs.iter_mut().for_each(|buf| drop(buf.take()));
            self.share = None;
        }
    }

    /// Notes that a chunk could not be read.
    pub(crate) fn failed(&mut self, chunk: usize, error: &StoreError) {
        self.away.extend(error.is_away().then_some(chunk));
        self.bad.push((chunk, error.to_string()));
    }

    /// Forgets the last stripe; buffers stay allocated.
    pub fn reset(&mut self, sub_len: usize, alpha: usize) {
        self.held.fill(Held::Nothing);
        self.bad.clear();
        self.away.clear();
        self.costs.fill(Cost::default());
        self.sub_len = sub_len;
        self.chunk_len = sub_len * alpha;
        self.strategy = None;
        self.helpers.clear();
        self.hopeless = false;
        self.fit = Fit::Good;
        self.object_bytes = 0;
        // Late parts of the last stripe find no receiver.
        self.hedged = None;
    }

    /// Returns whether all that is wanted whole is held, by reads that came late.
    pub(crate) fn is_reached(&self) -> bool {
        let goal = self.hedged.as_ref().map_or(&[][..], |hedged| &hedged.goal);
        !goal.is_empty() && goal.iter().all(|&chunk| self.held[chunk] == Held::Whole)
    }

    /// A chunk's bytes.
    pub fn chunk(&self, index: usize) -> &[u8] {
        self.bufs[index].readable(self.chunk_len)
    }

    /// Computes the checksums of a chunk.
    pub fn checksum(&mut self, index: usize) {
        let (sums, chunk) = (&mut self.sums[index], self.bufs[index].readable(self.chunk_len));
        sums.clear();
        checksums(self.sum_kind, chunk, self.sub_len, sums);
    }

    /// The first `split` chunks to read, the others up to `end` to write.
    pub fn split(&mut self, split: usize, end: usize) -> (Vec<&[u8]>, Vec<&mut [u8]>) {
        let len = self.chunk_len;
        let (left, right) = self.bufs[..end].split_at_mut(split);
        let left = left.iter_mut().map(|b| &*b.writable(len)).collect();
        (left, right.iter_mut().map(|b| b.writable(len)).collect())
    }
}
