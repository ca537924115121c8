//! The paper's order (Luo, Xu and Plank, section 4.2, Algorithm 2): one data packet after the
//! other, each word of it into all sums that use it while it is in a register.
//!
//! Values that are made and used again (S of EVENODD and STAR, P in the diagonals of RDP) come
//! after all data, when they are complete: the paper's second pass (section 4.3). A DAG with chains
//! of such values, as decoders have, just has more of them.

use crate::schedule::{Draft, Schedule, sums};
use crate::{CodeError, Dag};

/// Orders a DAG by what is read. The first use of a sum copies.
pub(super) fn by_data_word(dag: &Dag) -> Result<Schedule, CodeError> {
    let mut draft = Draft::new(dag);
    let mut users: Vec<Vec<u32>> = vec![Vec::new(); dag.vertices()];
    for sum in sums(dag)? {
        if sum.terms.is_empty() {
            let op = draft.zero(sum.vertex);
            draft.group(vec![op]);
        }
        for term in sum.terms {
            users[term as usize].push(sum.vertex);
        }
    }
    // Inputs are the first vertices; a sum comes after its terms, so it is complete at its turn.
    for (source, users) in users.into_iter().enumerate() {
        let ops = users.into_iter().map(|user| draft.add(source as u32, user)).collect();
        draft.group(ops);
    }
    for op in draft.repeats() {
        draft.group(vec![op]);
    }
    Ok(draft.finish())
}
