//! The models that measurements allow beside the best one.
//!
//! Only the ratio of both costs decides which reads are best, so of every kind of model (costs add
//! up or the larger counts; pieces of which size) those with the lowest and the highest ratio that
//! still explain the measurements are kept. "Still": the sum of squared logarithms grows by no
//! more than two free parameters explain by chance in 95 of 100 probes, where the noise is what
//! the best model leaves unexplained, or what repetitions showed, whichever is more.

use super::{Combine, Explained, Point, error, of_kind, points};
use crate::device::{AlternativeModel, Uncertainty};

/// No measurement is better than this.
const NOISE_MIN: f64 = 0.02;
/// 95% of the chi-square distribution with two degrees of freedom.
const BY_CHANCE: f64 = 5.99;
/// Steps of the ratio while its ends are looked for.
const STEP: f64 = 1.03;
/// Ratios of a read to a byte, in bytes, beyond which nothing changes any more.
const RATIOS: (f64, f64) = (64.0, 1e9);
/// Ratios that are so close lead to the same reads, nearly.
const SAME: f64 = 1.05;
/// Kinds of models kept: the best, and others in order of how well they explain.
const KINDS_MAX: usize = 6;

/// Returns the distance of measurements (sizes and seconds of a read) from `best`, and what else
/// they allow, with pieces of any of these sizes.
pub(super) fn uncertainty(
    times: &[(u64, f64)],
    best: &Explained,
    pieces: &[Option<u64>],
    spread: f64,
) -> Uncertainty {
    // Two costs were fitted: that many measurements could not differ.
    let free = times.len().saturating_sub(2).max(1) as f64;
    let unexplained = (best.error / free).sqrt();
    let noise = unexplained.max(spread).max(NOISE_MIN);
    let limit = best.error + BY_CHANCE * noise * noise;
    let mut kinds: Vec<Explained> = Vec::new();
    for &piece in pieces {
        for combine in [Combine::Sum, Combine::Larger] {
            let kind = of_kind(times, piece, combine);
            let known = kinds.iter().any(|k| (k.piece_bytes, k.combine) == (piece, combine));
            if kind.error <= limit && !known {
                kinds.push(kind);
            }
        }
    }
    // The best kind first, whatever its error: pieces that are not known need more than a tie.
    // Nor may the other way to put costs together be lost among sizes of pieces.
    let rank = |k: &Explained| match k.piece_bytes == best.piece_bytes {
        true if k.combine == best.combine => 0,
        true => 1,
        false => 2,
    };
    kinds.sort_by(|a, b| rank(a).cmp(&rank(b)).then(a.error.total_cmp(&b.error)));
    let mut alternatives = Vec::new();
    for kind in kinds.iter().take(KINDS_MAX) {
        let points = points(times, kind.piece_bytes);
        let own = (kind.costs.0 / kind.costs.1).clamp(RATIOS.0, RATIOS.1);
        let ends = [1.0 / STEP, STEP].map(|step| end(&points, kind.combine, own, step, limit));
        let alike = ends[1].0 / ends[0].0 < SAME;
        let (best_kind, ends) = (rank(kind) == 0, ends.into_iter());
        // Of a kind with one ratio the model itself says it all.
        let (skip, most) = (usize::from(best_kind && alike) * 2, if alike { 1 } else { 2 });
        alternatives.extend(ends.skip(skip).take(most).map(|(ratio, byte_seconds)| {
            AlternativeModel {
                read_seconds: ratio * byte_seconds,
                byte_seconds,
                combine: kind.combine,
                piece_bytes: kind.piece_bytes,
            }
        }));
    }
    alternatives.truncate(Uncertainty::ALTERNATIVES_MAX);
    Uncertainty { error: unexplained.max(spread), spread, alternatives }
}

/// The farthest ratio in steps of `step` that still explains the points, and the cost of a byte.
fn end(points: &[Point], combine: Combine, own: f64, step: f64, limit: f64) -> (f64, f64) {
    let (mut ratio, mut byte) = (own, scaled(points, combine, own));
    loop {
        let next = ratio * step;
        let costs = scaled(points, combine, next);
        let allowed = error(points, combine, (next * costs, costs)) <= limit;
        if !allowed || !(RATIOS.0..=RATIOS.1).contains(&next) {
            return (ratio, byte);
        }
        (ratio, byte) = (next, costs);
    }
}

/// The cost of a byte that explains the points best where a read costs `ratio` bytes.
fn scaled(points: &[Point], combine: Combine, ratio: f64) -> f64 {
    let off = |p: &Point| (p.seconds / combine.of(p.reads * ratio, p.bytes)).ln();
    let mean = points.iter().map(off).sum::<f64>() / points.len().max(1) as f64;
    // A model's cost of a byte is a normal number.
    mean.exp().max(f64::MIN_POSITIVE)
}
