//! An order's costs side by side with others': for `kiln plan --orders` and the bench.

use crate::order::{Layers, ORDERS, Order};
use crate::{CodeError, Codec, RebuildMethod, Result};

/// Cost of an order for the repairs of a code, in runs (reads of one helper).
#[derive(Debug, Clone, PartialEq)]
pub struct OrderCost {
    /// The value of `order=`.
    pub order: String,
    /// Runs when chunk i is lost (S_i of the paper).
    pub runs: Vec<usize>,
    /// Changes of every digit, the first value counted (BitFlip_y).
    pub flips: Vec<usize>,
    /// The sum of `runs`.
    pub s_total: usize,
    /// Runs of the cheapest and of the dearest chunk.
    pub range: (usize, usize),
    /// The sum of weight times runs, if there are weights.
    pub weighted: Option<f64>,
    /// Losses of two chunks.
    pub pairs: PairCost,
}

/// Runs for two lost chunks at once: of the layers in which either has its dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PairCost {
    /// Pairs of chunks.
    pub pairs: usize,
    /// Those that are rebuilt with less than k chunks read.
    pub repairable: usize,
    /// Runs over all repairable pairs together.
    pub runs: usize,
    /// Runs of the dearest repairable pair.
    pub most: usize,
}

impl OrderCost {
    /// The costs of one order of a code's layers; weights are one a chunk.
    ///
    /// # Errors
    /// The code has no layers, or the weights do not fit.
    pub fn of(codec: &Codec, order: &Order, weights: Option<&[f64]>) -> Result<Self> {
        let layers = layers(codec)?;
        let runs = order.runs(layers);
        let range = (runs.iter().min(), runs.iter().max());
        Ok(OrderCost {
            order: order.name().to_owned(),
            flips: order.flips(layers),
            s_total: runs.iter().sum(),
            range: (range.0.copied().unwrap_or(0), range.1.copied().unwrap_or(0)),
            weighted: weights.map(|w| order.weighted_total(layers, w)).transpose()?,
            pairs: pairs(codec, layers, order)?,
            runs,
        })
    }

    /// The costs of every order that has a plain name, of the code's own and, where there are
    /// weights, of the best for them. An order that another name already has is left out.
    ///
    /// # Errors
    /// As [`OrderCost::of`].
    pub fn of_all(codec: &Codec, weights: Option<&[f64]>) -> Result<Vec<Self>> {
        let layers = layers(codec)?;
        let named = ORDERS.iter().filter(|kind| !kind.needs_text).map(|kind| kind.name);
        let mut orders: Vec<Order> = Vec::new();
        for text in named.chain([codec.order()]) {
            orders.push(Order::new(layers, text)?);
        }
        if let Some(weights) = weights {
            orders.push(Order::weighted(layers, weights)?);
        }
        let mut costs = Vec::new();
        for (index, order) in orders.iter().enumerate() {
            if orders[..index].iter().all(|known| known.layers() != order.layers()) {
                costs.push(OrderCost::of(codec, order, weights)?);
            }
        }
        Ok(costs)
    }
}

fn layers(codec: &Codec) -> Result<&Layers> {
    codec.layers().ok_or_else(|| CodeError::Unsupported {
        spec: codec.spec().to_string(),
        reason: "only clay has an order of layers".into(),
    })
}

fn pairs(codec: &Codec, layers: &Layers, order: &Order) -> Result<PairCost> {
    let n = layers.chunks();
    let mut cost = PairCost::default();
    for a in 0..n {
        for b in a + 1..n {
            let available: Vec<usize> = (0..n).filter(|&chunk| chunk != a && chunk != b).collect();
            if available.len() < codec.shape().k {
                continue;
            }
            cost.pairs += 1;
            if codec.choose(&[a, b], &available)?.strategy == RebuildMethod::Repair {
                let runs = order.reads(layers, &[a, b]).len();
                cost.repairable += 1;
                cost.runs += runs;
                cost.most = cost.most.max(runs);
            }
        }
    }
    Ok(cost)
}
