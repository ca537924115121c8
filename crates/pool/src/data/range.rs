//! Reading a part of an object: only the sub-chunks that hold it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::{io::Write, ops::Range};

use kiln_stripe::chunks::Chunks;
use kiln_stripe::frame::{Frame, Held};
use kiln_stripe::stripe::{Planner, StripeReader, frames};
use kiln_stripe::stripe_statistics::StripeStatistics;
use kiln_stripe::{PoolError, Result, Settings, pipeline};

use crate::data::helpers::{DigestCheck, Helped, Helpers, Rebuilt};
use crate::{Degraded, data::shards::ObjectShards};

/// A stripe in flight, with the bytes of the range that it holds.
struct Slot {
    frame: Frame,
    out: Vec<u8>,
    /// Gaps in `out` of helpers' bytes.
    gaps: Vec<Gap>,
}

/// Bytes that come from helpers.
struct Gap {
    out: Range<usize>,
    /// Rank among the chunks that helpers rebuild.
    rank: usize,
    /// The first of its bytes.
    from: usize,
}

/// The bytes of one chunk that a range needs.
struct Window {
    chunk: usize,
    /// Bytes within the chunk.
    bytes: Range<usize>,
}

/// Adjacent stripes that lack the same sub-chunks.
struct Segment {
    stripes: Range<u64>,
    wanted: Vec<(usize, Range<u32>)>,
}

/// A read under way.
struct Reading<'a> {
    shards: &'a ObjectShards,
    range: Range<u64>,
    settings: &'a Settings<'a>,
    reader: StripeReader<'a>,
    statistics: StripeStatistics,
    helped: Helped,
}

/// Writes bytes `range` of the object to `out`; the range must lie within it.
pub(crate) fn read(
    shards: &ObjectShards,
    range: Range<u64>,
    mut helpers: Option<&dyn Helpers>,
    out: &mut dyn Write,
    settings: &Settings<'_>,
) -> Result<(StripeStatistics, Helped)> {
    settings.observer.begin("get", Some(range.end.saturating_sub(range.start)));
    let statistics = StripeStatistics::new(shards.codec.shape().n());
    let reader = StripeReader::new(shards, Planner::Repair, &[], settings);
    let mut reading =
        Reading { shards, range, settings, reader, statistics, helped: Helped::default() };
    if reading.range.is_empty() {
        return Ok((reading.statistics, reading.helped));
    }
    for segment in reading.segments() {
        let ask = match helpers {
            Some(_) if !segment.wanted.is_empty() => reading.ask(&segment)?,
            _ => None,
        };
        let begun = helpers.zip(ask.as_ref()).map(|(helpers, ask)| helpers.begin(ask));
        let rebuilt = match (begun, &ask) {
            (Some(Ok(rebuilt)), Some(ask)) => Some((rebuilt, ask)),
            (Some(Err(why)), _) => {
                reading.helped.notes.push(why);
                None
            }
            _ => None,
        };
        if let Some((rebuilt, _)) = &rebuilt {
            reading.helped.strategy = Some(rebuilt.strategy().to_owned());
        }
        if !reading.run(&segment.stripes, rebuilt, out)? {
            // Helpers that failed once are not asked again.
            helpers = None;
        }
    }
    Ok((reading.statistics, reading.helped))
}

impl Reading<'_> {
    /// The bytes of a stripe that are wanted.
    fn within(&self, stripe: u64) -> Range<usize> {
        let len = self.shards.stripe_bytes(0).max(1);
        let start = stripe * len;
        let within = self.range.start.saturating_sub(start)..(self.range.end - start).min(len);
        within.start as usize..within.end as usize
    }

    fn windows(&self, stripe: u64) -> Vec<Window> {
        let chunk_len = self.shards.sub_len(stripe) * self.shards.codec.shape().alpha;
        windows(chunk_len, &self.within(stripe))
    }

    /// The stripes of the range, by what they lack of what is wanted.
    fn segments(&self) -> Vec<Segment> {
        let len = self.shards.stripe_bytes(0).max(1);
        let mut segments: Vec<Segment> = Vec::new();
        for stripe in self.range.start / len..(self.range.end - 1) / len + 1 {
            let sub_len = self.shards.sub_len(stripe);
            let windows = self.windows(stripe).into_iter();
            let gone = windows.filter(|window| !self.shards.read_plans(window.chunk, stripe));
            let wanted: Vec<_> = gone.map(|w| (w.chunk, sub_chunks(&w.bytes, sub_len))).collect();
            match segments.last_mut() {
                Some(last) if last.wanted == wanted => last.stripes.end = stripe + 1,
                _ => segments.push(Segment { stripes: stripe..stripe + 1, wanted }),
            }
        }
        segments
    }

    /// Returns what helpers are asked for; `None` where no helper could rebuild it.
    fn ask(&self, segment: &Segment) -> Result<Option<Degraded>> {
        let mut here = 0;
        for stripe in segment.stripes.clone() {
            let chunk_len = self.shards.sub_len(stripe) * self.shards.codec.shape().alpha;
            let whole = self.windows(stripe).into_iter().filter(|w| w.bytes.len() == chunk_len);
            let whole: Vec<usize> = whole.map(|window| window.chunk).collect();
            let Some(bytes) = self.shards.bytes_here(stripe, &segment.wanted, &whole) else {
                return Ok(None);
            };
            here += bytes;
        }
        let (stripes, wanted) = (segment.stripes.clone(), segment.wanted.clone());
        Ok(Some(self.shards.degraded(stripes, wanted, here)?))
    }

    /// Reads stripes, with what helpers rebuild if there are some; whether they did it to the end.
    fn run(
        &mut self,
        stripes: &Range<u64>,
        mut rebuilt: Option<(Box<dyn Rebuilt + '_>, &Degraded)>,
        out: &mut dyn Write,
    ) -> Result<bool> {
        let alone = AtomicBool::new(rebuilt.is_none());
        let helped = rebuilt.is_some();
        let elsewhere = rebuilt.as_ref().map_or(&[][..], |(_, ask)| &ask.wanted);
        let mut digest_check =
            rebuilt.as_ref().map(|(_, ask)| DigestCheck::new(ask, self.shards.stripes()));
        let (mut statistics, mut notes) = (std::mem::take(&mut self.statistics), Vec::new());
        let this = &*self;
        let slot = |frame| Slot { frame, out: Vec::new(), gaps: Vec::new() };
        let (mut received, mut bytes) = (0, 0);
        pipeline::run(
            frames(this.shards, 0, this.settings).into_iter().map(slot).collect(),
            this.settings,
            stripes.start,
            |at, _| Ok(at < stripes.end),
            |at, slot: &mut Slot| {
                let elsewhere = if alone.load(Ordering::Relaxed) { &[] } else { elsewhere };
                read_stripe(&this.reader, at, this.within(at), elsewhere, slot)
            },
            |at, slot| {
                if !slot.gaps.is_empty() {
                    let next = next(&mut rebuilt, &mut digest_check, at, slot.frame.sub_len)?;
                    match next {
                        Ok(parts) => bytes += slot.fill(&parts),
                        Err(why) => {
                            alone.store(true, Ordering::Relaxed);
                            notes.extend(why);
                            if let Some((ended, _)) = rebuilt.take() {
                                received = ended.received();
                            }
                            read_stripe(&this.reader, at, this.within(at), &[], slot)?;
                        }
                    }
                }
                out.write_all(&slot.out).map_err(|source| PoolError::Output { source })?;
                this.settings.observer.advance(slot.out.len() as u64);
                statistics.add(at, &mut slot.frame);
                Ok(())
            },
        )?;
        self.statistics = statistics;
        self.helped.rebuilt += bytes;
        self.helped.received += rebuilt.as_ref().map_or(received, |(r, _)| r.received());
        self.helped.notes.extend(notes);
        Ok(!helped || rebuilt.is_some())
    }
}

/// Returns what helpers have for the next stripe; if nothing, the reason, unless it was given
/// before.
fn next(
    rebuilt: &mut Option<(Box<dyn Rebuilt + '_>, &Degraded)>,
    digest_check: &mut Option<DigestCheck>,
    stripe: u64,
    sub_len: usize,
) -> Result<std::result::Result<Vec<Vec<u8>>, Option<String>>> {
    let (Some((rebuilt, ask)), Some(digest_check)) = (rebuilt.as_mut(), digest_check.as_mut())
    else {
        return Ok(Err(None));
    };
    let parts = match rebuilt.next() {
        Ok(parts) => parts,
        Err(why) => return Ok(Err(Some(why))),
    };
    let fits =
        |((_, run), part): (&(usize, Range<u32>), &Vec<u8>)| part.len() == run.len() * sub_len;
    if parts.len() != ask.wanted.len() || !ask.wanted.iter().zip(&parts).all(fits) {
        return Ok(Err(Some("helpers sent other bytes than were asked for".to_owned())));
    }
    match digest_check.sees(stripe, sub_len, &parts).map(|rank| ask.wanted[rank].0) {
        None => Ok(Ok(parts)),
        // Nothing of it was handed out.
        Some(index) if ask.stripes.start == stripe => {
            let why = format!(
                "the bytes that helpers sent of shard {index} do not have its recorded digest"
            );
            Ok(Err(Some(why)))
        }
        Some(index) => {
            let todo = "do not use the output; read again with --strategy central".into();
            Err(PoolError::Mismatch { object: ask.info.object.clone(), index, todo })
        }
    }
}

impl Slot {
    /// Puts helpers' bytes in their places; gives their number.
    fn fill(&mut self, parts: &[Vec<u8>]) -> u64 {
        let mut bytes = 0;
        for gap in std::mem::take(&mut self.gaps) {
            let part = &parts[gap.rank][gap.from..gap.from + gap.out.len()];
            bytes += part.len() as u64;
            self.out[gap.out].copy_from_slice(part);
        }
        bytes
    }
}

/// Bytes `within` of one stripe, but for chunks that are rebuilt elsewhere.
fn read_stripe(
    reader: &StripeReader<'_>,
    stripe: u64,
    within: Range<usize>,
    elsewhere: &[(usize, Range<u32>)],
    slot: &mut Slot,
) -> Result<()> {
    let Slot { frame, out, gaps } = slot;
    out.clear();
    gaps.clear();
    reader.begin(stripe, frame);
    let windows = windows(frame.chunk_len, &within);
    let rank = |window: &Window| elsewhere.iter().position(|(chunk, _)| *chunk == window.chunk);
    // Whole chunks first: they stay in the frame, where a rebuild may use them.
    let whole = windows.iter().filter(|w| w.bytes.len() == frame.chunk_len && rank(w).is_none());
    reader.read_whole(stripe, frame, whole.map(|w| w.chunk).collect::<Vec<_>>());
    let mut parts: Vec<Option<Vec<u8>>> = Vec::with_capacity(windows.len());
    for window in &windows {
        let here = frame.held[window.chunk] == Held::Whole || rank(window).is_some();
        let part = window.bytes.len() < frame.chunk_len;
        parts.push(if part && !here { read_part(reader, stripe, frame, window) } else { None });
    }
    let left = windows.iter().zip(&mut parts).filter(|(window, part)| {
        let here = part.is_some() || frame.held[window.chunk] == Held::Whole;
        !here && rank(window).is_none()
    });
    let (windows_left, parts_left): (Vec<&Window>, Vec<_>) = left.unzip();
    let run = |window: &&Window| (window.chunk, sub_chunks(&window.bytes, frame.sub_len));
    let wanted: Vec<(usize, Range<u32>)> = windows_left.iter().map(run).collect();
    if let Some(rebuilt) = reader.rebuild_parts(stripe, frame, &wanted)? {
        for ((window, part), bytes) in windows_left.iter().zip(parts_left).zip(rebuilt) {
            let start = window.bytes.start % frame.sub_len;
            *part = Some(bytes[start..start + window.bytes.len()].to_vec());
        }
    } else {
        let wanted: Vec<usize> = wanted.iter().map(|(chunk, _)| *chunk).collect();
        reader.rebuild(stripe, frame, &wanted)?;
    }
    for (window, part) in windows.iter().zip(parts) {
        match (part, rank(window)) {
            (Some(bytes), _) => out.extend_from_slice(&bytes),
            (None, None) => {
                out.extend_from_slice(&frame.chunk(window.chunk)[window.bytes.clone()]);
            }
            (None, Some(rank)) => {
                let first = elsewhere[rank].1.start as usize * frame.sub_len;
                let place = out.len()..out.len() + window.bytes.len();
                out.resize(place.end, 0);
                gaps.push(Gap { out: place, rank, from: window.bytes.start - first });
            }
        }
    }
    Ok(())
}

/// The sub-chunks around some bytes of a chunk.
fn sub_chunks(bytes: &Range<usize>, sub_len: usize) -> Range<u32> {
    (bytes.start / sub_len) as u32..bytes.end.div_ceil(sub_len) as u32
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
    let run = sub_chunks(&window.bytes, sub);
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
