//! From measurements to a model.

use super::{Combine, DeviceModel};

/// A measurement: batches of `depth` reads of `bytes` each, at random places.
///
/// ```
/// let lone = kiln_pool::reads::fit::Sample { bytes: 4096, depth: 1, seconds_each: 8e-3 };
/// assert_eq!(lone.depth, 1);
/// ```
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Sample {
    /// Bytes of a read.
    pub bytes: u64,
    /// Reads in flight.
    pub depth: u32,
    /// Seconds for each read: time of a batch, divided by its reads.
    pub seconds_each: f64,
}

/// The model that explains the samples best. Costs of reads and bytes come from the fastest depth
/// of each size, since kiln submits reads together; lone reads give the start cost.
///
/// `None` when there are less than two sizes, or a time that is none.
///
/// ```
/// use kiln_pool::reads::fit::{Sample, fit};
/// use kiln_pool::reads::Combine;
/// // 100 reads a second, 100 MB/s, whatever the depth.
/// let samples: Vec<Sample> = [4096, 65536, 1 << 20, 1 << 24]
///     .map(|bytes| Sample { bytes, depth: 1, seconds_each: 0.01 + bytes as f64 / 1e8 })
///     .to_vec();
/// let model = fit(&samples, 512).unwrap();
/// assert_eq!((model.combine, model.parallelism), (Combine::Sum, 1.0));
/// assert!((model.gap_bytes() as f64 / 1e6 - 1.0).abs() < 0.01);
/// ```
#[must_use]
pub fn fit(samples: &[Sample], alignment: u64) -> Option<DeviceModel> {
    if samples.iter().any(|s| !(s.seconds_each > 0.0 && s.seconds_each.is_finite())) {
        return None;
    }
    let mut sizes: Vec<u64> = samples.iter().map(|sample| sample.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let fastest = |bytes: u64| {
        let times = samples.iter().filter(|s| s.bytes == bytes).map(|s| s.seconds_each);
        (bytes as f64, times.fold(f64::INFINITY, f64::min))
    };
    let points: Vec<(f64, f64)> = sizes.iter().map(|&bytes| fastest(bytes)).collect();
    let smallest = *sizes.first().filter(|_| sizes.len() > 1)?;
    let fits = [(Combine::Sum, sum(&points)), (Combine::Larger, larger(&points))];
    let error = |(combine, (read, byte)): &(Combine, (f64, f64))| {
        let off = |&(bytes, time): &(f64, f64)| (combine.of(*read, bytes * byte) / time).ln();
        points.iter().map(|point| off(point).powi(2)).sum::<f64>()
    };
    // Ties (all reads of one cost, say) go to the plain sum.
    let best = if error(&fits[1]) < error(&fits[0]) { fits[1] } else { fits[0] };
    let (combine, (read_seconds, byte_seconds)) = best;
    let at = |depth: u32| samples.iter().find(|s| s.bytes == smallest && s.depth == depth);
    let lone = at(1).map_or(points[0].1, |sample| sample.seconds_each);
    let small = samples.iter().filter(|s| s.bytes == smallest);
    let enough = small.filter(|s| s.seconds_each <= 1.15 * points[0].1).map(|s| s.depth).min();
    let worst = points
        .iter()
        .map(|&(bytes, time)| (combine.of(read_seconds, bytes * byte_seconds) / time - 1.0).abs());
    Some(DeviceModel {
        start_seconds: (lone - points[0].1).max(0.0),
        parallelism: (lone / points[0].1).max(1.0),
        depth: enough.unwrap_or(1),
        alignment,
        worst_fit: worst.fold(0.0, f64::max),
        ..DeviceModel::new(read_seconds, byte_seconds, combine)
    })
}

/// time = read + bytes * byte, least squares of relative errors.
fn sum(points: &[(f64, f64)]) -> (f64, f64) {
    // Normal equations of (read + bytes * byte) / time = 1.
    let (mut rr, mut rb, mut bb, mut r1, mut b1) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for &(bytes, time) in points {
        let (r, b) = (1.0 / time, bytes / time);
        rr += r * r;
        rb += r * b;
        bb += b * b;
        r1 += r;
        b1 += b;
    }
    let det = rr * bb - rb * rb;
    let (read, byte) = ((r1 * bb - b1 * rb) / det, (b1 * rr - r1 * rb) / det);
    // Noise can push a cost that is nearly nothing below it.
    let floor = points.iter().map(|(bytes, time)| time / bytes).fold(f64::INFINITY, f64::min);
    (read.max(0.0), if byte > 0.0 { byte } else { floor })
}

/// time = larger of read and bytes * byte: the best split into sizes where the one binds and
/// sizes where the other does.
fn larger(points: &[(f64, f64)]) -> (f64, f64) {
    let mean = |logs: &mut dyn Iterator<Item = f64>, count: usize| {
        (logs.map(f64::ln).sum::<f64>() / count as f64).exp()
    };
    let split = |at: usize| {
        let (small, large) = points.split_at(at);
        let read = mean(&mut small.iter().map(|(_, time)| *time), small.len());
        let byte = mean(&mut large.iter().map(|(bytes, time)| time / bytes), large.len());
        let off = |&(bytes, time): &(f64, f64)| (read.max(bytes * byte) / time).ln().powi(2);
        (points.iter().map(off).sum::<f64>(), (read, byte))
    };
    let splits = (1..points.len()).map(split);
    splits.min_by(|a, b| a.0.total_cmp(&b.0)).map_or((0.0, 1.0), |(_, costs)| costs)
}
