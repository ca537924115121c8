//! A place in memory that counts what it is asked for.

use kiln_store::{
    Append, Backend, Capabilities, FaultyBackend, MemoryBackend, ReadAt, StoreError, WriteLock,
};
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
    fn place(&self) -> String {
        self.files.place()
    }

    fn capabilities(&self) -> Capabilities {
        self.files.capabilities()
    }

    fn list(&self) -> Result<Vec<String>, StoreError> {
        self.files.list()
    }

    fn open(&self, name: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        self.files.open(name)
    }

    fn append(&self, name: &str, at: u64) -> Result<Box<dyn Append>, StoreError> {
        self.files.append(name, at)
    }

    fn write_all(&self, files: &[(&str, &[u8])]) -> Vec<Result<(), StoreError>> {
        self.files.write_all(files)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        self.files.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.files.remove(name)
    }

    fn lock(&self, wait: bool) -> Result<Option<WriteLock>, StoreError> {
        self.locks.fetch_add(1, Ordering::Relaxed);
        self.files.lock(wait)
    }
}
