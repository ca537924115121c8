//! AArch64.
//!
//! Before a repetition the address of every operand is found, however operands are addressed; then
//! one loop is as good as another. Addresses stay in registers, as many as there are for them, and
//! move on with the loop: a load or a store then is one instruction for two vectors.

mod encode;
mod operand_addressing;
mod block;
pub(in super::super) mod neon;
#[cfg(test)]
mod tests;

use super::super::engine::{Addressing, CodeVariant};
use super::target::{Machine, StraightLine};
use crate::block::Block;

/// Its instructions.
#[derive(Debug)]
pub(in super::super) struct Arm;

impl Machine for Arm {
    type Instruction = encode::Instruction;
    type Place = encode::Place;
    type Places = operand_addressing::Places;

    fn link(
        block: &Block,
        variant: CodeVariant,
        addressing: Addressing,
        straight: &StraightLine<Arm>,
        turns: usize,
    ) -> Option<Vec<u8>> {
        block::link(block, variant, addressing, straight, turns)
    }
}
