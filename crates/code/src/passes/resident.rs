//! Our own order: everything in one loop, each data word loaded once, every sum kept in a register
//! until it is complete.
//!
//! Registers are scarce, so the order of the data words is chosen to keep few sums open:
//! the next sum to complete is the one whose missing words begin the fewest new sums. For array
//! codes that goes row by row: a row's parity is complete at its end and stored, only the diagonals
//! stay open, w + 1 registers where going by chunks takes 2w.

use crate::schedule::{Draft, Op, Schedule, Sum, sums};
use crate::{Dag, Result};

/// Orders a DAG so that few sums are open at any time; all operations are one loop.
pub(crate) fn resident(dag: &Dag) -> Result<Schedule> {
    let mut draft = Draft::new(dag);
    let mut walk = Walk::new(dag, sums(dag)?);
    walk.start(&mut draft);
    while let Some(next) = walk.cheapest() {
        for term in walk.missing(next) {
            walk.use_up(term, &mut draft);
        }
    }
    Ok(draft.finish(walk.ops))
}

struct Walk {
    inputs: usize,
    sums: Vec<Sum>,
    /// The sums that use a vertex.
    users: Vec<Vec<u32>>,
    /// True if a vertex has been added to its users.
    used: Vec<bool>,
    /// Terms that a sum still waits for.
    left: Vec<usize>,
    /// Terms that a sum waits for and that are sums themselves.
    left_sums: Vec<usize>,
    ops: Vec<Op>,
}

impl Walk {
    fn new(dag: &Dag, sums: Vec<Sum>) -> Walk {
        let inputs = dag.inputs().len();
        let mut users = vec![Vec::new(); dag.vertices()];
        for (index, sum) in sums.iter().enumerate() {
            sum.terms.iter().for_each(|&term| users[term as usize].push(index as u32));
        }
        let left = sums.iter().map(|sum| sum.terms.len()).collect();
        let computed = |sum: &Sum| sum.terms.iter().filter(|&&t| t as usize >= inputs).count();
        let left_sums = sums.iter().map(computed).collect();
        Walk {
            inputs,
            users,
            used: vec![false; dag.vertices()],
            left,
            left_sums,
            sums,
            ops: vec![],
        }
    }

    /// Sums of nothing.
    fn start(&mut self, draft: &mut Draft) {
        let empty: Vec<u32> =
            self.sums.iter().filter(|sum| sum.terms.is_empty()).map(|sum| sum.vertex).collect();
        for vertex in empty {
            self.ops.push(draft.zero(vertex));
            self.use_up(vertex, draft);
        }
    }

    /// The sum to complete next, of those that wait for inputs only.
    fn cheapest(&self) -> Option<usize> {
        let ready = (0..self.sums.len()).filter(|&s| self.left[s] > 0 && self.left_sums[s] == 0);
        ready.min_by_key(|&sum| {
            let mut begins: Vec<u32> = Vec::new();
            for term in self.missing(sum) {
                let users = self.users[term as usize].iter().copied();
                begins.extend(users.filter(|&user| !self.begun(user as usize)));
            }
            begins.sort_unstable();
            begins.dedup();
            (begins.len(), self.left[sum], sum)
        })
    }

    fn begun(&self, sum: usize) -> bool {
        self.left[sum] < self.sums[sum].terms.len()
    }

    /// Inputs that a sum waits for.
    fn missing(&self, sum: usize) -> Vec<u32> {
        let waits = |term: &u32| (*term as usize) < self.inputs && !self.used[*term as usize];
        self.sums[sum].terms.iter().copied().filter(waits).collect()
    }

    /// Adds a vertex to all its users, and then those that are complete by that.
    fn use_up(&mut self, vertex: u32, draft: &mut Draft) {
        let mut ready = vec![vertex];
        while let Some(vertex) = ready.pop() {
            if std::mem::replace(&mut self.used[vertex as usize], true) {
                continue;
            }
            for user in self.users[vertex as usize].clone() {
                let user = user as usize;
                self.ops.push(draft.add(vertex, self.sums[user].vertex));
                self.left[user] -= 1;
                self.left_sums[user] -= usize::from(vertex as usize >= self.inputs);
                if self.left[user] == 0 {
                    ready.push(self.sums[user].vertex);
                }
            }
        }
    }
}
