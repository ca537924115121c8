//! Reads that can be left behind: threads that end them, and the clock of [`Pace`].

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded, unbounded};

use crate::pace::{HedgeCounts, Pace};
use crate::rounds::threads;

/// Reads under way at most: beyond that each is done by the thread that wants it, and waited for.
const THREADS: usize = 256;

/// Work on a node, for [`Hedge::gather`].
pub type Job<R> = Box<dyn FnOnce() -> R + Send>;

/// Lets reads of a pool go on without its slowest nodes: a read that is late is left behind on its
/// thread, and others are read in its place. Its owner gives one to a pool.
#[derive(Debug)]
pub struct Hedge {
    pace: Mutex<Pace>,
    start: Instant,
    threads: AtomicUsize,
}

impl Default for Hedge {
    fn default() -> Hedge {
        Hedge { pace: Mutex::default(), start: Instant::now(), threads: AtomicUsize::new(0) }
    }
}

impl Hedge {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> HedgeCounts {
        self.pace().counts()
    }

    /// Returns whether a node is better not asked now.
    pub fn is_left_out(&self, node: &str) -> bool {
        self.pace().is_left_out(node, self.now())
    }

    /// Begins a read of so many bytes of a node, on a thread of its own; see [`Pace::begin`].
    pub(crate) fn begin(
        self: &Arc<Self>,
        (node, bytes): (&str, u64),
        instead: bool,
        read: impl FnOnce() + Send + 'static,
    ) -> u64 {
        let number = self.pace().begin(node, bytes, instead, self.now());
        let ended = Ended(Arc::clone(self), number);
        let under_way = self.threads.fetch_add(1, Ordering::Relaxed);
        let (give, take) = bounded(1);
        let _ = give.send(move || {
            let _ended = ended;
            read();
        });
        let there = take.clone();
        let work = move || there.try_recv().map_or((), |read| read());
        // Those that are late keep their threads: no other read waits for these.
        let begun = match threads().filter(|pool| under_way < pool.current_num_threads()) {
            Some(pool) => {
                pool.spawn(work);
                true
            }
            None => under_way < THREADS && Builder::new().spawn(work).is_ok(),
        };
        // Without a thread it is done here, and waited for.
        if !begun && let Ok(read) = take.try_recv() {
            read();
        }
        number
    }

    /// Waits for what reads that were begun together send. `None`: those that are left need not be
    /// waited for.
    pub(crate) fn wait<T>(
        &self,
        coming: &Receiver<T>,
        (begun, bytes): (Instant, u64),
        (left, of): (&[u64], usize),
    ) -> Option<T> {
        loop {
            let patience = self.pace().patience(bytes);
            match coming.recv_deadline(begun + patience) {
                Err(RecvTimeoutError::Timeout) => {}
                end => return end.ok(),
            }
            if self.pace().give_up(left, of) {
                return None;
            }
            // Its budget may grow by the reads of others meanwhile.
            match coming.recv_timeout(patience) {
                Err(RecvTimeoutError::Timeout) => {}
                end => return end.ok(),
            }
        }
    }

    /// Does the jobs, each for a node, and returns what they gave. When a job is late and `enough`
    /// says that the others will do, it is left behind; nodes that are left out are asked only if
    /// the others will not do.
    pub fn gather<R: Send + 'static>(
        self: &Arc<Self>,
        jobs: Vec<(String, Job<R>)>,
        enough: impl Fn(&[Option<R>]) -> bool,
    ) -> Vec<Option<R>> {
        let mut results: Vec<Option<R>> = jobs.iter().map(|_| None).collect();
        let jobs = jobs.into_iter().enumerate();
        let (mut later, mut now): (Vec<_>, Vec<_>) =
            jobs.partition(|(_, (node, _))| self.is_left_out(node));
        loop {
            let begun = Instant::now();
            let (of, (tell, coming)) = (now.len(), unbounded());
            let begin = |(at, (node, job)): (usize, (String, Job<R>))| {
                let tell = tell.clone();
                let send = move || drop(tell.send((at, job())));
                (at, self.begin((&node, 0), false, send))
            };
            let mut left: Vec<(usize, u64)> = now.drain(..).map(begin).collect();
            // Then it is seen when a job ends by a panic.
            drop(tell);
            while !left.is_empty() {
                let numbers: Vec<u64> = left.iter().map(|(_, number)| *number).collect();
                let deadline = begun + self.pace().patience(0);
                let one = match coming.recv_deadline(deadline) {
                    Err(RecvTimeoutError::Timeout) if enough(&results) => {
                        self.wait(&coming, (begun, 0), (&numbers, of))
                    }
                    Err(RecvTimeoutError::Timeout) => coming.recv().ok(),
                    end => end.ok(),
                };
                let Some((at, result)) = one else { break };
                results[at] = Some(result);
                left.retain(|(of, _)| *of != at);
            }
            if later.is_empty() || enough(&results) {
                return results;
            }
            std::mem::swap(&mut now, &mut later);
        }
    }
}

/// Notes the end of a read, even by a panic.
struct Ended(Arc<Hedge>, u64);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.pace().end(self.1, self.0.now());
        self.0.threads.fetch_sub(1, Ordering::Relaxed);
    }
}
