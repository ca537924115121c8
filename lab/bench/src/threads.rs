//! What a second core adds, in cache: both threads share one codec, each has its own stripe.
//!
//! The second core of a virtual machine is not always there. So every round also runs a plain loop
//! on one and on two threads, and only rounds count in which that loop was nearly twice as fast
//! with two, where there are any.

use crate::BenchError;
use crate::buffers::{Arena, arena_bytes};
use crate::cell::Footprint;
use crate::engine::{Family, Job, Operation, Reads};
use crate::kiln::Kiln;
use crate::measure::{self, Spread};
use kiln_code::Codec;
use serde::Serialize;
use std::sync::Barrier;
use std::time::Instant;

/// Two threads against one.
#[derive(Debug, Clone, Serialize)]
pub struct TwoThreads {
    /// The code.
    pub code: String,
    /// Bytes of a chunk.
    pub chunk: usize,
    /// GB/s of data, one thread.
    pub one: Spread,
    /// GB/s of data, both together.
    pub two: Spread,
    /// Median of two against one over the rounds that count.
    pub ratio: f64,
    /// Two against one of the plain loop: what the machine gave.
    pub plain: Spread,
    /// Rounds in all.
    pub rounds: usize,
    /// Rounds in which the plain loop reached [`THERE`].
    pub there: usize,
}

/// Where the plain loop is this much faster with two threads, both cores were there.
pub const THERE: f64 = 1.9;
/// Words of the plain loop: well within a first-level cache.
const PLAIN_WORDS: usize = 1 << 11;

/// Seconds of one round: alone and together, of encoding and of the plain loop.
#[derive(Debug, Clone, Copy)]
struct Round {
    encode: (f64, f64),
    plain: (f64, f64),
}

fn gain((one, two): (f64, f64)) -> f64 {
    2.0 * one / two
}

/// A loop that needs a core and a little cache, and nothing of kiln.
fn plain(words: &mut [u64], repeats: usize) {
    for _ in 0..repeats {
        for word in words.iter_mut() {
            *word = word.rotate_left(5) ^ 0x9e37_79b9_7f4a_7c15;
        }
        std::hint::black_box(&mut *words);
    }
}

/// Repeats of the plain loop that take so many seconds.
fn plain_repeats(seconds: f64) -> usize {
    let mut words = vec![1; PLAIN_WORDS];
    plain(&mut words, 100);
    let begin = Instant::now();
    plain(&mut words, 100);
    (100.0 * seconds / begin.elapsed().as_secs_f64().max(1e-9)).ceil().clamp(1.0, 1e7) as usize
}

/// Encodes with one and with two threads in turn, `seconds` long each time.
///
/// # Errors
/// kiln cannot do the job; memory.
pub fn run(
    family: Family,
    (k, m): (usize, usize),
    footprint: Footprint,
    rounds: usize,
    seconds: f64,
) -> Result<Option<TwoThreads>, BenchError> {
    let Some(chunk) = footprint.chunk(family, k, m) else { return Ok(None) };
    let job = Job { family, k, m, operation: Operation::Encode, chunk };
    let codec = Kiln::codec(&Kiln::spec(&job))?;
    let repeats = (seconds / solo(&codec, &job, 1)?.max(1e-9)).ceil().clamp(1.0, 1e7) as usize;
    let repeats = (repeats, plain_repeats(seconds));
    let barrier = Barrier::new(2);
    let (first, second) = std::thread::scope(|scope| {
        let partner = scope.spawn(|| turns(1, &codec, &job, rounds, repeats, &barrier));
        let mine = scope.spawn(|| turns(0, &codec, &job, rounds, repeats, &barrier)).join();
        (mine, partner.join())
    });
    let died = |_| BenchError::Failed { engine: "kiln".into(), reason: "a thread died".into() };
    let times = first.map_err(died)??;
    second.map_err(died)??;
    let bytes = (job.bytes() * repeats.0) as f64 / 1e9;
    let rates = |threads: f64, pick: fn(&(f64, f64)) -> f64| {
        let rates: Vec<f64> = times.iter().map(|t| threads * bytes / pick(&t.encode)).collect();
        Spread::of(&rates)
    };
    let there: Vec<&Round> = times.iter().filter(|t| gain(t.plain) >= THERE).collect();
    let counted = if there.is_empty() { times.iter().collect() } else { there.clone() };
    let ratios: Vec<f64> = counted.iter().map(|t| gain(t.encode)).collect();
    let plain: Vec<f64> = times.iter().map(|t| gain(t.plain)).collect();
    Ok(Some(TwoThreads {
        code: job.code(),
        chunk,
        one: rates(1.0, |t| t.0),
        two: rates(2.0, |t| t.1),
        ratio: Spread::of(&ratios).median,
        plain: Spread::of(&plain),
        rounds: times.len(),
        there: there.len(),
    }))
}

/// Seconds of one encode, warm.
fn solo(codec: &Codec, job: &Job, stripes: usize) -> Result<f64, BenchError> {
    let mut arena = Arena::new(arena_bytes(job, stripes), true)?;
    let mut buffers = arena.lay_out(job, stripes)?;
    let reads: Vec<Reads> = (0..job.k).map(Reads::whole).collect();
    let mut views = buffers.views(job, &reads);
    let mut seconds = 0.0;
    for _ in 0..3 {
        let begin = Instant::now();
        for stripe in &mut views {
            codec.encode(&stripe.inputs, &mut stripe.outputs)?;
        }
        seconds = begin.elapsed().as_secs_f64();
    }
    Ok(seconds)
}

/// One thread's part: alone (thread 0 only), then together, round by round; `repeats` of encoding
/// and of the plain loop.
fn turns(
    core: usize,
    codec: &Codec,
    job: &Job,
    rounds: usize,
    repeats: (usize, usize),
    barrier: &Barrier,
) -> Result<Vec<Round>, BenchError> {
    measure::pin(core);
    let mut arena = Arena::new(arena_bytes(job, 1), true);
    let mut buffers = match &mut arena {
        Ok(arena) => arena.lay_out(job, 1),
        // Both threads must reach every barrier: the error is reported after the rounds.
        Err(error) => Err(BenchError::Failed { engine: "kiln".into(), reason: error.to_string() }),
    };
    let reads: Vec<Reads> = (0..job.k).map(Reads::whole).collect();
    let mut views = buffers.as_mut().map(|buffers| buffers.views(job, &reads));
    let mut result: Result<(), BenchError> = Ok(());
    let mut work = |active: bool| {
        let begin = Instant::now();
        if let (true, Ok(views)) = (active, &mut views) {
            for _ in 0..repeats.0 {
                for stripe in views.iter_mut() {
                    if let Err(error) = codec.encode(&stripe.inputs, &mut stripe.outputs) {
                        result = Err(error.into());
                    }
                }
            }
        }
        barrier.wait();
        begin.elapsed().as_secs_f64()
    };
    let mut words = vec![core as u64; PLAIN_WORDS];
    let mut loops = |active: bool| {
        let begin = Instant::now();
        if active {
            plain(&mut words, repeats.1);
        }
        barrier.wait();
        begin.elapsed().as_secs_f64()
    };
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..=rounds {
        let turn = |work: &mut dyn FnMut(bool) -> f64| {
            barrier.wait();
            let one = work(core == 0);
            barrier.wait();
            (one, work(true))
        };
        let encode = turn(&mut work);
        times.push(Round { encode, plain: turn(&mut loops) });
    }
    buffers.map(|_| ())?;
    result?;
    times.remove(0); // the warm-up
    Ok(times)
}
