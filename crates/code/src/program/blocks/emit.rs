//! Writing blocks, and calls that repeat them.

use super::super::place::Places;
use super::Parts;
use crate::CodeError;
use kiln_gf::{Block, Call, Kernel, Listing, Routine, Shift, Side, Unit, Value};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

/// How many calls back a block is looked for that another one could repeat.
const NEIGHBOURS: usize = 8;

pub(super) struct Emitter<'a> {
    parts: &'a Parts<'a>,
    places: Places,
    kernel: &'static dyn Kernel,
    /// Results of sums that later blocks read.
    kept: Vec<bool>,
    /// Sums of which a part is done.
    begun: Vec<bool>,
    /// Kinds of blocks, by their number.
    kinds: HashMap<Block, u32>,
    /// The places of outputs that wait in scratch.
    deferred: HashMap<u32, Unit>,
    calls: Vec<Repeats>,
    /// A vertex that a block needs and that has no place: a mistake in this module.
    missing: Option<u32>,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(
        parts: &'a Parts<'a>,
        places: Places,
        kernel: &'static dyn Kernel,
    ) -> Emitter<'a> {
        let mut emitter = Emitter {
            parts,
            places,
            kernel,
            kept: vec![false; parts.dag.vertices()],
            begun: vec![false; parts.sums.len()],
            kinds: HashMap::new(),
            deferred: HashMap::new(),
            calls: Vec::new(),
            missing: None,
        };
        for &sum in &parts.sums {
            emitter.keep_givens(parts.steps[sum].sources, usize::MAX);
        }
        for &(_, output) in parts.dag.outputs() {
            emitter.keep_givens(&[output], parts.level[output as usize]);
        }
        emitter
    }

    /// Notes that what these vertices are made of, up to a level, is needed later.
    fn keep_givens(&mut self, vertices: &[u32], below: usize) {
        for &vertex in vertices {
            let mut found = BTreeSet::new();
            self.parts.givens(vertex, &mut found);
            found.retain(|&given| self.parts.level[given as usize] < below);
            found.iter().for_each(|&given| self.kept[given as usize] = true);
        }
    }

    /// Notes that blocks to come make these vertices from what they are made of. What is an output
    /// as it is waits in scratch until then: so blocks are alike, whichever results they end.
    pub(super) fn keep_sources(&mut self, vertices: &[u32]) {
        for &vertex in vertices {
            if let (true, Some(sum)) =
                (self.places.is_output(vertex as usize), self.parts.sum_that_makes(vertex))
            {
                let row = vertex - self.parts.steps[self.parts.sums[sum]].first;
                let slot = self.parts.slot(sum, row as usize);
                self.deferred
                    .extend(self.places.defer(vertex as usize, slot).map(|place| (vertex, place)));
            }
        }
        self.keep_givens(vertices, usize::MAX);
    }

    /// Adds a block: parts of sums, over the sources that `columns` accepts; sums that end here;
    /// vertices that are made of them and stored.
    pub(super) fn block(
        &mut self,
        sums: &[usize],
        columns: &dyn Fn(u32) -> bool,
        ends: &dyn Fn(usize) -> bool,
        made: &[u32],
        tile: usize,
    ) {
        let mut line = Line::default();
        for &sum in sums {
            let step = self.parts.steps[self.parts.sums[sum]];
            let columns: Vec<(usize, u32)> =
                step.sources.iter().copied().enumerate().filter(|&(_, s)| columns(s)).collect();
            let values: Vec<(usize, Value)> =
                columns.iter().map(|&(c, source)| (c, self.value(&mut line, source))).collect();
            let begun = std::mem::replace(&mut self.begun[sum], true);
            for (row, vertex) in step.vertices().enumerate() {
                let slot = Unit { region: self.places.scratch, unit: self.parts.slot(sum, row) };
                let mut terms: Vec<(Value, u8)> = Vec::with_capacity(values.len() + 1);
                if begun {
                    let operand = self.operand(&mut line, slot);
                    terms.push((line.block.load(operand), 1));
                }
                terms.extend(values.iter().map(|&(c, value)| (value, step.matrix.at(row, c))));
                let total = line.block.sum(&terms);
                if !ends(sum) {
                    let operand = self.operand(&mut line, slot);
                    line.block.store(operand, total);
                    continue;
                }
                line.values.insert(vertex as u32, total);
                if self.places.get(vertex).is_none() && self.kept[vertex] {
                    self.places.keep(vertex, slot.unit);
                }
                // Outputs are stored below, or by a block to come.
                if self.places.get(vertex) == Some(slot) {
                    let operand = self.operand(&mut line, slot);
                    line.block.store(operand, total);
                }
            }
        }
        for &vertex in made {
            let value = self.value(&mut line, vertex);
            let deferred = self.deferred.get(&vertex).copied();
            if let Some(place) = deferred.or(self.places.get(vertex as usize)) {
                let operand = self.operand(&mut line, place);
                line.block.store(operand, value);
            }
        }
        self.missing = self.missing.or(line.missing);
        let Line { block, units, .. } = line;
        let number = self.kinds.len() as u32;
        let kind = *self.kinds.entry(block).or_insert(number);
        self.add(kind, units, tile);
    }

    /// Adds a repetition to the last call of its kind and tile, if no call after it uses what it
    /// uses.
    fn add(&mut self, kind: u32, units: Vec<Unit>, tile: usize) {
        let inputs = self.places.inputs;
        let used: Vec<Unit> = units.iter().filter(|u| u.region >= inputs).copied().collect();
        for repeats in self.calls.iter_mut().rev().take(NEIGHBOURS) {
            if (repeats.kind, repeats.tile) == (kind, tile) {
                repeats.used.extend(used);
                repeats.units.push(units);
                return;
            }
            if used.iter().any(|unit| repeats.used.contains(unit)) {
                break;
            }
        }
        let used = used.into_iter().collect();
        self.calls.push(Repeats { kind, tile, units: vec![units], used });
    }

    /// The value of a vertex in a block: known there, loaded, or made by small steps.
    fn value(&self, line: &mut Line, vertex: u32) -> Value {
        if let Some(&value) = line.values.get(&vertex) {
            return value;
        }
        let value = match self.parts.owner[vertex as usize] {
            Some(step) if !self.parts.is_given(vertex) => {
                let step = self.parts.steps[step];
                let row = (vertex - step.first) as usize;
                let terms: Vec<(Value, u8)> = step
                    .sources
                    .iter()
                    .enumerate()
                    .map(|(c, &source)| (self.value(line, source), step.matrix.at(row, c)))
                    .collect();
                line.block.sum(&terms)
            }
            _ => match self.places.get(vertex as usize) {
                Some(place) => {
                    let operand = self.operand(line, place);
                    line.block.load(operand)
                }
                None => {
                    line.missing = Some(vertex);
                    line.block.sum(&[])
                }
            },
        };
        line.values.insert(vertex, value);
        value
    }

    /// The operand of a block that stands for a unit.
    fn operand(&self, line: &mut Line, unit: Unit) -> u32 {
        let side = self.side(&unit);
        let Line { block, units, operands, .. } = line;
        *operands.entry(unit).or_insert_with(|| {
            units.push(unit);
            block.operand(side)
        })
    }

    fn side(&self, unit: &Unit) -> Side {
        match unit.region {
            region if region < self.places.inputs => Side::Input,
            region if region < self.places.scratch => Side::Output,
            _ => Side::Scratch,
        }
    }

    /// How many different blocks there are so far.
    pub(super) fn kinds(&self) -> usize {
        self.kinds.len()
    }

    /// All calls.
    pub(super) fn finish(self) -> Result<(Listing, Places), CodeError> {
        if let Some(vertex) = self.missing {
            return Err(CodeError::Internal(format!("vertex {vertex} is needed and not kept")));
        }
        let (mut listing, mut known) = (Listing::default(), Known::new());
        for repeats in &self.calls {
            let mut rest = &repeats.units[..];
            while let Some(first) = rest.first() {
                let moves: Vec<[i64; 3]> =
                    rest.iter().map_while(|units| self.moved(first, units)).collect();
                rest = &rest[moves.len()..];
                self.call(&mut listing, &mut known, repeats.kind, first, &moves);
            }
        }
        let mut kinds: Vec<(Block, u32)> = self.kinds.into_iter().collect();
        kinds.sort_by_key(|&(_, number)| number);
        for (block, _) in kinds {
            listing.routines.push(Routine::new(self.kernel, block)?);
        }
        Ok((listing, self.places))
    }

    /// How far operands are from those of the first repetition, if that is as far for all of a
    /// side.
    fn moved(&self, first: &[Unit], units: &[Unit]) -> Option<[i64; 3]> {
        let mut moved: [Option<i64>; 3] = [None; 3];
        for (from, to) in first.iter().zip(units) {
            let distance = i64::from(to.unit) - i64::from(from.unit);
            let known = moved[self.side(from) as usize].get_or_insert(distance);
            if from.region != to.region || *known != distance {
                return None;
            }
        }
        Some(moved.map(Option::unwrap_or_default))
    }

    /// Adds a call. Its operands are moved so that the first unit of each side is 0: calls that
    /// differ only by a move then have the same operands, and share them.
    fn call(
        &self,
        listing: &mut Listing,
        known: &mut Known,
        routine: u32,
        first: &[Unit],
        moves: &[[i64; 3]],
    ) {
        let least = [0, 1, 2].map(|side| {
            let units = first.iter().filter(|unit| self.side(unit) as usize == side);
            units.map(|unit| i64::from(unit.unit)).min().unwrap_or(0)
        });
        let units = first.iter().map(|unit| Unit {
            region: unit.region,
            unit: unit.unit - least[self.side(unit) as usize] as u32,
        });
        let operands = known.entry(units.collect()).or_insert_with_key(|units| {
            let start = listing.operands.len() as u32;
            listing.operands.extend(units);
            start..listing.operands.len() as u32
        });
        let start = listing.shifts.len() as u32;
        listing.shifts.extend(moves.iter().map(|moved| {
            let [inputs, outputs, scratch] =
                [0, 1, 2].map(|side| (moved[side] + least[side]) as u32);
            Shift { inputs, outputs, scratch }
        }));
        let shifts = start..listing.shifts.len() as u32;
        listing.calls.push(Call::Block { routine, operands: operands.clone(), shifts });
    }
}

/// Operands of calls, and where they are in the listing.
type Known = HashMap<Vec<Unit>, Range<u32>>;

/// A call in the making.
struct Repeats {
    /// The number of the block.
    kind: u32,
    tile: usize,
    /// Its operands, for each repetition.
    units: Vec<Vec<Unit>>,
    /// All of them but inputs.
    used: HashSet<Unit>,
}

/// A block while it is written.
#[derive(Default)]
struct Line {
    block: Block,
    units: Vec<Unit>,
    operands: HashMap<Unit, u32>,
    values: HashMap<u32, Value>,
    missing: Option<u32>,
}
