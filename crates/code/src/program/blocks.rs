//! From DAG to blocks: sums of many terms are computed in registers, in one of two forms.
//!
//! A step with many sources is a *sum*; what small steps make of inputs (or of sums that are done)
//! for it are *atoms*.
//!
//! *Parts*, for data in memory: where several sums need the same atoms, the sums' parts over these
//! atoms are one block: it loads every input once, computes the atoms, and adds to all the sums.
//! Sums so far lie in scratch from block to block; the last part stores results, and what small
//! steps make of results that are then in registers. Nothing else is ever stored.
//!
//! *Wholes*, for data in the caches: sums whose results are needed together are one block, which
//! loads all that they are made of, however often that is loaded elsewhere. Nothing lies in scratch
//! but results that other sums need.
//!
//! Blocks that are alike become repetitions of one call.

mod emit;
mod group;
mod repeat;
mod tile;

use super::place::Places;
use crate::dag::Step;
use crate::{CodeError, Dag};
use emit::Emitter;
use group::{Atom, Group, group};
use kiln_gf::{Buffers, Kernel, Listing, Product, Unit};
use rustc_hash::FxHashMap as HashMap;
use std::collections::BTreeSet;

/// Steps with more sources are sums.
const SMALL: usize = 2;
/// Most rows of all sums of a block.
const ROWS_MAX: usize = 16;
/// More different blocks than this are not written.
const KINDS_MAX: usize = 4096;

/// How sums are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Every input is loaded once; sums in the making lie in scratch between their blocks.
    Parts,
    /// Every sum is made by one block, which loads all that it is made of again: for data in the
    /// caches, where loads are cheap and nothing in scratch displaces it.
    Whole,
}

/// Compiles a DAG to blocks; nothing where it has no sums that share atoms.
pub(super) fn compile(
    dag: &Dag,
    kernel: &'static dyn Kernel,
    form: Form,
) -> Result<Option<(Listing, Buffers)>, CodeError> {
    let Some(parts) = Parts::of(dag) else { return Ok(None) };
    let mut emitter = Emitter::new(&parts, Places::new(dag), kernel);
    for level in 0..=parts.levels {
        if !emit_level(&parts, level, form, &mut emitter) {
            return Ok(None);
        }
    }
    let (Some(mut listing), places) = emitter.finish(form)? else { return Ok(None) };
    let Listing { calls, operands, products, .. } = &mut listing;
    if let Some(copy) = places.copies(0, calls, operands) {
        products.push(Product::new(kernel, &copy));
    }
    let inputs = dag.reads().iter().map(|reads| reads.sub_chunks()).collect();
    let is_kept = |unit: &Unit| unit.region == places.scratch;
    let scratch = listing.operands.iter().any(is_kept);
    let scratch = if scratch { parts.slots() } else { 0 };
    Ok(Some((listing, Buffers { inputs, outputs: places.outputs, scratch })))
}

/// A DAG seen as sums and what is around them.
pub(super) struct Parts<'a> {
    pub dag: &'a Dag,
    pub steps: Vec<Step<'a>>,
    /// The step that makes a vertex; none makes an input.
    pub owner: Vec<Option<usize>>,
    /// The steps that are sums, by their hinted layer.
    pub sums: Vec<usize>,
    /// The number of a step among the sums.
    pub sum_of: Vec<Option<usize>>,
    /// How many sums lie one after the other before a vertex, itself included.
    level: Vec<usize>,
    pub levels: usize,
}

impl<'a> Parts<'a> {
    fn of(dag: &'a Dag) -> Option<Parts<'a>> {
        let steps: Vec<Step<'_>> = dag.steps().collect();
        let mut owner = vec![None; dag.vertices()];
        let mut level = vec![0; dag.vertices()];
        for (index, step) in steps.iter().enumerate() {
            owner[step.vertices()].fill(Some(index));
            let before = step.sources.iter().map(|&s| level[s as usize]).max().unwrap_or(0);
            level[step.vertices()].fill(before + usize::from(step.sources.len() > SMALL));
        }
        let layer = |step: &Step<'_>| dag.hint(step.first).unwrap_or_default().layer;
        let mut sums: Vec<usize> =
            (0..steps.len()).filter(|&step| steps[step].sources.len() > SMALL).collect();
        sums.sort_by_key(|&sum| layer(&steps[sum]));
        let mut sum_of = vec![None; steps.len()];
        sums.iter().enumerate().for_each(|(number, &step)| sum_of[step] = Some(number));
        let levels = level.iter().copied().max().unwrap_or(0);
        (sums.len() > 1).then_some(Parts { dag, steps, owner, sums, sum_of, level, levels })
    }

    /// The most rows that a sum has.
    pub fn rows(&self) -> usize {
        self.sums.iter().map(|&sum| self.steps[sum].matrix.rows()).max().unwrap_or(0)
    }

    /// The unit of scratch of a row of a sum. Those of sums that follow each other do so, too, so
    /// that blocks repeat. But units that are a multiple of 64 apart would fall into one set of a
    /// first-level cache, and those of one block often are: one is left out after every 64 (only
    /// where sums are a power of two: else blocks would not repeat), and one after all of a row.
    pub fn slot(&self, sum: usize, row: usize) -> u32 {
        let padded = |sum| match self.sums.len().is_power_of_two() {
            true => sum + sum / 64,
            false => sum,
        };
        (row * (padded(self.sums.len()) + 1) + padded(sum)) as u32
    }

    /// Units of scratch.
    fn slots(&self) -> usize {
        self.slot(0, self.rows()) as usize
    }

    /// The sum, by number, that makes a vertex.
    pub fn sum_that_makes(&self, vertex: u32) -> Option<usize> {
        self.owner[vertex as usize].and_then(|step| self.sum_of[step])
    }

    fn is_given(&self, vertex: u32) -> bool {
        self.owner[vertex as usize].is_none() || self.sum_that_makes(vertex).is_some()
    }

    /// The inputs and results of sums that small steps make a vertex from.
    fn givens(&self, vertex: u32, found: &mut BTreeSet<u32>) {
        match self.owner[vertex as usize] {
            Some(step) if !self.is_given(vertex) => {
                self.steps[step].sources.iter().for_each(|&source| self.givens(source, found));
            }
            _ => drop(found.insert(vertex)),
        }
    }
}

/// Which vertices belong to one atom.
struct Joined(Vec<u32>);

impl Joined {
    fn new(vertices: usize) -> Joined {
        Joined((0..vertices as u32).collect())
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

/// A block to be: parts of sums over some atoms, and what is made of the results.
#[derive(Default)]
struct Cell<'a> {
    sums: &'a [usize],
    atoms: &'a [usize],
    made: Vec<u32>,
    /// Blocks of one tile may become one call.
    tile: usize,
}

/// Emits the blocks of the sums of one level, and of what is made of their results.
fn emit_level(parts: &Parts<'_>, level: usize, form: Form, emitter: &mut Emitter<'_>) -> bool {
    let of_level = |sum: &usize| parts.level[parts.steps[parts.sums[*sum]].first as usize] == level;
    let sums: Vec<usize> = (0..parts.sums.len()).filter(of_level).collect();
    let fits = |sums: &[usize]| {
        let rows = sums.iter().map(|&sum| parts.steps[parts.sums[sum]].matrix.rows());
        rows.sum::<usize>() <= ROWS_MAX
    };
    let tails = tails(parts, level);
    let ends = group(&tails.0, fits);
    let mut groups = Vec::new();
    let mut sources = HashMap::default();
    if form == Form::Parts || !all_end_together(&ends, &sums) {
        let (atoms, of_sources) = atoms_before(parts, &sums);
        if !atoms.iter().all(|atom| fits(&atom.users)) {
            return false;
        }
        (groups, sources) = (group(&atoms, fits), of_sources);
        if level == 1 && !groups.iter().any(|group| group.sums.len() > 1) {
            return false;
        }
        groups.sort_by_key(|group| {
            let chunks = group.atoms.iter().flat_map(|&atom| &atoms[atom].chunks).min();
            (chunks.copied(), group.sums[0])
        });
    }
    if form == Form::Whole {
        groups = wholes(groups, &ends, &sums);
    }
    let cells = cells(&groups, &ends, &tails, sums.len());
    let mut last: HashMap<usize, usize> = HashMap::default();
    for (index, cell) in cells.iter().enumerate() {
        last.extend(cell.sums.iter().map(|&sum| (sum, index)));
    }
    for cell in cells.iter().filter(|cell| cell.sums.is_empty()) {
        emitter.keep_sources(&cell.made);
    }
    for (index, cell) in cells.iter().enumerate() {
        if form == Form::Whole {
            emitter.whole(cell.sums, &cell.made, cell.tile);
            continue;
        }
        let members: BTreeSet<usize> = cell.atoms.iter().copied().collect();
        let columns = |source: u32| sources.get(&source).is_some_and(|a| members.contains(a));
        let ends = |sum: usize| last.get(&sum) == Some(&index);
        emitter.block(cell.sums, &columns, &ends, &cell.made, cell.tile);
    }
    emitter.kinds() <= KINDS_MAX
}

/// Whether every sum is in a group with others whose results are needed with its own.
fn all_end_together(ends: &[Group], sums: &[usize]) -> bool {
    let shared = ends.iter().filter(|end| end.sums.len() > 1).flat_map(|end| &end.sums);
    let shared: BTreeSet<usize> = shared.copied().collect();
    sums.iter().all(|sum| shared.contains(sum))
}

/// Groups that have every sum once: those whose results are needed together, then those that share
/// atoms, nearest ones first, then single ones.
fn wholes(groups: Vec<Group>, ends: &[Group], sums: &[usize]) -> Vec<Group> {
    let mut groups: Vec<Vec<usize>> = groups.into_iter().map(|group| group.sums).collect();
    groups
        .sort_by_key(|sums| sums.last().zip(sums.first()).map_or(0, |(last, first)| last - first));
    let ends = ends.iter().map(|end| end.sums.clone()).filter(|sums| sums.len() > 1);
    let single = sums.iter().map(|&sum| vec![sum]);
    let mut free: BTreeSet<usize> = sums.iter().copied().collect();
    let mut wholes = Vec::new();
    for sums in ends.chain(groups).chain(single) {
        if sums.iter().all(|sum| free.contains(sum)) {
            sums.iter().for_each(|sum| _ = free.remove(sum));
            wholes.push(Group { sums, atoms: Vec::new() });
        }
    }
    wholes.sort_by_key(|group| group.sums.first().copied());
    wholes
}

/// The blocks of a level in order. What is made of results comes where they are in registers, else
/// in blocks of its own.
fn cells<'a>(
    groups: &'a [Group],
    ends: &'a [Group],
    (tails, vertices): &(Vec<Atom>, Vec<Vec<u32>>),
    sums: usize,
) -> Vec<Cell<'a>> {
    let (inside, outside) = place_tails(groups, ends, tails);
    let made = |tails: &[usize]| tails.iter().flat_map(|&t| &vertices[t]).copied().collect();
    let ended = ends.iter().zip(&outside).filter(|(_, tails)| !tails.is_empty());
    let all: Vec<(&Group, Cell<'a>)> = groups
        .iter()
        .zip(&inside)
        .map(|(group, inside)| {
            let (sums, atoms) = (&group.sums[..], &group.atoms[..]);
            (group, Cell { sums, atoms, made: made(inside), tile: 0 })
        })
        .chain(ended.map(|(group, tails)| (group, Cell { made: made(tails), ..Cell::default() })))
        .collect();
    let of_sums: Vec<&[usize]> = all.iter().map(|(group, _)| &group.sums[..]).collect();
    let order = tile::order(&of_sums, sums);
    let mut all: Vec<Option<Cell<'a>>> = all.into_iter().map(|(_, cell)| Some(cell)).collect();
    let mut cells: Vec<Cell<'a>> = Vec::with_capacity(all.len());
    for (tile, index) in order {
        cells.extend(all[index].take().map(|cell| Cell { tile, ..cell }));
    }
    // What small steps make of inputs alone belongs to no sum.
    let alone = tails.iter().zip(vertices).filter(|(tail, _)| tail.users.is_empty());
    cells.extend(alone.map(|(_, vertices)| Cell { made: vertices.clone(), ..Cell::default() }));
    cells
}

/// Which tails each group of sums makes, and which each group of tails: what is made of the results
/// of one group is made there, unless something else is made of them later: then all of it is.
fn place_tails(
    groups: &[Group],
    ends: &[Group],
    tails: &[Atom],
) -> (Vec<Vec<usize>>, Vec<Vec<usize>>) {
    let mut last: HashMap<usize, usize> = HashMap::default();
    for (index, group) in groups.iter().enumerate() {
        last.extend(group.sums.iter().map(|&sum| (sum, index)));
    }
    let end = |tail: &Atom| {
        let mut ends = tail.users.iter().map(|user| last.get(user).copied());
        let end = ends.next().flatten()?;
        ends.all(|other| other == Some(end)).then_some(end)
    };
    let split = tails.iter().filter(|tail| end(tail).is_none());
    let split: BTreeSet<usize> = split.flat_map(|tail| &tail.users).copied().collect();
    let mut inside = vec![Vec::new(); groups.len()];
    let mut outside = vec![Vec::new(); ends.len()];
    for (index, group) in ends.iter().enumerate() {
        for &tail in &group.atoms {
            match end(&tails[tail]) {
                Some(end) if tails[tail].users.iter().all(|user| !split.contains(user)) => {
                    inside[end].push(tail);
                }
                _ => outside[index].push(tail),
            }
        }
    }
    (inside, outside)
}

/// What the sums of a level need: atoms, and the atom of each of their sources.
fn atoms_before(parts: &Parts<'_>, sums: &[usize]) -> (Vec<Atom>, HashMap<u32, usize>) {
    let mut joined = Joined::new(parts.dag.vertices());
    let mut givens: HashMap<u32, BTreeSet<u32>> = HashMap::default();
    let sources = || sums.iter().flat_map(|&sum| parts.steps[parts.sums[sum]].sources);
    for &source in sources() {
        givens.entry(source).or_insert_with(|| {
            let mut found = BTreeSet::new();
            parts.givens(source, &mut found);
            found.iter().for_each(|&given| joined.join(given, source));
            found
        });
    }
    let mut numbers: HashMap<u32, usize> = HashMap::default();
    let (mut atoms, mut of_source): (Vec<Atom>, HashMap<u32, usize>) = Default::default();
    for &sum in sums {
        for &source in parts.steps[parts.sums[sum]].sources {
            let number = *numbers.entry(joined.find(source)).or_insert_with(|| {
                atoms.push(Atom::default());
                atoms.len() - 1
            });
            let atom = &mut atoms[number];
            if atom.users.last() != Some(&sum) {
                atom.users.push(sum);
            }
            if of_source.insert(source, number).is_none() {
                let inputs =
                    givens[&source].iter().filter_map(|&g| parts.dag.inputs().get(g as usize));
                atom.chunks.extend(inputs.map(|at| at.chunk));
            }
        }
    }
    (atoms, of_source)
}

/// Outputs that small steps make of sums up to a level: what belongs together, by the sums it is
/// made of, and its vertices.
fn tails(parts: &Parts<'_>, level: usize) -> (Vec<Atom>, Vec<Vec<u32>>) {
    let mut joined = Joined::new(parts.dag.vertices());
    let outputs: Vec<u32> = parts
        .dag
        .outputs()
        .iter()
        .map(|&(_, vertex)| vertex)
        .filter(|&v| parts.level[v as usize] == level && parts.owner[v as usize].is_some())
        .collect::<BTreeSet<u32>>()
        .into_iter()
        .collect();
    let mut results: Vec<Vec<u32>> = Vec::new();
    for &vertex in &outputs {
        let mut found = BTreeSet::new();
        parts.givens(vertex, &mut found);
        found.retain(|&given| parts.sum_that_makes(given).is_some());
        found.iter().for_each(|&given| joined.join(given, vertex));
        results.push(found.into_iter().collect());
    }
    let chunks: HashMap<u32, u32> =
        parts.dag.outputs().iter().map(|&(at, vertex)| (vertex, at.chunk)).collect();
    let mut numbers: HashMap<u32, usize> = HashMap::default();
    let (mut atoms, mut vertices): (Vec<Atom>, Vec<Vec<u32>>) = Default::default();
    for (&vertex, results) in outputs.iter().zip(&results) {
        let number = *numbers.entry(joined.find(vertex)).or_insert_with(|| {
            atoms.push(Atom::default());
            vertices.push(Vec::new());
            atoms.len() - 1
        });
        vertices[number].push(vertex);
        let users = results.iter().filter_map(|&result| parts.sum_that_makes(result));
        atoms[number].users.extend(users);
        atoms[number].chunks.extend(chunks.get(&vertex));
    }
    for atom in &mut atoms {
        atom.users.sort_unstable();
        atom.users.dedup();
    }
    (atoms, vertices)
}

#[cfg(test)]
mod tests;
