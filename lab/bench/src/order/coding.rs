//! Encode and repair in each order beside natural order: the same arithmetic at other places.

use super::Options;
use super::tables::codec;
use crate::BenchError;
use crate::buffers::fill;
use crate::measure::{Spread, Stopwatch, interleave, paired_ratio};
use kiln_code::{Codec, RepairPlan, TemporalHint};
use serde::Serialize;
use std::sync::Arc;

const CODES: [&str; 4] = ["16+2", "10+4", "12+4", "9+3"];
/// Natural order twice: the second shows what is noise.
const ORDERS: [&str; 5] = ["natural", "natural", "gray", "fewest", "balanced"];
/// 4 KiB sub-chunks: chunks of 2 MiB, 1 MiB, 1 MiB and 324 KiB.
const SUB_CHUNK: usize = 4096;
/// Stripes in turn, so that they come from memory and not from a cache.
const STRIPES: usize = 8;

/// One order of one code.
#[derive(Debug, Serialize)]
pub struct Coding {
    /// The code.
    pub code: &'static str,
    /// The order.
    pub order: &'static str,
    /// Data of an encode, GB/s.
    pub encode: Spread,
    /// Median over rounds of the speed over natural order's.
    pub encode_over_natural: f64,
    /// Rebuilt bytes of a repair of the last chunk, GB/s.
    pub repair: Spread,
    /// See `encode_over_natural`.
    pub repair_over_natural: f64,
}

/// One order's buffers.
struct Fixture {
    codec: Codec,
    plan: Arc<RepairPlan>,
    stripes: Vec<Stripe>,
}

struct Stripe {
    parity: Vec<Vec<u8>>,
    helpers: Vec<Vec<u8>>,
    rebuilt: Vec<u8>,
}

impl Fixture {
    fn new(
        code: &str,
        order: &str,
        data: &[Vec<Vec<u8>>],
        sub_chunk: usize,
    ) -> Result<Fixture, BenchError> {
        let codec = codec(code, order)?;
        let shape = codec.shape();
        let last = shape.n() - 1;
        let plan = codec.repair_plan(&[last], &(0..last).collect::<Vec<_>>())?;
        let mut stripes = Vec::new();
        for data in data {
            let mut parity = vec![vec![0; shape.alpha * sub_chunk]; shape.m];
            encode(&codec, data, &mut parity)?;
            let chunks: Vec<&Vec<u8>> = data.iter().chain(&parity).collect();
            let helpers = plan.helpers().iter().map(|helper| {
                let bytes = |at: u32| at as usize * sub_chunk;
                let run = |run: &std::ops::Range<u32>| {
                    &chunks[helper.chunk][bytes(run.start)..bytes(run.end)]
                };
                helper.runs.iter().flat_map(run).copied().collect()
            });
            let helpers = helpers.collect();
            let rebuilt = vec![0; shape.alpha * sub_chunk];
            stripes.push(Stripe { parity, helpers, rebuilt });
        }
        let mut fixture = Fixture { codec, plan, stripes };
        fixture.repair()?;
        match fixture.stripes.iter().all(|s| s.parity.last() == Some(&s.rebuilt)) {
            true => Ok(fixture),
            false => Err(BenchError::Wrong {
                engine: "kiln".into(),
                job: format!("repair of {}", fixture.codec.spec()),
                chunk: last,
                byte: 0,
            }),
        }
    }

    fn repair(&mut self) -> Result<(), BenchError> {
        for stripe in &mut self.stripes {
            let inputs: Vec<&[u8]> = stripe.helpers.iter().map(|helper| &helper[..]).collect();
            self.plan.run_on(&inputs, &mut [&mut stripe.rebuilt], TemporalHint::NonTemporal)?;
        }
        Ok(())
    }

    fn encode(&mut self, data: &[Vec<Vec<u8>>]) -> Result<(), BenchError> {
        for (data, stripe) in data.iter().zip(&mut self.stripes) {
            encode(&self.codec, data, &mut stripe.parity)?;
        }
        Ok(())
    }
}

fn encode(codec: &Codec, data: &[Vec<u8>], parity: &mut [Vec<u8>]) -> Result<(), BenchError> {
    let data: Vec<&[u8]> = data.iter().map(|chunk| &chunk[..]).collect();
    let mut parity: Vec<&mut [u8]> = parity.iter_mut().map(|chunk| &mut chunk[..]).collect();
    Ok(codec.encode_on(&data, &mut parity, TemporalHint::NonTemporal)?)
}

/// Measures every order of every code, in turn on the same data.
pub fn measure(options: &Options<'_>) -> Result<Vec<Coding>, BenchError> {
    let mut rows = Vec::new();
    for code in CODES {
        if options.tiny && code != "9+3" {
            continue;
        }
        let sub_chunk = if options.tiny { 16 } else { SUB_CHUNK };
        let shape = codec(code, "natural")?.shape();
        let stripes = if options.tiny { 1 } else { STRIPES };
        let chunk = vec![0; shape.alpha * sub_chunk];
        let mut data = vec![vec![chunk; shape.k]; stripes];
        for (seed, chunk) in data.iter_mut().flatten().enumerate() {
            fill(chunk, seed as u64);
        }
        let mut grounds = Vec::new();
        for order in ORDERS {
            grounds.push(Fixture::new(code, order, &data, sub_chunk)?);
        }
        let encode = interleave(ORDERS.len(), &options.effort(), &mut |at, repeats| {
            let watch = Stopwatch::start();
            for _ in 0..repeats {
                grounds[at].encode(&data)?;
            }
            Ok(watch.read())
        })?;
        let repair = interleave(ORDERS.len(), &options.effort(), &mut |at, repeats| {
            let watch = Stopwatch::start();
            for _ in 0..repeats {
                grounds[at].repair()?;
            }
            Ok(watch.read())
        })?;
        let chunk = (stripes * shape.alpha * sub_chunk) as f64;
        let rates = |seconds: &[f64], bytes: f64| {
            Spread::of(&seconds.iter().map(|s| bytes / s / 1e9).collect::<Vec<_>>())
        };
        for (at, order) in ORDERS.into_iter().enumerate() {
            rows.push(Coding {
                code,
                order,
                encode: rates(&encode[at], chunk * shape.k as f64),
                encode_over_natural: paired_ratio(&encode[0], &encode[at]),
                repair: rates(&repair[at], chunk),
                repair_over_natural: paired_ratio(&repair[0], &repair[at]),
            });
        }
    }
    Ok(rows)
}
