//! Decoding all stripes of an object to a stream.

use std::io::Write;

use super::chunks::Chunks;
use super::frame::{Frame, Held};
use super::pipeline;
use super::stripe::{Planner, StripeReader, frames};
use super::stripe_statistics::{StripeStatistics, indices};
use crate::{DecodeReport, PoolError, Result, Settings};

/// Decodes all stripes to `out`. Of each stripe `seen` gets the frame, in order, with the
/// checksums of the chunks in `sums_of`.
pub(crate) fn decode_stripes(
    chunks: &dyn Chunks,
    sums_of: &[usize],
    mut seen: impl FnMut(&Frame),
    out: &mut dyn Write,
    settings: &Settings<'_>,
) -> Result<StripeStatistics> {
    let shape = chunks.codec().shape();
    let reader = StripeReader::new(chunks, Planner::Decode, &[], settings);
    let wanted: Vec<usize> = (0..shape.k).collect();
    let mut statistics = StripeStatistics::new(shape.n());
    settings.observer.begin("decode", Some(chunks.object_bytes()));
    pipeline::run(
        frames(chunks, 0, settings),
        settings,
        0,
        |stripe, _| Ok(stripe < chunks.stripes()),
        |stripe, frame: &mut Frame| {
            reader.begin(stripe, frame);
            reader.read_whole(stripe, frame, 0..shape.k);
            reader.rebuild(stripe, frame, &wanted)?;
            sums_of.iter().for_each(|&index| frame.checksum(index));
            Ok(())
        },
        |stripe, frame| {
            write_data(frame, shape.k, out)?;
            seen(frame);
            settings.observer.advance(frame.object_bytes);
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

fn write_data(frame: &Frame, k: usize, out: &mut dyn Write) -> Result<()> {
    let mut left = frame.object_bytes as usize;
    for index in 0..k {
        let chunk = frame.chunk(index);
        let bytes = left.min(chunk.len());
        out.write_all(&chunk[..bytes]).map_err(|source| PoolError::Output { source })?;
        left -= bytes;
    }
    Ok(())
}

/// The part of the report that stripes tell.
pub(crate) fn report(chunks: &dyn Chunks, statistics: &StripeStatistics) -> DecodeReport {
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
