//! The copies of a volume's log, written side by side.

use crate::descriptor::LogCopy;
use kiln_store::{LogFile, Result, StoreError};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::{sync::Arc, thread::JoinHandle};

/// Bytes for an offset of every copy.
type Job = (u64, Arc<Vec<u8>>);

struct Copy {
    place: LogCopy,
    writer: Writer,
}

/// Writer of a copy.
enum Writer {
    /// The thread that commits.
    Inline(Box<dyn LogFile>),
    /// A thread of its own.
    Thread { jobs: Sender<Job>, ends: Receiver<Result<()>>, thread: JoinHandle<()> },
}

/// All copies of a log.
#[derive(Default)]
pub(crate) struct Logs {
    copies: Vec<Copy>,
}

impl Logs {
    /// Takes copies over, with a thread for each or none.
    pub fn new(copies: Vec<(LogCopy, Box<dyn LogFile>)>, threads: bool) -> Logs {
        let copies = copies.into_iter().map(|(place, file)| {
            let writer = if threads { spawn(file) } else { Writer::Inline(file) };
            Copy { place, writer }
        });
        Logs { copies: copies.collect() }
    }

    /// Writes the same bytes to all copies and makes them durable.
    /// Errors: nodes on which that failed, and how. Then nothing is acknowledged.
    pub fn write(
        &mut self,
        offset: u64,
        bytes: &Arc<Vec<u8>>,
    ) -> Result<(), Vec<(String, StoreError)>> {
        for copy in &self.copies {
            if let Writer::Thread { jobs, .. } = &copy.writer {
                // A thread that is gone has no end to tell either.
                let _ = jobs.send((offset, Arc::clone(bytes)));
            }
        }
        let mut failed = Vec::new();
        for copy in &mut self.copies {
            let end = match &mut copy.writer {
                Writer::Inline(file) => write(&mut **file, offset, bytes),
                Writer::Thread { ends, .. } => {
                    ends.recv().unwrap_or_else(|_| Err(gone(&copy.place)))
                }
            };
            if let Err(error) = end {
                failed.push((copy.place.node.clone(), error));
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(failed) }
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        for copy in self.copies.drain(..) {
            if let Writer::Thread { jobs, thread, .. } = copy.writer {
                drop(jobs);
                // It wrote nothing that was not waited for.
                let _ = thread.join();
            }
        }
    }
}

fn write(file: &mut dyn LogFile, offset: u64, bytes: &[u8]) -> Result<()> {
    file.write_at(offset, bytes)?;
    file.sync()
}

fn spawn(mut file: Box<dyn LogFile>) -> Writer {
    let (jobs, todo) = channel::<Job>();
    let (done, ends) = channel();
    let thread = std::thread::spawn(move || {
        while let Ok((offset, bytes)) = todo.recv() {
            if done.send(write(&mut *file, offset, &bytes)).is_err() {
                return;
            }
        }
    });
    Writer::Thread { jobs, ends, thread }
}

fn gone(place: &LogCopy) -> StoreError {
    let source = std::io::Error::other("its thread ended");
    let (place, name) = (place.node.clone(), place.file.clone());
    StoreError::Io { op: kiln_store::Operation::Write, place, name, source }
}
