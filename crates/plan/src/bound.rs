//! Least traffic that a repair can do with: the lower bound behind every comparison.
//!
//! One chunk of w sub-chunks of an MDS code is rebuilt from d helpers; let n = d + 1 and q = n - k.
//! Take any q helpers. A node that knows the other k - 1 and the rebuilt chunk knows k chunks,
//! hence everything, and the other k - 1 alone say nothing about the rebuilt chunk: so at least w
//! sub-chunks must leave those q nodes. Averaged over all choices of q helpers, with r sub-chunks
//! going to the new node and x between helpers, that is x q (k-1) / ((n-1)(n-2)) + r q / (n-1) >=
//! w, so
//!
//! > T = x + r >= w (n-1)(n-2) / (q (k-1)) - r (q-1) / (k-1), and r >= w.
//!
//! `lab/results/plan.md` has the proof in full. Nodes that store nothing count as the new node.

use crate::Problem;

/// The lower bound on traffic for one lost chunk; made by [`Bound::of`] or [`Bound::new`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    n: usize,
    k: usize,
    w: usize,
}

impl Bound {
    /// For n - 1 helpers of an MDS code of dimension k, chunks of w sub-chunks. Nothing unless
    /// 2 <= k < n.
    pub fn new(n: usize, k: usize, w: usize) -> Option<Bound> {
        (2 <= k && k < n && w > 0).then_some(Bound { n, k, w })
    }

    /// For a problem of one whole chunk whose helpers all read equally much, as repairs of MDS
    /// codes with the least reading do: k follows from that. Nothing for other problems, and where
    /// the new node stores a helper's chunk, two helpers are one node or only a range is wanted.
    pub fn of(problem: &Problem) -> Option<Bound> {
        let dag = problem.dag();
        let reads = dag.reads();
        let mut targets = problem.targets();
        let (Some((_, target)), None) = (targets.next(), targets.next()) else { return None };
        let mut nodes: Vec<usize> =
            reads.iter().filter_map(|read| problem.home(read.chunk as u32)).collect();
        nodes.push(target);
        nodes.sort_unstable();
        nodes.dedup();
        let (w, d) = (dag.outputs().len(), reads.len());
        let beta = reads.first()?.sub_chunks();
        let equal = reads.iter().all(|read| read.sub_chunks() == beta);
        if nodes.len() != d + 1 || !equal || !w.is_multiple_of(beta) || !problem.is_whole() {
            return None;
        }
        Bound::new(d + 1, (d + 1).checked_sub(w / beta)?, w)
    }

    /// Sub-chunks of a chunk: the least that the new node receives, so the least maximum load.
    pub fn load(&self) -> f64 {
        self.w as f64
    }

    /// The least traffic when the new node receives `received` sub-chunks.
    pub fn bandwidth(&self, received: f64) -> f64 {
        let (n, k, w) = (self.n as f64, self.k as f64, self.w as f64);
        let q = n - k;
        let line = w * (n - 1.0) * (n - 2.0) - received * q * (q - 1.0);
        (line / (q * (k - 1.0))).max(received)
    }

    /// The same as a whole number of sub-chunks.
    pub fn sub_chunks(&self, received: usize) -> usize {
        let q = self.n - self.k;
        let line = (self.w * (self.n - 1) * (self.n - 2)).saturating_sub(received * q * (q - 1));
        line.div_ceil(q * (self.k - 1)).max(received)
    }

    /// Returns what the new node receives when it computes alone: w (n-1) / q. There the bound
    /// ends.
    pub fn central(&self) -> f64 {
        self.w as f64 * (self.n - 1) as f64 / (self.n - self.k) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_load_needs_the_most_traffic() {
        for (k, m) in [(2, 2), (4, 2), (6, 3), (10, 4), (17, 3)] {
            let (n, w) = (k + m, 60);
            let bound = Bound::new(n, k, w).unwrap();
            let least = w as f64 * (1.0 + (n - 2) as f64 / m as f64);
            assert!((bound.bandwidth(w as f64) - least).abs() < 1e-9);
            assert_eq!(bound.sub_chunks(w), least.ceil() as usize);
            assert!((bound.bandwidth(bound.central()) - bound.central()).abs() < 1e-9);
        }
        assert!(Bound::new(3, 1, 4).is_none() && Bound::new(4, 4, 4).is_none());
    }
}
