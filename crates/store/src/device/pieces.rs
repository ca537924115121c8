//! The cheapest reads where long reads cost as many reads as they have pieces.
//!
//! The choice of gaps to read through then matters, and not only how many and how wide: a read that
//! ends just behind a piece's end pays for a whole piece more. Where costs add up the cheapest
//! choice is found exactly, in time n log n for n runs; where the larger of both costs counts, it
//! is found for a few prices of a read against a byte, each of which is a best trade between the
//! two.

use super::{Combine, DeviceModel, joins::merged};
use std::{collections::BTreeMap, ops::Range};

/// Prices tried where the larger cost counts: halvings between "only reads" and "only bytes".
const PRICES: u32 = 12;

/// Choices of reads for these runs, of which one is the best or near it.
pub(super) fn candidates(aligned: &[Range<u64>], model: &DeviceModel) -> Vec<Vec<Range<u64>>> {
    let Some(piece) = model.piece_bytes.filter(|_| !aligned.is_empty()) else { return Vec::new() };
    let (read, byte) = (model.read_seconds, model.byte_seconds);
    if model.combine == Combine::Sum {
        return vec![cheapest(aligned, piece, read, byte)];
    }
    // The more a read costs, the fewer reads and the more bytes: halve towards where both balance.
    let (mut low, mut high) = (0.0, 1.0);
    let mut found = Vec::new();
    for _ in 0..PRICES {
        let price = (low + high) / 2.0;
        let reads = cheapest(aligned, piece, price * read, (1.0 - price) * byte);
        let length = |read: &Range<u64>| read.end - read.start;
        let operations: u64 = reads.iter().map(|read| model.operations(length(read))).sum();
        let bytes: u64 = reads.iter().map(length).sum();
        let reads_bind = operations as f64 * read > bytes as f64 * byte;
        (low, high) = if reads_bind { (price, high) } else { (low, price) };
        found.push(reads);
    }
    found
}

/// The reads of least cost, where a read costs `read` a piece and `byte` a byte.
///
/// The best cover of the runs up to the j-th has a last read that begins at some run i. Its pieces
/// are ceil((end_j - start_i) / piece). With both written as a multiple of a piece and a rest that
/// is the difference of the multiples, and one more if end_j has the larger rest: so for every j
/// the best i is the best of two kinds, those with a rest that is not smaller and all others.
fn cheapest(aligned: &[Range<u64>], piece: u64, read: f64, byte: f64) -> Vec<Range<u64>> {
    let origin = aligned[0].start;
    let mut open = Open::default();
    // The first run of the last read of the best cover of runs 0..=j.
    let mut first = Vec::with_capacity(aligned.len());
    let mut cost = 0.0;
    for (at, run) in aligned.iter().enumerate() {
        let start = run.start - origin;
        let multiple = (start / piece) as f64;
        open.add(start % piece, (cost - byte * start as f64 - read * multiple, at));
        let end = run.end - origin;
        let (so_far, from) = open.best(end % piece, read);
        cost = so_far + byte * end as f64 + read * (end / piece) as f64;
        first.push(from);
    }
    let mut begins = vec![false; aligned.len()];
    let mut at = aligned.len();
    while at > 0 {
        at = first[at - 1];
        begins[at] = true;
    }
    merged(aligned, |at| !begins[at])
}

/// Runs at which a read may begin, by the rest of their place: only those that no other one beats
/// in both its rest and its cost. So the cost grows with the rest.
#[derive(Default)]
struct Open {
    by_rest: BTreeMap<u64, (f64, usize)>,
}

impl Open {
    fn add(&mut self, rest: u64, entry: (f64, usize)) {
        if self.by_rest.range(rest..).next().is_some_and(|(_, other)| other.0 <= entry.0) {
            return;
        }
        while let Some((&other, _)) =
            self.by_rest.range(..=rest).next_back().filter(|(_, other)| other.0 >= entry.0)
        {
            self.by_rest.remove(&other);
        }
        self.by_rest.insert(rest, entry);
    }

    /// The cheapest for an end with this rest, where one with a smaller rest costs a read more.
    fn best(&self, rest: u64, read: f64) -> (f64, usize) {
        let cheapest = self.by_rest.values().next().map(|&(cost, at)| (cost + read, at));
        let same = self.by_rest.range(rest..).next().map(|(_, &entry)| entry);
        let both = same.into_iter().chain(cheapest);
        // There always is one: the run itself was added.
        both.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((f64::INFINITY, 0))
    }
}
