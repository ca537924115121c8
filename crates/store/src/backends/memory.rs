//! Memory of this process, with the power cuts of a disk.
//!
//! It keeps apart what was written and what was synced, for file contents and for names alike,
//! so that a test can look at the image a crash would leave.

use std::collections::{BTreeMap, BTreeSet};
use std::{io, sync::Arc};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::extensions::{CreateNew, Extensions, Locks, Logs};
use super::open_file::{Append, ReadAt};
use super::place::{BackendKind, Location, Opening};
use super::{Backend, check_name, check_range, lock::WriteLock, log::LogFile};
use crate::capability::{Capabilities, Capability};
use crate::{Operation, Result, StoreError, random::SplitMix64};

/// A crash keeps or loses unsynced bytes in units of this many bytes.
const SECTOR: usize = 512;
const PLACE: &str = "memory";

/// The row of places in memory.
pub(super) struct Memories;

impl BackendKind for Memories {
    fn examples(&self) -> &'static [&'static str] {
        &["memory://name"]
    }

    fn about(&self) -> &'static str {
        "memory of this process, for tests: gone when it ends"
    }

    fn open(&self, _: &Location<'_>, _: Opening) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(MemoryBackend::new()))
    }
}

/// Files in memory; clones share them.
#[derive(Debug, Clone, Default)]
pub struct MemoryBackend {
    names: Arc<Mutex<Names>>,
    /// True if somebody holds the write lock, and how those that wait hear of its end.
    locked: Arc<(Mutex<bool>, Condvar)>,
    /// Logs that have a writer.
    written: Arc<Mutex<BTreeSet<String>>>,
}

/// Held by the one that may write.
#[derive(Debug)]
struct MemoryLock(Arc<(Mutex<bool>, Condvar)>);

impl Drop for MemoryLock {
    fn drop(&mut self) {
        *self.0.0.lock() = false;
        self.0.1.notify_one();
    }
}

type Shared = Arc<Mutex<Contents>>;

/// The names as processes see them, and as a crash would leave them.
#[derive(Debug, Default)]
struct Names {
    live: BTreeMap<String, Shared>,
    durable: BTreeMap<String, Shared>,
}

impl Names {
    fn sync(&mut self) {
        self.durable = self.live.clone();
    }
}

/// A file's bytes as processes see them, and as of the last sync.
#[derive(Debug, Default)]
struct Contents {
    live: Vec<u8>,
    synced: Vec<u8>,
}

impl MemoryBackend {
    /// An empty place.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the disk after a power cut now: all that was synced, and a part (chosen by
    /// `seed`) of what was not. `self` stays as it is, so one state gives many images.
    ///
    /// A new name not yet made durable may vanish; of unsynced bytes any 512-byte sector may be
    /// missing, read as zeros, and the file may end early.
    pub fn crash(&self, seed: u64) -> MemoryBackend {
        let mut random = SplitMix64(seed);
        let names = self.names.lock();
        let image = MemoryBackend::new();
        for name in names.live.keys().chain(names.durable.keys()) {
            let (live, durable) = (names.live.get(name), names.durable.get(name));
            let same = matches!((live, durable), (Some(a), Some(b)) if Arc::ptr_eq(a, b));
            let keep_live = same || random.next().is_multiple_of(2);
            if let Some(file) = if keep_live { live } else { durable } {
                image.put(name, file.lock().crash(&mut random));
            }
        }
        image
    }

    /// A file's bytes, if it exists.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.names.lock().live.get(name).map(|file| file.lock().live.clone())
    }

    /// As [`Backend::rename`], but a power cut may undo it before [`MemoryBackend::sync_names`]:
    /// between the two is where a disk is that shares one sync among many names.
    pub fn rename_unsynced(&self, from: &str, to: &str) -> Result<()> {
        self.rename_if(from, to, true).map(drop)
    }

    /// Makes all names durable.
    pub fn sync_names(&self) {
        self.names.lock().sync();
    }

    /// Sets a file's bytes, durably, creating it if absent.
    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        let file = Arc::new(Mutex::new(Contents { live: bytes.clone(), synced: bytes }));
        let mut names = self.names.lock();
        names.live.insert(name.to_string(), Arc::clone(&file));
        names.durable.insert(name.to_string(), file);
    }
}

impl Contents {
    fn crash(&self, random: &mut SplitMix64) -> Vec<u8> {
        let (live, synced) = (self.live.len(), self.synced.len());
        let (least, most) = (live.min(synced), live.max(synced));
        let len = least + (random.next() % (most - least + 1) as u64) as usize;
        let mut bytes = self.synced[..synced.min(len)].to_vec();
        bytes.resize(len, 0);
        for start in (0..len.min(live)).step_by(SECTOR) {
            let end = (start + SECTOR).min(len).min(live);
            if random.next().is_multiple_of(2) {
                bytes[start..end].copy_from_slice(&self.live[start..end]);
            }
        }
        bytes
    }
}

fn not_found(op: Operation, name: &str) -> StoreError {
    StoreError::io(op, PLACE, name, io::ErrorKind::NotFound.into())
}

impl Backend for MemoryBackend {
    fn place(&self) -> String {
        PLACE.to_string()
    }

    fn capabilities(&self) -> Capabilities {
        use Capability::{CreateIfAbsent, KeepOpen, Log};
        Capabilities::FILES.and(&[CreateIfAbsent, Log, KeepOpen])
    }

    fn list(&self) -> Result<Vec<String>> {
        Ok(self.names.lock().live.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> Result<Box<dyn ReadAt>> {
        check_name(name)?;
        let names = self.names.lock();
        let file = names.live.get(name).ok_or_else(|| not_found(Operation::Open, name))?;
        let len = file.lock().live.len() as u64;
        Ok(Box::new(MemoryReader { file: Arc::clone(file), len, name: name.to_string() }))
    }

    fn append(&self, name: &str, at: u64) -> Result<Box<dyn Append>> {
        check_name(name)?;
        let mut names = self.names.lock();
        let file = Arc::clone(names.live.entry(name.to_string()).or_default());
        {
            let mut contents = file.lock();
            check_range(PLACE, name, at, 0, contents.live.len() as u64)?;
            contents.live.truncate(at as usize);
        }
        Ok(Box::new(MemoryAppender { file, len: at }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.rename_if(from, to, true).map(|mut names| names.sync())
    }

    fn remove(&self, name: &str) -> Result<()> {
        check_name(name)?;
        let mut names = self.names.lock();
        if names.live.remove(name).is_some() {
            names.sync();
        }
        Ok(())
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions {
            create_new: Some(self),
            locks: Some(self),
            logs: Some(self),
            ..Extensions::default()
        }
    }
}

impl CreateNew for MemoryBackend {
    fn rename_new(&self, from: &str, to: &str) -> Result<()> {
        self.rename_if(from, to, false).map(|mut names| names.sync())
    }
}

impl Locks for MemoryBackend {
    fn lock(&self, wait: bool) -> Result<Option<WriteLock>> {
        let (flag, freed) = &*self.locked;
        let mut locked = flag.lock();
        while *locked {
            if !wait {
                return Ok(None);
            }
            freed.wait(&mut locked);
        }
        *locked = true;
        Ok(Some(WriteLock::on(MemoryLock(self.locked.clone()))))
    }
}

impl Logs for MemoryBackend {
    fn create_log(&self, name: &str, size: u64) -> Result<Box<dyn LogFile>> {
        check_name(name)?;
        let mut names = self.names.lock();
        if names.live.contains_key(name) {
            let exists = io::ErrorKind::AlreadyExists.into();
            return Err(StoreError::io(Operation::Create, PLACE, name, exists));
        }
        let zeros = vec![0; size as usize];
        let file = Arc::new(Mutex::new(Contents { live: zeros.clone(), synced: zeros }));
        names.live.insert(name.to_owned(), Arc::clone(&file));
        names.sync();
        drop(names);
        self.written.lock().insert(name.to_owned());
        Ok(Box::new(MemoryLog { disk: self.clone(), file, len: size, name: name.to_owned() }))
    }

    fn close_log(&self, name: &str, to: &str, force: bool) -> Result<()> {
        let there = self.names.lock().live.contains_key(name);
        if !force && there && self.written.lock().contains(name) {
            let (place, name) = (PLACE.to_owned(), name.to_owned());
            return Err(StoreError::InUse { place, name, holder: None });
        }
        match self.rename(name, to) {
            Err(error) if error.is_not_found() && self.names.lock().live.contains_key(to) => Ok(()),
            end => end,
        }
    }
}

impl MemoryBackend {
    /// Gives a file another name, which is not durable yet.
    fn rename_if(&self, from: &str, to: &str, replace: bool) -> Result<MutexGuard<'_, Names>> {
        check_name(from)?;
        check_name(to)?;
        let mut names = self.names.lock();
        if !replace && names.live.contains_key(to) {
            let exists = io::ErrorKind::AlreadyExists.into();
            return Err(StoreError::io(Operation::Rename, PLACE, from, exists));
        }
        let file = names.live.remove(from).ok_or_else(|| not_found(Operation::Rename, from))?;
        names.live.insert(to.to_string(), file);
        Ok(names)
    }
}

struct MemoryLog {
    disk: MemoryBackend,
    file: Shared,
    len: u64,
    name: String,
}

impl Drop for MemoryLog {
    fn drop(&mut self) {
        self.disk.written.lock().remove(&self.name);
    }
}

impl LogFile for MemoryLog {
    fn len(&self) -> u64 {
        self.len
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        check_range(PLACE, &self.name, offset, bytes.len(), self.len)?;
        let start = offset as usize;
        self.file.lock().live[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        let names = self.disk.names.lock();
        if !names.live.get(&self.name).is_some_and(|named| Arc::ptr_eq(named, &self.file)) {
            return Err(StoreError::Fenced { place: PLACE.to_owned(), name: self.name.clone() });
        }
        let mut contents = self.file.lock();
        contents.synced = contents.live.clone();
        Ok(())
    }
}

struct MemoryReader {
    file: Shared,
    len: u64,
    name: String,
}

impl ReadAt for MemoryReader {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let contents = self.file.lock();
        // The file may have been cut since it was opened.
        let have = self.len.min(contents.live.len() as u64);
        check_range(PLACE, &self.name, offset, buf.len(), have)?;
        let start = offset as usize;
        buf.copy_from_slice(&contents.live[start..start + buf.len()]);
        Ok(())
    }
}

struct MemoryAppender {
    file: Shared,
    len: u64,
}

impl Append for MemoryAppender {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        // Where this one is, as files do it: two that write the same to one file do no harm.
        let (mut contents, start) = (self.file.lock(), self.len as usize);
        let end = start + bytes.len();
        let longer = contents.live.len().max(end);
        contents.live.resize(longer, 0);
        contents.live[start..end].copy_from_slice(bytes);
        self.len = end as u64;
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn sync(&mut self) -> Result<()> {
        let mut contents = self.file.lock();
        contents.synced = contents.live.clone();
        Ok(())
    }
}
