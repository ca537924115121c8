//! What the code for one kind of CPU is made with: its vectors, and how it multiplies.
//!
//! The allocator and the loops around a block are the same for all; a [`Target`] says how many
//! registers there are and writes the instructions.

use iced_x86::{IcedError, Instruction, MemoryOperand};

/// Instructions in the making.
pub(in super::super) type Listing = Vec<Instruction>;

/// What writes instructions: it fails where they do not exist, which is a mistake of the target.
pub(in super::super) type Written = Result<(), IcedError>;

/// A term in a form that an instruction takes: a register, or memory as the last operand.
pub(in super::super) enum Term {
    Register(usize),
    Memory(MemoryOperand),
}

/// How a value is stored.
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
pub(in super::super) trait Target: Sync {
    /// Bytes of a value: 64, or a part of that which divides it.
    fn width(&self) -> usize;

    /// How many values fit into registers, together with maps that are kept there.
    fn registers(&self) -> usize;

    /// How constants are multiplied with.
    fn products(&self) -> Products<'_>;

    /// What is done once, before the loops, with the arguments at [`super::places::ARGUMENTS`].
    fn enter(&self, whole: bool, code: &mut Listing) -> Written;

    /// Places on the stack that operands less than whole pass through; they are the first ones.
    fn rest_slots(&self) -> usize;

    /// What [`super::places::Arguments::rest_bytes`] is for so many bytes, at most `width`.
    fn rest_bytes(&self, bytes: usize) -> u64;

    /// Loads a value; of one that is less than whole only its own bytes are read.
    fn load(&self, to: usize, from: MemoryOperand, whole: bool, code: &mut Listing) -> Written;

    /// Stores a value.
    fn store(&self, to: MemoryOperand, from: usize, how: Store, code: &mut Listing) -> Written;

    /// Copies a value.
    fn copy(&self, to: usize, from: usize, code: &mut Listing) -> Written;

    /// The sum of two values.
    fn xor(&self, to: usize, a: usize, b: &Term, code: &mut Listing) -> Written;
}

/// How products are computed.
pub(in super::super) enum Products<'a> {
    /// By an instruction that takes a map of the factor.
    Maps(&'a dyn Maps),
    /// By tables of the products with each half of a byte.
    Halves(&'a dyn Halves),
}

/// Products by one instruction, and sums of three values by another.
pub(in super::super) trait Maps {
    /// Loads the map of a factor for all parts of a vector.
    fn broadcast(&self, to: usize, from: MemoryOperand, code: &mut Listing) -> Written;

    /// A product; the map lies in a register, or in memory for all parts of a vector.
    fn multiply(&self, to: usize, from: usize, map: &Term, code: &mut Listing) -> Written;

    /// Adds two values to a sum.
    fn three(&self, sum: usize, a: usize, b: &Term, code: &mut Listing) -> Written;
}

/// Products as sums of two values that tables give for the halves of a byte.
pub(in super::super) trait Halves {
    /// Cuts a value into its lower and its upper half; either may take the value's place.
    fn split(&self, from: usize, halves: [usize; 2], code: &mut Listing) -> Written;

    /// `to` = `add` + a product, given its tables.
    fn product(
        &self,
        to: usize,
        add: Option<usize>,
        tables: [MemoryOperand; 2],
        halves: [usize; 2],
        code: &mut Listing,
    ) -> Written;

    /// `to` = `add` + twice a value, which takes no halves.
    fn twice(&self, to: usize, add: Option<usize>, from: usize, code: &mut Listing) -> Written;
}
