//! The orders of Luo, Xu and Plank ("An Efficient XOR-Scheduling Algorithm for Erasure Codes
//! Encoding") as loops with one source, run by 64-bit words as in the paper, or by vectors.

use kiln_code::dag::At;
use kiln_code::{CodeError, Dag};
use kiln_gf::{
    Block, Buffers, Call, KernelProgram, ProgramSource, Routine, Shift, Side, Unit, active,
};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Destinations of one loop, at most.
const MOST: usize = 3;

/// One loop: a source, and the words it is copied and added to; zeros where there is none.
#[derive(Debug)]
struct Loop {
    from: Option<Unit>,
    copies: Vec<Unit>,
    sums: Vec<Unit>,
}

/// An order of a DAG of XORs.
#[derive(Debug)]
pub struct Schedule {
    loops: Vec<Loop>,
    /// One for each chunk that is read, then that is made, then the temporary words, in packets.
    pub buffers: Buffers,
}

impl Schedule {
    /// Algorithm 1 of the paper: one sum after the other, a loop for each term. With `by_source`
    /// Algorithm 2: one word after the other, each into all its sums at once. The first term of a
    /// sum is copied; values that are made and used again come after all data in both.
    ///
    /// # Errors
    /// The DAG multiplies.
    pub fn new(dag: &Dag, by_source: bool) -> Result<Schedule, CodeError> {
        let (units, buffers, repeats) = units(dag);
        let mut terms: Vec<(u32, u32)> = Vec::new();
        let mut loops: Vec<Loop> = Vec::new();
        for step in dag.steps() {
            for (row, vertex) in step.vertices().enumerate() {
                let row = step.matrix.row(row);
                if let Some(&coefficient) = row.iter().find(|&&c| c > 1) {
                    return Err(CodeError::Multiplies { coefficient });
                }
                if row.iter().all(|&c| c == 0) {
                    loops.push(Loop { from: None, copies: vec![units[vertex]], sums: vec![] });
                }
                let of_row = step.sources.iter().zip(row).filter(|&(_, &c)| c == 1);
                terms.extend(of_row.map(|(&source, _)| (source, vertex as u32)));
            }
        }
        if by_source {
            // Sums come after their terms, so each is complete at its turn.
            terms.sort_by_key(|&(source, _)| source);
        }
        let (mut begun, mut last) = (vec![false; units.len()], None);
        for (source, sum) in terms {
            let (from, to) = (units[source as usize], units[sum as usize]);
            let joins = |found: &Loop| {
                let whole = found.copies.len() + found.sums.len() >= MOST;
                !whole && !found.copies.contains(&to) && !found.sums.contains(&to)
            };
            if !by_source
                || last.replace(source) != Some(source)
                || !loops.last().is_some_and(joins)
            {
                loops.push(Loop { from: Some(from), copies: vec![], sums: vec![] });
            }
            let Some(found) = loops.last_mut() else { continue };
            let copy = !std::mem::replace(&mut begun[sum as usize], true);
            if copy { found.copies.push(to) } else { found.sums.push(to) }
        }
        let repeat = |(from, to)| Loop { from: Some(from), copies: vec![to], sums: vec![] };
        loops.extend(repeats.into_iter().map(repeat));
        Ok(Schedule { loops, buffers })
    }

    /// Runs over one block with 64-bit words and no vectors: the buffers, temporary words last,
    /// with the same number of machine words a packet. Words are atomics because a compiler does
    /// not join accesses to those into vectors; relaxed ones are plain loads and stores.
    pub fn run(&self, regions: &[&[AtomicU64]]) {
        let len = regions[0].len() / self.buffers.inputs[0];
        let slice = |at: &Unit| &regions[at.region as usize][at.unit as usize * len..][..len];
        for Loop { from, copies, sums } in &self.loops {
            let Some(from) = from.as_ref().map(slice) else {
                copies.iter().flat_map(slice).for_each(|word| word.store(0, Relaxed));
                continue;
            };
            match (&copies[..], &sums[..]) {
                ([], [a]) => add(from, [], [slice(a)]),
                ([], [a, b]) => add(from, [], [slice(a), slice(b)]),
                ([], [a, b, c]) => add(from, [], [slice(a), slice(b), slice(c)]),
                ([a], []) => add(from, [slice(a)], []),
                ([a], [b]) => add(from, [slice(a)], [slice(b)]),
                ([a], [b, c]) => add(from, [slice(a)], [slice(b), slice(c)]),
                ([a, b], []) => add(from, [slice(a), slice(b)], []),
                ([a, b], [c]) => add(from, [slice(a), slice(b)], [slice(c)]),
                (copies, sums) => {
                    copies.iter().for_each(|to| add(from, [slice(to)], []));
                    sums.iter().for_each(|to| add(from, [], [slice(to)]));
                }
            }
        }
    }

    /// The same loops with the vectors of kiln's kernel.
    ///
    /// # Errors
    /// Only an internal one.
    pub fn program(&self) -> Result<KernelProgram, CodeError> {
        let (inputs, outputs) = (self.buffers.inputs.len(), self.buffers.outputs.len());
        let side = |unit: &Unit| match unit.region as usize {
            region if region < inputs => Side::Input,
            region if region < inputs + outputs => Side::Output,
            _ => Side::Scratch,
        };
        let mut source = ProgramSource { shifts: vec![Shift::default()], ..Default::default() };
        let mut blocks: Vec<Block> = Vec::new();
        for Loop { from, copies, sums } in &self.loops {
            let mut block = Block::new();
            let value = match from {
                None => block.sum(&[]),
                Some(from) => {
                    let operand = block.operand(side(from));
                    block.load(operand)
                }
            };
            for (at, to) in copies.iter().chain(sums).enumerate() {
                let operand = block.operand(side(to));
                let sum = match at < copies.len() {
                    true => value,
                    false => {
                        let before = block.load(operand);
                        block.sum(&[(before, 1), (value, 1)])
                    }
                };
                block.store(operand, sum);
            }
            let routine = match blocks.iter().position(|known| *known == block) {
                Some(known) => known,
                None => {
                    source.routines.push(Routine::new(active()?, block.clone())?);
                    blocks.push(block);
                    blocks.len() - 1
                }
            } as u32;
            let first = source.operands.len() as u32;
            source.operands.extend(from.iter().chain(copies).chain(sums));
            let operands = first..source.operands.len() as u32;
            source.calls.push(Call::Block { routine, operands, shifts: 0..1 });
        }
        Ok(KernelProgram::new(source, self.buffers.clone())?)
    }
}

/// The inner loop of both algorithms.
fn add<const C: usize, const S: usize>(
    from: &[AtomicU64],
    copies: [&[AtomicU64]; C],
    sums: [&[AtomicU64]; S],
) {
    let len = from.len();
    let (copies, sums) = (copies.map(|to| &to[..len]), sums.map(|to| &to[..len]));
    for x in 0..len {
        let word = from[x].load(Relaxed);
        copies.iter().for_each(|to| to[x].store(word, Relaxed));
        sums.iter().for_each(|to| to[x].store(to[x].load(Relaxed) ^ word, Relaxed));
        // Keeps the compiler from unrolling, as the paper's compiler did not.
        black_box(());
    }
}

/// The word of every vertex, the buffers, and copies for outputs whose value has a word already.
fn units(dag: &Dag) -> (Vec<Unit>, Buffers, Vec<(Unit, Unit)>) {
    let made: Vec<At> = dag.outputs().iter().map(|&(at, _)| at).collect();
    let (read, inputs) = by_chunk(0, dag.inputs());
    let (made, outputs) = by_chunk(inputs.len(), &made);
    let mut units: Vec<Option<Unit>> = read.into_iter().map(Some).collect();
    units.resize(dag.vertices(), None);
    let mut repeats = Vec::new();
    for (&(_, vertex), to) in dag.outputs().iter().zip(made) {
        match units[vertex as usize] {
            None => units[vertex as usize] = Some(to),
            Some(from) => repeats.push((from, to)),
        }
    }
    let (region, mut scratch) = ((inputs.len() + outputs.len()) as u32, 0);
    let mut temporary = || {
        scratch += 1;
        Unit { region, unit: scratch - 1 }
    };
    let units = units.into_iter().map(|unit| unit.unwrap_or_else(&mut temporary)).collect();
    (units, Buffers { inputs, outputs, scratch: scratch as usize }, repeats)
}

/// Words of sub-chunks in one buffer a chunk, from buffer `first` on, and the words of each.
fn by_chunk(first: usize, at: &[At]) -> (Vec<Unit>, Vec<usize>) {
    let (mut sizes, mut chunk) = (Vec::new(), None);
    let place = |at: &At| {
        if chunk.replace(at.chunk) != Some(at.chunk) {
            sizes.push(0);
        }
        let region = (first + sizes.len() - 1) as u32;
        let size = sizes.last_mut();
        let unit = size.map_or(0, |size| std::mem::replace(size, *size + 1)) as u32;
        Unit { region, unit }
    };
    (at.iter().map(place).collect(), sizes)
}
