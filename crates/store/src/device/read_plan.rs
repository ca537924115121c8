//! Reads that a device is asked for, given the wanted ranges.

use super::{DeviceModel, cautious, joins::total};
use crate::issued;
use std::ops::Range;

/// The reads that get all that is wanted, and what the model expects of them.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadPlan {
    /// The reads, ascending, aligned, apart from each other.
    pub reads: Vec<Range<u64>>,
    /// Runs that were wanted.
    pub runs: usize,
    /// Bytes that were wanted.
    pub wanted_bytes: u64,
    /// Bytes of all reads.
    pub bytes: u64,
    /// Reads that the device charges: their number, or their pieces where it is handed pieces.
    pub operations: u64,
    /// Bytes of the widest gap that is read through; 0 when none is.
    pub widest_gap: u64,
    /// Seconds that the model expects for these reads, submitted together.
    pub seconds: f64,
    /// Seconds that it expects for one read a run.
    pub seconds_as_runs: f64,
    /// At worst, over all models that the probe allows: how many times as long these reads take as
    /// the faster of one read a run and one read of everything.
    pub risk: f64,
}

impl ReadPlan {
    /// The cheapest reads, by the model, for ranges wanted (ascending, not overlapping) where
    /// offsets are multiples of `alignment`.
    ///
    /// A model without pieces only sees the number of reads and their bytes. For every number of
    /// gaps that are read through, the narrowest gaps cost the fewest bytes; so trying them in
    /// order of their width tries everything that could be best. With pieces it matters which gaps
    /// those are: `pieces.rs` finds them where costs add up, and compares with what is found here
    /// where the larger cost counts, so that one read a run, reading everything and every width of
    /// gaps are never better than what is chosen.
    ///
    /// Where the probe was not certain, its other models are asked too, and the simple ways are
    /// left only for a gain that all of them promise: see `cautious.rs`.
    pub fn best(wanted: &[Range<u64>], alignment: u64, model: &DeviceModel) -> ReadPlan {
        let aligned = joined(&issued(wanted, alignment));
        let seconds_as_runs = model.seconds_of(&aligned);
        let cautious::Chosen { reads, risk } = cautious::choose(aligned.clone(), model);
        ReadPlan {
            runs: wanted.len(),
            wanted_bytes: total(wanted),
            bytes: total(&reads),
            operations: reads.iter().map(|read| model.operations(read.end - read.start)).sum(),
            widest_gap: widest_gap(&aligned, &reads),
            seconds: model.seconds_of(&reads),
            seconds_as_runs,
            risk,
            reads,
        }
    }

    /// One read a run, as without a model.
    pub fn as_runs(wanted: &[Range<u64>], alignment: u64, model: &DeviceModel) -> ReadPlan {
        let reads = issued(wanted, alignment);
        let (wanted_bytes, bytes) = (total(wanted), total(&reads));
        let seconds = model.seconds_of(&reads);
        let operations = reads.iter().map(|read| model.operations(read.end - read.start)).sum();
        let (runs, widest_gap, seconds_as_runs) = (wanted.len(), 0, seconds);
        let risk = 1.0;
        ReadPlan {
            reads,
            runs,
            wanted_bytes,
            bytes,
            operations,
            widest_gap,
            seconds,
            seconds_as_runs,
            risk,
        }
    }
}

/// The widest gap between runs that lies within a read.
fn widest_gap(aligned: &[Range<u64>], reads: &[Range<u64>]) -> u64 {
    let mut at = 0;
    let mut widest = 0;
    for pair in aligned.windows(2) {
        while reads[at].end < pair[0].end {
            at += 1;
        }
        if pair[1].end <= reads[at].end {
            widest = widest.max(pair[1].start - pair[0].end);
        }
    }
    widest
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
