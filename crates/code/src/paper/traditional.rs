//! The traditional order (Luo, Xu and Plank, "An Efficient XOR-Scheduling Algorithm for Erasure
//! Codes Encoding", section 4.1, Algorithm 1): one sum after the other, each to its end.

use crate::schedule::{Draft, Schedule, sums};
use crate::{CodeError, Dag};

/// Orders a DAG by what is made. The first term of a sum is copied.
pub(super) fn traditional(dag: &Dag) -> Result<Schedule, CodeError> {
    let mut draft = Draft::new(dag);
    for sum in sums(dag)? {
        if sum.terms.is_empty() {
            let op = draft.zero(sum.vertex);
            draft.group(vec![op]);
        }
        for &term in &sum.terms {
            let op = draft.add(term, sum.vertex);
            draft.group(vec![op]);
        }
    }
    for op in draft.repeats() {
        draft.group(vec![op]);
    }
    Ok(draft.finish())
}
