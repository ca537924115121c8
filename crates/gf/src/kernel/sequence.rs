//! Many products in a row over the same buffers: checked once, then run without checks per call.

use std::collections::HashSet;
use std::ops::Range;
use std::ptr;

use super::Product;
use crate::{AlignedBuf, GfError};

/// Bytes in a cache line.
const LINE: usize = 64;
/// Scratch units start this much further than a slice, so that equal offsets of neighbouring
/// units do not compete for the same cache sets: an odd number of lines.
const STAGGER: usize = LINE;

/// Where the data of a [`Sequence::run`] is.
///
/// ```
/// assert_eq!(kiln_gf::Footprint::default(), kiln_gf::Footprint::Cached);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Footprint {
    /// In the caches, or the results are used again soon: ordinary loads and stores.
    #[default]
    Cached,
    /// In memory, and it would not fit the caches: sources are fetched ahead of their use and
    /// results go past the caches.
    Memory,
}

/// A unit of a region: the operand of a [`Call`]. Regions are numbered inputs first, then
/// outputs, then the scratch region.
///
/// ```
/// let first = kiln_gf::Unit { region: 0, unit: 0 };
/// assert_eq!(first.region, 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Unit {
    /// The region.
    pub region: u32,
    /// Which of its units, all of which have one length.
    pub unit: u32,
}

/// One product of a sequence: `results` = matrix x `sources`.
///
/// ```
/// let call = kiln_gf::Call { product: 0, sources: 0..2, results: 2..3 };
/// assert_eq!(call.sources.len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Index into the products.
    pub product: u32,
    /// Range of the operands that are read.
    pub sources: Range<u32>,
    /// Range of the operands that are written.
    pub results: Range<u32>,
}

/// The buffers a sequence works on, in units: what a run must bring.
///
/// ```
/// let shape = kiln_gf::Buffers { inputs: vec![1, 1], outputs: vec![1], scratch: 0 };
/// assert_eq!(shape.inputs.len(), 2);
/// ```
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
    product: u32,
    sources: Range<usize>,
    results: Range<usize>,
    /// Whether all results are outputs that no later call reads: they may go past the caches.
    last: bool,
    /// Operands that this call is the first to read from an input.
    fresh: Range<usize>,
}

/// A program of products over units of buffers, checked when made.
///
/// Because every operand is a whole unit and every call was checked to write no unit that it
/// reads, a run has only the buffers left to check, whatever their length.
///
/// ```
/// use kiln_gf::{Buffers, Call, Footprint, Matrix, Product, Sequence, Unit, active};
/// let sum = Product::new(active()?, &Matrix::new(1, 2, vec![1, 1])?);
/// let operands = [0, 1, 2].map(|region| Unit { region, unit: 0 }).to_vec();
/// let calls = vec![Call { product: 0, sources: 0..2, results: 2..3 }];
/// let buffers = Buffers { inputs: vec![1, 1], outputs: vec![1], scratch: 0 };
/// let sequence = Sequence::new(vec![sum], calls, operands, buffers)?;
/// let mut out = [0xee; 3];
/// sequence.run(&[&[1, 2, 3], &[4, 5, 6]], &mut [&mut out], 4096, Footprint::Cached)?;
/// assert_eq!(out, [5, 7, 5]);
/// # Ok::<(), kiln_gf::GfError>(())
/// ```
#[derive(Debug)]
pub struct Sequence {
    products: Vec<Product>,
    calls: Vec<Checked>,
    operands: Vec<Unit>,
    fresh: Vec<Unit>,
    buffers: Buffers,
    most_sources: usize,
    most_results: usize,
}

impl Sequence {
    /// Checks and keeps a program.
    ///
    /// # Errors
    /// An index is out of range, a call does not have one operand a column and row of its
    /// matrix, writes an input, or writes a unit that it also reads or writes elsewhere.
    pub fn new(
        products: Vec<Product>,
        calls: Vec<Call>,
        operands: Vec<Unit>,
        buffers: Buffers,
    ) -> Result<Sequence, GfError> {
        let mut sequence = Sequence {
            products,
            calls: Vec::with_capacity(calls.len()),
            operands,
            fresh: Vec::new(),
            buffers,
            most_sources: 0,
            most_results: 0,
        };
        let mut read_later: HashSet<Unit> = HashSet::new();
        let mut last = vec![false; calls.len()];
        for (index, call) in calls.iter().enumerate().rev() {
            let (sources, results) = sequence.check(call)?;
            let first_output = sequence.buffers.inputs.len() as u32;
            let scratch = first_output + sequence.buffers.outputs.len() as u32;
            let is_output = |unit: &Unit| (first_output..scratch).contains(&unit.region);
            last[index] = results.iter().all(|unit| is_output(unit) && !read_later.contains(unit));
            read_later.extend(sources);
        }
        let mut seen: HashSet<Unit> = HashSet::new();
        for (call, last) in calls.iter().zip(last) {
            let (sources, results) = (span(&call.sources), span(&call.results));
            sequence.most_sources = sequence.most_sources.max(sources.len());
            sequence.most_results = sequence.most_results.max(results.len());
            let start = sequence.fresh.len();
            for unit in &sequence.operands[sources.clone()] {
                if (unit.region as usize) < sequence.buffers.inputs.len() && seen.insert(*unit) {
                    sequence.fresh.push(*unit);
                }
            }
            let fresh = start..sequence.fresh.len();
            let product = call.product;
            sequence.calls.push(Checked { product, sources, results, last, fresh });
        }
        Ok(sequence)
    }

    /// The buffers that a run works on.
    pub fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// Products called.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    fn check(&self, call: &Call) -> Result<(&[Unit], &[Unit]), GfError> {
        let shape = |what, expected, found| GfError::Shape { what, expected, found };
        let product = self.products.get(call.product as usize);
        let product = product.ok_or_else(|| {
            shape("products of a sequence", self.products.len(), call.product as usize)
        })?;
        let all = self.operands.len();
        let part = |range: &Range<u32>| self.operands.get(span(range));
        let sources = part(&call.sources);
        let sources = sources.ok_or_else(|| shape("operands", all, call.sources.end as usize))?;
        let results = part(&call.results);
        let results = results.ok_or_else(|| shape("operands", all, call.results.end as usize))?;
        product.check_counts(sources.len(), results.len())?;
        for (side, units) in [("source", sources), ("destination", results)] {
            for (index, unit) in units.iter().enumerate() {
                let (region, offset, size) = (unit.region, unit.unit as usize, self.units(unit));
                if offset >= size {
                    return Err(GfError::OutOfBounds { side, index, region, offset, len: 1, size });
                }
            }
        }
        for (index, result) in results.iter().enumerate() {
            let region = result.region;
            if (region as usize) < self.buffers.inputs.len() {
                return Err(GfError::ReadOnly { index, region });
            }
            let overlap = |side, other| GfError::Overlap { index, side, other, region };
            if let Some(other) = sources.iter().position(|unit| unit == result) {
                return Err(overlap("source", other));
            }
            if let Some(other) = results[..index].iter().position(|unit| unit == result) {
                return Err(overlap("destination", other));
            }
        }
        Ok((sources, results))
    }

    /// Units of the region of an operand; 0 when there is no such region.
    fn units(&self, unit: &Unit) -> usize {
        let Buffers { inputs, outputs, scratch } = &self.buffers;
        let region = unit.region as usize;
        let all = inputs.iter().chain(outputs).chain([scratch]);
        all.copied().nth(region).unwrap_or(0)
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
        footprint: Footprint,
    ) -> Result<(), GfError> {
        let unit_len = self.unit_len(inputs, outputs)?;
        let slice = slice.clamp(1, unit_len.max(1));
        let stride = slice.next_multiple_of(LINE) + STAGGER;
        let mut scratch = AlignedBuf::try_zeroed(self.buffers.scratch * stride)?;
        let mut regions: Vec<Region> = Vec::with_capacity(inputs.len() + outputs.len() + 1);
        // Inputs are only read: `check` refused calls that write to them.
        regions.extend(inputs.iter().map(|i| Region::new(i.as_ptr().cast_mut(), unit_len)));
        regions.extend(outputs.iter_mut().map(|o| Region::new(o.as_mut_ptr(), unit_len)));
        regions.push(Region::new(scratch.as_mut_ptr(), stride));
        let last = regions.len() - 1;
        let mut sources = vec![ptr::null(); self.most_sources];
        let mut results = vec![ptr::null_mut(); self.most_results];
        let mut start = 0;
        while start < unit_len {
            let len = slice.min(unit_len - start);
            let ahead = slice.min(unit_len - start - len);
            for (index, call) in self.calls.iter().enumerate() {
                if footprint == Footprint::Memory {
                    match self.calls.get(index + 1) {
                        Some(next) => self.fetch(next, &regions, 0..len),
                        // The next slice starts where this one ends.
                        None => self.fetch(&self.calls[0], &regions, len..len + ahead),
                    }
                }
                // SAFETY: `check` found the region of every operand.
                let at = |unit: &Unit| unsafe {
                    regions.get_unchecked(unit.region as usize).unit(unit.unit)
                };
                for (place, unit) in sources.iter_mut().zip(&self.operands[call.sources.clone()]) {
                    *place = at(unit).cast_const();
                }
                for (place, unit) in results.iter_mut().zip(&self.operands[call.results.clone()]) {
                    *place = at(unit);
                }
                let stream = call.last && footprint == Footprint::Memory;
                let product = &self.products[call.product as usize];
                let sources = &mut sources[..call.sources.len()];
                let results = &mut results[..call.results.len()];
                // SAFETY: all units were checked to lie in their regions, whose lengths
                // `unit_len` checked, and the slice to lie in the unit; a call was checked to
                // write no input and no unit it reads or writes twice; the borrows of the
                // buffers last until the end of this function.
                unsafe { product.execute(sources, results, len, false, stream) };
            }
            for region in &mut regions[..last] {
                region.advance(len);
            }
            start += len;
        }
        if footprint == Footprint::Memory {
            super::drain_streams();
        }
        Ok(())
    }

    /// Asks for the lines of a call's sources that no earlier call has read.
    fn fetch(&self, call: &Checked, regions: &[Region], bytes: Range<usize>) {
        for unit in &self.fresh[call.fresh.clone()] {
            let from = regions[unit.region as usize].unit(unit.unit).wrapping_add(bytes.start);
            super::prefetch(from, bytes.len());
        }
    }

    /// Checks all buffers and returns the bytes of a unit.
    fn unit_len(&self, inputs: &[&[u8]], outputs: &[&mut [u8]]) -> Result<usize, GfError> {
        let count = |side, expected, found| match expected == found {
            true => Ok(()),
            false => Err(GfError::OperandCount { side, expected, found }),
        };
        count("source", self.buffers.inputs.len(), inputs.len())?;
        count("destination", self.buffers.outputs.len(), outputs.len())?;
        let first = outputs.first().map_or(0, |output| output.len());
        let unit_len = first / self.buffers.outputs.first().copied().unwrap_or(1).max(1);
        let lengths = |side, units: &[usize], found: &mut dyn Iterator<Item = usize>| {
            for (index, (units, found)) in units.iter().zip(found).enumerate() {
                let expected = units * unit_len;
                if expected != found {
                    return Err(GfError::OperandLength { side, index, expected, found });
                }
            }
            Ok(())
        };
        lengths("destination", &self.buffers.outputs, &mut outputs.iter().map(|o| o.len()))?;
        lengths("source", &self.buffers.inputs, &mut inputs.iter().map(|i| i.len()))?;
        Ok(unit_len)
    }
}

fn span(range: &Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

/// A buffer during a run.
struct Region {
    /// Start of the slice in unit 0.
    base: *mut u8,
    /// Bytes from unit to unit.
    stride: usize,
}

impl Region {
    fn new(base: *mut u8, stride: usize) -> Region {
        Region { base, stride }
    }

    fn unit(&self, unit: u32) -> *mut u8 {
        self.base.wrapping_add(unit as usize * self.stride)
    }

    fn advance(&mut self, len: usize) {
        self.base = self.base.wrapping_add(len);
    }
}
