//! Layout of stripes: the node that stores each chunk.

use super::Tolerates;
use crate::{PlanError, Result};
use kiln_code::{Shape, seed::below};

/// The mark of a chunk that is lost; a cluster has fewer nodes.
const LOST: u16 = u16::MAX;

/// Places of the chunks of many stripes of one code: two bytes a chunk.
#[derive(Debug, Clone)]
pub struct Layout {
    shape: Shape,
    homes: Vec<u16>,
}

/// One stripe of a [`Layout`].
#[derive(Debug, Clone, Copy)]
pub struct Stripe<'a> {
    homes: &'a [u16],
}

impl<'a> Stripe<'a> {
    /// The node of every chunk; nothing for a lost one.
    pub fn homes(&self) -> Vec<Option<u16>> {
        self.homes.iter().map(|&home| (home != LOST).then_some(home)).collect()
    }

    /// The lost chunks, ascending.
    pub fn lost(&self) -> impl Iterator<Item = usize> + use<'a> {
        (0..self.homes.len()).filter(|&chunk| self.homes[chunk] == LOST)
    }

    /// Returns whether a node stores a chunk of it.
    pub(super) fn has(&self, node: u16) -> bool {
        self.homes.contains(&node)
    }

    pub(super) fn raw(&self) -> &'a [u16] {
        self.homes
    }
}

impl Layout {
    /// No stripes yet.
    pub fn new(shape: Shape) -> Layout {
        Layout { shape, homes: Vec::new() }
    }

    /// Adds a stripe: the node of every chunk, nothing for a lost one.
    /// Errors: it has not one entry for each of the n chunks, or a number that no node has.
    pub fn push(&mut self, homes: &[Option<u16>]) -> Result<()> {
        let (got, expected) = (homes.len(), self.shape.n());
        if got != expected {
            return Err(PlanError::BadStripe {
                stripe: self.len(),
                reason: format!("it names {got} chunks, the code has {expected}"),
            });
        }
        if homes.contains(&Some(LOST)) {
            return Err(PlanError::BadNode {
                node: usize::from(LOST),
                nodes: usize::from(LOST),
                role: "a home of a chunk",
            });
        }
        self.homes.extend(homes.iter().map(|home| home.unwrap_or(LOST)));
        Ok(())
    }

    /// `stripes` stripes with a chunk on a node of `failed` each, all chunks on distinct random
    /// nodes of `on`; what was on failed nodes is lost. Stripes that lost more than can be rebuilt
    /// are drawn again: this is for plans, not for durability.
    /// Errors: there are fewer nodes than chunks, or no failed node among them.
    pub fn random(
        shape: Shape,
        tolerates: Tolerates<'_>,
        on: impl IntoIterator<Item = usize>,
        failed: &[usize],
        stripes: usize,
        seed: u64,
    ) -> Result<Layout> {
        let n = shape.n();
        let wrong = |reason| PlanError::BadStripe { stripe: 0, reason };
        let mut order: Vec<u16> = Vec::new();
        for node in on {
            let known = u16::try_from(node).ok().filter(|&node| node != LOST);
            let nodes = usize::from(LOST);
            order.push(known.ok_or(PlanError::BadNode {
                node,
                nodes,
                role: "a home of chunks",
            })?);
        }
        order.sort_unstable();
        order.dedup();
        if n > order.len() {
            return Err(wrong(format!("{n} chunks need {n} nodes, there are {}", order.len())));
        }
        let lost = |node: u16| failed.contains(&usize::from(node));
        let firsts: Vec<u16> = order.iter().copied().filter(|&node| lost(node)).collect();
        if firsts.is_empty() {
            return Err(wrong("none of the nodes has failed".into()));
        }
        let mut layout = Layout { shape, homes: Vec::with_capacity(stripes.saturating_mul(n)) };
        let mut state = seed;
        while layout.len() < stripes {
            // The first chosen is a failed node, so that every stripe has something to repair.
            let first = firsts[below(&mut state, firsts.len())];
            let at = order.iter().position(|&node| node == first).unwrap_or(0);
            order.swap(0, at);
            for i in 1..n {
                let other = i + below(&mut state, order.len() - i);
                order.swap(i, other);
            }
            order.swap(0, below(&mut state, n));
            let home = |&node: &u16| if lost(node) { LOST } else { node };
            let homes: Vec<u16> = order[..n].iter().map(home).collect();
            let lost = (0..n).filter(|&chunk| homes[chunk] == LOST);
            if tolerates(&lost.collect::<Vec<_>>()) {
                layout.homes.extend(homes);
            }
        }
        Ok(layout)
    }

    /// The numbers of the code.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns how many stripes.
    pub fn len(&self) -> usize {
        self.homes.len() / self.shape.n()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.homes.is_empty()
    }

    /// A stripe by its place.
    ///
    /// # Panics
    /// There is none at `index`.
    pub fn stripe(&self, index: usize) -> Stripe<'_> {
        let n = self.shape.n();
        Stripe { homes: &self.homes[index * n..(index + 1) * n] }
    }

    /// All stripes.
    pub fn stripes(&self) -> impl ExactSizeIterator<Item = Stripe<'_>> {
        self.homes.chunks_exact(self.shape.n()).map(|homes| Stripe { homes })
    }

    /// Every home is a node, no node has two chunks of a stripe, and enough chunks are left.
    pub(super) fn check(&self, nodes: usize) -> Result<()> {
        let mut seen = vec![u32::MAX; nodes];
        for (index, stripe) in self.stripes().enumerate() {
            let lost = stripe.lost().count();
            if lost > self.shape.m {
                return Err(PlanError::NotRecoverable {
                    stripe: index,
                    left: self.shape.n() - lost,
                    needed: self.shape.k,
                });
            }
            for &home in stripe.raw().iter().filter(|&&home| home != LOST) {
                let node = usize::from(home);
                let Some(mark) = seen.get_mut(node) else {
                    return Err(PlanError::BadNode { node, nodes, role: "a home of a chunk" });
                };
                if std::mem::replace(mark, index as u32) == index as u32 {
                    let reason = format!("node {node} has two of its chunks");
                    return Err(PlanError::BadStripe { stripe: index, reason });
                }
            }
        }
        Ok(())
    }
}
