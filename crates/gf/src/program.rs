//! Programs over byte streams: matrices and blocks of straight-line code, prepared for a kernel,
//! and lists of them over the units of buffers, checked once, then run without checks per call.
//! Every entry checks its operands, also in release builds.

use crate::block::{Block, Side};
use crate::{GfError, TemporalHint, field::mul, kernel::engine::Distances};
use std::{ops::Range, sync::OnceLock};

mod product;
mod check;
mod routine;
mod scratch;
mod run;

pub use product::Product;
pub use routine::Routine;

/// Bytes in a cache line.
const LINE: usize = 64;
/// Blocks that are taken together, at most.
const TOGETHER: usize = 256;

/// A unit of a region: the operand of a [`Call`]. Regions are numbered inputs first, then
/// outputs, then the scratch region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)] // machine code reads lists of them
pub struct Unit {
    /// The region.
    pub region: u32,
    /// Index of the unit in the region, all of which have one length.
    pub unit: u32,
}

impl Unit {
    /// The unit so many further on. One that would not have a number is the last one there could
    /// be, which no region has.
    #[must_use]
    pub fn moved(self, units: u32) -> Unit {
        Unit { unit: self.unit.saturating_add(units), ..self }
    }
}

/// One step of a sequence; ranges are of the [`ProgramSource`]'s lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// `results` = matrix x `sources`.
    Product {
        /// Index into the products.
        product: u32,
        /// Range of the operands that are read.
        sources: Range<u32>,
        /// Range of the operands that are written.
        results: Range<u32>,
    },
    /// A block, once for every shift.
    Block {
        /// Index into the routines.
        routine: u32,
        /// Range of the operands, one for each operand of the block, of its side.
        operands: Range<u32>,
        /// Range of the shifts.
        shifts: Range<u32>,
    },
    /// A block, once for every list of operands: where repetitions are not moved alike, or have
    /// factors of their own.
    Each {
        /// Index into the routines.
        routine: u32,
        /// Range of the operands: for each repetition one for every operand that the block names.
        operands: Range<u32>,
        /// Range of the factors: for each repetition those that the block leaves open.
        factors: Range<u32>,
    },
}

/// Distance in units of the operands of a repetition from those the call names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shift {
    /// Of the operands in inputs.
    pub inputs: u32,
    /// Of the operands in outputs.
    pub outputs: u32,
    /// Of the operands in scratch.
    pub scratch: u32,
    /// Of results in scratch.
    pub results: u32,
}

impl Shift {
    /// Returns that of a side.
    pub fn of(&self, side: Side) -> u32 {
        match side {
            Side::Input => self.inputs,
            Side::Output => self.outputs,
            Side::Scratch => self.scratch,
            Side::Result => self.results,
        }
    }
}

/// The source of a [`KernelProgram`], not yet checked.
#[derive(Debug, Clone, Default)]
pub struct ProgramSource {
    /// Matrices, prepared.
    pub products: Vec<Product>,
    /// Blocks, prepared.
    pub routines: Vec<Routine>,
    /// The steps, in this order.
    pub calls: Vec<Call>,
    /// Operands of the calls.
    pub operands: Vec<Unit>,
    /// Repetitions of blocks.
    pub shifts: Vec<Shift>,
    /// Factors that blocks leave open.
    pub factors: Vec<u8>,
    /// Places of the units of every input, and of every output, in their buffer, counted in units;
    /// empty where unit i is the i-th. Scratch has no order.
    pub order: [Vec<u32>; 2],
}

/// The buffers a sequence works on, in units: what a run must bring.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Buffers {
    /// Units of each input.
    pub inputs: Vec<usize>,
    /// Units of each output.
    pub outputs: Vec<usize>,
    /// Units of scratch, which the run itself provides.
    pub scratch: usize,
}

/// A call as the loop wants it.
#[derive(Debug)]
struct Checked {
    work: Work,
    /// True if all results are outputs that no later call reads: they may go past the caches.
    last: bool,
}

#[derive(Debug)]
enum Work {
    Product {
        product: usize,
        sources: Range<usize>,
        results: Range<usize>,
        /// Operands that this call is the first to read from an input.
        fresh: Range<usize>,
    },
    Block {
        routine: usize,
        operands: Range<usize>,
        shifts: Range<usize>,
        /// Repetitions, so many at a time, that could be one on longer units.
        run: usize,
    },
    Each {
        routine: usize,
        operands: Range<usize>,
        factors: Range<usize>,
        records: Range<usize>,
        count: usize,
    },
}

/// Number of lengths of units whose tables are kept.
const KNOWN: usize = 4;

/// Tables that follow from the lengths of units.
#[derive(Debug, Default)]
struct Tables {
    /// Bytes of a unit of inputs and outputs, and from unit to unit of scratch.
    strides: [usize; 2],
    /// Bytes from the start of its region to each unit, of inputs and of outputs; empty
    /// where nothing looks there.
    of: [Vec<usize>; 2],
    /// The program's shifts, in bytes by side, or in bytes of table entries.
    shifts: Vec<Distances>,
}

/// A program of products and blocks over units of buffers, checked when made.
///
/// Because every operand is a whole unit and every call was checked to write no unit that it
/// reads (but for a block that loads an operand before it stores it), a run has only the buffers
/// left to check, whatever their length.
#[derive(Debug)]
pub struct KernelProgram {
    products: Vec<Product>,
    routines: Vec<Routine>,
    calls: Vec<Checked>,
    operands: Vec<Unit>,
    shifts: Vec<Shift>,
    factors: Vec<u8>,
    /// As the listing's.
    order: [Vec<u32>; 2],
    /// Operands and factors of repetitions that have their own, as code takes them.
    records: Vec<u64>,
    fresh: Vec<Unit>,
    buffers: Buffers,
    /// Places of units of the first lengths that came: making that anew would cost small
    /// runs more than their work.
    tables: [OnceLock<Tables>; KNOWN],
    /// Operands up to the last one of a block that is moved.
    moved: usize,
    /// Most operands of one call.
    most: usize,
}

impl KernelProgram {
    /// The buffers that a run works on.
    pub fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// The blocks that calls repeat.
    pub fn routines(&self) -> &[Routine] {
        &self.routines
    }

    /// Calls of a run, each over all slices.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Returns what the sequence computes, on one byte a unit of every input: one byte a unit of
    /// every output. The oracle, independent of every kernel; units that no call writes are zero.
    ///
    /// # Errors
    /// The number of bytes is not the number of units of all inputs.
    pub fn eval(&self, inputs: &[u8]) -> Result<Vec<u8>, GfError> {
        let Buffers { inputs: ins, outputs: outs, scratch } = &self.buffers;
        let expected = ins.iter().sum();
        if inputs.len() != expected {
            let (what, found) = ("units of all inputs", inputs.len());
            return Err(GfError::Shape { what, expected, found });
        }
        let mut starts = vec![0];
        for units in ins.iter().chain(outs).chain([scratch]) {
            starts.push(starts[starts.len() - 1] + units);
        }
        let mut bytes = inputs.to_vec();
        bytes.resize(starts[starts.len() - 1], 0);
        let at = |unit: &Unit| starts[unit.region as usize] + self.position(unit) as usize;
        for call in &self.calls {
            match &call.work {
                Work::Product { product, sources, results, .. } => {
                    let sources: Vec<u8> =
                        self.operands[sources.clone()].iter().map(|unit| bytes[at(unit)]).collect();
                    let matrix = self.products[*product].matrix();
                    for (r, unit) in self.operands[results.clone()].iter().enumerate() {
                        let terms = matrix.row(r).iter().zip(&sources);
                        bytes[at(unit)] = terms.fold(0, |sum, (&c, &s)| sum ^ mul(c, s));
                    }
                }
                Work::Block { routine, operands, shifts, .. } => {
                    let block = self.routines[*routine].block();
                    for shift in &self.shifts[shifts.clone()] {
                        let places: Vec<usize> = self.operands[operands.clone()]
                            .iter()
                            .zip(block.sides())
                            .map(|(unit, &side)| at(&unit.moved(shift.of(side))))
                            .collect();
                        eval_block(block, &places, &[], &mut bytes);
                    }
                }
                Work::Each { routine, operands, factors, count, .. } => {
                    let block = self.routines[*routine].block();
                    for repetition in 0..*count {
                        let (units, given) = self.repetition(block, operands, factors, repetition);
                        let places: Vec<usize> = units.iter().map(at).collect();
                        eval_block(block, &places, given, &mut bytes);
                    }
                }
            }
        }
        let first = expected;
        Ok(bytes[first..first + outs.iter().sum::<usize>()].to_vec())
    }

    /// Returns where a unit lies in its region.
    fn position(&self, unit: &Unit) -> u32 {
        let (inputs, outputs) = (self.buffers.inputs.len(), self.buffers.outputs.len());
        let order = match unit.region as usize {
            region if region < inputs => &self.order[0][..],
            region if region < inputs + outputs => &self.order[1],
            _ => &[],
        };
        order.get(unit.unit as usize).copied().unwrap_or(unit.unit)
    }

    /// All operands of a repetition of a block, and its factors.
    fn repetition(
        &self,
        block: &Block,
        operands: &Range<usize>,
        factors: &Range<usize>,
        repetition: usize,
    ) -> (Vec<Unit>, &[u8]) {
        let (named, given) = (block.named().count(), block.given());
        let mut next = self.operands[operands.clone()][repetition * named..].iter().copied();
        let mut units = vec![Unit { region: 0, unit: 0 }; block.sides().len()];
        for operand in block.named() {
            units[operand as usize] = next.next().unwrap_or(units[operand as usize]);
        }
        for operand in 0..units.len() {
            if let Some((anchor, distance)) = block.anchor(operand as u32) {
                let Unit { region, unit } = units[anchor as usize];
                units[operand] = Unit { region, unit: unit.saturating_add(distance) };
            }
        }
        (units, &self.factors[factors.clone()][repetition * given..][..given])
    }

    /// Runs all calls, `slice` bytes of every unit at a time, so that what passes from call to
    /// call stays in a cache. All units of all buffers have one length.
    ///
    /// # Errors
    /// Number or lengths of the buffers do not fit: then nothing is written. No memory for
    /// scratch.
    pub fn run(
        &self,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        slice: usize,
        hint: TemporalHint,
    ) -> Result<(), GfError> {
        let packet = self.unit_len(inputs, outputs)?;
        let layout = run::Layout { packet, blocks: 1, steps: [0, 0] };
        self.walk(inputs, outputs, layout, slice, hint)
    }

    /// Runs over buffers that are blocks one after the other, each of which holds every unit as a
    /// packet of `packet` bytes: as if each block were a buffer of its own. All inputs have one
    /// number of units, and so have all outputs.
    ///
    /// # Errors
    /// As [`KernelProgram::run`]; a buffer is not whole blocks.
    pub fn run_packets(
        &self,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        packet: usize,
        slice: usize,
        hint: TemporalHint,
    ) -> Result<(), GfError> {
        let layout = self.layout(inputs, outputs, packet)?;
        self.walk(inputs, outputs, layout, slice, hint)
    }
}

/// A block on one byte a unit, given the places of its operands.
fn eval_block(block: &Block, places: &[usize], given: &[u8], bytes: &mut [u8]) {
    let before: Vec<u8> = places.iter().map(|&place| bytes[place]).collect();
    for (operand, after) in block.eval_with(&before, given).into_iter().enumerate() {
        if block.uses(operand as u32).1 {
            bytes[places[operand]] = after;
        }
    }
}
