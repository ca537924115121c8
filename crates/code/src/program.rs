//! The only executor: a DAG compiled to steps over slices that stay in cache.
//!
//! Compiling decides the order of the steps, gives every intermediate value a slot of a small
//! scratch buffer (a slot is used again as soon as its value is dead) and writes outputs straight
//! to their place. Where the kernel makes machine code, DAGs of XORs become one block
//! (`program/scheduled.rs`) and large steps of others are cut into blocks whose values stay in
//! registers (`program/blocks.rs`); otherwise every step is a product. Running walks the sub-chunks
//! slice by slice, so that all intermediate values of a slice stay in a cache however large the
//! chunks are.

mod blocks;
mod compile;
mod packets;
mod place;
mod scheduled;

use crate::{CodeError, Dag, Schedule, passes};
use kiln_gf::{Buffers, Footprint, Kernel, Listing, Product, Sequence};
use packets::Packets;

/// Bytes of scratch that a run on cached data aims to stay within: half of a common second-level
/// cache.
const SCRATCH_CACHED: usize = 512 << 10;
/// As [`SCRATCH_CACHED`], for blocks on data in memory: longer runs of bytes are worth more there.
const SCRATCH_MEMORY: usize = 6 << 20;
/// Slices are never shorter (a shorter one spends its time on dispatch) ...
const SLICE_MIN: usize = 512;
/// ... nor longer than this in the caches (operands of one step should share the first level) ...
const SLICE_CACHED: usize = 4096;
/// ... or than this in memory.
const SLICE_MEMORY: usize = 2048;

/// The slice for programs with so many units of scratch.
fn slice(scratch: usize, slots: usize, longest: usize) -> usize {
    (scratch / slots.max(1)).clamp(SLICE_MIN, longest) / 64 * 64
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
    sequence: Sequence,
    packets: Option<Packets>,
    /// Bytes of every sub-chunk that all calls do before the next ones are begun: for data in the
    /// caches, and in memory.
    slices: [usize; 2],
}

impl Program {
    /// Compiles a DAG for a kernel. Input buffer i holds what is read of the i-th chunk of
    /// [`Dag::reads`], output buffer j what is computed for the j-th chunk of the outputs,
    /// positions ascending in both.
    ///
    /// # Errors
    /// Only an internal one.
    pub fn compile(dag: &Dag, kernel: &'static dyn Kernel) -> Result<Program, CodeError> {
        let fused = passes::fuse(dag)?;
        // The program must read what the plan says, even if a pass found a source superfluous.
        let fused = if fused.inputs() == dag.inputs() { &fused } else { dag };
        if let Some(sequence) = scheduled::resident(fused, kernel)? {
            return Ok(Program { sequence, packets: None, slices: [usize::MAX; 2] });
        }
        if kernel.compiles_blocks()
            && let Some((listing, buffers)) = blocks::compile(dag, kernel)?
        {
            let slots = buffers.scratch;
            let sequence = Sequence::new(listing, buffers)?;
            let cached = slice(SCRATCH_CACHED, slots, SLICE_CACHED);
            let memory = slice(SCRATCH_MEMORY, slots, SLICE_MEMORY);
            return Ok(Program { sequence, packets: None, slices: [cached, memory] });
        }
        let dag = fused;
        let parts = compile::compile(dag);
        let matrices = dag.matrices().iter().chain(&parts.copy);
        let products = matrices.map(|matrix| Product::new(kernel, matrix)).collect();
        let inputs = dag.reads().iter().map(|reads| reads.sub_chunks()).collect();
        let buffers = Buffers { inputs, outputs: parts.outputs, scratch: parts.slots };
        let (calls, operands) = (parts.calls, parts.operands);
        let listing = Listing { products, calls, operands, ..Listing::default() };
        let sequence = Sequence::new(listing, buffers)?;
        let slice = match sequence.calls() {
            // Nothing passes from call to call, so nothing is gained by slices.
            1 => usize::MAX,
            _ => slice(SCRATCH_CACHED, parts.slots, SLICE_CACHED),
        };
        Ok(Program { sequence, packets: None, slices: [slice; 2] })
    }

    /// What the program computes, on one byte a sub-chunk of every input: one byte a sub-chunk of
    /// every output. The oracle: it uses no kernel.
    ///
    /// # Errors
    /// The number of bytes is not the number of sub-chunks that are read.
    pub fn eval(&self, inputs: &[u8]) -> Result<Vec<u8>, CodeError> {
        Ok(self.sequence.eval(inputs)?)
    }

    /// Compiles a schedule: every loop of it becomes one block of straight-line code, run over
    /// whole sub-chunks. With `packets`, chunks are blocks of so many packets of so many bytes.
    ///
    /// # Errors
    /// Some chunk is not whole, but there are packets.
    ///
    /// ```
    /// use kiln_code::{Codec, Program, schedule::schedule};
    /// let codec = Codec::new(&"rdp:2+2,p=3".parse()?)?;
    /// let plan = codec.encode_plan()?;
    /// let by_word = (schedule("by-data-word")?.make)(plan.dag())?;
    /// let kernel = kiln_gf::active()?;
    /// let program = Program::of_schedule(&by_word, kernel, None)?;
    /// let (mut p, mut q) = ([0; 4], [0; 4]);
    /// program.run(&[&[1, 2, 3, 4], &[5, 6, 7, 8]], &mut [&mut p, &mut q])?;
    /// assert_eq!(p, [1 ^ 5, 2 ^ 6, 3 ^ 7, 4 ^ 8]);
    /// # Ok::<(), kiln_code::CodeError>(())
    /// ```
    pub fn of_schedule(
        schedule: &Schedule,
        kernel: &'static dyn Kernel,
        packets: Option<(usize, usize)>,
    ) -> Result<Program, CodeError> {
        let sequence = scheduled::compile(schedule, kernel)?;
        let program = Program { sequence, packets: None, slices: [usize::MAX; 2] };
        match packets {
            Some((alpha, packet)) => program.in_packets(alpha, packet),
            None => Ok(program),
        }
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
        let slice = self.slices[usize::from(footprint == Footprint::Memory)];
        match &self.packets {
            Some(packets) => packets.run(&self.sequence, inputs, outputs, slice, footprint),
            None => Ok(self.sequence.run(inputs, outputs, slice, footprint)?),
        }
    }
}
