//! `kiln plan --orders`: what each order of a code's layers costs its repairs.

use clap::Args;
use kiln_code::order::{Layers, Order};
use kiln_code::{CodeError, Codec, OrderCost};
use minijinja::context;
use serde::Serialize;

use crate::exit::{Exit, Failure, Result};
use crate::{print::fields, setup::Setup};

// Flags of `kiln plan` that are about orders. No doc comment: clap would print it.
#[derive(Debug, Args)]
pub struct Flags {
    /// Compare the orders of the code's layers: the reads of a helper for every lost chunk
    #[arg(long, conflicts_with_all = ["lost", "average"])]
    orders: bool,
    /// How often each chunk is lost, as numbers a,b,c... or a file of them; finds the best order
    #[arg(long, value_name = "LIST|FILE", requires = "orders")]
    weights: Option<String>,
}

/// Stripes that are looked at together: more change nothing in the mean but the last digit.
const ADJACENT: usize = 64;

impl Flags {
    /// Returns whether `kiln plan` is about orders.
    pub fn wanted(&self) -> bool {
        self.orders
    }

    /// Compares the orders of a code.
    pub fn run(&self, codec: &Codec, setup: &Setup) -> Result<Exit> {
        let weights = self.weights.as_deref().map(weights).transpose()?;
        let costs = OrderCost::of_all(codec, weights.as_deref())?;
        let layers = codec.layers().ok_or_else(|| CodeError::Internal("no layers".into()))?;
        let orders: Vec<Order> =
            costs.iter().map(|cost| Order::new(layers, &cost.order)).collect::<Result<_, _>>()?;
        let rows: Vec<_> =
            costs.iter().zip(&orders).map(|(cost, order)| row(layers, cost, order)).collect();
        let bound = weights.as_deref().map(|weights| layers.weighted_bound(weights)).transpose()?;
        let reduction = 1.0 - layers.least_share();
        let virtual_nodes = layers.q() * layers.t() - layers.chunks();
        let report = fields! {
            code: codec.spec().to_string(),
            q: layers.q(),
            t: layers.t(),
            alpha: layers.count(),
            chunks: layers.chunks(),
            virtual_nodes: virtual_nodes,
            // Runs over all chunks in natural order, and the least that any order can have.
            s_seq: layers.s_seq(),
            s_min: layers.s_min(),
            // 1 - s_min / s_seq, and what that comes to for many sections (without virtual nodes).
            reduction: reduction,
            reduction_limit: 1.0 - layers.share_limit(),
            weights: weights,
            // Lower bound of the weighted sum.
            weighted_bound: bound,
            orders: rows,
        };
        setup.show("orders", &report, context! {})
    }
}

/// Numbers, or a file with numbers.
fn weights(text: &str) -> Result<Vec<f64>> {
    let bad = |problem| Failure::Flag { flag: "--weights", problem };
    let numbers = match text.contains(',') {
        true => text.to_owned(),
        false => std::fs::read_to_string(text).map_err(|source| Failure::Io {
            action: "read",
            path: text.into(),
            source,
        })?,
    };
    let words = numbers.split([',', ' ', '\n', '\t']).filter(|word| !word.is_empty());
    words.map(|word| word.parse().map_err(|_| bad(format!("'{word}' is not a number")))).collect()
}

fn row(layers: &Layers, cost: &OrderCost, order: &Order) -> impl Serialize {
    let runs = |turned| {
        let runs: usize = order.runs_of_stripes(layers, ADJACENT, turned).iter().sum();
        runs as f64 / ADJACENT as f64
    };
    let pairs = cost.pairs;
    let mean = pairs.runs as f64 / pairs.repairable as f64;
    fields! {
        order: cost.order.clone(),
        s_total: cost.s_total,
        s_min: layers.s_min(),
        fewest_runs: cost.range.0,
        most_runs: cost.range.1,
        // By lost chunk, and by digit.
        runs: cost.runs.clone(),
        flips: cost.flips.clone(),
        weighted: cost.weighted,
        // Pairs that are rebuilt with less than k chunks read.
        two_losses: fields! {
            pairs: pairs.pairs,
            repairable: pairs.repairable,
            mean_runs: (pairs.repairable > 0).then_some(mean),
            most_runs: pairs.most,
        },
        // Runs over all chunks, a stripe, where whole shards are read and stripes lie one behind
        // the other, so that a run may go on in the next stripe; and the same if every other
        // stripe had the order backwards.
        adjacent: fields! { stripes: ADJACENT, runs: runs(false), turned: runs(true) },
    }
}
