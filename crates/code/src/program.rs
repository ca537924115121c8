//! The only executor: a DAG compiled to steps over slices that stay in cache.
//!
//! Compiling decides the order of the steps, gives every intermediate value a slot of a small
//! scratch buffer (a slot is used again as soon as its value is dead) and writes outputs straight
//! to their place. Running walks the sub-chunks slice by slice, so that all intermediate values of
//! a slice stay in the second-level cache however large the chunks are.

mod compile;

use crate::{CodeError, Dag};
use kiln_gf::buf::AlignedBuf;
use kiln_gf::{Kernel, Product, RegionId, Regions, Span};
use std::ops::Range;

/// Bytes of scratch that a run aims to stay within: half of a common second-level cache.
const SCRATCH_BYTES: usize = 512 << 10;
/// Slices are never shorter (a shorter one spends its time on dispatch) ...
const SLICE_MIN: usize = 512;
/// ... nor longer: operands of one step should share the first-level cache.
const SLICE_MAX: usize = 4096;
/// Slots of the scratch buffer start this much further than a slice, so that their addresses do
/// not compete for the same cache sets.
const STAGGER: usize = 64;

/// Where a value lives while a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Input { region: u32, rank: u32 },
    Output { region: u32, rank: u32 },
    Scratch { slot: u32 },
}

#[derive(Debug, Clone)]
struct Operation {
    product: u32,
    sources: Range<u32>,
    results: Range<u32>,
}

/// A compiled DAG: safe to share between threads, each run brings its own scratch.
///
/// ```
/// use kiln_code::Codec;
/// let codec = Codec::new(&"rs:2+1".parse()?)?;
/// let plan = codec.repair_plan(&[0], &[1, 2])?;
/// let mut out = [0; 4];
/// plan.program().run(&[&[1, 2, 3, 4], &[5, 6, 7, 8]], &mut [&mut out])?;
/// assert_eq!(out, [1 ^ 5, 2 ^ 6, 3 ^ 7, 4 ^ 8]); // the first parity is the sum
/// # Ok::<(), kiln_code::CodeError>(())
/// ```
#[derive(Debug)]
pub struct Program {
    products: Vec<Product>,
    operations: Vec<Operation>,
    places: Vec<Place>,
    /// Sub-chunks in each input buffer.
    inputs: Vec<usize>,
    /// Sub-chunks in each output buffer.
    outputs: Vec<usize>,
    slots: usize,
}

impl Program {
    /// Compiles a DAG for a kernel. Input buffer i holds what is read of the i-th chunk of
    /// [`Dag::reads`], output buffer j what is computed for the j-th chunk of the outputs,
    /// positions ascending in both.
    pub fn compile(dag: &Dag, kernel: &'static dyn Kernel) -> Program {
        let parts = compile::compile(dag);
        Program {
            products: dag
                .matrices()
                .iter()
                .chain(&parts.copy)
                .map(|m| Product::new(kernel, m))
                .collect(),
            operations: parts.operations,
            places: parts.places,
            inputs: dag.reads().iter().map(|reads| reads.sub_chunks()).collect(),
            outputs: parts.outputs,
            slots: parts.slots,
        }
    }

    /// Intermediate values that are alive at once, at most.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Runs the program over buffers whose sub-chunks all have one length.
    ///
    /// # Errors
    /// The number or a length of the buffers does not fit; outputs are then untouched.
    pub fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), CodeError> {
        let sub_len = self.check(inputs, outputs)?;
        let slice = self.slice(sub_len);
        let stride = slice + STAGGER;
        let mut scratch = AlignedBuf::zeroed(self.slots * stride);
        let mut regions = Regions::with_capacity(inputs.len() + outputs.len() + 1);
        for input in inputs {
            regions.read(input);
        }
        for output in outputs {
            regions.write(output);
        }
        let scratch = regions.write(&mut scratch);
        let (mut sources, mut results) = (Vec::with_capacity(64), Vec::with_capacity(64));
        for start in (0..sub_len).step_by(slice.max(1)) {
            let len = slice.min(sub_len - start);
            let span = |place: &Place| match *place {
                Place::Input { region, rank } | Place::Output { region, rank } => {
                    Span { region: RegionId::new(region), offset: rank as usize * sub_len + start }
                }
                Place::Scratch { slot } => Span { region: scratch, offset: slot as usize * stride },
            };
            for operation in &self.operations {
                sources.clear();
                sources.extend(self.places_of(&operation.sources).iter().map(span));
                results.clear();
                results.extend(self.places_of(&operation.results).iter().map(span));
                let product = &self.products[operation.product as usize];
                product.run_in(&mut regions, &sources, &results, len)?;
            }
        }
        Ok(())
    }

    fn places_of(&self, range: &Range<u32>) -> &[Place] {
        &self.places[range.start as usize..range.end as usize]
    }

    fn slice(&self, sub_len: usize) -> usize {
        let fits = SCRATCH_BYTES / self.slots.max(1);
        let slice = fits.clamp(SLICE_MIN, SLICE_MAX) / STAGGER * STAGGER;
        slice.min(sub_len)
    }

    /// Checks all buffers and returns the length of a sub-chunk.
    fn check(&self, inputs: &[&[u8]], outputs: &[&mut [u8]]) -> Result<usize, CodeError> {
        let count = |what, expected: usize, got: usize| match expected == got {
            true => Ok(()),
            false => Err(CodeError::Shape { what, expected, got }),
        };
        count("input buffers", self.inputs.len(), inputs.len())?;
        count("output buffers", self.outputs.len(), outputs.len())?;
        let first = outputs.first().map_or(0, |output| output.len());
        let sub_len = first / self.outputs.first().copied().unwrap_or(1).max(1);
        for (output, sub_chunks) in outputs.iter().zip(&self.outputs) {
            count("bytes of an output buffer", sub_chunks * sub_len, output.len())?;
        }
        for (input, sub_chunks) in inputs.iter().zip(&self.inputs) {
            count("bytes of an input buffer", sub_chunks * sub_len, input.len())?;
        }
        Ok(sub_len)
    }
}
