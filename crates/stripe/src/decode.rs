//! Decoding all stripes of an object to a stream.

use std::io::{self, Cursor, Read, Write};
use std::ops::Range;

use crate::frame::{Frame, Held};
use crate::stripe::{Planner, StripeReader, frames};
use crate::stripe_statistics::{StripeStatistics, indices};
use crate::{DecodeReport, PoolError, Result, Settings, Source, chunks::Chunks, pipeline};

/// Bytes that a [`DecodedSource`] decodes at once, in whole stripes: one where that is longer.
const WINDOW: u64 = 8 << 20;

/// Decodes all stripes to `out`. Of each stripe `seen` gets the frame, in order, with the
/// checksums of the chunks in `sums_of`.
pub fn decode_stripes(
    chunks: &dyn Chunks,
    sums_of: &[usize],
    seen: impl FnMut(&Frame),
    out: &mut dyn Write,
    settings: &Settings<'_>,
) -> Result<StripeStatistics> {
    decode_bytes(chunks, 0..chunks.object_bytes(), sums_of, seen, out, settings)
}

/// The same for some bytes of the object, which must lie within it; only chunks that have some of
/// them are read, or rebuilt.
pub fn decode_bytes(
    chunks: &dyn Chunks,
    bytes: Range<u64>,
    sums_of: &[usize],
    mut seen: impl FnMut(&Frame),
    out: &mut dyn Write,
    settings: &Settings<'_>,
) -> Result<StripeStatistics> {
    let stripe_len = chunks.stripe_bytes(0).max(1);
    let stripes = match bytes.is_empty() {
        true => 0..0,
        false => bytes.start / stripe_len..(bytes.end - 1) / stripe_len + 1,
    };
    let within = |stripe: u64| {
        let start = stripe * stripe_len;
        let end = (bytes.end - start).min(chunks.stripe_bytes(stripe));
        (bytes.start.saturating_sub(start) as usize)..end as usize
    };
    let shape = chunks.codec().shape();
    let reader = StripeReader::new(chunks, Planner::Decode, &[], settings);
    let mut statistics = StripeStatistics::new(shape.n());
    settings.observer.begin("decode", Some(bytes.end.saturating_sub(bytes.start)));
    pipeline::run(
        frames(chunks, 0, settings),
        settings,
        stripes.start,
        |stripe, _| Ok(stripe < stripes.end),
        |stripe, frame: &mut Frame| {
            reader.begin(stripe, frame);
            let bytes = within(stripe);
            let chunk_len = frame.chunk_len.max(1);
            // All of them where the whole stripe is wanted: zeros that fill it up have digests too.
            let wanted: Vec<usize> = match bytes.len() as u64 == frame.object_bytes {
                true => (0..shape.k).collect(),
                false => (bytes.start / chunk_len..bytes.end.div_ceil(chunk_len)).collect(),
            };
            reader.read_whole(stripe, frame, wanted.iter().copied());
            reader.rebuild(stripe, frame, &wanted)?;
            sums_of.iter().for_each(|&index| frame.checksum(index));
            Ok(())
        },
        |stripe, frame| {
            let bytes = within(stripe);
            write_data(frame, shape.k, &bytes, out)?;
            seen(frame);
            settings.observer.advance(bytes.len() as u64);
            for index in (0..shape.k).filter(|&i| frame.held[i] == Held::Whole) {
                statistics.helped[index] |= frame.costs[index].bytes > 0;
            }
            statistics.add(stripe, frame);
            Ok(())
        },
    )?;
    out.flush().map_err(|source| PoolError::Output { source })?;
    Ok(statistics)
}

/// Writes some bytes of the stripe's data.
pub fn write_data(
    frame: &Frame,
    k: usize,
    bytes: &Range<usize>,
    out: &mut dyn Write,
) -> Result<()> {
    for index in 0..k {
        let start = index * frame.chunk_len;
        let from = bytes.start.max(start);
        let to = bytes.end.min(start + frame.chunk_len);
        if from < to {
            let part = &frame.chunk(index)[from - start..to - start];
            out.write_all(part).map_err(|source| PoolError::Output { source })?;
        }
    }
    Ok(())
}

/// The part of the report that stripes tell.
pub fn report(chunks: &dyn Chunks, statistics: &StripeStatistics) -> DecodeReport {
    let strategy = match (statistics.direct, statistics.repaired || statistics.decoded) {
        (true, true) => "mixed",
        (_, false) => "direct",
        (false, true) => "decode",
    };
    DecodeReport {
        object: chunks.object().to_owned(),
        code: chunks.codec().spec().to_string(),
        order: chunks.codec().order().to_owned(),
        strategy: strategy.to_owned(),
        size: chunks.object_bytes(),
        lost: Vec::new(),
        helpers: indices(&statistics.helped),
        bytes_read: statistics.bytes(),
        read_runs: statistics.runs(),
        metadata_bytes_read: statistics.metadata(),
        bytes_written: chunks.object_bytes(),
        seconds: 0.0,
        verified: false,
        damaged: statistics.findings.list.clone(),
        damaged_count: statistics.findings.count,
        notes: Vec::new(),
    }
}

/// The bytes of an object as a source, decoded some stripes ahead of its reader.
pub struct DecodedSource<'a> {
    chunks: &'a dyn Chunks,
    settings: &'a Settings<'a>,
    ready: Cursor<Vec<u8>>,
    at: u64,
    /// Chunk bytes read so far.
    pub bytes_read: u64,
    /// Something had to be rebuilt.
    pub degraded: bool,
    /// Why it could not be read on.
    pub error: Option<PoolError>,
}

impl<'a> DecodedSource<'a> {
    /// Reads an object from its start.
    pub fn new(chunks: &'a dyn Chunks, settings: &'a Settings<'a>) -> DecodedSource<'a> {
        let (ready, at, bytes_read, degraded, error) = (Cursor::default(), 0, 0, false, None);
        DecodedSource { chunks, settings, ready, at, bytes_read, degraded, error }
    }

    fn decode(&mut self) -> Result<()> {
        let stripe = self.chunks.stripe_bytes(0).max(1);
        let window = stripe * (WINDOW / stripe).max(1);
        let range = self.at..self.chunks.object_bytes().min(self.at + window);
        let mut bytes = std::mem::take(self.ready.get_mut());
        bytes.clear();
        let nothing = |_: &Frame| ();
        let settings = self.settings;
        let done = decode_bytes(self.chunks, range.clone(), &[], nothing, &mut bytes, settings)?;
        self.bytes_read += done.bytes();
        self.degraded |= done.repaired || done.decoded;
        (self.at, self.ready) = (range.end, Cursor::new(bytes));
        Ok(())
    }
}

impl Read for DecodedSource<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let used = self.ready.position() == self.ready.get_ref().len() as u64;
        if used
            && self.at < self.chunks.object_bytes()
            && let Err(error) = self.decode()
        {
            let told = io::Error::other(error.to_string());
            self.error = Some(error);
            return Err(told);
        }
        self.ready.read(buf)
    }
}

impl Source for DecodedSource<'_> {
    fn size(&self) -> Option<u64> {
        Some(self.chunks.object_bytes())
    }

    fn identity(&self) -> Option<[u8; 16]> {
        None
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let ready = self.ready.get_ref().len() as u64 - self.ready.position();
        let here = bytes.min(ready);
        self.ready.set_position(self.ready.position() + here);
        self.at = (self.at + bytes - here).min(self.chunks.object_bytes());
        Ok(())
    }

    fn changed(&mut self) -> io::Result<bool> {
        Ok(false)
    }
}
