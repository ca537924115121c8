//! Making a sequence: everything that a run relies on is checked here.

use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use std::ops::Range;

use super::{Buffers, Call, Checked, KernelProgram, ProgramSource, Shift, Unit, Work};
use crate::GfError;
use crate::block::{Alike, Block, Side};

impl KernelProgram {
    /// Checks and keeps a program.
    ///
    /// # Errors
    /// An index is out of range; a call does not have the operands that its matrix or block asks
    /// for, writes an input, or writes a unit that it also uses as another operand; an output or
    /// scratch unit is read before it is written.
    pub fn new(source: ProgramSource, buffers: Buffers) -> Result<KernelProgram, GfError> {
        let ProgramSource { products, routines, calls, operands, shifts, factors, order } = source;
        let mut program = KernelProgram {
            products,
            routines,
            calls: Vec::with_capacity(calls.len()),
            operands,
            shifts,
            factors,
            order,
            records: Vec::new(),
            fresh: Vec::new(),
            buffers,
            tables: Default::default(),
            moved: 0,
            most: 0,
        };
        program.check_order()?;
        let mut written = Units::new(&program.buffers);
        for call in &calls {
            let work = program.check(call, &mut written)?;
            program.calls.push(Checked { work, last: false });
        }
        program.find_alike();
        program.find_last();
        program.find_fresh();
        Ok(program)
    }

    /// An order has every unit of every buffer of its side once.
    fn check_order(&self) -> Result<(), GfError> {
        let sides = [&self.buffers.inputs, &self.buffers.outputs];
        for (order, buffers) in self.order.iter().zip(sides) {
            let mut seen = vec![false; order.len()];
            for &at in order {
                match seen.get_mut(at as usize) {
                    Some(seen) if !*seen => *seen = true,
                    _ => {
                        let (what, expected, found) = ("an order", order.len(), at as usize);
                        return Err(GfError::Shape { what, expected, found });
                    }
                }
            }
            if let Some(&found) = buffers.iter().find(|&&u| !order.is_empty() && u != order.len()) {
                let (what, expected) = ("units of a buffer with an order", order.len());
                return Err(GfError::Shape { what, expected, found });
            }
        }
        Ok(())
    }

    fn check(&mut self, call: &Call, written: &mut Units) -> Result<Work, GfError> {
        let work = match call {
            Call::Product { product, sources, results } => {
                let product = in_list(*product, self.products.len(), "products of a sequence")?;
                let sources = within(sources, self.operands.len(), "operands")?;
                let results = within(results, self.operands.len(), "operands")?;
                self.products[product].check_counts(sources.len(), results.len())?;
                self.check_product(
                    &self.operands[sources.clone()],
                    &self.operands[results.clone()],
                )?;
                written.read("source", self.operands[sources.clone()].iter().copied())?;
                written.write("destination", self.operands[results.clone()].iter().copied())?;
                self.most = self.most.max(sources.len() + results.len());
                Work::Product { product, sources, results, fresh: 0..0 }
            }
            Call::Block { routine, operands, shifts } => {
                let routine = in_list(*routine, self.routines.len(), "routines of a sequence")?;
                let operands = within(operands, self.operands.len(), "operands")?;
                let shifts = within(shifts, self.shifts.len(), "shifts")?;
                let block = self.routines[routine].block();
                let (what, named) = ("named operands of a block", block.named().count());
                if named != block.sides().len() {
                    return Err(GfError::Shape {
                        what,
                        expected: block.sides().len(),
                        found: named,
                    });
                }
                let (what, found) = ("factors that a block leaves open", block.given());
                if found > 0 {
                    return Err(GfError::Shape { what, expected: 0, found });
                }
                self.check_repetitions(routine, &operands, &shifts, written)?;
                self.moved = self.moved.max(operands.end);
                let run = self.run_of(routine, &operands, &shifts);
                Work::Block { routine, operands, shifts, run }
            }
            Call::Each { routine, operands, factors } => {
                let routine = in_list(*routine, self.routines.len(), "routines of a sequence")?;
                let operands = within(operands, self.operands.len(), "operands")?;
                let factors = within(factors, self.factors.len(), "factors")?;
                let block = self.routines[routine].block();
                let count = operands.len() / block.named().count().max(1);
                let shape = |what, expected, found| match expected == found {
                    true => Ok(()),
                    false => Err(GfError::Shape { what, expected, found }),
                };
                let named = count * block.named().count();
                shape("operands of all repetitions of a block", named, operands.len())?;
                let given = count * block.given();
                shape("factors of all repetitions of a block", given, factors.len())?;
                for repetition in 0..count {
                    let (units, _) = self.repetition(block, &operands, &factors, repetition);
                    self.check_block(routine, &units)?;
                    written.block(block, &units)?;
                }
                let records = self.add_records(routine, &operands, &factors, count);
                Work::Each { routine, operands, factors, records, count }
            }
        };
        Ok(work)
    }

    /// All repetitions of a block. Those of one that loads results are each checked alone, since
    /// results move apart from the rest of scratch.
    fn check_repetitions(
        &self,
        routine: usize,
        operands: &Range<usize>,
        shifts: &Range<usize>,
        written: &mut Units,
    ) -> Result<(), GfError> {
        let block = self.routines[routine].block();
        let units = &self.operands[operands.clone()];
        let apart = block.sides().contains(&Side::Result);
        if !apart || shifts.is_empty() {
            self.check_block(routine, units)?;
        }
        for shift in &self.shifts[shifts.clone()] {
            let moved = moved(units, block.sides(), shift);
            if apart {
                self.check_block(routine, &moved)?;
            }
            written.block(block, &moved)?;
        }
        Ok(())
    }

    /// Returns how many repetitions of a block at a time could be one on longer units: each uses
    /// the units behind those of the one before, and none uses what another one stores.
    fn run_of(&self, routine: usize, operands: &Range<usize>, shifts: &Range<usize>) -> usize {
        let block = self.routines[routine].block();
        let shifts = &self.shifts[shifts.clone()];
        let sides = [Side::Input, Side::Output, Side::Scratch, Side::Result];
        let sides = sides.map(|side| (side, block.sides().contains(&side)));
        let follows = |a: &Shift, b: &Shift| {
            sides.iter().all(|&(side, used)| !used || b.of(side) == a.of(side) + 1)
        };
        let (mut run, mut near) = (0, usize::MAX);
        for shifts in shifts.chunk_by(follows) {
            (run, near) =
                (gcd(run, shifts.len()), near.min(self.near(block, operands, &shifts[0])));
        }
        if near < run { 1 } else { run.max(1) }
    }

    /// The units between something that a repetition of a block stores and its next operand.
    fn near(&self, block: &Block, operands: &Range<usize>, shift: &Shift) -> usize {
        let units = moved(&self.operands[operands.clone()], block.sides(), shift);
        let mut places: Vec<(u32, u32, bool)> = (0..)
            .zip(units)
            .map(|(operand, Unit { region, unit })| (region, unit, block.uses(operand).1))
            .collect();
        places.sort_unstable();
        let near =
            places.windows(2).filter(|pair| pair[0].0 == pair[1].0 && (pair[0].2 || pair[1].2));
        near.map(|pair| (pair[1].1 - pair[0].1) as usize).min().unwrap_or(usize::MAX)
    }

    /// Adds a record for each repetition of a call: its units, and its factors.
    fn add_records(
        &mut self,
        routine: usize,
        operands: &Range<usize>,
        factors: &Range<usize>,
        count: usize,
    ) -> Range<usize> {
        let block = self.routines[routine].block();
        let (named, given) = (block.named().count(), block.given());
        let start = self.records.len();
        for repetition in 0..count {
            let units = &self.operands[operands.clone()][repetition * named..][..named];
            let word = |unit: &Unit| u64::from(unit.unit) << 32 | u64::from(unit.region);
            self.records.extend(units.iter().map(word));
            let factors = &self.factors[factors.clone()][repetition * given..][..given];
            self.records.extend(factors.chunks(8).map(|factors| {
                factors.iter().rev().fold(0, |word, &factor| word << 8 | u64::from(factor))
            }));
        }
        start..self.records.len()
    }

    /// Tells routines called with lists which of their operands have equal units or regions in all
    /// repetitions.
    fn find_alike(&mut self) {
        let most = |units: &[usize]| units.iter().copied().max().unwrap_or(0);
        let Buffers { inputs, outputs, .. } = &self.buffers;
        // The code looks up outputs in the table of inputs then.
        let one_table = self.order[0] == self.order[1] && most(outputs) <= most(inputs);
        let mut alike: Vec<Option<Alike>> = vec![None; self.routines.len()];
        for call in &self.calls {
            let Work::Each { routine, operands, factors, count, .. } = &call.work else { continue };
            let block = self.routines[*routine].block();
            let (count_of, given) = (block.sides().len(), block.given());
            let all = alike[*routine].get_or_insert_with(|| Alike {
                operands: vec![[0; 2]; count_of],
                one_table,
                regions: vec![true; count_of],
                factors: vec![true; given],
                dependent: false,
            });
            let mut first = None;
            for repetition in 0..*count {
                let (units, given) = self.repetition(block, operands, factors, repetition);
                let keys = units.iter().map(|unit| [unit.unit, unit.region]);
                refine(&mut all.operands, &keys.collect::<Vec<_>>(), block);
                let Some((before, factors)) = first.take_if(|_| repetition % 2 == 1) else {
                    first = Some((units, given));
                    continue;
                };
                let same = |(a, b): (&Unit, &Unit)| a.region == b.region;
                narrow(&mut all.regions, before.iter().zip(&units).map(same));
                all.dependent |= depends(block, &before, &units);
                narrow(&mut all.factors, factors.iter().zip(given).map(|(a, b)| a == b));
            }
        }
        for (routine, alike) in self.routines.iter_mut().zip(alike) {
            if let Some(alike) = alike {
                *routine = routine.with_alike(alike);
            }
        }
    }

    fn check_product(&self, sources: &[Unit], results: &[Unit]) -> Result<(), GfError> {
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
        Ok(())
    }

    /// One operand for each of the block, of its side, and nothing that is stored is another
    /// operand. Where all operands of a region move together, that holds for every repetition.
    fn check_block(&self, routine: usize, units: &[Unit]) -> Result<(), GfError> {
        let block = self.routines[routine].block();
        let (what, expected, found) = ("operands of a block", block.sides().len(), units.len());
        if expected != found {
            return Err(GfError::Shape { what, expected, found });
        }
        let mut seen: HashSet<Unit> = HashSet::default();
        let mut stored: Vec<(usize, Unit)> = Vec::new();
        for (index, (unit, side)) in units.iter().zip(block.sides()).enumerate() {
            let region = unit.region;
            let (inputs, outputs) = (self.buffers.inputs.len(), self.buffers.outputs.len());
            let found = match region as usize {
                r if r < inputs => Side::Input,
                r if r < inputs + outputs => Side::Output,
                _ => Side::Scratch,
            };
            if found != *side && !(found.in_scratch() && side.in_scratch()) {
                return Err(GfError::WrongSide { index, region });
            }
            if block.uses(index as u32).1 {
                stored.push((index, *unit));
            } else {
                seen.insert(*unit);
            }
        }
        for (index, unit) in stored {
            if !seen.insert(unit) {
                let other = units.iter().position(|known| *known == unit).unwrap_or(index);
                let (side, region) = ("operand", unit.region);
                return Err(GfError::Overlap { index, side, other, region });
            }
        }
        Ok(())
    }

    /// Marks the calls whose results are outputs that nothing reads.
    fn find_last(&mut self) {
        let first = self.buffers.inputs.len() as u32;
        let outputs = first..first + self.buffers.outputs.len() as u32;
        let mut read_later: HashSet<Unit> = HashSet::default();
        for index in (0..self.calls.len()).rev() {
            let is_last = |unit: &Unit, read_later: &HashSet<Unit>| {
                outputs.contains(&unit.region) && !read_later.contains(unit)
            };
            self.calls[index].last = match &self.calls[index].work {
                Work::Product { sources, results, .. } => {
                    let results = &self.operands[results.clone()];
                    let last = results.iter().all(|unit| is_last(unit, &read_later));
                    read_later.extend(&self.operands[sources.clone()]);
                    last
                }
                Work::Block { routine, operands, shifts, .. } => {
                    let block = self.routines[*routine].block();
                    let units = &self.operands[operands.clone()];
                    self.shifts[shifts.clone()].iter().fold(true, |last, shift| {
                        let units = moved(units, block.sides(), shift);
                        last & is_last_block(block, &units, &outputs, &mut read_later)
                    })
                }
                Work::Each { routine, operands, factors, count, .. } => {
                    let block = self.routines[*routine].block();
                    (0..*count).fold(true, |last, repetition| {
                        let (units, _) = self.repetition(block, operands, factors, repetition);
                        last & is_last_block(block, &units, &outputs, &mut read_later)
                    })
                }
            };
        }
    }

    /// Notes for each product what it is the first to read.
    fn find_fresh(&mut self) {
        let mut seen: HashSet<Unit> = HashSet::default();
        for call in &mut self.calls {
            let Work::Product { sources, fresh, .. } = &mut call.work else { continue };
            let start = self.fresh.len();
            for unit in &self.operands[sources.clone()] {
                if (unit.region as usize) < self.buffers.inputs.len() && seen.insert(*unit) {
                    self.fresh.push(*unit);
                }
            }
            *fresh = start..self.fresh.len();
        }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Intersects what operands share with one more repetition: each named operand keeps the first
/// operand whose value was, and still is, equal to its own.
fn refine(alike: &mut [[u32; 2]], keys: &[[u32; 2]], block: &Block) {
    for which in 0..2 {
        let mut leaders: HashMap<(u32, u32), u32> = HashMap::default();
        for operand in block.named() {
            let at = operand as usize;
            let key = (alike[at][which], keys[at][which]);
            alike[at][which] = *leaders.entry(key).or_insert(operand);
        }
    }
}

/// Returns whether a block stores to outputs only what nothing reads; notes what it reads of them.
fn is_last_block(
    block: &Block,
    units: &[Unit],
    outputs: &Range<u32>,
    read_later: &mut HashSet<Unit>,
) -> bool {
    let mut last = true;
    let uses = (0..).zip(units).filter(|(_, unit)| outputs.contains(&unit.region));
    for (operand, unit) in uses {
        let (loaded, stored) = block.uses(operand);
        last &= !stored || !read_later.contains(unit);
        if loaded {
            read_later.insert(*unit);
            last = false;
        }
    }
    last
}

/// Returns whether one of two repetitions of a block uses what the other one stores.
fn depends(block: &Block, a: &[Unit], b: &[Unit]) -> bool {
    let stored = |units: &[Unit], others: &[Unit]| {
        let mut units = (0..).zip(units).filter(|(operand, _)| block.uses(*operand).1);
        units.any(|(_, unit)| others.contains(unit))
    };
    stored(a, b) || stored(b, a)
}

/// Keeps of what holds only what holds here, too.
fn narrow(all: &mut [bool], here: impl Iterator<Item = bool>) {
    all.iter_mut().zip(here).for_each(|(all, here)| *all &= here);
}

fn in_list(index: u32, len: usize, what: &'static str) -> Result<usize, GfError> {
    let index = index as usize;
    match index < len {
        true => Ok(index),
        false => Err(GfError::Shape { what, expected: len, found: index }),
    }
}

fn within(range: &Range<u32>, len: usize, what: &'static str) -> Result<Range<usize>, GfError> {
    let range = range.start as usize..range.end as usize;
    match range.start <= range.end && range.end <= len {
        true => Ok(range),
        false => Err(GfError::Shape { what, expected: len, found: range.end }),
    }
}

/// The units of a repetition.
fn moved(units: &[Unit], sides: &[Side], shift: &Shift) -> Vec<Unit> {
    units.iter().zip(sides).map(|(unit, &side)| unit.moved(shift.of(side))).collect()
}

/// Units that hold something.
struct Units {
    /// By region: units, and whether each was written; inputs are written from the start.
    regions: Vec<Vec<bool>>,
}

impl Units {
    fn new(buffers: &Buffers) -> Units {
        let inputs = buffers.inputs.iter().map(|&units| vec![true; units]);
        let others = buffers.outputs.iter().chain([&buffers.scratch]);
        Units { regions: inputs.chain(others.map(|&units| vec![false; units])).collect() }
    }

    fn read(
        &mut self,
        side: &'static str,
        units: impl Iterator<Item = Unit>,
    ) -> Result<(), GfError> {
        for (index, unit) in units.enumerate() {
            if !*self.at(side, index, unit)? {
                return Err(GfError::Unwritten { index, region: unit.region, unit: unit.unit });
            }
        }
        Ok(())
    }

    fn write(
        &mut self,
        side: &'static str,
        units: impl Iterator<Item = Unit>,
    ) -> Result<(), GfError> {
        for (index, unit) in units.enumerate() {
            *self.at(side, index, unit)? = true;
        }
        Ok(())
    }

    /// Returns what a repetition of a block reads and then writes.
    fn block(&mut self, block: &Block, units: &[Unit]) -> Result<(), GfError> {
        let uses = || (0..).map(|operand| block.uses(operand)).zip(units.iter().copied());
        let loads = uses().filter(|((loads, _), _)| *loads).map(|(_, unit)| unit);
        self.read("source", loads)?;
        let stores = uses().filter(|((_, stores), _)| *stores).map(|(_, unit)| unit);
        self.write("destination", stores)
    }

    fn at(&mut self, side: &'static str, index: usize, at: Unit) -> Result<&mut bool, GfError> {
        let (region, offset) = (at.region, at.unit as usize);
        let units = self.regions.get_mut(region as usize);
        let size = units.as_ref().map_or(0, |units| units.len());
        let outside = GfError::OutOfBounds { side, index, region, offset, len: 1, size };
        units.and_then(|units| units.get_mut(offset)).ok_or(outside)
    }
}
