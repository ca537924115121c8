//! Parts of code: the instructions of an architecture, and the vectors of a kind of CPU.
//!
//! The allocator is the same for all. A [`Machine`] says what its instructions and memory operands
//! are, finds the operands of a block, and puts loops around its straight line; a [`Target`] says
//! how many registers there are and writes the instructions that compute.

use super::super::engine::{Addressing, CodeVariant};
use crate::{block::Block, tuning::Level};
use std::fmt::Debug;

/// An architecture.
pub(in super::super) trait Machine: Sized + Debug + 'static {
    /// One instruction, or what becomes a few.
    type Instruction: Clone;
    /// An operand in memory.
    type Place: Copy;
    /// Finds those of a block.
    type Places: Places<Self>;

    /// The code of a block: its straight line with loops around it, of which an unrolled one takes
    /// `turns` times 64 bytes at once. `None` where it is too long.
    fn link(
        block: &Block,
        variant: CodeVariant,
        addressing: Addressing,
        straight: &StraightLine<Self>,
        turns: usize,
    ) -> Option<Vec<u8>>;
}

/// Instructions in the making.
pub(in super::super) type Listing<M> = Vec<<M as Machine>::Instruction>;

/// A block for which no code can be made.
#[derive(Debug)]
pub(in super::super) struct NoCode;

/// Result of writing instructions: it fails where they do not exist, which is a mistake of the
/// target.
pub(in super::super) type Written = Result<(), NoCode>;

/// A block's instructions.
pub(in super::super) struct StraightLine<M: Machine> {
    /// Once, before the loops.
    pub before: Listing<M>,
    /// Before each repetition.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // nothing, elsewhere
    pub repetition: Listing<M>,
    /// For each vector of the operands.
    pub body: Listing<M>,
    /// Values that need room on the stack.
    pub spilled: usize,
    /// Bytes of each operand that it takes.
    pub width: usize,
    /// True if it takes two repetitions at once.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub pairs: bool,
}

impl<M: Machine> StraightLine<M> {
    /// Returns how many times it takes to do 64 bytes.
    pub fn parts(&self) -> usize {
        64 / self.width
    }

    /// Returns how many times 64 bytes of every operand an unrolled loop takes in one turn.
    pub fn turns(&self) -> usize {
        (UNROLLED / (self.body.len() * self.parts()).max(1)).clamp(1, TURNS)
    }
}

/// An unrolled loop has no more instructions than this: they should stay in the cache of decoded
/// ones. Unrolled, the loads of one stream are different instructions, which prefetchers that go by
/// the instruction seem to like: Liberation 5+2 codes 1.4 times as fast in the second-level cache,
/// RDP 10+2 1.2 times.
const UNROLLED: usize = 1100;
/// Times 64 bytes that one turn of a loop takes, at most: half a kilobyte of every operand.
const TURNS: usize = 8;
/// Bytes on the stack, at most: less than a page, so that no guard page can be skipped.
pub(in super::super) const MOST_STACK: usize = 3840;

/// Makes the addresses that instructions of a block's body use.
pub(in super::super) trait Places<M: Machine> {
    /// None is in use yet; of two repetitions at once if `pairs`.
    fn new(block: &Block, addressing: Addressing, pairs: bool) -> Self;

    /// The place of an operand's vector, after the instructions that it takes to know it. Two
    /// places are in use at once, at most.
    fn operand(
        &mut self,
        block: &Block,
        operand: u32,
        code: &mut Listing<M>,
    ) -> Result<M::Place, NoCode>;

    /// The place that is fetched while an operand whose place was just made is used; where code
    /// does not keep count of that by itself, it is so many `lines` ahead.
    fn ahead(
        &self,
        place: &M::Place,
        operand: u32,
        lines: usize,
        code: &mut Listing<M>,
    ) -> Result<M::Place, NoCode>;

    /// The place so many lines behind one.
    fn behind(place: &M::Place, lines: usize) -> M::Place;

    /// As [`Places::operand`], of the next repetition, where code takes two with lists at once.
    fn second(&mut self, _: &Block, _: u32, _: &mut Listing<M>) -> Result<M::Place, NoCode> {
        Err(NoCode)
    }

    /// Before a repetition, where each has a list: what its operands have in common.
    fn own_entries(&self, block: &Block) -> Result<Listing<M>, NoCode>;

    /// The place of a value that has no register.
    fn spilled(slot: usize) -> M::Place;
}

/// A term in a form that an instruction takes: a register, or memory as the last operand.
pub(in super::super) enum Term<M: Machine> {
    Register(usize),
    Memory(M::Place),
}

/// Way in which a value is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Store {
    /// Into the caches.
    Whole,
    /// Past them.
    Streamed,
    /// The bytes of a vector that is less than whole.
    Rest,
}

/// The vectors of one kind of CPU. Registers are counted by values: one holds
/// [`Target::width`] bytes, in as many registers of the CPU as that takes.
pub(in super::super) trait Target<M: Machine>: Sync {
    /// Bytes of a value: 64, or a part of that which divides it.
    fn width(&self) -> usize;

    /// Returns how many values fit into registers, together with maps that are kept there.
    fn registers(&self) -> usize;

    /// Returns how constants are multiplied with.
    fn products(&self) -> Products<'_, M>;

    /// Returns whether instructions that compute take an operand in memory.
    fn takes_memory(&self) -> bool;

    /// Returns whether registers are taken in turn: what was in one that is free then stays for a
    /// while, so that a sum can still be joined with the next one.
    fn takes_turns(&self) -> bool {
        false
    }

    /// Writes what is done once, before the loops, with the arguments where the machine has them
    /// then.
    fn enter(&self, whole: bool, code: &mut Listing<M>) -> Written;

    /// Places on the stack that operands less than whole pass through; they are the first ones.
    fn rest_slots(&self) -> usize;

    /// Returns what [`super::call::Arguments::rest_bytes`] is for so many bytes, at most `width`.
    fn rest_bytes(&self, bytes: usize) -> u64;

    /// Asks for what will be used soon.
    fn fetch(&self, level: Level, at: M::Place, code: &mut Listing<M>) -> Written;

    /// Loads a value; of one that is less than whole only its own bytes are read.
    fn load(&self, to: usize, from: M::Place, whole: bool, code: &mut Listing<M>) -> Written;

    /// Stores a value.
    fn store(&self, to: M::Place, from: usize, how: Store, code: &mut Listing<M>) -> Written;

    /// Returns whether a value is of two repetitions, half a value of each.
    fn pairs(&self) -> bool {
        false
    }

    /// Loads half a value, the second one beside the first.
    fn load_half(&self, _: usize, _: M::Place, _second: bool, _: &mut Listing<M>) -> Written {
        Err(NoCode)
    }

    /// Stores half a value.
    fn store_half(&self, _: M::Place, _: usize, _second: bool, _: &mut Listing<M>) -> Written {
        Err(NoCode)
    }

    /// Copies a value.
    fn copy(&self, to: usize, from: usize, code: &mut Listing<M>) -> Written;

    /// The sum of two values.
    fn xor(&self, to: usize, a: usize, b: &Term<M>, code: &mut Listing<M>) -> Written;
}

/// Way in which products are computed.
pub(in super::super) enum Products<'a, M: Machine> {
    /// By an instruction that takes a map of the factor.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code))] // no other CPU has one
    Maps(&'a dyn Maps<M>),
    /// By tables of the products with each half of a byte.
    Halves(&'a dyn Halves<M>),
}

/// Products by one instruction, and sums of three values by another.
pub(in super::super) trait Maps<M: Machine> {
    /// The map of a factor as an operand in memory.
    fn map(&self, factor: u8) -> M::Place;

    /// Loads the map of a factor that each repetition has in its list.
    fn given_map(&self, to: usize, block: &Block, index: u32, code: &mut Listing<M>) -> Written;

    /// Loads the map of a factor for all parts of a vector.
    fn broadcast(&self, to: usize, from: M::Place, code: &mut Listing<M>) -> Written;

    /// A product; the map lies in a register, or in memory for all parts of a vector.
    fn multiply(&self, to: usize, from: usize, map: &Term<M>, code: &mut Listing<M>) -> Written;

    /// Adds two values to a sum.
    fn three(&self, sum: usize, a: usize, b: &Term<M>, code: &mut Listing<M>) -> Written;
}

/// Products as sums of two values that tables give for the halves of a byte.
pub(in super::super) trait Halves<M: Machine> {
    /// The tables of a factor, of lower and of upper halves.
    fn tables(&self, factor: u8) -> [M::Place; 2];

    /// The tables of a factor that each repetition has in its list, after the instructions that
    /// find them.
    fn given_tables(
        &self,
        block: &Block,
        index: u32,
        code: &mut Listing<M>,
    ) -> Result<[M::Place; 2], NoCode>;

    /// Cuts a value into its lower and its upper half; either may take the value's place.
    fn split(&self, from: usize, halves: [usize; 2], code: &mut Listing<M>) -> Written;

    /// `to` = `add` + a product, given its tables.
    fn product(
        &self,
        to: usize,
        add: Option<usize>,
        tables: [M::Place; 2],
        halves: [usize; 2],
        code: &mut Listing<M>,
    ) -> Written;

    /// `to` = `add` + twice a value, which takes no halves.
    fn twice(&self, to: usize, add: Option<usize>, from: usize, code: &mut Listing<M>) -> Written;
}
