//! The linear DAG over sub-chunks: what every operation of every code is.
//!
//! A vertex is a sub-chunk: one that is read (an *input*) or one that is computed. An edge carries
//! a coefficient of GF(2^8). Vertices that come from the same sources through one matrix (the
//! parities of a layer, both halves of a coupled pair) form a [`Step`], which keeps the graph
//! compact and tells an executor what can share its loads.
//!
//! [`Dag::matrix`] and [`Dag::eval`] are the oracle: they say what the graph computes without
//! running any kernel, so a pass or a plan can be proved equal to the code.

mod build;

pub use build::{DagBuilder, MatrixId, Names, StepOut, Symbol};

use crate::{CodeError, Result};
use kiln_gf::{Matrix, field};
use std::{collections::BTreeMap, ops::Range};

/// Place of a vertex in the code's own picture, for passes that group work without knowing the
/// code: vertices of one layer are solved together, a column is the chunk they stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Hint {
    /// The group that is computed together (Clay: the layer z).
    pub layer: u32,
    /// The member of the group (Clay: the grid node, virtual nodes included).
    pub column: u32,
}

/// A sub-chunk of a chunk, by position on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct At {
    /// Chunk index, 0 to n-1.
    pub chunk: u32,
    /// Position of the sub-chunk in the chunk, 0 to alpha-1.
    pub position: u32,
}

/// Reads of one helper: runs of sub-chunks of its chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelperReads {
    /// The helper's chunk index.
    pub chunk: usize,
    /// Positions, as maximal runs, ascending.
    pub runs: Vec<Range<u32>>,
}

impl HelperReads {
    /// Sub-chunks in all runs together.
    pub fn sub_chunks(&self) -> usize {
        self.runs.iter().map(|run| run.len()).sum()
    }
}

/// A computed group of vertices: `rows` new vertices, consecutive from `first`, each a linear
/// combination of the same sources.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// One row a new vertex, one column a source.
    pub matrix: &'a Matrix,
    /// Its index in [`Dag::matrices`], so that prepared forms can be shared.
    pub matrix_index: usize,
    /// Source vertices.
    pub sources: &'a [u32],
    /// The first of the new vertices.
    pub first: u32,
}

impl Step<'_> {
    /// The new vertices, by row.
    pub fn vertices(&self) -> Range<usize> {
        let first = self.first as usize;
        first..first + self.matrix.rows()
    }
}

#[derive(Debug, Clone)]
struct StepRecord {
    matrix: u32,
    sources: Range<u32>,
    first: u32,
}

/// A linear program over sub-chunks. Made by [`DagBuilder`]; immutable.
#[derive(Debug, Clone)]
pub struct Dag {
    inputs: Vec<At>,
    steps: Vec<StepRecord>,
    sources: Vec<u32>,
    matrices: Vec<Matrix>,
    hints: Vec<Hint>,
    outputs: Vec<(At, u32)>,
}

/// The largest matrix that [`Dag::matrix`] builds, in entries.
const MATRIX_ENTRIES_MAX: usize = 1 << 24;

impl Dag {
    /// The graph that moves chunks of `sub_chunks` sub-chunks as they are: each sub-chunk that is
    /// read is made at the same place.
    ///
    /// # Errors
    /// A chunk is named twice.
    pub fn copy(chunks: &[usize], sub_chunks: usize) -> Result<Dag> {
        let mut builder = DagBuilder::new();
        for &chunk in chunks {
            for position in 0..sub_chunks as u32 {
                let at = At { chunk: chunk as u32, position };
                let symbol = builder.input(at, Hint { layer: position, column: at.chunk });
                builder.output(at, symbol);
            }
        }
        builder.finish()
    }

    /// Returns the reads, ascending by chunk and position. Input i is vertex i.
    pub fn inputs(&self) -> &[At] {
        &self.inputs
    }

    /// Returns the outputs: position and vertex, ascending by position.
    pub fn outputs(&self) -> &[(At, u32)] {
        &self.outputs
    }

    /// All vertices, inputs included.
    pub fn vertices(&self) -> usize {
        self.hints.len()
    }

    /// The hint of a vertex.
    pub fn hint(&self, vertex: u32) -> Option<Hint> {
        self.hints.get(vertex as usize).copied()
    }

    /// The distinct matrices of the steps.
    pub fn matrices(&self) -> &[Matrix] {
        &self.matrices
    }

    /// The steps in an order in which every source is known before it is used.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = Step<'_>> + DoubleEndedIterator + Clone {
        self.steps.iter().map(|step| Step {
            matrix: &self.matrices[step.matrix as usize],
            matrix_index: step.matrix as usize,
            sources: &self.sources[step.sources.start as usize..step.sources.end as usize],
            first: step.first,
        })
    }

    /// The reads that the inputs ask for: per chunk the maximal runs of positions, ascending.
    pub fn reads(&self) -> Vec<HelperReads> {
        let mut chunks: BTreeMap<u32, Vec<Range<u32>>> = BTreeMap::new();
        for at in &self.inputs {
            let runs = chunks.entry(at.chunk).or_default();
            match runs.last_mut() {
                Some(run) if run.end == at.position => run.end += 1,
                _ => runs.push(at.position..at.position + 1),
            }
        }
        let reads = |(chunk, runs)| HelperReads { chunk: chunk as usize, runs };
        chunks.into_iter().map(reads).collect()
    }

    /// The same graph with all inputs at zero but some, and with some of its outputs: what these do
    /// not need is neither read nor computed.
    ///
    /// # Errors
    /// No output is wanted.
    pub fn restricted(
        &self,
        read: impl Fn(At) -> bool,
        wanted: impl Fn(At) -> bool,
    ) -> Result<Dag> {
        let outputs = self.outputs.iter().filter(|(at, _)| wanted(*at));
        let mut needed = vec![false; self.vertices()];
        outputs.clone().for_each(|&(_, vertex)| needed[vertex as usize] = true);
        if !needed.contains(&true) {
            return Err(CodeError::Shape { what: "sub-chunks wanted", expected: 1, got: 0 });
        }
        for step in self.steps().rev() {
            if needed[step.vertices()].contains(&true) {
                step.sources.iter().for_each(|&source| needed[source as usize] = true);
            }
        }
        let mut builder = DagBuilder::new();
        let mut symbols = vec![Symbol::Zero; self.vertices()];
        for (vertex, &at) in self.inputs.iter().enumerate() {
            if needed[vertex] && read(at) {
                symbols[vertex] = builder.input(at, self.hints[vertex]);
            }
        }
        for step in self.steps().filter(|step| needed[step.vertices()].contains(&true)) {
            let sources: Vec<Symbol> = step.sources.iter().map(|&s| symbols[s as usize]).collect();
            let matrix = builder.matrix(step.matrix);
            let out = builder.step(matrix, &sources, &self.hints[step.vertices()])?;
            step.vertices().enumerate().for_each(|(row, v)| symbols[v] = out.symbol(row));
        }
        for &(at, vertex) in outputs {
            if symbols[vertex as usize] != Symbol::Zero {
                builder.output(at, symbols[vertex as usize]);
            }
        }
        builder.finish()
    }

    /// The same graph with the inputs, and the outputs, of every chunk in another order: the i-th
    /// is the one that was at that place of the list; empty lists change nothing. Numbers of
    /// inputs follow; positions are then no longer ascending.
    pub(crate) fn reordered(&self, [inputs, outputs]: [&[u32]; 2]) -> Dag {
        let mut dag = self.clone();
        let count = self.inputs.len() as u32;
        let mut renamed: Vec<u32> = (0..count).collect();
        if !inputs.is_empty() {
            for start in (0..self.inputs.len()).step_by(inputs.len()) {
                for (new, &old) in inputs.iter().enumerate() {
                    let (new, old) = (start + new, start + old as usize);
                    dag.inputs[new] = self.inputs[old];
                    dag.hints[new] = self.hints[old];
                    renamed[old] = new as u32;
                }
            }
        }
        let name = |vertex: u32| renamed.get(vertex as usize).copied().unwrap_or(vertex);
        dag.sources.iter_mut().for_each(|source| *source = name(*source));
        if !outputs.is_empty() {
            for start in (0..self.outputs.len()).step_by(outputs.len()) {
                for (new, &old) in outputs.iter().enumerate() {
                    dag.outputs[start + new] = self.outputs[start + old as usize];
                }
            }
        }
        dag.outputs.iter_mut().for_each(|(_, vertex)| *vertex = name(*vertex));
        dag
    }

    /// Returns what the graph computes, on one byte an input: one byte an output, in their orders.
    ///
    /// # Errors
    /// The number of bytes is not the number of inputs.
    pub fn eval(&self, inputs: &[u8]) -> Result<Vec<u8>> {
        if inputs.len() != self.inputs.len() {
            return Err(CodeError::Shape {
                what: "inputs of a DAG",
                expected: self.inputs.len(),
                got: inputs.len(),
            });
        }
        let mut values = inputs.to_vec();
        values.reserve(self.vertices() - values.len());
        for step in self.steps() {
            for r in 0..step.matrix.rows() {
                let terms = step.matrix.row(r).iter().zip(step.sources);
                let sum = terms.fold(0, |sum, (&c, &s)| sum ^ field::mul(c, values[s as usize]));
                values.push(sum);
            }
        }
        Ok(self.outputs.iter().map(|&(_, v)| values[v as usize]).collect())
    }

    /// The matrix that the graph computes: one row an output, one column an input.
    ///
    /// # Errors
    /// The matrix would have more than 16 Mi entries: use [`Dag::eval`] on random vectors there.
    pub fn matrix(&self) -> Result<Matrix> {
        let (rows, cols) = (self.outputs.len(), self.inputs.len());
        if rows.saturating_mul(cols) > MATRIX_ENTRIES_MAX {
            return Err(CodeError::Shape {
                what: "entries of a DAG's matrix",
                expected: MATRIX_ENTRIES_MAX,
                got: rows.saturating_mul(cols),
            });
        }
        let mut matrix = Matrix::zero(rows, cols);
        let mut unit = vec![0; cols];
        for c in 0..cols {
            unit[c] = 1;
            for (r, value) in self.eval(&unit)?.into_iter().enumerate() {
                matrix.set(r, c, value);
            }
            unit[c] = 0;
        }
        Ok(matrix)
    }

    /// Multiplications and additions a byte of sub-chunk, as (multiply, xor): the cost of running
    /// the graph as written. A coefficient of one costs no multiplication.
    pub fn work(&self) -> (usize, usize) {
        let mut work = (0, 0);
        for step in self.steps() {
            for r in 0..step.matrix.rows() {
                let nonzero = step.matrix.row(r).iter().filter(|&&c| c != 0).count();
                let ones = step.matrix.row(r).iter().filter(|&&c| c == 1).count();
                work.0 += nonzero - ones;
                work.1 += nonzero.saturating_sub(1);
            }
        }
        work
    }
}
