//! Reading a part of an object: only the sub-chunks that hold it.

use std::io::Write;
use std::ops::Range;

use crate::frame::{Frame, Held};
use crate::stripe::{Chunks, Planner, StripeReader, frames};
use crate::tally::Tally;
use crate::{PoolError, Result, Settings, pipeline};

/// A stripe in flight, with the bytes of the range that it holds.
struct Slot {
    frame: Frame,
    out: Vec<u8>,
}

/// The bytes of one chunk that a range needs.
struct Window {
    chunk: usize,
    /// Bytes within the chunk.
    bytes: Range<usize>,
}

/// Writes bytes `range` of the object to `out`; the range must lie within it.
pub(super) fn read(
    chunks: &dyn Chunks,
    range: Range<u64>,
    out: &mut dyn Write,
    settings: &Settings<'_>,
) -> Result<Tally> {
    let shape = chunks.codec().shape();
    let mut tally = Tally::new(shape.n());
    settings.observer.begin("get", Some(range.end.saturating_sub(range.start)));
    if range.is_empty() {
        return Ok(tally);
    }
    let stripe = chunks.stripe_bytes(0).max(1);
    let (first, last) = (range.start / stripe, (range.end - 1) / stripe);
    let reader = StripeReader::new(chunks, Planner::Repair, &[]);
    let slots = frames(chunks, 0, settings).into_iter();
    pipeline::run(
        slots.map(|frame| Slot { frame, out: Vec::new() }).collect(),
        settings.threads(),
        first,
        |at, _| Ok(at <= last),
        |at, slot: &mut Slot| {
            let start = at * stripe;
            let within = range.start.saturating_sub(start)..(range.end - start).min(stripe);
            read_stripe(&reader, at, within.start as usize..within.end as usize, slot)
        },
        |at, slot| {
            out.write_all(&slot.out).map_err(|source| PoolError::Output { source })?;
            settings.observer.advance(slot.out.len() as u64);
            tally.add(at, &mut slot.frame);
            Ok(())
        },
    )?;
    Ok(tally)
}

/// Bytes `within` of one stripe.
fn read_stripe(
    reader: &StripeReader<'_>,
    stripe: u64,
    within: Range<usize>,
    slot: &mut Slot,
) -> Result<()> {
    let Slot { frame, out } = slot;
    out.clear();
    reader.begin(stripe, frame);
    let windows = windows(frame.chunk_len, &within);
    // Whole chunks first: they stay in the frame, where a rebuild may use them.
    let whole = windows.iter().filter(|w| w.bytes.len() == frame.chunk_len).map(|w| w.chunk);
    reader.read_whole(stripe, frame, whole.collect::<Vec<_>>());
    let mut parts: Vec<Option<Vec<u8>>> = Vec::with_capacity(windows.len());
    for window in &windows {
        let here = frame.held[window.chunk] == Held::Whole;
        let part = window.bytes.len() < frame.chunk_len;
        parts.push(if part && !here { read_part(reader, stripe, frame, window) } else { None });
    }
    let left = windows.iter().zip(&parts).filter(|(_, part)| part.is_none());
    let wanted: Vec<usize> = left.map(|(window, _)| window.chunk).collect();
    reader.rebuild(stripe, frame, &wanted)?;
    for (window, part) in windows.iter().zip(parts) {
        match part {
            Some(bytes) => out.extend_from_slice(&bytes),
            None => out.extend_from_slice(&frame.chunk(window.chunk)[window.bytes.clone()]),
        }
    }
    Ok(())
}

/// Cuts bytes of a stripe into bytes of chunks.
fn windows(chunk_len: usize, within: &Range<usize>) -> Vec<Window> {
    let chunks = within.start / chunk_len..within.end.div_ceil(chunk_len);
    chunks
        .map(|chunk| {
            let start = chunk * chunk_len;
            let bytes = within.start.max(start) - start..(within.end - start).min(chunk_len);
            Window { chunk, bytes }
        })
        .collect()
}

/// Reads the sub-chunks around a window; `None` when they cannot be had.
fn read_part(
    reader: &StripeReader<'_>,
    stripe: u64,
    frame: &mut Frame,
    window: &Window,
) -> Option<Vec<u8>> {
    let sub = frame.sub_len;
    let run = (window.bytes.start / sub) as u32..window.bytes.end.div_ceil(sub) as u32;
    let bytes = reader.read_run(stripe, frame, window.chunk, run.clone())?;
    let start = window.bytes.start - run.start as usize * sub;
    Some(bytes[start..start + window.bytes.len()].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_the_range_once() {
        for (start, end) in [(0, 1), (0, 40), (5, 15), (9, 11), (10, 20), (19, 37), (39, 40)] {
            let mut at = start;
            for window in windows(10, &(start..end)) {
                assert_eq!(window.chunk * 10 + window.bytes.start, at);
                assert!(!window.bytes.is_empty() && window.bytes.end <= 10);
                at += window.bytes.len();
            }
            assert_eq!(at, end);
        }
    }
}
