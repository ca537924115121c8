//! Rebuilt stripes of a reader, in order.

use std::{collections::BTreeMap, ops::Range};

use bytes::Bytes;
use kiln_pool::Degraded;
use kiln_store::Layout;

use kiln_net::proto::assignment::{Assignment, PersistInfo};

/// Rebuilt stripes, in order.
#[derive(Debug)]
pub(crate) struct Sink {
    mine: Assignment,
    layout: Layout,
    wanted: Vec<(usize, Range<u32>)>,
    next: u64,
    stripes: BTreeMap<u64, Stripe>,
}

#[derive(Debug, Default)]
struct Stripe {
    parts: Vec<Vec<u8>>,
    have: usize,
}

impl Sink {
    pub fn new(ask: &Degraded, layout: Layout, mine: Assignment) -> Sink {
        let (wanted, next) = (ask.wanted.clone(), ask.stripes.start);
        Sink { mine, layout, wanted, next, stripes: BTreeMap::new() }
    }

    /// Puts pieces of a window where they belong; gives their bytes.
    pub fn keep(&mut self, window: u64, round: usize, pieces: &[Bytes]) -> u64 {
        let (stripe, slice) = self.mine.window(&self.layout, window);
        let Some(info) = self.mine.rounds.get(round) else { return 0 };
        let sub_len = self.layout.sub_len(stripe);
        let entry = self.stripes.entry(stripe).or_insert_with(|| {
            let part = |(_, run): &(usize, Range<u32>)| vec![0; run.len() * sub_len];
            Stripe { parts: self.wanted.iter().map(part).collect(), have: 0 }
        });
        let mut kept = 0;
        for (persist, bytes) in info.persists.iter().zip(pieces) {
            kept += bytes.len() as u64;
            entry.place(&self.wanted, persist, bytes, sub_len, &slice);
        }
        kept
    }

    /// The next stripe, when it is complete.
    pub fn next(&mut self) -> Option<Vec<Vec<u8>>> {
        let complete = |stripe: &Stripe| stripe.have == stripe.parts.iter().map(Vec::len).sum();
        self.stripes.get(&self.next).filter(|stripe| complete(stripe))?;
        let stripe = self.stripes.remove(&self.next)?;
        self.next += 1;
        Some(stripe.parts)
    }
}

impl Stripe {
    fn place(
        &mut self,
        wanted: &[(usize, Range<u32>)],
        persist: &PersistInfo,
        bytes: &[u8],
        sub_len: usize,
        slice: &Range<usize>,
    ) {
        let of_chunk = |(chunk, _): &(usize, Range<u32>)| *chunk == persist.chunk as usize;
        let Some(rank) = wanted.iter().position(of_chunk) else { return };
        for (position, piece) in persist.positions.iter().zip(bytes.chunks(slice.len().max(1))) {
            if !wanted[rank].1.contains(position) {
                continue;
            }
            let at = (position - wanted[rank].1.start) as usize * sub_len + slice.start;
            self.parts[rank][at..at + piece.len()].copy_from_slice(piece);
            self.have += piece.len();
        }
    }
}
