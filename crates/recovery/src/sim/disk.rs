//! A simulated host's disk: memory with the ways in which disks go wrong.

use kiln_testkit::Random;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{collections::BTreeMap, io::ErrorKind};

use kiln_store::{
    Append, Backend, Extensions, LogFile, Logs, MemoryBackend, Operation, ReadAt, Result,
    StoreError,
};

/// Health of a disk; everything can change while it is used.
#[derive(Debug)]
pub(super) struct Health {
    /// Bytes that can still be written.
    space: AtomicU64,
    /// Jobs of a thousand that fail.
    errors: AtomicU64,
    /// Jobs take so many times longer.
    slowness: AtomicU64,
    /// It says that bytes are durable which are not, and now and then returns others.
    lies: AtomicBool,
    random: Mutex<Random>,
    /// Files whose bytes were another's, by kind.
    wrong: Mutex<BTreeMap<String, u64>>,
}

/// Kinds of files, by the ends of their names.
const KINDS: [&str; 3] = [".manifest", ".kiln", "kiln-pool.toml"];

fn kind(name: &str) -> Option<&'static str> {
    KINDS.into_iter().find(|end| name.ends_with(end))
}

/// Another file than this one, of its kind more often than of others; `None`: it is a file that
/// always is where it belongs, or the only one.
pub(super) fn elsewhere(disk: &MemoryBackend, name: &str, random: &mut Random) -> Option<String> {
    let mut others = disk.list().unwrap_or_default();
    let of = kind(name)?;
    let same = others.iter().filter(|other| kind(other) == Some(of)).count() > 1;
    let same = same && !random.one_in(4);
    others.retain(|other| other != name && kind(other).is_some_and(|kind| !same || kind == of));
    let at = random.below(others.len().max(1) as u64) as usize;
    others.into_iter().nth(at)
}

impl Default for Health {
    fn default() -> Health {
        Health {
            space: AtomicU64::new(u64::MAX),
            errors: AtomicU64::new(0),
            slowness: AtomicU64::new(1),
            lies: AtomicBool::new(false),
            random: Mutex::new(Random(0)),
            wrong: Mutex::default(),
        }
    }
}

impl Health {
    pub fn limit_space(&self, bytes: u64) {
        self.space.store(bytes, Ordering::Relaxed);
    }

    pub fn fail(&self, per_mille: u64) {
        self.errors.store(per_mille, Ordering::Relaxed);
    }

    pub fn slow_down(&self, factor: u64) {
        self.slowness.store(factor, Ordering::Relaxed);
    }

    pub fn lie(&self, seed: u64) {
        *self.random.lock().unwrap_or_else(PoisonError::into_inner) = Random(seed);
        self.lies.store(true, Ordering::Relaxed);
    }

    /// From now on it does what it should.
    pub fn heal(&self) {
        self.limit_space(u64::MAX);
        self.fail(0);
        self.slow_down(1);
        self.lies.store(false, Ordering::Relaxed);
    }

    pub fn errors_per_mille(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    pub fn slowness(&self) -> u64 {
        self.slowness.load(Ordering::Relaxed)
    }

    pub fn lies(&self) -> bool {
        self.lies.load(Ordering::Relaxed)
    }

    /// Takes up room; how much of it there was.
    fn take(&self, bytes: u64) -> u64 {
        let space = self.space.load(Ordering::Relaxed);
        let fits = bytes.min(space);
        if space != u64::MAX {
            self.space.store(space - fits, Ordering::Relaxed);
        }
        fits
    }

    /// Notes that a file's bytes were another's.
    pub fn went_wrong(&self, how: &str, name: &str) {
        let what = format!("{how} {}", kind(name).unwrap_or("other"));
        *self.wrong().entry(what).or_default() += 1;
    }

    pub fn wrong(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.wrong.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A disk that now and then opens another file.
    fn misread(&self, disk: &MemoryBackend, name: &str) -> Option<String> {
        if !self.lies() || kind(name).is_none() {
            return None;
        }
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let other = random.one_in(32).then(|| elsewhere(disk, name, &mut random))??;
        if disk.bytes(name)? != disk.bytes(&other)? {
            self.went_wrong("misread", name);
        }
        Some(other)
    }

    /// A disk that now and then reads elsewhere in the file, at `last` at most.
    fn misdirect(&self, offset: u64, last: u64) -> u64 {
        if !self.lies() {
            return offset;
        }
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        if random.below(16) == 0 { random.below(last + 1) } else { offset }
    }

    /// A disk that returns wrong data: every eighth read has a flipped bit.
    fn distort(&self, bytes: &mut [u8]) {
        if !self.lies() || bytes.is_empty() {
            return;
        }
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        if random.below(8) == 0 {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << random.below(8);
        }
    }
}

/// The disk as its agent sees it.
#[derive(Debug)]
pub(super) struct SimDisk {
    memory: MemoryBackend,
    health: Arc<Health>,
}

impl SimDisk {
    pub fn new(memory: MemoryBackend, health: Arc<Health>) -> SimDisk {
        SimDisk { memory, health }
    }
}

impl Backend for SimDisk {
    kiln_store::forward_backend!(memory: place capabilities list rename remove);

    fn open(&self, name: &str) -> Result<Box<dyn ReadAt>> {
        let other = self.health.misread(&self.memory, name);
        let inner = self.memory.open(other.as_deref().unwrap_or(name))?;
        Ok(Box::new(SimFile { inner, health: Arc::clone(&self.health), name: name.to_owned() }))
    }

    fn append(&self, name: &str, at: u64) -> Result<Box<dyn Append>> {
        let inner = self.memory.append(name, at)?;
        Ok(Box::new(SimFile { inner, health: Arc::clone(&self.health), name: name.to_owned() }))
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions { logs: Some(self), ..self.memory.extensions() }
    }
}

impl Logs for SimDisk {
    fn create_log(&self, name: &str, size: u64) -> Result<Box<dyn LogFile>> {
        if self.health.take(size) < size {
            return Err(full(name));
        }
        let inner = self.memory.create_log(name, size)?;
        Ok(Box::new(SimFile { inner, health: Arc::clone(&self.health), name: name.to_owned() }))
    }

    fn close_log(&self, name: &str, to: &str, force: bool) -> Result<()> {
        self.memory.close_log(name, to, force)
    }
}

fn full(name: &str) -> StoreError {
    let (place, name, source) = ("a disk".into(), name.into(), ErrorKind::StorageFull.into());
    StoreError::Io { op: Operation::Write, place, name, source }
}

struct SimFile<F> {
    inner: F,
    health: Arc<Health>,
    name: String,
}

impl ReadAt for SimFile<Box<dyn ReadAt>> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let from = self.health.misdirect(offset, self.inner.len().saturating_sub(buf.len() as u64));
        self.inner.read_at(from, buf)?;
        self.health.distort(buf);
        Ok(())
    }
}

impl Append for SimFile<Box<dyn Append>> {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let fits = self.health.take(bytes.len() as u64);
        self.inner.append(&bytes[..fits as usize])?;
        if fits < bytes.len() as u64 { Err(full(&self.name)) } else { Ok(()) }
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn sync(&mut self) -> Result<()> {
        if self.health.lies() { Ok(()) } else { self.inner.sync() }
    }
}

impl LogFile for SimFile<Box<dyn LogFile>> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.inner.write_at(offset, bytes)
    }

    fn sync(&mut self) -> Result<()> {
        self.inner.sync()
    }
}
