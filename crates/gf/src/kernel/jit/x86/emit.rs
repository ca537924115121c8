//! The machine code of a matrix.
//!
//! One turn of the loop takes some vectors of every operand: sources two by two into registers,
//! their products added to the sums of the rows by one three-way XOR, the sums stored at the end.

use iced_x86::{Code, Encoder, IcedError, Instruction, MemoryOperand, Register};

use super::super::super::avx512::{WIDTH, XOR3};
use super::super::super::engine::Shape;
use super::fetch;
use crate::tuning::Fetch;

/// Vector registers of the CPU.
const REGISTERS: usize = 32;
/// Registers for products on their way to a sum.
const PRODUCTS: usize = 4;
/// Registers for maps that are loaded where they are used.
const LOADED_MAPS: usize = 2;
/// Code is made for matrices with at most so many coefficients.
const MOST_COEFFICIENTS: usize = 512;

const SRCS: Register = Register::RDI;
const DSTS: Register = Register::RSI;
const MAPS: Register = Register::RDX;
const END: Register = Register::RCX;
/// End of the turns of several vectors, begin of those of one.
const TURN: Register = Register::R8;
const AT: Register = Register::RAX;
/// Hold addresses of operands, in turn.
const BASES: [Register; 3] = [Register::R9, Register::R10, Register::R11];

/// Vectors of each operand that one turn takes. Two are faster than four once there are three
/// rows: more maps stay in registers, and sources that come from memory alternate sooner.
fn vectors(rows: usize) -> usize {
    if rows <= 2 { 4 } else { 2 }
}

/// Bytes of each operand that one turn takes.
pub(in super::super::super) fn step(rows: usize) -> usize {
    vectors(rows) * WIDTH
}

/// An `Entry` for the matrix; `None` when it is too large. With `stream` sources are fetched
/// ahead and results go past the caches, which takes destinations at multiples of 64.
pub(in super::super::super) fn assemble(
    shape: &Shape<'_>,
    stream: Option<Fetch>,
) -> Option<Vec<u8>> {
    if shape.rows == 0 || shape.cols == 0 || shape.coefficients.len() > MOST_COEFFICIENTS {
        return None;
    }
    let mut assembler = Assembler::new(shape, stream);
    // Jumps forward go to where the first round found their targets; the second is as long.
    assembler.all().ok()?;
    let (rest, end) = (assembler.rest, assembler.end);
    assembler = Assembler { rest, end, ..Assembler::new(shape, stream) };
    assembler.all().ok()?;
    debug_assert_eq!((rest, end), (assembler.rest, assembler.end));
    Some(assembler.encoder.take_buffer())
}

struct Assembler<'a> {
    shape: &'a Shape<'a>,
    stream: Option<Fetch>,
    vectors: usize,
    /// Coefficients whose maps stay in registers, and the first of these registers.
    kept: Vec<u8>,
    first_kept: usize,
    /// Bytes emitted so far.
    ip: u64,
    /// Targets of the jumps forward.
    rest: u64,
    end: u64,
    encoder: Encoder,
    next_base: usize,
    next_product: usize,
}

/// A term of a row's sum: a source as it is, or its product in a register of its own.
type Term = Option<Register>;

impl<'a> Assembler<'a> {
    fn new(shape: &'a Shape<'a>, stream: Option<Fetch>) -> Assembler<'a> {
        let vectors = vectors(shape.rows);
        let used = shape.rows * vectors + 2 * vectors + PRODUCTS;
        let mut assembler = Assembler {
            shape,
            stream,
            vectors,
            kept: Vec::new(),
            first_kept: used,
            ip: 0,
            rest: 0,
            end: 0,
            encoder: Encoder::new(64),
            next_base: 0,
            next_product: 0,
        };
        assembler.kept = assembler.often_used(REGISTERS - used);
        assembler
    }

    /// The coefficients whose maps stay in registers, of which `room` are free.
    fn often_used(&self, room: usize) -> Vec<u8> {
        let mut uses = [0_usize; 256];
        for &coefficient in self.shape.coefficients {
            uses[usize::from(coefficient)] += 1;
        }
        let mut all: Vec<u8> = (2..=255).filter(|&c| uses[usize::from(c)] > 0).collect();
        all.sort_by_key(|&c| std::cmp::Reverse(uses[usize::from(c)]));
        if all.len() > room {
            all.truncate(room.saturating_sub(LOADED_MAPS));
        }
        all
    }

    fn all(&mut self) -> Result<(), IcedError> {
        for index in 0..self.kept.len() {
            let coefficient = self.kept[index];
            let all = self.shape.coefficients;
            let place = all.iter().position(|&c| c == coefficient).unwrap_or(0);
            self.load_map(zmm(self.first_kept + index), place)?;
        }
        self.emit(Instruction::with2(Code::Xor_r32_rm32, Register::EAX, Register::EAX)?)?;
        self.emit(Instruction::with2(Code::Test_rm64_r64, TURN, TURN)?)?;
        self.emit(Instruction::with_branch(Code::Je_rel32_64, self.rest)?)?;
        self.turns(self.vectors, TURN)?;
        self.rest = self.ip;
        self.emit(Instruction::with2(Code::Cmp_r64_rm64, AT, END)?)?;
        self.emit(Instruction::with_branch(Code::Jae_rel32_64, self.end)?)?;
        self.turns(1, END)?;
        self.end = self.ip;
        self.emit(Instruction::with(Code::VEX_Vzeroupper))?;
        self.emit(Instruction::with(Code::Retnq))
    }

    /// A loop until `end`, by some vectors a turn.
    fn turns(&mut self, vectors: usize, end: Register) -> Result<(), IcedError> {
        let (top, all) = (self.ip, self.vectors);
        self.vectors = vectors;
        self.turn()?;
        self.vectors = all;
        self.emit(Instruction::with2(Code::Add_rm64_imm32, AT, (vectors * WIDTH) as i32)?)?;
        self.emit(Instruction::with2(Code::Cmp_r64_rm64, AT, end)?)?;
        self.emit(Instruction::with_branch(Code::Jb_rel32_64, top)?)
    }

    /// One turn of a loop.
    fn turn(&mut self) -> Result<(), IcedError> {
        let (rows, cols) = (self.shape.rows, self.shape.cols);
        let mut begun = vec![false; rows];
        for first in (0..cols).step_by(2) {
            let pair = first..(first + 2).min(cols);
            for column in pair.clone() {
                self.load(column, column - first)?;
            }
            for (row, begun) in begun.iter_mut().enumerate() {
                let maps = self.maps(row, pair.clone())?;
                for n in 0..self.vectors {
                    let a = self.term(row, first, 0, n, maps[0])?;
                    let b = match pair.len() {
                        1 => None,
                        _ => self.term(row, first + 1, 1, n, maps[1])?,
                    };
                    self.add(self.sum(row, n), *begun, a, b)?;
                }
                *begun |= pair.clone().any(|column| self.coefficient(row, column) != 0);
            }
        }
        for (row, begun) in begun.into_iter().enumerate() {
            self.store(row, begun)?;
        }
        Ok(())
    }

    fn coefficient(&self, row: usize, column: usize) -> u8 {
        self.shape.coefficients[column * self.shape.rows + row]
    }

    fn sum(&self, row: usize, n: usize) -> Register {
        zmm(row * self.vectors + n)
    }

    fn source(&self, half: usize, n: usize) -> Register {
        zmm((self.shape.rows + half) * self.vectors + n)
    }

    /// The register with the address of operand `index` of a list.
    fn base(&mut self, list: Register, index: usize) -> Result<Register, IcedError> {
        let base = BASES[self.next_base % BASES.len()];
        self.next_base += 1;
        let place = MemoryOperand::with_base_displ(list, 8 * index as i64);
        self.emit(Instruction::with2(Code::Mov_r64_rm64, base, place)?)?;
        Ok(base)
    }

    /// Loads the vectors of a source; a column of zeros is not read.
    fn load(&mut self, column: usize, half: usize) -> Result<(), IcedError> {
        if (0..self.shape.rows).all(|row| self.coefficient(row, column) == 0) {
            return Ok(());
        }
        let base = self.base(SRCS, column)?;
        for n in 0..self.vectors {
            let (to, from) = (self.source(half, n), operand(base, n * WIDTH));
            if let Some(Fetch { level, lines }) = self.stream {
                self.emit(fetch::one(level, operand(base, (n + lines) * WIDTH))?)?;
            }
            self.emit(Instruction::with2(Code::EVEX_Vmovdqu64_zmm_k1z_zmmm512, to, from)?)?;
        }
        Ok(())
    }

    /// Registers with the maps of a row's coefficients of two columns, where those need any.
    fn maps(
        &mut self,
        row: usize,
        pair: std::ops::Range<usize>,
    ) -> Result<[Register; 2], IcedError> {
        let mut maps = [Register::None; 2];
        for (half, column) in pair.enumerate() {
            let coefficient = self.coefficient(row, column);
            if coefficient < 2 {
                continue;
            }
            maps[half] = match self.kept.iter().position(|&kept| kept == coefficient) {
                Some(index) => zmm(self.first_kept + index),
                None => {
                    let map = zmm(REGISTERS - LOADED_MAPS + half);
                    self.load_map(map, column * self.shape.rows + row)?;
                    map
                }
            };
        }
        Ok(maps)
    }

    /// Loads the map of the coefficient at a place in the list of all.
    fn load_map(&mut self, to: Register, place: usize) -> Result<(), IcedError> {
        let from = MemoryOperand::with_base_displ(MAPS, 8 * place as i64);
        self.emit(Instruction::with2(Code::EVEX_Vpbroadcastq_zmm_k1z_xmmm64, to, from)?)
    }

    /// A vector of a source times the coefficient of a row.
    fn term(
        &mut self,
        row: usize,
        column: usize,
        half: usize,
        n: usize,
        map: Register,
    ) -> Result<Term, IcedError> {
        let source = self.source(half, n);
        match self.coefficient(row, column) {
            0 => return Ok(None),
            1 => return Ok(Some(source)),
            _ => {}
        }
        let sums = (self.shape.rows + 2) * self.vectors;
        let to = zmm(sums + self.next_product % PRODUCTS);
        self.next_product += 1;
        let code = Code::EVEX_Vgf2p8affineqb_zmm_k1z_zmm_zmmm512b64_imm8;
        self.emit(Instruction::with4(code, to, source, map, 0)?)?;
        Ok(Some(to))
    }

    /// Adds up to two terms to a sum that may not have begun.
    fn add(&mut self, sum: Register, begun: bool, a: Term, b: Term) -> Result<(), IcedError> {
        let xor = Code::EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64;
        let xor3 = Code::EVEX_Vpternlogq_zmm_k1z_zmm_zmmm512b64_imm8;
        let copy = Code::EVEX_Vmovdqa64_zmm_k1z_zmmm512;
        let instruction = match (begun, a, b) {
            (_, None, None) => return Ok(()),
            (true, Some(a), Some(b)) => Instruction::with4(xor3, sum, a, b, XOR3)?,
            (false, Some(a), Some(b)) => Instruction::with3(xor, sum, a, b)?,
            (true, Some(a), None) | (true, None, Some(a)) => Instruction::with3(xor, sum, sum, a)?,
            (false, Some(a), None) | (false, None, Some(a)) => Instruction::with2(copy, sum, a)?,
        };
        self.emit(instruction)
    }

    /// Stores the sums of a row; those of a row without terms are zeros.
    fn store(&mut self, row: usize, begun: bool) -> Result<(), IcedError> {
        let base = self.base(DSTS, row)?;
        for n in 0..self.vectors {
            let (to, sum) = (operand(base, n * WIDTH), self.sum(row, n));
            if !begun {
                let xor = Code::EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64;
                self.emit(Instruction::with3(xor, sum, sum, sum)?)?;
            }
            let code = match self.stream.is_some() {
                true => Code::EVEX_Vmovntdq_m512_zmm,
                false => Code::EVEX_Vmovdqu64_zmmm512_k1z_zmm,
            };
            self.emit(Instruction::with2(code, to, sum)?)?;
        }
        Ok(())
    }

    fn emit(&mut self, instruction: Instruction) -> Result<(), IcedError> {
        self.ip += self.encoder.encode(&instruction, self.ip)? as u64;
        Ok(())
    }
}

/// The vector `offset` bytes after the current place in an operand.
fn operand(base: Register, offset: usize) -> MemoryOperand {
    MemoryOperand::with_base_index_scale_displ_size(base, AT, 1, offset as i64, 1)
}

fn zmm(index: usize) -> Register {
    debug_assert!(index < REGISTERS);
    Register::ZMM0 + index as u32
}
