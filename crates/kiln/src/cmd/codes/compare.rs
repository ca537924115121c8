//! `kiln codes --compare K+M`: the codes for some k and m side by side.

use std::time::{Duration, Instant};

use kiln_code::{CODES, CodeSpec, Codec};
use minijinja::context;
use serde::Serialize;

use crate::exit::{Exit, Failure, Result};
use crate::{print::fields, setup::Setup};

/// Data of the stripe that is encoded to take the time.
const DATA_BYTES: usize = 16 << 20;
/// Time for which each code is measured.
const MEASURED: Duration = Duration::from_millis(100);

/// Compares all families at these chunk numbers.
pub fn run(numbers: &str, setup: &Setup) -> Result<Exit> {
    let pair = numbers.split_once('+').and_then(|(k, m)| Some((k.parse().ok()?, m.parse().ok()?)));
    let Some((k, m)) = pair else {
        let problem = format!("'{numbers}' is not K+M, e.g. 10+4");
        return Err(Failure::Flag { flag: "--compare", problem });
    };
    // Reed-Solomon exists for all k and m that any family supports.
    CodeSpec::of_family("rs", k, m)?;
    let (mut rows, mut impossible) = (Vec::new(), Vec::new());
    for family in CODES {
        let codec = CodeSpec::of_family(family.name, k, m).and_then(|spec| Codec::new(&spec));
        match codec {
            Ok(codec) => rows.push(row(&codec, setup.seed)?),
            Err(error) => {
                impossible.push(fields! { family: family.name, reason: error.to_string() });
            }
        }
    }
    // Families that have no code of these numbers are named beside the others.
    let report = fields! { k: k, m: m, codes: rows, impossible: impossible };
    setup.show("codes compared", &report, context! { choices => super::choices()? })
}

/// One code. Operations are for each byte of data.
fn row(codec: &Codec, seed: u64) -> Result<impl Serialize + use<>> {
    let cost = codec.coding_cost()?;
    Ok(fields! {
        code: codec.spec().to_string(),
        alpha: codec.shape().alpha,
        multiplications: cost.multiplications,
        xors: cost.xors,
        // Parity bytes that change with one byte of data.
        updates: cost.updates,
        // Chunks read to rebuild one, on average.
        repair_chunks_mean: codec.average_cost(1, seed)?.mean_chunks,
        // Data encoded in a second by one thread, from memory to memory.
        encode_bytes_per_second: encode_speed(codec)?,
    })
}

/// Encodes one stripe again and again and takes the fastest: what else the machine does only ever
/// slows a run down.
fn encode_speed(codec: &Codec) -> Result<f64> {
    let shape = codec.shape();
    let sub_chunk = (DATA_BYTES / (shape.k * shape.alpha)).next_multiple_of(64);
    let chunk = sub_chunk * shape.alpha;
    let byte = |i: usize, j: usize| (i.wrapping_mul(0x9e37_79b1) >> 13) as u8 ^ j as u8;
    let data: Vec<Vec<u8>> =
        (0..shape.k).map(|j| (0..chunk).map(|i| byte(i, j)).collect()).collect();
    let sources: Vec<&[u8]> = data.iter().map(|chunk| &chunk[..]).collect();
    let mut parity = vec![vec![0; chunk]; shape.m];
    let mut results: Vec<&mut [u8]> = parity.iter_mut().map(|chunk| &mut chunk[..]).collect();
    // The first run compiles the plan and touches the memory.
    codec.encode(&sources, &mut results)?;
    let (begin, mut fastest) = (Instant::now(), Duration::MAX);
    while begin.elapsed() < MEASURED {
        let start = Instant::now();
        codec.encode(&sources, &mut results)?;
        fastest = fastest.min(start.elapsed());
    }
    Ok((shape.k * chunk) as f64 / fastest.as_secs_f64().max(1e-9))
}
