//! Where the code of a block finds its operands, factors and spilled values.

use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};

use super::super::Side;
use super::super::block::Block;

// Registers that both kinds of code use alike.
pub(super) const MAPS: Register = Register::RDX;
pub(super) const END: Register = Register::RCX;
pub(super) const LEN: Register = Register::R8;
/// Hold addresses of operands, in turn.
pub(super) const BASES: [Register; 3] = [Register::R12, Register::R13, Register::R14];

// Where operands are moved.
pub(super) const SLOTS: Register = Register::RDI;
pub(super) const SHIFTS: Register = Register::RSI;
/// What is left of the operands of this repetition.
pub(super) const LEFT: Register = Register::R15;
/// Where the code is in the operands, by side.
pub(super) const AT: [Register; 3] = [Register::RAX, Register::R10, Register::R11];
pub(super) const AHEAD_AT: Register = Register::RBX;
pub(super) const AHEAD_SHIFTS: Register = Register::RBP;
pub(super) const AHEAD_LEFT: Register = Register::R9;

// Where operands are listed.
pub(super) const UNITS: Register = Register::RDI;
pub(super) const REGIONS: Register = Register::RSI;
pub(super) const FACTORS: Register = Register::R9;
/// Where the code is in all operands.
pub(super) const DONE: Register = Register::RAX;
/// Bytes from unit to unit, and three times as many: of inputs and outputs, and of scratch.
pub(super) const STRIDES: [[Register; 2]; 2] =
    [[Register::R10, Register::R11], [Register::RBX, Register::RBP]];
const SPARE: Register = Register::R15;

/// How many vectors of every operand lie between what is fetched and what is used.
pub(super) const AHEAD: usize = 6;

/// Makes the addresses that instructions of a block's body use.
pub(super) struct Places {
    next_base: usize,
    /// The named operands whose addresses are in `BASES`.
    held: [Option<u32>; BASES.len()],
    /// Which of those that a call names an operand is; `None` where operands are moved.
    ranks: Option<Vec<usize>>,
}

impl Places {
    pub(super) fn new(block: &Block, listed: bool) -> Places {
        let mut ranks = vec![0; block.sides().len()];
        for (rank, operand) in block.named().enumerate() {
            ranks[operand as usize] = rank;
        }
        let ranks = listed.then_some(ranks);
        Places { next_base: 0, held: [None; BASES.len()], ranks }
    }

    /// The place of an operand's vector, after the instructions that it takes to know it.
    pub(super) fn operand(
        &mut self,
        block: &Block,
        operand: u32,
        code: &mut Vec<Instruction>,
    ) -> Result<MemoryOperand, IcedError> {
        let side = block.sides()[operand as usize];
        let Some(ranks) = &self.ranks else {
            let base = BASES[self.next_base % BASES.len()];
            self.next_base += 1;
            let from = MemoryOperand::with_base_displ(SLOTS, 8 * i64::from(operand));
            code.push(Instruction::with2(Code::Mov_r64_rm64, base, from)?);
            return Ok(MemoryOperand::with_base_index(base, AT[side as usize]));
        };
        let (anchor, behind) = block.anchor(operand).unwrap_or((operand, 0));
        let [once, thrice] = STRIDES[usize::from(side == Side::Scratch)];
        let index = match self.held.iter().position(|&held| held == Some(anchor)) {
            Some(index) => index,
            None => {
                let index = self.next_base % BASES.len();
                self.next_base += 1;
                self.held[index] = Some(anchor);
                let (base, unit) = (BASES[index], 8 * ranks[anchor as usize] as i64);
                // The region's number, then its start.
                let region = MemoryOperand::with_base_displ(UNITS, unit);
                code.push(Instruction::with2(Code::Mov_r32_rm32, low(base), region)?);
                let start = MemoryOperand::with_base_index_scale(REGIONS, base, 8);
                code.push(Instruction::with2(Code::Mov_r64_rm64, base, start)?);
                let unit = MemoryOperand::with_base_displ(UNITS, unit + 4);
                code.push(Instruction::with2(Code::Mov_r32_rm32, low(SPARE), unit)?);
                code.push(Instruction::with2(Code::Imul_r64_rm64, SPARE, once)?);
                code.push(Instruction::with2(Code::Add_r64_rm64, base, DONE)?);
                code.push(Instruction::with2(Code::Add_r64_rm64, base, SPARE)?);
                index
            }
        };
        let base = BASES[index];
        Ok(match behind {
            0 => MemoryOperand::with_base(base),
            3 => MemoryOperand::with_base_index(base, thrice),
            units => MemoryOperand::with_base_index_scale(base, once, units),
        })
    }

    /// The place that is fetched while an operand whose place was just made is used.
    pub(super) fn ahead(&self, place: &MemoryOperand) -> MemoryOperand {
        match self.ranks {
            None => MemoryOperand::with_base_index(place.base, AHEAD_AT),
            Some(_) => {
                let (displacement, displ_size) = (64 * AHEAD as i64, 1);
                MemoryOperand { displacement, displ_size, ..*place }
            }
        }
    }

    /// The place of a value that has no register.
    pub(super) fn spilled(slot: usize) -> MemoryOperand {
        MemoryOperand::with_base_displ_size(Register::RSP, 64 * slot as i64, 1)
    }

    /// The map of a factor, for all quarters of a vector.
    pub(super) fn map(factor: u8) -> MemoryOperand {
        let place = MemoryOperand::with_base_displ_size(MAPS, 8 * i64::from(factor), 1);
        MemoryOperand { is_broadcast: true, ..place }
    }

    /// The map of a factor that each repetition has in its list, after the instruction that finds
    /// it.
    pub(super) fn given_map(
        index: u32,
        code: &mut Vec<Instruction>,
    ) -> Result<MemoryOperand, IcedError> {
        let factor = MemoryOperand::with_base_displ_size(FACTORS, i64::from(index), 1);
        code.push(Instruction::with2(Code::Movzx_r32_rm8, low(SPARE), factor)?);
        Ok(MemoryOperand::with_base_index_scale(MAPS, SPARE, 8))
    }
}

/// The lower half of a general register.
pub(super) fn low(register: Register) -> Register {
    Register::EAX + (register as u32 - Register::RAX as u32)
}
