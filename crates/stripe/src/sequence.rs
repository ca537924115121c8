//! Everything on one thread: for simulations, where nothing may happen but what a seed says.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Picks which of so many waiting jobs goes next.
type Pick = Box<dyn FnMut(usize) -> usize + Send>;

/// Has what could run at once run one after the other, on the caller's thread.
///
/// The operations of this crate use threads, since disks and nodes are slow and there are many of
/// them. A simulation wants each step to follow from a seed, and gives a sequence: in
/// [`crate::Settings`], or to a pool for all of its work. Any order that it picks is one that
/// threads could have taken. Only the search for shards in folders lists nodes at once all the
/// same. Clones pick from the same.
#[derive(Clone)]
pub struct Sequence(Arc<Mutex<Pick>>);

impl Sequence {
    /// `pick` is asked which of n jobs goes next (a number below n; others are taken modulo n).
    pub fn new(pick: impl FnMut(usize) -> usize + Send + 'static) -> Sequence {
        Sequence(Arc::new(Mutex::new(Box::new(pick))))
    }

    /// Does all jobs in the order that is picked; results come in the order of the jobs.
    pub fn each<T, R>(&self, jobs: Vec<T>, body: impl Fn(usize, T) -> R) -> Vec<R> {
        let mut waiting: Vec<(usize, T)> = jobs.into_iter().enumerate().collect();
        let mut results: Vec<(usize, R)> = Vec::with_capacity(waiting.len());
        while !waiting.is_empty() {
            let count = waiting.len();
            // The picker is not held while a job runs: jobs have jobs of their own.
            let picked = (self.0.lock().unwrap_or_else(PoisonError::into_inner))(count);
            let (at, job) = waiting.remove(picked % count);
            results.push((at, body(at, job)));
        }
        results.sort_by_key(|(at, _)| *at);
        results.into_iter().map(|(_, result)| result).collect()
    }
}

impl fmt::Debug for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sequence")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_run_as_picked_and_results_keep_their_order() {
        let mut turn = 0;
        let sequence = Sequence::new(move |count| {
            turn += 1;
            if turn % 2 == 0 { count - 1 } else { count + 1 }
        });
        let order = Mutex::new(Vec::new());
        let squares = sequence.each(vec![0, 1, 2, 3, 4], |at, job| {
            order.lock().unwrap().push(at);
            // Jobs of a job are picked as well.
            sequence.each(vec![job], |_, job| job * job)[0]
        });
        assert_eq!(squares, [0, 1, 4, 9, 16]);
        let order = order.into_inner().unwrap();
        assert_eq!(order.len(), 5);
        assert_ne!(order, [0, 1, 2, 3, 4]);
    }
}
