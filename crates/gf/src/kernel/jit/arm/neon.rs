//! Vectors of NEON: 32 registers of 16 bytes, a product by two look-ups.
//!
//! Values are of several neighbouring registers: a pair of tables is loaded once for all of them,
//! and two are loaded or stored by one instruction.

use std::sync::OnceLock;

use super::super::super::nibbles;
use super::super::target::{self, Halves, NoCode, Places as _, Products, Store, Target, Written};
use super::Arm;
use super::encode::{Instruction, Place, V, WIDTH};
use super::operand_addressing::{self, Places};
use crate::{AlignedBuf, block::Block, tuning::Level};

type Listing = target::Listing<Arm>;
type Term = target::Term<Arm>;

/// Hold the tables of a factor.
const TABLES: [V; 2] = [V(26), V(27)];
/// Hold what they give.
const FOUND: [V; 2] = [V(28), V(29)];
/// Holds what is left of the polynomial where a byte is doubled.
const REDUCTION: V = V(30);
/// Holds lower halves.
const LOWER: V = V(31);
/// The field's polynomial without its first term.
const POLYNOMIAL: u8 = crate::field::mul(2, 0x80);

// Each without, and with the instruction that adds three (FEAT_SHA3).

/// Blocks with products.
pub(in super::super::super) static PRODUCTS: [Neon; 2] = Neon::both(2, 13);
/// Matrices of few rows: tables serve four vectors.
pub(in super::super::super) static MATRIX: [Neon; 2] = Neon::both(4, 6);
/// Blocks that only add.
pub(in super::super::super) static SUMS: [Neon; 2] = Neon::both(2, 16);

/// A way to use the registers.
#[derive(Debug)]
pub(in super::super::super) struct Neon {
    /// Registers of a value.
    parts: usize,
    /// Number of values that registers hold.
    registers: usize,
    /// True if one instruction adds three.
    three: bool,
}

/// The tables of all factors.
pub(in super::super::super) fn tables() -> &'static [u8] {
    static ALL: OnceLock<AlignedBuf> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut tables = AlignedBuf::zeroed(nibbles::ALL_LEN);
        nibbles::tabulate_all(&mut tables);
        tables
    })
}

impl Neon {
    const fn both(parts: usize, registers: usize) -> [Neon; 2] {
        [Neon { parts, registers, three: false }, Neon { parts, registers, three: true }]
    }

    /// The first register of a value.
    fn first(&self, value: usize) -> V {
        debug_assert!(value < self.registers);
        V((value * self.parts) as u32)
    }

    /// The registers of some values, part by part.
    fn each<const N: usize>(&self, values: [usize; N]) -> impl Iterator<Item = [V; N]> + use<N> {
        let firsts = values.map(|value| self.first(value));
        (0..self.parts).map(move |part| firsts.map(|first| first.plus(part)))
    }

    /// `to` = `add` + both of `FOUND`.
    fn add_found(&self, to: V, add: Option<V>, code: &mut Listing) {
        let [a, b] = FOUND;
        match add {
            None => code.push(Instruction::Eor { to, a, b }),
            Some(c) if self.three => code.push(Instruction::Eor3 { to, a, b, c }),
            Some(add) => {
                code.push(Instruction::Eor { to: a, a, b });
                code.push(Instruction::Eor { to, a: add, b: a });
            }
        }
    }

    /// Returns where the parts of `add` are, if there is one.
    fn part(&self, add: Option<usize>, part: usize) -> Option<V> {
        add.map(|add| self.first(add).plus(part))
    }
}

/// So many instructions back a sum is looked for that another one is added to.
const NEAR: usize = 24;

/// The sum of two that a register got last, if it can as well be made now.
fn sum_before(to: V, code: &Listing) -> Option<(usize, [V; 2])> {
    for at in (code.len().saturating_sub(NEAR)..code.len()).rev() {
        match code[at] {
            Instruction::Eor { to: sum, a, b } if sum == to => {
                let changes = |later: &Instruction| later.writes(a) || later.writes(b);
                return (!code[at + 1..].iter().any(changes)).then_some((at, [a, b]));
            }
            other if other.writes(to) || other.reads(to) => return None,
            _ => {}
        }
    }
    None
}

impl Target<Arm> for Neon {
    fn width(&self) -> usize {
        self.parts * WIDTH
    }

    fn registers(&self) -> usize {
        self.registers
    }

    fn products(&self) -> Products<'_, Arm> {
        Products::Halves(self)
    }

    fn takes_memory(&self) -> bool {
        false
    }

    fn takes_turns(&self) -> bool {
        self.three
    }

    fn enter(&self, _whole: bool, code: &mut Listing) -> Written {
        // Blocks that only add have these for values.
        if self.parts * self.registers <= TABLES[0].0 as usize {
            code.push(Instruction::Fill { to: LOWER, byte: 0x0f });
            code.push(Instruction::Fill { to: REDUCTION, byte: POLYNOMIAL });
        }
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

    fn fetch(&self, _level: Level, at: Place, code: &mut Listing) -> Written {
        code.push(Instruction::Prefetch { at });
        Ok(())
    }

    fn load(&self, to: usize, from: Place, whole: bool, code: &mut Listing) -> Written {
        let mut from = from;
        if !whole {
            let rest = Places::spilled(0);
            code.push(Instruction::CopyBytes { to: rest, from });
            from = rest;
        }
        code.push(Instruction::Load { to: self.first(to), parts: self.parts, from });
        Ok(())
    }

    fn store(&self, to: Place, from: usize, how: Store, code: &mut Listing) -> Written {
        let (rest, parts, first) = (Places::spilled(0), self.parts, self.first(from));
        let past = how == Store::Streamed;
        let place = if how == Store::Rest { rest } else { to };
        code.push(Instruction::Store { to: place, from: first, parts, past });
        if how == Store::Rest {
            code.push(Instruction::CopyBytes { to, from: rest });
        }
        Ok(())
    }

    fn copy(&self, to: usize, from: usize, code: &mut Listing) -> Written {
        code.extend(self.each([to, from]).map(|[to, from]| Instruction::Copy { to, from }));
        Ok(())
    }

    fn xor(&self, to: usize, a: usize, b: &Term, code: &mut Listing) -> Written {
        let Term::Register(b) = b else { return Err(NoCode) };
        for [to, a, b] in self.each([to, a, *b]) {
            let before = if self.three && a == to && b != to { sum_before(to, code) } else { None };
            let sum = match before {
                None => Instruction::Eor { to, a, b },
                Some((at, [a, other])) => {
                    code.remove(at);
                    Instruction::Eor3 { to, a, b: other, c: b }
                }
            };
            code.push(sum);
        }
        Ok(())
    }
}

impl Halves<Arm> for Neon {
    fn tables(&self, factor: u8) -> [Place; 2] {
        operand_addressing::tables(factor)
    }

    fn given_tables(
        &self,
        block: &Block,
        index: u32,
        code: &mut Listing,
    ) -> Result<[Place; 2], NoCode> {
        Ok(operand_addressing::given_tables(block, index, code))
    }

    fn split(&self, from: usize, [low, high]: [usize; 2], code: &mut Listing) -> Written {
        let lower = self.each([low, from]);
        let lower = lower.map(|[to, from]| Instruction::And { to, a: from, b: LOWER });
        let upper = self.each([high, from]).map(|[to, from]| Instruction::Upper { to, from });
        // The one that takes the value's place comes last.
        match low == from {
            true => code.extend(upper.chain(lower)),
            false => code.extend(lower.chain(upper)),
        }
        Ok(())
    }

    fn product(
        &self,
        to: usize,
        add: Option<usize>,
        [from, _]: [Place; 2],
        [low, high]: [usize; 2],
        code: &mut Listing,
    ) -> Written {
        // The one of upper halves lies behind the other.
        code.push(Instruction::Load { to: TABLES[0], parts: TABLES.len(), from });
        for (part, [to, low, high]) in self.each([to, low, high]).enumerate() {
            for ((to, table), index) in FOUND.into_iter().zip(TABLES).zip([low, high]) {
                code.push(Instruction::Table { to, table, index });
            }
            self.add_found(to, self.part(add, part), code);
        }
        Ok(())
    }

    fn twice(&self, to: usize, add: Option<usize>, from: usize, code: &mut Listing) -> Written {
        let [over, double] = FOUND;
        for (part, [to, from]) in self.each([to, from]).enumerate() {
            // What is negative has the bit that goes over.
            code.push(Instruction::Signs { to: over, from });
            code.push(Instruction::And { to: over, a: over, b: REDUCTION });
            code.push(Instruction::AddBytes { to: double, a: from, b: from });
            self.add_found(to, self.part(add, part), code);
        }
        Ok(())
    }
}
