//! Faults on purpose: wraps any backend and makes it fail as a test says.

use kiln_store::backends::upload::by_rename;
use kiln_store::{
    Append, Backend, BatchFiles, Capability, CreateNew, Extensions, Locks, LogFile, Logs,
    MemoryBackend, NewFile, Objects, Operation, PlaceInfo, ReadAt, Result, Space, StoreError, Tag,
    Upload, WriteLock,
};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::{fmt::Debug, io, sync::Arc};

/// One fault to inject into a [`FaultyBackend`].
#[derive(Debug, Clone)]
pub struct Fault {
    /// Only files whose name contains this; empty: all.
    pub name: String,
    /// Only this operation; `None`: every one that the action can strike.
    pub operation: Option<Operation>,
    /// Matching operations that pass before the fault strikes.
    pub after: u64,
    /// Times that it strikes; `u64::MAX`: from then on for ever.
    pub times: u64,
    /// The effect.
    pub action: FaultAction,
}

impl Fault {
    /// A fault that strikes the next operation, whatever it is, once.
    #[must_use]
    pub fn new(action: FaultAction) -> Self {
        Self { name: String::new(), operation: None, after: 0, times: 1, action }
    }

    /// Only this operation.
    #[must_use]
    pub fn on(self, operation: Operation) -> Self {
        Self { operation: Some(operation), ..self }
    }

    /// Only files whose name contains this.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: name.to_string(), ..self }
    }

    /// Only after this many matching operations have passed.
    #[must_use]
    pub fn after(self, operations: u64) -> Self {
        Self { after: operations, ..self }
    }

    /// Again and again, for ever.
    #[must_use]
    pub fn always(self) -> Self {
        Self { times: u64::MAX, ..self }
    }
}

/// The effect of a [`Fault`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultAction {
    /// The operation fails with this kind of error and changes nothing.
    Fail(io::ErrorKind),
    /// A read or write that covers the byte at `offset` of the file has `mask` XORed into that
    /// byte: on a write the damage stays on disk. Other operations are neither struck nor counted.
    Flip {
        /// Byte offset in the file.
        offset: u64,
        /// Bits to flip.
        mask: u8,
    },
    /// A write puts only its first `keep` bytes on disk, then fails with this kind of error.
    /// Other operations are neither struck nor counted.
    Torn {
        /// Bytes that still get written.
        keep: usize,
        /// Kind of the error.
        kind: io::ErrorKind,
    },
    /// The operation stands still until [`FaultyBackend::heal`], and then succeeds.
    Hang,
}

/// A backend that wraps another and fails as told; clones share their faults.
#[derive(Debug, Clone)]
pub struct FaultyBackend {
    struck: Struck,
    plan: Arc<SharedPlan>,
}

/// Rules by which operations on a place fail.
pub(crate) trait Faults: Debug + Send + Sync {
    /// Counts an operation and gives the actions that strike it.
    fn strike(&self, access: &Access<'_>) -> Vec<FaultAction>;

    /// Bytes that can still be written; `None`: no limit.
    fn space(&self) -> Option<u64> {
        None
    }

    /// Takes room for bytes that are written; gives the number that fit.
    fn take_space(&self, bytes: usize) -> usize {
        bytes
    }

    /// Returns whether files that are written together share a sync.
    fn batches(&self) -> bool {
        true
    }

    /// The memory of the place, where names that are given together share a sync too.
    fn names(&self) -> Option<&MemoryBackend> {
        None
    }

    /// A token that goes with each lock, where locks are counted.
    fn lock_token(&self) -> Option<Arc<()>> {
        None
    }
}

/// A place whose operations can fail; clones share its faults.
#[derive(Debug, Clone)]
pub(crate) struct Struck {
    pub inner: Arc<dyn Backend>,
    pub faults: Arc<dyn Faults>,
}

/// Faults to come, shared with all open files.
#[derive(Debug, Default)]
struct Plan {
    /// Each fault with the matching operations it has seen.
    faults: Vec<(Fault, u64)>,
    /// Bytes that can still be written; `None`: no limit.
    space: Option<u64>,
    operations: u64,
}

/// The faults, and who waits for [`FaultyBackend::heal`].
type SharedPlan = (Mutex<Plan>, Condvar);

/// An operation on some bytes of a file.
pub(crate) struct Access<'a> {
    pub operation: Operation,
    name: &'a str,
    offset: u64,
    len: usize,
}

impl<'a> Access<'a> {
    fn to(operation: Operation, name: &'a str) -> Self {
        Self { operation, name, offset: 0, len: 0 }
    }
}

impl Faults for SharedPlan {
    fn strike(&self, access: &Access<'_>) -> Vec<FaultAction> {
        let mut plan = self.0.lock();
        plan.operations += 1;
        let mut struck = Vec::new();
        for (fault, seen) in &mut plan.faults {
            if !matches(fault, access) {
                continue;
            }
            if *seen >= fault.after && *seen - fault.after < fault.times {
                struck.push(fault.action.clone());
            }
            *seen += 1;
        }
        if struck.contains(&FaultAction::Hang) {
            let hangs =
                |plan: &mut Plan| plan.faults.iter().any(|f| f.0.action == FaultAction::Hang);
            self.1.wait_while(&mut plan, hangs);
        }
        struck
    }

    fn space(&self) -> Option<u64> {
        self.0.lock().space
    }

    fn take_space(&self, bytes: usize) -> usize {
        let mut plan = self.0.lock();
        let fits = plan.space.unwrap_or(u64::MAX).min(bytes as u64);
        plan.space = plan.space.map(|space| space - fits);
        fits as usize
    }
}

fn matches(fault: &Fault, access: &Access<'_>) -> bool {
    let in_reach = match fault.action {
        FaultAction::Fail(_) | FaultAction::Hang => true,
        FaultAction::Torn { .. } => access.operation == Operation::Write,
        FaultAction::Flip { offset, .. } => {
            matches!(access.operation, Operation::Read | Operation::Write)
                && offset.checked_sub(access.offset).is_some_and(|at| at < access.len as u64)
        }
    };
    in_reach
        && access.name.contains(&fault.name)
        && fault.operation.is_none_or(|operation| operation == access.operation)
}

impl FaultyBackend {
    /// Wraps a backend; without faults it changes nothing.
    #[must_use]
    pub fn new(inner: Arc<dyn Backend>) -> Self {
        let plan = Arc::<SharedPlan>::default();
        Self { struck: Struck { inner, faults: plan.clone() }, plan }
    }

    /// Adds a fault to those that wait.
    pub fn inject(&self, fault: Fault) {
        self.plan().faults.push((fault, 0));
    }

    /// Removes all faults and the limit of space.
    pub fn heal(&self) {
        let mut plan = self.plan();
        plan.faults.clear();
        plan.space = None;
        self.plan.1.notify_all();
    }

    /// From now on only this many more bytes can be written, in all files together; then
    /// "no space left", with the bytes that still fitted on disk.
    pub fn limit_space(&self, bytes: u64) {
        self.plan().space = Some(bytes);
    }

    /// Operations seen so far, failed ones included.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.plan().operations
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.0.lock()
    }
}

impl Backend for FaultyBackend {
    kiln_store::forward_backend!(
        struck: place capabilities list each_name open append rename remove extensions
    );
}

impl Struck {
    /// Counts an operation without bytes; how it fails if a fault says so.
    fn struck(&self, operation: Operation, name: &str) -> Option<io::ErrorKind> {
        self.faults.strike(&Access::to(operation, name)).into_iter().find_map(|action| match action
        {
            FaultAction::Fail(kind) => Some(kind),
            _ => None,
        })
    }

    /// Counts an operation without bytes; fails it if a fault says so.
    fn pass(&self, operation: Operation, name: &str) -> Result<()> {
        let failed = self.struck(operation, name);
        failed.map_or(Ok(()), |kind| Err(self.error(operation, name, kind)))
    }

    fn appender(&self, name: &str, at: u64) -> Result<FaultyAppender> {
        self.pass(Operation::Create, name)?;
        let inner = self.inner.append(name, at)?;
        Ok(FaultyAppender { inner, backend: self.clone(), name: name.to_string() })
    }

    fn error(&self, operation: Operation, name: &str, kind: io::ErrorKind) -> StoreError {
        let (place, name) = (self.inner.place(), name.to_owned());
        StoreError::Io { op: operation, place, name, source: kind.into() }
    }
}

impl Backend for Struck {
    kiln_store::forward_backend!(inner: place capabilities);

    fn each_name(&self, see: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
        self.pass(Operation::List, "")?;
        self.inner.each_name(see)
    }

    fn open(&self, name: &str) -> Result<Box<dyn ReadAt>> {
        self.pass(Operation::Open, name)?;
        let inner = self.inner.open(name)?;
        Ok(Box::new(FaultyReader { inner, backend: self.clone(), name: name.to_string() }))
    }

    fn append(&self, name: &str, at: u64) -> Result<Box<dyn Append>> {
        Ok(Box::new(self.appender(name, at)?))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.pass(Operation::Rename, from)?;
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.pass(Operation::Remove, name)?;
        self.inner.remove(name)
    }

    fn extensions(&self) -> Extensions<'_> {
        let inner = self.inner.extensions();
        Extensions {
            objects: Some(self),
            create_new: Some(self),
            batch: self.faults.batches().then_some(self),
            locks: self.faults.lock_token().map_or(inner.locks, |_| Some(self)),
            logs: Some(self),
            info: Some(self),
            ..inner
        }
    }
}

impl Objects for Struck {
    /// Each step can fail in places where files are made by a rename.
    fn create<'a>(&'a self, file: &NewFile<'_>) -> Result<Box<dyn Upload + 'a>> {
        if self.capabilities().has(Capability::Append) {
            return by_rename(self, file);
        }
        self.pass(Operation::Create, file.name)?;
        let inner = Some(self.inner.create(file)?);
        let (backend, name) = (self.clone(), file.name.to_string());
        Ok(Box::new(FaultyUpload { inner, backend, name, len: 0 }))
    }

    fn write_once(&self, name: &str) -> Result<Box<dyn Append>> {
        self.pass(Operation::Create, name)?;
        let inner = self.inner.write_once(name)?;
        Ok(Box::new(FaultyAppender { inner, backend: self.clone(), name: name.to_string() }))
    }

    fn copy(&self, from: &str, to: &str) -> Result<()> {
        self.pass(Operation::Rename, from)?;
        self.inner.copy(from, to)
    }
}

impl CreateNew for Struck {
    fn rename_new(&self, from: &str, to: &str) -> Result<()> {
        self.pass(Operation::Rename, from)?;
        self.inner.rename_new(from, to)
    }
}

impl Struck {
    /// Makes durable what was done without a sync, by one for all of it: before it nothing is
    /// durable, and where it fails nothing is.
    fn sync_once<T>(
        &self,
        done: Vec<Result<T>>,
        sync: impl Fn(T) -> Result<()>,
    ) -> Vec<Result<()>> {
        let failed = self.struck(Operation::Sync, "");
        let end = |done: Result<T>| match failed {
            Some(kind) => done.and_then(|_| Err(self.error(Operation::Sync, "", kind))),
            None => done.and_then(&sync),
        };
        done.into_iter().map(end).collect()
    }
}

impl BatchFiles for Struck {
    fn write_all(&self, files: &[(&str, &[u8])]) -> Vec<Result<()>> {
        let write = |(name, bytes): &(&str, &[u8])| {
            let mut file = self.appender(name, 0)?;
            file.append(bytes)?;
            Ok(file)
        };
        self.sync_once(files.iter().map(write).collect(), |mut file| file.inner.sync())
    }

    fn rename_all(&self, names: &[(&str, &str)]) -> Vec<Result<()>> {
        let Some(memory) = self.faults.names() else {
            return names.iter().map(|(from, to)| self.rename(from, to)).collect();
        };
        let rename = |(from, to): &(&str, &str)| {
            self.pass(Operation::Rename, from)?;
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

impl Locks for Struck {
    fn lock(&self, wait: bool) -> Result<Option<WriteLock>> {
        let held = self.inner.lock(wait)?;
        Ok(held.map(|held| WriteLock::on((held, self.faults.lock_token()))))
    }
}

impl Logs for Struck {
    fn create_log(&self, name: &str, size: u64) -> Result<Box<dyn LogFile>> {
        self.pass(Operation::Create, name)?;
        let inner = self.inner.create_log(name, size)?;
        Ok(Box::new(FaultyLog { inner, backend: self.clone(), name: name.to_string() }))
    }

    fn close_log(&self, name: &str, to: &str, force: bool) -> Result<()> {
        self.pass(Operation::Rename, name)?;
        self.inner.close_log(name, to, force)
    }
}

impl PlaceInfo for Struck {
    fn modified(&self, name: &str) -> Result<Option<u64>> {
        self.inner.modified(name)
    }

    /// With a limit there is as much room as it leaves.
    fn space(&self) -> Result<Option<Space>> {
        let limit = self.faults.space();
        let limited = limit.map(|free| Space { total: free, free });
        Ok(limited.or(self.inner.space()?))
    }
}

struct FaultyReader {
    inner: Box<dyn ReadAt>,
    backend: Struck,
    name: String,
}

impl ReadAt for FaultyReader {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let operation = Operation::Read;
        let access = Access { operation, name: &self.name, offset, len: buf.len() };
        let struck = self.backend.faults.strike(&access);
        self.inner.read_at(offset, buf)?;
        for action in struck {
            match action {
                FaultAction::Fail(kind) => {
                    return Err(self.backend.error(operation, &self.name, kind));
                }
                FaultAction::Flip { offset: at, mask } => buf[(at - offset) as usize] ^= mask,
                FaultAction::Torn { .. } | FaultAction::Hang => {}
            }
        }
        Ok(())
    }

    fn tag(&self) -> Option<Tag> {
        self.inner.tag()
    }

    fn next_data(&self, offset: u64) -> Option<u64> {
        self.inner.next_data(offset)
    }
}

struct FaultyAppender {
    inner: Box<dyn Append>,
    backend: Struck,
    name: String,
}

/// Writes at the end of a file of `offset` bytes, as the faults have it.
fn faulty_write(
    backend: &Struck,
    name: &str,
    offset: u64,
    bytes: &[u8],
    write: &mut dyn FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let operation = Operation::Write;
    let mut bytes = bytes.to_vec();
    for action in backend.faults.strike(&Access { operation, name, offset, len: bytes.len() }) {
        match action {
            FaultAction::Fail(kind) => return Err(backend.error(operation, name, kind)),
            FaultAction::Flip { offset: at, mask } => bytes[(at - offset) as usize] ^= mask,
            FaultAction::Hang => {}
            FaultAction::Torn { keep, kind } => {
                write(&bytes[..keep.min(bytes.len())])?;
                return Err(backend.error(operation, name, kind));
            }
        }
    }
    let fits = backend.faults.take_space(bytes.len());
    write(&bytes[..fits])?;
    match fits < bytes.len() {
        true => Err(backend.error(operation, name, io::ErrorKind::StorageFull)),
        false => Ok(()),
    }
}

impl Append for FaultyAppender {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let (offset, inner) = (self.inner.len(), &mut self.inner);
        faulty_write(&self.backend, &self.name, offset, bytes, &mut |piece| inner.append(piece))
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn drop_behind(&mut self) {
        self.inner.drop_behind();
    }

    fn sync(&mut self) -> Result<()> {
        self.backend.pass(Operation::Sync, &self.name)?;
        self.inner.sync()
    }

    fn complete(&mut self) -> Result<()> {
        if self.backend.capabilities().has(Capability::Append) {
            return self.sync();
        }
        self.backend.pass(Operation::Complete, &self.name)?;
        self.inner.complete()
    }
}

struct FaultyLog {
    inner: Box<dyn LogFile>,
    backend: Struck,
    name: String,
}

impl LogFile for FaultyLog {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let inner = &mut self.inner;
        faulty_write(&self.backend, &self.name, offset, bytes, &mut |piece| {
            inner.write_at(offset, piece)
        })
    }

    fn sync(&mut self) -> Result<()> {
        self.backend.pass(Operation::Sync, &self.name)?;
        self.inner.sync()
    }
}

struct FaultyUpload<'a> {
    /// `None` once something failed.
    inner: Option<Box<dyn Upload + 'a>>,
    backend: Struck,
    name: String,
    len: u64,
}

/// The upload that failures are put before.
type Inner<'a> = Box<dyn Upload + 'a>;

impl<'a> FaultyUpload<'a> {
    /// After a failure nothing may go on as if it had been none.
    fn step(
        &mut self,
        act: impl FnOnce(&Struck, &str, Inner<'a>) -> Result<Inner<'a>>,
    ) -> Result<()> {
        let broken = || {
            let (name, what) = (self.name.clone(), "an earlier call failed".to_owned());
            StoreError::Misuse { op: "write", name, what }
        };
        let inner = self.inner.take().ok_or_else(broken)?;
        self.inner = Some(act(&self.backend, &self.name, inner)?);
        Ok(())
    }
}

impl Upload for FaultyUpload<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let offset = self.len;
        self.len += bytes.len() as u64;
        self.step(|backend, name, mut inner| {
            faulty_write(backend, name, offset, bytes, &mut |piece| inner.write(piece))?;
            Ok(inner)
        })
    }

    fn sync(&mut self) -> Result<()> {
        self.step(|backend, name, mut inner| {
            backend.pass(Operation::Sync, name)?;
            inner.sync()?;
            Ok(inner)
        })
    }

    fn complete(mut self: Box<Self>) -> Result<()> {
        self.step(|backend, name, inner| {
            backend.pass(Operation::Complete, name)?;
            Ok(inner)
        })?;
        self.inner.take().map_or(Ok(()), |inner| inner.complete())
    }
}
