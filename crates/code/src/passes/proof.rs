//! The result of a schedule for all data at once: every word as the set of inputs it sums.

use crate::schedule::{Op, Schedule, sums};
use crate::{CodeError, Dag, Result};

/// A set of inputs, one bit each.
type Set = Vec<u64>;

/// Proves that a schedule computes the outputs of `dag`: over GF(2) a word *is* the set of inputs
/// that it sums, so equal sets are equal bytes for any data.
/// Errors: the DAG multiplies, or this is no schedule of it: a word is used before it is made, an
/// input is written, an output differs.
pub(super) fn prove(schedule: &Schedule, dag: &Dag) -> Result<()> {
    let wrong = |what: String| Err(CodeError::Internal(format!("a schedule {what}")));
    let inputs = schedule.inputs();
    if (inputs, schedule.outputs()) != (dag.inputs().len(), dag.outputs().len()) {
        return wrong("is that of another DAG".into());
    }
    let (made, wanted) = (made(schedule)?, sets(dag)?);
    for (index, &(at, vertex)) in dag.outputs().iter().enumerate() {
        if made[inputs + index].as_ref() != Some(&wanted[vertex as usize]) {
            return wrong(format!("does not compute output {at:?}"));
        }
    }
    Ok(())
}

/// The sums that the words hold in the end.
fn made(schedule: &Schedule) -> Result<Vec<Option<Set>>> {
    let wrong = |op: Op, what| CodeError::Internal(format!("{op:?} of a schedule {what}"));
    let inputs = schedule.inputs();
    let words = inputs + schedule.outputs() + schedule.buffers().scratch;
    let mut sets: Vec<Option<Set>> = (0..inputs).map(|at| Some(unit(at, inputs))).collect();
    sets.resize(words, None);
    for &op in &schedule.ops {
        let read = |word: u32| {
            let set = sets.get(word as usize).cloned().flatten();
            set.ok_or_else(|| wrong(op, "reads a word that is not made yet"))
        };
        let (to, set) = match op {
            Op::Zero { to } => (to, vec![0; inputs.div_ceil(64)]),
            Op::Copy { from, to } => (to, read(from)?),
            Op::Xor { from, to } => {
                let mut sum = read(to)?;
                add(&mut sum, &read(from)?);
                (to, sum)
            }
        };
        if (to as usize) < inputs || to as usize >= words {
            return Err(wrong(op, "writes what it may not"));
        }
        sets[to as usize] = Some(set);
    }
    Ok(sets)
}

/// The inputs that each vertex of a DAG is the sum of.
fn sets(dag: &Dag) -> Result<Vec<Set>> {
    let inputs = dag.inputs().len();
    let mut sets: Vec<Set> = (0..inputs).map(|input| unit(input, inputs)).collect();
    for sum in sums(dag)? {
        let mut set = vec![0; inputs.div_ceil(64)];
        sum.terms.iter().for_each(|&term| add(&mut set, &sets[term as usize]));
        sets.push(set);
    }
    Ok(sets)
}

fn unit(input: usize, inputs: usize) -> Set {
    let mut set = vec![0; inputs.div_ceil(64)];
    set[input / 64] = 1 << (input % 64);
    set
}

fn add(sum: &mut Set, term: &Set) {
    sum.iter_mut().zip(term).for_each(|(a, b)| *a ^= b);
}
