//! From DAG to operations: order of steps, slots of intermediate values.

use super::{Operation, Place};
use crate::Dag;
use crate::dag::Step;
use kiln_gf::Matrix;
use std::ops::Range;

/// What a program is made of, but for the prepared matrices. `Operation::product` indexes the
/// DAG's matrices, and then `copy`.
pub(super) struct Parts {
    pub operations: Vec<Operation>,
    pub places: Vec<Place>,
    pub outputs: Vec<usize>,
    pub slots: usize,
    /// The 1x1 identity when some output is a plain copy.
    pub copy: Option<Matrix>,
}

/// Compiles all steps of a DAG.
pub(super) fn compile(dag: &Dag) -> Parts {
    let steps: Vec<Step<'_>> = dag.steps().collect();
    let mut compiler = Compiler::new(dag, &steps);
    for index in schedule(dag, &steps) {
        compiler.step(&steps[index]);
    }
    let copy = compiler.copies(dag.matrices().len() as u32);
    let Compiler { operations, places, outputs, slots, .. } = compiler;
    Parts { operations, places, outputs, slots, copy }
}

fn vertices_of(step: &Step<'_>) -> Range<usize> {
    let first = step.first as usize;
    first..first + step.matrix.rows()
}

/// The order of the steps: as the code emitted them, but a step that only makes outputs comes as
/// soon as its sources are there, so that their slots are free again early.
fn schedule(dag: &Dag, steps: &[Step<'_>]) -> Vec<usize> {
    const INPUT: u32 = u32::MAX;
    let mut feeds = vec![false; dag.vertices()];
    let mut owner = vec![INPUT; dag.vertices()];
    for (index, step) in steps.iter().enumerate() {
        for &source in step.sources {
            feeds[source as usize] = true;
        }
        owner[vertices_of(step)].fill(index as u32);
    }
    let is_sink = |step: &Step<'_>| !feeds[vertices_of(step)].contains(&true);
    let mut waiting = vec![0_u32; steps.len()];
    let mut wakes: Vec<Vec<u32>> = vec![Vec::new(); steps.len()];
    for (index, step) in steps.iter().enumerate().filter(|(_, step)| is_sink(step)) {
        for from in step.sources.iter().map(|&s| owner[s as usize]).filter(|&o| o != INPUT) {
            wakes[from as usize].push(index as u32);
            waiting[index] += 1;
        }
    }
    let from_inputs: Vec<bool> = waiting.iter().map(|&count| count == 0).collect();
    let mut order = Vec::with_capacity(steps.len());
    for (index, step) in steps.iter().enumerate() {
        if is_sink(step) && !from_inputs[index] {
            continue; // comes when its last source wakes it
        }
        order.push(index);
        for &woken in &wakes[index] {
            waiting[woken as usize] -= 1;
            if waiting[woken as usize] == 0 {
                order.push(woken as usize);
            }
        }
    }
    order
}

struct Compiler {
    /// Place of every vertex that has one by now; outputs have theirs from the start.
    place: Vec<Option<Place>>,
    /// Uses of every vertex by steps that are still to come.
    uses: Vec<u32>,
    free: Vec<u32>,
    slots: usize,
    operations: Vec<Operation>,
    places: Vec<Place>,
    /// Sub-chunks in each output buffer.
    outputs: Vec<usize>,
    /// Outputs whose value already has another place: (vertex, output place).
    repeats: Vec<(usize, Place)>,
}

impl Compiler {
    fn new(dag: &Dag, steps: &[Step<'_>]) -> Compiler {
        let mut compiler = Compiler {
            place: vec![None; dag.vertices()],
            uses: vec![0; dag.vertices()],
            free: Vec::new(),
            slots: 0,
            operations: Vec::with_capacity(steps.len()),
            places: Vec::new(),
            outputs: Vec::new(),
            repeats: Vec::new(),
        };
        let mut ranks = Ranks::default();
        for (vertex, at) in dag.inputs().iter().enumerate() {
            let (region, rank) = ranks.next(at.chunk);
            compiler.place[vertex] = Some(Place::Input { region, rank });
        }
        let first_output = ranks.regions;
        let mut ranks = Ranks::default();
        for &(at, vertex) in dag.outputs() {
            let (region, rank) = ranks.next(at.chunk);
            if rank == 0 {
                compiler.outputs.push(0);
            }
            compiler.outputs[region as usize] += 1;
            let here = Place::Output { region: first_output + region, rank };
            match &mut compiler.place[vertex as usize] {
                Some(_) => compiler.repeats.push((vertex as usize, here)),
                place => *place = Some(here),
            }
        }
        for step in steps {
            for &source in step.sources {
                compiler.uses[source as usize] += 1;
            }
        }
        compiler
    }

    fn step(&mut self, step: &Step<'_>) {
        // Results get their slots before the sources give theirs back: a step must not write
        // where it still reads.
        for vertex in vertices_of(step) {
            if self.place[vertex].is_none() {
                self.place[vertex] = Some(Place::Scratch { slot: self.slot() });
            }
        }
        let sources: Vec<usize> = step.sources.iter().map(|&s| s as usize).collect();
        self.operation(step.matrix_index as u32, sources.iter().copied(), vertices_of(step));
        for source in sources {
            self.uses[source] -= 1;
            if let (0, Some(Place::Scratch { slot })) = (self.uses[source], self.place[source]) {
                self.free.push(slot);
            }
        }
    }

    /// Appends copies for outputs that repeat a value; returns the matrix that copies.
    fn copies(&mut self, product: u32) -> Option<Matrix> {
        let repeats = std::mem::take(&mut self.repeats);
        for &(vertex, here) in &repeats {
            let start = self.places.len() as u32;
            self.places.extend(self.place[vertex]);
            self.places.push(here);
            let (sources, results) = (start..start + 1, start + 1..start + 2);
            self.operations.push(Operation { product, sources, results });
        }
        (!repeats.is_empty()).then(|| Matrix::identity(1))
    }

    fn operation(
        &mut self,
        product: u32,
        sources: impl Iterator<Item = usize>,
        results: impl Iterator<Item = usize>,
    ) {
        let start = self.places.len() as u32;
        self.places.extend(sources.filter_map(|v| self.place[v]));
        let middle = self.places.len() as u32;
        self.places.extend(results.filter_map(|v| self.place[v]));
        let end = self.places.len() as u32;
        self.operations.push(Operation { product, sources: start..middle, results: middle..end });
    }

    fn slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots as u32 - 1
        })
    }
}

/// Numbers chunks in the order they come, and positions within a chunk.
#[derive(Default)]
struct Ranks {
    regions: u32,
    chunk: Option<u32>,
    rank: u32,
}

impl Ranks {
    fn next(&mut self, chunk: u32) -> (u32, u32) {
        if self.chunk == Some(chunk) {
            self.rank += 1;
        } else {
            self.chunk = Some(chunk);
            self.regions += 1;
            self.rank = 0;
        }
        (self.regions - 1, self.rank)
    }
}
