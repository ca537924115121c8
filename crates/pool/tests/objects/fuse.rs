//! Disks that fail at one moment of all that is done with them: the power goes, an operation fails,
//! or one of them is full.

use std::io::{Error, ErrorKind};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use kiln_store::backends::upload::by_rename;
use kiln_store::{
    Append, Backend, Capabilities, Capability, MemoryBackend, NewFile, Operation, ReadAt,
    StoreError, Tag, Upload, WriteLock,
};

use crate::world::World;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// Nothing works any more, anywhere.
    Kill,
    /// The same, and what only reads counts too.
    PowerCut,
    /// One operation fails.
    Error,
    /// A disk has no room from then on.
    Full,
}

impl Failing {
    pub const ALL: [Failing; 3] = [Failing::Kill, Failing::Error, Failing::Full];
}

/// Counts operations that change something, on all disks together, and strikes at one of them.
#[derive(Debug)]
pub struct Fuse {
    failing: Failing,
    left: AtomicI64,
    /// The disk that was struck.
    struck: Mutex<Option<usize>>,
}

impl Fuse {
    /// Strikes after so many operations.
    pub fn new(failing: Failing, after: i64) -> Arc<Fuse> {
        Arc::new(Fuse { failing, left: AtomicI64::new(after), struck: Mutex::default() })
    }

    /// Strikes after so many operations from now on.
    pub fn burn(&self, after: i64) {
        self.left.store(after, Ordering::SeqCst);
    }

    /// Operations that could still pass.
    pub fn left(&self) -> i64 {
        self.left.load(Ordering::SeqCst)
    }

    fn fails(&self, disk: usize, op: Operation) -> Option<ErrorKind> {
        let changes = matches!(
            op,
            Operation::Create
                | Operation::Write
                | Operation::Sync
                | Operation::Rename
                | Operation::Remove
        );
        let counts = changes || self.failing == Failing::PowerCut;
        let left = match counts {
            true => self.left.fetch_sub(1, Ordering::SeqCst),
            false => self.left(),
        };
        let mut struck = self.struck.lock().unwrap_or_else(PoisonError::into_inner);
        let now = left == 0 && counts;
        if now {
            *struck = Some(disk);
        }
        let on_it = *struck == Some(disk) && matches!(op, Operation::Create | Operation::Write);
        match self.failing {
            Failing::Kill | Failing::PowerCut => (struck.is_some()).then_some(ErrorKind::Other),
            Failing::Error => now.then_some(ErrorKind::Other),
            Failing::Full => (now || on_it).then_some(ErrorKind::StorageFull),
        }
    }
}

/// A disk with a fuse. Files that are written together, and names that are given together, share a
/// sync, before which none of them is durable.
#[derive(Debug)]
pub struct Fused {
    inner: Arc<dyn Backend>,
    memory: Arc<MemoryBackend>,
    fuse: Arc<Fuse>,
    disk: usize,
}

impl Fused {
    /// Puts a fuse to a disk of a world, which is reached through `inner`.
    pub fn put_to(
        world: &World,
        disk: usize,
        inner: Arc<dyn Backend>,
        fuse: &Arc<Fuse>,
    ) -> Arc<dyn Backend> {
        let (memory, fuse) = (world.disks[disk].memory.clone(), fuse.clone());
        Arc::new(Fused { inner, memory, fuse, disk })
    }

    /// Makes durable what was done without a sync, by one for all of it.
    fn sync_once<T>(
        &self,
        done: Vec<Result<T, StoreError>>,
        mut sync: impl FnMut(T) -> Result<(), StoreError>,
    ) -> Vec<Result<(), StoreError>> {
        let failed = self.fuse.fails(self.disk, Operation::Sync);
        let end = |done: Result<T, StoreError>| match failed {
            Some(kind) => done.and_then(|_| Err(error(self.disk, Operation::Sync, "", kind))),
            None => done.and_then(&mut sync),
        };
        done.into_iter().map(end).collect()
    }

    fn pass(&self, op: Operation, name: &str) -> Result<(), StoreError> {
        pass(&self.fuse, self.disk, op, name)
    }
}

fn pass(fuse: &Fuse, disk: usize, op: Operation, name: &str) -> Result<(), StoreError> {
    fuse.fails(disk, op).map_or(Ok(()), |kind| Err(error(disk, op, name, kind)))
}

fn error(disk: usize, op: Operation, name: &str, kind: ErrorKind) -> StoreError {
    let (place, name) = (format!("disk {disk}"), name.to_owned());
    StoreError::Io { op, place, name, source: Error::from(kind) }
}

struct FusedFile<F> {
    inner: F,
    fuse: Arc<Fuse>,
    disk: usize,
    name: String,
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
        let (fuse, disk, name) = (Arc::clone(&self.fuse), self.disk, name.to_owned());
        Ok(Box::new(FusedFile { inner: self.inner.open(&name)?, fuse, disk, name }))
    }

    fn append(&self, name: &str, at: u64) -> Result<Box<dyn Append>, StoreError> {
        self.pass(Operation::Create, name)?;
        let (fuse, disk, name) = (Arc::clone(&self.fuse), self.disk, name.to_owned());
        Ok(Box::new(FusedFile { inner: self.inner.append(&name, at)?, fuse, disk, name }))
    }

    fn write_once(&self, name: &str) -> Result<Box<dyn Append>, StoreError> {
        self.pass(Operation::Create, name)?;
        let (fuse, disk, name) = (Arc::clone(&self.fuse), self.disk, name.to_owned());
        Ok(Box::new(FusedFile { inner: self.inner.write_once(&name)?, fuse, disk, name }))
    }

    fn create<'a>(&'a self, file: &NewFile<'_>) -> Result<Box<dyn Upload + 'a>, StoreError> {
        if self.capabilities().has(Capability::Append) {
            return by_rename(self, file);
        }
        self.pass(Operation::Create, file.name)?;
        let (fuse, disk, name) = (Arc::clone(&self.fuse), self.disk, file.name.to_owned());
        Ok(Box::new(FusedFile { inner: self.inner.create(file)?, fuse, disk, name }))
    }

    fn copy(&self, from: &str, to: &str) -> Result<(), StoreError> {
        self.pass(Operation::Rename, from)?;
        self.inner.copy(from, to)
    }

    fn modified(&self, name: &str) -> Result<Option<u64>, StoreError> {
        self.inner.modified(name)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        self.pass(Operation::Rename, from)?;
        self.inner.rename(from, to)
    }

    fn write_all(&self, files: &[(&str, &[u8])]) -> Vec<Result<(), StoreError>> {
        let write = |(name, bytes): &(&str, &[u8])| {
            self.pass(Operation::Create, name)?;
            let mut file = self.inner.append(name, 0)?;
            self.pass(Operation::Write, name)?;
            file.append(bytes)?;
            Ok(file)
        };
        self.sync_once(files.iter().map(write).collect(), |mut file| file.sync())
    }

    fn rename_all(&self, names: &[(&str, &str)]) -> Vec<Result<(), StoreError>> {
        let rename = |(from, to): &(&str, &str)| {
            self.pass(Operation::Rename, from)?;
            match self.memory.rename_unsynced(from, to) {
                // It is no file of this memory before it has its name.
                Err(error) if error.is_not_found() => self.inner.rename(from, to),
                end => end,
            }
        };
        self.sync_once(names.iter().map(rename).collect(), |()| {
            self.memory.sync_names();
            Ok(())
        })
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.pass(Operation::Remove, name)?;
        self.inner.remove(name)
    }

    fn lock(&self, wait: bool) -> Result<Option<WriteLock>, StoreError> {
        self.inner.lock(wait)
    }
}

impl ReadAt for FusedFile<Box<dyn ReadAt>> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), StoreError> {
        pass(&self.fuse, self.disk, Operation::Read, &self.name)?;
        self.inner.read_at(offset, buf)
    }

    fn tag(&self) -> Option<Tag> {
        self.inner.tag()
    }
}

impl<'a> Upload for FusedFile<Box<dyn Upload + 'a>> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        pass(&self.fuse, self.disk, Operation::Write, &self.name)?;
        self.inner.write(bytes)
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.inner.sync()
    }

    fn complete(self: Box<Self>) -> Result<(), StoreError> {
        pass(&self.fuse, self.disk, Operation::Rename, &self.name)?;
        self.inner.complete()
    }
}

impl Append for FusedFile<Box<dyn Append>> {
    fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        pass(&self.fuse, self.disk, Operation::Write, &self.name)?;
        self.inner.append(bytes)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        pass(&self.fuse, self.disk, Operation::Sync, &self.name)?;
        self.inner.sync()
    }

    fn complete(&mut self) -> Result<(), StoreError> {
        pass(&self.fuse, self.disk, Operation::Sync, &self.name)?;
        self.inner.complete()
    }
}
