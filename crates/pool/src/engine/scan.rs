//! Reading all chunks of an object to see what is damaged.

use super::chunks::Chunks;
use super::frame::{Frame, Held};
use super::pipeline;
use super::stripe::{Planner, StripeReader, frames};
use super::stripe_statistics::{Findings, StripeStatistics};
use crate::{Damage, Depth, MAX_DAMAGE_ENTRIES, Result, Settings, VerifyReport};

/// A report with nothing found yet.
pub(crate) fn report(chunks: &dyn Chunks, depth: Depth) -> VerifyReport {
    VerifyReport {
        object: chunks.object().to_owned(),
        code: chunks.codec().spec().to_string(),
        order: chunks.codec().order().to_owned(),
        size: chunks.object_bytes(),
        stripes: chunks.stripes(),
        depth,
        recoverable: true,
        ..VerifyReport::default()
    }
}

/// What reading everything showed.
#[derive(Debug, Default)]
pub(crate) struct ScanResult {
    /// Costs and damage.
    pub statistics: StripeStatistics,
    /// Stripes whose bad chunks do not follow from the others: the first of them, and how many.
    pub hopeless: Vec<u64>,
    /// See `hopeless`.
    pub hopeless_count: u64,
}

impl ScanResult {
    /// Writes it into a report.
    pub(crate) fn fill(
        &self,
        report: &mut VerifyReport,
        findings: &mut Findings,
        bad: &mut [bool],
    ) {
        report.bytes_read = self.statistics.bytes();
        report.metadata_bytes_read += self.statistics.metadata();
        report.recoverable = self.hopeless_count == 0;
        report.unrecoverable_stripes.clone_from(&self.hopeless);
        for index in self.statistics.bad_indices() {
            bad[index] = true;
        }
        findings.extend(&self.statistics.findings);
    }
}

/// Reads all chunks of all stripes (but those of `excluded`), and with `recompute` compares parity
/// with what data makes it.
pub(crate) fn scan(
    chunks: &dyn Chunks,
    excluded: &[usize],
    recompute: bool,
    settings: &Settings<'_>,
) -> Result<ScanResult> {
    let shape = chunks.codec().shape();
    let reader = StripeReader::new(chunks, Planner::Decode, excluded, settings);
    let spare = if recompute { shape.m } else { 0 };
    let mut result =
        ScanResult { statistics: StripeStatistics::new(shape.n()), ..ScanResult::default() };
    settings.observer.begin("verify", Some(chunks.object_bytes()));
    pipeline::run(
        frames(chunks, spare, settings),
        settings,
        0,
        |stripe, _| Ok(stripe < chunks.stripes()),
        |stripe, frame: &mut Frame| {
            reader.begin(stripe, frame);
            reader.read_whole(stripe, frame, 0..shape.n());
            let bad = (0..shape.n()).filter(|&i| frame.held[i] != Held::Whole);
            frame.hopeless = !chunks.codec().tolerates(&bad.collect::<Vec<_>>());
            if recompute && !frame.hopeless {
                check_parity(chunks, &reader, stripe, frame)?;
            }
            Ok(())
        },
        |stripe, frame| {
            if frame.hopeless {
                result.hopeless_count += 1;
                if result.hopeless.len() < MAX_DAMAGE_ENTRIES {
                    result.hopeless.push(stripe);
                }
            }
            for &index in &frame.inconsistent {
                let reason = "parity does not fit data".to_owned();
                let damage = Damage { index: Some(index), stripe: Some(stripe), reason };
                result.statistics.bad[index] = true;
                result.statistics.findings.push(damage);
            }
            settings.observer.advance(frame.object_bytes);
            result.statistics.add(stripe, frame);
            Ok(())
        },
    )?;
    Ok(result)
}

/// Recomputes parity from data into the spare buffers, and compares.
fn check_parity(
    chunks: &dyn Chunks,
    reader: &StripeReader<'_>,
    stripe: u64,
    frame: &mut Frame,
) -> Result<()> {
    let shape = chunks.codec().shape();
    let present: Vec<usize> =
        (shape.k..shape.n()).filter(|&i| frame.held[i] == Held::Whole).collect();
    let data: Vec<usize> = (0..shape.k).collect();
    reader.rebuild(stripe, frame, &data)?;
    let (sources, mut rest) = frame.split(shape.k, shape.n() + shape.m);
    let (stored, fresh) = rest.split_at_mut(shape.m);
    chunks.codec().encode(&sources, fresh)?;
    let differs = |i: &usize| stored[i - shape.k] != fresh[i - shape.k];
    let inconsistent = present.into_iter().filter(differs).collect();
    frame.inconsistent = inconsistent;
    Ok(())
}
