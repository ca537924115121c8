//! Work on several items at once, with as many threads as the system gives.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, scope};

/// Does something for each item, by the caller's thread and others (`at_once` in all at most, fewer
/// where the system gives fewer). Results come in order of the items; after an error no further
/// item is begun.
/// Errors: the first one of `body`, in order of the items.
pub fn in_parallel<T: Send, R: Send, E: Send>(
    at_once: usize,
    items: Vec<T>,
    body: impl Fn(usize, T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let threads = items.len().min(at_once);
    let queue = Mutex::new(items.into_iter().enumerate());
    let take = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        let mut done = Vec::new();
        while let Some((at, item)) = take() {
            let result = body(at, item);
            if result.is_err() {
                while take().is_some() {}
            }
            done.push((at, result));
        }
        done
    };
    let mut done = scope(|scope| {
        let spawn = |_| Builder::new().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..threads).map_while(spawn).collect();
        let mut done = work();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}
