//! Experiment 7 as a whole: reading, sending and computing of one lost chunk.
//!
//! Reads are measured on the emulated disks, computing in memory, on one core. Sending is only
//! *computed*: the bytes that reach the node that rebuilds, over a link of its own.

use std::time::Instant;

use kiln_code::Codec;
use serde::Serialize;

use super::{GRAY, NATURAL, Options, PLANNED, Row, WHOLE};
use crate::BenchError;

/// The paper has a link of 20 Gbit/s.
const LINK_BITS: f64 = 20e9;
const CHUNKS: &[u64] = &[256 << 10, 2 << 20, 4 << 20, 16 << 20];
/// Seconds of computing for a lost chunk, at least.
const SECONDS: f64 = 0.03;

/// What one way sends and computes for a lost chunk, in the mean.
struct Work {
    sent_bytes: f64,
    seconds: f64,
}

/// One way to repair a chunk: seconds of a lost chunk, in the mean.
#[derive(Debug, Serialize)]
pub(super) struct Whole {
    device: &'static str,
    chunk: u64,
    way: &'static str,
    reading: f64,
    sending: f64,
    computing: f64,
    together: f64,
}

/// What reading, sending and computing take together, for all ways that were measured.
pub(super) fn rows(options: &Options, rows: &[Row]) -> Result<Vec<Whole>, BenchError> {
    let mut found = Vec::new();
    let tiny = [64 << 10];
    for &chunk in if options.tiny { &tiny } else { CHUNKS } {
        let cells = || rows.iter().filter(move |r| r.experiment == "7" && r.chunk == chunk);
        // Planned reads give the same computing: it is measured once for every order.
        let mut known: Vec<(Option<&str>, Work)> = Vec::new();
        for way in [NATURAL, GRAY, PLANNED, WHOLE] {
            let Some(first) = cells().find(|r| r.way == way.name) else { continue };
            if !known.iter().any(|(order, _)| *order == way.order) {
                known.push((way.order, work(way.order, (first.k, first.m), chunk)?));
            }
            let Some((_, work)) = known.iter().find(|(order, _)| *order == way.order) else {
                continue;
            };
            found.extend(cells().filter(|r| r.way == way.name).map(|row| {
                let reading = row.overall / row.seconds.len() as f64;
                let sending = 8.0 * work.sent_bytes / LINK_BITS;
                let together = reading + sending + work.seconds;
                let (device, way, computing) = (row.device, way.name, work.seconds);
                Whole { device, chunk, way, reading, sending, computing, together }
            }));
        }
    }
    Ok(found)
}

/// Computes the repair of every chunk.
fn work(order: Option<&str>, (k, m): (usize, usize), chunk: u64) -> Result<Work, BenchError> {
    let spec = match order {
        Some(order) => format!("clay:{k}+{m},order={order}"),
        None => format!("rs:{k}+{m}"),
    };
    let failed = |error: &dyn std::fmt::Display| BenchError::Failed {
        engine: spec.clone(),
        reason: error.to_string(),
    };
    let parsed = spec.parse().map_err(|error| failed(&error))?;
    let codec = Codec::new(&parsed).map_err(|error| failed(&error))?;
    let sub = chunk as usize / codec.shape().alpha;
    let mut work = Work { sent_bytes: 0.0, seconds: 0.0 };
    for lost in 0..k + m {
        let others: Vec<usize> = (0..k + m).filter(|&chunk| chunk != lost).collect();
        let plan = codec.repair_plan(&[lost], &others).map_err(|error| failed(&error))?;
        let inputs: Vec<Vec<u8>> = plan
            .helpers()
            .iter()
            .map(|helper| (0..helper.sub_chunks() * sub).map(|at| (at * 7 % 251) as u8).collect())
            .collect();
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let mut output = vec![0; chunk as usize];
        let mut times = Vec::new();
        let start = Instant::now();
        while times.len() < 3 || start.elapsed().as_secs_f64() < SECONDS {
            let began = Instant::now();
            plan.run(&inputs, &mut [&mut output]).map_err(|error| failed(&error))?;
            times.push(began.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        work.seconds += times[times.len() / 2] / (k + m) as f64;
        work.sent_bytes += (plan.sub_chunks_read() * sub) as f64 / (k + m) as f64;
    }
    Ok(work)
}
