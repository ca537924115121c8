//! Reading a log: what several copies of it hold together.

use crate::record::{self, ALIGN, BatchId, Trust};
use std::collections::BTreeMap;

/// Batches of one generation by their numbers, as bytes.
pub(crate) type Batches = BTreeMap<u64, Vec<u8>>;

/// Adds what a copy of a log holds of a generation, from a batch on.
pub(crate) fn collect(
    copy: &[u8],
    volume: [u8; 16],
    generation: u64,
    trust: &Trust,
    first: u64,
    into: &mut Batches,
) {
    each(copy, volume, generation, trust, |seq, bytes| {
        if seq >= first {
            into.entry(seq).or_insert_with(|| bytes.to_vec());
        }
    });
}

/// Reads a generation from a copy of a log: the batches that are whole, as they lie there.
pub(crate) fn each(
    copy: &[u8],
    volume: [u8; 16],
    generation: u64,
    trust: &Trust,
    mut tell: impl FnMut(u64, &[u8]),
) {
    let mut at = 0;
    while at + ALIGN <= copy.len() {
        let step = match record::parse(&copy[at..], trust) {
            Some(batch) => {
                let BatchId { seq, .. } = batch.id;
                if (batch.id.volume, batch.id.generation) == (volume, generation) {
                    tell(seq, &copy[at..at + batch.len]);
                }
                batch.len
            }
            None => ALIGN,
        };
        at += step;
    }
}

/// The first batch that is missing although a later one is there: the later one proves that it was
/// acknowledged.
pub(crate) fn hole(batches: &Batches, first: u64) -> Option<u64> {
    (first..).zip(batches.keys()).find(|(want, have)| want != *have).map(|(want, _)| want)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BLOCK;
    use crate::record::{Change, encode};

    fn batch(generation: u64, seq: u64, blocks: usize) -> Vec<u8> {
        let data: Vec<u8> =
            (0..blocks * BLOCK).map(|i| (i as u64 * 13 + i as u64 / 256 * 7 + seq) as u8).collect();
        let changes = [Change::Data { block: seq, bytes: &data }];
        let mut out = Vec::new();
        encode(
            &BatchId { volume: [1; 16], generation, seq },
            &changes,
            &Trust::Checksums,
            &mut out,
        );
        out
    }

    #[test]
    fn copies_complete_each_other_and_old_laps_do_not_count() {
        let (old, gone) = (batch(2, 3, 2), batch(1, 9, 1));
        let all: Vec<Vec<u8>> = (7..12).map(|seq| batch(2, seq, 1 + seq as usize % 3)).collect();
        // Two copies that have lost one batch each, and the second the last one too.
        let copy = |without: usize, end: usize| {
            let mut bytes = Vec::new();
            for (at, one) in all[..end].iter().enumerate() {
                let damaged = vec![0; one.len()];
                bytes.extend_from_slice(if at == without { &damaged } else { one });
            }
            [bytes, vec![0; 1024], old.clone(), gone.clone()].concat()
        };
        let mut found = Batches::new();
        collect(&copy(1, 5), [1; 16], 2, &Trust::Checksums, 7, &mut found);
        assert_eq!((hole(&found, 7), found.len()), (Some(8), 4));
        collect(&copy(2, 4), [1; 16], 2, &Trust::Checksums, 7, &mut found);
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), [7, 8, 9, 10, 11]);
        assert_eq!((hole(&found, 7), hole(&found, 6)), (None, Some(6)));
        assert!(found.values().zip(&all).all(|(a, b)| a == b));
        assert_eq!(hole(&Batches::new(), 7), None);
        collect(&[], [1; 16], 2, &Trust::Checksums, 7, &mut found);
    }
}
