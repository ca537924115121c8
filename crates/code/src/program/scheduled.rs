//! DAGs of XORs as programs: a schedule that keeps sums in registers becomes one block.

use crate::schedule::{Op, Schedule};
use crate::{Dag, Result, passes};
use kiln_gf::{
    Block, Buffers, Call, Kernel, KernelProgram, ProgramSource, Routine, Shift, Side, Unit, Value,
};
use rustc_hash::FxHashMap as HashMap;

/// More XORs than this make code that does not stay in the caches of instructions.
const XORS_MAX: usize = 8192;

/// XORs for each word read from which on there may be common subexpressions.
const DENSE: usize = 4;

/// A DAG of XORs as one block with its sums in registers, where the kernel makes code of blocks. A
/// single step has nothing to gain: it is a product.
pub(super) fn resident(dag: &Dag, kernel: &'static dyn Kernel) -> Result<Option<KernelProgram>> {
    let (multiplications, xors) = dag.work();
    if !kernel.compiles_blocks() || multiplications > 0 || dag.steps().len() < 2 {
        return Ok(None);
    }
    // Array codes have nothing to share; and a pair that is shared takes a register for longer, so
    // an eighth of the XORs must be worth it.
    let dense = xors >= DENSE * dag.inputs().len();
    let shared = dense.then(|| passes::share(dag)).transpose()?;
    let dag = shared.as_ref().filter(|shared| shared.work().1 * 8 <= xors * 7).unwrap_or(dag);
    if dag.work().1 > XORS_MAX {
        return Ok(None);
    }
    Ok(Some(compile(&passes::resident(dag)?, kernel)?))
}

/// All operations of a schedule as one block.
fn compile(schedule: &Schedule, kernel: &'static dyn Kernel) -> Result<KernelProgram> {
    let mut all = Loop::new(schedule);
    schedule.ops.iter().for_each(|&op| all.add(op));
    let (block, operands) = all.finish();
    let source = ProgramSource {
        routines: vec![Routine::new(kernel, block)?],
        calls: vec![Call::Block { routine: 0, operands: 0..operands.len() as u32, shifts: 0..1 }],
        operands,
        shifts: vec![Shift::default()],
        ..ProgramSource::default()
    };
    Ok(KernelProgram::new(source, schedule.buffers().clone())?)
}

/// A block while operations are added to it.
struct Loop<'a> {
    schedule: &'a Schedule,
    block: Block,
    /// The operand of a word.
    operands: HashMap<u32, u32>,
    units: Vec<Unit>,
    /// Value that a word holds now, if this loop has read or made it.
    values: HashMap<u32, Value>,
    /// Words that were made, in order.
    made: Vec<u32>,
}

impl<'a> Loop<'a> {
    fn new(schedule: &'a Schedule) -> Loop<'a> {
        Loop {
            schedule,
            block: Block::new(),
            operands: HashMap::default(),
            units: Vec::new(),
            values: HashMap::default(),
            made: Vec::new(),
        }
    }

    fn add(&mut self, op: Op) {
        let (to, value) = match op {
            Op::Zero { to } => (to, self.block.sum(&[])),
            Op::Copy { from, to } => (to, self.value(from)),
            Op::Xor { from, to } => {
                let (sum, term) = (self.value(to), self.value(from));
                (to, self.block.sum(&[(sum, 1), (term, 1)]))
            }
        };
        self.values.insert(to, value);
        if !self.made.contains(&to) {
            self.made.push(to);
        }
    }

    fn value(&mut self, word: u32) -> Value {
        if let Some(&value) = self.values.get(&word) {
            return value;
        }
        let operand = self.operand(word);
        let value = self.block.load(operand);
        self.values.insert(word, value);
        value
    }

    fn operand(&mut self, word: u32) -> u32 {
        if let Some(&operand) = self.operands.get(&word) {
            return operand;
        }
        let Buffers { inputs, outputs, .. } = self.schedule.buffers();
        let unit = self.schedule.place(word);
        let side = match unit.region as usize {
            region if region < inputs.len() => Side::Input,
            region if region < inputs.len() + outputs.len() => Side::Output,
            _ => Side::Scratch,
        };
        let operand = self.block.operand(side);
        self.operands.insert(word, operand);
        self.units.push(unit);
        operand
    }

    /// Stores what the DAG makes; temporary words end with the block.
    fn finish(mut self) -> (Block, Vec<Unit>) {
        let outputs = self.schedule.inputs()..self.schedule.inputs() + self.schedule.outputs();
        for word in std::mem::take(&mut self.made) {
            if outputs.contains(&(word as usize)) {
                let operand = self.operand(word);
                let value = self.values[&word];
                self.block.store(operand, value);
            }
        }
        (self.block, self.units)
    }
}
