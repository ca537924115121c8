//! The instructions that ask for data ahead of its use.

use crate::tuning::Level;
use iced_x86::{Code, IcedError, Instruction, MemoryOperand};

/// The instruction that asks for a line.
pub(super) fn one(level: Level, at: MemoryOperand) -> Result<Instruction, IcedError> {
    let code = match level {
        Level::First => Code::Prefetcht0_m8,
        Level::Second => Code::Prefetcht1_m8,
    };
    Instruction::with1(code, at)
}

/// Returns whether an instruction is such a one.
pub(super) fn is_one(instruction: &Instruction) -> bool {
    matches!(instruction.code(), Code::Prefetcht0_m8 | Code::Prefetcht1_m8)
}
