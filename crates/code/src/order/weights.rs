//! Orders for nodes that do not fail equally often (paper section III-E: indices that need fewer
//! reads go to nodes that are more prone to failure; here the order goes to the nodes).
//!
//! The cost of an order is the sum over all chunks of weight times runs.
//!
//! *Where all nodes of a section weigh the same* the reflected Gray code whose slowest digit is
//! that of the heaviest section, and so on, is the best of all orders. For let F_y be the changes
//! of digit y plus one. The projection of an order on any s digits shows all q^s words, so these
//! digits change at least q^s - 1 times: F_1 + ... + F_s >= q^s - 1 + s. With weights in descending
//! order, sum W_y F_y = sum over s of (W_s - W_{s+1}) (F_1 + ... + F_s), and the reflected code
//! meets every one of those bounds with equality.
//!
//! *In general* the ends of the sweeps matter too: their nodes have half the runs. The best
//! assignment of digits to levels is found exactly; no claim is made about other orders, but
//! [`bound`] says how far any could be below.

use super::gray::{self, Sweep};
use super::{Layers, Order};
use crate::{CodeError, Result};

/// Weights by node, virtual nodes with 0.
pub(super) fn by_node(layers: &Layers, of_chunk: impl Fn(usize) -> f64) -> Vec<Vec<f64>> {
    let weight = |x, y| layers.chunk_of(x, y).map_or(0.0, &of_chunk);
    (0..layers.t()).map(|y| (0..layers.q()).map(|x| weight(x, y)).collect()).collect()
}

/// The reflected Gray code of the least cost. Of equal ones that nearest to plain `gray`.
pub(super) fn best_sweeps(layers: &Layers, weights: &[Vec<f64>]) -> Vec<Sweep> {
    let (q, t) = (layers.q(), layers.t());
    if q == 1 {
        return gray::plain(layers);
    }
    // best[set] = least cost of giving the |set| slowest levels to the digits of `set`.
    let mut best: Vec<(f64, Vec<Sweep>)> = vec![(f64::INFINITY, Vec::new()); 1 << t];
    best[0].0 = 0.0;
    for set in 0..best.len() {
        let (cost, sweeps) = best[set].clone();
        let times = q.pow(sweeps.len() as u32);
        // From the last digit down, so that of equal costs the set of the first digits wins.
        for digit in (0..t).filter(|digit| set >> digit & 1 == 0) {
            let (more, ends) = best_ends(q, times, &weights[digit]);
            let next = &mut best[set | 1 << digit];
            if cost + more < next.0 - 1e-9 {
                let mut sweeps = sweeps.clone();
                sweeps.push(Sweep { digit, ends });
                *next = (cost + more, sweeps);
            }
        }
    }
    best.pop().map_or_else(Vec::new, |(_, sweeps)| sweeps)
}

/// The heaviest nodes at the ends, the heavier one last: the last end has one run less.
fn best_ends(q: usize, times: usize, weights: &[f64]) -> (f64, Option<(usize, usize)>) {
    let cost = |ends: Option<(usize, usize)>| {
        let sweep = Sweep { digit: 0, ends };
        (0..q).map(|x| weights[x] * sweep.runs(q, times, x) as f64).sum::<f64>()
    };
    let mut best = (cost(None), None);
    for first in 0..q {
        for last in (0..q).filter(|&last| last != first) {
            let candidate = cost(Some((first, last)));
            if candidate < best.0 - 1e-9 {
                best = (candidate, Some((first, last)));
            }
        }
    }
    best
}

/// Returns the lower bound of all orders. A layer that is not the first is entered by changing at
/// least one digit, and each change into value x of digit y begins a run of node (x, y).
pub(super) fn bound(layers: &Layers, weights: &[Vec<f64>]) -> f64 {
    let mut entered = 0.0;
    let mut first = f64::INFINITY;
    for z in 0..layers.count() {
        let dots = (0..layers.t()).map(|y| weights[y][layers.digit(z, y)]);
        let least = dots.clone().fold(f64::INFINITY, f64::min);
        entered += least;
        first = first.min(dots.sum::<f64>() - least);
    }
    entered + first
}

impl Order {
    /// The reflected Gray code that is best where chunk i is lost `weights[i]` times as often as
    /// others. Its name says all: give it as `order=` to use it. Where the chunks of each section
    /// weigh the same, no order at all is better.
    ///
    /// # Errors
    /// Not one finite weight of at least 0 a chunk.
    pub fn weighted(layers: &Layers, weights: &[f64]) -> Result<Order> {
        check(layers, weights)?;
        let sweeps = best_sweeps(layers, &by_node(layers, |chunk| weights[chunk]));
        let name = match sweeps == gray::plain(layers) {
            true => "gray".to_owned(),
            false => format!("gray:{}", gray::print(&sweeps)),
        };
        Order::new(layers, &name)
    }
}

/// One finite weight of at least 0 a chunk.
pub(super) fn check(layers: &Layers, weights: &[f64]) -> Result<()> {
    if weights.len() != layers.chunks() {
        let (what, expected) = ("weights, one a chunk", layers.chunks());
        return Err(CodeError::Shape { what, expected, got: weights.len() });
    }
    match weights.iter().position(|weight| !weight.is_finite() || *weight < 0.0) {
        Some(got) => {
            let what = "finite weights of at least 0; the first that is none";
            Err(CodeError::Shape { what, expected: weights.len(), got })
        }
        None => Ok(()),
    }
}
