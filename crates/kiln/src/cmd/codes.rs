//! `kiln codes`

mod compare;

use clap::Args;
use kiln_code::{CODES, Codec};
use serde::Serialize;

use crate::args::with_exit_codes;
use crate::exit::{Exit, Failure};
use crate::print::wrapped;
use crate::setup::{self, Setup};

const EXAMPLES: &str = "\
Examples:
  kiln codes                 all codes
  kiln codes clay:10+4       one code: what it stores and what a repair costs
  kiln codes 'plugin=clay k=8 m=4 d=11 scalar_mds=isa technique=reed_sol_van'
                             a Ceph profile: the same bytes as in Ceph
  kiln codes --compare 10+2  all codes of 10+2 side by side, with their speed here";

/// List the codes, or show one with its costs
///
/// A code is written family:k+m, e.g. rs:10+4: 10 data shards, 4 parity shards, and any 4 of the 14
/// may be lost.
#[derive(Debug, Args)]
#[command(after_help = with_exit_codes(EXAMPLES))]
pub struct Codes {
    /// Show this code, e.g. clay:10+4
    #[arg(value_name = "SPEC")]
    spec: Option<String>,

    /// Compare all codes of these chunk numbers: operations, update and repair cost, speed here
    #[arg(long, value_name = "K+M", conflicts_with = "spec")]
    compare: Option<String>,
}

/// One row of the list.
#[derive(Serialize)]
struct Family {
    family: &'static str,
    about: &'static str,
    syntax: &'static str,
    example: &'static str,
}

#[derive(Serialize)]
struct List {
    codes: Vec<Family>,
}

/// One code in numbers.
#[derive(Serialize)]
struct Card {
    code: String,
    explicit: String,
    family: String,
    about: &'static str,
    k: usize,
    m: usize,
    n: usize,
    alpha: usize,
    order: String,
    /// Shards that may be lost, whichever they are.
    margin: i32,
    /// Of the patterns of m lost shards, the share that can be rebuilt.
    survived: f64,
    /// The shard that each chunk is in Ceph, where that is another number.
    #[serde(skip_serializing_if = "Option::is_none")]
    ceph_shards: Option<Vec<usize>>,
    /// Bytes stored for each byte of the object.
    storage_overhead: f64,
    /// Chunks read to rebuild one lost chunk, on average over the n.
    repair_chunks_mean: f64,
    repair_chunks_min: f64,
    repair_chunks_max: f64,
    /// Contiguous reads for that, a stripe.
    repair_runs_mean: f64,
    /// Helpers of the repair of chunk 0.
    repair_helpers: usize,
}

impl Codes {
    pub fn run(self, setup: &Setup) -> Result<Exit, Failure> {
        match (self.spec, self.compare) {
            (Some(spec), _) => one(&setup::codec(&spec)?, setup),
            (None, Some(numbers)) => compare::run(&numbers, setup),
            (None, None) => list(setup),
        }
    }
}

fn list(setup: &Setup) -> Result<Exit, Failure> {
    let family = |row: &kiln_code::CodeFamily| Family {
        family: row.name,
        about: row.about,
        syntax: row.syntax,
        example: row.example,
    };
    let codes: Vec<Family> = CODES.iter().map(family).collect();
    let text = |row: &Family| {
        let about = wrapped(row.about, "    ");
        format!("{}\n{about}    e.g. {}\n", row.syntax, row.example)
    };
    let texts: Vec<String> = codes.iter().map(text).collect();
    let hint = "\nkiln codes SPEC shows what a code stores and what its repair costs,\n\
                kiln codes --compare K+M compares them.\n";
    setup.answer(&List { codes }, || texts.join("\n") + hint)
}

fn one(codec: &Codec, setup: &Setup) -> Result<Exit, Failure> {
    let card = card(codec, setup.seed)?;
    let more = if setup.verbose { choices()? } else { String::new() };
    setup.answer(&card, || text(&card) + &more)
}

fn text(card: &Card) -> String {
    let mut text = format!("{}\n{}", card.code, wrapped(card.about, "  "));
    let spread = match card.repair_chunks_min == card.repair_chunks_max {
        true => String::new(),
        false => format!(", {:.2} to {:.2}", card.repair_chunks_min, card.repair_chunks_max),
    };
    let may_be_lost = may_be_lost(card);
    let lines = [
        ("in full", card.explicit.clone()),
        ("shards", format!("{} = {} data + {} parity", card.n, card.k, card.m)),
        ("may be lost", may_be_lost),
        ("stored", format!("{:.2} bytes for each byte of the file", card.storage_overhead)),
        ("sub-chunks", format!("{} a chunk, in {} order", card.alpha, card.order)),
        (
            "repair",
            format!(
                "one lost shard: reads {:.2} times its size{spread}, from {} others, in {:.0} \
                 runs a stripe",
                card.repair_chunks_mean, card.repair_helpers, card.repair_runs_mean
            ),
        ),
    ];
    let ceph = card.ceph_shards.iter().map(|shards| {
        let shards: Vec<String> = shards.iter().map(usize::to_string).collect();
        ("in Ceph", format!("shards 0, 1, ... are its shards {}", shards.join(", ")))
    });
    for (name, value) in lines.into_iter().chain(ceph) {
        text += &format!("  {name:<13}{value}\n");
    }
    text
}

/// Describes the ways in which codes run here, and the reasons for the choice.
fn choices() -> Result<String, Failure> {
    let choices = kiln_code::choices().map_err(kiln_code::CodeError::from)?;
    let line =
        |(subject, choice): &(&str, String)| format!("  {subject}\n{}", wrapped(choice, "    "));
    Ok(choices.iter().map(line).collect())
}

/// Returns the tolerated losses, guaranteed and at best.
fn may_be_lost(card: &Card) -> String {
    let any = format!("any {}", card.margin);
    match card.margin == card.m as i32 {
        true => any,
        false => format!("{any}, and {:.0} % of the patterns of {}", card.survived * 100.0, card.m),
    }
}

fn card(codec: &Codec, seed: u64) -> Result<Card, Failure> {
    let (spec, shape) = (codec.spec(), codec.shape());
    let n = shape.n();
    let cost = codec.average_cost(1, seed)?;
    let available: Vec<usize> = (1..n).collect();
    let plan = codec.repair_plan(&[0], &available)?;
    let row = CODES.iter().find(|row| row.name == spec.family());
    Ok(Card {
        code: spec.to_string(),
        explicit: spec.explicit(),
        family: spec.family().to_owned(),
        about: row.map_or("", |row| row.about),
        k: shape.k,
        m: shape.m,
        n,
        alpha: shape.alpha,
        order: codec.order().to_owned(),
        margin: codec.margin(&[]),
        survived: match codec.is_mds() {
            true => 1.0,
            false => codec.survived(shape.m, seed)?,
        },
        ceph_shards: Some(codec.mapping()).filter(|shards| !shards.is_sorted()),
        storage_overhead: n as f64 / shape.k as f64,
        repair_chunks_mean: cost.mean_chunks,
        repair_chunks_min: cost.min_chunks,
        repair_chunks_max: cost.max_chunks,
        repair_runs_mean: cost.mean_runs,
        repair_helpers: plan.helpers().len(),
    })
}
