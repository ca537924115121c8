//! State shared by threads that work on a volume at the same time.

use crate::descriptor::Descriptor;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// State of a volume's keeper between its steps.
#[derive(Debug)]
pub(crate) struct Kept {
    /// The first segment that the checkpoint in force may not cover.
    pub covered: u64,
    /// Checkpoints made by this writer.
    pub checkpoints: u64,
}

impl Kept {
    pub fn new(descriptor: &Descriptor) -> Kept {
        let covered = descriptor.checkpoint.as_ref().map_or(0, |_| descriptor.next_number);
        Kept { covered, checkpoints: 0 }
    }
}
