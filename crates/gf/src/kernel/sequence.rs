//! Many products and blocks in a row over the same buffers: checked once, then run without checks
//! per call.

use std::ops::Range;
use std::ptr;

use super::engine::Job;
use super::{Product, Routine, Side};
use crate::GfError;
use crate::field::mul;

mod check;
pub(super) mod scratch;

/// Bytes in a cache line.
const LINE: usize = 64;
/// Bytes of each operand of a block that are asked for before it runs: as many as its code takes
/// before what it asks for is there.
const FETCHED: usize = 6 * LINE;
/// Blocks that are taken together, at most.
const TOGETHER: usize = 256;

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

/// One step of a sequence; ranges are of the [`Listing`]'s lists.
///
/// ```
/// let call = kiln_gf::Call::Product { product: 0, sources: 0..2, results: 2..3 };
/// assert!(matches!(call, kiln_gf::Call::Product { product: 0, .. }));
/// ```
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
}

/// How many units further on the operands of a repetition are than those the call names.
///
/// ```
/// assert_eq!(kiln_gf::Shift::default().inputs, 0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shift {
    /// Of the operands in inputs.
    pub inputs: u32,
    /// Of the operands in outputs.
    pub outputs: u32,
    /// Of the operands in scratch.
    pub scratch: u32,
}

impl Shift {
    fn of(&self, side: Side) -> u32 {
        match side {
            Side::Input => self.inputs,
            Side::Output => self.outputs,
            Side::Scratch => self.scratch,
        }
    }
}

/// What a [`Sequence`] is made of.
///
/// ```
/// assert!(kiln_gf::Listing::default().calls.is_empty());
/// ```
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Matrices, prepared.
    pub products: Vec<Product>,
    /// Blocks, prepared.
    pub routines: Vec<Routine>,
    /// What is done, in this order.
    pub calls: Vec<Call>,
    /// Operands of the calls.
    pub operands: Vec<Unit>,
    /// Repetitions of blocks.
    pub shifts: Vec<Shift>,
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
    work: Work,
    /// Whether all results are outputs that no later call reads: they may go past the caches.
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
    },
}

/// A program of products and blocks over units of buffers, checked when made.
///
/// Because every operand is a whole unit and every call was checked to write no unit that it
/// reads (but for a block that loads an operand before it stores it), a run has only the buffers
/// left to check, whatever their length.
///
/// ```
/// use kiln_gf::{Buffers, Call, Footprint, Listing, Matrix, Product, Sequence, Unit, active};
/// let sum = Product::new(active()?, &Matrix::new(1, 2, vec![1, 1])?);
/// let operands = [0, 1, 2].map(|region| Unit { region, unit: 0 }).to_vec();
/// let calls = vec![Call::Product { product: 0, sources: 0..2, results: 2..3 }];
/// let buffers = Buffers { inputs: vec![1, 1], outputs: vec![1], scratch: 0 };
/// let listing = Listing { products: vec![sum], calls, operands, ..Listing::default() };
/// let sequence = Sequence::new(listing, buffers)?;
/// let mut out = [0xee; 3];
/// sequence.run(&[&[1, 2, 3], &[4, 5, 6]], &mut [&mut out], 4096, Footprint::Cached)?;
/// assert_eq!(out, [5, 7, 5]);
/// assert_eq!(sequence.eval(&[1, 4])?, [5]);
/// # Ok::<(), kiln_gf::GfError>(())
/// ```
///
/// A block that is repeated for two units of every operand:
///
/// ```
/// # use kiln_gf::{Block, Buffers, Call, Footprint, Listing, Routine, Sequence, Shift, Side, Unit};
/// let mut block = Block::new();
/// let (from, to) = (block.operand(Side::Input), block.operand(Side::Output));
/// let value = block.load(from);
/// let twice = block.sum(&[(value, 2)]);
/// block.store(to, twice);
/// let operands = [0, 1].map(|region| Unit { region, unit: 0 }).to_vec();
/// let shifts = [0, 1].map(|unit| Shift { inputs: unit, outputs: unit, scratch: 0 }).to_vec();
/// let calls = vec![Call::Block { routine: 0, operands: 0..2, shifts: 0..2 }];
/// let routines = vec![Routine::new(kiln_gf::active()?, block)?];
/// let listing = Listing { routines, calls, operands, shifts, ..Listing::default() };
/// let buffers = Buffers { inputs: vec![2], outputs: vec![2], scratch: 0 };
/// let sequence = Sequence::new(listing, buffers)?;
/// let mut out = [0; 4];
/// sequence.run(&[&[1, 2, 3, 4]], &mut [&mut out], 4096, Footprint::Cached)?;
/// assert_eq!(out, [2, 4, 6, 8]);
/// # Ok::<(), kiln_gf::GfError>(())
/// ```
#[derive(Debug)]
pub struct Sequence {
    products: Vec<Product>,
    routines: Vec<Routine>,
    calls: Vec<Checked>,
    operands: Vec<Unit>,
    shifts: Vec<Shift>,
    fresh: Vec<Unit>,
    buffers: Buffers,
    /// Most operands of one call.
    most: usize,
}

impl Sequence {
    /// The buffers that a run works on.
    pub fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// Calls of a run, each over all slices.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// What the sequence computes, on one byte a unit of every input: one byte a unit of every
    /// output. The oracle, independent of every kernel; units that no call writes are zero.
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
        let at = |unit: &Unit| starts[unit.region as usize] + unit.unit as usize;
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
                Work::Block { routine, operands, shifts } => {
                    let block = self.routines[*routine].block();
                    for shift in &self.shifts[shifts.clone()] {
                        let places: Vec<usize> = self.operands[operands.clone()]
                            .iter()
                            .zip(block.sides())
                            .map(|(unit, &side)| at(unit) + shift.of(side) as usize)
                            .collect();
                        let before: Vec<u8> = places.iter().map(|&place| bytes[place]).collect();
                        for (operand, after) in block.eval(&before).into_iter().enumerate() {
                            if block.uses(operand as u32).1 {
                                bytes[places[operand]] = after;
                            }
                        }
                    }
                }
            }
        }
        let first = expected;
        Ok(bytes[first..first + outs.iter().sum::<usize>()].to_vec())
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
        let packet = self.unit_len(inputs, outputs)?;
        let layout = Layout { packet, blocks: 1, steps: [0, 0] };
        self.walk(inputs, outputs, layout, slice, footprint)
    }

    /// Runs over buffers that are blocks one after the other, each of which holds every unit as a
    /// packet of `packet` bytes: as if each block were a buffer of its own. All inputs have one
    /// number of units, and so have all outputs.
    ///
    /// # Errors
    /// As [`Sequence::run`]; a buffer is not whole blocks.
    ///
    /// ```
    /// # use kiln_gf::{Buffers, Call, Footprint, Listing, Matrix, Product, Sequence, Unit, active};
    /// // The two units of a block are added up; a buffer of two blocks.
    /// let sum = Product::new(active()?, &Matrix::new(1, 2, vec![1, 1])?);
    /// let operands = [(0, 0), (0, 1), (1, 0)];
    /// let operands = operands.map(|(region, unit)| Unit { region, unit }).to_vec();
    /// let calls = vec![Call::Product { product: 0, sources: 0..2, results: 2..3 }];
    /// let listing = Listing { products: vec![sum], calls, operands, ..Listing::default() };
    /// let buffers = Buffers { inputs: vec![2], outputs: vec![1], scratch: 0 };
    /// let mut out = [0; 4];
    /// let data: &[u8] = &[1, 2, 4, 8, 16, 32, 64, 128];
    /// let sequence = Sequence::new(listing, buffers)?;
    /// sequence.run_packets(&[data], &mut [&mut out], 2, 4096, Footprint::Cached)?;
    /// assert_eq!(out, [1 + 4, 2 + 8, 16 + 64, 32 + 128]);
    /// # Ok::<(), kiln_gf::GfError>(())
    /// ```
    pub fn run_packets(
        &self,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        packet: usize,
        slice: usize,
        footprint: Footprint,
    ) -> Result<(), GfError> {
        let layout = self.layout(inputs, outputs, packet)?;
        self.walk(inputs, outputs, layout, slice, footprint)
    }

    /// How buffers of whole blocks are cut.
    pub(super) fn layout(
        &self,
        inputs: &[&[u8]],
        outputs: &[&mut [u8]],
        packet: usize,
    ) -> Result<Layout, GfError> {
        let unit_len = self.unit_len(inputs, outputs)?;
        let (blocks, packet) = match unit_len.checked_rem(packet) {
            Some(0) => (unit_len / packet, packet),
            _ => return Err(GfError::Shape { what: "packet", expected: unit_len, found: packet }),
        };
        let mut steps = [0, 0];
        for (step, units) in steps.iter_mut().zip([&self.buffers.inputs, &self.buffers.outputs]) {
            let first = units.first().copied().unwrap_or(0);
            if let Some(&found) = units.iter().find(|&&units| units != first) {
                return Err(GfError::Shape { what: "units of a block", expected: first, found });
            }
            *step = first * packet;
        }
        Ok(Layout { packet, blocks, steps })
    }

    /// Runs over buffers whose lengths were checked.
    fn walk(
        &self,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        layout: Layout,
        slice: usize,
        footprint: Footprint,
    ) -> Result<(), GfError> {
        let Layout { packet, blocks, steps } = layout;
        let slice = slice.clamp(1, packet.max(1));
        // An odd number of lines: equal offsets of neighbouring units do not compete for the same
        // cache sets.
        let stride = (slice.div_ceil(LINE) | 1) * LINE;
        let mut scratch = scratch::borrow(self.buffers.scratch * stride)?;
        let mut regions: Vec<Region> = Vec::with_capacity(inputs.len() + outputs.len() + 1);
        // Inputs are only read: they were checked not to be results.
        regions.extend(inputs.iter().map(|i| Region::new(i.as_ptr().cast_mut(), packet)));
        regions.extend(outputs.iter_mut().map(|o| Region::new(o.as_mut_ptr(), packet)));
        regions.push(Region::new(scratch.as_mut_ptr(), stride));
        // Only products want addresses anew for every call.
        let most = if self.products.is_empty() { 0 } else { self.most };
        let mut places = vec![ptr::null_mut(); most];
        let all = if self.routines.is_empty() { 0 } else { self.operands.len() };
        let mut all = vec![ptr::null_mut(); all];
        let together = if slice < packet { 1 } else { self.together().min(blocks) };
        let mut shifts: Vec<[usize; 3]> = Vec::with_capacity(self.shifts.len() * together);
        for block in 0..together {
            shifts.extend(self.shifts.iter().map(|shift| {
                let units =
                    [Side::Input, Side::Output, Side::Scratch].map(|s| shift.of(s) as usize);
                let [input, output, scratch] = units;
                let [input, output] = [input * packet, output * packet];
                [input + block * steps[0], output + block * steps[1], scratch * stride]
            }));
        }
        let mut done = 0;
        while done < blocks {
            let count = together.min(blocks - done);
            // The last batch may have fewer blocks.
            let shifts = &shifts[..self.shifts.len() * count];
            let pass = Pass { regions: &regions, shifts, len: packet, footprint };
            self.block(&pass, slice, &mut places, &mut all);
            for (index, region) in regions.iter_mut().enumerate().take(inputs.len() + outputs.len())
            {
                region.advance(steps[usize::from(index >= inputs.len())] * count);
            }
            done += count;
        }
        if footprint == Footprint::Memory {
            super::drain_streams();
        }
        Ok(())
    }

    /// How many blocks one pass takes: where nothing passes from call to call, blocks are
    /// repetitions of the only call.
    fn together(&self) -> usize {
        match &self.calls[..] {
            [Checked { work: Work::Block { shifts, .. }, .. }]
                if shifts.len() == self.shifts.len() =>
            {
                TOGETHER
            }
            _ => 1,
        }
    }

    /// All calls on one block of the buffers, or the only call on some of them. `all` has room for
    /// the addresses of all operands, where there are routines.
    fn block(&self, pass: &Pass<'_>, slice: usize, places: &mut [*mut u8], all: &mut [*mut u8]) {
        let mut start = 0;
        while start < pass.len {
            let len = slice.min(pass.len - start);
            let ahead = slice.min(pass.len - start - len);
            for (place, unit) in all.iter_mut().zip(&self.operands) {
                // SAFETY: the region of every operand was checked to exist.
                *place = unsafe { pass.place(unit, start) };
            }
            for (index, call) in self.calls.iter().enumerate() {
                if pass.footprint == Footprint::Memory {
                    match self.calls.get(index + 1) {
                        Some(next) => self.fetch(next, pass, all, start..start + len, 0),
                        // The next slice starts where this one ends.
                        None => {
                            let next = start + len..start + len + ahead;
                            self.fetch(&self.calls[0], pass, all, next, len);
                        }
                    }
                }
                // SAFETY: all units, moved by every shift, were checked to lie in their regions,
                // whose lengths `unit_len` checked, and the slice lies in the unit; blocks and
                // packets divide these lengths; a call was checked to write no input and nothing
                // that it uses as another operand; the borrows of the buffers outlive this call.
                unsafe { self.call(call, pass, start..start + len, places, all) };
            }
            start += len;
        }
    }

    /// One call on one slice.
    ///
    /// # Safety
    /// All its units, moved by every shift, lie in their regions, with these bytes in each,
    /// readable and, but for inputs, writable; `places` has room for its operands, and `all` has
    /// the addresses of those of blocks.
    unsafe fn call(
        &self,
        call: &Checked,
        pass: &Pass<'_>,
        bytes: Range<usize>,
        places: &mut [*mut u8],
        all: &[*mut u8],
    ) {
        let len = bytes.len();
        // SAFETY: the caller promises that the region of every operand exists.
        let at = |unit: &Unit| unsafe { pass.place(unit, bytes.start) };
        let memory = pass.footprint == Footprint::Memory;
        match &call.work {
            Work::Product { product, sources, results, .. } => {
                let (from, to) = places.split_at_mut(sources.len());
                for (place, unit) in from.iter_mut().zip(&self.operands[sources.clone()]) {
                    *place = at(unit);
                }
                for (place, unit) in to.iter_mut().zip(&self.operands[results.clone()]) {
                    *place = at(unit);
                }
                let (from, to) = (cast_const(from), &mut to[..results.len()]);
                let product = &self.products[*product];
                // SAFETY: as the caller promises; operands were checked when the sequence was made.
                unsafe { product.execute(from, to, len, false, call.last && memory) };
            }
            Work::Block { routine, operands, shifts } => {
                let routine = &self.routines[*routine];
                let (slots, shifts) = (&all[operands.clone()], self.shifts_of(shifts, pass));
                let stream = memory && call.last && lines(routine, slots, shifts);
                let job = Job { slots, shifts, len, memory, stream };
                // SAFETY: as above.
                unsafe { routine.execute(&job) };
            }
        }
    }

    /// The repetitions of a call, in bytes.
    fn shifts_of<'a>(&self, shifts: &Range<usize>, pass: &Pass<'a>) -> &'a [[usize; 3]] {
        match self.together() {
            1 => &pass.shifts[shifts.clone()],
            _ => pass.shifts,
        }
    }

    /// Asks for the inputs that a call is the first to read: all of a product's, of a block's those
    /// of the first vectors, since its code asks for the others. `all` has the addresses of blocks'
    /// operands, `ahead` bytes before those that are asked for.
    fn fetch(
        &self,
        call: &Checked,
        pass: &Pass<'_>,
        all: &[*mut u8],
        bytes: Range<usize>,
        ahead: usize,
    ) {
        match &call.work {
            Work::Product { fresh, .. } => {
                for unit in &self.fresh[fresh.clone()] {
                    let from = pass.regions[unit.region as usize].unit(unit.unit);
                    super::prefetch(from.wrapping_add(bytes.start), bytes.len());
                }
            }
            Work::Block { routine, operands, shifts } => {
                let len = bytes.len().min(FETCHED);
                let sides = self.routines[*routine].block().sides();
                let slots = all[operands.clone()].iter().zip(sides);
                let count = FETCHED / len.next_multiple_of(LINE).max(LINE);
                for (slot, _) in slots.filter(|(_, side)| **side == Side::Input) {
                    for shift in self.shifts_of(shifts, pass).iter().take(count) {
                        let from = slot.wrapping_add(shift[Side::Input as usize] + ahead);
                        super::prefetch(from, len);
                    }
                }
            }
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

/// The same addresses, for reading.
fn cast_const(places: &mut [*mut u8]) -> &mut [*const u8] {
    let (start, len) = (places.as_mut_ptr(), places.len());
    // SAFETY: both kinds of pointers have one layout, and the borrow is handed on.
    unsafe { std::slice::from_raw_parts_mut(start.cast(), len) }
}

/// Whether all outputs of a block start at multiples of 64, in all repetitions.
fn lines(routine: &Routine, slots: &[*mut u8], shifts: &[[usize; 3]]) -> bool {
    let sides = slots.iter().zip(routine.block().sides());
    let mut outputs = sides.filter(|(_, side)| **side == Side::Output);
    shifts.iter().all(|shift| shift[Side::Output as usize].is_multiple_of(LINE))
        && outputs.all(|(slot, _)| slot.addr().is_multiple_of(LINE))
}

/// How units lie in the buffers of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// Bytes of a unit in a block.
    packet: usize,
    pub(super) blocks: usize,
    /// Bytes from block to block, in inputs and in outputs.
    pub(super) steps: [usize; 2],
}

/// What is the same for all calls on a block, or on those that are taken together.
struct Pass<'a> {
    regions: &'a [Region],
    /// As the sequence's, in bytes, by side; for every block where they are taken together.
    shifts: &'a [[usize; 3]],
    /// Bytes of a unit.
    len: usize,
    footprint: Footprint,
}

impl Pass<'_> {
    /// Byte `start` of a unit; scratch holds one slice only, so there it is byte 0.
    ///
    /// # Safety
    /// The unit's region exists.
    unsafe fn place(&self, unit: &Unit, start: usize) -> *mut u8 {
        let region = unit.region as usize;
        let start = if region + 1 == self.regions.len() { 0 } else { start };
        // SAFETY: as promised.
        unsafe { self.regions.get_unchecked(region) }.unit(unit.unit).wrapping_add(start)
    }
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
