//! The machine code of a block, and calling it.

use std::fmt;
use std::mem::offset_of;
use std::ops::Range;
use std::sync::OnceLock;

use iced_x86::{Code, Encoder, IcedError, Instruction, MemoryOperand, Register};

use super::super::Unit;
use super::super::block::Block;
use super::super::engine::{Engine, Job, Operands, Way};
use super::allocate::{self, Straight};
use super::pages::Pages;
use super::places::{
    AHEAD, AHEAD_AT, AHEAD_LEFT, AHEAD_SHIFTS, AT, BASES, DONE, END, FACTORS, LEFT, LEN, MAPS,
    REGIONS, SHIFTS, SLOTS, STRIDES, UNITS, low,
};

/// What the code gets: it takes everything from here into registers.
#[repr(C)]
struct Arguments {
    /// First byte of every operand; or the units of the first repetition.
    operands: *const u8,
    /// First of the repetitions; or the starts of all regions.
    second: *const u8,
    /// End of the repetitions, or of the units.
    end: *const u8,
    /// Bytes of each operand: whole vectors, or less than one.
    len: usize,
    /// The maps of all factors.
    maps: *const u64,
    /// Which bytes of a vector less than whole.
    mask: u64,
    /// What is fetched next: the repetition, how far it is in, and what is left of it; or the
    /// factors of the first repetition, and the bytes from unit to unit.
    rest: [usize; 3],
}

type Entry = unsafe extern "sysv64" fn(*const Arguments);

/// An unrolled loop has no more instructions than this: they should stay in the cache of decoded
/// ones. Unrolled, the loads of one stream are different instructions, which prefetchers that go by
/// the instruction seem to like: Liberation 5+2 codes 1.4 times as fast in the second-level cache,
/// RDP 10+2 1.2 times.
const UNROLLED: usize = 1100;
/// Vectors that one turn of a loop takes, at most: half a kilobyte of every operand.
const TURNS: usize = 8;

const ARGUMENTS: Register = Register::RDI;
/// The registers that belong to the caller.
const SAVED: [Register; 6] =
    [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];

/// Machine code for one block and one way.
pub struct BlockCode {
    pages: Pages,
    /// By factor.
    maps: &'static [u64; 256],
}

impl fmt::Debug for BlockCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockCode")
    }
}

/// The maps of all factors.
fn maps(engine: &dyn Engine) -> &'static [u64; 256] {
    static MAPS: OnceLock<[u64; 256]> = OnceLock::new();
    MAPS.get_or_init(|| {
        let mut factor = 0;
        [0; 256].map(|_: u8| {
            let mut map = [0; 8];
            engine.tabulate(factor, &mut map);
            factor = factor.wrapping_add(1);
            u64::from_le_bytes(map)
        })
    })
}

impl BlockCode {
    pub(super) fn new(
        engine: &dyn Engine,
        block: &Block,
        way: Way,
        listed: bool,
    ) -> Option<BlockCode> {
        // Repetitions are told apart by where their lists are.
        if listed && block.named().next().is_none() {
            return None;
        }
        let straight = allocate::allocate(block, way, listed)?;
        let turns = turns(&straight);
        if way == Way::Unrolled && (listed || turns == 1) {
            return None; // it is what `Cached` is
        }
        let bytes = Assembler::new(way).all(&straight, listed.then_some(block), turns).ok()?;
        Some(BlockCode { pages: Pages::new(&bytes)?, maps: maps(engine) })
    }

    /// Runs all repetitions on these bytes of every operand: whole vectors, or less than one.
    ///
    /// # Safety
    /// As [`super::super::Routine::execute`]; the code was made for the block, for the way that the
    /// range asks for, and for this kind of operands.
    pub(in super::super) unsafe fn run(&self, job: &Job<'_>, bytes: Range<usize>) {
        if job.operands.repetitions() == 0 || bytes.is_empty() {
            return;
        }
        let (len, mut moved): (usize, Vec<*mut u8>) = (bytes.len(), Vec::new());
        let places = match job.operands {
            Operands::Moved { slots, .. } => slots,
            Operands::Listed { regions, .. } => regions,
        };
        let places = match bytes.start {
            0 => places.as_ptr().cast(),
            start => {
                moved.extend(places.iter().map(|place| place.wrapping_add(start)));
                moved.as_ptr().cast()
            }
        };
        let (operands, second, end, rest);
        match job.operands {
            Operands::Moved { shifts, .. } => {
                let vectors = len.div_ceil(64);
                let ahead = &shifts[(AHEAD / vectors).min(shifts.len() - 1)..];
                let into = AHEAD % vectors * 64;
                let all = shifts.as_ptr_range();
                operands = places;
                (second, end) = (all.start.cast(), all.end.cast());
                rest =
                    [ahead.as_ptr().expose_provenance(), ahead[0][0] + into, vectors * 64 - into];
            }
            Operands::Listed { units, strides, factors, .. } => {
                let all = units.as_ptr_range();
                (operands, end) = (all.start.cast(), all.end.cast());
                second = places;
                rest = [factors.as_ptr().expose_provenance(), strides[0], strides[1]];
            }
        }
        let (maps, mask) = (self.maps.as_ptr(), !0 >> (64 - len.min(64)));
        let arguments = Arguments { operands, second, end, len, maps, mask, rest };
        // SAFETY: the pages hold what `Assembler::all` made, an `Entry`, and live as long as
        // `self`.
        let entry: Entry = unsafe { std::mem::transmute(self.pages.address(0)) };
        // SAFETY: there is at least one repetition and one byte; the caller promises the rest.
        unsafe { entry(&arguments) };
    }
}

/// How many vectors of every operand an unrolled loop takes in one turn.
fn turns(straight: &Straight) -> usize {
    (UNROLLED / straight.body.len().max(1)).clamp(1, TURNS)
}

/// A jump forward that has no target yet; its last four bytes are to hold the distance.
struct Jump {
    end: usize,
}

struct Assembler {
    way: Way,
    encoder: Encoder,
    ip: u64,
    /// Jumps forward and where they go.
    landings: Vec<(Jump, usize)>,
    /// Bytes of the values on the stack; above them lies the stack pointer to go back to.
    spill_bytes: i32,
}

impl Assembler {
    fn new(way: Way) -> Assembler {
        Assembler { way, encoder: Encoder::new(64), ip: 0, landings: vec![], spill_bytes: 0 }
    }

    /// All repetitions: with lists of operands where the block of these is `listed`.
    fn all(
        mut self,
        straight: &Straight,
        listed: Option<&Block>,
        turns: usize,
    ) -> Result<Vec<u8>, IcedError> {
        self.enter(straight, listed.is_some())?;
        match listed {
            Some(block) => self.listed(straight, block)?,
            None => self.moved(straight, turns)?,
        }
        self.leave()
    }

    /// All repetitions, from where their operands are moved to.
    fn moved(&mut self, straight: &Straight, turns: usize) -> Result<(), IcedError> {
        let repetition = self.ip;
        for (side, at) in AT.into_iter().enumerate() {
            self.load(at, SHIFTS, 8 * side)?;
        }
        self.emit(Instruction::with2(Code::Mov_r64_rm64, LEFT, LEN)?)?;
        let none_left = match self.way {
            Way::Unrolled => Some(self.many_vectors(straight, turns)?),
            _ => None,
        };
        // One vector of all operands.
        let vector = self.ip;
        self.vectors(straight, 1)?;
        if self.way == Way::Memory {
            self.advance_ahead()?;
        }
        if self.way != Way::Rest {
            self.emit(Instruction::with2(Code::Sub_rm64_imm8, LEFT, 64)?)?;
            self.emit(Instruction::with_branch(Code::Jne_rel32_64, vector)?)?;
        }
        none_left.into_iter().for_each(|jump| self.land(jump));
        self.add(SHIFTS, size_of::<[usize; 3]>() as i32)?;
        self.until_end(SHIFTS, repetition)
    }

    /// The loop that takes `turns` vectors while there are so many; a jump from where none are
    /// left.
    fn many_vectors(&mut self, straight: &Straight, turns: usize) -> Result<Jump, IcedError> {
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
    fn vectors(&mut self, straight: &Straight, turns: usize) -> Result<(), IcedError> {
        for turn in 0..turns as u64 {
            for instruction in &straight.body {
                let mut instruction = *instruction;
                // Only operands have an index: where the code is in them.
                if instruction.memory_index() != Register::None {
                    instruction.set_memory_displacement64(64 * turn);
                    instruction.set_memory_displ_size(u32::from(turn > 0));
                }
                self.emit(instruction)?;
            }
        }
        AT.into_iter().try_for_each(|at| self.add(at, 64 * turns as i32))
    }

    /// All repetitions, each with its own list of operands.
    fn listed(&mut self, straight: &Straight, block: &Block) -> Result<(), IcedError> {
        let repetition = self.ip;
        let nothing = low(DONE);
        self.emit(Instruction::with2(Code::Xor_r32_rm32, nothing, nothing)?)?;
        let vector = self.ip;
        for instruction in &straight.body {
            self.emit(*instruction)?;
        }
        if self.way != Way::Rest {
            self.add(DONE, 64)?;
            self.emit(Instruction::with2(Code::Cmp_r64_rm64, DONE, LEN)?)?;
            self.emit(Instruction::with_branch(Code::Jb_rel32_64, vector)?)?;
        }
        self.add(FACTORS, block.given() as i32)?;
        self.add(UNITS, (size_of::<Unit>() * block.named().count()) as i32)?;
        self.until_end(UNITS, repetition)
    }

    fn until_end(&mut self, at: Register, repetition: u64) -> Result<(), IcedError> {
        self.emit(Instruction::with2(Code::Cmp_r64_rm64, at, END)?)?;
        self.emit(Instruction::with_branch(Code::Jb_rel32_64, repetition)?)
    }

    fn enter(&mut self, straight: &Straight, listed: bool) -> Result<(), IcedError> {
        for register in SAVED {
            self.emit(Instruction::with1(Code::Push_r64, register)?)?;
        }
        // Values without a register lie on the stack, at multiples of 64.
        let bytes = (64 * straight.spilled) as i32;
        self.emit(Instruction::with2(Code::Mov_r64_rm64, LEFT, Register::RSP)?)?;
        self.emit(Instruction::with2(Code::Sub_rm64_imm32, Register::RSP, bytes + 8)?)?;
        self.emit(Instruction::with2(Code::And_rm64_imm8, Register::RSP, -64)?)?;
        let saved = MemoryOperand::with_base_displ(Register::RSP, i64::from(bytes));
        // The stack pointer is a multiple of 64 below what was asked for: there is room above.
        self.emit(Instruction::with2(Code::Mov_rm64_r64, saved, LEFT)?)?;
        self.load(END, ARGUMENTS, offset_of!(Arguments, end))?;
        self.load(LEN, ARGUMENTS, offset_of!(Arguments, len))?;
        self.load(MAPS, ARGUMENTS, offset_of!(Arguments, maps))?;
        let (second, rest) = match listed {
            true => (REGIONS, [FACTORS, STRIDES[0][0], STRIDES[1][0]]),
            false => (SHIFTS, [AHEAD_SHIFTS, AHEAD_AT, AHEAD_LEFT]),
        };
        self.load(second, ARGUMENTS, offset_of!(Arguments, second))?;
        for (index, register) in rest.into_iter().enumerate() {
            self.load(register, ARGUMENTS, offset_of!(Arguments, rest) + 8 * index)?;
        }
        if listed {
            for [once, thrice] in STRIDES {
                let three = MemoryOperand::with_base_index_scale(once, once, 2);
                self.emit(Instruction::with2(Code::Lea_r64_m, thrice, three)?)?;
            }
        }
        if self.way == Way::Rest {
            let mask =
                MemoryOperand::with_base_displ(ARGUMENTS, offset_of!(Arguments, mask) as i64);
            self.emit(Instruction::with2(Code::VEX_Kmovq_kr_km64, Register::K1, mask)?)?;
        }
        let operands = if listed { UNITS } else { SLOTS };
        self.load(operands, ARGUMENTS, offset_of!(Arguments, operands))?;
        for instruction in &straight.before {
            self.emit(*instruction)?;
        }
        self.spill_bytes = bytes;
        Ok(())
    }

    /// Moves on what is fetched; after the last repetition it stays where it is.
    fn advance_ahead(&mut self) -> Result<(), IcedError> {
        self.add(AHEAD_AT, 64)?;
        self.emit(Instruction::with2(Code::Sub_rm64_imm8, AHEAD_LEFT, 64)?)?;
        let over = self.jump(Code::Jne_rel32_64)?;
        let size = size_of::<[usize; 3]>() as i64;
        let [next, last, _] = BASES;
        let place = MemoryOperand::with_base_displ(AHEAD_SHIFTS, size);
        self.emit(Instruction::with2(Code::Lea_r64_m, next, place)?)?;
        let place = MemoryOperand::with_base_displ(END, -size);
        self.emit(Instruction::with2(Code::Lea_r64_m, last, place)?)?;
        self.emit(Instruction::with2(Code::Cmp_r64_rm64, next, END)?)?;
        self.emit(Instruction::with2(Code::Cmovae_r64_rm64, next, last)?)?;
        self.emit(Instruction::with2(Code::Mov_r64_rm64, AHEAD_SHIFTS, next)?)?;
        self.load(AHEAD_AT, AHEAD_SHIFTS, 0)?;
        self.emit(Instruction::with2(Code::Mov_r64_rm64, AHEAD_LEFT, LEN)?)?;
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
        let saved = MemoryOperand::with_base_displ(Register::RSP, i64::from(self.spill_bytes));
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
