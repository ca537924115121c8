//! Reading all chunks of an object to see what is damaged.

use std::ops::Range;

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
    /// Adds one stripe.
    fn add(&mut self, stripe: u64, frame: &mut Frame) {
        if frame.hopeless {
            self.give_up(stripe..stripe + 1);
        }
        for &index in &frame.inconsistent {
            let reason = "parity does not fit data".to_owned();
            let damage = Damage { index: Some(index), stripe: Some(stripe), reason };
            self.statistics.bad[index] = true;
            self.statistics.findings.push(damage);
        }
        self.statistics.add(stripe, frame);
    }

    /// Notes that these stripes cannot be rebuilt.
    fn give_up(&mut self, stripes: Range<u64>) {
        self.hopeless_count += stripes.end - stripes.start;
        let room = MAX_DAMAGE_ENTRIES - self.hopeless.len();
        self.hopeless.extend(stripes.take(room));
    }

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
    let stripes = chunks.stripes();
    let usable: Vec<usize> = (0..shape.n()).filter(|chunk| !excluded.contains(chunk)).collect();
    let next = |stripe| {
        let next = usable.iter().map(|&chunk| chunks.next_stripe(chunk, stripe)).min();
        next.unwrap_or(stripes).min(stripes)
    };
    let mut at = 0;
    while at < stripes {
        // Stripes of which nothing is there take no time, however many are declared.
        let start = next(at);
        result.give_up(at..start);
        settings.observer.advance(object_bytes(chunks, at..start));
        if start == stripes {
            break;
        }
        at = pipeline::run(
            frames(chunks, spare, settings),
            settings,
            start,
            |stripe, _| {
                let begins = stripe.is_multiple_of(chunks.segment_stripes());
                Ok(stripe < stripes && (!begins || next(stripe) == stripe))
            },
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
                settings.observer.advance(frame.object_bytes);
                result.add(stripe, frame);
                Ok(())
            },
        )?;
    }
    Ok(result)
}

/// Bytes of the object in these stripes.
fn object_bytes(chunks: &dyn Chunks, stripes: Range<u64>) -> u64 {
    let before = |stripe: u64| {
        let bytes = stripe.saturating_mul(chunks.stripe_bytes(0));
        bytes.min(chunks.object_bytes())
    };
    before(stripes.end) - before(stripes.start)
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
