//! Commits that wait for their turn. Commits of one pool lock much the same nodes and so go one
//! after the other, but one may be of many objects: who has the turn commits for all that wait.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use kiln_pool::{PoolError, RebuiltShards};

/// Who waits for a commit, and who has had one, by the positions of their jobs.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    waiting: BTreeMap<usize, RebuiltShards>,
    ended: BTreeMap<usize, Result<bool, PoolError>>,
}

impl Commits {
    /// A job has rebuilt shards.
    pub fn wait(&mut self, job: usize, rebuilt: RebuiltShards) {
        self.waiting.insert(job, rebuilt);
    }

    /// Who has the turn commits these, for the jobs beside them. No object is there twice: the
    /// second one waits for another turn.
    pub fn take(&mut self) -> (Vec<usize>, Vec<RebuiltShards>) {
        let mut names = BTreeSet::new();
        let all = mem::take(&mut self.waiting).into_iter();
        let (first, later): (Vec<_>, Vec<_>) =
            all.partition(|(_, rebuilt)| names.insert(rebuilt.lacking.name.clone()));
        self.waiting.extend(later);
        first.into_iter().unzip()
    }

    /// What came of it.
    pub fn end(&mut self, jobs: Vec<usize>, ends: Vec<Result<bool, PoolError>>) {
        self.ended.extend(jobs.into_iter().zip(ends));
    }

    /// What came of the commit of a job; `None`: it waits still.
    pub fn ended(&mut self, job: usize) -> Option<Result<bool, PoolError>> {
        self.ended.remove(&job)
    }
}
