//! Reads of several shards at once, so that those of a stripe cost one round of their devices.
//!
//! Shards of a stripe are on different devices or machines. Read one after the other, a stripe
//! would cost as many rounds as it has helpers, with all devices but one idle. Threads that only
//! wait are cheap, and their number is bounded for the whole process.

use crate::sequence::Sequence;
use rayon_core::{ThreadPool, ThreadPoolBuilder};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{num::NonZeroUsize, sync::OnceLock};

/// Reads under way in the process, beside those of other workers. More than most codes' shards;
/// each may have as many runs in flight as a ring holds.
const READS_MAX: usize = 32;

static LIMIT: AtomicUsize = AtomicUsize::new(READS_MAX);

/// Lets this process read at most so many shards at the same time, beside one of each worker: 1
/// reads those of a stripe one after the other. Counts if it is said before anything is read; more
/// than 32 are taken as 32.
pub fn limit_readers(readers: NonZeroUsize) {
    LIMIT.store(readers.get().min(READS_MAX), Ordering::Relaxed);
}

/// Does all jobs, as many at once as there are threads, and returns what they gave, in their
/// order. One job is always done by the caller itself, so a single one costs nothing.
pub fn together<T: Send, R: Send>(
    sequence: Option<&Sequence>,
    mut jobs: Vec<T>,
    each: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    if let Some(sequence) = sequence {
        return sequence.each(jobs, |_, job| each(job));
    }
    let Some(own) = jobs.pop() else { return Vec::new() };
    let threads = if jobs.is_empty() { None } else { threads() };
    let Some(threads) = threads else {
        return jobs.into_iter().chain([own]).map(each).collect();
    };
    let mut results: Vec<Option<R>> = jobs.iter().map(|_| None).collect();
    let each = &each;
    let last = threads.in_place_scope(|scope| {
        for (job, result) in jobs.into_iter().zip(&mut results) {
            scope.spawn(move |_| *result = Some(each(job)));
        }
        each(own)
    });
    // The scope ends when all have ended; a panic in one of them went on here.
    results.into_iter().flatten().chain([last]).collect()
}

/// The threads; none where the system gives none, and then reads go one after the other.
pub(crate) fn threads() -> Option<&'static ThreadPool> {
    static THREADS: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let limit = LIMIT.load(Ordering::Relaxed);
    if limit < 2 {
        return None;
    }
    let start = || {
        let named = ThreadPoolBuilder::new().thread_name(|at| format!("kiln-read-{at}"));
        named.num_threads(limit - 1).build().ok()
    };
    THREADS.get_or_init(start).as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn jobs_run_at_once_and_results_keep_their_order() {
        assert_eq!(together(None, Vec::<u8>::new(), |job| job), Vec::<u8>::new());
        for count in [1, 2, READS_MAX] {
            // Nobody passes before all have come: one after the other would wait for ever.
            let all_here = Barrier::new(count);
            let squares = together(None, (0..count).collect(), |job| {
                all_here.wait();
                job * job
            });
            assert!(squares.into_iter().eq((0..count).map(|job| job * job)));
        }
        // More than there are threads.
        assert!(together(None, (0..1000).collect(), |job| job + 1).into_iter().eq(1..=1000));
    }

    #[test]
    fn a_panic_of_a_job_is_the_callers() {
        let run = || together(None, vec![1, 2, 3], |job| assert!(job != 2, "told to"));
        assert!(std::panic::catch_unwind(run).is_err());
    }
}
