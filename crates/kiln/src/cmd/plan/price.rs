//! `kiln plan --price`: what a repair costs where requests and bytes are paid for.

use std::{ops::Range, path::PathBuf};

use clap::Args;
use kiln_code::Codec;
use minijinja::context;
use serde::Serialize;

use crate::exit::{Exit, Result};
use crate::print::fields;
use crate::setup::{Prices, Setup};

const TIB: f64 = (1u64 << 40) as f64;

// Flags of `kiln plan` that are about prices. No doc comment: clap would print it.
#[derive(Debug, Args)]
pub struct PriceFlags {
    /// Prices of requests and bytes where the shards are, as TOML (see below): what each way to
    /// rebuild a loss costs, and which is cheapest
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["orders", "average", "strategy", "recover", "picture", "device_model"]
    )]
    price: Option<PathBuf>,
}

/// One way to rebuild a loss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
struct Way {
    gets: u64,
    bytes: u64,
    cost: f64,
}

impl Way {
    fn add(&mut self, gets: u64, bytes: u64, (get, byte): (f64, f64)) {
        self.gets += gets;
        self.bytes += bytes;
        self.cost += gets as f64 * get + bytes as f64 * byte;
    }
}

/// Reads that cost the least for these runs (ascending, of sub-chunks): a gap is read through where
/// its bytes cost less than another request.
fn joined(runs: &[Range<u32>], sub_chunk: u64, (get, byte): (f64, f64)) -> (u64, u64) {
    let (mut gets, mut subs) = (0, 0);
    let mut end: Option<u32> = None;
    for run in runs {
        let gap = end.map(|end| u64::from(run.start - end));
        match gap.filter(|gap| (gap * sub_chunk) as f64 * byte <= get) {
            Some(gap) => subs += gap,
            None => gets += 1,
        }
        subs += u64::from(run.end - run.start);
        end = Some(run.end);
    }
    (gets, subs * sub_chunk)
}

impl PriceFlags {
    /// Returns whether `kiln plan` is about prices.
    pub fn wanted(&self) -> bool {
        self.price.is_some()
    }

    /// Says what a loss, or every single one, costs.
    pub fn run(
        &self,
        codec: &Codec,
        lost: Option<&[usize]>,
        sub_chunk: u64,
        setup: &Setup,
    ) -> Result<Exit> {
        let Some(path) = &self.price else { return Ok(Exit::Done) };
        let prices = Prices::of_chunks(path)?;
        let all: Vec<Vec<usize>> = match lost {
            Some(lost) => vec![lost.to_vec()],
            None => (0..codec.shape().n()).map(|index| vec![index]).collect(),
        };
        let loss = |lost: &Vec<usize>| priced(codec, lost, sub_chunk, &prices);
        let losses: Vec<_> = all.iter().map(loss).collect::<Result<_, _>>()?;
        let chunk = sub_chunk * codec.shape().alpha as u64;
        let report = fields! {
            code: codec.spec().to_string(),
            order: codec.order(),
            chunk: chunk,
            prices: &prices,
            losses: losses,
        };
        let currency = prices.currency();
        setup.show("plan by price", &report, context! { currency })
    }
}

fn priced(
    codec: &Codec,
    lost: &[usize],
    sub_chunk: u64,
    prices: &Prices,
) -> Result<impl Serialize + use<>> {
    let shape = codec.shape();
    let available: Vec<usize> = (0..shape.n()).filter(|index| !lost.contains(index)).collect();
    let repair = codec.repair_plan(lost, &available)?;
    let (mut runs, mut fewer, mut decode) = (Way::default(), Way::default(), Way::default());
    for helper in repair.helpers() {
        let price = prices.of(helper.chunk);
        let bytes = helper.sub_chunks() as u64 * sub_chunk;
        runs.add(helper.runs.len() as u64, bytes, price);
        let (gets, bytes) = joined(&helper.runs, sub_chunk, price);
        fewer.add(gets, bytes, price);
    }
    // Of what is enough for a decode the cheapest are taken, where any k are enough.
    let whole = sub_chunk * shape.alpha as u64;
    let cost = |chunk: usize| prices.of(chunk).0 + whole as f64 * prices.of(chunk).1;
    let plan = codec.cheapest_decode_plan(lost, &available, cost)?;
    for helper in plan.helpers() {
        decode.add(1, whole, prices.of(helper.chunk));
    }
    let ways = [("runs", runs), ("joined", fewer), ("decode", decode)];
    let (chosen, best) = ways
        .into_iter()
        .min_by(|(_, a), (_, b)| a.cost.total_cmp(&b.cost).then(a.gets.cmp(&b.gets)))
        .unwrap_or(("runs", runs));
    let lost_bytes = (lost.len() as u64 * whole) as f64;
    Ok(fields! {
        lost: lost.to_vec(),
        // Every run by itself.
        runs: runs,
        // Runs joined where the bytes between them cost less than another request.
        joined: fewer,
        // Whole chunks of as many helpers as are enough.
        decode: decode,
        // The cheapest of them, and its cost for 2^40 lost bytes.
        chosen: chosen,
        cost_per_lost_tib: best.cost / lost_bytes * TIB,
    })
}
