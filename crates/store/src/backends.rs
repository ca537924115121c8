//! Where shards live: the [`Backend`] contract and the table of its implementations.
//!
//! The contract is small on purpose: append-only writing, random reading, atomic rename; and whole
//! files, for places that can do no more. Each place says what it can do ([`Capabilities`]). Every
//! row of [`place::BACKENDS`] passes the same battery of tests.

pub mod capability;
pub mod direct;
pub(crate) mod file_system;
mod holder;
pub mod log;
mod file_log;
pub mod pack;
pub mod space;
pub mod upload;
pub mod faulty;
pub mod paced;
pub mod staged;
pub mod file;
pub mod memory;
pub mod place;

#[cfg(any(test, feature = "battery"))]
pub mod battery;
#[cfg(any(test, feature = "battery"))]
pub mod bucket;

use std::fmt::Debug;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use self::capability::{Capabilities, Capability};
use self::log::LogFile;
use self::space::Space;
use self::upload::{NewFile, Tag, Upload};
use crate::{Result, StoreError};

/// How long it is at most until a lock that another one holds is tried again.
pub const LOCK_RETRY: Duration = Duration::from_millis(50);

/// How long to wait before a lock is tried again that was waited for so long: the more the longer,
/// as most are held for some milliseconds.
///
/// ```
/// # use std::time::Duration;
/// # use kiln_store::{LOCK_RETRY, lock_pause};
/// assert_eq!(lock_pause(Duration::ZERO), Duration::from_millis(1));
/// assert_eq!(lock_pause(Duration::from_secs(9)), LOCK_RETRY);
/// ```
pub fn lock_pause(waited: Duration) -> Duration {
    (waited / 4).clamp(Duration::from_millis(1), LOCK_RETRY)
}

/// Longest file name in bytes that backends accept (the limit of common file systems).
pub const MAX_NAME: usize = 255;

/// A flat set of named files: a folder, a bucket, a test's memory.
///
/// Names are plain (see [`check_name`]); every method refuses others with
/// [`StoreError::BadName`].
///
/// ```
/// use kiln_store::{Backend, MemoryBackend};
/// let disk = MemoryBackend::new();
/// let mut file = disk.append("a.part", 0)?;
/// file.append(b"bytes")?;
/// file.sync()?;
/// disk.rename("a.part", "a")?;
/// assert_eq!(disk.list()?, ["a"]);
/// # Ok::<(), kiln_store::StoreError>(())
/// ```
pub trait Backend: Send + Sync + Debug {
    /// The place for messages, for example the folder's path.
    fn place(&self) -> String;

    /// What it can do. Whoever needs something asks before a byte moves
    /// ([`Capabilities::require`]); methods that a place does not have answer
    /// [`StoreError::Incapable`].
    fn capabilities(&self) -> Capabilities;

    /// Names of the regular files here, sorted; sub-folders are not entered.
    fn list(&self) -> Result<Vec<String>>;

    /// Shows every name that [`Backend::list`] would give, in no order, and stops at the first
    /// error of `see`. For places with millions of files: a backend that can do it without
    /// holding all names in memory has its own.
    fn each_name(&self, see: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
        self.list()?.iter().try_for_each(|name| see(name))
    }

    /// Which of many files are not here, told by one look at the whole place; `None` where asking
    /// for each is no dearer, or where the place cannot tell. Nobody may change names meanwhile.
    ///
    /// ```
    /// use kiln_store::{Backend, FileBackend};
    /// # let folder = tempfile::tempdir()?;
    /// let disk = FileBackend::open(folder.path())?;
    /// let names: Vec<String> = (0..500).map(|at| format!("{at}.manifest")).collect();
    /// assert_eq!(disk.absent(&names), Some(vec![true; 500]));
    /// assert_eq!(disk.absent(&names[..1]), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn absent(&self, names: &[String]) -> Option<Vec<bool>> {
        let _ = names;
        None
    }

    /// Opens a file for reading; one that is absent gives an error with `is_not_found()`.
    fn open(&self, name: &str) -> Result<Box<dyn ReadAt>>;

    /// Opens a file for appending at `at` bytes: creates it if absent, cuts it if longer, and
    /// refuses it ([`StoreError::Truncated`]) if shorter. For files that are gone on with after
    /// an interruption; others are better made by [`Backend::create`]. Needs
    /// [`Capability::Append`].
    fn append(&self, name: &str, at: u64) -> Result<Box<dyn Append>> {
        let _ = at;
        Err(self.incapable(Capability::Append, &format!("writing {name:?}")))
    }

    /// Renames a file, replacing the target, atomically; durable when it returns. Needs
    /// [`Capability::Rename`].
    ///
    /// The file's bytes are durable only if they were [`Append::sync`]ed before.
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let _ = from;
        Err(self.incapable(Capability::Rename, &format!("naming a file {to:?}")))
    }

    /// Begins a file that is written from its start to its end, and never gone on with:
    /// [`Append::complete`] ends it. By itself this is [`Backend::append`] at 0. A place without
    /// [`Capability::Append`] shows the file when it is completed, whole; what is dropped before
    /// leaves what has the name as it is.
    ///
    /// ```
    /// use kiln_store::{Append, Backend, MemoryBackend};
    /// let disk = MemoryBackend::new();
    /// let mut file = disk.write_once("a")?;
    /// file.append(b"bytes")?;
    /// file.complete()?;
    /// assert_eq!(disk.bytes("a").unwrap(), b"bytes");
    /// # Ok::<(), kiln_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Backend::append`].
    fn write_once(&self, name: &str) -> Result<Box<dyn Append>> {
        self.append(name, 0)
    }

    /// Makes a copy of a file under another name, replacing what has it, atomically; durable when
    /// it returns. The bytes do not leave the place. Needs [`Capability::Copy`].
    fn copy(&self, from: &str, to: &str) -> Result<()> {
        let _ = from;
        Err(self.incapable(Capability::Copy, &format!("copying to {to:?}")))
    }

    /// When a file was written, in ms since 1970 by the place's clock; `None`: the place cannot
    /// tell. For decisions of hours and days.
    ///
    /// # Errors
    /// The file is absent, or the place cannot be asked.
    fn modified(&self, name: &str) -> Result<Option<u64>> {
        let _ = name;
        Ok(None)
    }

    /// Removes a file; durable when it returns. Removing an absent file is success.
    fn remove(&self, name: &str) -> Result<()>;

    /// Writes small files whole, over whatever has their names, with an answer for each: the bytes
    /// of those that were written are durable when it returns. Their names are not, before
    /// [`Backend::rename_all`] gives them others, and until then others who have the place open
    /// need not see them. A place that can make many files durable at once has its own. Needs
    /// [`Capability::Append`].
    ///
    /// ```
    /// use kiln_store::{Backend, MemoryBackend};
    /// let disk = MemoryBackend::new();
    /// let ends = disk.write_all(&[("a.part", b"some bytes"), ("../a", b"none")]);
    /// assert!(ends[0].is_ok() && ends[1].is_err());
    /// assert_eq!(disk.bytes("a.part").unwrap(), b"some bytes");
    /// # Ok::<(), kiln_store::StoreError>(())
    /// ```
    fn write_all(&self, files: &[(&str, &[u8])]) -> Vec<Result<()>> {
        let write = |(name, bytes): &(&str, &[u8])| {
            let mut file = self.append(name, 0)?;
            file.append(bytes)?;
            file.sync()
        };
        files.iter().map(write).collect()
    }

    /// As [`Backend::rename`] for many files, one after the other, with an answer for each; those
    /// that were renamed are durable when it returns. A place that can make several names durable
    /// at once has its own.
    ///
    /// ```
    /// use kiln_store::{Backend, MemoryBackend};
    /// let disk = MemoryBackend::new();
    /// disk.append("a.part", 0)?.append(b"bytes")?;
    /// let ends = disk.rename_all(&[("a.part", "a"), ("b.part", "b")]);
    /// assert!(ends[0].is_ok() && ends[1].is_err());
    /// assert_eq!(disk.list()?, ["a"]);
    /// # Ok::<(), kiln_store::StoreError>(())
    /// ```
    fn rename_all(&self, names: &[(&str, &str)]) -> Vec<Result<()>> {
        names.iter().map(|(from, to)| self.rename(from, to)).collect()
    }

    /// As [`Backend::remove`] for many files, with an answer for each.
    ///
    /// ```
    /// use kiln_store::{Backend, MemoryBackend};
    /// let disk = MemoryBackend::new();
    /// disk.append("a", 0)?.append(b"bytes")?;
    /// assert!(disk.remove_all(&["a", "never there"]).iter().all(|end| end.is_ok()));
    /// assert!(disk.list()?.is_empty());
    /// # Ok::<(), kiln_store::StoreError>(())
    /// ```
    fn remove_all(&self, names: &[&str]) -> Vec<Result<()>> {
        names.iter().map(|name| self.remove(name)).collect()
    }

    /// Gives space back that files which are gone still take, where they shared it with others that
    /// are not; the bytes given back, about. The caller keeps other writers out.
    ///
    /// ```
    /// use kiln_store::{Backend, MemoryBackend};
    /// assert_eq!(MemoryBackend::new().compact()?, 0);
    /// # Ok::<(), kiln_store::StoreError>(())
    /// ```
    fn compact(&self) -> Result<u64> {
        Ok(0)
    }

    /// Where a file's bytes are, for places whose server may move them without being asked.
    ///
    /// ```
    /// use kiln_store::{Backend, MemoryBackend, Whereabouts};
    /// assert_eq!(MemoryBackend::new().whereabouts("a")?, Whereabouts::Unasked);
    /// # Ok::<(), kiln_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// The server cannot say.
    fn whereabouts(&self, name: &str) -> Result<Whereabouts> {
        let _ = name;
        Ok(Whereabouts::Unasked)
    }

    /// Copies a file to a new name, its bytes where this place's belong, and reads the copy back.
    /// With a rename, under the place's lock, it takes the place of the one that was moved away.
    /// For places that answer [`Backend::whereabouts`].
    ///
    /// # Errors
    /// [`StoreError::Incapable`]: no server of this place moves files. The bytes cannot be read,
    /// or not be written there. What is at the new name then is of no use.
    fn copy_home(&self, from: &str, to: &str) -> Result<()> {
        let _ = from;
        Err(self.incapable(Capability::Copy, &format!("copying to {to:?}")))
    }

    /// As [`Backend::rename`], but fails where `to` is there already, with an error that is
    /// [`StoreError::is_exists`]. Of several at once one succeeds. For [`Backend::create`] in
    /// places that have [`Capability::CreateIfAbsent`].
    fn rename_new(&self, from: &str, to: &str) -> Result<()> {
        let _ = from;
        Err(self.incapable(Capability::CreateIfAbsent, &format!("a new file {to:?}")))
    }

    /// Begins a file that appears under its name whole and durable, or not at all: the form of
    /// writing that every place has, object stores included.
    ///
    /// By itself this method appends to a part, syncs and renames it.
    ///
    /// ```
    /// use kiln_store::{Backend, MemoryBackend, NewFile};
    /// let disk = MemoryBackend::new();
    /// let mut file = disk.create(&NewFile::named("a"))?;
    /// file.write(b"some ")?;
    /// file.write(b"bytes")?;
    /// assert!(disk.open("a").is_err());
    /// file.complete()?;
    /// assert_eq!(disk.bytes("a").unwrap(), b"some bytes");
    /// drop(disk.create(&NewFile::named("b"))?);
    /// assert_eq!(disk.list()?, ["a"]);
    /// # Ok::<(), kiln_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Incapable`] before anything is written, and those of [`Backend::append`].
    fn create<'a>(&'a self, file: &NewFile<'_>) -> Result<Box<dyn Upload + 'a>> {
        upload::by_rename(self, file)
    }

    /// Makes a log: a new file of `size` zero bytes that its one writer, and nobody else, writes in
    /// place; see [`LogFile`]. Its name is durable when this returns. Where there is a file of that
    /// name, the error is [`StoreError::is_exists`]. Needs [`Capability::Log`].
    ///
    /// ```
    /// use kiln_store::{Backend, MemoryBackend};
    /// let disk = MemoryBackend::new();
    /// let mut log = disk.create_log("a.log", 4096)?;
    /// log.write_at(512, b"record")?;
    /// log.sync()?;
    /// // Somebody takes over: what the first writer syncs from now on counts for nothing.
    /// assert!(disk.close_log("a.log", "a.closed", false).unwrap_err().is_in_use());
    /// disk.close_log("a.log", "a.closed", true)?;
    /// assert!(log.sync().unwrap_err().is_fenced());
    /// assert_eq!(&disk.bytes("a.closed").unwrap()[512..518], b"record");
    /// # Ok::<(), kiln_store::StoreError>(())
    /// ```
    fn create_log(&self, name: &str, size: u64) -> Result<Box<dyn LogFile>> {
        let _ = size;
        Err(self.incapable(Capability::Log, &format!("making the log {name:?}")))
    }

    /// Takes a log from its writer: it is called `to` from now on, durably, and no
    /// [`LogFile::sync`] of its writer succeeds any more. So whoever reads it afterwards reads all
    /// that was ever synced. A log that is called `to` already stays as it is. Needs
    /// [`Capability::Log`].
    ///
    /// # Errors
    /// [`StoreError::is_in_use`]: its writer lives, and `force` is not set.
    /// [`StoreError::is_not_found`]: there is none of either name.
    fn close_log(&self, name: &str, to: &str, force: bool) -> Result<()> {
        let _ = (to, force);
        Err(self.incapable(Capability::Log, &format!("closing the log {name:?}")))
    }

    /// Keeps other writers out of the place until the lock is dropped (or its process dies).
    /// Where another one holds it: waits for it, or gives `None` at once.
    ///
    /// Advisory: only those who ask are kept out.
    ///
    /// # Errors
    /// [`StoreError::Incapable`] where the place has no locks: no lock is granted that locks
    /// nothing.
    fn lock(&self, wait: bool) -> Result<Option<WriteLock>> {
        let _ = wait;
        Err(self.incapable(Capability::Lock, "writing to it"))
    }

    /// Asks for the lock as [`Backend::lock`] without waiting does, where the answer takes a while:
    /// so many places can be asked before the first of them has answered. `None`: it takes none.
    fn begin_lock(&self) -> Option<LockAnswer<'_>> {
        None
    }

    /// As [`Backend::lock`], waiting so long at most. By itself this method tries again and again;
    /// what it waits is counted by its pauses.
    ///
    /// ```
    /// use std::time::Duration;
    /// use kiln_store::{Backend, LockAttempt, MemoryBackend};
    /// let disk = MemoryBackend::new();
    /// let held = disk.lock_within(Duration::ZERO)?;
    /// assert!(matches!(held, LockAttempt::Granted { .. }));
    /// let late = disk.lock_within(Duration::from_millis(5))?;
    /// assert!(matches!(late, LockAttempt::Busy { .. }));
    /// # Ok::<(), kiln_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Backend::lock`].
    fn lock_within(&self, time: Duration) -> Result<LockAttempt> {
        let mut waited = Duration::ZERO;
        loop {
            if let Some(lock) = self.lock(false)? {
                return Ok(LockAttempt::Granted { lock, waited });
            }
            if waited >= time {
                return Ok(LockAttempt::Busy { holder: self.lock_holder() });
            }
            let pause = lock_pause(waited).min(time - waited);
            std::thread::sleep(pause);
            waited += pause;
        }
    }

    /// Who holds the lock, for messages, where the place can tell.
    fn lock_holder(&self) -> Option<String> {
        None
    }

    /// The folder of this machine that holds the files, for places that are one. It need not be
    /// there yet.
    fn folder(&self) -> Option<&Path> {
        None
    }

    /// Reads asked of the place so far, and their bytes, where it counts them.
    fn issued(&self) -> (u64, u64) {
        (0, 0)
    }

    /// How much room there is; `None`: the place cannot tell.
    ///
    /// # Errors
    /// The place cannot be asked.
    fn space(&self) -> Result<Option<Space>> {
        Ok(None)
    }

    /// The refusal of what the place cannot do; `what` needs it.
    fn incapable(&self, lacks: Capability, what: &str) -> StoreError {
        StoreError::Incapable { place: self.place(), lacks, what: what.to_owned() }
    }
}

/// Gives a file another name, replacing what has it: by [`Backend::rename`], or where a place
/// has none by a copy and a removal. A crash between these leaves both names, so this is for files
/// of which it does no harm that they are there twice.
///
/// ```
/// use kiln_store::{Backend, MemoryBackend, move_file, write_whole};
/// let disk = MemoryBackend::new();
/// write_whole(&disk, "a", b"bytes")?;
/// move_file(&disk, "a", "b")?;
/// assert_eq!(disk.list()?, ["b"]);
/// # Ok::<(), kiln_store::StoreError>(())
/// ```
///
/// # Errors
/// [`StoreError::Incapable`]; as [`Backend::rename`], [`Backend::copy`], [`Backend::remove`].
pub fn move_file(store: &dyn Backend, from: &str, to: &str) -> Result<()> {
    let can = store.capabilities();
    if from == to || can.has(Capability::Rename) || !can.has(Capability::Copy) {
        return store.rename(from, to);
    }
    store.copy(from, to)?;
    store.remove(from)
}

/// Writes a small file whole, see [`Backend::create`] and [`NewFile::named`].
///
/// ```
/// use kiln_store::{Backend, MemoryBackend, write_whole};
/// let disk = MemoryBackend::new();
/// write_whole(&disk, "a.toml", b"x = 1")?;
/// assert_eq!(disk.bytes("a.toml").unwrap(), b"x = 1");
/// # Ok::<(), kiln_store::StoreError>(())
/// ```
///
/// # Errors
/// As [`Backend::create`], [`Upload::write`] and [`Upload::complete`].
pub fn write_whole(store: &dyn Backend, name: &str, bytes: &[u8]) -> Result<()> {
    let mut file = store.create(&NewFile::named(name))?;
    file.write(bytes)?;
    file.complete()
}

/// Where a file's bytes are, see [`Backend::whereabouts`].
///
/// ```
/// assert_ne!(kiln_store::Whereabouts::Here, kiln_store::Whereabouts::Unasked);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whereabouts {
    /// No server of this place moves files.
    Unasked,
    /// Where they belong.
    Here,
    /// There, in the server's words.
    Away(String),
}

/// The right to write to a place, see [`Backend::lock`]; dropping it gives it back.
///
/// ```
/// use kiln_store::{Backend, MemoryBackend};
/// let lock = MemoryBackend::new().lock(false)?;
/// assert!(lock.is_some());
/// # Ok::<(), kiln_store::StoreError>(())
/// ```
#[derive(Debug)]
pub struct WriteLock {
    /// What holds the lock, for example an open file that the system locks.
    held: Box<dyn Held>,
}

/// The answer of a place that was asked for its lock, see [`Backend::begin_lock`]. A lock whose
/// answer nobody takes is given back.
pub struct LockAnswer<'a>(Option<Box<dyn FnOnce() -> Result<Option<WriteLock>> + 'a>>);

impl<'a> LockAnswer<'a> {
    /// The answer that this gives once there is one.
    pub fn of(answer: impl FnOnce() -> Result<Option<WriteLock>> + 'a) -> LockAnswer<'a> {
        LockAnswer(Some(Box::new(answer)))
    }

    /// Waits for it; `None`: another one holds the lock.
    ///
    /// # Errors
    /// As [`Backend::lock`].
    pub fn take(mut self) -> Result<Option<WriteLock>> {
        self.0.take().map_or(Ok(None), |answer| answer())
    }
}

impl Drop for LockAnswer<'_> {
    fn drop(&mut self) {
        if let Some(answer) = self.0.take() {
            // Nobody was told of it.
            let _ = answer();
        }
    }
}

/// What came of [`Backend::lock_within`].
#[derive(Debug)]
pub enum LockAttempt {
    /// The lock is ours.
    Granted {
        /// The lock.
        lock: WriteLock,
        /// How long it was waited for, about.
        waited: Duration,
    },
    /// Another one still holds it.
    Busy {
        /// Who, as far as that is known.
        holder: Option<String>,
    },
}

/// What can hold a lock: it gives it back when it is dropped.
pub trait Held: Debug + Send + Sync {
    /// Begins to give it back, where that takes a while. It is dropped next.
    fn begin_release(&mut self) {}
}

/// What gives a lock back when it is dropped, and in no other way.
#[derive(Debug)]
struct Dropped<T>(T);

impl<T: Debug + Send + Sync> Held for Dropped<T> {}

impl WriteLock {
    /// A lock that lasts until this value is dropped.
    pub fn on(held: impl Debug + Send + Sync + 'static) -> WriteLock {
        WriteLock { held: Box::new(Dropped(held)) }
    }

    /// A lock that takes a while to give back.
    pub fn held_by(held: impl Held + 'static) -> WriteLock {
        WriteLock { held: Box::new(held) }
    }

    /// Gives locks back: all of them are begun with before the first is waited for.
    pub fn release_all(mut locks: Vec<WriteLock>) {
        locks.iter_mut().for_each(|lock| lock.held.begin_release());
    }
}

/// An open file for reading, usable from several threads at once.
pub trait ReadAt: Send + Sync {
    /// Length in bytes when it was opened.
    fn len(&self) -> u64;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buf` from `offset` bytes on; past the end gives [`StoreError::Truncated`].
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()>;

    /// Fills all buffers, together where the place can do that: one helper's runs then cost one
    /// round of its device. By itself this method reads one after the other.
    ///
    /// # Errors
    /// As [`ReadAt::read_at`]; all buffers are then undefined.
    fn read_batch(&self, reads: &mut [BatchRead<'_>]) -> Result<()> {
        reads.iter_mut().try_for_each(|read| self.read_at(read.offset, read.buf))
    }

    /// What tells these bytes from all others that ever had the name, where the place has that:
    /// for [`upload::Existing::Same`].
    fn tag(&self) -> Option<Tag> {
        None
    }

    /// Reads will be short and anywhere: nothing is worth reading ahead. Only advice.
    fn expect_random(&self) {}

    /// What offsets and lengths of the device's reads are multiples of: 1 unless reads go past
    /// the page cache. See [`issued`].
    fn alignment(&self) -> u64 {
        1
    }

    /// Where bytes begin that are stored, from `offset` on: a sparse file has holes, which read as
    /// zeros. `None`: there is only a hole up to the end. A place that cannot tell says `offset`.
    fn next_data(&self, offset: u64) -> Option<u64> {
        Some(offset)
    }
}

/// One read of a batch, see [`ReadAt::read_batch`].
///
/// ```
/// use kiln_store::{Append, Backend, BatchRead, MemoryBackend};
/// let disk = MemoryBackend::new();
/// disk.append("a", 0)?.append(b"some bytes")?;
/// let (mut first, mut last) = ([0; 4], [0; 5]);
/// let mut batch = [BatchRead::new(0, &mut first), BatchRead::new(5, &mut last)];
/// disk.open("a")?.read_batch(&mut batch)?;
/// assert_eq!((&first, &last), (b"some", b"bytes"));
/// # Ok::<(), kiln_store::StoreError>(())
/// ```
#[derive(Debug)]
pub struct BatchRead<'a> {
    /// Byte offset in the file.
    pub offset: u64,
    /// What to fill.
    pub buf: &'a mut [u8],
}

impl<'a> BatchRead<'a> {
    /// A read of `buf.len()` bytes.
    pub fn new(offset: u64, buf: &'a mut [u8]) -> BatchRead<'a> {
        BatchRead { offset, buf }
    }
}

/// Reads ranges of a file, one after the other into `bytes`, all submitted together. Ranges may
/// reach past the end of the file, as aligned ones do; the bytes there stay as they were.
///
/// ```
/// use kiln_store::{Append, Backend, MemoryBackend, read_ranges};
/// let disk = MemoryBackend::new();
/// disk.append("a", 0)?.append(b"some bytes")?;
/// let mut bytes = [b'.'; 12];
/// read_ranges(&*disk.open("a")?, &[0..4, 5..13], &mut bytes)?;
/// assert_eq!(&bytes, b"somebytes...");
/// # Ok::<(), kiln_store::StoreError>(())
/// ```
///
/// # Errors
/// As [`ReadAt::read_batch`].
pub fn read_ranges(file: &dyn ReadAt, ranges: &[Range<u64>], bytes: &mut [u8]) -> Result<()> {
    let len = file.len();
    let mut batch = Vec::with_capacity(ranges.len());
    let mut rest = bytes;
    for range in ranges {
        let (now, later) = rest.split_at_mut((range.end - range.start) as usize);
        let there = len.saturating_sub(range.start).min(now.len() as u64) as usize;
        batch.push(BatchRead::new(range.start, &mut now[..there]));
        rest = later;
    }
    file.read_batch(&mut batch)
}

/// The reads that a batch of these byte ranges (ascending) becomes where offsets must be multiples
/// of `alignment`: each range grown to the next multiples, ranges that then touch or overlap
/// joined. With an alignment of 1 the ranges stay as they are.
///
/// ```
/// use kiln_store::issued;
/// let wanted = [100..200, 300..400, 5000..5100];
/// assert_eq!(issued(&wanted, 1), wanted);
/// assert_eq!(issued(&wanted, 512), [0..512, 4608..5120]);
/// ```
#[must_use]
pub fn issued(wanted: &[Range<u64>], alignment: u64) -> Vec<Range<u64>> {
    if alignment <= 1 {
        return wanted.to_vec();
    }
    let mut reads: Vec<Range<u64>> = Vec::with_capacity(wanted.len());
    for range in wanted.iter().filter(|range| !range.is_empty()) {
        let start = range.start / alignment * alignment;
        let end = range.end.next_multiple_of(alignment);
        match reads.last_mut() {
            Some(last) if last.start <= start && start <= last.end => last.end = last.end.max(end),
            _ => reads.push(start..end),
        }
    }
    reads
}

/// An open file for appending.
///
/// After an error the file's end is unknown: stop, and open it again at a known length.
pub trait Append: Send {
    /// Writes all of `bytes` at the end, which is where this writer's bytes end: two that write the
    /// same to one file do no harm.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Length in bytes, everything appended included.
    fn len(&self) -> u64;

    /// Whether nothing was written yet.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says that nobody will read soon what is appended from here on: the system need not keep it
    /// in memory when the device has it. By itself nothing changes.
    ///
    /// ```
    /// use kiln_store::{Append, Backend, FileBackend};
    /// # let folder = tempfile::tempdir()?;
    /// let disk = FileBackend::open(folder.path())?;
    /// let mut file = disk.append("a.part", 0)?;
    /// file.drop_behind();
    /// file.append(&[7; 1 << 20])?;
    /// file.sync()?;
    /// assert_eq!(file.len(), 1 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn drop_behind(&mut self) {}

    /// Makes all appended bytes durable. An error here is final: never retry it.
    fn sync(&mut self) -> Result<()>;

    /// Ends a file of [`Backend::write_once`]: it is there, whole and durable. Nothing may be
    /// appended afterwards. By itself this is [`Append::sync`].
    fn complete(&mut self) -> Result<()> {
        self.sync()
    }
}

/// Refuses names that are not plain: empty, longer than 255 bytes, `.`, `..`, or with a slash or
/// a zero byte in them. A shard must never be read or written outside its place.
///
/// ```
/// assert!(kiln_store::check_name("photos.tar.03.kiln").is_ok());
/// assert!(kiln_store::check_name("../photos").is_err());
/// ```
pub fn check_name(name: &str) -> Result<()> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > MAX_NAME {
        "it is longer than 255 bytes"
    } else if name == "." || name == ".." {
        "it names a folder"
    } else if name.contains('/') {
        "it contains a slash"
    } else if name.contains('\0') {
        "it contains a zero byte"
    } else {
        return Ok(());
    };
    Err(StoreError::BadName { name: name.to_string(), why })
}

/// Refuses a read past the end of a file of `have` bytes.
pub(crate) fn check_range(
    place: &str,
    name: &str,
    offset: u64,
    len: usize,
    have: u64,
) -> Result<()> {
    let need = offset.saturating_add(len as u64);
    if need <= have {
        return Ok(());
    }
    Err(StoreError::Truncated { place: place.to_string(), name: name.to_string(), need, have })
}
