//! What a schedule costs, and what it computes, for all data at once: every word as the set of
//! inputs it sums.

use super::{Op, Schedule};
use crate::schedule::sums;
use crate::{CodeError, Dag};

/// A set of inputs, one bit each.
type Set = Vec<u64>;

impl Schedule {
    /// Words that are neither read nor made.
    pub fn temporaries(&self) -> usize {
        self.buffers().scratch
    }

    /// Operations that run in one loop, in order.
    pub fn groups(&self) -> &[Vec<Op>] {
        &self.groups
    }

    /// XORs of two words.
    pub fn xors(&self) -> usize {
        self.ops().filter(|op| matches!(op, Op::Xor { .. })).count()
    }

    /// Proves that this schedule computes the outputs of `dag`: over GF(2) a word *is* the set of
    /// inputs that it sums, so equal sets are equal bytes for any data.
    ///
    /// # Errors
    /// The DAG multiplies, or this is no schedule of it: a word is used before it is made, an input
    /// is written, an output differs.
    pub fn prove(&self, dag: &Dag) -> Result<(), CodeError> {
        let wrong = |what: String| Err(CodeError::Internal(format!("a schedule {what}")));
        if (self.inputs(), self.outputs()) != (dag.inputs().len(), dag.outputs().len()) {
            return wrong("is that of another DAG".into());
        }
        let made = self.sets()?;
        let wanted = sets(dag)?;
        for (index, &(at, vertex)) in dag.outputs().iter().enumerate() {
            if made[self.inputs() + index].as_ref() != Some(&wanted[vertex as usize]) {
                return wrong(format!("does not compute output {at:?}"));
            }
        }
        Ok(())
    }

    /// What each word holds in the end.
    fn sets(&self) -> Result<Vec<Option<Set>>, CodeError> {
        let wrong = |op: Op, what| CodeError::Internal(format!("{op:?} of a schedule {what}"));
        let words = self.inputs() + self.outputs() + self.temporaries();
        let mut sets: Vec<Option<Set>> = vec![None; words];
        for (input, set) in sets.iter_mut().take(self.inputs()).enumerate() {
            *set = Some(unit(input, self.inputs()));
        }
        for op in self.ops() {
            let read = |word: u32| {
                let set = sets.get(word as usize).cloned().flatten();
                set.ok_or_else(|| wrong(op, "reads a word that is not made yet"))
            };
            let (to, set) = match op {
                Op::Zero { to } => (to, vec![0; self.inputs().div_ceil(64)]),
                Op::Copy { from, to } => (to, read(from)?),
                Op::Xor { from, to } => {
                    let mut sum = read(to)?;
                    add(&mut sum, &read(from)?);
                    (to, sum)
                }
            };
            if (to as usize) < self.inputs() || to as usize >= sets.len() {
                return Err(wrong(op, "writes what it may not"));
            }
            sets[to as usize] = Some(set);
        }
        Ok(sets)
    }
}

/// What each vertex of a DAG is the sum of.
fn sets(dag: &Dag) -> Result<Vec<Set>, CodeError> {
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
