//! The loops around the straight line of a block.

use std::mem::offset_of;

use iced_x86::{Code, Encoder, IcedError, Instruction, MemoryOperand, Register};

use super::super::super::engine::{Addressing, CodeVariant, Distances, Slot};
use super::super::call::Arguments;
use super::super::target::{MOST_STACK, Machine, StraightLine};
use super::operand_addressing::{
    AHEAD_AT, AHEAD_LEFT, AHEAD_SHIFTS, AHEAD_SLOTS, ARGUMENTS, AT, BASES, DONE, END, HEADER, LEFT,
    MAPS, NEXT, Places, RECORDS, REGIONS, SECOND, SHIFTS, SLOTS, SPARE, TABLE, low,
};
use super::{X86, fetch};
use crate::block::{Block, Side};

/// The registers that belong to the caller.
const SAVED: [Register; 6] =
    [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];

impl Machine for X86 {
    type Instruction = Instruction;
    type Place = MemoryOperand;
    type Places = Places;

    fn link(
        block: &Block,
        variant: CodeVariant,
        addressing: Addressing,
        straight: &StraightLine<X86>,
        turns: usize,
    ) -> Option<Vec<u8>> {
        if frame(addressing, block, straight) > MOST_STACK {
            return None;
        }
        Assembler::new(variant, addressing, block).all(straight, turns).ok()
    }
}

/// A jump forward that has no target yet; its last four bytes are to hold the distance.
struct Jump {
    end: usize,
}

/// Bytes of values on the stack, and of two lists of addresses where these are looked up.
fn frame(addressing: Addressing, block: &Block, straight: &StraightLine<X86>) -> usize {
    let lists = if addressing == Addressing::Ordered { 16 * block.sides().len() } else { 0 };
    64 * straight.spilled + lists.next_multiple_of(64)
}

struct Assembler<'a> {
    variant: CodeVariant,
    addressing: Addressing,
    block: &'a Block,
    encoder: Encoder,
    ip: u64,
    /// Jumps forward and where they go.
    landings: Vec<(Jump, usize)>,
    /// Bytes of the values on the stack, and of addresses; above them lies the stack pointer to go
    /// back to.
    frame: i32,
}

impl<'a> Assembler<'a> {
    fn new(variant: CodeVariant, addressing: Addressing, block: &'a Block) -> Assembler<'a> {
        let encoder = Encoder::new(64);
        Assembler { variant, addressing, block, encoder, ip: 0, landings: vec![], frame: 0 }
    }

    fn all(mut self, straight: &StraightLine<X86>, turns: usize) -> Result<Vec<u8>, IcedError> {
        self.enter(straight)?;
        match self.addressing {
            Addressing::Listed => self.listed(straight)?,
            Addressing::Moved | Addressing::Ordered => self.moved(straight, turns)?,
        }
        self.leave()
    }

    /// All repetitions, from where their operands are moved to.
    fn moved(&mut self, straight: &StraightLine<X86>, turns: usize) -> Result<(), IcedError> {
        let repetition = self.ip;
        match self.addressing {
            Addressing::Ordered => self.look_up()?,
            _ => {
                for (side, at) in AT.into_iter().enumerate() {
                    self.load(at, SHIFTS, 8 * side)?;
                }
            }
        }
        self.len(LEFT)?;
        let none_left = match self.variant {
            CodeVariant::Unrolled => Some(self.many_vectors(straight, turns)?),
            _ => None,
        };
        // One vector of all operands.
        let vector = self.ip;
        self.vectors(straight, 1)?;
        if self.variant.fetches() {
            self.advance_ahead()?;
        }
        if self.whole() {
            self.emit(Instruction::with2(Code::Sub_rm64_imm8, LEFT, 64)?)?;
            self.emit(Instruction::with_branch(Code::Jne_rel32_64, vector)?)?;
        }
        none_left.into_iter().for_each(|jump| self.land(jump));
        self.add(SHIFTS, size_of::<Distances>() as i32)?;
        self.until_end(SHIFTS, repetition)
    }

    /// The loop that takes `turns` vectors while there are so many; a jump from where none are
    /// left.
    fn many_vectors(
        &mut self,
        straight: &StraightLine<X86>,
        turns: usize,
    ) -> Result<Jump, IcedError> {
        let bytes = 64 * turns as i32;
        let compare = Instruction::with2(Code::Cmp_rm64_imm32, LEFT, bytes)?;
        self.emit(compare)?;
        let too_few = self.jump(Code::Jb_rel32_64)?;
        let many = self.ip;
        self.vectors(straight, turns)?;
        self.emit(Instruction::with2(Code::Sub_rm64_imm32, LEFT, bytes)?)?;
        self.emit(compare)?;
        self.emit(Instruction::with_branch(Code::Jae_rel32_64, many)?)?;
        self.land(too_few);
        self.emit(Instruction::with2(Code::Test_rm64_r64, LEFT, LEFT)?)?;
        self.jump(Code::Je_rel32_64)
    }

    /// The next vectors of all operands that are moved, one after the other.
    fn vectors(&mut self, straight: &StraightLine<X86>, turns: usize) -> Result<(), IcedError> {
        let parts = if self.whole() { straight.parts() } else { 1 };
        for part in 0..turns * parts {
            let at = (part * straight.width) as u64;
            for instruction in &straight.body {
                let mut instruction = *instruction;
                // Only operands have an index: where the code is in them.
                if instruction.memory_index() != Register::None {
                    let at = instruction.memory_displacement64() + at;
                    instruction.set_memory_displacement64(at);
                    instruction.set_memory_displ_size(u32::from(at > 0));
                }
                // A line is fetched once.
                if at.is_multiple_of(64) || !fetch::is_one(&instruction) {
                    self.emit(instruction)?;
                }
            }
        }
        let [inputs, outputs, scratch, results] = AT;
        self.add(inputs, 64 * turns as i32)?;
        if self.addressing != Addressing::Ordered {
            self.add(outputs, 64 * turns as i32)?;
        }
        self.add(results, 64 * turns as i32)?;
        self.add(scratch, 64 * turns as i32)
    }

    /// Returns whether the code takes 64 bytes after the other.
    fn whole(&self) -> bool {
        !matches!(self.variant, CodeVariant::Rest | CodeVariant::Half)
    }

    /// All repetitions, each with its own list of operands.
    fn listed(&mut self, straight: &StraightLine<X86>) -> Result<(), IcedError> {
        let repetition = self.ip;
        for instruction in &straight.repetition {
            self.emit(*instruction)?;
        }
        let words = self.block.named().count() + self.block.given().div_ceil(8);
        let record = 8 * words as i32;
        if straight.pairs {
            // An odd repetition is taken twice, and stores the same both times.
            let next = MemoryOperand::with_base_displ(RECORDS, i64::from(record));
            self.emit(Instruction::with2(Code::Lea_r64_m, SECOND, next)?)?;
            self.argument(Code::Cmp_r64_rm64, SECOND, offset_of!(Arguments, end))?;
            self.emit(Instruction::with2(Code::Cmovae_r64_rm64, SECOND, RECORDS)?)?;
        } else {
            let nothing = low(DONE);
            self.emit(Instruction::with2(Code::Xor_r32_rm32, nothing, nothing)?)?;
        }
        let vector = self.ip;
        for instruction in &straight.body {
            self.emit(*instruction)?;
        }
        if self.whole() {
            self.add(DONE, straight.width as i32)?;
            self.argument(Code::Cmp_r64_rm64, DONE, offset_of!(Arguments, len))?;
            self.emit(Instruction::with_branch(Code::Jb_rel32_64, vector)?)?;
        }
        self.add(RECORDS, if straight.pairs { 2 * record } else { record })?;
        self.argument(Code::Cmp_r64_rm64, RECORDS, offset_of!(Arguments, end))?;
        self.emit(Instruction::with_branch(Code::Jb_rel32_64, repetition)?)
    }

    /// An instruction that takes one of the arguments, by way of the spare register.
    fn argument(&mut self, code: Code, first: Register, offset: usize) -> Result<(), IcedError> {
        self.load(SPARE, Register::RSP, 0)?;
        let argument = MemoryOperand::with_base_displ(SPARE, offset as i64);
        self.emit(Instruction::with2(code, first, argument)?)
    }

    /// The bytes of each operand.
    fn len(&mut self, to: Register) -> Result<(), IcedError> {
        self.load(to, Register::RSP, 0)?;
        self.load(to, to, offset_of!(Arguments, len))
    }

    fn until_end(&mut self, at: Register, repetition: u64) -> Result<(), IcedError> {
        self.emit(Instruction::with2(Code::Cmp_r64_rm64, at, END)?)?;
        self.emit(Instruction::with_branch(Code::Jb_rel32_64, repetition)?)
    }

    fn enter(&mut self, straight: &StraightLine<X86>) -> Result<(), IcedError> {
        for register in SAVED {
            self.emit(Instruction::with1(Code::Push_r64, register)?)?;
        }
        // Values without a register lie on the stack, at multiples of 64, above where the arguments
        // are.
        let bytes = (HEADER + frame(self.addressing, self.block, straight)) as i32;
        self.frame = bytes;
        self.emit(Instruction::with2(Code::Mov_r64_rm64, LEFT, Register::RSP)?)?;
        self.emit(Instruction::with2(Code::Sub_rm64_imm32, Register::RSP, bytes + 8)?)?;
        self.emit(Instruction::with2(Code::And_rm64_imm8, Register::RSP, -64)?)?;
        let saved = MemoryOperand::with_base_displ(Register::RSP, i64::from(bytes));
        // The stack pointer is a multiple of 64 below what was asked for: there is room above.
        self.emit(Instruction::with2(Code::Mov_rm64_r64, saved, LEFT)?)?;
        let arguments = MemoryOperand::with_base(Register::RSP);
        self.emit(Instruction::with2(Code::Mov_rm64_r64, arguments, ARGUMENTS)?)?;
        let rest = offset_of!(Arguments, rest);
        let second = offset_of!(Arguments, second);
        self.load(MAPS, ARGUMENTS, offset_of!(Arguments, maps))?;
        match self.addressing {
            Addressing::Listed => {
                self.load(REGIONS, ARGUMENTS, second)?;
                self.load(TABLE, ARGUMENTS, rest)?;
            }
            Addressing::Moved | Addressing::Ordered => {
                self.load(SHIFTS, ARGUMENTS, second)?;
                self.load(END, ARGUMENTS, offset_of!(Arguments, end))?;
            }
        }
        if self.addressing == Addressing::Moved {
            for (index, ahead) in [AHEAD_SHIFTS, AHEAD_AT, AHEAD_LEFT].into_iter().enumerate() {
                self.load(ahead, ARGUMENTS, rest + 8 * index)?;
            }
        }
        for instruction in &straight.before {
            self.emit(*instruction)?;
        }
        match self.addressing {
            Addressing::Listed => self.load(RECORDS, ARGUMENTS, offset_of!(Arguments, operands)),
            Addressing::Moved => self.load(SLOTS, ARGUMENTS, offset_of!(Arguments, operands)),
            Addressing::Ordered => self.first_lists(straight),
        }
    }

    /// Begins two lists of addresses: those of scratch, which stay, and the first repetition's.
    fn first_lists(&mut self, straight: &StraightLine<X86>) -> Result<(), IcedError> {
        let lists = (HEADER + 64 * straight.spilled) as i64;
        let half = 8 * self.block.sides().len() as i64;
        let [slots, address, _] = BASES;
        self.load(slots, ARGUMENTS, offset_of!(Arguments, operands))?;
        for (list, from) in [(SLOTS, lists), (NEXT, lists + half)] {
            let place = MemoryOperand::with_base_displ_size(Register::RSP, from, 1);
            self.emit(Instruction::with2(Code::Lea_r64_m, list, place)?)?;
        }
        for (operand, _) in self.of_sides(Side::in_scratch) {
            self.load(address, slots, size_of::<Slot>() * operand + offset_of!(Slot, start))?;
            for list in [SLOTS, NEXT] {
                let place = MemoryOperand::with_base_displ_size(list, 8 * operand as i64, 1);
                self.emit(Instruction::with2(Code::Mov_rm64_r64, place, address)?)?;
            }
        }
        self.addresses(SHIFTS)
    }

    /// The operands of some sides, by number.
    fn of_sides(&self, which: impl Fn(Side) -> bool) -> Vec<(usize, Side)> {
        let sides = self.block.sides().iter().copied().enumerate();
        sides.filter(|&(_, side)| which(side)).collect()
    }

    /// Before a repetition: its addresses are those that were looked up for the next one, and now
    /// those of the one after it are. After the last one nothing new is fetched.
    fn look_up(&mut self) -> Result<(), IcedError> {
        self.emit(Instruction::with2(Code::Xchg_rm64_r64, SLOTS, NEXT)?)?;
        let place = MemoryOperand::with_base_displ(SHIFTS, size_of::<Distances>() as i64);
        self.emit(Instruction::with2(Code::Lea_r64_m, AHEAD_SLOTS, place)?)?;
        self.emit(Instruction::with2(Code::Cmp_r64_rm64, AHEAD_SLOTS, END)?)?;
        self.emit(Instruction::with2(Code::Cmovae_r64_rm64, AHEAD_SLOTS, SHIFTS)?)?;
        self.addresses(AHEAD_SLOTS)?;
        let nothing = low(AT[0]);
        self.emit(Instruction::with2(Code::Xor_r32_rm32, nothing, nothing)?)?;
        self.load(AT[2], SHIFTS, 8 * Side::Scratch as usize)?;
        self.load(AT[3], SHIFTS, 8 * Side::Result as usize)?;
        if self.variant.fetches() {
            // Either this repetition some way in, or the next one from its start.
            let [arguments, _, _] = BASES;
            self.load(arguments, Register::RSP, 0)?;
            self.load(AHEAD_AT, arguments, offset_of!(Arguments, rest) + 16)?;
            self.len(AHEAD_LEFT)?;
            self.emit(Instruction::with2(Code::Sub_r64_rm64, AHEAD_LEFT, AHEAD_AT)?)?;
            self.emit(Instruction::with2(Code::Mov_r64_rm64, AHEAD_SLOTS, SLOTS)?)?;
            self.emit(Instruction::with2(Code::Test_rm64_r64, AHEAD_AT, AHEAD_AT)?)?;
            self.emit(Instruction::with2(Code::Cmove_r64_rm64, AHEAD_SLOTS, NEXT)?)?;
        }
        Ok(())
    }

    /// Looks up the addresses of a repetition and puts them into the list of the next one.
    fn addresses(&mut self, shift: Register) -> Result<(), IcedError> {
        let [slots, inputs, outputs] = BASES;
        let address = LEFT;
        self.load(slots, Register::RSP, 0)?;
        for (side, table) in [inputs, outputs].into_iter().enumerate() {
            self.load(table, slots, offset_of!(Arguments, rest) + 8 * side)?;
            let moved = MemoryOperand::with_base_displ(shift, 8 * side as i64);
            self.emit(Instruction::with2(Code::Add_r64_rm64, table, moved)?)?;
        }
        self.load(slots, slots, offset_of!(Arguments, operands))?;
        for (operand, side) in self.of_sides(|side| !side.in_scratch()) {
            let slot = size_of::<Slot>() * operand;
            self.load(address, slots, slot + offset_of!(Slot, entry))?;
            let entry = MemoryOperand::with_base_index([inputs, outputs][side as usize], address);
            self.emit(Instruction::with2(Code::Mov_r64_rm64, address, entry)?)?;
            let start = (slot + offset_of!(Slot, start)) as i64;
            let start = MemoryOperand::with_base_displ_size(slots, start, 1);
            self.emit(Instruction::with2(Code::Add_r64_rm64, address, start)?)?;
            let place = MemoryOperand::with_base_displ_size(NEXT, 8 * operand as i64, 1);
            self.emit(Instruction::with2(Code::Mov_rm64_r64, place, address)?)?;
        }
        Ok(())
    }

    /// Moves on what is fetched; after the last repetition it stays where it is.
    fn advance_ahead(&mut self) -> Result<(), IcedError> {
        self.add(AHEAD_AT, 64)?;
        self.emit(Instruction::with2(Code::Sub_rm64_imm8, AHEAD_LEFT, 64)?)?;
        let over = self.jump(Code::Jne_rel32_64)?;
        if self.addressing == Addressing::Ordered {
            self.emit(Instruction::with2(Code::Mov_r64_rm64, AHEAD_SLOTS, NEXT)?)?;
            let nothing = low(AHEAD_AT);
            self.emit(Instruction::with2(Code::Xor_r32_rm32, nothing, nothing)?)?;
            self.len(AHEAD_LEFT)?;
            self.land(over);
            return Ok(());
        }
        let size = size_of::<Distances>() as i64;
        let [next, last, _] = BASES;
        let place = MemoryOperand::with_base_displ(AHEAD_SHIFTS, size);
        self.emit(Instruction::with2(Code::Lea_r64_m, next, place)?)?;
        let place = MemoryOperand::with_base_displ(END, -size);
        self.emit(Instruction::with2(Code::Lea_r64_m, last, place)?)?;
        self.emit(Instruction::with2(Code::Cmp_r64_rm64, next, END)?)?;
        self.emit(Instruction::with2(Code::Cmovae_r64_rm64, next, last)?)?;
        self.emit(Instruction::with2(Code::Mov_r64_rm64, AHEAD_SHIFTS, next)?)?;
        self.load(AHEAD_AT, AHEAD_SHIFTS, 0)?;
        self.len(AHEAD_LEFT)?;
        self.land(over);
        Ok(())
    }

    /// A jump forward, to where it will [`Assembler::land`].
    fn jump(&mut self, code: Code) -> Result<Jump, IcedError> {
        self.emit(Instruction::with_branch(code, self.ip)?)?;
        Ok(Jump { end: self.ip as usize })
    }

    fn land(&mut self, jump: Jump) {
        self.landings.push((jump, self.ip as usize));
    }

    fn leave(mut self) -> Result<Vec<u8>, IcedError> {
        let saved = MemoryOperand::with_base_displ(Register::RSP, i64::from(self.frame));
        self.emit(Instruction::with2(Code::Mov_r64_rm64, Register::RSP, saved)?)?;
        for register in SAVED.into_iter().rev() {
            self.emit(Instruction::with1(Code::Pop_r64, register)?)?;
        }
        self.emit(Instruction::with(Code::VEX_Vzeroupper))?;
        self.emit(Instruction::with(Code::Retnq))?;
        let mut bytes = self.encoder.take_buffer();
        for (Jump { end }, target) in self.landings {
            // The last bytes of a jump say how far it goes.
            bytes[end - 4..end].copy_from_slice(&((target - end) as i32).to_le_bytes());
        }
        Ok(bytes)
    }

    fn load(&mut self, to: Register, base: Register, offset: usize) -> Result<(), IcedError> {
        let from = MemoryOperand::with_base_displ(base, offset as i64);
        self.emit(Instruction::with2(Code::Mov_r64_rm64, to, from)?)
    }

    fn add(&mut self, to: Register, bytes: i32) -> Result<(), IcedError> {
        self.emit(Instruction::with2(Code::Add_rm64_imm32, to, bytes)?)
    }

    fn emit(&mut self, instruction: Instruction) -> Result<(), IcedError> {
        self.ip += self.encoder.encode(&instruction, self.ip)? as u64;
        Ok(())
    }
}
