//! Small work: how long a codec takes to make, and one stripe of 4 KiB to encode.

use crate::BenchError;
use crate::kiln::Kiln;
use crate::measure::Spread;
use serde::Serialize;
use std::time::Instant;

/// Bytes of data in the stripe.
const STRIPE: usize = 4096;

/// Microseconds of small work with one code.
#[derive(Debug, Clone, Serialize)]
pub struct Small {
    /// The code.
    pub code: String,
    /// Bytes of a chunk of the stripe.
    pub chunk: usize,
    /// From the text of a spec to a codec.
    pub codec: Spread,
    /// From a codec to its plan of encoding, compiled.
    pub plan: Spread,
    /// Encoding one stripe with a plan that was used before.
    pub stripe: Spread,
}

/// Measures one code, so many times.
///
/// # Errors
/// The spec is no code.
pub fn run(spec: &str, rounds: usize, repeats: usize) -> Result<Small, BenchError> {
    let micros = |since: Instant, count: usize| since.elapsed().as_secs_f64() * 1e6 / count as f64;
    let shape = Kiln::codec(spec)?.shape();
    let chunk = shape.chunk_for(STRIPE);
    let data: Vec<Vec<u8>> =
        (0..shape.k).map(|j| (0..chunk).map(|i| (i * 7 + j * 31) as u8).collect()).collect();
    let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let mut parity = vec![vec![0; chunk]; shape.m];
    let (mut codecs, mut plans, mut stripes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let begin = Instant::now();
        let codec = Kiln::codec(spec)?;
        codecs.push(micros(begin, 1));
        let begin = Instant::now();
        codec.encode_plan()?;
        plans.push(micros(begin, 1));
        let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
        for _ in 0..repeats {
            codec.encode(&data, &mut outputs)?; // until there is machine code, where there is any
        }
        let begin = Instant::now();
        for _ in 0..repeats {
            codec.encode(&data, &mut outputs)?;
        }
        stripes.push(micros(begin, repeats));
    }
    Ok(Small {
        code: spec.to_string(),
        chunk,
        codec: Spread::of(&codecs),
        plan: Spread::of(&plans),
        stripe: Spread::of(&stripes),
    })
}
