//! The layers of a Clay code and the nodes whose repair reads them.

use crate::{CodeError, Result};

/// More layers are refused: the same limit as for the codes that have layers.
pub(crate) const LAYERS_MAX: usize = 16_384;

/// The q^t layers of a code on a grid of t sections with q nodes each, and which of those nodes
/// are stored. The lost node (x, y) is repaired from the layers whose digit y is x; nodes that are
/// not stored (shortening) are never lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layers {
    k: usize,
    n: usize,
    q: usize,
    t: usize,
    /// Weight of each digit: q^(t-1-y).
    weights: Vec<usize>,
}

impl Layers {
    /// The layers of k data and m parity chunks, q = d - k + 1 nodes a section. Virtual nodes
    /// stand between data and parity.
    ///
    /// # Errors
    /// No chunks, q = 0, or more than 16,384 layers.
    pub fn new(k: usize, m: usize, q: usize) -> Result<Layers> {
        let n = k.saturating_add(m);
        if k == 0 || q == 0 || n > 256 {
            let (what, expected) = ("chunks (1 to 256) with sections of at least one", 256);
            return Err(CodeError::Shape { what, expected, got: n });
        }
        let t = n.div_ceil(q);
        let count = q.checked_pow(t as u32).filter(|&count| count <= LAYERS_MAX);
        if count.is_none() {
            let (what, expected) = ("layers", LAYERS_MAX);
            return Err(CodeError::Shape { what, expected, got: usize::MAX });
        }
        let weights = (0..t).map(|y| q.pow((t - 1 - y) as u32)).collect();
        Ok(Layers { k, n, q, t, weights })
    }

    /// Nodes a section: the base of the digits.
    pub fn q(&self) -> usize {
        self.q
    }

    /// Sections: digits of a layer.
    pub fn t(&self) -> usize {
        self.t
    }

    /// Returns how many layers there are: alpha.
    pub fn count(&self) -> usize {
        self.weights.first().map_or(1, |weight| weight * self.q)
    }

    /// Chunks: nodes that are stored.
    pub fn chunks(&self) -> usize {
        self.n
    }

    /// Digit y of a layer; digit 0 is the most significant one.
    pub fn digit(&self, layer: usize, y: usize) -> usize {
        layer / self.weight(y) % self.q
    }

    /// Returns what digit y counts: q^(t-1-y).
    pub(crate) fn weight(&self, y: usize) -> usize {
        self.weights[y]
    }

    /// The chunk of node (x, y); nothing for a virtual node and outside of the grid.
    pub fn chunk_of(&self, x: usize, y: usize) -> Option<usize> {
        if x >= self.q || y >= self.t {
            return None;
        }
        let (node, virtuals) = (y * self.q + x, self.q * self.t - self.n);
        match node {
            _ if node < self.k => Some(node),
            _ if node < self.k + virtuals => None,
            _ => Some(node - virtuals),
        }
    }

    /// The node (x, y) of a chunk.
    pub fn node_of(&self, chunk: usize) -> Option<(usize, usize)> {
        let virtuals = self.q * self.t - self.n;
        let node = if chunk < self.k { chunk } else { chunk + virtuals };
        (chunk < self.n).then_some((node % self.q, node / self.q))
    }
}
