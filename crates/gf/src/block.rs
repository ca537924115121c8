//! Straight-line programs over many operands: what a matrix cannot say without storing and loading
//! every intermediate value.
//!
//! A [`Block`] loads operands, adds multiples of values and stores results. It knows no addresses:
//! a [`Call`](super::Call) of a sequence says which units its operands are, and how often it is
//! repeated on other units. What its factors are can be left to the call, too, so that blocks that
//! are alike but for their numbers are one. A [`Routine`](super::Routine) is a block prepared for
//! one kernel.

use crate::{GfError, field::mul};

mod shape;

/// Kind of region that an operand of a block lies in. Repetitions of a call move all operands of
/// one side by the same number of units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// An input: only loaded.
    Input,
    /// An output: stored, past the caches where the data is in memory.
    Output,
    /// The scratch region.
    Scratch,
    /// Results in the scratch region.
    Result,
}

impl Side {
    /// Returns whether operands of this side lie in the scratch region.
    pub fn in_scratch(self) -> bool {
        matches!(self, Side::Scratch | Side::Result)
    }
}

/// A value that a block has loaded or computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value(pub(crate) u32);

/// Multiplier of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Factor {
    /// The same in all repetitions.
    Fixed(u8),
    /// Each repetition has its own, in the place of this number in its list.
    Given(u32),
}

impl From<u8> for Factor {
    fn from(factor: u8) -> Factor {
        Factor::Fixed(factor)
    }
}

impl Factor {
    pub(crate) fn of(self, given: &[u8]) -> u8 {
        match self {
            Factor::Fixed(factor) => factor,
            Factor::Given(index) => given.get(index as usize).copied().unwrap_or(0),
        }
    }
}

/// One operation; every load and sum makes the next value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    Load { operand: u32 },
    Sum { terms: Vec<(Value, Factor)> },
    Store { operand: u32, value: Value },
}

/// Common properties of the repetitions of a block with lists.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Alike {
    /// For each named operand, the first operand whose unit number is equal to its own in every
    /// call, and the first whose region is.
    pub operands: Vec<[u32; 2]>,
    /// True if units of outputs lie as those of inputs do.
    pub one_table: bool,
    /// The operands that lie in one region in both repetitions of every pair, from the first on.
    pub regions: Vec<bool>,
    /// The factors that are equal in both.
    pub factors: Vec<bool>,
    /// True if one of some pair uses what the other one stores.
    pub dependent: bool,
}

/// A straight-line program: operands are loaded, combined and stored, every byte in the same way.
///
/// Values live in registers while there are enough (32 with the fastest kernel, of which
/// multiplications take a few); more are kept in memory by themselves. Loads happen where a value
/// is first used, so their order does not matter; sums are computed in the order they are given.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Block {
    sides: Vec<Side>,
    /// The named operand that each operand lies behind, and how many units.
    anchors: Vec<(u32, u32)>,
    alike: Alike,
    /// True if each operand is loaded, and whether it is stored.
    uses: Vec<(bool, bool)>,
    ops: Vec<Op>,
    values: u32,
}

impl Block {
    /// A block that does nothing.
    pub fn new() -> Block {
        Block::default()
    }

    /// A new operand; operands are numbered from 0.
    pub fn operand(&mut self, side: Side) -> u32 {
        self.sides.push(side);
        self.uses.push((false, false));
        let index = self.sides.len() as u32 - 1;
        self.anchors.push((index, 0));
        index
    }

    /// The value of an operand as it was before the block's store to it.
    pub fn load(&mut self, operand: u32) -> Value {
        if let Some((loaded, _)) = self.uses.get_mut(operand as usize) {
            *loaded = true;
        }
        self.push(Op::Load { operand })
    }

    /// The sum of multiples of values. Terms of one value are added up, zeros dropped.
    pub fn sum(&mut self, terms: &[(Value, u8)]) -> Value {
        let mut sum: Vec<(Value, u8)> = Vec::with_capacity(terms.len());
        for &(value, factor) in terms {
            match sum.iter_mut().find(|(known, _)| *known == value) {
                Some((_, known)) => *known ^= factor,
                None => sum.push((value, factor)),
            }
        }
        sum.retain(|&(_, factor)| factor != 0);
        match sum[..] {
            [(value, 1)] => value,
            _ => {
                let terms = sum.into_iter().map(|(value, factor)| (value, factor.into()));
                self.push(Op::Sum { terms: terms.collect() })
            }
        }
    }

    /// Stores a value; an operand is stored once, after all loads of it.
    pub fn store(&mut self, operand: u32, value: Value) {
        if let Some((_, stored)) = self.uses.get_mut(operand as usize) {
            *stored = true;
        }
        self.ops.push(Op::Store { operand, value });
    }

    fn push(&mut self, op: Op) -> Value {
        self.ops.push(op);
        self.values += 1;
        Value(self.values - 1)
    }

    /// The side of each operand.
    pub fn sides(&self) -> &[Side] {
        &self.sides
    }

    /// Returns how many operands are loaded.
    pub(crate) fn loaded(&self) -> usize {
        self.uses.iter().filter(|&&(loaded, _)| loaded).count()
    }

    /// Returns whether there are products.
    pub(crate) fn multiplies(&self) -> bool {
        self.ops.iter().any(|op| match op {
            Op::Sum { terms } => terms.iter().any(|&(_, factor)| factor != Factor::Fixed(1)),
            _ => false,
        })
    }

    pub(crate) fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// Returns how many values there are.
    pub(crate) fn values(&self) -> usize {
        self.values as usize
    }

    /// Returns whether the operand is loaded, and whether it is stored.
    pub fn uses(&self, operand: u32) -> (bool, bool) {
        self.uses.get(operand as usize).copied().unwrap_or_default()
    }

    /// Returns what the block does to one byte an operand: the oracle, independent of every kernel.
    /// Operands that are missing count as zero, and so do factors that are left to a call.
    pub fn eval(&self, operands: &[u8]) -> Vec<u8> {
        self.eval_with(operands, &[])
    }

    /// As [`Block::eval`], with the factors of a repetition.
    pub fn eval_with(&self, operands: &[u8], given: &[u8]) -> Vec<u8> {
        let mut bytes = operands.to_vec();
        bytes.resize(self.sides.len(), 0);
        let mut values: Vec<u8> = Vec::with_capacity(self.values as usize);
        for op in &self.ops {
            match op {
                Op::Load { operand } => values.push(bytes[*operand as usize]),
                Op::Sum { terms } => {
                    let product =
                        |&(v, c): &(Value, Factor)| mul(c.of(given), values[v.0 as usize]);
                    values.push(terms.iter().map(product).fold(0, |sum, term| sum ^ term));
                }
                Op::Store { operand, value } => {
                    bytes[*operand as usize] = values[value.0 as usize];
                }
            }
        }
        bytes
    }

    /// Returns whether all operands and values exist before they are used, inputs are not stored,
    /// and no operand is loaded or stored after a store to it.
    pub(crate) fn check(&self) -> Result<(), GfError> {
        let shape = |what, expected, found| Err(GfError::Shape { what, expected, found });
        let (mut values, mut stored) = (0, vec![false; self.sides.len()]);
        for op in &self.ops {
            for value in op.sources() {
                if value.0 >= values {
                    return shape("values of a block", values as usize, value.0 as usize + 1);
                }
            }
            let (Op::Load { operand } | Op::Store { operand, .. }) = op else {
                values += 1;
                continue;
            };
            let index = *operand as usize;
            match stored.get_mut(index) {
                None => return shape("operands of a block", self.sides.len(), index + 1),
                Some(true) => return shape("uses of an operand after its store", 0, 1),
                Some(stored) => *stored = matches!(op, Op::Store { .. }),
            }
            match op {
                Op::Store { .. } if self.sides[index] == Side::Input => {
                    return Err(GfError::ReadOnly { index, region: 0 });
                }
                Op::Store { .. } => {}
                _ => values += 1,
            }
        }
        Ok(())
    }
}

impl Op {
    /// The values that the operation uses.
    pub(crate) fn sources(&self) -> impl Iterator<Item = Value> + '_ {
        let (terms, stored) = match self {
            Op::Load { .. } => (&[][..], None),
            Op::Sum { terms } => (&terms[..], None),
            Op::Store { value, .. } => (&[][..], Some(*value)),
        };
        terms.iter().map(|&(value, _)| value).chain(stored)
    }
}
