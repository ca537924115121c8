//! Timing direct reads.

use std::time::Instant;

use kiln_pool::reads::fit::Sample;
use kiln_store::{BatchRead, ReadAt, StoreError};

/// Sizes of reads: from a page to where every device is at its full rate.
const SIZES: &[u64] = &[4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
/// Reads in flight.
const DEPTHS: &[u32] = &[1, 4, 16, 64];
/// Most bytes in flight.
const FLIGHT_BYTES: u64 = 16 << 20;
/// Batches of a sample at least: one to warm up and two to measure.
const BATCHES_MIN: usize = 3;
/// Bytes of a sample at most, so that a fast device is not read for nothing.
const SAMPLE_BYTES_MAX: u64 = 256 << 20;

/// What was measured.
pub struct Measured {
    /// One for each size and depth.
    pub samples: Vec<Sample>,
    /// Bytes read for it.
    pub bytes: u64,
}

/// Measures reads at random places for about `seconds`; `said` hears of the bytes read after each
/// sample.
///
/// # Errors
/// A read that fails.
pub fn measure(
    file: &dyn ReadAt,
    seconds: f64,
    seed: u64,
    said: impl Fn(u64),
) -> Result<Measured, StoreError> {
    let cells: Vec<(u64, u32)> = SIZES
        .iter()
        .filter(|&&size| size * 4 <= file.len())
        .flat_map(|&size| DEPTHS.iter().map(move |&depth| (size, depth)))
        .filter(|&(size, depth)| depth == 1 || size * u64::from(depth) <= FLIGHT_BYTES)
        .collect();
    let mut random = seed;
    let mut measured = Measured { samples: Vec::new(), bytes: 0 };
    for &(size, depth) in &cells {
        let budget = seconds / cells.len() as f64;
        let (sample, bytes) = sample(file, size, depth, budget, &mut random)?;
        measured.samples.push(sample);
        measured.bytes += bytes;
        said(bytes);
    }
    Ok(measured)
}

fn sample(
    file: &dyn ReadAt,
    size: u64,
    depth: u32,
    budget: f64,
    random: &mut u64,
) -> Result<(Sample, u64), StoreError> {
    let mut bytes = vec![0; (size * u64::from(depth)) as usize];
    let mut times = Vec::new();
    let (start, mut read) = (Instant::now(), 0);
    while times.len() < BATCHES_MIN
        || (start.elapsed().as_secs_f64() < budget && read < SAMPLE_BYTES_MAX)
    {
        let places = file.len() / size;
        let mut batch: Vec<BatchRead<'_>> = bytes
            .chunks_exact_mut(size as usize)
            .map(|buf| BatchRead::new(next(random) % places * size, buf))
            .collect();
        // In the order in which repairs read. The same place twice is one read to the device.
        batch.sort_by_key(|read| read.offset);
        batch.dedup_by_key(|read| read.offset);
        let (reads, began) = (batch.len(), Instant::now());
        file.read_batch(&mut batch)?;
        times.push((reads, began.elapsed().as_secs_f64()));
        read += reads as u64 * size;
    }
    // The beginning is not steady: throttled volumes grant a burst, drives wake up.
    let steady = &times[(times.len() / 4).max(1)..];
    let (reads, seconds) = steady.iter().fold((0, 0.0), |sum, t| (sum.0 + t.0, sum.1 + t.1));
    let seconds_each = (seconds / reads as f64).max(1e-9);
    Ok((Sample { bytes: size, depth, seconds_each }, read))
}

/// The generator of Steele, Lea and Flood (`SplitMix64`).
pub fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
