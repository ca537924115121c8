//! What is counted: the paper's tables, the same for other parameters, and what goes beyond.

use super::Options;
use crate::BenchError;
use kiln_code::order::{Layers, Order};
use kiln_code::{CodeSpec, Codec, OrderCost};
use serde::Serialize;

/// Orders of the paper's Table IV: its two Special orders are drawn by its recursion; the seeds
/// were looked for so that the counts are the paper's.
const TABLE_4: [&str; 5] =
    ["natural", "gray", "recursive:4:2:165", "recursive:128004:3", "balanced"];
/// Table III without the Special orders.
const TABLE_3: [&str; 3] = ["natural", "gray", "balanced"];
/// Balanced codes as the paper gives them.
const PAPER_BALANCED_6_2: [u32; 16] = [1, 3, 7, 5, 4, 12, 14, 6, 2, 10, 11, 15, 13, 9, 8, 0];
const PAPER_BALANCED_16_2: [usize; 18] =
    [29, 28, 29, 28, 29, 28, 30, 29, 30, 29, 30, 29, 30, 29, 29, 28, 28, 28];
/// Codes that people use, with every d; those with virtual nodes are beyond the paper.
const CODES: [&str; 18] = [
    "4+2", "5+2", "6+3", "8+3", "8+3,d=9", "8+4", "8+4,d=10", "9+3", "10+4", "10+4,d=12",
    "10+4,d=11", "12+4", "12+4,d=14", "14+4", "16+2", "16+4", "17+3", "20+4",
];

/// Everything that is counted.
#[derive(Debug, Serialize)]
pub struct Counts {
    /// Table III: 6+2.
    pub table_3: Table,
    /// Table IV: 16+2.
    pub table_4: Table,
    /// Codes by order.
    pub codes: Vec<Code>,
    /// Fig. 6: m, digits, reduction.
    pub reductions: Vec<(usize, usize, f64)>,
    /// Every k, m, d with k+m <= 24.
    pub census: Census,
    /// Stripes one behind the other.
    pub stripes: Vec<Stripes>,
}

/// Runs by lost chunk for some orders; the paper's own balanced order stands before ours.
#[derive(Debug, Serialize)]
pub struct Table {
    /// The code.
    pub code: &'static str,
    /// Columns.
    pub columns: Vec<(String, Vec<usize>)>,
}

/// One code: its orders side by side.
#[derive(Debug, Serialize)]
pub struct Code {
    /// Without the family.
    pub code: &'static str,
    /// Layers, and virtual nodes.
    pub alpha: usize,
    /// Nodes that are not stored.
    pub virtuals: usize,
    /// Least possible.
    pub s_min: usize,
    /// By order.
    pub orders: Vec<Row>,
}

/// One order of a code.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its name.
    pub order: String,
    /// Runs over all losses, the least and the most for one.
    pub s_total: usize,
    /// Fewest and most.
    pub range: (usize, usize),
    /// Mean runs of a repairable pair of losses, and how many pairs that are.
    pub pair_runs: Option<f64>,
    /// Repairable pairs.
    pub pairs: usize,
}

/// All codes of up to 24 chunks.
#[derive(Debug, Default, Serialize)]
pub struct Census {
    /// (k, m, d) without virtual nodes, and those where gray and balanced are at S_min.
    pub full: usize,
    /// At S_min with `gray`, `fewest` and `balanced`.
    pub full_at_bound: usize,
    /// The largest difference between two nodes in `balanced`.
    pub balanced_spread: usize,
    /// (k, m, d) with virtual nodes; `fewest` at the bound, or one run above.
    pub short: usize,
    /// At the bound.
    pub short_at_bound: usize,
    /// One run above.
    pub short_one_above: usize,
    /// Mean over the short ones of runs with `gray` and `fewest` over those in natural order.
    pub gray_share: f64,
    /// See `gray_share`.
    pub fewest_share: f64,
}

/// Runs a stripe when a shard is read from end to end at full-node recovery.
#[derive(Debug, Serialize)]
pub struct Stripes {
    /// The code.
    pub code: &'static str,
    /// The order.
    pub order: &'static str,
    /// Every stripe alone.
    pub alone: f64,
    /// Runs that go on in the next stripe are one.
    pub in_a_row: f64,
    /// The same with every other stripe backwards.
    pub turned: f64,
    /// Groups of four stripes, sub-chunks of one position side by side.
    pub grouped: f64,
}

impl Counts {
    /// Runs over all losses of a code in an order.
    pub fn total(&self, code: &str, order: &str) -> Option<usize> {
        let code = self.codes.iter().find(|known| known.code == code)?;
        code.orders.iter().find(|row| row.order == order).map(|row| row.s_total)
    }
}

pub(super) fn codec(code: &str, order: &str) -> Result<Codec, BenchError> {
    let (numbers, rest) = code.split_once(',').unwrap_or((code, ""));
    let comma = if rest.is_empty() { "" } else { "," };
    let spec: CodeSpec = format!("clay:{numbers}{comma}{rest},order={order}").parse()?;
    Ok(Codec::new(&spec)?)
}

fn layers_of(codec: &Codec) -> Result<&Layers, BenchError> {
    codec.layers().ok_or_else(|| BenchError::Failed {
        engine: "kiln".into(),
        reason: format!("{} has no layers", codec.spec()),
    })
}

/// Counts everything; in tiny runs of smaller codes.
pub fn count(options: &Options<'_>) -> Result<Counts, BenchError> {
    Ok(Counts {
        table_3: table("6+2", &TABLE_3, |layers| {
            Ok(Order::from_list(layers, PAPER_BALANCED_6_2.to_vec())?.runs(layers))
        })?,
        table_4: table("16+2", &TABLE_4, |_| Ok(PAPER_BALANCED_16_2.to_vec()))?,
        codes: CODES
            .into_iter()
            .filter(|code| !options.tiny || !["20+4", "16+4", "14+4"].contains(code))
            .map(code)
            .collect::<Result<_, _>>()?,
        reductions: reductions()?,
        census: census(if options.tiny { 9 } else { 24 })?,
        stripes: stripes()?,
    })
}

fn table(
    code: &'static str,
    orders: &[&str],
    papers: impl Fn(&Layers) -> Result<Vec<usize>, BenchError>,
) -> Result<Table, BenchError> {
    let codec = codec(code, "natural")?;
    let layers = layers_of(&codec)?;
    let mut columns = Vec::new();
    for &order in orders {
        if order == "balanced" {
            columns.push(("paper's balanced".to_owned(), papers(layers)?));
        }
        columns.push((order.to_owned(), Order::new(layers, order)?.runs(layers)));
    }
    Ok(Table { code, columns })
}

fn code(code: &'static str) -> Result<Code, BenchError> {
    let codec = codec(code, "natural")?;
    let layers = layers_of(&codec)?;
    let row = |cost: OrderCost| Row {
        order: cost.order,
        s_total: cost.s_total,
        range: cost.range,
        pair_runs: (cost.pairs.repairable > 0)
            .then(|| cost.pairs.runs as f64 / cost.pairs.repairable as f64),
        pairs: cost.pairs.repairable,
    };
    Ok(Code {
        code,
        alpha: layers.count(),
        virtuals: layers.q() * layers.t() - layers.chunks(),
        s_min: layers.s_min(),
        orders: OrderCost::of_all(&codec, None)?.into_iter().map(row).collect(),
    })
}

fn reductions() -> Result<Vec<(usize, usize, f64)>, BenchError> {
    let mut points = Vec::new();
    for m in 2..=5_usize {
        for digits in 2..=10_usize {
            if m.pow(digits as u32) <= 16_384 {
                let layers = Layers::new(m * digits - m, m, m)?;
                points.push((m, digits, 1.0 - layers.least_share()));
            }
        }
    }
    Ok(points)
}

fn census(chunks: usize) -> Result<Census, BenchError> {
    let mut census = Census::default();
    let (mut gray_sum, mut fewest_sum) = (0.0, 0.0);
    let mut balanced_of = std::collections::BTreeMap::new();
    for n in 2..=chunks {
        for m in 1..n {
            for q in 2..=m {
                if q.checked_pow(n.div_ceil(q) as u32).is_none_or(|count| count > 16_384) {
                    continue;
                }
                let layers = Layers::new(n - m, m, q)?;
                let total = |order: &str| -> Result<usize, BenchError> {
                    Ok(Order::new(&layers, order)?.runs(&layers).iter().sum())
                };
                let (gray, fewest, least) = (total("gray")?, total("fewest")?, layers.s_min());
                if n % q == 0 {
                    // The order depends on the grid alone, so it is made once a grid.
                    let (spread, balanced) = match balanced_of.get(&(n, q)) {
                        Some(&known) => known,
                        None => {
                            let runs = Order::new(&layers, "balanced")?.runs(&layers);
                            let range = (runs.iter().min(), runs.iter().max());
                            let spread = range.1.unwrap_or(&0) - range.0.unwrap_or(&0);
                            let known = (spread, runs.iter().sum::<usize>());
                            balanced_of.insert((n, q), known);
                            known
                        }
                    };
                    census.full += 1;
                    let at_bound = gray == least && fewest == least && balanced == least;
                    census.full_at_bound += usize::from(at_bound);
                    census.balanced_spread = census.balanced_spread.max(spread);
                } else {
                    census.short += 1;
                    census.short_at_bound += usize::from(fewest == least);
                    census.short_one_above += usize::from(fewest == least + 1);
                    gray_sum += gray as f64 / layers.s_seq() as f64;
                    fewest_sum += fewest as f64 / layers.s_seq() as f64;
                }
            }
        }
    }
    census.gray_share = gray_sum / census.short.max(1) as f64;
    census.fewest_share = fewest_sum / census.short.max(1) as f64;
    Ok(census)
}

fn stripes() -> Result<Vec<Stripes>, BenchError> {
    const MANY: usize = 1 << 12;
    let mut rows = Vec::new();
    for code in ["4+2", "9+3", "10+4", "16+2"] {
        let codec = codec(code, "natural")?;
        let layers = layers_of(&codec)?;
        for order in ["natural", "gray", "fewest", "balanced"] {
            let made = Order::new(layers, order)?;
            let mean = |stripes: usize, turned: bool| {
                let runs = made.runs_of_stripes(layers, stripes, turned);
                runs.iter().sum::<usize>() as f64 / stripes as f64
            };
            if order == "fewest" && layers.q() * layers.t() == layers.chunks() {
                continue; // it is gray
            }
            rows.push(Stripes {
                code,
                order,
                alone: mean(1, false),
                in_a_row: mean(MANY, false),
                turned: mean(MANY, true),
                grouped: mean(MANY, false) / 4.0,
            });
        }
    }
    Ok(rows)
}
