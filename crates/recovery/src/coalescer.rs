//! Coalesces concurrent calls of jobs: the job that has the turn makes one call for all that wait.
//! Commits of one pool lock much the same nodes and so go one after the other, but one may be of
//! many objects; the nodes that are asked about objects are much the same, too.

use kiln_pool::repair::{Looked, RebuiltShards};
use kiln_stripe::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;

/// Rebuilt shards that are put in place, and whether they were.
pub(crate) type Commits = Coalescer<RebuiltShards, bool>;
/// Names of objects that are looked for.
pub(crate) type Looks = Coalescer<String, Looked>;

/// Waiting calls and results, by the positions of their jobs.
#[derive(Debug)]
pub(crate) struct Coalescer<W, E> {
    waiting: BTreeMap<usize, W>,
    ended: BTreeMap<usize, Result<E>>,
}

impl<W, E> Default for Coalescer<W, E> {
    fn default() -> Coalescer<W, E> {
        Coalescer { waiting: BTreeMap::new(), ended: BTreeMap::new() }
    }
}

/// A call about one object.
pub(crate) trait OfObject {
    /// The object's name.
    fn object(&self) -> &str;
}

impl OfObject for RebuiltShards {
    fn object(&self) -> &str {
        &self.lacking.name
    }
}

impl OfObject for String {
    fn object(&self) -> &str {
        self
    }
}

impl<W: OfObject, E> Coalescer<W, E> {
    /// A job wants something.
    pub fn wait(&mut self, job: usize, wanted: W) {
        self.waiting.insert(job, wanted);
    }

    /// Takes the calls to make now, with their jobs. No object is there twice: the second
    /// one waits for another turn.
    pub fn take(&mut self) -> (Vec<usize>, Vec<W>) {
        let mut names = BTreeSet::new();
        let all = mem::take(&mut self.waiting).into_iter();
        let (first, later): (Vec<_>, Vec<_>) =
            all.partition(|(_, wanted)| names.insert(wanted.object().to_owned()));
        self.waiting.extend(later);
        first.into_iter().unzip()
    }

    /// Keeps the results of these jobs.
    pub fn end(&mut self, jobs: Vec<usize>, ends: Vec<Result<E>>) {
        self.ended.extend(jobs.into_iter().zip(ends));
    }

    /// Returns the result of a job; `None`: it still waits.
    pub fn ended(&mut self, job: usize) -> Option<Result<E>> {
        self.ended.remove(&job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_wait_are_taken_at_once_and_no_object_twice() {
        let mut together = Coalescer::<String, u32>::default();
        for (job, object) in [(0, "a"), (1, "b"), (2, "a")] {
            together.wait(job, object.to_owned());
        }
        assert_eq!(together.take(), (vec![0, 1], vec!["a".to_owned(), "b".to_owned()]));
        together.end(vec![0, 1], vec![Ok(7), Ok(8)]);
        assert!(together.ended(2).is_none());
        assert_eq!(together.take().0, vec![2]);
        assert_eq!(together.ended(1).unwrap().unwrap(), 8);
        assert!(together.ended(1).is_none() && together.take().0.is_empty());
    }
}
