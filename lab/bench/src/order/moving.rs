//! The paper's experiment 6: what an order costs where data is written and where it is read. The
//! paper encodes in natural order and moves the sub-chunks of every chunk before they are written,
//! and back after they are read, with one thread or with eight (its section IV-C). kiln relabels,
//! so nothing is moved. In memory, and with the files of a disk, as the paper's times have it; no
//! network.

use super::Options;
use super::tables::codec;
use crate::BenchError;
use crate::buffers::fill;
use crate::measure::{Seconds, Spread, Stopwatch, interleave, paired_ratio};
use kiln_code::{Codec, Order, TemporalHint};
use kiln_store::checksum;
use rustix::fs::{Advice, fadvise};
use serde::Serialize;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use tempfile::TempDir;

/// Threads of the paper's restore.
const THREADS: usize = 8;
const CODE: &str = "16+2";
/// 2 MiB chunks, as in the paper.
const SUB_CHUNK: usize = 4096;

/// One way, in one direction.
#[derive(Debug, Serialize)]
pub struct Moving {
    /// One of `WORKS`.
    pub work: &'static str,
    /// What is done.
    pub how: &'static str,
    /// Object bytes, GB/s.
    pub rate: Spread,
    /// How much longer it takes than natural order does, median over rounds, in percent.
    pub slower: f64,
}

impl Moving {
    pub(super) fn name(&self) -> String {
        format!("{}, {}", self.work, self.how)
    }
}

const HOW: [&str; 4] =
    ["natural", "relabelled (kiln)", "moved, 1 thread (paper)", "moved, 8 threads (paper)"];

/// In memory: encoding and checksums; checksums alone. Then with a file for each chunk, written and
/// synced; and read, not from the page cache.
const WORKS: [&str; 4] = ["encode", "read", "encode to disk", "read from disk"];

struct Fixture {
    folder: TempDir,
    natural: Codec,
    gray: Codec,
    layers: Vec<u32>,
    sub_chunk: usize,
    data: Vec<Vec<u8>>,
    parity: Vec<Vec<u8>>,
    /// Where sub-chunks are moved to.
    moved: Vec<Vec<u8>>,
}

impl Fixture {
    fn new(sub_chunk: usize, options: &Options<'_>) -> Result<Fixture, BenchError> {
        let path = options.out.map_or_else(std::env::temp_dir, PathBuf::from);
        let folder = std::fs::create_dir_all(&path).and_then(|()| tempfile::tempdir_in(&path));
        let folder = folder.map_err(|source| BenchError::Report { path, source })?;
        let (natural, gray) = (codec(CODE, "natural")?, codec(CODE, "gray")?);
        let shape = natural.shape();
        let chunk = shape.alpha * sub_chunk;
        let layers = match gray.layers() {
            Some(layers) => Order::new(layers, gray.order())?.layers().to_vec(),
            None => Vec::new(),
        };
        let mut data = vec![vec![0; chunk]; shape.k];
        for (seed, chunk) in data.iter_mut().enumerate() {
            fill(chunk, seed as u64);
        }
        let (parity, moved) = (vec![vec![0; chunk]; shape.m], vec![vec![1; chunk]; shape.n()]);
        Ok(Fixture { folder, natural, gray, layers, sub_chunk, data, parity, moved })
    }

    fn encode(&mut self, how: usize) -> Result<(), BenchError> {
        let codec = if how == 1 { &self.gray } else { &self.natural };
        let data: Vec<&[u8]> = self.data.iter().map(|chunk| &chunk[..]).collect();
        let mut parity: Vec<&mut [u8]> = self.parity.iter_mut().map(|c| &mut c[..]).collect();
        codec.encode_on(&data, &mut parity, TemporalHint::NonTemporal)?;
        let chunks: Vec<&[u8]> =
            self.data.iter().chain(&self.parity).map(|chunk| &chunk[..]).collect();
        if how >= 2 {
            move_all(&chunks, &mut self.moved, &self.layers, self.sub_chunk, threads(how), false);
            self.moved.iter().for_each(|chunk| sums(chunk, self.sub_chunk));
        } else {
            chunks.iter().for_each(|chunk| sums(chunk, self.sub_chunk));
        }
        Ok(())
    }

    fn file(&self, chunk: usize) -> PathBuf {
        self.folder.path().join(format!("chunk{chunk}"))
    }

    /// Writes what [`Fixture::encode`] left, as it is done for an object: synced.
    fn write(&self, how: usize) -> Result<(), BenchError> {
        let natural = || self.data.iter().chain(&self.parity);
        let chunks: Vec<&Vec<u8>> =
            if how >= 2 { self.moved.iter().collect() } else { natural().collect() };
        for (index, chunk) in chunks.into_iter().enumerate() {
            let path = self.file(index);
            let done = File::create(&path).and_then(|mut file| {
                file.write_all(chunk)?;
                file.sync_data()
            });
            done.map_err(|source| BenchError::Report { path, source })?;
        }
        Ok(())
    }

    /// Fills the data chunks from their files, which are then dropped from the page cache.
    fn fetch(&mut self) -> Result<(), BenchError> {
        for index in 0..self.data.len() {
            let path = self.file(index);
            let mut done = || -> io::Result<()> {
                let mut file = File::open(&path)?;
                file.read_exact(&mut self.data[index])?;
                Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
            };
            done().map_err(|source| BenchError::Report { path: path.clone(), source })?;
        }
        Ok(())
    }

    fn work(&mut self, work: &str, how: usize) -> Result<(), BenchError> {
        match work {
            "encode" => self.encode(how)?,
            "encode to disk" => {
                self.encode(how)?;
                self.write(how)?;
            }
            "read" => self.read(how),
            _ => {
                self.fetch()?;
                self.read(how);
            }
        }
        Ok(())
    }

    fn read(&mut self, how: usize) {
        // The chunks lie in memory as a disk would give them; their checksums are looked at.
        self.data.iter().for_each(|chunk| sums(chunk, self.sub_chunk));
        if how >= 2 {
            let chunks: Vec<&[u8]> = self.data.iter().map(|chunk| &chunk[..]).collect();
            move_all(&chunks, &mut self.moved, &self.layers, self.sub_chunk, threads(how), true);
        }
    }
}

fn threads(how: usize) -> usize {
    if how == 2 { 1 } else { THREADS }
}

fn sums(chunk: &[u8], sub_chunk: usize) {
    chunk.chunks(sub_chunk).for_each(|piece| {
        black_box(checksum(piece));
    });
}

/// Moves the sub-chunks of all chunks, each thread an equal range of every chunk's positions.
fn move_all(
    chunks: &[&[u8]],
    moved: &mut [Vec<u8>],
    layers: &[u32],
    sub_chunk: usize,
    threads: usize,
    back: bool,
) {
    // Where the sub-chunk of a target's position comes from.
    let mut from: Vec<u32> = layers.to_vec();
    if back {
        for (position, &layer) in layers.iter().enumerate() {
            from[layer as usize] = position as u32;
        }
    }
    let each = from.len().div_ceil(threads);
    let mut shares: Vec<Vec<(&[u8], &mut [u8])>> = (0..threads).map(|_| Vec::new()).collect();
    for (chunk, target) in chunks.iter().zip(moved) {
        for (share, piece) in shares.iter_mut().zip(target.chunks_mut(each * sub_chunk)) {
            share.push((chunk, piece));
        }
    }
    let work = |range: &[u32], share: Vec<(&[u8], &mut [u8])>| {
        for (chunk, target) in share {
            for (piece, &position) in target.chunks_exact_mut(sub_chunk).zip(range) {
                let start = position as usize * sub_chunk;
                piece.copy_from_slice(&chunk[start..start + sub_chunk]);
            }
        }
    };
    std::thread::scope(|scope| {
        let mut ranges = from.chunks(each).zip(shares);
        let own = ranges.next();
        for (range, share) in ranges {
            scope.spawn(move || work(range, share));
        }
        if let Some((range, share)) = own {
            work(range, share);
        }
    });
}

/// Measures both directions.
pub fn measure(options: &Options<'_>) -> Result<Vec<Moving>, BenchError> {
    let mut fixture = Fixture::new(if options.tiny { 16 } else { SUB_CHUNK }, options)?;
    let mut rows = Vec::new();
    // Files that reads can find, whatever was written last.
    fixture.work("encode to disk", 0)?;
    for work in WORKS {
        let samples = interleave(HOW.len(), &options.effort(), &mut |how, repeats| {
            let watch = Stopwatch::start();
            for _ in 0..repeats {
                fixture.work(work, how)?;
            }
            Ok::<Seconds, BenchError>(watch.read())
        })?;
        let bytes = fixture.data.iter().map(Vec::len).sum::<usize>() as f64;
        for (how, seconds) in samples.iter().enumerate() {
            let rates: Vec<f64> = seconds.iter().map(|seconds| bytes / seconds / 1e9).collect();
            let slower = 100.0 * (paired_ratio(seconds, &samples[0]) - 1.0);
            rows.push(Moving { work, how: HOW[how], rate: Spread::of(&rates), slower });
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The baseline does what the paper says: there and back again, whatever the threads.
    #[test]
    fn moving_there_and_back_gives_the_data() -> Result<(), BenchError> {
        let fixture = Fixture::new(24, &Options { tiny: true, out: None })?;
        let chunks: Vec<&[u8]> = fixture.data.iter().map(|chunk| &chunk[..]).collect();
        for threads in [1, 3, 8] {
            let mut moved = vec![vec![0; chunks[0].len()]; chunks.len()];
            move_all(&chunks, &mut moved, &fixture.layers, 24, threads, false);
            assert!(
                moved[0][24..72]
                    == chunks[0][24..48]
                        .iter()
                        .chain(&chunks[0][72..96])
                        .copied()
                        .collect::<Vec<u8>>()[..],
                "0, 1, 3, 2: positions 1 and 2 are layers 1 and 3"
            );
            let there: Vec<&[u8]> = moved.iter().map(|chunk| &chunk[..]).collect();
            let mut back = vec![vec![0; chunks[0].len()]; chunks.len()];
            move_all(&there, &mut back, &fixture.layers, 24, threads, true);
            assert!(back == fixture.data, "{threads} threads");
        }
        Ok(())
    }
}
