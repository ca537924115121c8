//! The one pipeline: a source fills slots, workers work on them, a sink takes them in order.
//!
//! Memory is bounded by the number of slots, which go round: source -> workers -> sink -> source.
//! Every stage owns its channel ends, so when any stage ends (done, failed or panicked) the others
//! run dry and end too; no flag is polled and nothing waits for ever.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::{PoolError, Result, Settings};

/// Number of slots for a pipeline: what memory allows, but no more than can be in use at once
/// (few slots stay in the processor's cache), and at least 2, so that reading and writing go on at
/// the same time. Of slots that are each larger than all that memory there is one.
pub fn slots(settings: &Settings<'_>, slot_bytes: u64) -> usize {
    let useful = settings.threads() + 3;
    let affordable = settings.memory / slot_bytes.max(1);
    let least = if slot_bytes > settings.memory { 1 } else { 2 };
    usize::try_from(affordable).unwrap_or(usize::MAX).clamp(least, useful)
}

/// An item and what happened to it before the sink.
type Done<T> = (u64, Result<T>);

/// Runs items `first..` through the stages until `source` says `false` (no item) or a stage fails.
///
/// `source` runs on a thread of its own, `work` on as many threads as the settings say, or as the
/// system gives, `sink` on the caller's thread and in order of the items. Without threads all runs
/// on the caller's. Returns the number of the item that `source` refused.
/// Errors: of items that fail, the error of the lowest: the sink has then taken all before it and
/// none after it, however the threads were scheduled. A panic becomes [`PoolError::Internal`].
pub fn run<T: Send>(
    slots: Vec<T>,
    settings: &Settings<'_>,
    first: u64,
    source: impl FnMut(u64, &mut T) -> Result<bool> + Send,
    work: impl Fn(u64, &mut T) -> Result<()> + Sync,
    sink: impl FnMut(u64, &mut T) -> Result<()>,
) -> Result<u64> {
    let threads = settings.threads();
    if settings.sequence.is_some() {
        return in_sequence(slots, first, source, work, sink);
    }
    let count = slots.len();
    let (free_in, free_out) = bounded(count);
    for slot in slots {
        free_in.send(slot).map_err(|_| lost_channel())?;
    }
    let (todo_in, todo_out) = bounded(count);
    let (done_in, done_out) = bounded(count + threads + 1);
    // Taken by the source's thread when it runs, or by this one when there is none.
    let begin = Mutex::new(Some((source, free_out, todo_in)));
    let take = || begin.lock().unwrap_or_else(PoisonError::into_inner).take();
    thread::scope(|scope| {
        let work = &work;
        let failed = done_in.clone();
        let workers = (0..threads.max(1)).take_while(|_| {
            let (todo, done) = (todo_out.clone(), done_in.clone());
            let labour = move || labour(work, &todo, &done);
            Builder::new().spawn_scoped(scope, labour).is_ok()
        });
        let workers = workers.count();
        let source = move || {
            let Some((source, free_out, todo_in)) = take() else { return };
            let mut item = first;
            let end = guard("source", || feed(&mut item, source, &free_out, &todo_in));
            if let Err(error) = end {
                // The sink is gone only when it failed itself: then its error counts.
                let _ = failed.send((item, Err(error)));
            }
        };
        if workers == 0 || Builder::new().spawn_scoped(scope, source).is_err() {
            let Some((source, free_out, _)) = take() else { return Err(lost_channel()) };
            return in_sequence(free_out.try_iter().collect(), first, source, work, sink);
        }
        drop((todo_out, done_in));
        guard("sink", || drain(first, sink, done_out, free_in))
    })
}

/// The same on this thread alone: one slot goes through all stages after the other.
fn in_sequence<T>(
    mut slots: Vec<T>,
    first: u64,
    mut source: impl FnMut(u64, &mut T) -> Result<bool>,
    work: impl Fn(u64, &mut T) -> Result<()>,
    mut sink: impl FnMut(u64, &mut T) -> Result<()>,
) -> Result<u64> {
    let Some(slot) = slots.first_mut() else { return Err(lost_channel()) };
    for item in first.. {
        if !source(item, slot)? {
            return Ok(item);
        }
        work(item, slot)?;
        sink(item, slot)?;
    }
    Err(lost_channel())
}

fn feed<T>(
    item: &mut u64,
    mut source: impl FnMut(u64, &mut T) -> Result<bool>,
    free: &Receiver<T>,
    todo: &Sender<(u64, T)>,
) -> Result<()> {
    while let Ok(mut slot) = free.recv() {
        if !source(*item, &mut slot)? || todo.send((*item, slot)).is_err() {
            break;
        }
        *item += 1;
    }
    Ok(())
}

fn labour<T>(
    work: &(impl Fn(u64, &mut T) -> Result<()> + Sync),
    todo: &Receiver<(u64, T)>,
    done: &Sender<Done<T>>,
) {
    for (item, mut slot) in todo {
        let result = guard("worker", || work(item, &mut slot)).map(|()| slot);
        let failed = result.is_err();
        if done.send((item, result)).is_err() || failed {
            break;
        }
    }
}

fn drain<T>(
    first: u64,
    mut sink: impl FnMut(u64, &mut T) -> Result<()>,
    done: Receiver<Done<T>>,
    free: Sender<T>,
) -> Result<u64> {
    let mut next = first;
    // Holds at most all slots: bounded as they are.
    let mut early = BTreeMap::new();
    let mut failed = false;
    // Workers take items in order: whatever is below one that failed was taken by somebody, who
    // will say how it went.
    for (item, result) in &done {
        failed |= result.is_err();
        early.insert(item, result);
        while let Some(result) = early.remove(&next) {
            let mut slot = result?;
            sink(next, &mut slot)?;
            next += 1;
            // Nothing after a failure is wanted; and the source is gone after its last item.
            if !failed {
                let _ = free.send(slot);
            }
        }
    }
    if early.is_empty() { Ok(next) } else { Err(lost_channel()) }
}

fn guard<T>(stage: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(|s| (*s).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        Err(PoolError::Internal { what: format!("the {stage} of a pipeline panicked: {text}") })
    })
}

fn lost_channel() -> PoolError {
    PoolError::Internal { what: "a pipeline lost an item".into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Silent;

    fn usage(what: &str) -> PoolError {
        PoolError::Usage { what: what.into() }
    }

    #[test]
    fn items_arrive_in_order_and_slots_go_round() {
        let mut seen = Vec::new();
        let settings = Settings { threads: 4, ..Settings::new(&Silent) };
        let end = run(
            vec![0u64; 3],
            &settings,
            10,
            |item, slot| {
                *slot = item;
                Ok(item < 1000)
            },
            |_, slot| {
                *slot *= 2;
                Ok(())
            },
            |item, slot| {
                assert_eq!(*slot, item * 2);
                seen.push(item);
                Ok(())
            },
        );
        assert_eq!(end.unwrap(), 1000);
        assert!(seen.iter().copied().eq(10..1000));
    }

    #[test]
    fn an_error_or_panic_of_any_stage_ends_all() {
        for stage in 0..3 {
            for panics in [false, true] {
                let fail = move |at: usize, item: u64| {
                    if at == stage && item == 50 {
                        assert!(!panics, "told to");
                        return Err(usage("told to"));
                    }
                    Ok(())
                };
                let settings = Settings { threads: 3, ..Settings::new(&Silent) };
                let end = run(
                    vec![(); 4],
                    &settings,
                    0,
                    |item, ()| fail(0, item).map(|()| true),
                    |item, ()| fail(1, item),
                    |item, ()| fail(2, item),
                );
                assert!(end.unwrap_err().to_string().contains("told to"));
            }
        }
    }

    #[test]
    fn of_items_that_fail_together_the_lowest_is_named() {
        for threads in [1, 2, 5] {
            let settings = Settings { threads, ..Settings::new(&Silent) };
            let mut taken = Vec::new();
            let end = run(
                vec![(); 8],
                &settings,
                0,
                |item, ()| if item == 23 { Err(usage("23 is read")) } else { Ok(true) },
                |item, ()| {
                    // The lowest is the last to say so.
                    let wait = if item == 20 { 50 } else { 0 };
                    thread::sleep(std::time::Duration::from_millis(wait));
                    if item < 20 { Ok(()) } else { Err(usage(&format!("{item} is worked on"))) }
                },
                |item, ()| {
                    taken.push(item);
                    Ok(())
                },
            );
            assert!(end.unwrap_err().to_string().contains("20 is worked on"));
            assert!(taken.into_iter().eq(0..20));
        }
    }

    #[test]
    fn a_source_that_ends_at_once_loses_nothing() {
        let settings = Settings { threads: 2, ..Settings::new(&Silent) };
        for items in (0..200).map(|at| at % 3) {
            let end = run(
                vec![(); 64],
                &settings,
                0,
                |item, ()| Ok(item < items),
                |_, ()| Ok(()),
                |_, ()| Ok(()),
            );
            assert_eq!(end.unwrap(), items);
        }
    }

    #[test]
    fn memory_decides_the_number_of_slots() {
        let settings = Settings { threads: 4, memory: 100, ..Settings::new(&Silent) };
        assert_eq!(slots(&settings, 20), 5);
        assert_eq!(slots(&settings, 1), 7);
        assert_eq!((slots(&settings, 100), slots(&settings, 101)), (2, 1));
    }
}
