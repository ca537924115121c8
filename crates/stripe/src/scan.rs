//! Reading all chunks of an object to see what is damaged.

use std::ops::Range;

use crate::blame;
use crate::chunks::Chunks;
use crate::frame::{Fit, Frame, Held};
use crate::pipeline;
use crate::stripe::{Planner, StripeReader, frames};
use crate::stripe_statistics::{Findings, StripeStatistics};
use crate::{Damage, Depth, MAX_DAMAGE_ENTRIES, Result, Settings, VerifyReport};

/// A report with nothing found yet.
pub fn report(chunks: &dyn Chunks, depth: Depth) -> VerifyReport {
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

/// Findings of reading everything.
#[derive(Debug, Default)]
pub struct ScanResult {
    /// Costs and damage.
    pub statistics: StripeStatistics,
    /// Stripes whose bad chunks do not follow from the others: the first of them, and how many.
    pub hopeless: Vec<u64>,
    /// See `hopeless`.
    pub hopeless_count: u64,
    /// Chunks that do not fit the others although their checksums hold, by index.
    pub wrong: Vec<bool>,
}

impl ScanResult {
    fn add(&mut self, stripe: u64, frame: &mut Frame) {
        if frame.hopeless || frame.fit == Fit::Unknown {
            self.give_up(stripe..stripe + 1);
        }
        let wrong = match frame.fit {
            Fit::Good => None,
            Fit::AllBut(index) => {
                self.statistics.bad[index] = true;
                self.wrong[index] = true;
                Some((Some(index), "its checksums hold, but it does not fit all others"))
            }
            Fit::Unknown => {
                Some((None, "parity does not fit data, and it cannot be told which is wrong"))
            }
        };
        if let Some((index, reason)) = wrong {
            let damage = Damage { index, stripe: Some(stripe), reason: reason.to_owned() };
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
    pub fn fill(&self, report: &mut VerifyReport, findings: &mut Findings, bad: &mut [bool]) {
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
pub fn scan(
    chunks: &dyn Chunks,
    excluded: &[usize],
    recompute: bool,
    settings: &Settings<'_>,
) -> Result<ScanResult> {
    let shape = chunks.codec().shape();
    let reader = StripeReader::new(chunks, Planner::Decode, excluded, settings);
    let spare = if recompute { shape.m } else { 0 };
    let (statistics, wrong) = (StripeStatistics::new(shape.n()), vec![false; shape.n()]);
    let mut result = ScanResult { statistics, wrong, ..ScanResult::default() };
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
                    frame.fit = blame::check(chunks, &reader, stripe, frame)?;
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
