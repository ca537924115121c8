//! The runtime of blocking calls: connections, the clock, waiting, threads. The real one is the
//! runtime and the system's clock; a simulation brings its own.

use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt::Debug, sync::atomic::AtomicBool, thread::Builder};

use super::{Address, ClusterKey};
use crate::{Result, link::Request, proto::Frame};

/// Takes the answer to one question.
pub type Answer = Box<dyn FnOnce(Result<Frame>) + Send>;

/// A request to a peer.
pub type PendingRequest = Request<Answer>;

/// A runtime in virtual time. Its callers are clients of a simulation, of which one runs at a time.
pub trait VirtualRuntime: Send + Sync + Debug {
    /// Begins to connect; `ended` is set when the connection is over.
    fn connect(&self, address: &Address, ended: Arc<AtomicBool>) -> u64;

    /// Asks on a connection; the answer comes while a client pauses.
    fn ask(&self, connection: u64, request: PendingRequest);

    /// Closes the connection, which is no longer needed.
    fn close(&self, connection: u64);

    /// The time since the beginning.
    fn now(&self) -> Duration;

    /// Lets time pass until something is answered, or until then.
    fn pause(&self, until: Option<Duration>);

    /// A new thread of the client, by number; it waits until it is run.
    fn thread(&self) -> usize;

    /// Runs the body as this thread of the client, on a thread of the system that has no other
    /// purpose.
    fn run(&self, thread: usize, body: &dyn Fn());

    /// Waits until these threads have ended.
    fn join(&self, threads: &[usize]);
}

/// Something that is used by one thread at a time; see `Runtime::take`.
#[derive(Debug, Default)]
pub struct Turn {
    taken: Mutex<bool>,
    free: Condvar,
}

/// Gives a turn back when dropped.
#[derive(Debug)]
pub struct Taken<'a>(&'a Turn);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.0.taken.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.0.free.notify_one();
    }
}

/// Interval at which a simulated thread looks whether it has the turn.
const LOOK: Duration = Duration::from_millis(10);

/// The runtime that blocking calls use.
pub(super) enum Runtime {
    /// The real one.
    Real { runtime: Option<tokio::runtime::Runtime>, key: Option<ClusterKey>, start: Instant },
    /// In a simulation.
    #[cfg_attr(
        not(any(test, feature = "sim")),
        expect(dead_code, reason = "only simulations make it")
    )]
    Simulated(Arc<dyn VirtualRuntime>),
}

impl Runtime {
    /// The time since the beginning.
    pub fn now(&self) -> Duration {
        match self {
            Runtime::Real { start, .. } => start.elapsed(),
            Runtime::Simulated(simulation) => simulation.now(),
        }
    }

    /// Waits for so long.
    pub fn sleep(&self, time: Duration) {
        match self {
            Runtime::Real { .. } => std::thread::sleep(time),
            Runtime::Simulated(simulation) => {
                let until = simulation.now() + time;
                while simulation.now() < until {
                    simulation.pause(Some(until));
                }
            }
        }
    }

    /// Does the work on so many threads, or as many as the system gives, and waits until all have
    /// ended.
    pub fn at_once(&self, threads: usize, work: &(dyn Fn() + Sync)) {
        std::thread::scope(|scope| match self {
            Runtime::Real { .. } if threads == 0 => {}
            Runtime::Real { .. } => {
                let spawn = |_: usize| Builder::new().spawn_scoped(scope, work).is_ok();
                let _all = (1..threads).all(spawn);
                work();
            }
            Runtime::Simulated(simulation) => {
                let numbers: Vec<usize> = (0..threads).map(|_| simulation.thread()).collect();
                for &number in &numbers {
                    scope.spawn(move || simulation.run(number, work));
                }
                simulation.join(&numbers);
            }
        });
    }

    /// Waits for the turn.
    pub fn take<'a>(&self, turn: &'a Turn) -> Taken<'a> {
        let mut taken = turn.taken.lock().unwrap_or_else(PoisonError::into_inner);
        while *taken {
            taken = match self {
                Runtime::Real { .. } => {
                    turn.free.wait(taken).unwrap_or_else(PoisonError::into_inner)
                }
                Runtime::Simulated(simulation) => {
                    // Nobody may hold a lock of the system while another thread has its turn.
                    drop(taken);
                    simulation.pause(Some(simulation.now() + LOOK));
                    turn.taken.lock().unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
        *taken = true;
        drop(taken);
        Taken(turn)
    }

    /// Waits for a message, at most for so long where a time is given.
    pub fn receive<T>(
        &self,
        from: &Receiver<T>,
        patience: Option<Duration>,
    ) -> Result<T, RecvTimeoutError> {
        let Runtime::Simulated(simulation) = self else {
            return match patience {
                Some(time) => from.recv_timeout(time),
                None => from.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
        };
        let until = patience.map(|time| simulation.now() + time);
        loop {
            match from.try_recv() {
                Ok(message) => return Ok(message),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty)
                    if until.is_some_and(|until| simulation.now() >= until) =>
                {
                    return Err(RecvTimeoutError::Timeout);
                }
                Err(TryRecvError::Empty) => simulation.pause(until),
            }
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Runtime::Real { runtime, .. } = self
            && let Some(runtime) = runtime.take()
        {
            // Does not wait, so it may happen anywhere.
            runtime.shutdown_background();
        }
    }
}
