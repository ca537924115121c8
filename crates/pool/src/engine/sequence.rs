//! Everything on one thread: for simulations, where nothing may happen but what a seed says.
//!
//! The operations of this crate use threads, since disks and nodes are slow and there are many of
//! them. Whoever simulates those wants each step to follow from a seed, so under
//! [`in_sequence`] what would run at once runs one after the other, in an order that the caller
//! picks. Any such order is one that threads could have taken.

use std::cell::RefCell;

/// Picks which of so many waiting jobs goes next.
type Pick = Box<dyn FnMut(usize) -> usize>;

thread_local! {
    static PICK: RefCell<Option<Pick>> = const { RefCell::new(None) };
}

/// Takes the picker away when the body ends, however it ends.
struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        PICK.with(|pick| pick.borrow_mut().take());
    }
}

/// Runs `body` with everything that it does in this crate on this very thread. `pick` is asked
/// which of n jobs that could run at once goes next (a number below n; others are taken modulo n).
///
/// ```
/// use std::{collections::BTreeMap, sync::Arc};
/// use kiln_pool::{NodeConfig, Policy, Pool, PoolConfig, PutRequest, Settings, Silent};
/// use kiln_pool::StreamSource;
/// use kiln_store::{Backend, MemoryBackend};
/// let mut config = PoolConfig::new([1; 16], "demo", Policy::for_code("rs:2+1")?);
/// let mut disks: BTreeMap<String, Arc<dyn Backend>> = BTreeMap::new();
/// for id in ["a", "b", "c"] {
///     config.node.push(NodeConfig::new(id, &format!("memory://{id}")));
///     disks.insert(id.into(), Arc::new(MemoryBackend::new()));
/// }
/// let put = kiln_pool::in_sequence(|waiting| waiting - 1, || {
///     let pool = Pool::create(config, &|node| Ok(disks[&node.id].clone()))?;
///     let put = PutRequest { name: "x", run: [2; 16], now_ms: 0, replace: false };
///     pool.put(&put, &mut StreamSource::new(&[7; 9000][..]), &Settings::new(&Silent))
/// })?;
/// assert_eq!(put.size, 9000);
/// # Ok::<(), kiln_pool::PoolError>(())
/// ```
pub fn in_sequence<R>(pick: impl FnMut(usize) -> usize + 'static, body: impl FnOnce() -> R) -> R {
    PICK.with(|now| *now.borrow_mut() = Some(Box::new(pick)));
    let _ends = Ends;
    body()
}

/// Whether this thread does everything by itself.
pub(crate) fn applies() -> bool {
    PICK.with(|pick| pick.borrow().is_some())
}

/// Does all jobs in the order that is picked; results come in the order of the jobs.
pub(crate) fn each<T, R>(jobs: Vec<T>, mut body: impl FnMut(usize, T) -> R) -> Vec<R> {
    let mut waiting: Vec<(usize, T)> = jobs.into_iter().enumerate().collect();
    let mut results: Vec<(usize, R)> = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let count = waiting.len();
        let picked = PICK.with(|pick| pick.borrow_mut().as_mut().map_or(0, |pick| pick(count)));
        let (at, job) = waiting.remove(picked % count);
        // The picker is not held meanwhile: jobs have jobs of their own.
        results.push((at, body(at, job)));
    }
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_run_as_picked_and_results_keep_their_order() {
        assert!(!applies());
        let (mut order, mut turn) = (Vec::new(), 0);
        let pick = move |count: usize| {
            turn += 1;
            if turn % 2 == 0 { count - 1 } else { count + 1 }
        };
        let squares = in_sequence(pick, || {
            assert!(applies());
            each(vec![0, 1, 2, 3, 4], |at, job| {
                order.push(at);
                // Jobs of a job are picked as well.
                each(vec![job], |_, job| job * job)[0]
            })
        });
        assert_eq!(squares, [0, 1, 4, 9, 16]);
        assert_eq!(order.len(), 5);
        assert_ne!(order, [0, 1, 2, 3, 4]);
        assert!(!applies());
    }

    #[test]
    fn it_ends_with_a_panic_too() {
        let run = || in_sequence(|_| 0, || panic!("told to"));
        assert!(std::panic::catch_unwind(run).is_err());
        assert!(!applies());
    }
}
