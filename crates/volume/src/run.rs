//! The threads of a volume that is served: one seals, one keeps, one commits what clients hand
//! over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::OwnedOp;
use crate::pacer::{CleanPacer, SealPacer};
use crate::queue::{Done, Queue, Submitted, TOGETHER};
use crate::{Result, Volume, Worked, kept::lock, queue, stream};

/// Rest of a thread with nothing to do.
const REST: Duration = Duration::from_millis(200);
/// Interval at which changes of the pool are looked for.
const ATTEND: Duration = Duration::from_secs(5);
const REST_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// A volume with its threads.
#[derive(Debug)]
pub struct Running {
    volume: Arc<Volume>,
    queue: Option<Sender<Submitted>>,
    ending: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Work of a thread until it is stopped.
type Work = Box<dyn FnOnce(&Volume, &AtomicBool) + Send>;

impl Running {
    /// Starts the threads of an open volume.
    pub fn start(volume: Volume) -> Running {
        Running::start_limited(volume, 0)
    }

    /// The same; cleaning reads and writes no more bytes a second than `limit` (0: as many as
    /// clients leave time for), as long as what is to be cleaned does not grow without end.
    pub fn start_limited(volume: Volume, limit: u64) -> Running {
        let volume = Arc::new(volume);
        let ending = Arc::new(AtomicBool::new(false));
        let (queue, todo) = channel();
        let spawn = |work: Work| {
            let (volume, ending) = (Arc::clone(&volume), Arc::clone(&ending));
            std::thread::spawn(move || work(&volume, &ending))
        };
        let threads = vec![
            spawn(Box::new(seal_all)),
            spawn(Box::new(move |volume, ending| keep_all(volume, ending, limit))),
            spawn(Box::new(move |volume, _| commit_all(volume, &todo))),
        ];
        Running { volume, queue: Some(queue), ending, threads }
    }

    /// The volume.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Hands a change over; `done` hears of its end, on another thread. Changes that are handed
    /// over while others are committed are committed together.
    pub fn submit(&self, op: OwnedOp, done: Done) {
        let queue = self.queue.as_ref();
        if let Some(Err(unsent)) = queue.map(|queue| queue.send((op, done))) {
            unsent.0.1(Err(queue::refused()));
        }
    }

    /// Ends the threads, after all that was handed over, and closes the volume.
    pub fn close(mut self) -> Result<()> {
        self.stop();
        self.volume.close()
    }

    fn stop(&mut self) {
        self.queue = None;
        self.ending.store(true, Ordering::Release);
        self.volume.moved_on.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

fn seal_all(volume: &Volume, ending: &AtomicBool) {
    let pacer = SealPacer::new(volume, ending);
    while !ending.load(Ordering::Acquire) {
        match volume.seal_watched(&pacer) {
            Ok(Worked::Nothing) => {
                let state = lock(&volume.state);
                if state.closed.is_empty() || volume.closed.load(Ordering::Acquire) {
                    let waited = volume.moved_on.wait_timeout(state, REST);
                    drop(waited.unwrap_or_else(PoisonError::into_inner));
                }
            }
            Ok(_) => {}
            Err(_) => std::thread::sleep(REST_AFTER_FAILURE),
        }
    }
}

fn keep_all(volume: &Volume, ending: &AtomicBool, limit: u64) {
    let pacer = CleanPacer::new(volume, ending, limit);
    let mut attended = Instant::now();
    while !ending.load(Ordering::Acquire) {
        if attended.elapsed() >= ATTEND {
            attended = Instant::now();
            // What fails here fails at the next write too, and is said there.
            let _ = volume.attend();
            // The client gives up after a while.
            let _ = volume.answer();
        }
        pacer.start();
        match volume.keep_watched(&pacer) {
            Ok(Worked::Nothing) => std::thread::sleep(REST),
            Ok(_) => {}
            Err(_) => std::thread::sleep(REST_AFTER_FAILURE),
        }
    }
}

fn commit_all(volume: &Volume, todo: &Receiver<Submitted>) {
    let mut queue = Queue::new(todo);
    while queue.wait() {
        // What was long, and was not taken as such.
        for batch in stream::write(volume, &mut queue) {
            let end = volume.write(&batch.as_ops());
            batch.end_or_each(end, |op| volume.write(&[op]));
        }
        if queue.len() == 0 {
            continue;
        }
        let (batch, began) = (queue.take(TOGETHER), Instant::now());
        let answered = batch.len();
        let end = volume.write(&batch.as_ops());
        queue.pull();
        let usual = answered + queue.len();
        batch.end_or_each(end, |op| volume.write(&[op]));
        let patience = queue::patience(began.elapsed(), answered);
        queue.linger(patience, |queue| queue.len() >= usual || queue.bytes() >= TOGETHER);
    }
}
