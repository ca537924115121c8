//! The read planner: which reads a device is asked for, given what is wanted of it.
//!
//! A repair plan says which sub-chunks a helper gives. They lie on its device in runs with gaps
//! between them, and a device may do better than one read a run: where a read costs more than the
//! bytes of a gap, the gap is read through. The planner weighs that by a [`DeviceModel`], which
//! `kiln probe` measures. Everything here is arithmetic: no device, no clock.
//!
//! G-Clay (section VII) leaves this to future work: "relaxing the access-optimal property of Clay
//! codes by reading some additional sub-chunks to reduce the number of I/O operations", and the
//! arrangement "within adjacent stripes". Both are one question here, since the runs of adjacent
//! stripes of a shard are just more runs of the same file.

pub(crate) mod ahead;
pub(crate) mod devices;
pub mod fit;
pub mod measure;
mod model;

use std::ops::Range;

use kiln_store::issued;

pub use devices::{Devices, ReadsReport};
pub use model::{Combine, DeviceModel};

/// The reads that get all that is wanted, and what the model expects of them.
///
/// ```
/// use kiln_pool::reads::{Combine, Cover, DeviceModel};
/// // A disk: 8 ms to get anywhere, then 150 MB/s. 1.2 MB cost as much as a read.
/// let disk = DeviceModel::new(8e-3, 1.0 / 150e6, Combine::Sum);
/// let wanted = [0..4096, 8192..12288, 9_000_000..9_004_096];
/// let cover = Cover::best(&wanted, 4096, &disk);
/// assert_eq!(cover.reads, [0..12288, 8_998_912..9_007_104]);
/// assert_eq!((cover.runs, cover.widest_gap), (3, 4096));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Cover {
    /// The reads, ascending, aligned, apart from each other.
    pub reads: Vec<Range<u64>>,
    /// Runs that were wanted.
    pub runs: usize,
    /// Bytes that were wanted.
    pub wanted_bytes: u64,
    /// Bytes of all reads.
    pub bytes: u64,
    /// Bytes of the widest gap that is read through; 0 when none is.
    pub widest_gap: u64,
    /// What the model expects of these reads, submitted together.
    pub seconds: f64,
    /// What it expects of one read a run.
    pub seconds_as_runs: f64,
}

impl Cover {
    /// The cheapest reads, by the model, for ranges wanted (ascending, not overlapping) where
    /// offsets are multiples of `alignment`.
    ///
    /// A model only sees the number of reads and their bytes. For every number of gaps that are
    /// read through, the narrowest gaps cost the fewest bytes; so trying them in order of their
    /// width tries everything that could be best.
    #[must_use]
    pub fn best(wanted: &[Range<u64>], alignment: u64, model: &DeviceModel) -> Cover {
        let aligned = joined(&issued(wanted, alignment));
        let least: u64 = total(&aligned);
        let mut widths: Vec<u64> = aligned.windows(2).map(|w| w[1].start - w[0].end).collect();
        widths.sort_unstable();
        let as_runs = model.seconds(aligned.len() as u64, least);
        let (mut seconds, mut through, mut bytes) = (as_runs, 0, least);
        for (at, &width) in widths.iter().enumerate() {
            bytes += width;
            let expected = model.seconds((aligned.len() - at - 1) as u64, bytes);
            if expected < seconds {
                (seconds, through) = (expected, at + 1);
            }
        }
        let widest_gap = if through == 0 { 0 } else { widths[through - 1] };
        // Gaps as wide as the widest: only so many of them as were counted.
        let mut ties = through - widths.partition_point(|&width| width < widest_gap).min(through);
        let mut reads: Vec<Range<u64>> = Vec::with_capacity(aligned.len() - through);
        for run in aligned {
            let gap = reads.last().map(|last| run.start - last.end);
            let take = through > 0
                && gap.is_some_and(|gap| {
                    let tie = gap == widest_gap && ties > 0;
                    ties -= usize::from(tie);
                    gap < widest_gap || tie
                });
            match reads.last_mut() {
                Some(last) if take => last.end = run.end,
                _ => reads.push(run),
            }
        }
        Cover {
            runs: wanted.len(),
            wanted_bytes: total(wanted),
            bytes: total(&reads),
            widest_gap,
            seconds,
            seconds_as_runs: as_runs,
            reads,
        }
    }

    /// One read a run, as without a model.
    #[must_use]
    pub fn as_runs(wanted: &[Range<u64>], alignment: u64, model: &DeviceModel) -> Cover {
        let reads = issued(wanted, alignment);
        let (wanted_bytes, bytes) = (total(wanted), total(&reads));
        let seconds = model.seconds(reads.len() as u64, bytes);
        let (runs, widest_gap, seconds_as_runs) = (wanted.len(), 0, seconds);
        Cover { reads, runs, wanted_bytes, bytes, widest_gap, seconds, seconds_as_runs }
    }
}

/// Ranges that touch (a run at a stripe's end and one at the next stripe's start) become one.
fn joined(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut out: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges.iter().filter(|range| !range.is_empty()) {
        match out.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => out.push(range.clone()),
        }
    }
    out
}

fn total(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

#[cfg(test)]
mod tests;
