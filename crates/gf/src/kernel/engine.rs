//! Implementation of kernels: the part of [`Kernel`](super::Kernel) that other crates cannot reach.

use std::{fmt::Debug, ops::Range, sync::Arc};

use crate::block::{Block, Side};

/// The variants of a block's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeVariant {
    /// Whole vectors, ordinary loads and stores.
    Cached,
    /// The same with several vectors a turn of the loop, for blocks with much work whose operands
    /// are moved.
    Unrolled,
    /// Whole vectors; inputs are fetched ahead.
    Fetched,
    /// The same, and outputs (at multiples of 64) go past the caches.
    Memory,
    /// Less than a vector.
    Rest,
    /// Half of 64 bytes, without masks or copies; with vectors of 64 bytes of two repetitions with
    /// lists at once. Some kernels make none.
    Half,
}

impl CodeVariant {
    /// All of them, in the order of their numbers.
    pub const ALL: [CodeVariant; 6] = [
        CodeVariant::Cached,
        CodeVariant::Unrolled,
        CodeVariant::Fetched,
        CodeVariant::Memory,
        CodeVariant::Rest,
        CodeVariant::Half,
    ];

    /// Returns whether inputs are fetched ahead.
    pub fn fetches(self) -> bool {
        matches!(self, CodeVariant::Fetched | CodeVariant::Memory)
    }
}

/// The addressing mode of a block's code: the kinds of [`Operands`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addressing {
    /// Base plus displacement: all operands of a side move by the same distance.
    Moved,
    /// As `Moved`, but the place of each unit is looked up in a table.
    Ordered,
    /// Every repetition has a list of operands of its own.
    Listed,
}

impl Addressing {
    /// Number of them.
    pub const COUNT: usize = 3;
}

/// An operand of a call whose units lie where a table says.
#[derive(Debug, Clone, Copy)]
#[repr(C)] // machine code reads lists of them
pub struct Slot {
    /// First byte of the region's first unit; of an operand in scratch, its own first byte.
    pub start: *mut u8,
    /// Bytes from the start of the table to the unit's entry; none in scratch.
    pub entry: usize,
}

/// One call of a block.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// Addresses of the operands of all repetitions.
    pub operands: Operands<'a>,
    /// Bytes of each operand.
    pub len: usize,
    /// True if the data is in memory.
    pub memory: bool,
    /// True if outputs may go past the caches: they lie at multiples of 64, and nothing reads
    /// them.
    pub stream: bool,
}

/// By how many bytes the operands of a repetition are moved, by [`Side`].
pub type Distances = [usize; 4];

/// The operands of the repetitions of a call.
#[derive(Debug, Clone, Copy)]
pub enum Operands<'a> {
    /// First byte of every operand, and for each repetition the bytes by which operands are
    /// moved, by [`Side`].
    Moved {
        /// The addresses.
        slots: &'a [*mut u8],
        /// The repetitions.
        shifts: &'a [Distances],
    },
    /// As moved, but a unit of an input or output is so far from the start of its region as a
    /// table says.
    Ordered {
        /// The operands.
        slots: &'a [Slot],
        /// The repetitions: by how many bytes of table entries operands are moved in inputs and
        /// outputs, by how many bytes in scratch.
        shifts: &'a [Distances],
        /// The tables, of inputs and of outputs.
        tables: [&'a [usize]; 2],
    },
    /// Lists of the units of all repetitions.
    Listed {
        /// A record for each repetition: of every named operand its region (the lower half) and
        /// unit, then the factors that are left to the call, a byte each; not empty.
        records: &'a [u64],
        /// First byte of unit 0 of every region.
        regions: &'a [*mut u8],
        /// Bytes from the start of a region to each unit, of inputs and of outputs.
        tables: [&'a [usize]; 2],
        /// Bytes from unit to unit of scratch.
        stride: usize,
        /// Number of repetitions.
        count: usize,
        /// True if units of all regions lie `stride` bytes after each other.
        dense: bool,
    },
}

impl<'a> Operands<'a> {
    /// Returns how code finds them.
    pub fn addressing(&self) -> Addressing {
        match self {
            Operands::Moved { .. } => Addressing::Moved,
            Operands::Ordered { .. } => Addressing::Ordered,
            Operands::Listed { .. } => Addressing::Listed,
        }
    }

    /// Returns how many repetitions there are.
    pub fn repetitions(&self) -> usize {
        match self {
            Operands::Moved { shifts, .. } | Operands::Ordered { shifts, .. } => shifts.len(),
            Operands::Listed { count, .. } => *count,
        }
    }

    fn record(&self, repetition: usize) -> &'a [u64] {
        match self {
            Operands::Listed { records, count, .. } => {
                let words = records.len() / count;
                &records[repetition * words..][..words]
            }
            _ => &[],
        }
    }

    /// The factors of a repetition.
    pub fn given(&self, block: &Block, repetition: usize) -> Vec<u8> {
        let words = self.record(repetition).iter().skip(block.named().count());
        words.flat_map(|word| word.to_le_bytes()).collect()
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
            Operands::Ordered { slots, shifts, tables } => {
                let place = |(slot, &side): (&Slot, &Side)| {
                    let shift = shifts[repetition][side as usize];
                    slot.start.wrapping_add(match tables.get(side as usize) {
                        Some(table) => table[(slot.entry + shift) / size_of::<usize>()],
                        None => shift,
                    })
                };
                places.extend(slots.iter().zip(block.sides()).map(place));
            }
            Operands::Listed { regions, tables, stride, .. } => {
                let record = self.record(repetition);
                places.resize(block.sides().len(), std::ptr::null_mut());
                for (rank, named) in block.named().enumerate() {
                    let [region, unit] = [record[rank] as u32, (record[rank] >> 32) as u32];
                    for (operand, &side) in (0..).zip(block.sides()) {
                        let Some((anchor, behind)) = block.anchor(operand) else { continue };
                        if anchor != named {
                            continue;
                        }
                        let unit = unit as usize + behind as usize;
                        places[operand as usize] = regions[region as usize].wrapping_add(
                            match tables.get(side as usize) {
                                Some(table) => table[unit],
                                None => unit * stride,
                            },
                        );
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
    /// Code that `prepare` made of the coefficients.
    pub code: Option<&'a dyn PassCode>,
    /// First byte of each source, one per column.
    pub srcs: &'a [*const u8],
    /// First byte of each destination, one per row.
    pub dsts: &'a [*mut u8],
    /// Bytes of each operand.
    pub len: usize,
    /// True if to add to the destinations instead of replacing them.
    pub add: bool,
    /// True if results should go past the caches, where the kernel can do that.
    pub stream: bool,
}

impl Pass<'_> {
    /// Runs the code that was made of the coefficients, where there is any and it does what the
    /// pass asks for; how many bytes of every operand it did.
    ///
    /// # Safety
    /// As [`Engine::pass`].
    #[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
    pub unsafe fn run_code(&self) -> usize {
        match self.code {
            // SAFETY: promised by the caller.
            Some(code) if !self.add => unsafe { code.run(self) },
            _ => 0,
        }
    }
}

/// Makes machine code of matrices and blocks.
pub trait CodeGen {
    /// As [`super::Kernel::block_sums`].
    fn block_sums(&self) -> usize;

    /// Code for passes with these coefficients, unless there are too many.
    fn prepare(&self, shape: &Shape<'_>) -> Option<Arc<dyn PassCode>>;

    /// Code for a block whose operands are found in this way, unless it is too long or makes none.
    fn assemble(
        &self,
        block: &Block,
        variant: CodeVariant,
        addressing: Addressing,
    ) -> Option<Box<dyn BlockCode>>;
}

/// Machine code for passes with one matrix.
pub trait PassCode: Debug + Send + Sync {
    /// Does the whole vectors of a pass and returns how many bytes those are.
    ///
    /// # Safety
    /// As [`Engine::pass`]; this code was made for the pass's coefficients.
    unsafe fn run(&self, pass: &Pass<'_>) -> usize;
}

/// Machine code for one block and one way.
pub trait BlockCode: Debug + Send + Sync {
    /// Runs all repetitions on these bytes of every operand: whole vectors, or less than one.
    ///
    /// # Safety
    /// Every operand of every repetition is readable (and writable where it is stored) for `len`
    /// bytes, there is a factor for each that is left to the call, and nothing that is stored
    /// shares a byte with another operand of its repetition. The code was made for the block, for
    /// the way that the range asks for, and for this kind of operands.
    unsafe fn run(&self, job: &Job<'_>, bytes: Range<usize>);
}

/// The private half of [`super::Kernel`].
pub trait Engine {
    /// Most rows that one pass takes.
    fn most_rows(&self) -> usize;

    /// Bytes of table per coefficient.
    fn table_len(&self) -> usize;

    /// Writes the table of one coefficient, `table_len` bytes.
    fn tabulate(&self, coefficient: u8, table: &mut [u8]);

    /// Returns who makes code, where the kernel has one and memory may be executed.
    fn code_gen(&self) -> Option<&dyn CodeGen> {
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
