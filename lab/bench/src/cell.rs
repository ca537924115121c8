//! One cell of the matrix: a job on one footprint, all engines in the same rounds.

use crate::BenchError;
use crate::buffers::{Arena, Buffers};
use crate::engine::{Engine, Family, Job, Operation, Task};
use crate::kiln::Kiln;
use crate::measure::{self, Effort, Spread};
use crate::peer;
use kiln_code::{CodeSpec, Codec};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

/// Up to this chunk the oracle is the scalar kernel; above, where that takes seconds, the fastest.
const SCALAR_MAX: usize = 256 << 10;
/// Out of cache: at least these bytes of chunks in a pass.
pub const DRAM_BYTES: usize = 256 << 20;

/// How much memory a pass touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Footprint {
    /// One stripe whose n chunks have about so many bytes together, again and again.
    Cache(usize),
    /// Stripes with chunks of about so many bytes, 256 MiB or more in all.
    Dram(usize),
    /// As `Dram`, but only so many stripes: for tests.
    Stripes(usize, usize),
}

impl Footprint {
    /// The chunk for a code: near what is asked for (in a cache, not more) and legal for all
    /// engines; `None` if the sub-chunks of Clay would be shorter than 16 bytes.
    pub fn chunk(&self, family: Family, k: usize, m: usize) -> Option<usize> {
        let job = Job { family, k, m, operation: Operation::Encode, chunk: 0 };
        let target = match *self {
            Footprint::Cache(bytes) => bytes / job.n(),
            Footprint::Dram(chunk) | Footprint::Stripes(chunk, _) => chunk,
        };
        if family == Family::Rs {
            return Some((target / 256).max(1) * 256);
        }
        let mut units = [64, 32, 16].into_iter().map(|sub| sub * job.alpha());
        let unit = match self {
            Footprint::Stripes(..) => 16 * job.alpha(), // every code has its cell
            _ => units.find(|unit| *unit <= target)?,
        };
        // What is to fit a cache must not be larger: 9% more than the second-level one holds took
        // a fifth of the speed.
        let nearest = if matches!(self, Footprint::Cache(_)) { 0 } else { unit / 2 };
        Some(((target + nearest) / unit).max(1) * unit)
    }

    /// Whether a pass is more than the caches hold (or stands for one that is, in tests).
    pub fn is_memory(&self) -> bool {
        !matches!(self, Footprint::Cache(_))
    }

    /// Stripes in a pass.
    pub fn stripes(&self, job: &Job) -> usize {
        match *self {
            Footprint::Cache(_) => 1,
            Footprint::Dram(_) => DRAM_BYTES.div_ceil(job.n() * job.chunk),
            Footprint::Stripes(_, stripes) => stripes,
        }
    }
}

impl Serialize for Footprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |bytes: usize| match bytes >> 20 {
            0 => format!("{} KiB", bytes >> 10),
            mib => format!("{mib} MiB"),
        };
        match self {
            Footprint::Cache(bytes) => write!(f, "cache {}", size(*bytes)),
            Footprint::Dram(chunk) => write!(f, "DRAM, {} chunks", size(*chunk)),
            Footprint::Stripes(chunk, n) => write!(f, "{n} stripes, {} chunks", size(*chunk)),
        }
    }
}

/// An engine and what it is to do in a cell. Jobs of one cell share k, m and chunk, so that
/// "Clay's repair against Reed-Solomon's decode" is one cell too.
pub struct Contender<'a> {
    /// Who.
    pub engine: &'a dyn Engine,
    /// What.
    pub job: Job,
}

/// What one contender reached.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Rate {
    /// Name of the engine.
    pub engine: String,
    /// Its code.
    pub code: String,
    /// What it did.
    pub operation: String,
    /// GB/s: of data for an encode, of rebuilt chunks otherwise.
    pub rate: Spread,
    /// How its bytes were checked.
    pub checked: String,
    /// Seconds of a pass over all stripes, each round.
    #[serde(serialize_with = "measure::samples")]
    pub seconds: Vec<f64>,
    /// Bytes a pass counts.
    pub bytes: usize,
}

/// A contender that did not take part, and why.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LeftOut {
    /// Name of the engine.
    pub engine: String,
    /// Why.
    pub reason: String,
}

/// A measured cell.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    /// The first contender's job.
    pub job: Job,
    /// Memory touched.
    pub footprint: Footprint,
    /// Stripes in a pass.
    pub stripes: usize,
    /// What was reached, in the order of the contenders.
    pub rates: Vec<Rate>,
    /// Who did not take part.
    pub left_out: Vec<LeftOut>,
}

/// What a run that was interrupted keeps of a cell: all but what the next run knows.
#[derive(Debug, Serialize, Deserialize)]
pub struct Kept {
    rates: Vec<Rate>,
    left_out: Vec<LeftOut>,
}

impl Cell {
    /// What to keep.
    pub fn keep(self) -> Kept {
        Kept { rates: self.rates, left_out: self.left_out }
    }

    /// The cell that was kept.
    pub fn of(job: Job, footprint: Footprint, Kept { rates, left_out }: Kept) -> Cell {
        let stripes = footprint.stripes(&job);
        Cell { job, footprint, stripes, rates, left_out }
    }

    /// The rate of an engine with a family of codes.
    pub fn rate(&self, engine: &str, family: Family) -> Option<&Rate> {
        let family = family.name();
        self.rates.iter().find(|r| r.engine == engine && r.code.starts_with(family))
    }

    /// How many times faster `ours` was than `theirs`, by the median of the rounds' ratios.
    pub fn ratio(&self, ours: &Rate, theirs: &Rate) -> f64 {
        measure::paired_ratio(&theirs.seconds, &ours.seconds) * ours.bytes as f64
            / theirs.bytes as f64
    }
}

/// Prepares, checks and measures the contenders over one set of buffers.
///
/// # Errors
/// kiln makes wrong bytes or cannot do a job; memory. Peers that fail are left out instead.
pub fn run(
    arena: &mut Arena,
    footprint: Footprint,
    contenders: &[Contender<'_>],
    effort: &Effort,
) -> Result<Cell, BenchError> {
    let nobody = Job { family: Family::Rs, k: 1, m: 1, operation: Operation::Encode, chunk: 256 };
    let job = contenders.first().map_or(nobody, |first| first.job);
    let stripes = footprint.stripes(&job);
    let mut buffers = arena.lay_out(&job, stripes)?;
    let (mut ready, mut left_out) = (Vec::new(), Vec::new());
    for contender in contenders {
        match make_ready(contender, &mut buffers) {
            Ok((task, checked)) => ready.push((contender, task, checked)),
            Err(error) if contender.engine.name().starts_with("kiln") => return Err(error),
            Err(error) => {
                if !matches!(error, BenchError::Unsupported { .. }) {
                    eprintln!("!! LEFT OUT: {error}");
                }
                let engine = contender.engine.name().to_string();
                left_out.push(LeftOut { engine, reason: error.to_string() });
            }
        }
    }
    let samples = measure::interleave(ready.len(), effort, &mut |i, repeats| {
        let (contender, task, _) = &mut ready[i];
        let reads = task.reads().to_vec();
        let mut views = buffers.views(&contender.job, &reads);
        peer::clear_vector_state();
        task.pass(&mut views, repeats)
    })?;
    let rates = ready.iter().zip(samples).map(|((contender, _, checked), seconds)| {
        let bytes = contender.job.bytes() * stripes;
        let rates: Vec<f64> = seconds.iter().map(|s| bytes as f64 / s / 1e9).collect();
        Rate {
            engine: contender.engine.name().to_string(),
            code: contender.job.code(),
            operation: contender.job.operation.to_string(),
            rate: Spread::of(&rates),
            checked: checked.to_string(),
            seconds,
            bytes,
        }
    });
    Ok(Cell { job, footprint, stripes, rates: rates.collect(), left_out })
}

type Ready<'a> = (Box<dyn Task + 'a>, &'static str);

fn make_ready<'a>(
    contender: &Contender<'a>,
    buffers: &mut Buffers<'_>,
) -> Result<Ready<'a>, BenchError> {
    let Contender { engine, job } = contender;
    let mut task = engine.prepare(job)?;
    if engine.name().starts_with("ceiling:") {
        buffers.pack(job, task.reads())?;
        return Ok((task, "a ceiling"));
    }
    let checked = check_encode(*engine, job, buffers)?;
    if job.operation != Operation::Encode {
        buffers.pack(job, task.reads())?;
        buffers.spoil(job);
        once(task.as_mut(), job, buffers)?;
        for (i, chunk) in job.lost().into_iter().enumerate() {
            compare(*engine, job, chunk, buffers.rebuilt(0, i), buffers.chunk(0, chunk))?;
        }
        return Ok((task, "rebuilt the data"));
    }
    Ok((task, checked))
}

fn once(task: &mut dyn Task, job: &Job, buffers: &mut Buffers<'_>) -> Result<(), BenchError> {
    let reads = task.reads().to_vec();
    let mut views = buffers.views(job, &reads);
    task.pass(&mut views[..1], 1).map(|_| ())
}

/// Encodes stripe 0 and compares with kiln's code of the same bytes, or else decodes again.
fn check_encode(
    engine: &dyn Engine,
    job: &Job,
    buffers: &mut Buffers<'_>,
) -> Result<&'static str, BenchError> {
    let encode = job.with(Operation::Encode);
    buffers.spoil(&encode);
    once(engine.prepare(&encode)?.as_mut(), &encode, buffers)?;
    if let Some(spec) = engine.same_bytes_as(job) {
        let data: Vec<&[u8]> = (0..job.k).map(|j| buffers.chunk(0, j)).collect();
        for (r, expected) in oracle(&spec, job, &data)?.iter().enumerate() {
            compare(engine, &encode, job.k + r, buffers.chunk(0, job.k + r), expected)?;
        }
        return Ok("the bytes of kiln's scalar code");
    }
    let decode = job.with(Operation::Decode(job.m.min(job.k)));
    let mut task = match engine.prepare(&decode) {
        Err(BenchError::Unsupported { .. }) => return Ok("unchecked"),
        other => other?,
    };
    buffers.spoil(&decode);
    once(task.as_mut(), &decode, buffers)?;
    for (i, chunk) in decode.lost().into_iter().enumerate() {
        compare(engine, &decode, chunk, buffers.rebuilt(0, i), buffers.chunk(0, chunk))?;
    }
    Ok("its own round trip")
}

fn oracle(spec: &str, job: &Job, data: &[&[u8]]) -> Result<Vec<Vec<u8>>, BenchError> {
    let codec = match job.chunk <= SCALAR_MAX {
        true => {
            let spec: CodeSpec = spec.parse()?;
            Codec::with_kernel(&spec, kiln_gf::oracle())?
        }
        false => Kiln::codec(spec)?,
    };
    let mut parity = vec![vec![0; job.chunk]; job.m];
    let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
    codec.encode(data, &mut outputs)?;
    Ok(parity)
}

fn compare(
    engine: &dyn Engine,
    job: &Job,
    chunk: usize,
    got: &[u8],
    expected: &[u8],
) -> Result<(), BenchError> {
    match got.iter().zip(expected).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(byte) => {
            let job = format!("{} {}, chunk {}", job.code(), job.operation, job.chunk);
            Err(BenchError::Wrong { engine: engine.name().to_string(), job, chunk, byte })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_near_the_footprint_and_legal() {
        use Family::{Clay, Rs};
        assert_eq!(Footprint::Cache(256 << 10).chunk(Rs, 10, 4), Some(18_688));
        assert_eq!(Footprint::Cache(256 << 10).chunk(Clay, 10, 4), Some(16_384));
        assert_eq!(Footprint::Dram(64 << 10).chunk(Clay, 6, 3), Some(65_664));
        assert_eq!(Footprint::Dram(64 << 10).chunk(Clay, 16, 4), Some(65_536));
        assert_eq!(Footprint::Dram(64 << 10).chunk(Clay, 20, 4), Some(65_536));
        assert_eq!(Footprint::Cache(256 << 10).chunk(Clay, 16, 4), None);
    }
}
