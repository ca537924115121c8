//! One visit: batches of reads of one size for a while, and what a read took.

use crate::{BatchRead, ReadAt, Result, random::SplitMix64};

/// Batches of a visit at least: one to warm up and two to measure.
const BATCHES_MIN: usize = 3;
/// Bytes of a visit at most, so that a fast device is not read for nothing.
const VISIT_BYTES_MAX: u64 = 64 << 20;
/// A batch that takes so many times as long as most is held up, if it is among the longest too.
const STALL: f64 = 4.0;
/// So many show what lies between them.
const STALLS_MIN: usize = 2;
/// Stalls that a visit waits for once it has seen one ...
const STALLS: usize = 4;
/// ... for so many times its time at most.
const PATIENCE: f64 = 4.0;

/// Reads, and counts its reads.
pub(super) struct Visitor<'a> {
    file: &'a dyn ReadAt,
    now: &'a dyn Fn() -> f64,
    random: SplitMix64,
    pub(super) reads: u64,
    pub(super) bytes: u64,
    /// Times between stalls.
    slices: Vec<f64>,
    buffer: Vec<u8>,
}

/// Reads that were submitted together.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Batch {
    /// Their number.
    pub reads: usize,
    /// Time they took together.
    pub seconds: f64,
}

/// Seconds of a read in the long run, given batches one after the other: over whole slices where
/// the device stalls, from the end of one stall to the end of another; else over all but the
/// beginning, which is not steady: throttled volumes grant a burst, drives wake up.
pub fn steady(batches: &[Batch]) -> f64 {
    let stalls = stalls(batches);
    let steady = match (stalls.first(), stalls.last()) {
        (Some(&first), Some(&last)) if stalls.len() >= STALLS_MIN => &batches[first + 1..=last],
        _ if batches.len() == 1 => batches,
        _ => &batches[(batches.len() / 3).max(1).min(batches.len())..],
    };
    let sum = |sum: (usize, f64), batch: &Batch| (sum.0 + batch.reads, sum.1 + batch.seconds);
    let (reads, seconds) = steady.iter().fold((0, 0.0), sum);
    seconds / reads.max(1) as f64
}

impl<'a> Visitor<'a> {
    pub(super) fn new(file: &'a dyn ReadAt, now: &'a dyn Fn() -> f64, seed: u64) -> Visitor<'a> {
        let (slices, buffer) = (Vec::new(), Vec::new());
        Visitor { file, now, random: SplitMix64(seed), reads: 0, bytes: 0, slices, buffer }
    }

    /// Seconds of a read of `size` bytes among `depth` in flight.
    pub(super) fn visit(
        &mut self,
        size: u64,
        depth: u32,
        budget: f64,
        said: &impl Fn(u64),
    ) -> Result<f64> {
        let mut batches: Vec<Batch> = Vec::new();
        let (start, before) = ((self.now)(), self.bytes);
        let mut look_at = budget;
        loop {
            batches.push(self.batch(size, depth)?);
            let elapsed = (self.now)() - start;
            let full = self.bytes - before >= VISIT_BYTES_MAX;
            if batches.len() < BATCHES_MIN || (elapsed < look_at && !full) {
                continue;
            }
            // What is read too fast to be held up needs no more than the most of bytes; what is
            // held up needs whole slices, since what was left of the last one comes first.
            let seen = stalls(&batches).len();
            if seen == 0 || seen >= STALLS || elapsed >= PATIENCE * budget {
                break;
            }
            // Looking takes time itself, so not after every batch.
            look_at = elapsed + budget / 8.0;
        }
        said(self.bytes - before);
        Ok(self.typical(&batches).max(1e-9))
    }

    fn batch(&mut self, size: u64, depth: u32) -> Result<Batch> {
        let bytes = (size * u64::from(depth)) as usize;
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, 0);
        }
        let (places, random) = (self.file.len() / size, &mut self.random);
        let mut batch: Vec<BatchRead<'_>> = self.buffer[..bytes]
            .chunks_exact_mut(size as usize)
            .map(|buf| BatchRead::new(random.next() % places * size, buf))
            .collect();
        // In the order in which repairs read. The same place twice is one read to the device.
        batch.sort_by_key(|read| read.offset);
        batch.dedup_by_key(|read| read.offset);
        let (reads, began) = (batch.len(), (self.now)());
        self.file.read_batch(&mut batch)?;
        let seconds = (self.now)() - began;
        self.reads += reads as u64;
        self.bytes += reads as u64 * size;
        Ok(Batch { reads, seconds })
    }

    fn typical(&mut self, batches: &[Batch]) -> f64 {
        let stalls = stalls(batches);
        if let (Some(&first), Some(&last)) = (stalls.first(), stalls.last())
            && stalls.len() >= STALLS_MIN
        {
            let seconds: f64 = batches[first + 1..=last].iter().map(|batch| batch.seconds).sum();
            self.slices.push(seconds / (stalls.len() - 1) as f64);
        }
        steady(batches)
    }

    /// Returns the median between stalls.
    pub(super) fn slice_seconds(&self) -> Option<f64> {
        let mut slices = self.slices.clone();
        slices.sort_by(f64::total_cmp);
        slices.get(slices.len() / 2).copied()
    }

    /// The numbers below `count` in an order of their own.
    pub(super) fn shuffled(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for at in (1..count).rev() {
            order.swap(at, (self.random.next() % (at as u64 + 1)) as usize);
        }
        order
    }
}

/// The batches that were held up.
fn stalls(batches: &[Batch]) -> Vec<usize> {
    let mut times: Vec<f64> = batches.iter().map(|batch| batch.seconds).collect();
    times.sort_by(f64::total_cmp);
    let longest = times.last().copied().unwrap_or(0.0);
    let long = (longest / 2.0).max(STALL * times.get(times.len() / 2).copied().unwrap_or(0.0));
    let held = |at: &usize| longest > 0.0 && batches[*at].seconds >= long;
    (0..batches.len()).filter(held).collect()
}
