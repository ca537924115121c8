//! What kernels implement: the part of [`Kernel`](super::Kernel) that nobody outside can reach.

use std::sync::Arc;

pub use super::jit::{BlockCode, Code};
use super::{Block, Side, Unit};

/// How the code of a block runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Whole vectors, ordinary loads and stores.
    Cached,
    /// The same with several vectors a turn of the loop, for blocks with much work whose operands
    /// are moved.
    Unrolled,
    /// Whole vectors; inputs are fetched ahead, outputs (at multiples of 64) go past the
    /// caches.
    Memory,
    /// Less than a vector.
    Rest,
}

impl Way {
    /// All of them, in the order of their numbers.
    pub const ALL: [Way; 4] = [Way::Cached, Way::Unrolled, Way::Memory, Way::Rest];
}

/// One call of a block.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// Where the operands of all repetitions are.
    pub operands: Operands<'a>,
    /// Bytes of each operand.
    pub len: usize,
    /// Whether the data is in memory.
    pub memory: bool,
    /// Whether outputs may go past the caches: they lie at multiples of 64, and nothing reads
    /// them.
    pub stream: bool,
}

/// The operands of the repetitions of a call.
#[derive(Debug, Clone, Copy)]
pub enum Operands<'a> {
    /// First byte of every operand, and for each repetition the bytes by which operands are
    /// moved, by [`super::Side`].
    Moved {
        /// The addresses.
        slots: &'a [*mut u8],
        /// The repetitions.
        shifts: &'a [[usize; 3]],
    },
    /// Lists of the units of all repetitions.
    Listed {
        /// Units of named operands, repetition by repetition; not empty.
        units: &'a [Unit],
        /// First byte of unit 0 of every region.
        regions: &'a [*mut u8],
        /// Bytes from unit to unit, of inputs and outputs, and of scratch.
        strides: [usize; 2],
        /// Factors that are left to the call, repetition by repetition.
        factors: &'a [u8],
        /// How many repetitions there are.
        count: usize,
    },
}

impl<'a> Operands<'a> {
    /// How many repetitions there are.
    pub fn repetitions(&self) -> usize {
        match self {
            Operands::Moved { shifts, .. } => shifts.len(),
            Operands::Listed { count, .. } => *count,
        }
    }

    /// The factors of a repetition, of which the block has so many.
    pub fn given(&self, given: usize, repetition: usize) -> &'a [u8] {
        match self {
            Operands::Moved { .. } => &[],
            Operands::Listed { factors, .. } => &factors[repetition * given..][..given],
        }
    }

    /// The first byte of every operand of a repetition.
    pub fn places(&self, block: &Block, repetition: usize, places: &mut Vec<*mut u8>) {
        places.clear();
        match *self {
            Operands::Moved { slots, shifts } => {
                let moved = |(slot, &side): (&*mut u8, &Side)| {
                    slot.wrapping_add(shifts[repetition][side as usize])
                };
                places.extend(slots.iter().zip(block.sides()).map(moved));
            }
            Operands::Listed { units, regions, strides, count, .. } => {
                let named = units.len() / count;
                let mut units = units[repetition * named..][..named].iter();
                let stride = |side: Side| strides[usize::from(side == Side::Scratch)];
                for (operand, &side) in (0..).zip(block.sides()) {
                    let next = match block.anchor(operand) {
                        Some((anchor, 0)) if anchor == operand => units.next(),
                        _ => None,
                    };
                    let place = next.map_or(std::ptr::null_mut(), |unit| {
                        let base = regions[unit.region as usize];
                        base.wrapping_add(unit.unit as usize * stride(side))
                    });
                    places.push(place);
                }
                for (operand, &side) in (0..).zip(block.sides()) {
                    if let Some((anchor, distance @ 1..)) = block.anchor(operand) {
                        let from = places[anchor as usize];
                        let bytes = distance as usize * stride(side);
                        places[operand as usize] = from.wrapping_add(bytes);
                    }
                }
            }
        }
    }
}

/// The coefficients that a pass will have.
pub struct Shape<'a> {
    /// Rows of the pass.
    pub rows: usize,
    /// Columns of the matrix.
    pub cols: usize,
    /// As [`Pass::coefficients`].
    pub coefficients: &'a [u8],
}

/// A product restricted to as many rows as a kernel takes at once, on raw operands.
#[derive(Clone, Copy)]
pub struct Pass<'a> {
    /// The coefficients, column by column: that of row r and column j at j * rows + r.
    pub coefficients: &'a [u8],
    /// The tables of the coefficients, in the same order; starts at a multiple of 64.
    pub tables: &'a [u8],
    /// What `prepare` made of the coefficients.
    pub code: Option<&'a Code>,
    /// First byte of each source, one per column.
    pub srcs: &'a [*const u8],
    /// First byte of each destination, one per row.
    pub dsts: &'a [*mut u8],
    /// Bytes of each operand.
    pub len: usize,
    /// Whether to add to the destinations instead of replacing them.
    pub add: bool,
    /// Whether results should go past the caches, where the kernel can do that.
    pub stream: bool,
}

/// The private half of [`super::Kernel`].
pub trait Engine {
    /// Most rows that one pass takes.
    fn most_rows(&self) -> usize;

    /// Bytes of table per coefficient.
    fn table_len(&self) -> usize;

    /// Writes the table of one coefficient, `table_len` bytes.
    fn tabulate(&self, coefficient: u8, table: &mut [u8]);

    /// Code for passes with these coefficients, where the kernel makes any.
    fn prepare(&self, _shape: &Shape<'_>) -> Option<Arc<Code>> {
        None
    }

    /// Code for a block whose operands are moved or `listed`, where the kernel makes any.
    fn assemble(&self, _block: &Block, _way: Way, _listed: bool) -> Option<BlockCode> {
        None
    }

    /// Computes one pass with 1 to `most_rows` rows.
    ///
    /// # Safety
    /// `coefficients` and `tables` hold rows x cols entries made by this kernel's
    /// `tabulate`, `code` what its `prepare` made of them, where rows and cols are the lengths
    /// of `dsts` and `srcs`. Every source is readable and every destination readable and
    /// writable for `len` bytes, and no destination shares a byte with another operand.
    unsafe fn pass(&self, pass: &Pass<'_>);
}
