//! Timing reads. The clock is the caller's.
//!
//! Other work of a machine falls on a probe too, and limits of volumes are granted in
//! slices of time. So every size of reads is *visited* several times, in an order that differs
//! from round to round: what disturbs a while does not disturb one size alone, and how far visits
//! are apart tells how much it was. A visit that is held up in between, as a limit holds it,
//! counts from the end of one such stall to that of another: whole slices.

mod visit;

use super::fit::Sample;
use crate::{ReadAt, Result};
use visit::Visitor;
pub use visit::{Batch, steady};

/// Sizes of reads in KiB: from a page to where every device is at its full rate, and closer
/// together where block layers cut reads into pieces, so that steps show.
const SIZES: &[u64] = &[4, 16, 64, 256, 512, 768, 1024, 1280, 1536, 2048, 3072, 4096];
/// Sizes in KiB for which it is found out how many reads in flight are worth while ...
const SURVEYED: &[u64] = &[4, 16, 64, 256, 1024, 4096];
/// ... of these; of large ones a few are all that a device can use.
const DEPTHS: &[u32] = &[1, 4, 16, 64];
/// Most bytes in flight.
const FLIGHT_BYTES: u64 = 16 << 20;
/// Share of the time for that; the rest is for the visits.
const SURVEY_SHARE: f64 = 0.3;
/// A batch of a deeper survey may take so much of the time of one, if depth gains nothing.
const SURVEY_BATCH: f64 = 1.0;
/// A depth is enough from which on deeper ones are not faster by more than this.
const DEEP_ENOUGH: f64 = 1.15;
/// Visits of each size ...
const ROUNDS: usize = 4;
/// ... and most of those whose visits differ by more than this, while there is time.
const ROUNDS_MAX: usize = 9;
const SPREAD_WANTED: f64 = 0.05;
/// A probe takes at most so many times as long as it was told, for further visits.
const LONGER: f64 = 1.5;

/// Measurements.
#[derive(Clone, Debug)]
pub struct Measured {
    /// One for each size and depth.
    pub samples: Vec<Sample>,
    /// Reads asked for, and their bytes.
    pub reads: u64,
    /// See `reads`.
    pub bytes: u64,
    /// Seconds between the stalls of a device that grants reads in slices, where some were seen.
    pub slice_seconds: Option<f64>,
}

/// Measures reads at random places for about `seconds` on the clock `now`, for longer where visits
/// of a size differ or are held up; `said` hears of the bytes read after each visit.
pub fn measure(
    file: &dyn ReadAt,
    seconds: f64,
    seed: u64,
    now: &dyn Fn() -> f64,
    said: impl Fn(u64),
) -> Result<Measured> {
    let start = now();
    let fits = |kib: &&u64| (**kib << 10) * 4 <= file.len();
    let bytes = |kib: &u64| kib << 10;
    let sizes: Vec<u64> = SIZES.iter().filter(fits).map(bytes).collect();
    let in_flight = |size: u64, depth: u32| size * u64::from(depth) <= FLIGHT_BYTES;
    let survey: Vec<(u64, u32)> = SURVEYED
        .iter()
        .filter(fits)
        .map(bytes)
        .flat_map(|size| DEPTHS.iter().map(move |&depth| (size, depth)))
        .filter(|&(size, depth)| in_flight(size, depth))
        .collect();
    let mut visitor = Visitor::new(file, now, seed);
    let mut samples: Vec<Sample> = Vec::new();
    let budget = SURVEY_SHARE * seconds / survey.len().max(1) as f64;
    for &(size, depth) in &survey {
        // Where a few batches already take too long, deeper ones would take all the time.
        let last = samples.iter().rev().find(|sample| sample.bytes == size);
        let batch = last.map_or(0.0, |sample| sample.seconds_each * f64::from(depth));
        if batch > SURVEY_BATCH * budget {
            continue;
        }
        let seconds_each = visitor.visit(size, depth, budget, &said)?;
        samples.push(Sample::new(size, depth, seconds_each));
    }
    let depth = |size: u64| (1..=deep_enough(&samples, size)).rev().find(|&d| in_flight(size, d));
    let mut cells: Vec<Cell> = sizes
        .iter()
        .map(|&size| Cell { size, depth: depth(size).unwrap_or(1), visits: Vec::new() })
        .collect();
    let budget = (1.0 - SURVEY_SHARE) * seconds / (ROUNDS * cells.len().max(1)) as f64;
    for round in 0..ROUNDS_MAX {
        for at in visitor.shuffled(cells.len()) {
            let cell = &mut cells[at];
            let again = cell.sample().spread > SPREAD_WANTED && now() - start < LONGER * seconds;
            if round < ROUNDS || again {
                cell.visits.push(visitor.visit(cell.size, cell.depth, budget, &said)?);
            }
        }
    }
    for cell in &cells {
        samples.retain(|sample| (sample.bytes, sample.depth) != (cell.size, cell.depth));
        samples.push(cell.sample());
    }
    samples.sort_by_key(|sample| (sample.bytes, sample.depth));
    let (reads, bytes) = (visitor.reads, visitor.bytes);
    Ok(Measured { samples, reads, bytes, slice_seconds: visitor.slice_seconds() })
}

/// The least depth that is about as fast as the best, as the survey says of the next smaller size.
fn deep_enough(survey: &[Sample], size: u64) -> u32 {
    let like = survey.iter().map(|s| s.bytes).filter(|&bytes| bytes <= size).max();
    let alike = || survey.iter().filter(|s| Some(s.bytes) == like);
    let fastest = alike().map(|s| s.seconds_each).fold(f64::INFINITY, f64::min);
    let enough = alike().filter(|s| s.seconds_each <= DEEP_ENOUGH * fastest);
    enough.map(|s| s.depth).min().unwrap_or(1)
}

/// A size of reads and what its visits gave.
struct Cell {
    size: u64,
    depth: u32,
    /// Seconds of a read.
    visits: Vec<f64>,
}

impl Cell {
    /// Other work makes reads slower and never faster, so the typical visit is one of the faster
    /// ones; not the fastest, which a burst may have helped.
    fn sample(&self) -> Sample {
        let mut visits = self.visits.clone();
        visits.sort_by(f64::total_cmp);
        let Some(last) = visits.len().checked_sub(1) else {
            return Sample { visits: 0, ..Sample::new(self.size, self.depth, 1.0) };
        };
        let (typical, upper) = (visits[last / 3], visits[(2 * visits.len() / 3).min(last)]);
        let spread = (upper - visits[0]) / typical / 2.0;
        let count = visits.len() as u32;
        Sample { spread, visits: count, ..Sample::new(self.size, self.depth, typical) }
    }
}
