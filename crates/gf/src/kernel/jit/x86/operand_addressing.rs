//! Addresses of the operands, factors and spilled values of the code of a block.

use std::{cmp::Reverse, collections::BTreeSet, mem::offset_of};

use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};

use super::super::super::engine::Addressing;
use super::super::super::nibbles::TABLE_LEN;
use super::super::call::Arguments;
use super::super::target::{self, Listing, NoCode};
use super::X86;
use crate::block::{Block, Side};

// Where code with records finds the table of outputs, and the bytes from unit to unit of scratch.
const OUTPUTS: usize = offset_of!(Arguments, rest) + 8;
const SCRATCH: usize = OUTPUTS + 8;
/// Offset of the mask of a vector less than whole.
pub(super) const REST_BYTES: usize = offset_of!(Arguments, rest_bytes);

/// Register of the arguments when the code begins.
pub(super) const ARGUMENTS: Register = Register::RDI;

// Registers that both kinds of code use alike.
pub(super) const MAPS: Register = Register::RDX;
pub(super) const END: Register = Register::RCX;
/// Hold addresses of operands, in turn.
pub(super) const BASES: [Register; 3] = [Register::R12, Register::R13, Register::R14];

// Where operands are moved.
pub(super) const SLOTS: Register = Register::RDI;
pub(super) const SHIFTS: Register = Register::RSI;
/// Bytes left of the operands of this repetition.
pub(super) const LEFT: Register = Register::R15;
/// Position of the code in the operands, by side.
pub(super) const AT: [Register; 4] = [Register::RAX, Register::R10, Register::R11, Register::R8];
pub(super) const AHEAD_AT: Register = Register::RBX;
pub(super) const AHEAD_SHIFTS: Register = Register::RBP;
pub(super) const AHEAD_LEFT: Register = Register::R9;

// Where they lie as tables say: `SLOTS` then are the addresses of this repetition, and these those
// of the next one and of the one that is fetched from.
pub(super) const NEXT: Register = Register::R10;
pub(super) const AHEAD_SLOTS: Register = Register::RBP;

// Where operands are listed.
pub(super) const RECORDS: Register = Register::RDI;
pub(super) const REGIONS: Register = Register::RSI;
/// Position of the code in all operands.
pub(super) const DONE: Register = Register::RAX;
/// The record of the second repetition, where two are taken at once: they have one position.
pub(super) const SECOND: Register = Register::RAX;
/// Table of distances of units of inputs from the start of their region.
pub(super) const TABLE: Register = Register::R8;
/// The entries of the unit that most inputs have, and of those behind it.
pub(super) const OWN: [Register; 4] = [Register::R10, Register::R11, Register::RBX, Register::RBP];
/// Hold where in their table the entries of an operand, and of those behind it, are.
const CURSOR: Register = Register::R9;
/// Hold the starts of regions, least recently used first out. Two places are in use at once, so
/// what is loaded takes the first two; the others hold starts of outputs until `FARS` are wanted.
const STARTS: [Register; 4] = [Register::R12, Register::R13, Register::R14, Register::R15];
/// Hold how far units of pairs are from there.
const UNITS: [Register; 6] = [TABLE, CURSOR, OWN[0], OWN[1], OWN[2], OWN[3]];
/// Bytes of a unit of these.
const HALF: u32 = 32;
/// Hold how far units are from there, in turn.
const FARS: [Register; 2] = [Register::R14, Register::R15];
pub(super) const SPARE: Register = Register::RCX;

/// Bytes at the stack pointer that belong to the code around: where its arguments are.
pub(super) const HEADER: usize = 64;

/// The value in a register: an operand's, of the second repetition or not; and its last use.
type Held = (Option<(u32, bool)>, usize);

/// The register that has a value, or is to get it, and whether it has it: least recently used ones
/// are taken first.
fn claim(held: &mut [Held], value: (u32, bool), time: usize) -> (usize, bool) {
    let found = held.iter().position(|&(held, _)| held == Some(value));
    let oldest = || (0..held.len()).min_by_key(|&at| held[at].1).unwrap_or(0);
    let at = found.unwrap_or_else(oldest);
    held[at] = (Some(value), time);
    (at, found.is_some())
}

/// Makes the addresses that instructions of a block's body use.
pub(in super::super::super) struct Places {
    next: usize,
    /// The operands whose addresses are in `BASES`.
    bases: [Option<u32>; BASES.len()],
    addressing: Addressing,
    /// Rank of each operand among those that a call names.
    ranks: Vec<usize>,
    /// The operand whose unit most inputs have.
    own: Option<u32>,
    /// True if the place is of the second of two repetitions.
    second: bool,
    /// True if places of the second one are asked for, too.
    pairs: bool,
    /// The operands whose regions are in `STARTS`, and those whose units are in `UNITS`.
    starts: [Held; STARTS.len()],
    units: [Held; UNITS.len()],
    time: usize,
    /// The operand whose entries are at `CURSOR`, and its side.
    cursor: Option<(u32, Side)>,
}

impl target::Places<X86> for Places {
    fn new(block: &Block, addressing: Addressing, pairs: bool) -> Places {
        let mut ranks = vec![0; block.sides().len()];
        for (rank, operand) in block.named().enumerate() {
            ranks[operand as usize] = rank;
        }
        let own = own(block);
        let (starts, units, cursor) = ([(None, 0); STARTS.len()], [(None, 0); UNITS.len()], None);
        Places {
            next: 0,
            bases: [None; BASES.len()],
            addressing,
            ranks,
            own,
            second: false,
            pairs,
            starts,
            units,
            time: 0,
            cursor,
        }
    }

    fn operand(
        &mut self,
        block: &Block,
        operand: u32,
        code: &mut Listing<X86>,
    ) -> Result<MemoryOperand, NoCode> {
        let side = block.sides()[operand as usize];
        if self.pairs {
            return Ok(self.paired(block, operand, code)?);
        }
        if self.addressing == Addressing::Listed {
            return Ok(self.listed(block, operand, side, code)?);
        }
        // Two places are in use at once, at most.
        let bases = if self.addressing == Addressing::Ordered { 2 } else { BASES.len() };
        let held = self.bases.iter().position(|&held| held == Some(operand));
        let which = held.unwrap_or(self.next % bases);
        let base = BASES[which];
        if held.is_none() {
            slot(base, SLOTS, operand, code)?;
        }
        self.bases[which] = Some(operand);
        self.next = which + 1;
        // Where addresses are looked up they are those of the repetition, whatever the side.
        let at = match (self.addressing, side) {
            (Addressing::Ordered, Side::Output) => AT[Side::Input as usize],
            _ => AT[side as usize],
        };
        Ok(MemoryOperand::with_base_index(base, at))
    }

    fn second(
        &mut self,
        block: &Block,
        operand: u32,
        code: &mut Listing<X86>,
    ) -> Result<MemoryOperand, NoCode> {
        self.second = true;
        let place = self.operand(block, operand, code);
        self.second = false;
        place
    }

    fn ahead(
        &self,
        place: &MemoryOperand,
        operand: u32,
        lines: usize,
        code: &mut Listing<X86>,
    ) -> Result<MemoryOperand, NoCode> {
        Ok(match self.addressing {
            Addressing::Moved => MemoryOperand::with_base_index(place.base, AHEAD_AT),
            Addressing::Ordered => {
                let [_, _, base] = BASES;
                slot(base, AHEAD_SLOTS, operand, code)?;
                MemoryOperand::with_base_index(base, AHEAD_AT)
            }
            Addressing::Listed => Self::behind(place, lines),
        })
    }

    fn behind(place: &MemoryOperand, lines: usize) -> MemoryOperand {
        let displacement = place.displacement + 64 * lines as i64;
        MemoryOperand { displacement, displ_size: 1, ..*place }
    }

    /// Finds the entries of the unit that most inputs have.
    fn own_entries(&self, block: &Block) -> Result<Listing<X86>, NoCode> {
        let mut code = Vec::new();
        let Some(own) = self.own.filter(|_| !self.pairs) else { return Ok(code) };
        let sides = [Side::Input, Side::Output];
        let sides = sides.into_iter().filter(|&side| has_own_entries(block, side));
        let most = sides.flat_map(|side| behind(block, own, side)).max().unwrap_or(0);
        code.push(Instruction::with2(Code::Mov_r32_rm32, low(CURSOR), self.unit(own))?);
        for (index, &register) in (0..=most).zip(&OWN) {
            let base = MemoryOperand::with_base_index_scale(TABLE, CURSOR, 8);
            let (displacement, displ_size) = (8 * i64::from(index), 1);
            let entry = MemoryOperand { displacement, displ_size, ..base };
            code.push(Instruction::with2(Code::Mov_r64_rm64, register, entry)?);
        }
        Ok(code)
    }

    fn spilled(slot: usize) -> MemoryOperand {
        MemoryOperand::with_base_displ_size(Register::RSP, (HEADER + 64 * slot) as i64, 1)
    }
}

impl Places {
    /// The place of an operand whose unit each repetition lists.
    fn listed(
        &mut self,
        block: &Block,
        operand: u32,
        side: Side,
        code: &mut Vec<Instruction>,
    ) -> Result<MemoryOperand, IcedError> {
        let (anchor, behind) = block.anchor(operand).unwrap_or((operand, 0));
        let [unit, _] = block.alike(anchor);
        // Outputs are only stored: their places are in use alone.
        let near = self.own == Some(unit) && has_own_entries(block, side);
        let room = if side == Side::Output && near { STARTS.len() } else { 2 };
        let start = self.start(block, anchor, room, code)?;
        if near {
            return Ok(MemoryOperand::with_base_index(start, OWN[behind as usize]));
        }
        let which = self.next % FARS.len();
        let far = FARS[which];
        self.starts[2 + which].0 = None;
        self.next += 1;
        if side.in_scratch() {
            code.push(Instruction::with2(Code::Mov_r32_rm32, low(far), self.unit(anchor))?);
            code.push(Instruction::with2(Code::Add_rm64_imm8, far, behind as i32)?);
            self.argument(SCRATCH, code)?;
            code.push(Instruction::with2(Code::Imul_r64_rm64, far, SPARE)?);
            return Ok(MemoryOperand::with_base_index(start, far));
        }
        if self.cursor != Some((unit, side)) {
            self.cursor = Some((unit, side));
            code.push(Instruction::with2(Code::Mov_r32_rm32, low(CURSOR), self.unit(anchor))?);
            let table = match side {
                Side::Input => TABLE,
                _ => {
                    self.argument(OUTPUTS, code)?;
                    SPARE
                }
            };
            let entry = MemoryOperand::with_base_index_scale(table, CURSOR, 8);
            code.push(Instruction::with2(Code::Lea_r64_m, CURSOR, entry)?);
        }
        let entry = MemoryOperand::with_base_displ_size(CURSOR, 8 * i64::from(behind), 1);
        code.push(Instruction::with2(Code::Mov_r64_rm64, far, entry)?);
        Ok(MemoryOperand::with_base_index(start, far))
    }

    /// The place of an operand of one of two repetitions, whose units of 32 bytes are neighbours.
    fn paired(
        &mut self,
        block: &Block,
        operand: u32,
        code: &mut Vec<Instruction>,
    ) -> Result<MemoryOperand, IcedError> {
        let (anchor, behind) = block.anchor(operand).unwrap_or((operand, 0));
        let start = self.start(block, anchor, STARTS.len(), code)?;
        let unit = (block.alike(anchor)[0], self.second);
        let (held, known) = claim(&mut self.units, unit, self.time);
        let far = UNITS[held];
        if !known {
            code.push(Instruction::with2(Code::Mov_r32_rm32, low(far), self.unit(anchor))?);
            code.push(Instruction::with2(Code::Shl_rm64_imm8, far, HALF.trailing_zeros())?);
        }
        let displacement = i64::from(HALF * behind);
        let place = MemoryOperand::with_base_index(start, far);
        Ok(MemoryOperand { displacement, displ_size: u32::from(behind > 0), ..place })
    }

    /// The register with the start of an operand's region, from where the code is on: one of the
    /// first `room`.
    fn start(
        &mut self,
        block: &Block,
        operand: u32,
        room: usize,
        code: &mut Vec<Instruction>,
    ) -> Result<Register, IcedError> {
        let region = (block.alike(operand)[1], self.second && !block.pairs_share_region(operand));
        self.time += 1;
        let (held, known) = claim(&mut self.starts[..room], region, self.time);
        let start = STARTS[held];
        if known {
            return Ok(start);
        }
        let place = MemoryOperand::with_base_displ_size(self.record(), self.entry(operand), 1);
        code.push(Instruction::with2(Code::Mov_r32_rm32, low(start), place)?);
        let place = MemoryOperand::with_base_index_scale(REGIONS, start, 8);
        code.push(Instruction::with2(Code::Mov_r64_rm64, start, place)?);
        if !self.pairs {
            code.push(Instruction::with2(Code::Add_r64_rm64, start, DONE)?);
        }
        Ok(start)
    }

    /// Loads one of the arguments into the spare register.
    fn argument(&self, offset: usize, code: &mut Vec<Instruction>) -> Result<(), IcedError> {
        let arguments = MemoryOperand::with_base(Register::RSP);
        code.push(Instruction::with2(Code::Mov_r64_rm64, SPARE, arguments)?);
        let place = MemoryOperand::with_base_displ_size(SPARE, offset as i64, 1);
        code.push(Instruction::with2(Code::Mov_r64_rm64, SPARE, place)?);
        Ok(())
    }

    /// The record of the repetition.
    fn record(&self) -> Register {
        if self.second { SECOND } else { RECORDS }
    }

    fn entry(&self, operand: u32) -> i64 {
        8 * self.ranks[operand as usize] as i64
    }

    fn unit(&self, operand: u32) -> MemoryOperand {
        MemoryOperand::with_base_displ_size(self.record(), self.entry(operand) + 4, 1)
    }

    /// The map of a factor, for all quarters of a vector.
    pub(super) fn map(factor: u8) -> MemoryOperand {
        let place = MemoryOperand::with_base_displ_size(MAPS, 8 * i64::from(factor), 1);
        MemoryOperand { is_broadcast: true, ..place }
    }

    /// The map of a factor that each repetition has in its list, after the instruction that finds
    /// it.
    pub(super) fn given_map(
        block: &Block,
        index: u32,
        second: bool,
        code: &mut Vec<Instruction>,
    ) -> Result<MemoryOperand, IcedError> {
        given(block, index, if second { SECOND } else { RECORDS }, code)?;
        Ok(MemoryOperand::with_base_index_scale(MAPS, SPARE, 8))
    }

    /// The tables of a factor, of lower and of upper halves.
    pub(super) fn tables(factor: u8) -> [MemoryOperand; 2] {
        let first = (TABLE_LEN * usize::from(factor)) as i64;
        [0, TABLE_LEN as i64 / 2]
            .map(|half| MemoryOperand::with_base_displ_size(MAPS, first + half, 1))
    }

    /// As [`Places::given_map`], the tables.
    pub(super) fn given_tables(
        block: &Block,
        index: u32,
        code: &mut Vec<Instruction>,
    ) -> Result<[MemoryOperand; 2], IcedError> {
        given(block, index, RECORDS, code)?;
        let places = TABLE_LEN.trailing_zeros();
        code.push(Instruction::with2(Code::Shl_rm32_imm8, low(SPARE), places)?);
        let first = MemoryOperand::with_base_index(MAPS, SPARE);
        let second = MemoryOperand { displacement: TABLE_LEN as i64 / 2, displ_size: 1, ..first };
        Ok([first, second])
    }
}

/// Loads a factor of a repetition into the spare register.
fn given(
    block: &Block,
    index: u32,
    record: Register,
    code: &mut Vec<Instruction>,
) -> Result<(), IcedError> {
    let at = 8 * block.named().count() as i64 + i64::from(index);
    let factor = MemoryOperand::with_base_displ_size(record, at, 1);
    code.push(Instruction::with2(Code::Movzx_r32_rm8, low(SPARE), factor)?);
    Ok(())
}

/// Returns whether `OWN` are right for a side: outputs may lie as inputs do.
fn has_own_entries(block: &Block, side: Side) -> bool {
    side == Side::Input || (side == Side::Output && block.one_table())
}

/// Returns how far behind a unit the operands of a side lie that have it or are behind it.
fn behind(block: &Block, unit: u32, side: Side) -> impl Iterator<Item = u32> + '_ {
    (0..).zip(block.sides()).filter_map(move |(operand, &of)| {
        let (anchor, behind) = block.anchor(operand)?;
        (side == of && block.alike(anchor)[0] == unit).then_some(behind)
    })
}

/// The operand whose unit most inputs have.
fn own(block: &Block) -> Option<u32> {
    let inputs = block.named().filter(|&named| block.sides()[named as usize] == Side::Input);
    let units: BTreeSet<u32> = inputs.map(|named| block.alike(named)[0]).collect();
    units.into_iter().max_by_key(|&unit| (behind(block, unit, Side::Input).count(), Reverse(unit)))
}

/// Takes an operand's address from a list of all.
fn slot(
    base: Register,
    slots: Register,
    operand: u32,
    code: &mut Vec<Instruction>,
) -> Result<(), IcedError> {
    let from = MemoryOperand::with_base_displ_size(slots, 8 * i64::from(operand), 1);
    code.push(Instruction::with2(Code::Mov_r64_rm64, base, from)?);
    Ok(())
}

/// The lower half of a general register.
pub(super) fn low(register: Register) -> Register {
    Register::EAX + (register as u32 - Register::RAX as u32)
}
