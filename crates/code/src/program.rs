//! The only executor: a DAG compiled to steps over slices that stay in cache.
//!
//! Compiling decides the order of the steps, gives every intermediate value a slot of a small
//! scratch buffer (a slot is used again as soon as its value is dead) and writes outputs straight
//! to their place. Running walks the sub-chunks slice by slice, so that all intermediate values of
//! a slice stay in the second-level cache however large the chunks are.

mod compile;
mod packets;

use crate::{CodeError, Dag};
use kiln_gf::{Buffers, Footprint, Kernel, Listing, Product, Sequence};
use packets::Packets;

/// Bytes of scratch that a run aims to stay within: half of a common second-level cache.
const SCRATCH_BYTES: usize = 512 << 10;
/// Slices are never shorter (a shorter one spends its time on dispatch) ...
const SLICE_MIN: usize = 512;
/// ... nor longer: operands of one step should share the first-level cache.
const SLICE_MAX: usize = 4096;

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
    sequence: Sequence,
    packets: Option<Packets>,
}

impl Program {
    /// Compiles a DAG for a kernel. Input buffer i holds what is read of the i-th chunk of
    /// [`Dag::reads`], output buffer j what is computed for the j-th chunk of the outputs,
    /// positions ascending in both.
    ///
    /// # Errors
    /// Only an internal one.
    pub fn compile(dag: &Dag, kernel: &'static dyn Kernel) -> Result<Program, CodeError> {
        let parts = compile::compile(dag);
        let matrices = dag.matrices().iter().chain(&parts.copy);
        let products = matrices.map(|matrix| Product::new(kernel, matrix)).collect();
        let inputs = dag.reads().iter().map(|reads| reads.sub_chunks()).collect();
        let buffers = Buffers { inputs, outputs: parts.outputs, scratch: parts.slots };
        let (calls, operands) = (parts.calls, parts.operands);
        let listing = Listing { products, calls, operands, ..Listing::default() };
        let sequence = Sequence::new(listing, buffers)?;
        Ok(Program { sequence, packets: None })
    }

    /// The same program on chunks that are blocks of `alpha` packets of `packet` bytes, each block
    /// coded alone; the last block of a chunk has shorter packets where the length asks for it.
    ///
    /// # Errors
    /// Some buffer is not a whole chunk, or a number is zero.
    pub(crate) fn in_packets(self, alpha: usize, packet: usize) -> Result<Program, CodeError> {
        let packets = Packets::new(self.sequence.buffers(), alpha, packet)?;
        Ok(Program { packets: Some(packets), ..self })
    }

    /// Intermediate values that are alive at once, at most.
    pub fn slots(&self) -> usize {
        self.sequence.buffers().scratch
    }

    /// Runs the program over buffers whose sub-chunks all have one length.
    ///
    /// # Errors
    /// The number or a length of the buffers does not fit; outputs are then untouched.
    pub fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), CodeError> {
        self.run_on(inputs, outputs, Footprint::Cached)
    }

    /// As [`Program::run`], saying where the data is.
    ///
    /// # Errors
    /// As [`Program::run`].
    pub fn run_on(
        &self,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        footprint: Footprint,
    ) -> Result<(), CodeError> {
        let slice = match self.sequence.calls() {
            // Nothing passes from call to call, so nothing is gained by slices.
            1 => usize::MAX,
            _ => (SCRATCH_BYTES / self.slots().max(1)).clamp(SLICE_MIN, SLICE_MAX) / 64 * 64,
        };
        let run = |inputs: &[&[u8]], outputs: &mut [&mut [u8]]| {
            Ok(self.sequence.run(inputs, outputs, slice, footprint)?)
        };
        match &self.packets {
            Some(packets) => packets.each_block(inputs, outputs, run),
            None => run(inputs, outputs),
        }
    }
}
