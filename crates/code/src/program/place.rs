//! Places of the values of a program: inputs, outputs and scratch.

use crate::Dag;
use kiln_gf::{Call, Matrix, Unit};

/// The place of every vertex, as far as it has one.
pub(super) struct Places {
    /// By vertex: inputs and outputs have theirs from the start.
    of: Vec<Option<Unit>>,
    /// Sub-chunks in each output buffer.
    pub outputs: Vec<usize>,
    /// The region of intermediate values: it comes after inputs and outputs.
    pub scratch: u32,
    /// Input buffers: the first region of an output.
    pub inputs: u32,
    /// Outputs whose value already has another place: (vertex, output place).
    repeats: Vec<(usize, Unit)>,
}

impl Places {
    pub(super) fn new(dag: &Dag) -> Places {
        let mut of = vec![None; dag.vertices()];
        let mut ranks = Ranks::default();
        for (vertex, at) in dag.inputs().iter().enumerate() {
            let (region, rank) = ranks.next(at.chunk);
            of[vertex] = Some(Unit { region, unit: rank });
        }
        let inputs = ranks.regions;
        let (mut outputs, mut repeats, mut ranks) = (Vec::new(), Vec::new(), Ranks::default());
        for &(at, vertex) in dag.outputs() {
            let (region, rank) = ranks.next(at.chunk);
            if rank == 0 {
                outputs.push(0);
            }
            outputs[region as usize] += 1;
            let here = Unit { region: inputs + region, unit: rank };
            match &mut of[vertex as usize] {
                Some(_) => repeats.push((vertex as usize, here)),
                place => *place = Some(here),
            }
        }
        Places { of, outputs, scratch: inputs + ranks.regions, inputs, repeats }
    }

    pub(super) fn get(&self, vertex: usize) -> Option<Unit> {
        self.of[vertex]
    }

    pub(super) fn is_output(&self, vertex: usize) -> bool {
        self.of[vertex].is_some_and(|unit| (self.inputs..self.scratch).contains(&unit.region))
    }

    /// Gives a vertex a unit of scratch.
    pub(super) fn keep(&mut self, vertex: usize, unit: u32) {
        self.of[vertex] = Some(Unit { region: self.scratch, unit });
    }

    /// Gives an output a unit of scratch to wait in; returns its place among the outputs.
    pub(super) fn defer(&mut self, vertex: usize, unit: u32) -> Option<Unit> {
        let kept = Unit { region: self.scratch, unit };
        self.of[vertex].replace(kept)
    }

    /// Appends copies for outputs that repeat a value; returns the matrix that copies, which will
    /// be product number `product`.
    pub(super) fn copies(
        &self,
        product: u32,
        calls: &mut Vec<Call>,
        operands: &mut Vec<Unit>,
    ) -> Option<Matrix> {
        for &(vertex, here) in &self.repeats {
            let start = operands.len() as u32;
            operands.extend(self.of[vertex]);
            operands.push(here);
            let (sources, results) = (start..start + 1, start + 1..start + 2);
            calls.push(Call::Product { product, sources, results });
        }
        (!self.repeats.is_empty()).then(|| Matrix::identity(1))
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
