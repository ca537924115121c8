//! Vectors of AVX2: 16 registers of 32 bytes, a product by two look-ups.
//!
//! A product takes two tables, which are loaded for every use: there are no registers to keep them
//! in. So values of blocks with products are 64 bytes, in two registers: each table is loaded once
//! for both. Values of blocks that only add are 32 bytes in one register: more of them fit.

use std::sync::OnceLock;

use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};

use super::super::super::nibbles;
use super::super::target::{self, Halves, NoCode, Places as _, Products, Store, Target, Written};
use super::operand_addressing::{HEADER, MAPS, Places, REST_BYTES};
use super::{X86, fetch};
use crate::{AlignedBuf, block::Block, tuning::Level};

type Listing = target::Listing<X86>;
type Term = target::Term<X86>;

/// Bytes of a vector.
const WIDTH: usize = 32;
/// Vector registers of the CPU.
const REGISTERS: usize = 16;
/// Hold tables and what they give; blocks that only add have them for values.
const FIRST: Register = Register::YMM14;
const SECOND: Register = Register::YMM15;
/// Offset of the constants behind the tables: a vector of lower halves, and one of what is left of
/// the polynomial where a byte is doubled.
const LOWER: usize = nibbles::ALL_LEN;
const REDUCTION: usize = LOWER + WIDTH;
/// The field's polynomial without its first term.
const POLYNOMIAL: u8 = crate::field::mul(2, 0x80);

/// Blocks with products.
pub(in super::super::super) static PRODUCTS: Avx2 = Avx2 { parts: 2, registers: 7 };
/// Blocks that only add.
pub(in super::super::super) static SUMS: Avx2 = Avx2 { parts: 1, registers: REGISTERS };

/// Blocks with products, on half of 64 bytes.
pub(in super::super::super) static HALF_PRODUCTS: Avx2 = Avx2 { parts: 1, registers: 14 };

/// Blocks that only add, past the caches: both halves of a line are stored one after the other, so
/// that it leaves the processor as a whole.
pub(in super::super::super) static LINES: Avx2 = Avx2 { parts: 2, registers: REGISTERS / 2 };

/// A way to use the registers.
#[derive(Debug)]
pub(in super::super::super) struct Avx2 {
    /// Registers of a value.
    parts: usize,
    /// Number of values that registers hold.
    registers: usize,
}

/// The tables of all factors, and the constants.
pub(in super::super::super) fn tables() -> &'static [u8] {
    static TABLES: OnceLock<AlignedBuf> = OnceLock::new();
    TABLES.get_or_init(|| {
        let mut tables = AlignedBuf::zeroed(REDUCTION + WIDTH);
        nibbles::tabulate_all(&mut tables[..LOWER]);
        tables[LOWER..REDUCTION].fill(0x0f);
        tables[REDUCTION..].fill(POLYNOMIAL);
        tables
    })
}

impl Avx2 {
    fn parts(&self, value: usize) -> impl Iterator<Item = Register> + use<> {
        debug_assert!(value < self.registers);
        let first = Register::YMM0 + (value * self.parts) as u32;
        (0..self.parts as u32).map(move |part| first + part)
    }

    /// The registers of a value, and where each lies in memory.
    fn places(
        &self,
        value: usize,
        place: MemoryOperand,
    ) -> impl Iterator<Item = (Register, MemoryOperand)> + use<> {
        self.parts(value).zip(0..).map(move |(part, index)| {
            let displacement = place.displacement + index * WIDTH as i64;
            let displ_size = place.displ_size.max(u32::from(displacement != 0));
            (part, MemoryOperand { displacement, displ_size, ..place })
        })
    }

    /// Copies the bytes of an operand less than whole to the stack or back.
    fn copy_rest(&self, operand: MemoryOperand, store: bool, code: &mut Listing) -> Written {
        let pushed = [Register::RSI, Register::RDI, Register::RCX];
        for register in pushed {
            code.push(Instruction::with1(Code::Push_r64, register)?);
        }
        let depth = (8 * pushed.len()) as i64;
        let on_stack =
            |at: usize| MemoryOperand::with_base_displ_size(Register::RSP, depth + at as i64, 1);
        let [from, to] = match store {
            true => [on_stack(HEADER), operand],
            false => [operand, on_stack(HEADER)],
        };
        // Operands are found by other registers than these two.
        code.push(Instruction::with2(Code::Lea_r64_m, Register::RSI, from)?);
        code.push(Instruction::with2(Code::Lea_r64_m, Register::RDI, to)?);
        let count = Register::RCX;
        code.push(Instruction::with2(Code::Mov_r64_rm64, count, on_stack(0))?);
        let bytes = MemoryOperand::with_base_displ(count, REST_BYTES as i64);
        code.push(Instruction::with2(Code::Mov_r64_rm64, count, bytes)?);
        code.push(Instruction::with_rep_movsb(64)?);
        for register in pushed.into_iter().rev() {
            code.push(Instruction::with1(Code::Pop_r64, register)?);
        }
        Ok(())
    }
}

impl Target<X86> for Avx2 {
    fn width(&self) -> usize {
        self.parts * WIDTH
    }

    fn registers(&self) -> usize {
        self.registers
    }

    fn products(&self) -> Products<'_, X86> {
        Products::Halves(self)
    }

    fn takes_memory(&self) -> bool {
        true
    }

    fn enter(&self, _whole: bool, _code: &mut Listing) -> Written {
        Ok(())
    }

    /// There are no masks for bytes.
    fn rest_slots(&self) -> usize {
        1
    }

    /// Returns how many.
    fn rest_bytes(&self, bytes: usize) -> u64 {
        bytes as u64
    }

    fn fetch(&self, level: Level, at: MemoryOperand, code: &mut Listing) -> Written {
        code.push(fetch::one(level, at)?);
        Ok(())
    }

    fn load(&self, to: usize, from: MemoryOperand, whole: bool, code: &mut Listing) -> Written {
        let mut from = from;
        if !whole {
            self.copy_rest(from, false, code)?;
            from = Places::spilled(0);
        }
        for (part, place) in self.places(to, from) {
            code.push(Instruction::with2(Code::VEX_Vmovdqu_ymm_ymmm256, part, place)?);
        }
        Ok(())
    }

    fn store(&self, to: MemoryOperand, from: usize, how: Store, code: &mut Listing) -> Written {
        let (store, place) = match how {
            Store::Streamed => (Code::VEX_Vmovntdq_m256_ymm, to),
            Store::Whole => (Code::VEX_Vmovdqu_ymmm256_ymm, to),
            Store::Rest => (Code::VEX_Vmovdqu_ymmm256_ymm, Places::spilled(0)),
        };
        for (part, place) in self.places(from, place) {
            code.push(Instruction::with2(store, place, part)?);
        }
        match how {
            Store::Rest => self.copy_rest(to, true, code),
            _ => Ok(()),
        }
    }

    fn copy(&self, to: usize, from: usize, code: &mut Listing) -> Written {
        for (to, from) in self.parts(to).zip(self.parts(from)) {
            code.push(Instruction::with2(Code::VEX_Vmovdqa_ymm_ymmm256, to, from)?);
        }
        Ok(())
    }

    fn xor(&self, to: usize, a: usize, b: &Term, code: &mut Listing) -> Written {
        let (to, a) = (self.parts(to), self.parts(a));
        match b {
            Term::Register(b) => {
                for ((to, a), b) in to.zip(a).zip(self.parts(*b)) {
                    code.push(xor(to, a, b)?);
                }
            }
            Term::Memory(b) => {
                for (to, (a, b)) in to.zip(a.zip(self.places(0, *b))) {
                    let code_of = Code::VEX_Vpxor_ymm_ymm_ymmm256;
                    code.push(Instruction::with3(code_of, to, a, b.1)?);
                }
            }
        }
        Ok(())
    }
}

impl Halves<X86> for Avx2 {
    fn tables(&self, factor: u8) -> [MemoryOperand; 2] {
        Places::tables(factor)
    }

    fn given_tables(
        &self,
        block: &Block,
        index: u32,
        code: &mut Listing,
    ) -> Result<[MemoryOperand; 2], NoCode> {
        Ok(Places::given_tables(block, index, code)?)
    }

    fn split(&self, from: usize, halves: [usize; 2], code: &mut Listing) -> Written {
        let lower = constant(LOWER);
        code.push(Instruction::with2(Code::VEX_Vmovdqa_ymm_ymmm256, FIRST, lower)?);
        let [low, high] = halves.map(|half| self.parts(half));
        for ((from, low), high) in self.parts(from).zip(low).zip(high) {
            // The one that takes the value's place comes last.
            let and = |to: Register, from: Register| {
                Instruction::with3(Code::VEX_Vpand_ymm_ymm_ymmm256, to, from, FIRST)
            };
            let shift = Instruction::with3(Code::VEX_Vpsrlq_ymm_ymm_imm8, high, from, 4)?;
            code.push(and(low, from)?);
            code.push(shift);
            code.push(and(high, high)?);
        }
        Ok(())
    }

    fn product(
        &self,
        to: usize,
        add: Option<usize>,
        tables: [MemoryOperand; 2],
        halves: [usize; 2],
        code: &mut Listing,
    ) -> Written {
        let look_up = |to: Register, table: Register, half: Register| {
            Instruction::with3(Code::VEX_Vpshufb_ymm_ymm_ymmm256, to, table, half)
        };
        let mut add = add;
        for (table, half) in tables.into_iter().zip(halves) {
            let load = Code::VEX_Vbroadcasti128_ymm_m128;
            code.push(Instruction::with2(load, FIRST, table)?);
            for (index, (to, half)) in self.parts(to).zip(self.parts(half)).enumerate() {
                let Some(add) = add else {
                    code.push(look_up(to, FIRST, half)?);
                    continue;
                };
                // The last one may take the table's place.
                let found = if index + 1 == self.parts { FIRST } else { SECOND };
                code.push(look_up(found, FIRST, half)?);
                let add = Register::YMM0 + (add * self.parts + index) as u32;
                code.push(xor(to, add, found)?);
            }
            add = Some(to);
        }
        Ok(())
    }

    fn twice(&self, to: usize, add: Option<usize>, from: usize, code: &mut Listing) -> Written {
        let above = Code::VEX_Vpcmpgtb_ymm_ymm_ymmm256;
        let and = Code::VEX_Vpand_ymm_ymm_ymmm256;
        let sum = Code::VEX_Vpaddb_ymm_ymm_ymmm256;
        for (index, (to, from)) in self.parts(to).zip(self.parts(from)).enumerate() {
            // What is negative has the bit that goes over.
            code.push(xor(FIRST, FIRST, FIRST)?);
            code.push(Instruction::with3(above, FIRST, FIRST, from)?);
            code.push(Instruction::with3(and, FIRST, FIRST, constant(REDUCTION))?);
            code.push(Instruction::with3(sum, SECOND, from, from)?);
            let Some(add) = add else {
                code.push(xor(to, FIRST, SECOND)?);
                continue;
            };
            let add = Register::YMM0 + (add * self.parts + index) as u32;
            code.push(xor(FIRST, FIRST, SECOND)?);
            code.push(xor(to, add, FIRST)?);
        }
        Ok(())
    }
}

fn xor(to: Register, a: Register, b: Register) -> Result<Instruction, IcedError> {
    Instruction::with3(Code::VEX_Vpxor_ymm_ymm_ymmm256, to, a, b)
}

/// A constant behind the tables.
fn constant(at: usize) -> MemoryOperand {
    MemoryOperand::with_base_displ_size(MAPS, at as i64, 1)
}
