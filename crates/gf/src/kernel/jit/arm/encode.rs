//! The instructions that the code is made of, as the words that they are.
//!
//! These are the twenty or so forms that are used here, by the architecture's manual (Arm DDI 0487,
//! C6 and C7). A test compares each with what an assembler makes of its text.

use super::super::call::Arguments;
use std::mem::offset_of;

/// A general register; 31 is the stack pointer or zero, as the instruction has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct X(pub u32);

/// A vector register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct V(pub u32);

impl V {
    /// The one that is so many further on.
    pub fn plus(self, further: usize) -> V {
        V(self.0 + further as u32)
    }
}

/// Register of the arguments.
pub const ARGUMENTS: X = X(0);
/// Bytes that are left of the operands; number of bytes where they are copied.
pub const LEFT: X = X(6);
/// Holds a byte that is copied.
const BYTE: X = X(12);
/// Hold addresses within one instruction of a listing.
const SCRATCH: [X; 2] = [X(16), X(17)];
/// The stack pointer.
pub const STACK: X = X(31);

/// Bytes of a vector register.
pub const WIDTH: usize = 16;

/// An operand in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Holds an address.
    pub base: X,
    /// Holds what is added to it.
    pub index: Option<X>,
    /// Added to both, in bytes; less than nothing where vectors are loaded two by two only.
    pub offset: isize,
    /// True if it is the place of an operand, which moves on from vector to vector.
    pub moves: bool,
}

/// An instruction of a block's straight line, or some that belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instruction {
    /// Loads so many neighbouring vectors into neighbouring registers.
    Load { to: V, parts: usize, from: Place },
    /// Stores them; past the caches, perhaps.
    Store { to: Place, from: V, parts: usize, past: bool },
    /// Copies the bytes of an operand less than whole.
    CopyBytes { to: Place, from: Place },
    /// Asks for a line.
    Prefetch { at: Place },
    /// An address, or another word of eight bytes.
    LoadWord { to: X, from: Place },
    /// A byte.
    LoadByte { to: X, from: Place },
    /// `to` = `a` + `b` shifted left.
    Add { to: X, a: X, b: X, left: u32 },
    /// A sum in the field.
    Eor { to: V, a: V, b: V },
    /// A sum of three.
    Eor3 { to: V, a: V, b: V, c: V },
    /// Bits that both have.
    And { to: V, a: V, b: V },
    /// Bytes added, without carries from one to the next.
    AddBytes { to: V, a: V, b: V },
    /// Looks up 16 bytes at once.
    Table { to: V, table: V, index: V },
    /// The upper halves of all bytes.
    Upper { to: V, from: V },
    /// All bits of a byte as its first one.
    Signs { to: V, from: V },
    /// A copy.
    Copy { to: V, from: V },
    /// One byte everywhere.
    Fill { to: V, byte: u8 },
}

impl Instruction {
    /// Writes it, on operands that are so many bytes further on than those of the listing.
    pub fn encode(self, further: usize, code: &mut Vec<u32>) {
        use Instruction::*;
        let moved = |place: Place| match place.moves {
            true => Place { offset: place.offset + further as isize, ..place },
            false => place,
        };
        match self {
            Load { to, parts, from } => vectors(to, parts, moved(from), Kind::Load, code),
            Store { to, from, parts, past } => {
                let kind = if past { Kind::StorePast } else { Kind::Store };
                vectors(from, parts, moved(to), kind, code);
            }
            CopyBytes { to, from } => copy_bytes(moved(to), moved(from), code),
            Prefetch { at } => {
                let (base, offset) = base(moved(at), code);
                code.push(0xf980_0000 | scaled(offset, 8) << 10 | base.0 << 5);
            }
            LoadWord { to, from } => {
                let (base, offset) = base(moved(from), code);
                code.push(load_word(to, base, offset as usize));
            }
            LoadByte { to, from } => {
                let (base, offset) = base(moved(from), code);
                code.push(0x3940_0000 | scaled(offset, 1) << 10 | base.0 << 5 | to.0);
            }
            Add { to, a, b, left } => code.push(add(to, a, b, left)),
            Eor { to, a, b } => code.push(three(0x6e20_1c00, to, a, b)),
            Eor3 { to, a, b, c } => code.push(three(0xce00_0000, to, a, b) | c.0 << 10),
            And { to, a, b } => code.push(three(0x4e20_1c00, to, a, b)),
            AddBytes { to, a, b } => code.push(three(0x4e20_8400, to, a, b)),
            Table { to, table, index } => code.push(three(0x4e00_0000, to, table, index)),
            Upper { to, from } => code.push(0x6f0c_0400 | from.0 << 5 | to.0),
            Signs { to, from } => code.push(0x4f09_0400 | from.0 << 5 | to.0),
            Copy { to, from } => code.push(three(0x4ea0_1c00, to, from, from)),
            Fill { to, byte } => {
                let byte = u32::from(byte);
                code.push(0x4f00_e400 | (byte >> 5) << 16 | (byte & 31) << 5 | to.0);
            }
        }
    }

    /// Returns whether it changes a vector register.
    pub fn writes(&self, register: V) -> bool {
        use Instruction::*;
        match *self {
            Load { to, parts, .. } => (0..parts).any(|part| to.plus(part) == register),
            Eor { to, .. } | Eor3 { to, .. } | And { to, .. } | AddBytes { to, .. } => {
                to == register
            }
            Table { to, .. } | Upper { to, .. } | Signs { to, .. } => to == register,
            Copy { to, .. } | Fill { to, .. } => to == register,
            Store { .. } | CopyBytes { .. } | Prefetch { .. } => false,
            LoadWord { .. } | LoadByte { .. } | Add { .. } => false,
        }
    }

    /// Returns whether it takes a vector register.
    pub fn reads(&self, register: V) -> bool {
        use Instruction::*;
        match *self {
            Store { from, parts, .. } => (0..parts).any(|part| from.plus(part) == register),
            Eor { a, b, .. } | And { a, b, .. } | AddBytes { a, b, .. } => {
                [a, b].contains(&register)
            }
            Eor3 { a, b, c, .. } => [a, b, c].contains(&register),
            Table { table, index, .. } => [table, index].contains(&register),
            Upper { from, .. } | Signs { from, .. } | Copy { from, .. } => from == register,
            Load { .. } | CopyBytes { .. } | Prefetch { .. } | Fill { .. } => false,
            LoadWord { .. } | LoadByte { .. } | Add { .. } => false,
        }
    }
}

fn three(code: u32, to: V, a: V, b: V) -> u32 {
    code | b.0 << 16 | a.0 << 5 | to.0
}

/// A displacement in units of what is accessed: it is a multiple, and fits.
fn scaled(offset: isize, unit: isize) -> u32 {
    debug_assert!(offset % unit == 0 && (0..1 << 12).contains(&(offset / unit)));
    (offset / unit) as u32
}

/// One of two neighbours, which may lie before the register: seven bits.
fn scaled_pair(offset: isize, unit: isize) -> u32 {
    debug_assert!(offset % unit == 0 && (-64..64).contains(&(offset / unit)));
    (offset / unit) as u32 & 0x7f
}

/// A register and a displacement for a place, after the instruction that it takes.
fn base(place: Place, code: &mut Vec<u32>) -> (X, isize) {
    let Some(index) = place.index else { return (place.base, place.offset) };
    let [to, _] = SCRATCH;
    code.push(add(to, place.base, index, 0));
    (to, place.offset)
}

#[derive(Clone, Copy)]
enum Kind {
    Load,
    Store,
    StorePast,
}

/// Loads or stores neighbouring vectors, two by two where the displacement allows it.
fn vectors(first: V, parts: usize, place: Place, kind: Kind, code: &mut Vec<u32>) {
    let (base, offset) = base(place, code);
    let [pair, one] = match kind {
        Kind::Load => [0xad40_0000, 0x3dc0_0000],
        Kind::Store => [0xad00_0000, 0x3d80_0000],
        Kind::StorePast => [0xac00_0000, 0x3d80_0000],
    };
    let mut part = 0;
    while part < parts {
        let unit = WIDTH as isize;
        let (at, register) = (offset + part as isize * unit, first.0 + part as u32);
        if part + 1 < parts && at <= 63 * unit {
            let at = scaled_pair(at, unit) << 15;
            code.push(pair | at | (register + 1) << 10 | base.0 << 5 | register);
            part += 2;
        } else {
            code.push(one | scaled(at, unit) << 10 | base.0 << 5 | register);
            part += 1;
        }
    }
}

/// A loop over the bytes of an operand that is less than whole: at least one.
fn copy_bytes(to: Place, from: Place, code: &mut Vec<u32>) {
    for (address, place) in SCRATCH.into_iter().zip([from, to]) {
        let first = match place.index {
            None => place.base,
            Some(index) => {
                code.push(add(address, place.base, index, 0));
                address
            }
        };
        code.push(add_bytes(address, first, place.offset as usize));
    }
    code.push(load_word(LEFT, ARGUMENTS, offset_of!(Arguments, rest_bytes)));
    let [from, to] = SCRATCH;
    let one = 1 << 12;
    code.push(0x3840_0400 | one | from.0 << 5 | BYTE.0); // a byte, and on to the next
    code.push(0x3800_0400 | one | to.0 << 5 | BYTE.0);
    code.push(subtract_and_compare(LEFT, LEFT, 1));
    code.push(branch(Condition::NotEqual, -3).unwrap_or(TRAP));
}

/// An instruction that is never executed.
const TRAP: u32 = 0xd420_0000;

// The instructions of the loops around a straight line.

/// A word of eight bytes.
pub fn load_word(to: X, base: X, offset: usize) -> u32 {
    0xf940_0000 | scaled(offset as isize, 8) << 10 | base.0 << 5 | to.0
}

/// A word of four bytes.
pub fn load_half(to: X, base: X, offset: usize) -> u32 {
    0xb940_0000 | scaled(offset as isize, 4) << 10 | base.0 << 5 | to.0
}

/// The word of eight bytes at the sum of a register and another one, which may count words.
pub fn load_indexed(to: X, base: X, index: X, counts_words: bool) -> u32 {
    0xf860_6800 | u32::from(counts_words) << 12 | index.0 << 16 | base.0 << 5 | to.0
}

/// Stores a word of eight bytes.
pub fn store_word(from: X, base: X, offset: usize) -> u32 {
    0xf900_0000 | scaled(offset as isize, 8) << 10 | base.0 << 5 | from.0
}

/// `to` = `a` + `b` shifted left; none is the stack pointer.
pub fn add(to: X, a: X, b: X, left: u32) -> u32 {
    0x8b00_0000 | b.0 << 16 | left << 10 | a.0 << 5 | to.0
}

/// Adds less than 4096.
pub fn add_bytes(to: X, a: X, bytes: usize) -> u32 {
    0x9100_0000 | scaled(bytes as isize, 1) << 10 | a.0 << 5 | to.0
}

/// Subtracts less than 4096.
pub fn subtract(to: X, a: X, bytes: usize) -> u32 {
    0xd100_0000 | scaled(bytes as isize, 1) << 10 | a.0 << 5 | to.0
}

/// Subtracts, and notes how the two compare.
pub fn subtract_and_compare(to: X, a: X, bytes: usize) -> u32 {
    0xf100_0000 | scaled(bytes as isize, 1) << 10 | a.0 << 5 | to.0
}

/// Notes how a register and a number compare.
pub fn compare_bytes(a: X, bytes: usize) -> u32 {
    subtract_and_compare(X(31), a, bytes)
}

/// Notes how two registers compare.
pub fn compare(a: X, b: X) -> u32 {
    0xeb00_001f | b.0 << 16 | a.0 << 5
}

/// A product.
pub fn multiply(to: X, a: X, b: X) -> u32 {
    0x9b00_7c00 | b.0 << 16 | a.0 << 5 | to.0
}

/// A copy; none is the stack pointer.
pub fn copy(to: X, from: X) -> u32 {
    0xaa00_03e0 | from.0 << 16 | to.0
}

/// Zero.
pub fn zero(to: X) -> u32 {
    0xd280_0000 | to.0
}

/// Stores two general registers, or loads them again.
pub fn pair(load: bool, first: X, second: X, base: X, offset: usize) -> u32 {
    let code = if load { 0xa940_0000 } else { 0xa900_0000 };
    code | scaled_pair(offset as isize, 8) << 15 | second.0 << 10 | base.0 << 5 | first.0
}

/// The same with the lower halves of vectors.
pub fn pair_of_halves(load: bool, first: V, base: X, offset: usize) -> u32 {
    let code = if load { 0x6d40_0000 } else { 0x6d00_0000 };
    code | scaled_pair(offset as isize, 8) << 15 | (first.0 + 1) << 10 | base.0 << 5 | first.0
}

/// When a branch is taken, by what was compared last.
#[derive(Debug, Clone, Copy)]
pub enum Condition {
    Equal = 0,
    NotEqual = 1,
    NotLess = 2,
    Less = 3,
}

/// A branch by so many instructions; `None` where that is too far.
pub fn branch(condition: Condition, by: isize) -> Option<u32> {
    let fits = (-(1 << 18)..1 << 18).contains(&by);
    fits.then_some(0x5400_0000 | (by as u32 & 0x7_ffff) << 5 | condition as u32)
}

/// The way back.
pub const RETURN: u32 = 0xd65f_03c0;
