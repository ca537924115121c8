//! Reads that can be left behind: threads that end them, and the clock of [`Pace`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};

use crate::pace::{HedgeCounts, Pace, Purpose};
use crate::rounds::threads;

/// Reads under way at most: beyond that each is done by the thread that wants it, and waited for.
const THREADS: usize = 256;
/// Reads under way in the process, which shares its threads among pools.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// Work on a node, for [`Hedge::gather`].
pub type Job<R> = Box<dyn FnOnce() -> R + Send>;

/// Lets reads of a pool go on without its slowest nodes: a read that is late is left behind on its
/// thread, and others are read in its place. Its owner gives one to a pool.
#[derive(Debug)]
pub struct Hedge {
    pace: Mutex<Pace>,
    start: Instant,
}

impl Default for Hedge {
    fn default() -> Hedge {
        Hedge { pace: Mutex::default(), start: Instant::now() }
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
        self.pace().is_left_out(node)
    }

    /// Asks whether a read is planned around; see [`Pace::avoid`].
    pub(crate) fn avoid(&self, node: &str, bytes: u64) -> bool {
        self.pace().avoid(node, bytes)
    }

    /// Reads a slow node once more, if that is due; nothing waits for it.
    pub fn probe(
        self: &Arc<Self>,
        (node, bytes): (&str, u64),
        read: impl FnOnce() + Send + 'static,
    ) {
        let is_due = self.pace().probe(node, bytes, self.now());
        if is_due {
            self.begin((node, bytes), Purpose::Probe, read);
        }
    }

    /// Begins a read of so many bytes of a node, on a thread of its own; see [`Pace::begin`].
    pub(crate) fn begin(
        self: &Arc<Self>,
        (node, bytes): (&str, u64),
        purpose: Purpose,
        read: impl FnOnce() + Send + 'static,
    ) -> u64 {
        let number = self.pace().begin(node, bytes, purpose, self.now());
        let ended = Ended(Arc::clone(self), number);
        let under_way = UNDER_WAY.fetch_add(1, Ordering::Relaxed);
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

    /// Fills a buffer from a node, and says whether it was read. `None`: the node is slow, and
    /// others are to be read in its place.
    pub fn read(
        self: &Arc<Self>,
        node: &str,
        purpose: Purpose,
        buf: &mut [u8],
        read: impl FnOnce(&mut [u8]) -> bool + Send + 'static,
    ) -> Option<bool> {
        let (bytes, mut own) = (buf.len() as u64, vec![0; buf.len()]);
        let avoids = purpose == Purpose::Wanted && self.avoid(node, bytes);
        if avoids {
            self.probe((node, bytes), move || _ = read(&mut own));
            return None;
        }
        let (tell, end) = bounded(1);
        let number = self.begin((node, bytes), purpose, move || {
            // It may be left behind.
            let _ = tell.send((read(&mut own), own));
        });
        let (good, own) = self.wait(&end, (Instant::now(), bytes), (&[number], 1))?;
        buf.copy_from_slice(&own);
        Some(good)
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
        let (mut later, now): (Vec<_>, Vec<_>) =
            jobs.partition(|(_, (node, _))| self.is_left_out(node));
        let mut race = Race::new(self);
        let begin = |race: &mut Race<R>, (at, (node, job)): (usize, (String, Job<R>))| {
            race.begin(at, &node, Purpose::Wanted, job);
        };
        now.into_iter().for_each(|job| begin(&mut race, job));
        loop {
            while let Some((at, result)) = race.next(!later.is_empty() || enough(&results)) {
                results[at] = Some(result);
            }
            if later.is_empty() || enough(&results) {
                for (_, (node, job)) in later {
                    self.probe((&node, 0), || drop(job()));
                }
                return results;
            }
            later.drain(..).for_each(|job| begin(&mut race, job));
        }
    }
}

/// Jobs on nodes whose results are taken as they come.
#[derive(Debug)]
pub struct Race<R> {
    hedge: Arc<Hedge>,
    tell: Sender<(usize, Option<R>)>,
    coming: Receiver<(usize, Option<R>)>,
    pending: Vec<(usize, u64)>,
    count: usize,
    begun: Instant,
}

impl<R: Send + 'static> Race<R> {
    /// A race without jobs.
    pub fn new(hedge: &Arc<Hedge>) -> Race<R> {
        let (tell, coming) = unbounded();
        let (hedge, pending, count) = (Arc::clone(hedge), Vec::new(), 0);
        Race { hedge, tell, coming, pending, count, begun: Instant::now() }
    }

    /// Begins a job on a node, named by a number.
    pub fn begin(
        &mut self,
        job: usize,
        node: &str,
        purpose: Purpose,
        work: impl FnOnce() -> R + Send + 'static,
    ) {
        let tell = self.tell.clone();
        let run = move || {
            let end = catch_unwind(AssertUnwindSafe(work)).ok();
            // The race may be over.
            let _ = tell.send((job, end));
        };
        self.pending.push((job, self.hedge.begin((node, 0), purpose, run)));
        (self.count, self.begun) = (self.count + 1, Instant::now());
    }

    /// Returns whether all jobs have ended.
    pub fn is_over(&self) -> bool {
        self.pending.is_empty()
    }

    /// Waits for the next result. `None`: all jobs have ended, or, where the results so far are
    /// `enough`, those that are left are late.
    pub fn next(&mut self, enough: bool) -> Option<(usize, R)> {
        while !self.pending.is_empty() {
            let numbers: Vec<u64> = self.pending.iter().map(|(_, number)| *number).collect();
            let end = match enough {
                true => self.hedge.wait(&self.coming, (self.begun, 0), (&numbers, self.count))?,
                false => self.coming.recv().ok()?,
            };
            self.pending.retain(|(job, _)| *job != end.0);
            if let (job, Some(result)) = end {
                return Some((job, result));
            }
        }
        None
    }
}

/// Notes the end of a read, even by a panic.
struct Ended(Arc<Hedge>, u64);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.pace().end(self.1, self.0.now());
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    }
}
