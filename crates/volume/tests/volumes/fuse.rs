//! Disks that count all that changes something on any of them, and strike at one moment of it.

use std::io::{Error, ErrorKind};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use kiln_store::{
    Append, Backend, Capabilities, LogFile, MemoryBackend, Operation, ReadAt, StoreError, WriteLock,
};

/// The fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// The power goes: nothing works any more, anywhere.
    Kill,
    /// One operation fails.
    Error,
    /// A disk has no room from then on.
    Full,
    /// A disk does nothing any more.
    Lost,
    /// Nothing goes wrong, but another process acts at that moment.
    Rival,
}

type Act = Box<dyn FnOnce() + Send>;

/// Strikes after so many operations.
pub struct Fuse {
    failing: Failing,
    left: AtomicI64,
    struck: Mutex<Option<String>>,
    rival: Mutex<Option<Act>>,
    /// Locks of places that are held: a rival would wait for them.
    locks: Arc<()>,
}

impl Fuse {
    pub fn new(failing: Failing, after: i64) -> Arc<Fuse> {
        let (left, struck, rival) = (AtomicI64::new(after), Mutex::default(), Mutex::default());
        Arc::new(Fuse { failing, left, struck, rival, locks: Arc::default() })
    }

    /// Sets the act of a rival for its time.
    pub fn then(&self, act: impl FnOnce() + Send + 'static) {
        *self.rival.lock().unwrap() = Some(Box::new(act));
    }

    /// Operations that could still pass.
    pub fn left(&self) -> i64 {
        self.left.load(Ordering::SeqCst)
    }

    /// The disk that was struck.
    pub fn struck(&self) -> Option<String> {
        self.struck.lock().unwrap().clone()
    }

    pub fn wrap(self: &Arc<Fuse>, disk: &str, inner: &MemoryBackend) -> Arc<dyn Backend> {
        Arc::new(Fused { inner: inner.clone(), fuse: Arc::clone(self), disk: disk.to_owned() })
    }

    fn pass(&self, disk: &str, op: Operation, name: &str) -> Result<(), StoreError> {
        use Operation::{Create, Remove, Rename, Sync, Write};
        let changes = matches!(op, Create | Write | Sync | Rename | Remove);
        let left = if changes { self.left.fetch_sub(1, Ordering::SeqCst) } else { self.left() };
        if self.failing == Failing::Rival {
            let act = (changes && left <= 0 && Arc::strong_count(&self.locks) == 1)
                .then(|| self.rival.lock().unwrap().take())
                .flatten();
            act.into_iter().for_each(|act| act());
            return Ok(());
        }
        let mut struck = self.struck.lock().unwrap();
        let now = changes && left == 0;
        if now {
            *struck = Some(disk.to_owned());
        }
        let here = struck.as_deref() == Some(disk);
        let failed = match self.failing {
            Failing::Kill => struck.is_some(),
            Failing::Error => now,
            Failing::Full => now || here && matches!(op, Create | Write),
            Failing::Lost => here,
            Failing::Rival => false,
        };
        let kind =
            if self.failing == Failing::Full { ErrorKind::StorageFull } else { ErrorKind::Other };
        match failed {
            true => {
                let (place, name) = (disk.to_owned(), name.to_owned());
                Err(StoreError::Io { op, place, name, source: Error::from(kind) })
            }
            false => Ok(()),
        }
    }
}

struct Fused {
    inner: MemoryBackend,
    fuse: Arc<Fuse>,
    disk: String,
}

impl std::fmt::Debug for Fused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Fused").field(&self.disk).finish()
    }
}

struct FusedFile<F> {
    inner: F,
    fuse: Arc<Fuse>,
    disk: String,
    name: String,
}

impl Fused {
    fn pass(&self, op: Operation, name: &str) -> Result<(), StoreError> {
        self.fuse.pass(&self.disk, op, name)
    }

    fn file<F>(&self, inner: F, name: &str) -> Box<FusedFile<F>> {
        let (fuse, disk, name) = (Arc::clone(&self.fuse), self.disk.clone(), name.to_owned());
        Box::new(FusedFile { inner, fuse, disk, name })
    }
}

impl<F> FusedFile<F> {
    fn pass(&self, op: Operation) -> Result<(), StoreError> {
        self.fuse.pass(&self.disk, op, &self.name)
    }
}

impl Backend for Fused {
    fn place(&self) -> String {
        self.inner.place()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn list(&self) -> Result<Vec<String>, StoreError> {
        self.pass(Operation::List, "")?;
        self.inner.list()
    }

    fn open(&self, name: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        self.pass(Operation::Open, name)?;
        Ok(self.file(self.inner.open(name)?, name))
    }

    fn append(&self, name: &str, at: u64) -> Result<Box<dyn Append>, StoreError> {
        self.pass(Operation::Create, name)?;
        Ok(self.file(self.inner.append(name, at)?, name))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        self.pass(Operation::Rename, from)?;
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.pass(Operation::Remove, name)?;
        self.inner.remove(name)
    }

    fn create_log(&self, name: &str, size: u64) -> Result<Box<dyn LogFile>, StoreError> {
        self.pass(Operation::Create, name)?;
        Ok(self.file(self.inner.create_log(name, size)?, name))
    }

    fn close_log(&self, name: &str, to: &str, force: bool) -> Result<(), StoreError> {
        self.pass(Operation::Rename, name)?;
        self.inner.close_log(name, to, force)
    }

    fn lock(&self, wait: bool) -> Result<Option<WriteLock>, StoreError> {
        let held = self.inner.lock(wait)?;
        Ok(held.map(|held| WriteLock::on((held, Arc::clone(&self.fuse.locks)))))
    }
}

impl ReadAt for FusedFile<Box<dyn ReadAt>> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        self.pass(Operation::Read)?;
        self.inner.read_at(offset, buf)
    }
}

impl Append for FusedFile<Box<dyn Append>> {
    fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.pass(Operation::Write)?;
        self.inner.append(bytes)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.pass(Operation::Sync)?;
        self.inner.sync()
    }
}

impl LogFile for FusedFile<Box<dyn LogFile>> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        self.pass(Operation::Write)?;
        self.inner.write_at(offset, bytes)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.pass(Operation::Sync)?;
        self.inner.sync()
    }
}
