//! Disks that fail at one moment of all that is done with them: the power goes, an operation
//! fails, one of them is full or lost, or another writer comes in between.

use std::fmt;
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use kiln_store::backends::upload::by_rename;
use kiln_store::{
    Append, Backend, BatchFiles, Capability, Extensions, Locks, LogFile, Logs, MemoryBackend,
    NewFile, Objects, Operation, ReadAt, Result, StoreError, Tag, Upload, WriteLock,
};
use parking_lot::Mutex;

/// The failure of a [`Fuse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// Nothing works any more, anywhere.
    Kill,
    /// The same, and operations that only read count too.
    PowerCut,
    /// One operation fails.
    Error,
    /// A disk has no room from then on.
    Full,
    /// A disk does nothing any more.
    Lost,
    /// Nothing fails, but another writer acts at that moment.
    Rival,
}

type Act = Box<dyn FnOnce() + Send>;

/// Counts operations that change something, on all disks together, and strikes at one of them.
pub struct Fuse {
    failing: Failing,
    left: AtomicI64,
    struck: Mutex<Option<String>>,
    rival: Mutex<Option<Act>>,
    /// Locks of places that are held: a rival would wait for them.
    locks: Arc<()>,
}

impl fmt::Debug for Fuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} after {:?}", self.failing, self.left)
    }
}

impl Fuse {
    /// Strikes after so many operations.
    #[must_use]
    pub fn new(failing: Failing, after: i64) -> Arc<Fuse> {
        let (left, struck, rival) = (AtomicI64::new(after), Mutex::default(), Mutex::default());
        Arc::new(Fuse { failing, left, struck, rival, locks: Arc::default() })
    }

    /// Strikes after so many operations from now on.
    pub fn burn(&self, after: i64) {
        self.left.store(after, Ordering::SeqCst);
    }

    /// Sets what a rival does at its moment.
    pub fn then(&self, act: impl FnOnce() + Send + 'static) {
        *self.rival.lock() = Some(Box::new(act));
    }

    /// Operations that could still pass.
    pub fn left(&self) -> i64 {
        self.left.load(Ordering::SeqCst)
    }

    /// The disk that was struck.
    pub fn struck(&self) -> Option<String> {
        self.struck.lock().clone()
    }

    /// Puts the fuse to a disk.
    pub fn wrap(self: &Arc<Fuse>, disk: &str, inner: Arc<dyn Backend>) -> Arc<dyn Backend> {
        self.fused(disk, inner, None)
    }

    /// Puts the fuse to a disk over `memory`, reached through `inner`. Files that are written
    /// together, and names that are given together, share a sync, before which none is durable.
    pub fn wrap_together(
        self: &Arc<Fuse>,
        disk: &str,
        inner: Arc<dyn Backend>,
        memory: MemoryBackend,
    ) -> Arc<dyn Backend> {
        self.fused(disk, inner, Some(memory))
    }

    fn fused(
        self: &Arc<Fuse>,
        disk: &str,
        inner: Arc<dyn Backend>,
        memory: Option<MemoryBackend>,
    ) -> Arc<dyn Backend> {
        let fuse = DiskFuse { fuse: Arc::clone(self), disk: disk.to_owned() };
        Arc::new(Fused { inner, memory, fuse })
    }

    fn fails(&self, disk: &str, op: Operation) -> Option<ErrorKind> {
        use Operation::{Create, Remove, Rename, Sync, Write};
        let changes = matches!(op, Create | Write | Sync | Rename | Remove);
        let counts = changes || self.failing == Failing::PowerCut;
        let left = if counts { self.left.fetch_sub(1, Ordering::SeqCst) } else { self.left() };
        if self.failing == Failing::Rival {
            let due = counts && left <= 0 && Arc::strong_count(&self.locks) == 1;
            let act = if due { self.rival.lock().take() } else { None };
            act.into_iter().for_each(|act| act());
            return None;
        }
        let mut struck = self.struck.lock();
        let now = counts && left == 0;
        if now {
            *struck = Some(disk.to_owned());
        }
        let here = struck.as_deref() == Some(disk);
        let failed = match self.failing {
            Failing::Kill | Failing::PowerCut => struck.is_some(),
            Failing::Error => now,
            Failing::Full => now || (here && matches!(op, Create | Write)),
            Failing::Lost => here,
            Failing::Rival => false,
        };
        let full = self.failing == Failing::Full;
        failed.then_some(if full { ErrorKind::StorageFull } else { ErrorKind::Other })
    }
}

/// The fuse of one disk.
#[derive(Debug, Clone)]
struct DiskFuse {
    fuse: Arc<Fuse>,
    disk: String,
}

impl DiskFuse {
    fn pass(&self, op: Operation, name: &str) -> Result<()> {
        self.fuse.fails(&self.disk, op).map_or(Ok(()), |kind| Err(self.error(op, name, kind)))
    }

    fn error(&self, op: Operation, name: &str, kind: ErrorKind) -> StoreError {
        let (place, name) = (self.disk.clone(), name.to_owned());
        StoreError::Io { op, place, name, source: Error::from(kind) }
    }

    fn file<F>(&self, inner: F, name: &str) -> Box<FusedFile<F>> {
        Box::new(FusedFile { inner, fuse: self.clone(), name: name.to_owned() })
    }
}

/// A disk with a fuse.
#[derive(Debug)]
struct Fused {
    inner: Arc<dyn Backend>,
    memory: Option<MemoryBackend>,
    fuse: DiskFuse,
}

impl Fused {
    /// Makes durable what was done without a sync, by one for all of it.
    fn sync_once<T>(
        &self,
        done: Vec<Result<T>>,
        mut sync: impl FnMut(T) -> Result<()>,
    ) -> Vec<Result<()>> {
        let failed = self.fuse.fuse.fails(&self.fuse.disk, Operation::Sync);
        let end = |done: Result<T>| match failed {
            Some(kind) => done.and_then(|_| Err(self.fuse.error(Operation::Sync, "", kind))),
            None => done.and_then(&mut sync),
        };
        done.into_iter().map(end).collect()
    }
}

impl Backend for Fused {
    kiln_store::forward_backend!(inner: place capabilities);

    fn list(&self) -> Result<Vec<String>> {
        self.fuse.pass(Operation::List, "")?;
        self.inner.list()
    }

    fn open(&self, name: &str) -> Result<Box<dyn ReadAt>> {
        self.fuse.pass(Operation::Open, name)?;
        Ok(self.fuse.file(self.inner.open(name)?, name))
    }

    fn append(&self, name: &str, at: u64) -> Result<Box<dyn Append>> {
        self.fuse.pass(Operation::Create, name)?;
        Ok(self.fuse.file(self.inner.append(name, at)?, name))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.fuse.pass(Operation::Rename, from)?;
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.fuse.pass(Operation::Remove, name)?;
        self.inner.remove(name)
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions {
            objects: Some(self),
            batch: self.memory.as_ref().map(|_| self as &dyn BatchFiles),
            locks: Some(self),
            logs: Some(self),
            info: self.inner.extensions().info,
            ..Extensions::default()
        }
    }
}

impl Objects for Fused {
    fn create<'a>(&'a self, file: &NewFile<'_>) -> Result<Box<dyn Upload + 'a>> {
        if self.capabilities().has(Capability::Append) {
            return by_rename(self, file);
        }
        self.fuse.pass(Operation::Create, file.name)?;
        Ok(self.fuse.file(self.inner.create(file)?, file.name))
    }

    fn write_once(&self, name: &str) -> Result<Box<dyn Append>> {
        self.fuse.pass(Operation::Create, name)?;
        Ok(self.fuse.file(self.inner.write_once(name)?, name))
    }

    fn copy(&self, from: &str, to: &str) -> Result<()> {
        self.fuse.pass(Operation::Rename, from)?;
        self.inner.copy(from, to)
    }
}

impl BatchFiles for Fused {
    fn write_all(&self, files: &[(&str, &[u8])]) -> Vec<Result<()>> {
        let write = |(name, bytes): &(&str, &[u8])| {
            self.fuse.pass(Operation::Create, name)?;
            let mut file = self.inner.append(name, 0)?;
            self.fuse.pass(Operation::Write, name)?;
            file.append(bytes)?;
            Ok(file)
        };
        self.sync_once(files.iter().map(write).collect(), |mut file| file.sync())
    }

    fn rename_all(&self, names: &[(&str, &str)]) -> Vec<Result<()>> {
        let Some(memory) = &self.memory else {
            return names.iter().map(|(from, to)| self.rename(from, to)).collect();
        };
        let rename = |(from, to): &(&str, &str)| {
            self.fuse.pass(Operation::Rename, from)?;
            match memory.rename_unsynced(from, to) {
                // It is no file of this memory before it has its name.
                Err(error) if error.is_not_found() => self.inner.rename(from, to),
                end => end,
            }
        };
        self.sync_once(names.iter().map(rename).collect(), |()| {
            memory.sync_names();
            Ok(())
        })
    }
}

impl Logs for Fused {
    fn create_log(&self, name: &str, size: u64) -> Result<Box<dyn LogFile>> {
        self.fuse.pass(Operation::Create, name)?;
        Ok(self.fuse.file(self.inner.create_log(name, size)?, name))
    }

    fn close_log(&self, name: &str, to: &str, force: bool) -> Result<()> {
        self.fuse.pass(Operation::Rename, name)?;
        self.inner.close_log(name, to, force)
    }
}

impl Locks for Fused {
    fn lock(&self, wait: bool) -> Result<Option<WriteLock>> {
        let held = self.inner.lock(wait)?;
        Ok(held.map(|held| WriteLock::on((held, Arc::clone(&self.fuse.fuse.locks)))))
    }
}

struct FusedFile<F> {
    inner: F,
    fuse: DiskFuse,
    name: String,
}

impl<F> FusedFile<F> {
    fn pass(&self, op: Operation) -> Result<()> {
        self.fuse.pass(op, &self.name)
    }
}

impl ReadAt for FusedFile<Box<dyn ReadAt>> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        self.pass(Operation::Read)?;
        self.inner.read_at(offset, buf)
    }

    fn tag(&self) -> Option<Tag> {
        self.inner.tag()
    }
}

impl Upload for FusedFile<Box<dyn Upload + '_>> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.pass(Operation::Write)?;
        self.inner.write(bytes)
    }

    fn sync(&mut self) -> Result<()> {
        self.inner.sync()
    }

    fn complete(self: Box<Self>) -> Result<()> {
        self.pass(Operation::Rename)?;
        self.inner.complete()
    }
}

impl Append for FusedFile<Box<dyn Append>> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.pass(Operation::Write)?;
        self.inner.append(bytes)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn sync(&mut self) -> Result<()> {
        self.pass(Operation::Sync)?;
        self.inner.sync()
    }

    fn complete(&mut self) -> Result<()> {
        self.pass(Operation::Sync)?;
        self.inner.complete()
    }
}

impl LogFile for FusedFile<Box<dyn LogFile>> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.pass(Operation::Write)?;
        self.inner.write_at(offset, bytes)
    }

    fn sync(&mut self) -> Result<()> {
        self.pass(Operation::Sync)?;
        self.inner.sync()
    }
}
