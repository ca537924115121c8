//! Walking through the buffers of a run, slice by slice.

use std::ops::Range;
use std::ptr;

use smallvec::{SmallVec, smallvec};

use super::{Checked, FETCHED, Footprint, LINE, Sequence, TOGETHER, Unit, Work, scratch};
use crate::GfError;
use crate::kernel::engine::{Job, Operands};
use crate::kernel::{self, Routine, Side};

/// Buffers of a run that need no allocation: on a few KiB allocations take as long as the work.
const FEW: usize = 24;

impl Sequence {
    /// How buffers of whole blocks are cut.
    pub(in crate::kernel) fn layout(
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
    pub(super) fn walk(
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
        let mut regions: SmallVec<[Region; FEW]> = SmallVec::new();
        // Inputs are only read: they were checked not to be results.
        regions.extend(inputs.iter().map(|i| Region::new(i.as_ptr().cast_mut(), packet)));
        regions.extend(outputs.iter_mut().map(|o| Region::new(o.as_mut_ptr(), packet)));
        regions.push(Region::new(scratch.as_mut_ptr(), stride));
        // Only products want addresses anew for every call.
        let most = if self.products.is_empty() { 0 } else { self.most };
        let mut room = Room {
            places: smallvec![ptr::null_mut(); most],
            all: smallvec![ptr::null_mut(); self.moved],
            bases: smallvec![ptr::null_mut(); regions.len()],
        };
        let together = if slice < packet { 1 } else { self.together().min(blocks) };
        let mut shifts: SmallVec<[[usize; 3]; 4]> =
            SmallVec::with_capacity(self.shifts.len() * together);
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
            let strides = [packet, stride];
            let pass = Pass { regions: &regions, shifts, strides, len: packet, footprint };
            self.block(&pass, slice, &mut room);
            for (index, region) in regions.iter_mut().enumerate().take(inputs.len() + outputs.len())
            {
                region.advance(steps[usize::from(index >= inputs.len())] * count);
            }
            done += count;
        }
        if footprint == Footprint::Memory {
            kernel::drain_streams();
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

    /// All calls on one block of the buffers, or the only call on some of them.
    fn block(&self, pass: &Pass<'_>, slice: usize, room: &mut Room) {
        let mut start = 0;
        while start < pass.len {
            let len = slice.min(pass.len - start);
            let ahead = slice.min(pass.len - start - len);
            for (place, unit) in room.all.iter_mut().zip(&self.operands) {
                // SAFETY: the region of every operand was checked to exist.
                *place = unsafe { pass.place(unit, start) };
            }
            for (region, base) in (0..).zip(&mut room.bases) {
                // SAFETY: there is a base for every region.
                *base = unsafe { pass.place(&Unit { region, unit: 0 }, start) };
            }
            for (index, call) in self.calls.iter().enumerate() {
                if pass.footprint == Footprint::Memory {
                    match self.calls.get(index + 1) {
                        Some(next) => self.fetch(next, pass, &room.all, start..start + len, 0),
                        // The next slice starts where this one ends.
                        None => {
                            let next = start + len..start + len + ahead;
                            self.fetch(&self.calls[0], pass, &room.all, next, len);
                        }
                    }
                }
                // SAFETY: all units, moved by every shift, were checked to lie in their regions,
                // whose lengths `unit_len` checked, and the slice lies in the unit; blocks and
                // packets divide these lengths; a call was checked to write no input and nothing
                // that it uses as another operand; the borrows of the buffers outlive this call.
                unsafe { self.call(call, pass, start..start + len, room) };
            }
            start += len;
        }
    }

    /// One call on one slice.
    ///
    /// # Safety
    /// All its units, moved by every shift, lie in their regions, with these bytes in each,
    /// readable and, but for inputs, writable; `room` has place for its operands, the addresses of
    /// those of blocks that are moved, and those of all regions.
    unsafe fn call(&self, call: &Checked, pass: &Pass<'_>, bytes: Range<usize>, room: &mut Room) {
        let len = bytes.len();
        // SAFETY: the caller promises that the region of every operand exists.
        let at = |unit: &Unit| unsafe { pass.place(unit, bytes.start) };
        let memory = pass.footprint == Footprint::Memory;
        match &call.work {
            Work::Product { product, sources, results, .. } => {
                let (from, to) = room.places.split_at_mut(sources.len());
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
                let (slots, shifts) = (&room.all[operands.clone()], self.shifts_of(shifts, pass));
                let stream = memory && call.last && lines(routine, slots, shifts);
                let operands = Operands::Moved { slots, shifts };
                // SAFETY: as above.
                unsafe { routine.execute(&Job { operands, len, memory, stream }) };
            }
            Work::Each { routine, operands, factors, count } => {
                let (regions, strides) = (&room.bases[..], pass.strides);
                let operands = Operands::Listed {
                    units: &self.operands[operands.clone()],
                    regions,
                    strides,
                    factors: &self.factors[factors.clone()],
                    count: *count,
                };
                let outputs = self.buffers.inputs.len()..regions.len() - 1;
                let stream = memory
                    && call.last
                    && strides[0].is_multiple_of(LINE)
                    && regions[outputs].iter().all(|base| base.addr().is_multiple_of(LINE));
                // SAFETY: as above.
                unsafe { self.routines[*routine].execute(&Job { operands, len, memory, stream }) };
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
                    kernel::prefetch(from.wrapping_add(bytes.start), bytes.len());
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
                        kernel::prefetch(from, len);
                    }
                }
            }
            // Code that finds operands in lists asks for what it reads by itself.
            Work::Each { .. } => {}
        }
    }

    /// Checks all buffers and returns the bytes of a unit.
    pub(super) fn unit_len(
        &self,
        inputs: &[&[u8]],
        outputs: &[&mut [u8]],
    ) -> Result<usize, GfError> {
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
pub(in crate::kernel) struct Layout {
    /// Bytes of a unit in a block.
    pub(super) packet: usize,
    pub(in crate::kernel) blocks: usize,
    /// Bytes from block to block, in inputs and in outputs.
    pub(in crate::kernel) steps: [usize; 2],
}

/// What is the same for all calls on a block, or on those that are taken together.
struct Pass<'a> {
    regions: &'a [Region],
    /// As the sequence's, in bytes, by side; for every block where they are taken together.
    shifts: &'a [[usize; 3]],
    /// Bytes from unit to unit, of inputs and outputs, and of scratch.
    strides: [usize; 2],
    /// Bytes of a unit.
    len: usize,
    footprint: Footprint,
}

/// Where a run puts addresses.
struct Room {
    /// Of the operands of one product.
    places: SmallVec<[*mut u8; FEW]>,
    /// Of all operands of blocks that are moved.
    all: SmallVec<[*mut u8; FEW]>,
    /// Of the first unit of each region, at the start of the slice.
    bases: SmallVec<[*mut u8; FEW]>,
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
