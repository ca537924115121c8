//! x86-64.

pub(in super::super) mod fetch;
pub(in super::super) mod emit;
mod operand_addressing;
pub(in super::super) mod avx2;
pub(in super::super) mod avx512;
mod block;

use iced_x86::{IcedError, Instruction, MemoryOperand};

use super::super::engine::{Addressing, CodeVariant};
use super::target::{Machine, NoCode, StraightLine};
use crate::block::Block;

/// Its instructions.
#[derive(Debug)]
pub(in super::super) struct X86;

impl Machine for X86 {
    type Instruction = Instruction;
    type Place = MemoryOperand;
    type Places = operand_addressing::Places;

    fn link(
        block: &Block,
        variant: CodeVariant,
        addressing: Addressing,
        straight: &StraightLine<X86>,
        turns: usize,
    ) -> Option<Vec<u8>> {
        block::link(block, variant, addressing, straight, turns)
    }
}

impl From<IcedError> for NoCode {
    fn from(_: IcedError) -> NoCode {
        NoCode
    }
}
