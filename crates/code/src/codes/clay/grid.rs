//! The grid of a Clay code: nodes (x, y), layers z with digits z_0 .. z_{t-1}.

use crate::{CodeError, CodeSpec, Result};

/// Node v stands at x = v mod q, y = v / q. Chunk i < k is node i; `virtuals` nodes of zeros
/// follow, then the parities. Digit z_0 of a layer is the most significant one.
#[derive(Debug, Clone)]
pub(super) struct Grid {
    pub k: usize,
    pub m: usize,
    pub q: usize,
    pub t: usize,
    /// Nodes that are not stored: the grid is full, q * t nodes, by shortening.
    pub virtuals: usize,
    pub alpha: usize,
    /// Weight of each digit: q^(t-1-y).
    weights: Vec<usize>,
}

impl Grid {
    pub(super) fn new(spec: &CodeSpec, d: usize, limit: usize) -> Result<Grid> {
        let (k, m) = (spec.k(), spec.m());
        let q = d - k + 1;
        let t = (k + m).div_ceil(q);
        let alpha = alpha(q, t).filter(|&alpha| alpha <= limit);
        let alpha = alpha.ok_or_else(|| CodeError::AlphaTooLarge {
            spec: spec.to_string(),
            alpha: alpha_text(q, t),
            q,
            t,
            limit,
            hint: other_d(k, m, limit),
        })?;
        let virtuals = q * t - (k + m);
        if q * t > 256 {
            return Err(CodeError::Unsupported {
                spec: spec.to_string(),
                reason: format!("{} nodes with virtual ones, GF(2^8) allows 256", q * t),
            });
        }
        let weights = (0..t).map(|y| q.pow((t - 1 - y) as u32)).collect();
        Ok(Grid { k, m, q, t, virtuals, alpha, weights })
    }

    pub(super) fn nodes(&self) -> usize {
        self.q * self.t
    }

    pub(super) fn node_of(&self, chunk: usize) -> usize {
        if chunk < self.k { chunk } else { chunk + self.virtuals }
    }

    /// The chunk of a node; nothing for a virtual one.
    pub(super) fn chunk_of(&self, node: usize) -> Option<usize> {
        match node {
            _ if node < self.k => Some(node),
            _ if node < self.k + self.virtuals => None,
            _ => Some(node - self.virtuals),
        }
    }

    pub(super) fn section_of(&self, node: usize) -> usize {
        node / self.q
    }

    pub(super) fn digit(&self, z: usize, y: usize) -> usize {
        z / self.weights[y] % self.q
    }

    /// Returns whether the vertex is unpaired: C = U there (a red dot in the paper's figures).
    pub(super) fn is_dot(&self, node: usize, z: usize) -> bool {
        self.digit(z, node / self.q) == node % self.q
    }

    /// The companion of a paired vertex: x and z_y change places.
    pub(super) fn companion(&self, node: usize, z: usize) -> (usize, usize) {
        let (x, y) = (node % self.q, node / self.q);
        let digit = self.digit(z, y);
        (y * self.q + digit, z - digit * self.weights[y] + x * self.weights[y])
    }

    /// Intersection score: how many of `nodes` have a dot in layer z.
    pub(super) fn score(&self, nodes: &[usize], z: usize) -> usize {
        nodes.iter().filter(|&&node| self.is_dot(node, z)).count()
    }
}

fn alpha(q: usize, t: usize) -> Option<usize> {
    q.checked_pow(t as u32)
}

fn alpha_text(q: usize, t: usize) -> String {
    match alpha(q, t) {
        Some(alpha) => alpha.to_string(),
        None => format!("{q}^{t}"),
    }
}

/// Returns which d keep alpha in bounds.
fn other_d(k: usize, m: usize, limit: usize) -> String {
    let fits = |d: &usize| {
        let q = d - k + 1;
        q > 1 && alpha(q, (k + m).div_ceil(q)).is_some_and(|alpha| alpha <= limit)
    };
    let choices: Vec<String> = (k..k + m).filter(fits).map(|d| d.to_string()).collect();
    match choices.is_empty() {
        true => "no d gives fewer; use rs, or fewer chunks".into(),
        false => format!("possible: d={}", choices.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::clay::ALPHA_MAX;

    fn grid(spec: &str) -> Grid {
        let spec: CodeSpec = spec.parse().unwrap();
        let d = spec.value("d").parse().unwrap();
        Grid::new(&spec, d, ALPHA_MAX).unwrap()
    }

    #[test]
    fn numbers_of_the_papers_codes() {
        let numbers = |spec| {
            let grid = grid(spec);
            (grid.q, grid.t, grid.virtuals, grid.alpha)
        };
        assert_eq!(numbers("clay:4+2"), (2, 3, 0, 8)); // Table 2 of the paper
        assert_eq!(numbers("clay:12+4"), (4, 4, 0, 256));
        assert_eq!(numbers("clay:16+4"), (4, 5, 0, 1024));
        assert_eq!(numbers("clay:10+4"), (4, 4, 2, 256));
        assert_eq!(numbers("clay:10+4,d=11"), (2, 7, 0, 128));
        assert_eq!(numbers("clay:3+1,d=3"), (1, 4, 0, 1));
    }

    #[test]
    fn companions_come_in_pairs_of_one_section() {
        let grid = grid("clay:5+3,d=7");
        for node in 0..grid.nodes() {
            for z in 0..grid.alpha {
                let (other, layer) = grid.companion(node, z);
                assert_eq!(grid.section_of(other), grid.section_of(node));
                assert_eq!(grid.companion(other, layer), (node, z));
                assert_eq!(grid.is_dot(node, z), (other, layer) == (node, z));
            }
        }
    }

    #[test]
    fn paper_table_3() {
        // (x, y, z0, z1) -> companion, for the (4,2) code: nodes (0,0),(1,0),(0,1),(1,1)
        let grid = grid("clay:2+2");
        let node = |x: usize, y: usize| y * 2 + x;
        let layer = |z0: usize, z1: usize| 2 * z0 + z1;
        assert_eq!(grid.companion(node(0, 0), layer(1, 0)), (node(1, 0), layer(0, 0)));
        assert_eq!(grid.companion(node(1, 1), layer(1, 0)), (node(0, 1), layer(1, 1)));
        assert_eq!(grid.companion(node(0, 1), layer(1, 0)), (node(0, 1), layer(1, 0)));
    }

    #[test]
    fn alpha_is_limited_with_a_hint() {
        let spec: CodeSpec = "clay:57+4".parse().unwrap();
        let error = Grid::new(&spec, 60, ALPHA_MAX).unwrap_err().to_string();
        assert!(error.contains("limit is 16384"), "{error}");
        let spec: CodeSpec = "clay:17+4".parse().unwrap();
        assert_eq!(Grid::new(&spec, 20, ALPHA_MAX).unwrap().alpha, 4096);
        let spec: CodeSpec = "clay:200+50".parse().unwrap();
        assert!(Grid::new(&spec, 202, ALPHA_MAX).unwrap_err().to_string().contains("3^84"));
    }
}
