//! What blocking calls stand on: connections, the clock, waiting. The real one is the runtime and
//! the system's clock; a simulation brings its own.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

use super::dial::Question;
use super::{Address, ClusterKey};

/// A stage in virtual time. Whoever calls it is one of its clients, of which one runs at a time.
pub(crate) trait Stage: Send + Sync + Debug {
    /// Begins to connect; `ended` is set when the connection is over.
    fn connect(&self, address: &Address, ended: Arc<AtomicBool>) -> u64;

    /// Asks on a connection; the answer comes while somebody pauses.
    fn ask(&self, connection: u64, question: Question);

    /// Nobody needs the connection any more.
    fn close(&self, connection: u64);

    /// The time since the beginning.
    fn now(&self) -> Duration;

    /// Lets time pass until something is answered, or until then.
    fn pause(&self, until: Option<Duration>);
}

/// Where blocking calls run.
pub(super) enum Ground {
    /// In the world as it is.
    Real { runtime: Option<tokio::runtime::Runtime>, key: Option<ClusterKey>, start: Instant },
    /// In a simulation.
    Simulated(Arc<dyn Stage>),
}

impl Ground {
    /// The time since the beginning.
    pub fn now(&self) -> Duration {
        match self {
            Ground::Real { start, .. } => start.elapsed(),
            Ground::Simulated(stage) => stage.now(),
        }
    }

    /// Waits for so long.
    pub fn sleep(&self, time: Duration) {
        match self {
            Ground::Real { .. } => std::thread::sleep(time),
            Ground::Simulated(stage) => {
                let until = stage.now() + time;
                while stage.now() < until {
                    stage.pause(Some(until));
                }
            }
        }
    }

    /// Waits for a message, at most for so long where a time is given.
    pub fn receive<T>(
        &self,
        from: &Receiver<T>,
        patience: Option<Duration>,
    ) -> Result<T, RecvTimeoutError> {
        let Ground::Simulated(stage) = self else {
            return match patience {
                Some(time) => from.recv_timeout(time),
                None => from.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
        };
        let until = patience.map(|time| stage.now() + time);
        loop {
            match from.try_recv() {
                Ok(message) => return Ok(message),
                Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(TryRecvError::Empty) if until.is_some_and(|until| stage.now() >= until) => {
                    return Err(RecvTimeoutError::Timeout);
                }
                Err(TryRecvError::Empty) => stage.pause(until),
            }
        }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if let Ground::Real { runtime, .. } = self
            && let Some(runtime) = runtime.take()
        {
            // Does not wait, so it may happen anywhere.
            runtime.shutdown_background();
        }
    }
}
