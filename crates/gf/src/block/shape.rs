//! Shapes of blocks: the common part of blocks that differ in numbers only.

use super::{Alike, Block, Factor, Op};

/// The most units between an operand that a call names and one that lies behind it.
const BEHIND_MAX: u32 = 3;

impl Block {
    /// The block with all its factors left open: equal for blocks that differ in factors only.
    pub fn shape(&self) -> Block {
        let open: Vec<Factor> = (0..self.terms() as u32).map(Factor::Given).collect();
        self.with_factors(&open)
    }

    /// The factors, term by term; zero for those that are left to a call.
    pub fn factors(&self) -> Vec<u8> {
        let terms = self.ops.iter().filter_map(|op| match op {
            Op::Sum { terms } => Some(terms),
            _ => None,
        });
        terms.flatten().map(|&(_, factor)| factor.of(&[])).collect()
    }

    /// The block with other factors, as many as it has terms: as [`Block::factors`] lists them.
    pub fn with_factors(&self, factors: &[Factor]) -> Block {
        let mut block = self.clone();
        let terms = block.ops.iter_mut().filter_map(|op| match op {
            Op::Sum { terms } => Some(terms),
            _ => None,
        });
        for ((_, factor), &new) in terms.flatten().zip(factors) {
            *factor = new;
        }
        block
    }

    fn terms(&self) -> usize {
        self.ops.iter().map(|op| if let Op::Sum { terms } = op { terms.len() } else { 0 }).sum()
    }

    /// Says that an operand always lies some units behind another one of its side, so that calls
    /// need not name it. Refused, and nothing changed, where that other one is not named itself or
    /// where it is further away than three units.
    pub fn put_behind(&mut self, operand: u32, anchor: u32, units: u32) -> bool {
        let side = |operand: u32| self.sides.get(operand as usize);
        let used = self.anchors.iter().zip(0..).any(|(&(a, _), of)| a == operand && of != operand);
        let named = self.anchors.get(anchor as usize) == Some(&(anchor, 0));
        let fits = operand != anchor && units <= BEHIND_MAX && side(operand) == side(anchor);
        if used || !named || !fits {
            return false;
        }
        self.anchors[operand as usize] = (anchor, units);
        true
    }

    /// The operands that a call names.
    pub fn named(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.anchors).filter(|(operand, (anchor, _))| operand == anchor).map(|(o, _)| o)
    }

    /// The named operand that an operand lies behind, and how many units; the operand itself, and
    /// none, where it is named. `None` for an operand that the block does not have.
    pub fn anchor(&self, operand: u32) -> Option<(u32, u32)> {
        self.anchors.get(operand as usize).copied()
    }

    /// For a named operand, the first operand whose unit number is equal to its own in every call,
    /// and the first whose region is.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // only machine code asks
    pub(crate) fn alike(&self, operand: u32) -> [u32; 2] {
        self.alike.operands.get(operand as usize).copied().unwrap_or([operand; 2])
    }

    /// Returns whether units of outputs lie as far from the start of their region as those of
    /// inputs.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // only machine code asks
    pub(crate) fn one_table(&self) -> bool {
        self.alike.one_table
    }

    /// Returns whether an operand lies in one region in both repetitions of every pair.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(crate) fn pairs_share_region(&self, operand: u32) -> bool {
        self.alike.regions.get(operand as usize).is_some_and(|&shared| shared)
    }

    /// Returns whether one repetition of some pair uses what the other one stores.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(crate) fn pairs_depend(&self) -> bool {
        self.alike.dependent
    }

    /// Returns whether both repetitions of every pair have one factor.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(crate) fn pairs_share_factor(&self, index: u32) -> bool {
        self.alike.factors.get(index as usize).is_some_and(|&shared| shared)
    }

    /// The block for calls whose repetitions have so much in common.
    pub(crate) fn with_alike(&self, alike: Alike) -> Block {
        Block { alike, ..self.clone() }
    }

    /// Returns how many factors a call gives for each repetition.
    pub fn given(&self) -> usize {
        let terms = self.ops.iter().filter_map(|op| match op {
            Op::Sum { terms } => Some(terms),
            _ => None,
        });
        let given = terms.flatten().filter_map(|(_, factor)| match factor {
            Factor::Given(index) => Some(*index as usize + 1),
            Factor::Fixed(_) => None,
        });
        given.max().unwrap_or(0)
    }
}
