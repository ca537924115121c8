//! Reading one stripe with verification, re-planning around what turns out to be damaged.
//!
//! Decode, verify and repair all read by [`StripeReader`]. A chunk that cannot be read or fails
//! its checksums is an erasure of that stripe only; the same shard may help in the next stripe.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kiln_code::{CodeError, Codec, RepairPlan};

use crate::ReadsReport;
use crate::chunks::Chunks;
use crate::frame::{Buffer, Frame, Held};
use crate::read_ahead::ReadAhead;
use crate::sequence::Sequence;
use crate::{PoolError, Result, Settings};
use crate::{pipeline, rounds};

/// Frames for a pipeline over these chunks, with `spare` buffers more in each: as many as memory
/// allows and can be in use at once.
pub fn frames(chunks: &dyn Chunks, spare: usize, settings: &Settings<'_>) -> Vec<Frame> {
    let (n, capacity) = (chunks.codec().shape().n(), chunks.chunk_capacity());
    let count = pipeline::slots(settings, (capacity * (n + spare)) as u64);
    let frame = |_| Frame::new((n, spare), capacity, chunks.sums(), settings.buffers);
    (0..count).map(frame).collect()
}

/// Plans that rebuild what is lost.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Planner {
    /// The fewest bytes.
    Repair,
    /// Whole chunks: for a reader that reads data chunks whole in any case.
    Decode,
}

/// Count of reads of a shard, and of those in vain.
#[derive(Debug, Default)]
struct Record {
    tries: AtomicU64,
    failures: AtomicU64,
}

impl Record {
    /// Mostly failing: not worth a try while others can help.
    fn is_hopeless(&self) -> bool {
        let failures = self.failures.load(Ordering::Relaxed);
        failures >= 4 && failures * 2 > self.tries.load(Ordering::Relaxed)
    }
}

/// Reads stripes; shared by all workers.
pub struct StripeReader<'a> {
    chunks: &'a dyn Chunks,
    planner: Planner,
    sequence: Option<&'a Sequence>,
    /// Reads whole windows of stripes as its planner says.
    read_ahead: Option<ReadAhead<'a>>,
    /// Chunks that may be read at all.
    usable: Vec<bool>,
    records: Vec<Record>,
}

impl<'a> StripeReader<'a> {
    /// A reader that never reads the chunks in `excluded`.
    pub fn new(
        chunks: &'a dyn Chunks,
        planner: Planner,
        excluded: &[usize],
        settings: &Settings<'a>,
    ) -> Self {
        let n = chunks.codec().shape().n();
        let usable = (0..n).map(|i| !excluded.contains(&i)).collect();
        let records = (0..n).map(|_| Record::default()).collect();
        let sequence = settings.sequence;
        StripeReader { chunks, planner, sequence, read_ahead: None, usable, records }
    }

    /// The same, with reads planned for the devices they go to.
    pub fn planned(self, read_ahead: Option<ReadAhead<'a>>) -> Self {
        StripeReader { read_ahead, ..self }
    }

    /// Returns what the read planner decided, if there is one and it was asked.
    pub fn reads_report(&self) -> Option<ReadsReport> {
        self.read_ahead.as_ref().and_then(ReadAhead::report)
    }

    /// Prepares the frame for a stripe.
    pub fn begin(&self, stripe: u64, frame: &mut Frame) {
        frame.reset(self.chunks.sub_len(stripe), self.chunks.codec().shape().alpha);
        frame.object_bytes = self.chunks.stripe_bytes(stripe);
    }

    fn may_read(&self, chunk: usize, stripe: u64, frame: &Frame) -> bool {
        self.usable[chunk]
            && self.chunks.read_plans(chunk, stripe)
            && frame.bad.iter().all(|(bad, _)| *bad != chunk)
    }

    /// Reads whole chunks; those that cannot be had stay [`Held::Nothing`].
    pub fn read_whole(
        &self,
        stripe: u64,
        frame: &mut Frame,
        wanted: impl IntoIterator<Item = usize>,
    ) {
        let all = std::iter::once(0..self.chunks.codec().shape().alpha as u32).collect::<Vec<_>>();
        let needed = |&chunk: &usize| {
            self.may_read(chunk, stripe, frame) && frame.held[chunk] != Held::Whole
        };
        let needed: Vec<Want<'_>> = wanted
            .into_iter()
            .filter(needed)
            .map(|chunk| Want { chunk, runs: &all, helps: false })
            .collect();
        self.load(stripe, &needed, frame, Held::Whole);
    }

    /// Reads one run of a chunk's sub-chunks, for a reader that needs no more of it. The bytes are
    /// the frame's until it reads again.
    pub fn read_run<'f>(
        &self,
        stripe: u64,
        frame: &'f mut Frame,
        chunk: usize,
        run: Range<u32>,
    ) -> Option<&'f [u8]> {
        if !self.may_read(chunk, stripe, frame) {
            return None;
        }
        let bytes = run.len() * frame.sub_len;
        let runs = std::iter::once(run).collect::<Vec<_>>();
        let held = frame.held[chunk];
        let read = self.load(stripe, &[Want { chunk, runs: &runs, helps: false }], frame, held);
        read.then(|| frame.bufs[chunk].readable(bytes))
    }

    /// Rebuilds those of `wanted` that are not held whole, from what is held and what can be read.
    ///
    /// # Errors
    /// [`PoolError::StripeLost`] when too much of the stripe is gone.
    pub fn rebuild(&self, stripe: u64, frame: &mut Frame, wanted: &[usize]) -> Result<()> {
        loop {
            let lost: Vec<usize> =
                wanted.iter().copied().filter(|&c| frame.held[c] != Held::Whole).collect();
            if lost.is_empty() {
                return Ok(());
            }
            let codec = self.chunks.codec();
            let plan = self.plan(stripe, frame, &lost, |available| {
                match (self.planner, &self.read_ahead) {
                    (Planner::Repair, Some(read_ahead)) => read_ahead.plan(&lost, available),
                    (Planner::Repair, None) => codec.repair_plan(&lost, available),
                    (Planner::Decode, _) => codec.decode_plan(&lost, available),
                }
            })?;
            if self.run(stripe, frame, &plan)? {
                for chunk in lost {
                    frame.held[chunk] = Held::Whole;
                }
                return Ok(());
            }
        }
    }

    /// Rebuilds a run of sub-chunks of each of some chunks, reading what these need alone; gives
    /// their bytes. `None`: whole chunks are as good, or the code has packets.
    ///
    /// # Errors
    /// As [`StripeReader::rebuild`].
    pub fn rebuild_parts(
        &self,
        stripe: u64,
        frame: &mut Frame,
        wanted: &[(usize, Range<u32>)],
    ) -> Result<Option<Vec<Vec<u8>>>> {
        let lost: Vec<usize> = wanted.iter().map(|(chunk, _)| *chunk).collect();
        let codec = self.chunks.codec();
        if !are_parts(codec, wanted) {
            return Ok(None);
        }
        loop {
            let make = |available: &[usize]| codec.part_plan(wanted, available);
            let plan = self.plan(stripe, frame, &lost, make)?;
            if self.run(stripe, frame, &plan)? {
                let sub_len = frame.sub_len;
                let bytes = |(chunk, run): &(usize, Range<u32>)| {
                    frame.bufs[*chunk].readable(run.len() * sub_len).to_vec()
                };
                return Ok(Some(wanted.iter().map(bytes).collect()));
            }
        }
    }

    /// Reads what a plan needs and runs it; false when a helper failed.
    fn run(&self, stripe: u64, frame: &mut Frame, plan: &RepairPlan) -> Result<bool> {
        if !self.load_inputs(stripe, frame, plan) {
            return Ok(false);
        }
        run_plan(plan, frame)?;
        frame.strategy = Some(plan.strategy());
        frame.helpers.clear();
        frame.helpers.extend(plan.helpers().iter().map(|h| h.chunk));
        Ok(true)
    }

    fn plan(
        &self,
        stripe: u64,
        frame: &Frame,
        lost: &[usize],
        plan: impl Fn(&[usize]) -> Result<Arc<RepairPlan>, CodeError>,
    ) -> Result<Arc<RepairPlan>> {
        let codec = self.chunks.codec();
        let all: Vec<usize> = (0..codec.shape().n())
            .filter(|c| !lost.contains(c))
            .filter(|&c| frame.held[c] == Held::Whole || self.may_read(c, stripe, frame))
            .collect();
        let good: Vec<usize> =
            all.iter().copied().filter(|&c| !self.records[c].is_hopeless()).collect();
        let first = plan(&good);
        let answer = if first.is_err() && good.len() < all.len() { plan(&all) } else { first };
        answer.map_err(|error| match error {
            CodeError::NotRecoverable { .. } => PoolError::StripeLost {
                object: self.chunks.object().to_owned(),
                stripe,
                lost: (0..codec.shape().n()).filter(|c| !all.contains(c)).collect(),
                m: codec.shape().m,
            },
            other => other.into(),
        })
    }

    /// Loads what the plan reads; false when a helper failed (it is then among `frame.bad`).
    fn load_inputs(&self, stripe: u64, frame: &mut Frame, plan: &RepairPlan) -> bool {
        let absent = plan.helpers().iter().filter(|helper| frame.held[helper.chunk] != Held::Whole);
        let wanted: Vec<Want<'_>> = absent
            .map(|helper| Want { chunk: helper.chunk, runs: &helper.runs, helps: true })
            .collect();
        self.load(stripe, &wanted, frame, Held::Runs)
    }

    /// Reads all that is wanted of a stripe, every chunk from its own shard at the same time; what
    /// could be read is then held as `held`. False when a read failed: all are tried, so that one
    /// look at a stripe finds all its bad chunks.
    fn load(&self, stripe: u64, wanted: &[Want<'_>], frame: &mut Frame, held: Held) -> bool {
        let sub_len = frame.sub_len;
        let mut bufs: Vec<Option<&mut Buffer>> = frame.bufs.iter_mut().map(Some).collect();
        let jobs = wanted.iter().filter_map(|want| {
            let bytes = want.runs.iter().map(|run| run.len()).sum::<usize>() * sub_len;
            self.records[want.chunk].tries.fetch_add(1, Ordering::Relaxed);
            // Nobody wants a chunk twice; whoever did would get it once.
            Some((want, bufs[want.chunk].take()?.writable(bytes)))
        });
        let jobs: Vec<(&Want<'_>, &mut [u8])> = jobs.collect();
        let asked: Vec<&Want<'_>> = jobs.iter().map(|(want, _)| *want).collect();
        let reads = rounds::together(self.sequence, jobs, |(want, buf)| match &self.read_ahead {
            Some(read_ahead) => read_ahead.read(want.chunk, stripe, want.runs, buf),
            None => self.chunks.read(want.chunk, stripe, want.runs, buf),
        });
        let mut complete = true;
        for (want, read) in asked.into_iter().zip(reads) {
            let chunk = want.chunk;
            let (cost, failure) = match read {
                Ok(cost) => (cost, None),
                // What a failed read cost is not told; the disk did the work all the same.
                Err(error) => (self.chunks.cost_of(chunk, stripe, want.runs), Some(error)),
            };
            frame.costs[chunk].add(&cost, want.helps && failure.is_none());
            frame.held[chunk] = if failure.is_none() { held } else { Held::Nothing };
            if let Some(error) = failure {
                self.records[chunk].failures.fetch_add(1, Ordering::Relaxed);
                frame.bad.push((chunk, error.to_string()));
                complete = false;
            }
        }
        complete
    }
}

/// Returns whether runs of chunks are rebuilt alone: whole chunks have plans that are kept, and one
/// does for all stripes.
pub fn are_parts(codec: &Codec, wanted: &[(usize, Range<u32>)]) -> bool {
    const PARTS: usize = 4;
    let sub_chunks: usize = wanted.iter().map(|(_, run)| run.len()).sum();
    let few = sub_chunks * PARTS <= wanted.len() * codec.shape().alpha;
    sub_chunks > 0 && few && codec.sliceable()
}

/// Reads wanted of one chunk.
struct Want<'a> {
    chunk: usize,
    runs: &'a [Range<u32>],
    /// It is read to rebuild another chunk.
    helps: bool,
}

/// Runs a plan inside a frame: helpers' buffers in, lost chunks' buffers out.
fn run_plan(plan: &RepairPlan, frame: &mut Frame) -> Result<()> {
    let (sub_len, chunk_len) = (frame.sub_len, frame.chunk_len);
    // A chunk that is held whole where the plan wants only some runs of it: rare, so copy them.
    let gathered: Vec<Option<Vec<u8>>> = plan
        .helpers()
        .iter()
        .map(|helper| {
            let partial = helper.sub_chunks() * sub_len < chunk_len;
            (partial && frame.held[helper.chunk] == Held::Whole)
                .then(|| gather(frame.chunk(helper.chunk), &helper.runs, sub_len))
        })
        .collect();
    let mut inputs: Vec<&[u8]> = vec![&[]; plan.helpers().len()];
    let mut outputs: Vec<&mut [u8]> = Vec::with_capacity(plan.lost().len());
    for (chunk, buf) in frame.bufs.iter_mut().enumerate() {
        if let Ok(at) = plan.helpers().binary_search_by_key(&chunk, |h| h.chunk) {
            inputs[at] = match &gathered[at] {
                Some(bytes) => bytes,
                None => buf.writable(plan.helpers()[at].sub_chunks() * sub_len),
            };
        } else if plan.lost().contains(&chunk) {
            outputs.push(buf.writable(plan.made(chunk) * sub_len));
        }
    }
    Ok(plan.run(&inputs, &mut outputs)?)
}

fn gather(chunk: &[u8], runs: &[Range<u32>], sub_len: usize) -> Vec<u8> {
    runs.iter()
        .flat_map(|run| &chunk[run.start as usize * sub_len..run.end as usize * sub_len])
        .copied()
        .collect()
}
