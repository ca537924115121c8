//! Walking through the buffers of a run, slice by slice.

use std::{ops::Range, ptr};

use smallvec::{SmallVec, smallvec};

use super::{Buffers, Checked, KernelProgram, LINE, TOGETHER, Tables, Unit, Work, scratch};
use crate::block::Side;
use crate::kernel::engine::{Distances, Job, Operands, Slot};
use crate::kernel::fetch;
use crate::program::Routine;
use crate::tuning::Fetch;
use crate::{Caches, GfError, TemporalHint, kernel, working_set};

/// Buffers of a run that need no allocation: on a few KiB allocations take as long as the work.
const FEW: usize = 24;
/// Bytes of an entry of a table.
const ENTRY: usize = size_of::<usize>();
/// A slot that is still to be filled.
const NOWHERE: Slot = Slot { start: ptr::null_mut(), entry: 0 };

impl KernelProgram {
    /// Returns how buffers of whole blocks are cut.
    pub(in crate::program) fn layout(
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
        hint: TemporalHint,
    ) -> Result<(), GfError> {
        let Layout { packet, blocks, steps } = layout;
        let slice = slice.clamp(1, packet.max(1));
        let stride = stride(slice, packet);
        let mut scratch = scratch::borrow(self.buffers.scratch * stride)?;
        let mut regions: SmallVec<[Region; FEW]> = SmallVec::new();
        // Inputs are only read: they were checked not to be results.
        regions.extend(inputs.iter().map(|i| Region::new(i.as_ptr().cast_mut(), packet)));
        regions.extend(outputs.iter_mut().map(|o| Region::new(o.as_mut_ptr(), packet)));
        regions.push(Region::new(scratch.as_mut_ptr(), stride));
        let mut made = Tables::default();
        let Tables { of: tables, shifts, .. } = self.tables([packet, stride], &mut made);
        let mut room = self.room(regions.len());
        let together = if slice < packet { 1 } else { self.together().min(blocks) };
        // Blocks that are taken together are repetitions further on.
        let mut of_blocks: SmallVec<[Distances; 4]> = SmallVec::new();
        if together > 1 {
            of_blocks.extend((0..together).flat_map(|block| {
                let moved = move |&[inputs, outputs, scratch, results]: &Distances| {
                    [inputs + block * steps[0], outputs + block * steps[1], scratch, results]
                };
                shifts.iter().map(moved)
            }));
        }
        let shifts = if together > 1 { &of_blocks[..] } else { &shifts[..] };
        // Repetitions with lists load inputs again.
        let again = !self.records.is_empty();
        let fetches = hint == TemporalHint::NonTemporal
            || Caches::here().fetch(working_set(inputs, outputs), again);
        let mut done = 0;
        while done < blocks {
            let count = together.min(blocks - done);
            // The last batch may have fewer blocks.
            let shifts = &shifts[..self.shifts.len() * count];
            let strides = [packet, stride];
            let pass = Pass {
                regions: &regions,
                inputs: inputs.len(),
                shifts,
                strides,
                tables: [&tables[0], &tables[1]],
                dense: self.is_dense([packet, stride]),
                len: packet,
                hint,
                fetches,
            };
            self.block(&pass, slice, &mut room);
            for (index, region) in regions.iter_mut().enumerate().take(inputs.len() + outputs.len())
            {
                region.advance(steps[usize::from(index >= inputs.len())] * count);
            }
            done += count;
        }
        if hint == TemporalHint::NonTemporal {
            kernel::drain_streams();
        }
        Ok(())
    }

    fn room(&self, regions: usize) -> AddressBuffers {
        // Only products want addresses anew for every call.
        let most = if self.products.is_empty() { 0 } else { self.most };
        let (moved, ordered) = match self.is_ordered() {
            true => (0, self.moved),
            false => (self.moved, 0),
        };
        AddressBuffers {
            places: smallvec![ptr::null_mut(); most],
            all: smallvec![ptr::null_mut(); moved],
            slots: vec![NOWHERE; ordered],
            bases: smallvec![ptr::null_mut(); regions],
        }
    }

    /// Returns whether units lie in other places than their numbers say.
    fn is_ordered(&self) -> bool {
        self.order.iter().any(|order| !order.is_empty())
    }

    /// Returns where units of such lengths lie: the tables that are kept, or `made` now.
    fn tables<'a>(&'a self, strides: [usize; 2], made: &'a mut Tables) -> &'a Tables {
        for kept in &self.tables {
            let kept = kept.get_or_init(|| self.make_tables(strides));
            if kept.strides == strides {
                return kept;
            }
        }
        *made = self.make_tables(strides);
        made
    }

    fn make_tables(&self, strides: [usize; 2]) -> Tables {
        let [packet, stride] = strides;
        let Buffers { inputs, outputs, .. } = &self.buffers;
        let mut of = [Vec::new(), Vec::new()];
        if self.is_ordered() || !self.records.is_empty() {
            for ((table, order), units) in of.iter_mut().zip(&self.order).zip([inputs, outputs]) {
                let units = units.iter().copied().max().unwrap_or(0);
                match order.is_empty() {
                    true => table.extend((0..units).map(|unit| unit * packet)),
                    false => table.extend(order.iter().map(|&unit| unit as usize * packet)),
                }
            }
        }
        // Inputs and outputs are counted in entries where tables say where units lie.
        let unit = if self.is_ordered() { ENTRY } else { packet };
        let shifts = self.shifts.iter().map(|shift| {
            let [input, output, scratch, results] =
                [Side::Input, Side::Output, Side::Scratch, Side::Result]
                    .map(|side| shift.of(side) as usize);
            [input * unit, output * unit, scratch * stride, results * stride]
        });
        let mut shifts: Vec<Distances> = shifts.collect();
        if self.is_dense(strides) {
            // The first shifts of a call are then those of its runs.
            for call in &self.calls {
                let Work::Block { shifts: all, run, .. } = &call.work else { continue };
                for (to, from) in all.clone().zip(all.clone().step_by(*run)) {
                    shifts[to] = shifts[from];
                }
            }
        }
        Tables { strides, of, shifts }
    }

    /// Returns whether runs of repetitions are one repetition on longer units: where whole units
    /// follow each other in scratch as they do in the buffers. A unit shorter than a vector takes
    /// as long as a whole one, with AVX2 ten times as long.
    fn is_dense(&self, [packet, stride]: [usize; 2]) -> bool {
        packet == stride && !self.is_ordered() && self.together() == 1
    }

    /// Returns how many blocks one pass takes: where nothing passes from call to call, blocks are
    /// repetitions of the only call.
    fn together(&self) -> usize {
        if self.is_ordered() {
            return 1;
        }
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
    fn block(&self, pass: &Pass<'_>, slice: usize, room: &mut AddressBuffers) {
        let mut start = 0;
        while start < pass.len {
            let len = slice.min(pass.len - start);
            let ahead = slice.min(pass.len - start - len);
            for (place, unit) in room.all.iter_mut().zip(&self.operands) {
                // SAFETY: the region of every operand was checked to exist.
                *place = unsafe { pass.place(unit, start) };
            }
            for (slot, unit) in room.slots.iter_mut().zip(&self.operands) {
                // SAFETY: as above.
                *slot = unsafe { pass.slot(unit, start) };
            }
            for (region, base) in (0..).zip(&mut room.bases) {
                // SAFETY: there is a base for every region.
                *base = unsafe { pass.slot(&Unit { region, unit: 0 }, start) }.start;
            }
            for (index, call) in self.calls.iter().enumerate() {
                if pass.fetches {
                    match self.calls.get(index + 1) {
                        Some(next) => self.fetch(next, pass, room, start..start + len, 0),
                        // The next slice starts where this one ends.
                        None => {
                            let next = start + len..start + len + ahead;
                            self.fetch(&self.calls[0], pass, room, next, len);
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
    unsafe fn call(
        &self,
        call: &Checked,
        pass: &Pass<'_>,
        bytes: Range<usize>,
        room: &mut AddressBuffers,
    ) {
        let len = bytes.len();
        // SAFETY: the caller promises that the region of every operand exists.
        let at = |unit: &Unit| unsafe { pass.place(unit, bytes.start) };
        let (memory, streams) = (pass.fetches, pass.hint == TemporalHint::NonTemporal);
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
                unsafe { product.execute(from, to, len, false, call.last && streams) };
            }
            Work::Block { routine, operands, shifts, run } => {
                let routine = &self.routines[*routine];
                let (shifts, run) = self.shifts_of(shifts, *run, pass);
                let len = len * run;
                let (stream, operands) = match room.slots.get(operands.clone()) {
                    Some(slots) if self.is_ordered() => {
                        let stream = streams && call.last && pass.in_lines(bytes.start);
                        (stream, Operands::Ordered { slots, shifts, tables: pass.tables })
                    }
                    _ => {
                        let slots = &room.all[operands.clone()];
                        let stream = streams && call.last && lines(routine, slots, shifts);
                        (stream, Operands::Moved { slots, shifts })
                    }
                };
                // SAFETY: as above.
                unsafe { routine.execute(&Job { operands, len, memory, stream }) };
            }
            Work::Each { routine, records, count, .. } => {
                let operands = Operands::Listed {
                    records: &self.records[records.clone()],
                    regions: &room.bases,
                    tables: pass.tables,
                    stride: pass.strides[1],
                    count: *count,
                    dense: pass.strides[0] == pass.strides[1] && !self.is_ordered(),
                };
                let stream = streams && call.last && pass.in_lines(bytes.start);
                // SAFETY: as above.
                unsafe { self.routines[*routine].execute(&Job { operands, len, memory, stream }) };
            }
        }
    }

    /// The repetitions of a call, in bytes, and how many of them each stands for.
    fn shifts_of<'a>(
        &self,
        shifts: &Range<usize>,
        run: usize,
        pass: &Pass<'a>,
    ) -> (&'a [Distances], usize) {
        let run = if pass.dense { run } else { 1 };
        match self.together() {
            1 => (&pass.shifts[shifts.start..][..shifts.len() / run], run),
            _ => (pass.shifts, run),
        }
    }

    /// Asks for the inputs that a call is the first to read: all of a product's, of a block's those
    /// of the first vectors, since its code asks for the others. `room` has the addresses of
    /// blocks' operands, `ahead` bytes before those that are asked for.
    fn fetch(
        &self,
        call: &Checked,
        pass: &Pass<'_>,
        room: &AddressBuffers,
        bytes: Range<usize>,
        ahead: usize,
    ) {
        match &call.work {
            Work::Product { fresh, .. } => {
                for unit in &self.fresh[fresh.clone()] {
                    // SAFETY: the region of every operand was checked to exist.
                    let from = unsafe { pass.place(unit, bytes.start) };
                    fetch::prefetch(from, bytes.len());
                }
            }
            Work::Block { routine, operands, shifts, run } => {
                // As many as its code takes before what it asks for is there.
                let block = self.routines[*routine].block();
                let (Fetch { level, lines }, sides) = (Fetch::of(block), block.sides());
                let fetched = lines * LINE;
                let (shifts, run) = self.shifts_of(shifts, *run, pass);
                let len = (bytes.len() * run).min(fetched);
                let count = fetched / len.next_multiple_of(LINE).max(LINE);
                let shifts = shifts.iter().take(count);
                let inputs = || operands.clone().zip(sides).filter(|(_, s)| **s == Side::Input);
                for shift in shifts.map(|shift| shift[Side::Input as usize]) {
                    for (operand, _) in inputs() {
                        let from = match room.slots.get(operand) {
                            Some(slot) => {
                                let entry = (slot.entry + shift) / ENTRY;
                                slot.start.wrapping_add(pass.tables[0][entry])
                            }
                            None => room.all[operand].wrapping_add(shift),
                        };
                        fetch::prefetch_into(level, from.wrapping_add(ahead), len);
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

/// Bytes from unit to unit of scratch. An odd number of lines: equal offsets of neighbouring units
/// do not compete for the same cache sets.
fn stride(slice: usize, packet: usize) -> usize {
    let odd = (slice.div_ceil(LINE) | 1) * LINE;
    match slice == packet {
        true if packet < LINE => packet,
        // As long as a unit only where a slice is one: see `is_dense`.
        false if odd == packet => odd + 2 * LINE,
        _ => odd,
    }
}

/// The same addresses, for reading.
fn cast_const(places: &mut [*mut u8]) -> &mut [*const u8] {
    let (start, len) = (places.as_mut_ptr(), places.len());
    // SAFETY: both kinds of pointers have one layout, and the borrow is handed on.
    unsafe { std::slice::from_raw_parts_mut(start.cast(), len) }
}

/// Returns whether all outputs of a block start at multiples of 64, in all repetitions.
fn lines(routine: &Routine, slots: &[*mut u8], shifts: &[Distances]) -> bool {
    let sides = slots.iter().zip(routine.block().sides());
    let mut outputs = sides.filter(|(_, side)| **side == Side::Output);
    shifts.iter().all(|shift| shift[Side::Output as usize].is_multiple_of(LINE))
        && outputs.all(|(slot, _)| slot.addr().is_multiple_of(LINE))
}

/// Layout of units in the buffers of a run.
#[derive(Debug, Clone, Copy)]
pub(in crate::program) struct Layout {
    /// Bytes of a unit in a block.
    pub(super) packet: usize,
    pub(in crate::program) blocks: usize,
    /// Bytes from block to block, in inputs and in outputs.
    pub(in crate::program) steps: [usize; 2],
}

/// State that is the same for all calls on a block, or on those that are taken together.
struct Pass<'a> {
    regions: &'a [Region],
    /// Number of them that are inputs.
    inputs: usize,
    /// As the sequence's, in bytes, by side; for every block where they are taken together. In
    /// bytes of table entries where there are tables.
    shifts: &'a [Distances],
    /// Bytes from unit to unit, of inputs and outputs, and of scratch.
    strides: [usize; 2],
    /// Bytes from the start of a region to each unit, of inputs and outputs; empty without orders.
    tables: [&'a [usize]; 2],
    /// True if the shifts are those of whole runs.
    dense: bool,
    /// Bytes of a unit.
    len: usize,
    hint: TemporalHint,
    /// True if inputs are fetched ahead.
    fetches: bool,
}

/// Memory for the addresses of a run.
struct AddressBuffers {
    /// Of the operands of one product.
    places: SmallVec<[*mut u8; FEW]>,
    /// Of all operands of blocks that are moved.
    all: SmallVec<[*mut u8; FEW]>,
    /// The same where tables say where units lie.
    slots: Vec<Slot>,
    /// Of the first unit of each region, at the start of the slice.
    bases: SmallVec<[*mut u8; FEW]>,
}

impl Pass<'_> {
    /// Byte `start` of a unit; scratch holds one slice only, so there it is byte 0.
    ///
    /// # Safety
    /// The unit's region exists.
    unsafe fn place(&self, unit: &Unit, start: usize) -> *mut u8 {
        let (region, at) = (unit.region as usize, unit.unit as usize);
        // SAFETY: as promised.
        let found = unsafe { self.regions.get_unchecked(region) };
        let far = match self.side(region) {
            Side::Scratch | Side::Result => return found.base.wrapping_add(at * found.stride),
            side => self.tables[side as usize].get(at).copied(),
        };
        found.base.wrapping_add(far.unwrap_or(at * found.stride)).wrapping_add(start)
    }

    /// The unit's region and where its table entry is; in scratch, the unit's own place.
    ///
    /// # Safety
    /// The unit's region exists.
    unsafe fn slot(&self, unit: &Unit, start: usize) -> Slot {
        let region = unit.region as usize;
        // SAFETY: as promised.
        let base = unsafe { self.regions.get_unchecked(region) }.base;
        match self.side(region) {
            Side::Scratch | Side::Result => {
                // SAFETY: as promised.
                Slot { start: unsafe { self.place(unit, start) }, entry: 0 }
            }
            _ => Slot { start: base.wrapping_add(start), entry: unit.unit as usize * ENTRY },
        }
    }

    fn side(&self, region: usize) -> Side {
        match region {
            region if region < self.inputs => Side::Input,
            region if region + 1 < self.regions.len() => Side::Output,
            _ => Side::Scratch,
        }
    }

    /// Returns whether byte `start` of all units of outputs lies at a multiple of 64.
    fn in_lines(&self, start: usize) -> bool {
        let outputs = &self.regions[self.inputs..self.regions.len() - 1];
        self.strides[0].is_multiple_of(LINE)
            && outputs.iter().all(|r| (r.base.addr().wrapping_add(start)).is_multiple_of(LINE))
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

    fn advance(&mut self, len: usize) {
        self.base = self.base.wrapping_add(len);
    }
}
