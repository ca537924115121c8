//! Runs that become one read: by the widths of the gaps between them.

use super::DeviceModel;
use std::ops::Range;

/// Reads that go through the narrowest gaps: so many of them that the model says it is cheapest.
pub(super) fn by_width(aligned: &[Range<u64>], model: &DeviceModel) -> Vec<Range<u64>> {
    let gap = |pair: &[Range<u64>]| pair[1].start - pair[0].end;
    let mut order: Vec<usize> = (1..aligned.len()).collect();
    // Of gaps as wide, the first come first: their reads become long, and later ones stay short.
    order.sort_by_key(|&at| gap(&aligned[at - 1..=at]));
    let length = |read: &Range<u64>| read.end - read.start;
    let mut joins = Joins::new(aligned.len());
    let mut bytes = total(aligned);
    let mut operations: u64 = aligned.iter().map(|run| model.operations(length(run))).sum();
    let (mut seconds, mut through) = (model.seconds(operations, bytes), 0);
    for (done, &at) in order.iter().enumerate() {
        let (left, right) = joins.join(at);
        let span = |runs: &Range<usize>| aligned[runs.end - 1].end - aligned[runs.start].start;
        operations -= model.operations(span(&left)) + model.operations(span(&right));
        operations += model.operations(span(&(left.start..right.end)));
        bytes += gap(&aligned[at - 1..=at]);
        let expected = model.seconds(operations, bytes);
        if expected < seconds {
            (seconds, through) = (expected, done + 1);
        }
    }
    let mut taken = vec![false; aligned.len()];
    order[..through].iter().for_each(|&at| taken[at] = true);
    merged(aligned, |at| taken[at])
}

/// Runs that are one read by now: the first of a read knows its end, the last its beginning.
struct Joins {
    other_end: Vec<usize>,
}

impl Joins {
    fn new(runs: usize) -> Joins {
        Joins { other_end: (0..runs).collect() }
    }

    /// Joins the read that ends before run `at` with the one that begins there; gives both.
    fn join(&mut self, at: usize) -> (Range<usize>, Range<usize>) {
        let (first, last) = (self.other_end[at - 1], self.other_end[at]);
        self.other_end[first] = last;
        self.other_end[last] = first;
        (first..at, at..last + 1)
    }
}

/// Runs as reads, where `through(i)` says whether the gap before run i is read.
pub(super) fn merged(aligned: &[Range<u64>], through: impl Fn(usize) -> bool) -> Vec<Range<u64>> {
    let mut reads: Vec<Range<u64>> = Vec::new();
    for (at, run) in aligned.iter().enumerate() {
        match reads.last_mut() {
            Some(last) if through(at) => last.end = run.end,
            _ => reads.push(run.clone()),
        }
    }
    reads
}

/// Bytes of ranges.
pub(super) fn total(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}
