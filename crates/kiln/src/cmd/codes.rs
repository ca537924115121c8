//! `kiln codes`

mod compare;

use clap::Args;
use kiln_code::{CODES, Codec};
use minijinja::context;

use crate::exit::{Exit, Result};
use crate::setup::{self, Setup};
use crate::{args::help, print::fields};

/// List the codes, or show one with its costs
///
/// A code is written family:k+m, e.g. rs:10+4: 10 data shards, 4 parity shards, and any 4 of the 14
/// may be lost.
#[derive(Debug, Args)]
#[command(after_help = help("codes"))]
pub struct Codes {
    /// Show this code, e.g. clay:10+4
    #[arg(value_name = "SPEC")]
    spec: Option<String>,
    /// Compare all codes of these chunk numbers: operations, update and repair cost, speed here
    #[arg(long, value_name = "K+M", conflicts_with = "spec")]
    compare: Option<String>,
}

impl Codes {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        match (self.spec, self.compare) {
            (Some(spec), _) => one(&setup::codec(&spec)?, setup),
            (None, Some(numbers)) => compare::run(&numbers, setup),
            (None, None) => list(setup),
        }
    }
}

fn list(setup: &Setup) -> Result<Exit> {
    let rows = CODES.iter().map(|row| {
        fields! { family: row.name, about: row.about, syntax: row.syntax, example: row.example }
    });
    setup.show("codes", &fields! { codes: rows.collect::<Vec<_>>() }, context! {})
}

/// Describes the ways in which codes run here, and the reasons for the choice.
fn choices() -> Result<Vec<(&'static str, String)>> {
    Ok(kiln_code::choices().map_err(kiln_code::CodeError::from)?)
}

fn one(codec: &Codec, setup: &Setup) -> Result<Exit> {
    let (spec, shape) = (codec.spec(), codec.shape());
    let (k, m, n, alpha, order) = (shape.k, shape.m, shape.n(), shape.alpha, codec.order());
    let (cost, margin) = (codec.average_cost(1, setup.seed)?, codec.margin(&[]));
    let helpers = codec.repair_plan(&[0], &(1..n).collect::<Vec<_>>())?.helpers().len();
    let about = CODES.iter().find(|row| row.name == spec.family()).map_or("", |row| row.about);
    let survived = match codec.is_mds() {
        true => 1.0,
        false => codec.survived(m, setup.seed)?,
    };
    let ceph_shards = Some(codec.mapping()).filter(|shards| !shards.is_sorted());
    let card = fields! {
        code: spec.to_string(),
        explicit: spec.explicit(),
        family: spec.family(),
        about: about,
        k: k,
        m: m,
        n: n,
        alpha: alpha,
        order: order,
        // Shards that may be lost, whichever they are.
        margin: margin,
        // Of the patterns of m lost shards, the share that can be rebuilt.
        survived: survived,
        // The shard that each chunk is in Ceph, where that is another number.
        ceph_shards or none: ceph_shards,
        // Bytes stored for each byte of the object.
        storage_overhead: n as f64 / k as f64,
        // Chunks read to rebuild one lost chunk, on average over the n.
        repair_chunks_mean: cost.mean_chunks,
        repair_chunks_min: cost.min_chunks,
        repair_chunks_max: cost.max_chunks,
        // Contiguous reads for that, a stripe.
        repair_runs_mean: cost.mean_runs,
        // Helpers of the repair of chunk 0.
        repair_helpers: helpers,
    };
    let choices = setup.verbose.then(choices).transpose()?;
    setup.show("code", &card, context! { choices })
}
