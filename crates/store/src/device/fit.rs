//! From measurements to a model, and to how much it can be trusted.

mod alternatives;

use super::{Combine, DeviceModel};

/// A measurement: batches of `depth` reads of `bytes` each, at random places.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Sample {
    /// Bytes of a read.
    pub bytes: u64,
    /// Reads in flight.
    pub depth: u32,
    /// Seconds for each read: time of a batch, divided by its reads.
    pub seconds_each: f64,
    /// Median spread of its repetitions: 0.1 for 10%; 0 where there was one.
    pub spread: f64,
    /// Number of repetitions.
    pub visits: u32,
}

impl Sample {
    /// One without repetitions.
    pub fn new(bytes: u64, depth: u32, seconds_each: f64) -> Sample {
        Sample { bytes, depth, seconds_each, spread: 0.0, visits: 1 }
    }
}

/// Sizes in which block layers are known to hand reads on: powers of two, and Linux' usual limit.
const PIECES: &[u64] =
    &[1280 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];
/// Depths count as equally fast up to here: their mean is nearer the truth than the luckiest one.
const AS_FAST: f64 = 1.25;
/// Pieces of a guessed size must explain the samples so much better (sum of squares) ...
const PIECES_GAIN: f64 = 0.5;
/// ... and without them a sample must be off by so much on average: less is noise.
const PIECES_NOISE: f64 = 0.03;

/// The model that explains the samples best. Costs of reads and bytes come from the fastest depths
/// of each size, since kiln submits reads together; lone reads give the start cost. Whether long
/// reads are charged in pieces is tried for usual sizes of pieces and for `pieces`, which the
/// system may know (`kiln_store::longest_read`).
///
/// `None` when there are less than two sizes, or a time that is none.
pub fn fit(samples: &[Sample], alignment: u64, pieces: &[u64]) -> Option<DeviceModel> {
    if samples.iter().any(|s| !(s.seconds_each > 0.0 && s.seconds_each.is_finite())) {
        return None;
    }
    let mut sizes: Vec<u64> = samples.iter().map(|sample| sample.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let times: Vec<(u64, f64)> = sizes.iter().map(|&bytes| typical(samples, bytes)).collect();
    let smallest = *sizes.first().filter(|_| sizes.len() > 1)?;
    let whole = explained(&times, None);
    let noise = times.len() as f64 * PIECES_NOISE.powi(2);
    // A size that cuts no sample says nothing, and every one of them says so equally well.
    let cuts = |piece: &&u64| sizes.iter().any(|size| size > *piece);
    let usable = pieces.iter().filter(|&&piece| piece >= DeviceModel::PIECE_BYTES_MIN);
    // What is known to be cut needs only to be the better explanation; of many guesses one is
    // always a little better by chance.
    let known = usable.map(|&piece| (piece, 1.0));
    let guessed = PIECES.iter().map(|&piece| (piece, PIECES_GAIN));
    let cut: Vec<(Explained, f64)> = known
        .chain(guessed)
        .filter(|(piece, _)| cuts(&piece))
        .map(|(piece, gain)| (explained(&times, Some(piece)), gain))
        .collect();
    let best = cut
        .iter()
        .filter(|(cut, gain)| whole.error > noise && cut.error < gain * whole.error)
        .map(|(cut, _)| cut)
        .min_by(|a, b| a.error.total_cmp(&b.error))
        .unwrap_or(&whole);
    let at = |depth: u32| samples.iter().find(|s| s.bytes == smallest && s.depth == depth);
    let lone = at(1).map_or(times[0].1, |sample| sample.seconds_each);
    let small = samples.iter().filter(|s| s.bytes == smallest);
    let enough = small.filter(|s| s.seconds_each <= 1.15 * times[0].1).map(|s| s.depth).min();
    let model = DeviceModel {
        version: if best.piece_bytes.is_some() { DeviceModel::VERSION } else { 1 },
        piece_bytes: best.piece_bytes,
        start_seconds: (lone - times[0].1).max(0.0),
        parallelism: (lone / times[0].1).max(1.0),
        depth: enough.unwrap_or(1),
        alignment,
        ..DeviceModel::new(best.costs.0, best.costs.1, best.combine)
    };
    let expected = |bytes| model.seconds(model.operations(bytes), bytes) - model.start_seconds;
    let worst = times.iter().map(|&(bytes, time)| (expected(bytes) / time - 1.0).abs());
    let worst_fit = worst.fold(0.0, f64::max);
    let pieces: Vec<Option<u64>> =
        [None].into_iter().chain(cut.iter().map(|(cut, _)| cut.piece_bytes)).collect();
    let uncertainty = alternatives::uncertainty(&times, best, &pieces, middle_spread(samples));
    Some(DeviceModel { worst_fit, uncertainty, ..model })
}

/// Returns the seconds of a read of one size, from the fastest depths of those that were visited
/// most.
fn typical(samples: &[Sample], bytes: u64) -> (u64, f64) {
    let alike = || samples.iter().filter(|s| s.bytes == bytes);
    let visits = alike().map(|s| s.visits).max().unwrap_or(0);
    let times = || alike().filter(|s| s.visits == visits).map(|s| s.seconds_each);
    let least = times().fold(f64::INFINITY, f64::min);
    let (sum, count) = times()
        .filter(|&time| time <= AS_FAST * least)
        .fold((0.0, 0.0), |all, time| (all.0 + time, all.1 + 1.0));
    (bytes, sum / count)
}

/// The spread of repetitions that half of the samples do not exceed.
fn middle_spread(samples: &[Sample]) -> f64 {
    let mut spreads: Vec<f64> =
        // What was visited once says nothing of it.
        samples.iter().map(|s| s.spread).filter(|s| *s > 0.0 && s.is_finite()).collect();
    spreads.sort_by(f64::total_cmp);
    spreads.get(spreads.len() / 2).copied().unwrap_or(0.0).max(0.0)
}

/// A measured read of one size: reads it costs, bytes, seconds.
#[derive(Copy, Clone)]
struct Point {
    reads: f64,
    bytes: f64,
    seconds: f64,
}

/// The best that can be said with pieces of one size, or none.
#[derive(Clone)]
struct Explained {
    piece_bytes: Option<u64>,
    combine: Combine,
    /// Seconds of a read and of a byte.
    costs: (f64, f64),
    /// Sum of the squared logarithms of what is said over what was measured.
    error: f64,
}

/// The best of one kind of model.
fn of_kind(times: &[(u64, f64)], piece_bytes: Option<u64>, combine: Combine) -> Explained {
    let points = points(times, piece_bytes);
    let costs = match combine {
        Combine::Sum => sum(&points),
        Combine::Larger => larger(&points),
    };
    Explained { piece_bytes, combine, costs, error: error(&points, combine, costs) }
}

fn explained(times: &[(u64, f64)], piece_bytes: Option<u64>) -> Explained {
    let [sum, larger] =
        [Combine::Sum, Combine::Larger].map(|combine| of_kind(times, piece_bytes, combine));
    // Ties (all reads of one cost, say) go to the plain sum.
    if larger.error < sum.error { larger } else { sum }
}

fn points(times: &[(u64, f64)], piece_bytes: Option<u64>) -> Vec<Point> {
    let device = DeviceModel { piece_bytes, ..DeviceModel::new(0.0, 1.0, Combine::Sum) };
    let point = |&(bytes, seconds): &(u64, f64)| {
        let reads = device.operations(bytes) as f64;
        Point { reads, bytes: bytes as f64, seconds }
    };
    times.iter().map(point).collect()
}

fn error(points: &[Point], combine: Combine, (read, byte): (f64, f64)) -> f64 {
    let off = |p: &Point| (combine.of(p.reads * read, p.bytes * byte) / p.seconds).ln().powi(2);
    points.iter().map(off).sum()
}

/// time = reads * read + bytes * byte, least squares of relative errors.
fn sum(points: &[Point]) -> (f64, f64) {
    // Normal equations of (reads * read + bytes * byte) / time = 1.
    let (mut rr, mut rb, mut bb, mut r1, mut b1) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for point in points {
        let (r, b) = (point.reads / point.seconds, point.bytes / point.seconds);
        rr += r * r;
        rb += r * b;
        bb += b * b;
        r1 += r;
        b1 += b;
    }
    let det = rr * bb - rb * rb;
    let (read, byte) = ((r1 * bb - b1 * rb) / det, (b1 * rr - r1 * rb) / det);
    // Noise can push a cost that is nearly nothing below it.
    let floor = points.iter().map(|p| p.seconds / p.bytes).fold(f64::INFINITY, f64::min);
    (read.max(0.0), if byte > 0.0 { byte } else { floor })
}

/// time = larger of reads * read and bytes * byte. Which of both binds where is not known: begin
/// with every split into small sizes and large ones, then let the costs say it themselves.
fn larger(points: &[Point]) -> (f64, f64) {
    let mean = |of: &dyn Fn(&Point) -> f64, binds: &[bool], wanted: bool| {
        let logs = || points.iter().zip(binds).filter(|(_, b)| **b == wanted);
        let sum: f64 = logs().map(|(point, _)| (point.seconds / of(point)).ln()).sum();
        (logs().count() > 0).then(|| (sum / logs().count() as f64).exp())
    };
    let mut best = (f64::INFINITY, (0.0, 1.0));
    for at in 1..points.len() {
        let mut reads_bind: Vec<bool> = (0..points.len()).map(|point| point < at).collect();
        for _ in 0..points.len() {
            let read = mean(&|point| point.reads, &reads_bind, true);
            let byte = mean(&|point| point.bytes, &reads_bind, false);
            let (Some(read), Some(byte)) = (read, byte) else { break };
            let off = error(points, Combine::Larger, (read, byte));
            if off < best.0 {
                best = (off, (read, byte));
            }
            reads_bind =
                points.iter().map(|point| point.reads * read > point.bytes * byte).collect();
        }
    }
    best.1
}
