//! From DAG to blocks: steps of many terms are computed in registers, in one of two dataflows.
//!
//! A step with many sources is an *accumulator*; what small steps make for it of inputs (or of
//! finished accumulators) are *subexpressions*, which several accumulators may share.
//!
//! *Input-stationary*, for data in memory: accumulators that share subexpressions are updated by
//! one block. It loads every input once, computes the subexpressions, and adds them to all these
//! accumulators. Between blocks accumulators lie in scratch; the last block of an accumulator
//! stores its result, and what small steps make of results that are still in registers (the
//! *epilogue*). Nothing else is ever stored.
//!
//! *Output-stationary*, for data in the caches: accumulators whose results are needed together are
//! one block and stay in registers until they are complete. The block loads everything that they
//! are made of, even if other blocks load it again. Scratch holds only results that other
//! accumulators need.
//!
//! *Streamed*, for results that go past the caches: as input-stationary, but what no block can make
//! of results in its registers is made beside the products of a later block: so memory is written
//! while the core computes, and not all at the end.
//!
//! Blocks of the same shape become repetitions of one call.

mod beside;
mod group;
mod relation;
mod repeat;
mod emit;

use super::place::Places;
use crate::{Dag, Result, dag::Step};
use emit::Emitter;
use group::{Group, Subexpression, group};
use kiln_gf::{Buffers, Kernel, Product, ProgramSource, Unit};
use relation::{Relation, Rows};
use rustc_hash::FxHashMap as HashMap;
use std::collections::BTreeSet;

/// Steps with more sources are accumulators.
const SMALL: usize = 2;
/// Most rows of all accumulators of a block.
const ROWS_MAX: usize = 16;
/// More different blocks than this are not written.
const KINDS_MAX: usize = 4096;

/// Way in which the steps are cut into blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dataflow {
    /// Every input is loaded once; partial accumulators lie in scratch between their blocks.
    InputStationary,
    /// As `InputStationary`; what is made of results in scratch is made beside later products.
    Streamed,
    /// Every accumulator is completed by one block, which loads everything that it is made of: for
    /// data in the caches, where loads are cheap and no scratch displaces it.
    OutputStationary,
}

impl Dataflow {
    /// Returns what the kernel runs faster where data is in the caches.
    pub(super) fn in_caches(kernel: &dyn Kernel) -> Dataflow {
        match kernel.block_sums() < ROWS_MAX {
            true => Dataflow::InputStationary,
            false => Dataflow::OutputStationary,
        }
    }
}

/// Compiles a DAG to blocks; nothing where it has no accumulators that share subexpressions.
pub(super) fn compile(
    dag: &Dag,
    kernel: &'static dyn Kernel,
    dataflow: Dataflow,
) -> Result<Option<(ProgramSource, Buffers)>> {
    let Some(view) = AccumulatorView::of(dag) else { return Ok(None) };
    let mut emitter = Emitter::new(&view, Places::new(dag), kernel);
    for level in 0..=view.levels {
        if !emit_level(&view, level, dataflow, &mut emitter) {
            return Ok(None);
        }
    }
    let (Some(mut source), places) = emitter.finish(dataflow)? else { return Ok(None) };
    let ProgramSource { calls, operands, products, .. } = &mut source;
    if let Some(copy) = places.copies(0, calls, operands) {
        products.push(Product::new(kernel, &copy));
    }
    let inputs = dag.reads().iter().map(|reads| reads.sub_chunks()).collect();
    let is_kept = |unit: &Unit| unit.region == places.scratch;
    let scratch = source.operands.iter().any(is_kept);
    let scratch = if scratch { view.slots() } else { 0 };
    Ok(Some((source, Buffers { inputs, outputs: places.outputs, scratch })))
}

/// A DAG seen as accumulators and the small steps around them.
pub(super) struct AccumulatorView<'a> {
    pub dag: &'a Dag,
    pub steps: Vec<Step<'a>>,
    /// The step that makes a vertex; none makes an input.
    pub owner: Vec<Option<usize>>,
    /// The steps that are accumulators, by their hinted layer.
    pub accs: Vec<usize>,
    /// The number of a step among the accumulators.
    pub acc_of: Vec<Option<usize>>,
    /// Of the matrices of accumulators, by number: a row that follows from the others.
    relations: HashMap<usize, Option<Relation>>,
    /// Number of accumulators one after the other before a vertex, itself included.
    level: Vec<usize>,
    pub levels: usize,
}

impl<'a> AccumulatorView<'a> {
    fn of(dag: &'a Dag) -> Option<AccumulatorView<'a>> {
        let steps: Vec<Step<'_>> = dag.steps().collect();
        let mut owner = vec![None; dag.vertices()];
        let mut level = vec![0; dag.vertices()];
        for (index, step) in steps.iter().enumerate() {
            owner[step.vertices()].fill(Some(index));
            let before = step.sources.iter().map(|&s| level[s as usize]).max().unwrap_or(0);
            level[step.vertices()].fill(before + usize::from(step.sources.len() > SMALL));
        }
        let layer = |step: &Step<'_>| dag.hint(step.first).unwrap_or_default().layer;
        let mut accs: Vec<usize> =
            (0..steps.len()).filter(|&step| steps[step].sources.len() > SMALL).collect();
        accs.sort_by_key(|&acc| layer(&steps[acc]));
        let mut acc_of = vec![None; steps.len()];
        accs.iter().enumerate().for_each(|(number, &step)| acc_of[step] = Some(number));
        let mut relations = HashMap::default();
        for step in accs.iter().map(|&acc| &steps[acc]) {
            relations.entry(step.matrix_index).or_insert_with(|| Relation::of(step.matrix));
        }
        let levels = level.iter().copied().max().unwrap_or(0);
        (accs.len() > 1).then_some(AccumulatorView {
            dag,
            steps,
            owner,
            accs,
            acc_of,
            relations,
            level,
            levels,
        })
    }

    /// The rows of an accumulator.
    fn rows_of(&self, step: &Step<'a>) -> Rows<'_> {
        let relation = self.relations.get(&step.matrix_index).and_then(Option::as_ref);
        Rows { matrix: step.matrix, relation }
    }

    /// The most rows that an accumulator has.
    pub fn rows(&self) -> usize {
        self.accs.iter().map(|&acc| self.steps[acc].matrix.rows()).max().unwrap_or(0)
    }

    /// The unit of scratch of a row of an accumulator. Those of accumulators that follow each other
    /// do so, too, so that blocks repeat. But units that are a multiple of 64 apart would fall into
    /// one set of a first-level cache, and those of one block often are: one is left out after
    /// every 64 (only where accumulators are a power of two: else blocks would not repeat), and one
    /// after all of a row.
    pub fn slot(&self, acc: usize, row: usize) -> u32 {
        let padded = |acc| match self.accs.len().is_power_of_two() {
            true => acc + acc / 64,
            false => acc,
        };
        (row * (padded(self.accs.len()) + 1) + padded(acc)) as u32
    }

    /// Units of scratch.
    fn slots(&self) -> usize {
        self.slot(0, self.rows()) as usize
    }

    /// The accumulator, by number, that makes a vertex.
    pub fn acc_that_makes(&self, vertex: u32) -> Option<usize> {
        self.owner[vertex as usize].and_then(|step| self.acc_of[step])
    }

    fn is_given(&self, vertex: u32) -> bool {
        self.owner[vertex as usize].is_none() || self.acc_that_makes(vertex).is_some()
    }

    /// The inputs and results of accumulators that small steps make a vertex from.
    fn givens(&self, vertex: u32, found: &mut BTreeSet<u32>) {
        match self.owner[vertex as usize] {
            Some(step) if !self.is_given(vertex) => {
                self.steps[step].sources.iter().for_each(|&source| self.givens(source, found));
            }
            _ => drop(found.insert(vertex)),
        }
    }
}

/// Vertices that belong to one subexpression.
struct DisjointSets(Vec<u32>);

impl DisjointSets {
    fn new(vertices: usize) -> DisjointSets {
        DisjointSets((0..vertices as u32).collect())
    }

    fn find(&mut self, vertex: u32) -> u32 {
        let mut root = vertex;
        while self.0[root as usize] != root {
            self.0[root as usize] = self.0[self.0[root as usize] as usize];
            root = self.0[root as usize];
        }
        root
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b) as usize] = a.min(b);
    }
}

/// A block to be emitted: accumulators, the subexpressions added to them, and what is made of the
/// results.
#[derive(Default)]
struct PlannedBlock<'a> {
    accs: &'a [usize],
    exprs: &'a [usize],
    made: Vec<u32>,
    /// Vertices that are made beside that, of results that other blocks ended before.
    beside: Vec<u32>,
}

/// Emits the blocks of the accumulators of one level, and of what is made of their results.
fn emit_level(
    view: &AccumulatorView<'_>,
    level: usize,
    dataflow: Dataflow,
    emitter: &mut Emitter<'_>,
) -> bool {
    let of_level = |acc: &usize| view.level[view.steps[view.accs[*acc]].first as usize] == level;
    let accs: Vec<usize> = (0..view.accs.len()).filter(of_level).collect();
    let fits = |accs: &[usize]| {
        let rows = accs.iter().map(|&acc| view.steps[view.accs[acc]].matrix.rows());
        rows.sum::<usize>() <= ROWS_MAX
    };
    let epilogues = epilogues(view, level);
    let ends = group(&epilogues.0, fits);
    let mut groups = Vec::new();
    let mut sources = HashMap::default();
    if dataflow != Dataflow::OutputStationary || !all_end_together(&ends, &accs) {
        let (exprs, of_sources) = exprs_before(view, &accs);
        if !exprs.iter().all(|expr| fits(&expr.users)) {
            return false;
        }
        (groups, sources) = (group(&exprs, fits), of_sources);
        if level == 1 && !groups.iter().any(|group| group.accs.len() > 1) {
            return false;
        }
        groups.sort_by_key(|group| {
            let chunks = group.exprs.iter().flat_map(|&expr| &exprs[expr].chunks).min();
            (chunks.copied(), group.accs[0])
        });
    }
    if dataflow == Dataflow::OutputStationary {
        groups = output_stationary(groups, &ends, &accs);
    }
    let mut planned = planned(&groups, &ends, &epilogues);
    if dataflow == Dataflow::Streamed {
        planned = beside::placed(view, planned);
    }
    let last = last_of(planned.iter().map(|planned| planned.accs));
    for planned in &planned {
        let of_others = if planned.accs.is_empty() { &planned.made } else { &planned.beside };
        emitter.keep_sources(of_others);
    }
    for (index, planned) in planned.iter().enumerate() {
        if dataflow == Dataflow::OutputStationary {
            emitter.output_stationary(planned.accs, &planned.made);
            continue;
        }
        let members: BTreeSet<usize> = planned.exprs.iter().copied().collect();
        let columns =
            |source: u32| sources.get(&source).copied().filter(|expr| members.contains(expr));
        let ends = |acc: usize| last.get(&acc) == Some(&index);
        emitter.block(planned, &columns, &ends);
    }
    emitter.kinds() <= KINDS_MAX
}

/// The last of some blocks that each accumulator is in: the one that ends it.
fn last_of<'a>(blocks: impl Iterator<Item = &'a [usize]>) -> HashMap<usize, usize> {
    let each = |(index, accs): (usize, &'a [usize])| accs.iter().map(move |&acc| (acc, index));
    blocks.enumerate().flat_map(each).collect()
}

/// Returns whether every accumulator is in a group with others whose results are needed with its
/// own.
fn all_end_together(ends: &[Group], accs: &[usize]) -> bool {
    let shared = ends.iter().filter(|end| end.accs.len() > 1).flat_map(|end| &end.accs);
    let shared: BTreeSet<usize> = shared.copied().collect();
    accs.iter().all(|acc| shared.contains(acc))
}

/// Groups that have every accumulator once: those whose results are needed together, then those
/// that share subexpressions, nearest ones first, then single ones.
fn output_stationary(groups: Vec<Group>, ends: &[Group], accs: &[usize]) -> Vec<Group> {
    let mut groups: Vec<Vec<usize>> = groups.into_iter().map(|group| group.accs).collect();
    groups
        .sort_by_key(|accs| accs.last().zip(accs.first()).map_or(0, |(last, first)| last - first));
    let ends = ends.iter().map(|end| end.accs.clone()).filter(|accs| accs.len() > 1);
    let single = accs.iter().map(|&acc| vec![acc]);
    let mut free: BTreeSet<usize> = accs.iter().copied().collect();
    let mut output_stationary = Vec::new();
    for accs in ends.chain(groups).chain(single) {
        if accs.iter().all(|acc| free.contains(acc)) {
            accs.iter().for_each(|acc| _ = free.remove(acc));
            output_stationary.push(Group { accs, exprs: Vec::new() });
        }
    }
    output_stationary.sort_by_key(|group| group.accs.first().copied());
    output_stationary
}

/// The blocks of a level in order. What is made of results comes where they are in registers, else
/// in blocks of its own.
fn planned<'a>(
    groups: &'a [Group],
    ends: &'a [Group],
    (epilogues, vertices): &(Vec<Subexpression>, Vec<Vec<u32>>),
) -> Vec<PlannedBlock<'a>> {
    let (inside, outside) = place_epilogues(groups, ends, epilogues);
    let made =
        |epilogues: &[usize]| epilogues.iter().flat_map(|&t| &vertices[t]).copied().collect();
    let ended = ends.iter().zip(&outside).filter(|(_, epilogues)| !epilogues.is_empty());
    let of_groups = groups.iter().zip(&inside).map(|(group, inside)| {
        let (accs, exprs) = (&group.accs[..], &group.exprs[..]);
        PlannedBlock { accs, exprs, made: made(inside), ..PlannedBlock::default() }
    });
    let only_made = |made: Vec<u32>| PlannedBlock { made, ..PlannedBlock::default() };
    let of_ends = ended.map(|(_, epilogues)| only_made(made(epilogues)));
    // What small steps make of inputs alone belongs to no accumulator.
    let alone = epilogues.iter().zip(vertices).filter(|(epilogue, _)| epilogue.users.is_empty());
    let of_inputs = alone.map(|(_, vertices)| only_made(vertices.clone()));
    of_groups.chain(of_ends).chain(of_inputs).collect()
}

/// Assigns epilogues to groups: what is made of the results of one group is made in its block,
/// unless something else is made of them later; then all of it is made later.
fn place_epilogues(
    groups: &[Group],
    ends: &[Group],
    epilogues: &[Subexpression],
) -> (Vec<Vec<usize>>, Vec<Vec<usize>>) {
    let last = last_of(groups.iter().map(|group| &group.accs[..]));
    let end = |epilogue: &Subexpression| {
        let mut ends = epilogue.users.iter().map(|user| last.get(user).copied());
        let end = ends.next().flatten()?;
        ends.all(|other| other == Some(end)).then_some(end)
    };
    let split = epilogues.iter().filter(|epilogue| end(epilogue).is_none());
    let split: BTreeSet<usize> = split.flat_map(|epilogue| &epilogue.users).copied().collect();
    let mut inside = vec![Vec::new(); groups.len()];
    let mut outside = vec![Vec::new(); ends.len()];
    for (index, group) in ends.iter().enumerate() {
        for &epilogue in &group.exprs {
            match end(&epilogues[epilogue]) {
                Some(end) if epilogues[epilogue].users.iter().all(|user| !split.contains(user)) => {
                    inside[end].push(epilogue);
                }
                _ => outside[index].push(epilogue),
            }
        }
    }
    (inside, outside)
}

/// Returns what the accumulators of a level need: subexpressions, and the subexpression of each of
/// their sources.
fn exprs_before(
    view: &AccumulatorView<'_>,
    accs: &[usize],
) -> (Vec<Subexpression>, HashMap<u32, usize>) {
    let mut sets = DisjointSets::new(view.dag.vertices());
    let mut givens: HashMap<u32, BTreeSet<u32>> = HashMap::default();
    let sources = || accs.iter().flat_map(|&acc| view.steps[view.accs[acc]].sources);
    for &source in sources() {
        givens.entry(source).or_insert_with(|| {
            let mut found = BTreeSet::new();
            view.givens(source, &mut found);
            found.iter().for_each(|&given| sets.join(given, source));
            found
        });
    }
    let mut numbers: HashMap<u32, usize> = HashMap::default();
    let (mut exprs, mut of_source): (Vec<Subexpression>, HashMap<u32, usize>) = Default::default();
    for &acc in accs {
        for &source in view.steps[view.accs[acc]].sources {
            let number = *numbers.entry(sets.find(source)).or_insert_with(|| {
                exprs.push(Subexpression::default());
                exprs.len() - 1
            });
            let expr = &mut exprs[number];
            if expr.users.last() != Some(&acc) {
                expr.users.push(acc);
            }
            if of_source.insert(source, number).is_none() {
                let inputs =
                    givens[&source].iter().filter_map(|&g| view.dag.inputs().get(g as usize));
                expr.chunks.extend(inputs.map(|at| at.chunk));
            }
        }
    }
    (exprs, of_source)
}

/// Outputs that small steps make of accumulators up to a level: what belongs together, by the
/// accumulators it is made of, and its vertices.
fn epilogues(view: &AccumulatorView<'_>, level: usize) -> (Vec<Subexpression>, Vec<Vec<u32>>) {
    let mut sets = DisjointSets::new(view.dag.vertices());
    let outputs: Vec<u32> = view
        .dag
        .outputs()
        .iter()
        .map(|&(_, vertex)| vertex)
        .filter(|&v| view.level[v as usize] == level && view.owner[v as usize].is_some())
        .collect::<BTreeSet<u32>>()
        .into_iter()
        .collect();
    let mut results: Vec<Vec<u32>> = Vec::new();
    for &vertex in &outputs {
        let mut found = BTreeSet::new();
        view.givens(vertex, &mut found);
        found.retain(|&given| view.acc_that_makes(given).is_some());
        found.iter().for_each(|&given| sets.join(given, vertex));
        results.push(found.into_iter().collect());
    }
    let chunks: HashMap<u32, u32> =
        view.dag.outputs().iter().map(|&(at, vertex)| (vertex, at.chunk)).collect();
    let mut numbers: HashMap<u32, usize> = HashMap::default();
    let (mut exprs, mut vertices): (Vec<Subexpression>, Vec<Vec<u32>>) = Default::default();
    for (&vertex, results) in outputs.iter().zip(&results) {
        let number = *numbers.entry(sets.find(vertex)).or_insert_with(|| {
            exprs.push(Subexpression::default());
            vertices.push(Vec::new());
            exprs.len() - 1
        });
        vertices[number].push(vertex);
        let users = results.iter().filter_map(|&result| view.acc_that_makes(result));
        exprs[number].users.extend(users);
        exprs[number].chunks.extend(chunks.get(&vertex));
    }
    for expr in &mut exprs {
        expr.users.sort_unstable();
        expr.users.dedup();
    }
    (exprs, vertices)
}

#[cfg(test)]
mod tests;
