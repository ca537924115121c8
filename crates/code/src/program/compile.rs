//! From DAG to operations: order of steps, slots of intermediate values.

use super::place::Places;
use crate::{Dag, dag::Step};
use kiln_gf::{Call, Matrix, Unit};

/// Parts of a program but for the prepared matrices. `Call::product` indexes the DAG's
/// matrices, and then `copy`.
pub(super) struct StepProgram {
    pub calls: Vec<Call>,
    pub operands: Vec<Unit>,
    pub outputs: Vec<usize>,
    pub slots: usize,
    /// The 1x1 identity when some output is a plain copy.
    pub copy: Option<Matrix>,
}

pub(super) fn compile(dag: &Dag) -> StepProgram {
    let steps: Vec<Step<'_>> = dag.steps().collect();
    let mut compiler = Compiler::new(dag, &steps);
    for index in schedule(dag, &steps) {
        compiler.step(&steps[index]);
    }
    let Compiler { places, mut calls, mut operands, slots, .. } = compiler;
    let copy = places.copies(dag.matrices().len() as u32, &mut calls, &mut operands);
    StepProgram { calls, operands, outputs: places.outputs, slots, copy }
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
        owner[step.vertices()].fill(index as u32);
    }
    let is_sink = |step: &Step<'_>| !feeds[step.vertices()].contains(&true);
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
    places: Places,
    /// Uses of every vertex by steps that are still to come.
    uses: Vec<u32>,
    free: Vec<u32>,
    slots: usize,
    calls: Vec<Call>,
    operands: Vec<Unit>,
}

impl Compiler {
    fn new(dag: &Dag, steps: &[Step<'_>]) -> Compiler {
        let mut uses = vec![0; dag.vertices()];
        for step in steps {
            for &source in step.sources {
                uses[source as usize] += 1;
            }
        }
        Compiler {
            places: Places::new(dag),
            uses,
            free: Vec::new(),
            slots: 0,
            calls: Vec::with_capacity(steps.len()),
            operands: Vec::new(),
        }
    }

    fn step(&mut self, step: &Step<'_>) {
        // Results get their slots before the sources give theirs back: a step must not write
        // where it still reads.
        for vertex in step.vertices() {
            if self.places.get(vertex).is_none() {
                let unit = self.slot();
                self.places.keep(vertex, unit);
            }
        }
        let sources: Vec<usize> = step.sources.iter().map(|&s| s as usize).collect();
        self.call(step.matrix_index as u32, sources.iter().copied(), step.vertices());
        for source in sources {
            self.uses[source] -= 1;
            match self.places.get(source) {
                Some(place) if self.uses[source] == 0 && place.region == self.places.scratch => {
                    self.free.push(place.unit);
                }
                _ => {}
            }
        }
    }

    fn call(
        &mut self,
        product: u32,
        sources: impl Iterator<Item = usize>,
        results: impl Iterator<Item = usize>,
    ) {
        let start = self.operands.len() as u32;
        self.operands.extend(sources.filter_map(|v| self.places.get(v)));
        let middle = self.operands.len() as u32;
        self.operands.extend(results.filter_map(|v| self.places.get(v)));
        let end = self.operands.len() as u32;
        self.calls.push(Call::Product { product, sources: start..middle, results: middle..end });
    }

    fn slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots as u32 - 1
        })
    }
}
