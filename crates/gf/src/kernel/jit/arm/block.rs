//! The loops around the straight line of a block.

use std::mem::offset_of;

use super::super::super::engine::{Addressing, CodeVariant, Distances, Slot};
use super::super::call::Arguments;
use super::super::target::{MOST_STACK, Machine, StraightLine};
use super::Arm;
use super::encode::{
    self, ARGUMENTS, Condition, Instruction, LEFT, Place, RETURN, STACK, V, X, add, add_bytes,
    branch, compare, load_half, load_indexed, load_word, subtract,
};
use super::operand_addressing::{
    DONE, FREE, LIST, OPERANDS, OWN, Places, QUARTER, QUARTERS, list_entry,
};
use crate::block::{Block, Side};

/// First of the repetitions; or the starts of all regions.
const SECOND: X = X(3);
const LEN: X = X(5);
/// Registers that are added to addresses, by side: distances; or what they are found by. Once they
/// are, tables are found by these, and the last one counts.
const BY_SIDE: [X; 4] = [QUARTERS[1], QUARTERS[2], QUARTERS[3], DONE];
/// Hold nothing for long.
const SCRATCH: [X; 2] = [X(16), X(17)];

/// Operands whose places are within reach of one instruction, and words of a record.
const MOST_OPERANDS: usize = 256;
const MOST_WORDS: usize = 511;
/// Bytes for the registers that belong to the caller: ten or eleven of `OWN`, four pairs of halves.
const SAVED: usize = 96 + 64;

impl Machine for Arm {
    type Instruction = Instruction;
    type Place = Place;
    type Places = Places;

    fn link(
        block: &Block,
        variant: CodeVariant,
        addressing: Addressing,
        straight: &StraightLine<Arm>,
        turns: usize,
    ) -> Option<Vec<u8>> {
        let loops = Loops { block, variant, addressing, straight, code: Vec::new() };
        let operands = block.sides().len();
        if loops.frame() > MOST_STACK || operands > MOST_OPERANDS || loops.words() > MOST_WORDS {
            return None;
        }
        loops.all(turns)
    }
}

struct Loops<'a> {
    block: &'a Block,
    variant: CodeVariant,
    addressing: Addressing,
    straight: &'a StraightLine<Arm>,
    code: Vec<u32>,
}

impl Loops<'_> {
    fn all(mut self, turns: usize) -> Option<Vec<u8>> {
        self.enter();
        let repetition = self.code.len();
        self.addresses();
        let over = match self.variant {
            CodeVariant::Unrolled => Some(self.many(turns)?),
            _ => None,
        };
        let top = self.code.len();
        self.vectors(1);
        if self.variant != CodeVariant::Rest {
            self.code.push(encode::subtract_and_compare(LEFT, LEFT, 64));
            self.branch(Condition::NotEqual, top)?;
        }
        over.map_or(Some(()), |jump| self.land(jump, Condition::Equal))?;
        self.next(repetition)?;
        self.leave();
        Some(self.code.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    /// Saves what belongs to the caller, makes room, and takes the arguments.
    fn enter(&mut self) {
        self.code.push(subtract(STACK, STACK, SAVED));
        self.saved(false);
        let frame = self.frame();
        self.code.push(subtract(STACK, STACK, frame));
        self.code.push(add_bytes(LIST, STACK, 64 * self.straight.spilled));
        let arguments = [
            (QUARTERS[0], offset_of!(Arguments, maps)),
            (OPERANDS, offset_of!(Arguments, operands)),
            (SECOND, offset_of!(Arguments, second)),
            (LEN, offset_of!(Arguments, len)),
        ];
        for (to, offset) in arguments {
            self.code.push(load_word(to, ARGUMENTS, offset));
        }
        self.code.push(add_bytes(QUARTERS[0], QUARTERS[0], QUARTER / 2));
        for instruction in &self.straight.before {
            instruction.encode(0, &mut self.code);
        }
    }

    fn leave(&mut self) {
        let frame = self.frame();
        self.code.push(add_bytes(STACK, STACK, frame));
        self.saved(true);
        self.code.push(add_bytes(STACK, STACK, SAVED));
        self.code.push(RETURN);
    }

    /// Bytes of values on the stack, and of addresses.
    fn frame(&self) -> usize {
        let listed = self.block.sides().len().saturating_sub(OWN.len());
        64 * self.straight.spilled + (8 * listed).next_multiple_of(16)
    }

    /// Words of a record.
    fn words(&self) -> usize {
        self.block.named().count() + self.block.given().div_ceil(8)
    }

    /// Saves the registers of the caller that are used, or loads them again.
    fn saved(&mut self, load: bool) {
        let used = &OWN[FREE.min(self.own().len())..self.own().len()];
        for (at, pair) in used.chunks(2).enumerate() {
            let second = pair.get(1).copied().unwrap_or(X(31)); // zero, or nowhere
            self.code.push(encode::pair(load, pair[0], second, STACK, 16 * at));
        }
        for (at, first) in (8..16).step_by(2).enumerate() {
            self.code.push(encode::pair_of_halves(load, V(first), STACK, 96 + 16 * at));
        }
    }

    /// The registers with addresses of operands that are used.
    fn own(&self) -> &'static [X] {
        &OWN[..self.block.sides().len().min(OWN.len())]
    }

    /// Before a repetition: the addresses of all its operands.
    fn addresses(&mut self) {
        self.by_side();
        for (operand, &side) in self.block.sides().iter().enumerate() {
            let [to, _] = SCRATCH;
            let to = OWN.get(operand).copied().unwrap_or(to);
            match self.addressing {
                Addressing::Moved => {
                    self.code.push(load_word(to, OPERANDS, 8 * operand));
                    self.code.push(add(to, to, BY_SIDE[side as usize], 0));
                }
                Addressing::Ordered => self.ordered(to, operand, side),
                Addressing::Listed => self.listed(to, operand as u32, side),
            }
            if operand >= OWN.len() {
                self.code.push(encode::store_word(to, LIST, list_entry(operand)));
            }
        }
        // What addresses were found by is of no more use.
        if !self.straight.before.is_empty() {
            for pair in QUARTERS.windows(2) {
                self.code.push(add_bytes(pair[1], pair[0], QUARTER));
            }
        }
        self.code.push(encode::zero(DONE));
        self.code.push(encode::copy(LEFT, LEN));
    }

    /// Returns what addresses are found by: distances of the repetition, or the tables from where
    /// its entries are on; of records the tables, and the bytes from unit to unit of scratch.
    fn by_side(&mut self) {
        let rest = offset_of!(Arguments, rest);
        for (side, to) in BY_SIDE.into_iter().enumerate() {
            let is_distance =
                self.addressing == Addressing::Moved || side >= Side::Scratch as usize;
            match self.addressing {
                // Results lie as all of scratch.
                Addressing::Listed if side == Side::Result as usize => {}
                Addressing::Listed => self.code.push(load_word(to, ARGUMENTS, rest + 8 * side)),
                _ if is_distance => self.code.push(load_word(to, SECOND, 8 * side)),
                _ => {
                    let [moved, _] = SCRATCH;
                    self.code.push(load_word(to, ARGUMENTS, rest + 8 * side));
                    self.code.push(load_word(moved, SECOND, 8 * side));
                    self.code.push(add(to, to, moved, 0));
                }
            }
        }
    }

    /// The address of an operand whose unit lies where a table says.
    fn ordered(&mut self, to: X, operand: usize, side: Side) {
        let [_, far] = SCRATCH;
        let slot = size_of::<Slot>() * operand;
        let by_side = BY_SIDE[side as usize];
        self.code.push(load_word(to, OPERANDS, slot + offset_of!(Slot, start)));
        if side.in_scratch() {
            self.code.push(add(to, to, by_side, 0));
            return;
        }
        self.code.push(load_word(far, OPERANDS, slot + offset_of!(Slot, entry)));
        self.code.push(load_indexed(far, by_side, far, false));
        self.code.push(add(to, to, far, 0));
    }

    /// The address of an operand whose region and unit are in the record.
    fn listed(&mut self, to: X, operand: u32, side: Side) {
        let [_, far] = SCRATCH;
        let by_side = BY_SIDE[(side as usize).min(Side::Scratch as usize)];
        let (anchor, behind) = self.block.anchor(operand).unwrap_or((operand, 0));
        let rank = self.block.named().position(|named| named == anchor).unwrap_or(0);
        self.code.push(load_half(far, OPERANDS, 8 * rank + 4));
        self.code.push(add_bytes(far, far, behind as usize));
        match side {
            Side::Scratch | Side::Result => self.code.push(encode::multiply(far, far, by_side)),
            _ => self.code.push(load_indexed(far, by_side, far, true)),
        }
        self.code.push(load_half(to, OPERANDS, 8 * rank));
        self.code.push(load_indexed(to, SECOND, to, true));
        self.code.push(add(to, to, far, 0));
    }

    /// The loop that takes `turns` times 64 bytes while there are so many; where to go on from if
    /// nothing is left.
    fn many(&mut self, turns: usize) -> Option<usize> {
        self.code.push(encode::compare_bytes(LEFT, 64 * turns));
        let too_few = self.code.len();
        self.code.push(0);
        let top = self.code.len();
        self.vectors(turns);
        self.code.push(subtract(LEFT, LEFT, 64 * turns));
        self.code.push(encode::compare_bytes(LEFT, 64 * turns));
        self.branch(Condition::NotLess, top)?;
        self.land(too_few, Condition::Less)?;
        self.code.push(encode::compare_bytes(LEFT, 0));
        let over = self.code.len();
        self.code.push(0);
        Some(over)
    }

    /// The straight line for so many times 64 bytes, or for less than a vector.
    fn vectors(&mut self, turns: usize) {
        let straight = self.straight;
        let parts = if self.variant == CodeVariant::Rest { 1 } else { straight.parts() };
        for part in 0..turns * parts {
            let further = part * straight.width;
            for instruction in &straight.body {
                // A line is fetched once.
                let fetches = matches!(instruction, Instruction::Prefetch { .. });
                if further.is_multiple_of(64) || !fetches {
                    instruction.encode(further, &mut self.code);
                }
            }
        }
        for &address in self.own() {
            self.code.push(add_bytes(address, address, 64 * turns));
        }
        self.code.push(add_bytes(DONE, DONE, 64 * turns));
    }

    /// On to the next repetition, if there is one.
    fn next(&mut self, repetition: usize) -> Option<()> {
        let (at, step) = match self.addressing {
            Addressing::Listed => (OPERANDS, 8 * self.words()),
            _ => (SECOND, size_of::<Distances>()),
        };
        let [end, _] = SCRATCH;
        self.code.push(add_bytes(at, at, step));
        self.code.push(load_word(end, ARGUMENTS, offset_of!(Arguments, end)));
        self.code.push(compare(at, end));
        self.branch(Condition::Less, repetition)
    }

    /// A branch back.
    fn branch(&mut self, condition: Condition, to: usize) -> Option<()> {
        let by = to as isize - self.code.len() as isize;
        self.code.push(branch(condition, by)?);
        Some(())
    }

    /// Makes the word at `jump` a branch to here.
    fn land(&mut self, jump: usize, condition: Condition) -> Option<()> {
        self.code[jump] = branch(condition, self.code.len() as isize - jump as isize)?;
        Some(())
    }
}
