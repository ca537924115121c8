//! Timing reads. The clock is the caller's.

use kiln_store::{BatchRead, ReadAt, StoreError};

use super::fit::Sample;

/// Sizes of reads in KiB: from a page to where every device is at its full rate, and closer
/// together where block layers cut reads into pieces, so that steps show.
const SIZES: &[u64] = &[4, 16, 64, 256, 512, 768, 1024, 1280, 1536, 2048, 3072, 4096];
/// Reads in flight; of large ones a few are all that a device can use.
const DEPTHS: &[u32] = &[1, 4, 16, 64];
const DEPTHS_LARGE: &[u32] = &[4, 16];
const LARGE_BYTES: u64 = 256 << 10;
/// Most bytes in flight.
const FLIGHT_BYTES: u64 = 16 << 20;
/// Batches of a sample at least: one to warm up and two to measure.
const BATCHES_MIN: usize = 3;
/// Bytes of a sample at most, so that a fast device is not read for nothing.
const SAMPLE_BYTES_MAX: u64 = 256 << 20;

/// What was measured.
///
/// ```
/// use kiln_pool::reads::measure::measure;
/// use kiln_store::{Append, Backend, MemoryBackend};
/// let disk = MemoryBackend::new();
/// disk.append("a", 0)?.append(&[7; 1 << 18])?;
/// // A clock that goes on by a millisecond whenever it is looked at.
/// let ticks = std::cell::Cell::new(0.0);
/// let now = || ticks.replace(ticks.get() + 1e-3);
/// let measured = measure(&*disk.open("a")?, 0.1, 1, &now, |_| {})?;
/// assert!(measured.samples.iter().all(|sample| sample.seconds_each > 0.0));
/// # Ok::<(), kiln_store::StoreError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Measured {
    /// One for each size and depth.
    pub samples: Vec<Sample>,
    /// Reads asked for, and their bytes.
    pub reads: u64,
    /// See `reads`.
    pub bytes: u64,
}

/// Measures reads at random places for about `seconds` on the clock `now`; `said` hears of the
/// bytes read after each sample.
///
/// # Errors
/// A read that fails.
pub fn measure(
    file: &dyn ReadAt,
    seconds: f64,
    seed: u64,
    now: &dyn Fn() -> f64,
    said: impl Fn(u64),
) -> Result<Measured, StoreError> {
    let depths = |size| if size < LARGE_BYTES { DEPTHS } else { DEPTHS_LARGE };
    let cells: Vec<(u64, u32)> = SIZES
        .iter()
        .map(|kib| kib << 10)
        .filter(|&size| size * 4 <= file.len())
        .flat_map(|size| depths(size).iter().map(move |&depth| (size, depth)))
        .filter(|&(size, depth)| size * u64::from(depth) <= FLIGHT_BYTES)
        .collect();
    let mut random = seed;
    let mut measured = Measured { samples: Vec::new(), reads: 0, bytes: 0 };
    for &(size, depth) in &cells {
        let budget = seconds / cells.len() as f64;
        let (sample, bytes) = sample(file, (size, depth), budget, now, &mut random)?;
        measured.samples.push(sample);
        measured.bytes += bytes;
        measured.reads += bytes / size;
        said(bytes);
    }
    Ok(measured)
}

fn sample(
    file: &dyn ReadAt,
    (size, depth): (u64, u32),
    budget: f64,
    now: &dyn Fn() -> f64,
    random: &mut u64,
) -> Result<(Sample, u64), StoreError> {
    let mut bytes = vec![0; (size * u64::from(depth)) as usize];
    let mut times = Vec::new();
    let (start, mut read) = (now(), 0);
    while times.len() < BATCHES_MIN || (now() - start < budget && read < SAMPLE_BYTES_MAX) {
        let places = file.len() / size;
        let mut batch: Vec<BatchRead<'_>> = bytes
            .chunks_exact_mut(size as usize)
            .map(|buf| BatchRead::new(next(random) % places * size, buf))
            .collect();
        // In the order in which repairs read. The same place twice is one read to the device.
        batch.sort_by_key(|read| read.offset);
        batch.dedup_by_key(|read| read.offset);
        let (reads, began) = (batch.len(), now());
        file.read_batch(&mut batch)?;
        times.push((reads, now() - began));
        read += reads as u64 * size;
    }
    // The beginning is not steady: throttled volumes grant a burst, drives wake up.
    let steady = &times[(times.len() / 3).max(1)..];
    let (reads, seconds) = steady.iter().fold((0, 0.0), |sum, t| (sum.0 + t.0, sum.1 + t.1));
    let seconds_each = (seconds / reads as f64).max(1e-9);
    Ok((Sample { bytes: size, depth, seconds_each }, read))
}

/// The next number of a sequence that looks random: the generator of Steele, Lea
/// and Flood (`SplitMix64`).
pub fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
