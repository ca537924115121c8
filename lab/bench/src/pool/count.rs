//! A place in memory that counts what it is asked for.

use kiln_store::{Backend, Extensions, Locks, MemoryBackend, StoreError, WriteLock};
use kiln_testkit::FaultyBackend;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts locks; all else is counted by the backend within, which never fails here.
#[derive(Debug, Clone)]
pub struct Counting {
    files: FaultyBackend,
    locks: Arc<AtomicU64>,
}

impl Counting {
    /// An empty place.
    pub fn new() -> Counting {
        let files = FaultyBackend::new(Arc::new(MemoryBackend::new()));
        Counting { files, locks: Arc::default() }
    }

    /// Operations so far: files opened, read, appended to, synced, renamed and removed, and locks.
    pub fn operations(&self) -> u64 {
        self.files.operations() + self.locks.load(Ordering::Relaxed)
    }
}

impl Backend for Counting {
    kiln_store::forward_backend!(files: place capabilities list open append rename remove);

    fn extensions(&self) -> Extensions<'_> {
        Extensions {
            locks: Some(self),
            batch: self.files.extensions().batch,
            ..Extensions::default()
        }
    }
}

impl Locks for Counting {
    fn lock(&self, wait: bool) -> Result<Option<WriteLock>, StoreError> {
        self.locks.fetch_add(1, Ordering::Relaxed);
        let files: &dyn Backend = &self.files;
        files.lock(wait)
    }
}
