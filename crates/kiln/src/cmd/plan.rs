//! `kiln plan`

mod orders;
mod place;
mod price;
mod reads;
mod recover;

use std::path::PathBuf;

use clap::Args;
use kiln_code::Codec;
use kiln_stripe::default_sub_chunk;
use minijinja::context;
use serde::Serialize;

use crate::args::{help, size};
use crate::exit::{Exit, Failure, Result};
use crate::lists::Indices;
use crate::print::fields;
use crate::setup::{self, Setup};

/// Compute what a repair would cost, without any data
#[derive(Debug, Args)]
#[command(after_help = help("plan"))]
pub struct Plan {
    /// The code, e.g. clay:10+4
    #[arg(short, long, value_name = "SPEC")]
    code: String,
    /// The shards that are lost, e.g. 3 or 0,4-6
    #[arg(long, value_name = "LIST", conflicts_with = "average")]
    lost: Option<Indices>,
    /// Average over all patterns of F lost shards; many patterns are sampled, with --seed
    #[arg(long, value_name = "F")]
    average: Option<usize>,
    /// Bytes of a chunk [default: as kiln encode takes for a large file]
    #[arg(long, visible_alias = "block", value_name = "SIZE", value_parser = size)]
    chunk: Option<u64>,
    #[command(flatten)]
    orders: orders::Flags,
    /// Draw the placed plan as SVG
    #[arg(long, value_name = "FILE", conflicts_with = "orders")]
    picture: Option<PathBuf>,
    #[command(flatten)]
    reads: reads::DeviceFlags,
    #[command(flatten)]
    price: price::PriceFlags,
    #[command(flatten)]
    place: place::Placing,
    #[command(flatten)]
    recover: recover::Recover,
}

impl Plan {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let codec = setup::codec(&self.code)?;
        if self.orders.wanted() {
            return self.orders.run(&codec, setup);
        }
        if self.picture.is_some() && !self.place.wanted() {
            let problem = "there is a picture of --strategy only".into();
            return Err(Failure::Flag { flag: "--picture", problem });
        }
        let alpha = codec.shape().alpha;
        let usual = || u64::from(default_sub_chunk(codec.shape())) * alpha as u64;
        let chunk = self.chunk.unwrap_or_else(usual);
        let sub_chunk = setup::divided(chunk, alpha)?;
        if self.recover.is_asked() {
            return recover::run(&self.recover, &codec, chunk, self.place.cluster(), setup);
        }
        if self.lost.is_none() && self.place.cluster().is_some() {
            let problem =
                "nothing to plan: give --lost LIST, or --recover with --stripes or --layout";
            return Err(Failure::Flag { flag: "--cluster", problem: problem.into() });
        }
        if let Some(model) = self.reads.model()? {
            let lost = self.lost.map(|Indices(lost)| lost);
            return reads::run(&codec, lost.as_deref(), sub_chunk, &model, setup);
        }
        if self.price.wanted() {
            let lost = self.lost.map(|Indices(lost)| lost);
            return self.price.run(&codec, lost.as_deref(), sub_chunk, setup);
        }
        match (self.lost, self.average) {
            (Some(Indices(lost)), _) if self.place.wanted() => {
                self.place.run(&codec, &lost, sub_chunk, self.picture.as_deref(), setup)
            }
            (_, Some(failures)) => average(&codec, failures, chunk, setup),
            (Some(Indices(lost)), None) => {
                let cost = cost(&codec, &lost, sub_chunk)?;
                setup.show("plan of a loss", &cost, context! {})
            }
            (None, None) => every(&codec, sub_chunk, setup),
        }
    }
}

fn cost(codec: &Codec, lost: &[usize], sub_chunk: u64) -> Result<impl Serialize + use<>> {
    let shape = codec.shape();
    let available: Vec<usize> = (0..shape.n()).filter(|index| !lost.contains(index)).collect();
    let plan = codec.repair_plan(lost, &available)?;
    let bytes = |sub_chunks: usize| sub_chunks as u64 * sub_chunk;
    let load = |helper: &kiln_code::HelperReads| {
        fields! {
            index: helper.chunk,
            sub_chunks: helper.sub_chunks(),
            bytes_read: bytes(helper.sub_chunks()),
            read_runs: helper.runs.len(),
        }
    };
    let bytes_read = bytes(plan.sub_chunks_read());
    Ok(fields! {
        code: codec.spec().to_string(),
        order: codec.order().to_owned(),
        strategy: plan.strategy().name(),
        lost: plan.lost().to_vec(),
        helpers: plan.helpers().iter().map(|helper| helper.chunk).collect::<Vec<_>>(),
        chunk: bytes(shape.alpha),
        sub_chunk: sub_chunk,
        alpha: shape.alpha,
        sub_chunks_read: plan.sub_chunks_read(),
        chunks_read: plan.sub_chunks_read() as f64 / shape.alpha as f64,
        bytes_read: bytes_read,
        read_runs: plan.runs(),
        // All helpers send what they read to the one node that rebuilds.
        bytes_sent: bytes_read,
        max_node_load: bytes_read,
        bytes_written: bytes(plan.lost().len() * shape.alpha),
        nodes: plan.helpers().iter().map(load).collect::<Vec<_>>(),
    })
}

fn every(codec: &Codec, sub_chunk: u64, setup: &Setup) -> Result<Exit> {
    let n = codec.shape().n();
    let costs = (0..n).map(|index| cost(codec, &[index], sub_chunk));
    let losses: Vec<_> = costs.collect::<Result<_, _>>()?;
    let report = fields! { losses: losses };
    setup.show("plans of all losses", &report, context! {})
}

fn average(codec: &Codec, failures: usize, chunk: u64, setup: &Setup) -> Result<Exit> {
    let cost = codec.average_cost(failures, setup.seed)?;
    let report = fields! {
        code: codec.spec().to_string(),
        order: codec.order(),
        failures: failures,
        patterns: cost.patterns,
        exhaustive: cost.exhaustive,
        seed: setup.seed,
        // Patterns that are rebuilt with less than k chunks read.
        repairable: cost.repairable,
        // Patterns that cannot be rebuilt at all.
        not_recoverable: cost.undecodable,
        chunk: chunk,
        mean_chunks: cost.mean_chunks,
        mean_runs: cost.mean_runs,
        min_chunks: cost.min_chunks,
        max_chunks: cost.max_chunks,
        mean_bytes: (cost.mean_chunks * chunk as f64).round() as u64,
    };
    setup.show("average plan", &report, context! {})
}
