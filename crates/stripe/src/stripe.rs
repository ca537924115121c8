//! Reading one stripe with verification, re-planning around what turns out to be damaged.
//!
//! Decode, verify and repair all read by [`StripeReader`]. A chunk that cannot be read or fails
//! its checksums is an erasure of that stripe only; the same shard may help in the next stripe.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{ops::Range, sync::Arc, time::Instant};

use kiln_code::{CodeError, Codec, RepairPlan};
use kiln_store::{ShardReader, StoreError};

use crate::frame::{Arrived, Buffer, Frame, Hedged, Held};
use crate::pace::Purpose;
use crate::{
    PoolError, ReadsReport, Result, Settings, chunks::Chunks, hedge::Hedge, pipeline,
    read_ahead::ReadAhead, rounds, sequence::Sequence,
};

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
    /// Leaves late reads behind.
    hedge: Option<&'a Arc<Hedge>>,
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
        let hedge = settings.hedge.filter(|_| sequence.is_none());
        StripeReader { chunks, planner, sequence, read_ahead: None, usable, hedge, records }
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
        frame.hedged = self.hedge.map(|_| Hedged::default());
    }

    fn may_read(&self, chunk: usize, stripe: u64, frame: &Frame) -> bool {
        self.usable[chunk]
            && self.chunks.read_plans(chunk, stripe)
            && frame.bad.iter().all(|(bad, _)| *bad != chunk)
    }

    /// Returns whether a chunk is better not read now: its node is slow.
    fn is_slow(&self, chunk: usize, frame: &Frame) -> bool {
        let (Some(hedge), Some(hedged)) = (self.hedge, &frame.hedged) else { return false };
        let node = || self.chunks.node_name(chunk);
        !hedged.patient && (hedged.late.contains(&chunk) || hedge.is_left_out(&node()))
    }

    /// Returns whether runs that are wanted of a chunk are made of others: its node is slow, and
    /// these may be read. It is probed now and then.
    fn avoids(
        &self,
        (chunk, stripe): (usize, u64),
        runs: &[Range<u32>],
        frame: &mut Frame,
    ) -> bool {
        let (Some(hedge), Some(hedged)) = (self.hedge, &mut frame.hedged) else { return false };
        let node = self.chunks.node_name(chunk);
        if hedged.patient || !hedge.is_left_out(&node) {
            return !hedged.patient && hedged.late.contains(&chunk);
        }
        let bytes = runs.iter().map(|run| run.len()).sum::<usize>() * frame.sub_len;
        if let (Some(reader), runs) = (self.chunks.shared(chunk), runs.to_vec()) {
            let read = move || drop(reader.read_runs(stripe, &runs, &mut vec![0; bytes]));
            hedge.probe((&node, bytes as u64), read);
        }
        let avoids = hedge.avoid(&node, bytes as u64);
        hedged.around |= avoids;
        // One that was not opened for the same reason is needed now.
        let avoids = avoids || hedged.late.contains(&chunk);
        while !avoids && !self.chunks.read_plans(chunk, stripe) && self.chunks.wait_for_late() {}
        avoids
    }

    /// Waits for one of the late reads of a stripe that cannot be had without them; where there is
    /// none, from now on for all reads, and then for shards that were not opened. False where that
    /// changes nothing.
    fn be_patient(&self, frame: &mut Frame) -> bool {
        let Some(hedged) = &mut frame.hedged else { return false };
        if !hedged.late.is_empty()
            && let Ok(one) = hedged.ends.1.recv()
        {
            self.take(one, frame);
            return true;
        }
        !std::mem::replace(&mut hedged.patient, true) || self.chunks.wait_for_late()
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
            frame.held[chunk] != Held::Whole
                && !self.avoids((chunk, stripe), &all, frame)
                && self.may_read(chunk, stripe, frame)
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
        let bytes = run.len() * frame.sub_len;
        let runs = std::iter::once(run).collect::<Vec<_>>();
        if self.avoids((chunk, stripe), &runs, frame) || !self.may_read(chunk, stripe, frame) {
            return None;
        }
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
            if let Some(hedged) = &mut frame.hedged {
                hedged.goal.clone_from(&lost);
            }
            let plan = self.plan(stripe, frame, &lost, |available| {
                match (self.planner, &self.read_ahead) {
                    (Planner::Repair, Some(read_ahead)) => read_ahead.plan(&lost, available),
                    (Planner::Repair, None) => codec.repair_plan(&lost, available),
                    (Planner::Decode, _) => codec.decode_plan(&lost, available),
                }
            });
            let plan = match plan {
                Err(PoolError::StripeLost { .. }) if self.be_patient(frame) => {
                    self.read_whole(stripe, frame, lost);
                    continue;
                }
                plan => plan?,
            };
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
            let plan = match self.plan(stripe, frame, &lost, make) {
                // Its caller then wants whole chunks, and those may be there but slow.
                Err(PoolError::StripeLost { .. }) if frame.hedged.is_some() => return Ok(None),
                plan => plan?,
            };
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
        let slow = |c: usize| frame.held[c] != Held::Whole && self.is_slow(c, frame);
        let quick: Vec<usize> = good.iter().copied().filter(|&c| !slow(c)).collect();
        if let Some(hedged) = frame.hedged.as_ref().filter(|hedged| !hedged.patient)
            && quick.len() < good.len()
        {
            // Slow nodes come before those that do not answer.
            let there: Vec<usize> =
                good.iter().copied().filter(|c| !hedged.late.contains(c)).collect();
            let answer = plan(&quick).or_else(|_| plan(&there));
            return answer.map_err(|error| self.lost(error, stripe, &there));
        }
        let first = plan(&good);
        let answer = if first.is_err() && good.len() < all.len() { plan(&all) } else { first };
        answer.map_err(|error| self.lost(error, stripe, &all))
    }

    fn lost(&self, error: CodeError, stripe: u64, all: &[usize]) -> PoolError {
        let shape = self.chunks.codec().shape();
        match error {
            CodeError::NotRecoverable { .. } => PoolError::StripeLost {
                object: self.chunks.object().to_owned(),
                stripe,
                lost: (0..shape.n()).filter(|c| !all.contains(c)).collect(),
                m: shape.m,
            },
            other => other.into(),
        }
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
        if let (Some(hedge), Some(hedged)) = (self.hedge, &frame.hedged)
            && !hedged.patient
            && self.read_ahead.is_none()
        {
            let shared = wanted.iter().map(|want| Some((want, self.chunks.shared(want.chunk)?)));
            if let Some(shared) = shared.collect() {
                return self.load_first(hedge, stripe, shared, frame, held);
            }
        }
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
                frame.failed(chunk, &error);
                complete = false;
            }
        }
        complete
    }

    /// The same without waiting for reads that are late, as long as others may be made instead. A
    /// late one that comes before what is read in its place is taken.
    fn load_first(
        &self,
        hedge: &Arc<Hedge>,
        stripe: u64,
        wanted: Vec<(&Want<'_>, Arc<ShardReader>)>,
        frame: &mut Frame,
        held: Held,
    ) -> bool {
        let Some(hedged) = &frame.hedged else { return false };
        let begun = Instant::now();
        let purpose = match (hedged.late.is_empty(), hedged.around) {
            (false, _) => Purpose::Instead,
            (true, true) if wanted.iter().all(|(want, _)| want.helps) => Purpose::Around,
            _ => Purpose::Wanted,
        };
        let (tell, ends) = hedged.ends.clone();
        let (mut pending, mut most, mut complete) = (Vec::new(), 0, true);
        for (want, reader) in wanted {
            let (chunk, runs, helps) = (want.chunk, want.runs.to_vec(), want.helps);
            let bytes = runs.iter().map(|run| run.len()).sum::<usize>() * frame.sub_len;
            self.records[chunk].tries.fetch_add(1, Ordering::Relaxed);
            let (mut buffer, tell) = (frame.bufs[chunk].take(), tell.clone());
            frame.held[chunk] = Held::Nothing;
            let node = self.chunks.node_name(chunk);
            let read = move || {
                let read = || reader.read_runs(stripe, &runs, buffer.writable(bytes));
                let end = catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
                    let (part, what) = ("shard".to_owned(), "its reader panicked".to_owned());
                    Err(StoreError::Damaged {
                        place: String::new(),
                        name: String::new(),
                        part,
                        what,
                    })
                });
                // The stripe may be done with.
                let _ = tell.send(Arrived { chunk, buffer, held, helps, end });
            };
            pending.push((chunk, hedge.begin((&node, bytes as u64), purpose, read)));
            most = most.max(bytes as u64);
        }
        let of = pending.len();
        while !pending.is_empty() {
            let numbers: Vec<u64> = pending.iter().map(|(_, number)| *number).collect();
            let Some(one) = hedge.wait(&ends, (begun, most), (&numbers, of)) else { break };
            let chunk = one.chunk;
            let asked = pending.iter().position(|(of, _)| *of == chunk);
            let good = self.take(one, frame);
            match asked {
                Some(at) => {
                    pending.swap_remove(at);
                    complete &= good;
                }
                // Nothing of what is read in its place is needed any more.
                None if frame.is_reached() => return false,
                None => {}
            }
        }
        if let Some(hedged) = &mut frame.hedged {
            hedged.late.extend(pending.iter().map(|(chunk, _)| *chunk));
        }
        complete && pending.is_empty()
    }

    /// Takes what was read into the frame; false where the read failed.
    fn take(&self, one: Arrived, frame: &mut Frame) -> bool {
        let chunk = one.chunk;
        let is_late = frame.hedged.as_mut().is_some_and(|hedged| {
            let before = hedged.late.len();
            hedged.late.retain(|late| *late != chunk);
            hedged.late.len() < before
        });
        match one.end {
            Ok(cost) => {
                frame.costs[chunk].add(&cost, one.helps);
                // Runs that came late are those of a plan that was given up.
                if !is_late || one.held == Held::Whole {
                    frame.bufs[chunk] = one.buffer;
                    frame.held[chunk] = one.held;
                }
                true
            }
            Err(error) => {
                self.records[chunk].failures.fetch_add(1, Ordering::Relaxed);
                frame.held[chunk] = Held::Nothing;
                frame.failed(chunk, &error);
                false
            }
        }
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
