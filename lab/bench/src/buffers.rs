//! One arena for all engines: the same chunks at the same addresses for everybody.

use crate::BenchError;
use crate::engine::{Job, Operation, Reads, Stripe};
use memmap2::{Advice, MmapMut, MmapOptions};

/// Chunks start at an odd multiple of this after the last one's end, so that the same offset in
/// all chunks does not fall into one set of the first-level cache.
const LINE: usize = 64;
/// Cache lines between a chunk's end and the next one's start.
const STAGGER_LINES: usize = 5;

/// Memory for all cases, mapped once and touched where it is used.
#[derive(Debug)]
pub struct Arena {
    map: MmapMut,
}

impl Arena {
    /// Maps `bytes` of memory, with huge pages where the system allows and `huge` asks.
    ///
    /// # Errors
    /// The system has no such amount of memory.
    pub fn new(bytes: usize, huge: bool) -> Result<Arena, BenchError> {
        let memory = |source| BenchError::Memory { bytes, source };
        let map = MmapOptions::new().len(bytes.max(LINE)).map_anon().map_err(memory)?;
        // Refused where the system has none: then all engines have small pages.
        let advice = if huge { Advice::HugePage } else { Advice::NoHugePage };
        let _ = map.advise(advice);
        Ok(Arena { map })
    }

    /// Lays out the stripes of a job over the arena and fills the data chunks.
    ///
    /// # Errors
    /// The arena is too small.
    pub fn lay_out(&mut self, job: &Job, stripes: usize) -> Result<Buffers<'_>, BenchError> {
        let slot = job.chunk.next_multiple_of(LINE) + STAGGER_LINES * LINE;
        let per_stripe = slot * (job.n() + job.m);
        let needed = stripes * (per_stripe + slot * job.n());
        if needed > self.map.len() {
            let source = std::io::Error::other("the arena is smaller than this case");
            return Err(BenchError::Memory { bytes: needed, source });
        }
        let (chunks, packed) = self.map.split_at_mut(stripes * per_stripe);
        let mut buffers = Buffers { job: *job, stripes, slot, chunks, packed, packs: Vec::new() };
        for stripe in 0..stripes {
            for chunk in 0..job.k {
                fill(buffers.chunk_mut(stripe, chunk), (stripe * job.n() + chunk) as u64);
            }
        }
        Ok(buffers)
    }
}

/// Bytes of an arena that holds `stripes` stripes of this job's code, whatever the operation.
pub fn arena_bytes(job: &Job, stripes: usize) -> usize {
    let slot = job.chunk.next_multiple_of(LINE) + STAGGER_LINES * LINE;
    stripes * slot * (2 * job.n() + job.m)
}

/// Fills with bytes that depend on their position and on the chunk, and have no period.
pub fn fill(bytes: &mut [u8], seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
    for word in bytes.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
    }
}

/// The stripes of one case: n chunks each, then m chunks for what is rebuilt.
#[derive(Debug)]
pub struct Buffers<'a> {
    job: Job,
    stripes: usize,
    slot: usize,
    chunks: &'a mut [u8],
    packed: &'a mut [u8],
    packs: Vec<Pack>,
}

/// Where the partial chunks of one set of reads lie in the packed area.
#[derive(Debug)]
struct Pack {
    reads: Vec<Reads>,
    start: usize,
    /// Bytes of a stripe.
    size: usize,
    /// Offset and length within a stripe, for each of the reads.
    pieces: Vec<(usize, usize)>,
}

impl Buffers<'_> {
    /// One chunk of one stripe.
    pub fn chunk(&self, stripe: usize, chunk: usize) -> &[u8] {
        let start = self.start(stripe, chunk);
        &self.chunks[start..start + self.job.chunk]
    }

    fn chunk_mut(&mut self, stripe: usize, chunk: usize) -> &mut [u8] {
        let start = self.start(stripe, chunk);
        &mut self.chunks[start..start + self.job.chunk]
    }

    /// The i-th rebuilt chunk of a stripe.
    pub fn rebuilt(&self, stripe: usize, i: usize) -> &[u8] {
        self.chunk(stripe, self.job.n() + i)
    }

    /// Overwrites what engines write of stripe 0, so that a check cannot pass on old results.
    pub fn spoil(&mut self, job: &Job) {
        let (from, to) = match job.operation {
            Operation::Encode => (job.k, job.n()),
            _ => (job.n(), job.n() + job.m),
        };
        for chunk in from..to {
            fill(self.chunk_mut(0, chunk), u64::MAX - chunk as u64);
        }
    }

    fn start(&self, stripe: usize, chunk: usize) -> usize {
        (stripe * (self.job.n() + self.job.m) + chunk) * self.slot
    }

    /// Copies what is read of partial chunks of stripe 0 to where [`Buffers::views`] finds it.
    /// Other stripes keep what is there: speed does not depend on it.
    ///
    /// # Errors
    /// Engines want more different sets of partial chunks than fit.
    pub fn pack(&mut self, job: &Job, reads: &[Reads]) -> Result<(), BenchError> {
        if reads.iter().all(|read| read.sub_chunks.is_none()) {
            return Ok(());
        }
        let sub = job.chunk / job.alpha();
        let at = self.place(sub, reads)?;
        let pack = &self.packs[at];
        for (read, (offset, _)) in reads.iter().zip(&pack.pieces) {
            let from = read.chunk * self.slot;
            for (i, z) in read.sub_chunks.iter().flatten().enumerate() {
                let source = &self.chunks[from + *z as usize * sub..][..sub];
                self.packed[pack.start + offset + i * sub..][..sub].copy_from_slice(source);
            }
        }
        Ok(())
    }

    /// The pack of these reads, laid out and filled if they are new.
    fn place(&mut self, sub: usize, reads: &[Reads]) -> Result<usize, BenchError> {
        if let Some(at) = self.packs.iter().position(|pack| pack.reads == reads) {
            return Ok(at);
        }
        let mut size = 0;
        let pieces = reads.iter().map(|read| {
            let len = read.sub_chunks.as_ref().map_or(0, |list| list.len() * sub);
            let offset = size;
            size += len.next_multiple_of(LINE) + STAGGER_LINES * LINE;
            (offset, len)
        });
        let pieces: Vec<_> = pieces.collect();
        let start = self.packs.last().map_or(0, |pack| pack.start + self.stripes * pack.size);
        let end = start + size * self.stripes;
        if end > self.packed.len() {
            let source = std::io::Error::other("too many kinds of partial reads in one cell");
            return Err(BenchError::Memory { bytes: end, source });
        }
        fill(&mut self.packed[start..end], start as u64);
        self.packs.push(Pack { reads: reads.to_vec(), start, size, pieces });
        Ok(self.packs.len() - 1)
    }

    /// The stripes as an engine wants them that reads `reads` for `job`, which has the k, m and
    /// chunk of the layout.
    pub fn views(&mut self, job: &Job, reads: &[Reads]) -> Vec<Stripe<'_>> {
        let (slot, len) = (self.slot, job.chunk);
        // Inputs lie before outputs in a stripe: one cut separates what is read from what is
        // written.
        let (cut, outputs) = match job.operation {
            Operation::Encode => (job.k, job.m),
            _ => (job.n(), job.lost().len()),
        };
        let pack = self.packs.iter().find(|pack| pack.reads == reads);
        let packed: &[u8] = self.packed;
        let stripes = self.chunks.chunks_exact_mut(slot * (job.n() + job.m)).take(self.stripes);
        let view = |(s, stripe)| {
            let (before, after) = <[u8]>::split_at_mut(stripe, cut * slot);
            let before: &[u8] = before;
            let input = |(i, read): (usize, &Reads)| match (&read.sub_chunks, pack) {
                (Some(_), Some(pack)) => {
                    let (offset, len) = pack.pieces[i];
                    &packed[pack.start + s * pack.size + offset..][..len]
                }
                _ => &before[read.chunk * slot..][..len],
            };
            Stripe {
                inputs: reads.iter().enumerate().map(input).collect(),
                outputs: after
                    .chunks_exact_mut(slot)
                    .take(outputs)
                    .map(|chunk| &mut chunk[..len])
                    .collect(),
            }
        };
        stripes.enumerate().map(view).collect()
    }
}
