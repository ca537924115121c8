//! Salvage: every byte of an object that can be had, where not all of it can.

mod solve;
mod columns;

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::{io::Write, ops::Range};

use kiln_code::{Dag, Matrix};
use kiln_stripe::chunks::Chunks;
use kiln_stripe::decode::{report, write_data};
use kiln_stripe::frame::Frame;
use kiln_stripe::stripe::{Planner, StripeReader, frames};
use kiln_stripe::stripe_statistics::StripeStatistics;
use kiln_stripe::{DecodeReport, PoolError, Result, Settings, pipeline};
use serde::Serialize;

use self::solve::{Solved, add_multiple, solve};
use super::read::filled;
use crate::ShardSet;

/// More ranges than this are not listed; their bytes are counted.
const MAX_LISTED: usize = 100_000;

/// Bytes of an object that cannot be recovered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Offset of the first of them within the object.
    pub start: u64,
    /// Their number.
    pub length: u64,
}

/// Report of a salvage, beside that of its decode.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Salvaged {
    /// Missing ranges, ascending and not adjacent; at most 100,000 entries.
    pub missing: Vec<Missing>,
    /// Bytes that are missing, listed or not.
    pub missing_bytes: u64,
    /// Stripes that could not be decoded as a whole.
    pub lost_stripes: u64,
    /// Bytes of these that were computed from single sub-chunks of other shards.
    pub solved_bytes: u64,
    /// Ranges that are in no chunk with a right checksum, and that the code proves: all its
    /// equations hold there. As `missing`.
    pub by_code: Vec<Missing>,
    /// Bytes of these, listed or not.
    pub by_code_bytes: u64,
}

/// Adds ranges of a stripe to a list; gives their bytes.
fn add(list: &mut Vec<Missing>, ranges: &[Range<usize>], stripe: Range<u64>) -> u64 {
    let mut bytes = 0;
    for range in ranges {
        let start = stripe.start + range.start as u64;
        let length = (stripe.start + range.end as u64).min(stripe.end).saturating_sub(start);
        bytes += length;
        let listed = list.len();
        match list.last_mut() {
            _ if length == 0 => {}
            Some(last) if last.start + last.length == start => last.length += length,
            _ if listed < MAX_LISTED => list.push(Missing { start, length }),
            _ => {}
        }
    }
    bytes
}

/// Writes the object to `out` with zeros in place of what cannot be had, and says where these are.
///
/// A stripe with too many bad chunks is read sub-chunk by sub-chunk. What of the data is intact is
/// taken as it is, and of the rest whatever follows from the intact sub-chunks of all shards is
/// computed: where a code couples its sub-chunks (clay), the same one lost in more shards than the
/// code has parities is often no loss. Of chunks that fail their checksums the code proves bytes,
/// and finds single wrong ones; a chunk whose checksum is then right is as good as any. Nothing is
/// guessed: every byte that is not told as missing was verified, or computed from bytes that were,
/// or is listed as proved by the code alone.
/// In the report of the decode `bytes_written` includes the zeros that stand for what is missing.
/// Errors: as [`crate::decode`], but for lost stripes.
pub fn salvage(
    set: &ShardSet,
    out: &mut dyn Write,
    settings: &Settings<'_>,
) -> Result<(DecodeReport, Salvaged)> {
    let shape = set.codec().shape();
    let reader = StripeReader::new(set, Planner::Decode, &[], settings);
    let wanted: Vec<usize> = (0..shape.k).collect();
    let mut statistics = StripeStatistics::new(shape.n());
    let (mut salvaged, pieces) = (Salvaged::default(), Pieces::new(set));
    let slot = |frame| Slot { frame, lost: None };
    settings.observer.begin("salvage", Some(set.size()));
    let mut start = 0;
    pipeline::run(
        frames(set, 0, settings).into_iter().map(slot).collect(),
        settings,
        0,
        |stripe, _| Ok(stripe < Chunks::stripes(set)),
        |stripe, slot: &mut Slot| {
            reader.begin(stripe, &mut slot.frame);
            reader.read_whole(stripe, &mut slot.frame, 0..shape.k);
            slot.lost = match reader.rebuild(stripe, &mut slot.frame, &wanted) {
                Ok(()) => None,
                Err(PoolError::StripeLost { .. }) => Some(pieces.read(stripe)?),
                Err(other) => return Err(other),
            };
            Ok(())
        },
        |stripe, slot| {
            let len = slot.frame.object_bytes;
            match slot.lost.take() {
                None => write_data(&slot.frame, shape.k, &(0..len as usize), out)?,
                Some(lost) => {
                    salvaged.lost_stripes += 1;
                    salvaged.solved_bytes += lost.solved_bytes;
                    let stripe = start..start + len;
                    let Salvaged { missing, by_code, .. } = &mut salvaged;
                    let bytes = add(missing, &lost.holes, stripe.clone());
                    salvaged.by_code_bytes += add(by_code, &lost.by_code, stripe);
                    salvaged.missing_bytes += bytes;
                    let data = &lost.data[..len as usize];
                    out.write_all(data).map_err(|source| PoolError::Output { source })?;
                }
            }
            start += len;
            settings.observer.advance(len);
            statistics.add(stripe, &mut slot.frame);
            Ok(())
        },
    )?;
    out.flush().map_err(|source| PoolError::Output { source })?;
    let mut decoded = filled(set, report(set, &statistics));
    decoded.verified = salvaged.by_code_bytes == 0;
    Ok((decoded, salvaged))
}

/// A stripe in flight.
struct Slot {
    frame: Frame,
    /// Rest of it, where it could not be decoded.
    lost: Option<Lost>,
}

/// Recoverable part of a lost stripe.
struct Lost {
    /// The data chunks, zeros where they are not known.
    data: Vec<u8>,
    /// Bytes of `data` that are not known, ascending.
    holes: Vec<Range<usize>>,
    /// Bytes of `data` that the code alone proves, ascending.
    by_code: Vec<Range<usize>>,
    solved_bytes: u64,
}

/// Reads stripes sub-chunk by sub-chunk.
struct Pieces<'a> {
    set: &'a ShardSet,
    /// Parity by data, a row and a column a sub-chunk; `None` where it is too large, or where
    /// sub-chunks are not what the code computes with.
    parity: OnceLock<Option<Matrix>>,
    /// One stripe at a time, since all of it is in memory; with the last equations that were
    /// solved: neighbours often lack the same.
    last: Mutex<Option<(Vec<bool>, Vec<Solved>)>>,
}

impl<'a> Pieces<'a> {
    fn new(set: &'a ShardSet) -> Pieces<'a> {
        Pieces { set, parity: OnceLock::new(), last: Mutex::new(None) }
    }

    fn read(&self, stripe: u64) -> Result<Lost> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let shape = self.set.codec().shape();
        let sub = Chunks::sub_len(self.set, stripe);
        let mut bytes = vec![0; shape.n() * shape.alpha * sub];
        let mut known = vec![false; shape.n() * shape.alpha];
        for chunk in 0..shape.n() {
            if stripe < Chunks::stripes_there(self.set, chunk) {
                let at = chunk * shape.alpha;
                let known = &mut known[at..at + shape.alpha];
                let bytes = &mut bytes[at * sub..(at + shape.alpha) * sub];
                self.read_good(stripe, chunk, 0..shape.alpha as u32, known, bytes);
            }
        }
        let data = shape.k * shape.alpha;
        let mut solved_bytes = self.solve(&mut last, &mut known, &mut bytes, sub);
        let mut proved = vec![false; sub];
        let mut told = known.clone();
        if shape.alpha == 1 && known[..data].contains(&false) {
            proved = self.by_code(stripe, &mut known, &mut told, &mut bytes);
            solved_bytes += self.solve(&mut last, &mut known, &mut bytes, sub);
            self.solve(&mut last, &mut told, &mut bytes, sub);
        }
        bytes.truncate(data * sub);
        let (mut holes, mut by_code) = (Vec::new(), Vec::new());
        for symbol in (0..data).filter(|symbol| !known[*symbol]) {
            let mut from = symbol * sub;
            let is_proved = |offset: usize| told[symbol] && proved[offset];
            for run in (0..sub).collect::<Vec<_>>().chunk_by(|a, b| is_proved(*a) == is_proved(*b))
            {
                let range = from..from + run.len();
                from = range.end;
                match is_proved(run[0]) {
                    true => by_code.push(range),
                    false => {
                        bytes[range.clone()].fill(0);
                        holes.push(range);
                    }
                }
            }
        }
        Ok(Lost { data: bytes, holes, by_code, solved_bytes })
    }

    /// Reads chunks that fail their checksums, and puts right what the code proves of them; at
    /// which offsets that is so. Chunks whose checksums are right then are `known`, all that have
    /// bytes are `told`.
    fn by_code(
        &self,
        stripe: u64,
        known: &mut [bool],
        told: &mut [bool],
        bytes: &mut [u8],
    ) -> Vec<bool> {
        let sub = bytes.len() / known.len();
        let whole = std::iter::once(0..1).collect::<Vec<_>>();
        let (mut suspects, mut erased) = (Vec::new(), Vec::new());
        for chunk in (0..known.len()).filter(|chunk| !known[*chunk]) {
            let (place, file) = (&mut bytes[chunk * sub..][..sub], &self.set);
            let mut read = || file.read_ranges(chunk, &file.ranges(chunk, stripe, &whole), place);
            told[chunk] = stripe < Chunks::stripes_there(self.set, chunk) && read().is_ok();
            if told[chunk] { suspects.push(chunk) } else { erased.push(chunk) }
        }
        let Some(parity) = self.parity.get_or_init(|| self.matrix()) else {
            return vec![false; sub];
        };
        let proved = columns::correct(parity, &suspects, &erased, bytes, sub);
        for chunk in suspects {
            let bytes = &bytes[chunk * sub..][..sub];
            known[chunk] = Chunks::check(self.set, chunk, stripe, &whole, bytes).is_ok();
        }
        proved
    }

    /// Reads what is intact of a run of sub-chunks, by halves.
    fn read_good(
        &self,
        stripe: u64,
        chunk: usize,
        run: Range<u32>,
        known: &mut [bool],
        bytes: &mut [u8],
    ) {
        let sub = bytes.len() / known.len().max(1);
        let (from, to) = (run.start as usize, run.end as usize);
        let runs = std::iter::once(run.clone()).collect::<Vec<_>>();
        let place = &mut bytes[from * sub..to * sub];
        match Chunks::read(self.set, chunk, stripe, &runs, place) {
            Ok(_) => known[from..to].fill(true),
            Err(_) => {
                // What failed its checksum must not show in the output.
                place.fill(0);
                if to - from > 1 {
                    let middle = run.start + (run.end - run.start) / 2;
                    self.read_good(stripe, chunk, run.start..middle, known, bytes);
                    self.read_good(stripe, chunk, middle..run.end, known, bytes);
                }
            }
        }
    }

    /// Computes data that follows from what is known; gives the number of its bytes.
    fn solve(
        &self,
        last: &mut MutexGuard<'_, Option<(Vec<bool>, Vec<Solved>)>>,
        known: &mut [bool],
        bytes: &mut [u8],
        sub: usize,
    ) -> u64 {
        let Some(parity) = self.parity.get_or_init(|| self.matrix()) else { return 0 };
        if last.as_ref().is_none_or(|(pattern, _)| pattern[..] != *known) {
            **last = Some((known.to_vec(), solve(parity, known)));
        }
        let Some((_, solved)) = last.as_ref() else { return 0 };
        let data = parity.cols();
        let mut sums: Vec<Option<Vec<u8>>> = vec![None; parity.rows()];
        let mut values = Vec::with_capacity(solved.len());
        for unknown in solved {
            let mut value = vec![0; sub];
            for &(row, factor) in &unknown.terms {
                let sum = sums[row].get_or_insert_with(|| {
                    let own = (data + row) * sub;
                    let mut sum = bytes[own..own + sub].to_vec();
                    for (symbol, &factor) in parity.row(row).iter().enumerate() {
                        if factor != 0 && known[symbol] {
                            let at = symbol * sub;
                            add_multiple(factor, &bytes[at..at + sub], &mut sum);
                        }
                    }
                    sum
                });
                add_multiple(factor, sum, &mut value);
            }
            values.push(value);
        }
        for (unknown, value) in solved.iter().zip(&values) {
            let at = unknown.symbol * sub;
            bytes[at..at + sub].copy_from_slice(value);
            known[unknown.symbol] = true;
        }
        (values.len() * sub) as u64
    }

    fn matrix(&self) -> Option<Matrix> {
        let codec = self.set.codec();
        let shape = codec.shape();
        let (data, parity): (Vec<usize>, Vec<usize>) =
            ((0..shape.k).collect(), (shape.k..shape.n()).collect());
        let of = |dag: Dag| {
            // Rows and columns must be all sub-chunks in their order.
            let all = dag.inputs().len() == shape.k * shape.alpha
                && dag.outputs().len() == shape.m * shape.alpha;
            all.then(|| dag.matrix().ok()).flatten()
        };
        let sliceable = codec.sliceable();
        let dag = sliceable.then(|| codec.repair_dag(&parity, &data).ok()).flatten();
        dag.and_then(|(_, dag)| of(dag))
    }
}
