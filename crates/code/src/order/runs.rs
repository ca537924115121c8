//! Costs of an order: runs, flips, S_total and its bounds (paper sections III-A, D and F).

use super::{Layers, Order, fewest, weights};
use crate::Result;
use std::ops::Range;

impl Order {
    /// Runs of every chunk's repair: the reads of each helper when that chunk is lost (S_i of the
    /// paper), for a repair that reads the layers of the lost node and no others.
    pub fn runs(&self, layers: &Layers) -> Vec<usize> {
        let by_node = self.runs_by_node(layers);
        let mut runs = vec![0; layers.chunks()];
        for (y, section) in by_node.iter().enumerate() {
            for (x, &count) in section.iter().enumerate() {
                if let Some(chunk) = layers.chunk_of(x, y) {
                    runs[chunk] = count;
                }
            }
        }
        runs
    }

    /// Runs by section and by value, virtual nodes included.
    pub(super) fn runs_by_node(&self, layers: &Layers) -> Vec<Vec<usize>> {
        let mut runs = vec![vec![0; layers.q()]; layers.t()];
        for (y, section) in runs.iter_mut().enumerate() {
            let mut before = usize::MAX;
            for &layer in self.layers() {
                let digit = layers.digit(layer as usize, y);
                if digit != before {
                    section[digit] += 1;
                }
                before = digit;
            }
        }
        runs
    }

    /// Changes of every digit from position to position, the first value counted as one (BitFlip_y
    /// of the paper). Lemma 2: it is the sum of the runs of that section's nodes.
    pub fn flips(&self, layers: &Layers) -> Vec<usize> {
        let changes = |y: &usize| {
            let digit = |layer: u32| layers.digit(layer as usize, *y);
            1 + self.layers().windows(2).filter(|pair| digit(pair[0]) != digit(pair[1])).count()
        };
        (0..layers.t()).map(|y| changes(&y)).collect()
    }

    /// Returns where the layers lie that a repair of several chunks reads: those in which one of
    /// them has its dot, as maximal runs of positions, ascending. Chunks that do not exist have
    /// none.
    pub fn reads(&self, layers: &Layers, lost: &[usize]) -> Vec<Range<usize>> {
        let nodes: Vec<(usize, usize)> =
            lost.iter().filter_map(|&chunk| layers.node_of(chunk)).collect();
        let wanted = |layer: u32| nodes.iter().any(|&(x, y)| layers.digit(layer as usize, y) == x);
        let mut runs: Vec<Range<usize>> = Vec::new();
        let all = self.layers().iter().enumerate();
        for (position, _) in all.filter(|(_, layer)| wanted(**layer)) {
            match runs.last_mut() {
                Some(run) if run.end == position => run.end += 1,
                _ => runs.push(position..position + 1),
            }
        }
        runs
    }

    /// Runs of every chunk's repair over `stripes` chunks that lie one behind the other, as in a
    /// shard at full-node recovery: a run may go on in the next stripe. With `turned`, every other
    /// stripe has the order backwards.
    pub fn runs_of_stripes(&self, layers: &Layers, stripes: usize, turned: bool) -> Vec<usize> {
        let one = self.runs(layers);
        let ends = (self.layers().first(), self.layers().last());
        let (Some(&first), Some(&last)) = ends else { return one };
        let merges = |chunk: usize| {
            let Some((x, y)) = layers.node_of(chunk) else { return 0 };
            let needed = |layer: u32| layers.digit(layer as usize, y) == x;
            let joints = stripes.saturating_sub(1);
            match turned {
                false => joints * usize::from(needed(last) && needed(first)),
                true => {
                    joints.div_ceil(2) * usize::from(needed(last))
                        + joints / 2 * usize::from(needed(first))
                }
            }
        };
        one.iter().enumerate().map(|(chunk, runs)| runs * stripes - merges(chunk)).collect()
    }

    /// The sum over all chunks of weight times runs.
    ///
    /// # Errors
    /// Not one finite weight of at least 0 a chunk.
    pub fn weighted_total(&self, layers: &Layers, weights: &[f64]) -> Result<f64> {
        weights::check(layers, weights)?;
        Ok(self.runs(layers).iter().zip(weights).map(|(&runs, weight)| runs as f64 * weight).sum())
    }
}

impl Layers {
    /// S_seq: runs over all chunks in natural order. Equation 3 where q divides n.
    pub fn s_seq(&self) -> usize {
        let stored = |y: usize| (0..self.q()).filter(|&x| self.chunk_of(x, y).is_some()).count();
        (0..self.t()).map(|y| stored(y) * self.q().pow(y as u32)).sum()
    }

    /// Returns the lower bound of S_total, the sum of runs over all chunks. Where q divides n it is
    /// S_min of the paper (equation 7), alpha + t - 1, and `order=gray` has it. `order=fewest` has
    /// it always, but for one run where q is odd and two sections have virtual nodes.
    pub fn s_min(&self) -> usize {
        let (q, t, count) = (self.q(), self.t(), self.count());
        match fewest::short_sections(self)[..] {
            [(_, 1)] => {
                let words = count / q;
                words + t - 1 + words.saturating_sub(2).div_ceil(2)
            }
            [(_, r)] => count / q * r + t - 1,
            [(_, r), (_, other)] => (count / q / q * (r * other + 1) + t).saturating_sub(3),
            _ => count + t - 1,
        }
    }

    /// Returns the lower bound of the weighted sum of runs, for any order.
    ///
    /// # Errors
    /// Not one finite weight of at least 0 a chunk.
    pub fn weighted_bound(&self, of_chunks: &[f64]) -> Result<f64> {
        weights::check(self, of_chunks)?;
        Ok(weights::bound(self, &weights::by_node(self, |chunk| of_chunks[chunk])))
    }

    /// The least that a Gray code can leave of S_seq, S_min / S_seq: equation 8 where q divides n.
    pub fn least_share(&self) -> f64 {
        self.s_min() as f64 / self.s_seq() as f64
    }

    /// Returns what `least_share` comes to for many sections: (q - 1) / q, equation 9. One less
    /// this is the largest reduction, 1 / q, equation 10. It holds without virtual nodes.
    pub fn share_limit(&self) -> f64 {
        (self.q() - 1) as f64 / self.q() as f64
    }
}
