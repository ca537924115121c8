//! The paper's framework: buffers for data and coding devices, worked through block by block.

use crate::BenchError;
use crate::buffers::fill;
use crate::engine::{Operation, Stripe};
use kiln_code::{Shape, TemporalHint};
use memmap2::{Advice, MmapMut, MmapOptions};
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Buffers start at an odd number of cache lines after the last one's end.
const GAP: usize = 5 * 64;

/// How much memory a pass goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// 20 MB of data, as in the paper.
    Paper,
    /// All chunks together about 256 KiB, one block at least.
    Cache,
    /// 256 MiB of data.
    Dram,
    /// One block: for tests.
    Tiny,
}

impl Place {
    /// Whole blocks of packets for a code, or nothing where one block is too large for this place.
    pub fn blocks(self, shape: Shape, packet: usize) -> Option<usize> {
        let data = shape.k * shape.alpha * packet;
        let all = shape.n() * shape.alpha * packet;
        match self {
            Place::Paper => Some((20_000_000 / data).max(1)),
            Place::Cache => (all <= 640 << 10).then(|| ((256 << 10) / all).max(1)),
            Place::Dram => Some(((256 << 20) / data).max(1)),
            Place::Tiny => Some(2),
        }
    }

    /// What kiln's user says of it.
    pub fn hint(self) -> TemporalHint {
        match self {
            Place::Dram => TemporalHint::NonTemporal,
            _ => TemporalHint::Temporal,
        }
    }

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Place::Paper => "a buffer of 20 MB",
            Place::Cache => "in cache (256 KiB)",
            Place::Dram => "from DRAM (256 MiB)",
            Place::Tiny => "two blocks",
        }
    }
}

/// The chunks of one code, and room for two that are rebuilt; all of them twice, as bytes and as
/// 64-bit words.
pub struct Fixture {
    map: MmapMut,
    words: Vec<AtomicU64>,
    shape: Shape,
    packet: usize,
    blocks: usize,
    slot: usize,
}

impl Fixture {
    /// Maps and fills the buffers.
    ///
    /// # Errors
    /// The system has no such amount of memory.
    pub fn new(shape: Shape, packet: usize, blocks: usize) -> Result<Fixture, BenchError> {
        let chunk = blocks * shape.alpha * packet;
        let slot = chunk.next_multiple_of(64) + GAP;
        let bytes = slot * (shape.n() + 2);
        let memory = |source| BenchError::Memory { bytes, source };
        let map = MmapOptions::new().len(bytes).map_anon().map_err(memory)?;
        // Refused where the system has none: then everybody has small pages.
        let _ = map.advise(Advice::HugePage);
        let mut words = Vec::new();
        words.resize_with(bytes / 8, AtomicU64::default);
        let mut fixture = Fixture { map, words, shape, packet, blocks, slot };
        for index in 0..shape.n() + 2 {
            let chunk = fixture.range(index);
            fill(&mut fixture.map[chunk.clone()], index as u64);
            let bytes = fixture.map[chunk.clone()].chunks_exact(8);
            for (word, bytes) in fixture.words[chunk.start / 8..].iter().zip(bytes) {
                let bytes = bytes.try_into().unwrap_or_default();
                word.store(u64::from_le_bytes(bytes), Relaxed);
            }
        }
        Ok(fixture)
    }

    /// Bytes of a chunk.
    pub fn chunk(&self) -> usize {
        self.blocks * self.shape.alpha * self.packet
    }

    /// Bytes of data in a pass.
    pub fn data(&self) -> usize {
        self.shape.k * self.chunk()
    }

    fn range(&self, index: usize) -> std::ops::Range<usize> {
        index * self.slot..index * self.slot + self.chunk()
    }

    /// Which buffers an operation writes.
    fn written(&self, operation: Operation) -> std::ops::Range<usize> {
        let n = self.shape.n();
        match operation {
            Operation::Encode => self.shape.k..n,
            _ => n..n + 2,
        }
    }

    /// A chunk's first block: what everybody's results are compared with.
    pub fn first_block(&self, index: usize) -> &[u8] {
        &self.map[self.range(index)][..self.shape.alpha * self.packet]
    }

    /// Overwrites the beginning of a chunk, as bytes and as words.
    pub fn set(&mut self, index: usize, chunk: &[u8]) {
        let range = self.range(index);
        self.map[range.start..][..chunk.len()].copy_from_slice(chunk);
        for (word, bytes) in self.words[range.start / 8..].iter().zip(chunk.chunks_exact(8)) {
            word.store(u64::from_le_bytes(bytes.try_into().unwrap_or_default()), Relaxed);
        }
    }

    /// The chunks read and written, as bytes.
    pub fn stripe(&mut self, operation: Operation, reads: &[usize]) -> Stripe<'_> {
        let (written, chunk) = (self.written(operation), self.chunk());
        let (before, after) = self.map.split_at_mut(written.start * self.slot);
        let before: &[u8] = before;
        Stripe {
            inputs: reads.iter().map(|read| &before[read * self.slot..][..chunk]).collect(),
            outputs: after
                .chunks_mut(self.slot)
                .take(written.len())
                .map(|slot| &mut slot[..chunk])
                .collect(),
        }
    }

    /// The chunks read and written as words, block by block; `temporary` comes last in each.
    pub fn words<'a>(
        &'a self,
        operation: Operation,
        reads: &[usize],
        temporary: &'a [AtomicU64],
    ) -> Vec<Vec<&'a [AtomicU64]>> {
        let block = self.shape.alpha * self.packet / 8;
        let chunks: Vec<usize> = reads.iter().copied().chain(self.written(operation)).collect();
        let of_block = |b: usize| {
            let start = |chunk: usize| chunk * self.slot / 8 + b * block;
            let parts = chunks.iter().map(|&chunk| &self.words[start(chunk)..][..block]);
            parts.chain([temporary]).collect()
        };
        (0..self.blocks).map(of_block).collect()
    }

    /// The first blocks that an operation wrote.
    pub fn results(&self, operation: Operation, as_words: bool) -> Vec<Vec<u8>> {
        let block = self.shape.alpha * self.packet;
        self.written(operation)
            .map(|index| match as_words {
                false => self.first_block(index).to_vec(),
                true => {
                    let words = &self.words[self.range(index).start / 8..][..block / 8];
                    words.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect()
                }
            })
            .collect()
    }
}
