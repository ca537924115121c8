//! Schedules: in which order a DAG of XORs becomes operations on words.
//!
//! A DAG says which sub-chunks are summed; a [`Schedule`] says in which order, which sum starts by
//! a copy. The orders differ in what they find in cache, not in their results: the compiled one is
//! that of `passes/resident.rs`; those of papers are in the laboratory.
//!
//! Words are packets of a sub-chunk's length: those that are read, those that are made, and
//! temporary ones that no chunk stores (the S of EVENODD).

use crate::dag::{At, Dag};
use crate::{CodeError, Result};
use kiln_gf::{Buffers, Unit};

/// One operation on whole words, by index: inputs, then outputs, then temporary words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// `to` becomes zero.
    Zero {
        /// The word that is written.
        to: u32,
    },
    /// `to` becomes `from`.
    Copy {
        /// The word that is read.
        from: u32,
        /// The word that is written.
        to: u32,
    },
    /// `from` is added to `to`.
    Xor {
        /// The word that is read.
        from: u32,
        /// The word that is read and written.
        to: u32,
    },
}

/// An order of operations that computes what a DAG says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// Place of each word.
    places: Vec<Unit>,
    buffers: Buffers,
    inputs: usize,
    outputs: usize,
    /// They run in one loop over the bytes of a word, all of them on each position.
    pub(crate) ops: Vec<Op>,
}

impl Schedule {
    /// Words that are read.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Words that are made.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// The buffers that a run works on, in words: one a chunk, then the temporary words.
    pub fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// The buffer and position of a word of this schedule.
    ///
    /// # Panics
    /// The schedule has no such word.
    pub fn place(&self, word: u32) -> Unit {
        self.places[word as usize]
    }
}

/// A sum of a DAG: a vertex and what it is the XOR of.
#[derive(Debug, Clone)]
pub(crate) struct Sum {
    pub vertex: u32,
    pub terms: Vec<u32>,
}

/// The sums of a DAG, each after its terms.
/// Errors: the DAG multiplies.
pub(crate) fn sums(dag: &Dag) -> Result<Vec<Sum>> {
    let mut sums = Vec::with_capacity(dag.vertices() - dag.inputs().len());
    for step in dag.steps() {
        for (r, vertex) in step.vertices().enumerate() {
            let row = step.matrix.row(r);
            if let Some(&coefficient) = row.iter().find(|&&c| c > 1) {
                return Err(CodeError::Multiplies { coefficient });
            }
            let terms = step.sources.iter().zip(row).filter(|&(_, &c)| c == 1);
            sums.push(Sum { vertex: vertex as u32, terms: terms.map(|(&s, _)| s).collect() });
        }
    }
    Ok(sums)
}

/// Collects the operations of a schedule: knows the word of every vertex of the DAG.
pub(crate) struct Draft {
    schedule: Schedule,
    /// The word of each vertex.
    words: Vec<u32>,
    /// True if a word holds something.
    begun: Vec<bool>,
    /// Outputs whose value has another word already.
    repeats: Vec<Op>,
}

impl Draft {
    pub(crate) fn new(dag: &Dag) -> Draft {
        const NONE: u32 = u32::MAX;
        let mut schedule = Schedule {
            places: Vec::new(),
            buffers: Buffers::default(),
            inputs: dag.inputs().len(),
            outputs: dag.outputs().len(),
            ops: Vec::new(),
        };
        let outputs: Vec<At> = dag.outputs().iter().map(|&(at, _)| at).collect();
        let (mut all, inputs) = places(0, dag.inputs());
        let (made, outputs) = places(inputs.len(), &outputs);
        all.extend(made);
        let mut words = vec![NONE; dag.vertices()];
        (0..schedule.inputs).for_each(|input| words[input] = input as u32);
        let mut repeats = Vec::new();
        for (index, &(_, vertex)) in dag.outputs().iter().enumerate() {
            let to = (schedule.inputs + index) as u32;
            match words[vertex as usize] {
                NONE => words[vertex as usize] = to,
                from => repeats.push(Op::Copy { from, to }),
            }
        }
        let scratch = (inputs.len() + outputs.len()) as u32;
        let mut temporaries = 0;
        for word in words.iter_mut().filter(|word| **word == NONE) {
            *word = all.len() as u32;
            all.push(Unit { region: scratch, unit: temporaries });
            temporaries += 1;
        }
        schedule.buffers = Buffers { inputs, outputs, scratch: temporaries as usize };
        schedule.places = all;
        let mut begun = vec![false; schedule.places.len()];
        begun[..schedule.inputs].fill(true);
        Draft { schedule, words, begun, repeats }
    }

    /// Adds a vertex to a sum: the first one is copied.
    pub(crate) fn add(&mut self, from: u32, to: u32) -> Op {
        let (from, to) = (self.words[from as usize], self.words[to as usize]);
        match std::mem::replace(&mut self.begun[to as usize], true) {
            true => Op::Xor { from, to },
            false => Op::Copy { from, to },
        }
    }

    /// Makes a sum of nothing.
    pub(crate) fn zero(&mut self, vertex: u32) -> Op {
        let to = self.words[vertex as usize];
        self.begun[to as usize] = true;
        Op::Zero { to }
    }

    /// The schedule of these operations; outputs that repeat another value come last.
    pub(crate) fn finish(self, mut ops: Vec<Op>) -> Schedule {
        ops.extend(self.repeats);
        Schedule { ops, ..self.schedule }
    }
}

/// Places of sub-chunks in one buffer a chunk, from buffer `first` on, and the words of each.
fn places(first: usize, at: &[At]) -> (Vec<Unit>, Vec<usize>) {
    let mut sizes: Vec<usize> = Vec::new();
    let mut chunk = None;
    let place = |at: &At| {
        if chunk.replace(at.chunk) != Some(at.chunk) {
            sizes.push(0);
        }
        let region = (first + sizes.len() - 1) as u32;
        let size = sizes.last_mut();
        let unit = size.map_or(0, |size| std::mem::replace(size, *size + 1)) as u32;
        Unit { region, unit }
    };
    let places = at.iter().map(place).collect();
    (places, sizes)
}
