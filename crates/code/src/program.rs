//! The only executor: a DAG compiled to steps over slices that stay in cache.
//!
//! Compiling decides the order of the steps, gives every intermediate value a slot of a small
//! scratch buffer (a slot is used again as soon as its value is dead) and writes outputs straight
//! to their place. Where the kernel makes machine code, DAGs of XORs become one block
//! (`program/scheduled.rs`) and large steps of others are cut into blocks whose values stay in
//! registers (`program/blocks.rs`), output-stationary for data in the caches, input-stationary for
//! data in memory; otherwise every step is a product. Running walks the sub-chunks slice by slice,
//! so that all intermediate values of a slice stay in a cache however large the chunks are.

mod memory_order;
mod packets;
mod place;
mod blocks;
mod compile;
mod relabel;
mod scheduled;

use crate::{CodeError, Dag, Result, passes};
use blocks::Dataflow;
use kiln_gf::{
    Buffers, Caches, DataPath, Kernel, KernelProgram, Product, ProgramSource, Results, Routine,
    Side, TemporalHint, Tuning, working_set,
};
pub use packets::Packets;
use relabel::{Relabelled, by_layers};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// Bytes of scratch that a run on cached data aims to stay within: half of a common second-level
/// cache.
const SCRATCH_CACHED: usize = 512 << 10;
/// As [`SCRATCH_CACHED`], for blocks on data in memory: longer runs of bytes are worth more there.
const SCRATCH_MEMORY: usize = 6 << 20;
/// Slices are never shorter (a shorter one spends its time on dispatch) ...
const SLICE_MIN: usize = 512;
/// ... or than this, where blocks are output-stationary and all data is loaded more than once ...
const SLICE_OUTPUT_STATIONARY_MIN: usize = 128;
/// ... nor longer than this: a page. In the caches the operands of one step should share the first
/// level; in memory runs of half a page were slower (Clay on Zen 4: 0.92 to 1.0).
const SLICE_MAX: usize = 4096;

/// The slice for programs with so many units that compete for a cache.
fn slice(cache: usize, units: usize, least: usize) -> usize {
    (cache / units.max(1)).clamp(least, SLICE_MAX) / 64 * 64
}

/// The DAG fused, unless that finds a source superfluous: the program must read what the plan says.
fn fused(dag: &Dag) -> Result<Cow<'_, Dag>> {
    let fused = passes::fuse(dag)?;
    Ok(match fused.inputs() == dag.inputs() {
        true => Cow::Owned(fused),
        false => Cow::Borrowed(dag),
    })
}

/// A compiled DAG: safe to share between threads, each run brings its own scratch.
#[derive(Debug)]
pub struct Program {
    cached: Compiled,
    /// Programs that run instead where data is too much to be loaded again, and where results pass
    /// the caches.
    memory: [Option<Box<LazyCompiled>>; 2],
    packets: Option<Packets>,
}

/// A compiled program of one dataflow.
#[derive(Debug)]
struct Compiled {
    kernel_program: KernelProgram,
    /// Bytes of every sub-chunk that all calls do before the next ones are begun.
    slice: usize,
}

/// A program that is compiled when it is first needed.
#[derive(Debug)]
struct LazyCompiled {
    source: Arc<Relabelled>,
    kernel: &'static dyn Kernel,
    dataflow: Dataflow,
    made: OnceLock<Compiled>,
}

impl LazyCompiled {
    fn boxed(
        source: Arc<Relabelled>,
        kernel: &'static dyn Kernel,
        dataflow: Dataflow,
    ) -> Box<LazyCompiled> {
        Box::new(LazyCompiled { source, kernel, dataflow, made: OnceLock::new() })
    }

    fn compiled(&self) -> Result<&Compiled> {
        if let Some(made) = self.made.get() {
            return Ok(made);
        }
        let made = match Compiled::input_stationary(&self.source, self.kernel, self.dataflow)? {
            Some(made) => made,
            None => Compiled::of_products(&*fused(&self.source.original())?, self.kernel)?,
        };
        Ok(self.made.get_or_init(|| made))
    }
}

impl Compiled {
    /// Output-stationary blocks.
    fn output_stationary(
        relabelled: &Relabelled,
        kernel: &'static dyn Kernel,
    ) -> Result<Option<Compiled>> {
        let Some((mut source, buffers)) =
            blocks::compile(&relabelled.dag, kernel, Dataflow::OutputStationary)?
        else {
            return Ok(None);
        };
        let units = buffers.inputs.iter().chain(&buffers.outputs).sum::<usize>() + buffers.scratch;
        let slice = slice(SCRATCH_CACHED, units, SLICE_OUTPUT_STATIONARY_MIN);
        source.order = relabelled.order.clone();
        let kernel_program = KernelProgram::new(source, buffers)?;
        Ok(Some(Compiled { kernel_program, slice }))
    }

    /// Input-stationary blocks, streamed or not: of data in memory, or for a kernel that computes
    /// for longer than it waits for scratch.
    fn input_stationary(
        relabelled: &Relabelled,
        kernel: &'static dyn Kernel,
        dataflow: Dataflow,
    ) -> Result<Option<Compiled>> {
        let Some((mut source, buffers)) = blocks::compile(&relabelled.dag, kernel, dataflow)?
        else {
            return Ok(None);
        };
        let slots = buffers.scratch;
        source.order = relabelled.order.clone();
        memory_order::sort(&mut source);
        let kernel_program = KernelProgram::new(source, buffers)?;
        let slice = slice(SCRATCH_MEMORY, slots, SLICE_MIN);
        Ok(Some(Compiled { kernel_program, slice }))
    }

    /// Returns whether some blocks load no inputs: what they make could be made beside others'
    /// products.
    fn makes_apart(&self) -> bool {
        let reads = |routine: &Routine| routine.block().sides().contains(&Side::Input);
        !self.kernel_program.routines().iter().all(reads)
    }

    /// A product for every step.
    fn of_products(dag: &Dag, kernel: &'static dyn Kernel) -> Result<Compiled> {
        let parts = compile::compile(dag);
        let matrices = dag.matrices().iter().chain(&parts.copy);
        let products = matrices.map(|matrix| Product::new(kernel, matrix)).collect();
        let inputs = dag.reads().iter().map(|reads| reads.sub_chunks()).collect();
        let buffers = Buffers { inputs, outputs: parts.outputs, scratch: parts.slots };
        let (calls, operands) = (parts.calls, parts.operands);
        let source = ProgramSource { products, calls, operands, ..ProgramSource::default() };
        let kernel_program = KernelProgram::new(source, buffers)?;
        let slice = match kernel_program.calls() {
            // Nothing passes from call to call, so nothing is gained by slices.
            1 => usize::MAX,
            _ => slice(SCRATCH_CACHED, parts.slots, SLICE_MIN),
        };
        Ok(Compiled { kernel_program, slice })
    }
}

impl Program {
    /// Compiles a DAG for a kernel. Input buffer i holds what is read of the i-th chunk of
    /// [`Dag::reads`], output buffer j what is computed for the j-th chunk of the outputs,
    /// positions ascending in both.
    pub fn compile(dag: &Dag, kernel: &'static dyn Kernel) -> Result<Program> {
        let alone = |cached| Ok(Program { cached, memory: [None, None], packets: None });
        if dag.work().0 == 0
            && let Some(kernel_program) = scheduled::resident(&*fused(dag)?, kernel)?
        {
            return alone(Compiled { kernel_program, slice: usize::MAX });
        }
        if kernel.compiles_blocks() {
            let source = Arc::new(by_layers(dag));
            let lazy = |dataflow| LazyCompiled::boxed(Arc::clone(&source), kernel, dataflow);
            let in_caches = Dataflow::in_caches(kernel);
            if in_caches == Dataflow::InputStationary {
                let Some(cached) = Compiled::input_stationary(&source, kernel, in_caches)? else {
                    return alone(Compiled::of_products(&*fused(dag)?, kernel)?);
                };
                let streamed = cached.makes_apart().then(|| lazy(Dataflow::Streamed));
                return Ok(Program { cached, memory: [None, streamed], packets: None });
            }
            if let Some(cached) = Compiled::output_stationary(&source, kernel)? {
                let memory =
                    [Dataflow::InputStationary, Dataflow::Streamed].map(|flow| Some(lazy(flow)));
                return Ok(Program { cached, memory, packets: None });
            }
        }
        alone(Compiled::of_products(&*fused(dag)?, kernel)?)
    }

    /// Returns what the program computes, on one byte a sub-chunk of every input: one byte a
    /// sub-chunk of every output. The oracle: it uses no kernel.
    ///
    /// # Errors
    /// The number of bytes is not the number of sub-chunks that are read.
    pub fn eval(&self, inputs: &[u8]) -> Result<Vec<u8>> {
        self.eval_on(inputs, TemporalHint::Temporal)
    }

    /// As [`Program::eval`], of what runs where data is cached, or in memory.
    ///
    /// # Errors
    /// As [`Program::eval`].
    pub fn eval_on(&self, inputs: &[u8], hint: TemporalHint) -> Result<Vec<u8>> {
        Ok(self.compiled(hint, 0)?.0.kernel_program.eval(inputs)?)
    }

    /// Chooses what runs on so many bytes of inputs and outputs, and how it stores.
    fn compiled(
        &self,
        hint: TemporalHint,
        bytes: usize,
    ) -> Result<(&Compiled, TemporalHint), CodeError> {
        let layered = self.memory.iter().any(Option::is_some);
        let (memory, hint) = match Tuning::here().path(&Caches::here(), layered, hint, bytes) {
            DataPath::Reload => (None, TemporalHint::Temporal),
            DataPath::Once => (self.memory[0].as_ref(), TemporalHint::Temporal),
            DataPath::Streamed => (self.memory[1].as_ref(), TemporalHint::NonTemporal),
        };
        let compiled = memory.map_or(Ok(&self.cached), |lazy| lazy.compiled())?;
        Ok((compiled, hint))
    }

    /// The same program on blocks of packets, each block coded alone; the last block has shorter
    /// packets where the length asks for it.
    /// Errors: some buffer is a part of a block.
    pub(crate) fn in_packets(self, packets: Packets) -> Result<Program> {
        packets.check(self.cached.kernel_program.buffers())?;
        Ok(Program { packets: Some(packets), ..self })
    }

    /// Runs the program over buffers whose sub-chunks all have one length.
    ///
    /// # Errors
    /// The number or a length of the buffers does not fit; outputs are then untouched.
    pub fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<()> {
        let hint = TemporalHint::of(inputs, outputs, Results::ReadSoon);
        self.run_on(inputs, outputs, hint)
    }

    /// As [`Program::run`], by a caller who does not read the outputs next, or knows where the data
    /// lies.
    ///
    /// # Errors
    /// As [`Program::run`].
    pub fn run_on(
        &self,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        hint: TemporalHint,
    ) -> Result<()> {
        let bytes = working_set(inputs, outputs);
        let (&Compiled { ref kernel_program, slice }, hint) = self.compiled(hint, bytes)?;
        match &self.packets {
            Some(packets) => packets.run(kernel_program, inputs, outputs, slice, hint),
            None => Ok(kernel_program.run(inputs, outputs, slice, hint)?),
        }
    }
}
