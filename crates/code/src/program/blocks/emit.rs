//! Writing blocks, and calls that repeat them.

use super::super::place::Places;
use super::repeat::{self, EmittedBlock};
use super::{AccumulatorView, Dataflow, PlannedBlock};
use crate::{CodeError, dag::Step};
use kiln_gf::{Block, Kernel, ProgramSource, Side, Unit, Value};
use rustc_hash::FxHashMap as HashMap;
use std::collections::BTreeSet;

pub(super) struct Emitter<'a> {
    view: &'a AccumulatorView<'a>,
    places: Places,
    kernel: &'static dyn Kernel,
    /// True if registers do not hold the sums of a block.
    few_sums: bool,
    /// Results of accumulators that later blocks read.
    kept: Vec<bool>,
    /// Accumulators that have been begun.
    begun: Vec<bool>,
    /// Kinds of blocks, by their number.
    kinds: HashMap<Block, u32>,
    /// The places of outputs that wait in scratch.
    deferred: HashMap<u32, Unit>,
    written: Vec<EmittedBlock>,
    /// A vertex that a block needs and that has no place: a mistake in this module.
    missing: Option<u32>,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(
        view: &'a AccumulatorView<'a>,
        places: Places,
        kernel: &'static dyn Kernel,
    ) -> Emitter<'a> {
        let mut emitter = Emitter {
            view,
            places,
            kernel,
            few_sums: kernel.block_sums() < super::ROWS_MAX,
            kept: vec![false; view.dag.vertices()],
            begun: vec![false; view.accs.len()],
            kinds: HashMap::default(),
            deferred: HashMap::default(),
            written: Vec::new(),
            missing: None,
        };
        for &acc in &view.accs {
            emitter.keep_givens(view.steps[acc].sources, usize::MAX);
        }
        for &(_, output) in view.dag.outputs() {
            emitter.keep_givens(&[output], view.level[output as usize]);
        }
        emitter
    }

    /// Notes that what these vertices are made of, up to a level, is needed later.
    fn keep_givens(&mut self, vertices: &[u32], below: usize) {
        for &vertex in vertices {
            let mut found = BTreeSet::new();
            self.view.givens(vertex, &mut found);
            found.retain(|&given| self.view.level[given as usize] < below);
            found.iter().for_each(|&given| self.kept[given as usize] = true);
        }
    }

    /// Notes that blocks to come make these vertices from what they are made of. What is an output
    /// as it is waits in scratch until then: so blocks are alike, whichever results they end.
    pub(super) fn keep_sources(&mut self, vertices: &[u32]) {
        for &vertex in vertices {
            if let (true, Some(acc)) =
                (self.places.is_output(vertex as usize), self.view.acc_that_makes(vertex))
            {
                let row = vertex - self.view.steps[self.view.accs[acc]].first;
                let slot = self.view.slot(acc, row as usize);
                self.deferred
                    .extend(self.places.defer(vertex as usize, slot).map(|place| (vertex, place)));
            }
        }
        self.keep_givens(vertices, usize::MAX);
    }

    /// Adds an input-stationary block: adds the sources for which `columns` has a subexpression to
    /// accumulators, ends those that `ends` names, then makes and stores what is made of them and
    /// of results in scratch.
    pub(super) fn block(
        &mut self,
        planned: &PlannedBlock<'_>,
        columns: &dyn Fn(u32) -> Option<usize>,
        ends: &dyn Fn(usize) -> bool,
    ) {
        let (accs, mut line) = (planned.accs, Line::default());
        let together = match self.few_sums {
            true => self.together(accs, columns),
            false => HashMap::default(),
        };
        for &acc in accs {
            let step = self.view.steps[self.view.accs[acc]];
            let rows = self.view.rows_of(&step);
            let columns: Vec<(usize, u32)> = step
                .sources
                .iter()
                .copied()
                .enumerate()
                .filter(|&(_, s)| columns(s).is_some())
                .collect();
            let new = match self.few_sums {
                true => self.by_column(&mut line, acc, &columns, &together),
                false => {
                    let values: Vec<(usize, Value)> =
                        columns.iter().map(|&(c, s)| (c, self.value(&mut line, s))).collect();
                    let term = |row| move |&(c, value): &(usize, Value)| (value, rows.at(row, c));
                    let rows = 0..step.matrix.rows();
                    rows.map(|row| values.iter().map(term(row)).collect()).collect()
                }
            };
            self.add_rows(&mut line, acc, &new, ends(acc));
        }
        self.make(&mut line, &planned.made);
        line.beside = true;
        self.make(&mut line, &planned.beside);
        self.end(line);
    }

    /// Adds new terms to the rows of an accumulator, which then are results or lie in scratch. What
    /// lies there comes last, so that it may be added from memory.
    fn add_rows(&mut self, line: &mut Line, acc: usize, new: &[Vec<(Value, u8)>], ends: bool) {
        let step = self.view.steps[self.view.accs[acc]];
        let rows = self.view.rows_of(&step);
        let mut sums: Vec<Option<Value>> = vec![None; step.matrix.rows()];
        for row in rows.in_order() {
            let slot = self.slot(acc, row);
            let mut terms = new.get(row).cloned().unwrap_or_default();
            if ends {
                terms.extend(rows.others(row).iter().filter_map(|&other| Some((sums[other]?, 1))));
            }
            if self.begun[acc] {
                terms.push((self.loaded(line, slot), 1));
            }
            let sum = line.sum(&terms);
            sums[row] = Some(sum);
            if ends {
                self.result(line, step.first as usize + row, slot, sum);
            } else {
                let operand = self.operand(line, slot);
                line.block.store(operand, sum);
            }
        }
        self.begun[acc] = true;
    }

    /// The sources of some accumulators that belong to one subexpression, by the first of them that
    /// is wanted: made at once, what they are made of is loaded once.
    fn together(
        &self,
        accs: &[usize],
        columns: &dyn Fn(u32) -> Option<usize>,
    ) -> HashMap<u32, Vec<u32>> {
        let mut of_exprs: HashMap<usize, Vec<u32>> = HashMap::default();
        for source in accs.iter().flat_map(|&acc| self.view.steps[self.view.accs[acc]].sources) {
            if let (Some(expr), false) = (columns(*source), self.view.is_given(*source)) {
                of_exprs.entry(expr).or_default().push(*source);
            }
        }
        of_exprs.into_values().map(|sources| (sources[0], sources)).collect()
    }

    /// The sums of some columns for the rows of an accumulator, each column added to all rows at
    /// once: so few values are wanted at a time.
    fn by_column(
        &self,
        line: &mut Line,
        acc: usize,
        columns: &[(usize, u32)],
        together: &HashMap<u32, Vec<u32>>,
    ) -> Vec<Vec<(Value, u8)>> {
        let step = self.view.steps[self.view.accs[acc]];
        let rows = self.view.rows_of(&step);
        let mut totals: Vec<Option<Value>> = vec![None; step.matrix.rows()];
        for &(column, source) in columns {
            for &other in together.get(&source).into_iter().flatten() {
                self.value(line, other);
            }
            let value = self.value(line, source);
            for (row, total) in totals.iter_mut().enumerate() {
                let before = total.map(|total| (total, 1)).into_iter();
                let terms = before.chain([(value, rows.at(row, column))]);
                *total = Some(line.block.sum(&terms.collect::<Vec<(Value, u8)>>()));
            }
        }
        totals
            .into_iter()
            .map(|total| total.map(|total| (total, 1)).into_iter().collect())
            .collect()
    }

    /// The value of an operand that stands for a unit.
    fn loaded(&self, line: &mut Line, unit: Unit) -> Value {
        let operand = self.operand(line, unit);
        line.block.load(operand)
    }

    /// Adds an output-stationary block: completes accumulators, two sources at a time, so that only
    /// the accumulators stay in registers; then the vertices that are made of them.
    pub(super) fn output_stationary(&mut self, accs: &[usize], made: &[u32]) {
        let mut line = Line::default();
        let steps: Vec<Step<'_>> =
            accs.iter().map(|&acc| self.view.steps[self.view.accs[acc]]).collect();
        let columns = self.columns(&steps);
        let most = columns.iter().map(Vec::len).max().unwrap_or(0);
        let rows = steps.iter().map(|step| step.matrix.rows()).max().unwrap_or(0);
        let mut totals: Vec<Vec<Option<Value>>> = vec![vec![None; rows]; accs.len()];
        for first in (0..most).step_by(2) {
            let mut values: Vec<Vec<(usize, Value)>> = vec![Vec::new(); accs.len()];
            for index in first..first + 2 {
                for ((values, columns), step) in values.iter_mut().zip(&columns).zip(&steps) {
                    if let Some(&column) = columns.get(index) {
                        values.push((column, self.value(&mut line, step.sources[column])));
                    }
                }
            }
            for row in 0..rows {
                for ((values, totals), step) in values.iter().zip(&mut totals).zip(&steps) {
                    if row >= step.matrix.rows() || values.is_empty() {
                        continue;
                    }
                    let rows = self.view.rows_of(step);
                    let new = values.iter().map(|&(c, value)| (value, rows.at(row, c)));
                    let acc = totals[row].map(|total| (total, 1));
                    let terms: Vec<(Value, u8)> = acc.into_iter().chain(new).collect();
                    totals[row] = Some(line.block.sum(&terms));
                }
            }
        }
        for ((&acc, totals), step) in accs.iter().zip(&totals).zip(&steps) {
            let rows = self.view.rows_of(step);
            for row in rows.in_order() {
                let parts = [row].into_iter().chain(rows.others(row).iter().copied());
                let terms = parts.filter_map(|part| Some((totals[part]?, 1)));
                let total = line.sum(&terms.collect::<Vec<(Value, u8)>>());
                self.result(&mut line, step.first as usize + row, self.slot(acc, row), total);
            }
        }
        self.make(&mut line, made);
        self.end(line);
    }

    /// The columns of some steps in the order in which a block takes them: by how much each takes
    /// in each of the steps, so that blocks are alike although what is simple in one is not in the
    /// other.
    fn columns(&self, steps: &[Step<'_>]) -> Vec<Vec<usize>> {
        let work = |step: &Step<'_>, column: usize| {
            let mut givens = BTreeSet::new();
            self.view.givens(step.sources[column], &mut givens);
            (givens.len(), self.view.is_given(step.sources[column]))
        };
        let count = |step: &Step<'_>| step.sources.len();
        let sorted = |steps: &[Step<'_>]| {
            let mut columns: Vec<usize> = (0..steps.first().map_or(0, count)).collect();
            columns.sort_by_cached_key(|&column| {
                steps.iter().map(|step| work(step, column)).collect::<Vec<(usize, bool)>>()
            });
            columns
        };
        match steps.windows(2).all(|pair| count(&pair[0]) == count(&pair[1])) {
            true => vec![sorted(steps); steps.len()],
            false => steps.iter().map(|step| sorted(std::slice::from_ref(step))).collect(),
        }
    }

    fn slot(&self, acc: usize, row: usize) -> Unit {
        Unit { region: self.places.scratch, unit: self.view.slot(acc, row) }
    }

    /// Notes a result, and stores it where it has a place or is needed later.
    fn result(&mut self, line: &mut Line, vertex: usize, slot: Unit, total: Value) {
        line.values.insert(vertex as u32, total);
        if self.places.get(vertex).is_none() && self.kept[vertex] {
            self.places.keep(vertex, slot.unit);
        }
        // Outputs are stored below, or by a block to come.
        if self.places.get(vertex) == Some(slot) {
            let operand = self.operand(line, slot);
            line.block.store(operand, total);
        }
    }

    /// Makes and stores vertices.
    fn make(&self, line: &mut Line, made: &[u32]) {
        let mut stores = Vec::new();
        for &vertex in made {
            let value = self.value(line, vertex);
            let deferred = self.deferred.get(&vertex).copied();
            if let Some(place) = deferred.or(self.places.get(vertex as usize)) {
                stores.push((self.operand(line, place), value));
            }
            // Outputs and inputs often lie equally far from the start of a page, and loads wait
            // for stores to such places. Without registers to load everything before, what is made
            // waits instead: repairs with AVX2 gained 5 to 40%. Where no input is loaded any more,
            // it would only cost places on the stack.
            let loads = !line.beside && line.block.sides().contains(&Side::Input);
            if !(self.few_sums && loads) || made.last() == Some(&vertex) {
                stores.drain(..).for_each(|(operand, value)| line.block.store(operand, value));
            }
        }
    }

    /// Keeps a block.
    fn end(&mut self, line: Line) {
        self.missing = self.missing.or(line.missing);
        let Line { block, units, .. } = line;
        let number = self.kinds.len() as u32;
        let kind = *self.kinds.entry(block).or_insert(number);
        self.written.push(EmittedBlock { kind, units });
    }

    /// The value of a vertex in a block: known there, loaded, or made by small steps.
    fn value(&self, line: &mut Line, vertex: u32) -> Value {
        if let Some(&value) = line.values.get(&vertex) {
            return value;
        }
        let value = match self.view.owner[vertex as usize] {
            Some(step) if !self.view.is_given(vertex) => {
                let step = self.view.steps[step];
                let row = (vertex - step.first) as usize;
                let terms: Vec<(Value, u8)> = step
                    .sources
                    .iter()
                    .enumerate()
                    .map(|(c, &source)| (self.value(line, source), step.matrix.at(row, c)))
                    .collect();
                match self.few_sums {
                    true => line.cheapest(&terms),
                    false => line.block.sum(&terms),
                }
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
        let side = match self.side(&unit) {
            Side::Scratch if line.beside => Side::Result,
            side => side,
        };
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

    /// Returns how many different blocks there are so far.
    pub(super) fn kinds(&self) -> usize {
        self.kinds.len()
    }

    /// All calls.
    pub(super) fn finish(
        self,
        dataflow: Dataflow,
    ) -> Result<(Option<ProgramSource>, Places), CodeError> {
        if let Some(vertex) = self.missing {
            return Err(CodeError::Internal(format!("vertex {vertex} is needed and not kept")));
        }
        let mut kinds: Vec<(Block, u32)> = self.kinds.into_iter().collect();
        kinds.sort_by_key(|&(_, number)| number);
        let kinds: Vec<Block> = kinds.into_iter().map(|(block, _)| block).collect();
        let source =
            repeat::source(&kinds, self.written, self.places.inputs, dataflow, self.kernel)?;
        Ok((source, self.places))
    }
}

/// A block while it is written.
#[derive(Default)]
struct Line {
    block: Block,
    units: Vec<Unit>,
    operands: HashMap<Unit, u32>,
    values: HashMap<u32, Value>,
    /// Sums of two values and their multiples, so that they are made once.
    sums: HashMap<[Value; 2], Value>,
    multiples: HashMap<(Value, u8), Value>,
    missing: Option<u32>,
    /// True if what comes now is made of results in scratch, which move apart from the sums of this
    /// block.
    beside: bool,
}

impl Line {
    /// A sum; a single term that is only added is one already.
    fn sum(&mut self, terms: &[(Value, u8)]) -> Value {
        match *terms {
            [(value, 1)] => value,
            _ => self.block.sum(terms),
        }
    }

    /// A sum of few terms by the fewest multiplications. Of the symbols of a pair factors are often
    /// equal or differ by one: a x + a y = a (x + y), and (a + 1) x + a y = a (x + y) + x.
    fn cheapest(&mut self, terms: &[(Value, u8)]) -> Value {
        let &[(x, a), (y, b)] = terms else { return self.block.sum(terms) };
        if a < 2 || b < 2 || x == y || a ^ b > 1 {
            return self.block.sum(terms);
        }
        let block = &mut self.block;
        let sum = *self.sums.entry([x, y]).or_insert_with(|| block.sum(&[(x, 1), (y, 1)]));
        // A multiple that is there is cheapest, then twice; else always the same one of both, since
        // the other symbol of the pair may want it too.
        let cost = |factor: u8| (!self.multiples.contains_key(&(sum, factor)), factor != 2, factor);
        let factor = if cost(a) < cost(b) { a } else { b };
        let rest = if factor == a { y } else { x };
        let rest = (a != b).then_some(rest);
        let multiple = self.multiples.entry((sum, factor));
        let multiple = *multiple.or_insert_with(|| block.sum(&[(sum, factor)]));
        match rest {
            Some(rest) => self.block.sum(&[(multiple, 1), (rest, 1)]),
            None => multiple,
        }
    }
}
