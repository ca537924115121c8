//! A folder of a file system.
//!
//! Durability is that of POSIX: bytes after fsync of the file, names after fsync of the folder.
//! Many files that are written together share a sync of their file system instead, where that one
//! tells of failures as fsync does (see `file_system.rs`).
//! Small files that are written together may share a file (see `pack.rs`).
//! All files are opened with `O_CLOEXEC` (the standard library's default).

mod appender;
mod linked;
mod missing;
mod packs;
mod pending;

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::{
    fs::{OFlags, StatVfsMountFlags},
    io::Errno,
};

use self::{appender::FileAppender, pending::Pending};
use super::direct::{self, BatchContexts, DirectReader, Meter, ReadMode};
use super::extensions::{BatchFiles, CreateNew, Extensions, Locks, Logs, PlaceInfo};
use super::open_file::{Append, ReadAt};
use super::place::{Absent, BackendKind, FOLDER_EXAMPLE, Location, Opening};
use super::{
    Backend, check_name, file_log::FileLog, file_system::FileSystem, holder, lock::WriteLock,
    log::LogFile, pack, space::Space,
};
use crate::capability::{Capabilities, Capability};
use crate::{Operation, Result, StoreError};

/// From so many files on that are written together, one sync of their file system takes the place
/// of theirs. It writes what other programs have left to write there too, so it must be worth that.
const SYNC_TOGETHER: usize = 8;

/// The row of folders.
pub(super) struct Folders;

impl BackendKind for Folders {
    fn examples(&self) -> &'static [&'static str] {
        &[FOLDER_EXAMPLE]
    }

    fn about(&self) -> &'static str {
        "a folder of this machine; its path alone will do"
    }

    fn open(&self, place: &Location<'_>, opening: Opening) -> Result<Arc<dyn Backend>> {
        let folder = place.local()?;
        let opened = match opening.absent {
            Absent::Refuse => FileBackend::open(folder),
            Absent::Create => FileBackend::create(folder),
            Absent::CreateWhenWritten => FileBackend::lazy(folder),
        };
        let opened = opened?.with_reads(opening.reads);
        Ok(Arc::new(if opening.confined { opened.confined() } else { opened }))
    }
}

/// A folder whose regular files are the stored files.
#[derive(Debug, Clone)]
pub struct FileBackend {
    folder: PathBuf,
    mode: ReadMode,
    contexts: Arc<BatchContexts>,
    meter: Arc<Meter>,
    /// For a folder that may be absent: set once it is there.
    lazy: Option<Arc<OnceLock<Option<Made>>>>,
    /// Symbolic links are not followed.
    confined: bool,
    /// Files that wait for their names.
    pending: Arc<Pending>,
    tables: Arc<packs::Tables>,
}

/// A folder that was made by the first write to it: removed in the end if it is still empty.
#[derive(Debug)]
struct Made(PathBuf);

impl Drop for Made {
    fn drop(&mut self) {
        // It is never removed with something in it; that is the check.
        let _ = fs::remove_dir(&self.0);
    }
}

impl FileBackend {
    /// Opens an existing folder.
    /// Errors: [`StoreError::Io`] when it is absent, is no folder, or cannot be read.
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref().to_path_buf();
        let place = folder.display().to_string();
        fs::read_dir(&folder)
            .map_err(|error| StoreError::io(Operation::OpenPlace, &place, "", error))?;
        Ok(Self::at(folder))
    }

    /// A folder that need not be there: see [`Absent::CreateWhenWritten`].
    /// Errors: [`StoreError::Io`] when it is something else than a folder.
    pub fn lazy(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref().to_path_buf();
        if fs::metadata(&folder).is_ok_and(|found| !found.is_dir()) {
            let (place, source) = (folder.display(), io::ErrorKind::NotADirectory.into());
            return Err(StoreError::io(Operation::OpenPlace, &place.to_string(), "", source));
        }
        Ok(Self { lazy: Some(Arc::default()), ..Self::at(folder) })
    }

    fn at(folder: PathBuf) -> Self {
        let (mode, contexts, meter) = (ReadMode::default(), Arc::default(), Arc::default());
        let (pending, tables) = (Arc::default(), Arc::default());
        Self { folder, mode, contexts, meter, lazy: None, confined: false, pending, tables }
    }

    /// Makes the folder if it may be absent and is.
    fn make(&self) -> Result<()> {
        let Some(there) = self.lazy.as_ref().filter(|there| there.get().is_none()) else {
            return Ok(());
        };
        // A folder that cannot be looked at is no lost one: that is said instead.
        let fail = |error| self.error(Operation::OpenPlace, "", error);
        let absent = !self.folder.try_exists().map_err(fail)?;
        if absent {
            Self::create(&self.folder)?;
        }
        there.get_or_init(|| absent.then(|| Made(self.folder.clone())));
        Ok(())
    }

    /// The same folder, read in another way. Files that are open already stay as they are.
    #[must_use]
    pub fn with_reads(self, mode: ReadMode) -> Self {
        Self { mode, ..self }
    }

    /// The same folder, through which nothing outside of it is reached: a symbolic link in it is no
    /// file, neither listed nor read nor written to.
    #[must_use]
    pub fn confined(self) -> Self {
        Self { confined: true, ..self }
    }

    /// Opens a folder, creating it (and its parents) if absent.
    pub fn create(folder: impl AsRef<Path>) -> Result<Self> {
        let folder = folder.as_ref();
        let place = folder.display().to_string();
        let absent: Vec<_> = folder.ancestors().take_while(|path| !path.exists()).collect();
        let made = fs::create_dir_all(folder);
        made.map_err(|error| StoreError::io(Operation::CreatePlace, &place, "", error))?;
        for path in absent {
            // The names of the new folders must survive a crash too.
            let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
            let synced = sync_folder(parent.unwrap_or(Path::new(".")));
            synced.map_err(|error| StoreError::io(Operation::Sync, &place, "", error))?;
        }
        Self::open(folder)
    }

    fn error(&self, op: Operation, name: &str, source: io::Error) -> StoreError {
        StoreError::io(op, &self.place(), name, source)
    }

    fn path(&self, name: &str) -> Result<PathBuf> {
        check_name(name)?;
        self.settle(name)?;
        Ok(self.folder.join(name))
    }

    /// Looks at a name, which may be a link where links are not followed.
    fn look(&self, path: &Path) -> io::Result<Metadata> {
        if self.confined { fs::symlink_metadata(path) } else { fs::metadata(path) }
    }

    /// Refuses everything but regular files before they are opened: opening a FIFO would hang.
    fn check_regular(&self, op: Operation, name: &str, path: &Path) -> Result<()> {
        let found = self.look(path).map_err(|error| self.error(op, name, error))?;
        if found.is_file() {
            return Ok(());
        }
        let what = match found.is_symlink() {
            true => "it is a symbolic link, and these are not followed here",
            false => "it is not a regular file",
        };
        Err(self.error(op, name, io::Error::other(what)))
    }

    /// Opens a file of the folder for reading, by way of the page cache.
    fn reader(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).custom_flags(self.flags()).open(path)
    }

    /// Flags for opening files: between a look and the opening somebody may plant a link.
    fn flags(&self) -> i32 {
        if self.confined { OFlags::NOFOLLOW.bits() as i32 } else { 0 }
    }

    fn sync_names(&self, name: &str) -> Result<()> {
        sync_folder(&self.folder).map_err(|error| self.error(Operation::Sync, name, error))
    }

    /// Returns the sync of the file system for so many files, if that is worth it; to be had before
    /// the first of them changes.
    fn shared_sync(&self, files: usize) -> Option<FileSystem> {
        if files >= SYNC_TOGETHER { FileSystem::open(&self.folder) } else { None }
    }

    /// Makes names durable, with those of others where there is something that does.
    fn sync_shared(&self, shared: Option<&FileSystem>) -> io::Result<()> {
        match shared {
            Some(shared) => shared.sync(),
            None => sync_folder(&self.folder),
        }
    }

    /// Makes durable what was done to several files, by one sync for all of them; where that fails,
    /// none of it is.
    fn sync_once(
        &self,
        mut ends: Vec<Result<()>>,
        sync: impl FnOnce() -> io::Result<()>,
    ) -> Vec<Result<()>> {
        if let Err(error) = sync() {
            for end in ends.iter_mut().filter(|end| end.is_ok()) {
                *end = Err(self.error(Operation::Sync, "", packs::again(&error)));
            }
        }
        ends
    }

    /// Makes a file that is not there yet; `None`: there is something of that name.
    fn make_file(&self, name: &str, path: &Path) -> Result<Option<File>> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).custom_flags(self.flags());
        match options.open(path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
            Err(error) => Err(self.error(Operation::Create, name, error)),
        }
    }

    fn appender(&self, name: &str, at: u64) -> Result<FileAppender> {
        let path = self.path(name)?;
        self.make()?;
        let (place, fail) = (self.place(), |error| self.error(Operation::Create, name, error));
        if let Some(stem) = pack::stem(name) {
            // Others may share the file: nothing is written into it.
            if at == 0 {
                self.take_name(&path).map_err(fail)?;
            } else if self.window(name, stem, &path).is_ok_and(|found| found.shared) {
                let what = "it shares its file with others, and is only written as a whole";
                return Err(fail(io::Error::new(io::ErrorKind::InvalidInput, what)));
            }
        }
        if at == 0
            && let Some(file) = self.make_file(name, &path)?
        {
            return Ok(FileAppender::new(file, at, place, name.to_string()));
        }
        if self.look(&path).is_ok() {
            self.check_regular(Operation::Create, name, &path)?;
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).custom_flags(self.flags());
        let mut file = options.open(path).map_err(fail)?;
        let have = file.metadata().map_err(fail)?.len();
        if have < at {
            return Err(StoreError::Truncated { place, name: name.to_string(), need: at, have });
        }
        if have > at {
            file.set_len(at).map_err(|error| self.error(Operation::Cut, name, error))?;
        }
        file.seek(SeekFrom::Start(at)).map_err(fail)?;
        Ok(FileAppender::new(file, at, place, name.to_string()))
    }
}

/// Returns whether a refusal means that the file system has no locks of folders, as network file
/// systems may not have them. No lock is then granted that locks nothing: two writers at once could
/// mix what they write.
fn lacks_locks(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(
        number,
        Some(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::BADF)
    )
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

impl Backend for FileBackend {
    fn place(&self) -> String {
        self.folder.display().to_string()
    }

    fn capabilities(&self) -> Capabilities {
        use Capability::{CreateIfAbsent, Durable, KeepOpen, Log};
        Capabilities::FILES.and(&[CreateIfAbsent, Log, KeepOpen, Durable])
    }

    fn each_name(&self, see: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
        let fail = |error| self.error(Operation::List, "", error);
        self.pending.of(None).iter().try_for_each(|name| self.settle(name))?;
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.lazy.is_some() => {
                return Ok(());
            }
            entries => entries.map_err(fail)?,
        };
        for entry in entries {
            let entry = entry.map_err(fail)?;
            // Names that are not UTF-8 cannot be ours; a file removed meanwhile is no error.
            let Ok(name) = entry.file_name().into_string() else { continue };
            // Mostly the folder itself tells the kind, which saves a look at every file.
            let regular = match entry.file_type() {
                Ok(kind) if self.confined || !kind.is_symlink() => kind.is_file(),
                _ => self.look(&entry.path()).is_ok_and(|kind| kind.is_file()),
            };
            if regular {
                see(&name)?;
            }
        }
        Ok(())
    }

    fn open(&self, name: &str) -> Result<Box<dyn ReadAt>> {
        let path = self.path(name)?;
        self.check_regular(Operation::Open, name, &path)?;
        let fail = |error| self.error(Operation::Open, name, error);
        let (place, meter) = (self.place(), Arc::clone(&self.meter));
        if let Some(stem) = pack::stem(name) {
            let found = self.window(name, stem, &path)?;
            if found.shared || self.mode == ReadMode::Cached {
                let (file, start, len, name) = (found.file, found.start, found.len, name.into());
                return Ok(Box::new(FileReader { file, start, len, meter, place, name }));
            }
        }
        let name = name.to_string();
        if let ReadMode::Direct { together } = self.mode
            && let Some((file, align)) = direct::open(&path, self.flags()).map_err(fail)?
        {
            let len = file.metadata().map_err(fail)?.len();
            let contexts = Arc::clone(&self.contexts);
            let longest = contexts.longest(&self.folder);
            let reader =
                DirectReader { file, len, align, longest, together, contexts, meter, place, name };
            return Ok(Box::new(reader));
        }
        let file = self.reader(&path).map_err(fail)?;
        let (start, len) = (0, file.metadata().map_err(fail)?.len());
        Ok(Box::new(FileReader { file, start, len, meter, place, name }))
    }

    fn append(&self, name: &str, at: u64) -> Result<Box<dyn Append>> {
        Ok(Box::new(self.appender(name, at)?))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (source, target) = (self.path(from)?, self.path(to)?);
        self.unshare(from, to)?;
        let renamed = self.rename_over(&source, &target);
        renamed.map_err(|error| self.error(Operation::Rename, from, error))?;
        self.sync_names(to)
    }

    fn remove(&self, name: &str) -> Result<()> {
        if self.pending.take(name).is_some() {
            return Ok(());
        }
        match fs::remove_file(self.path(name)?) {
            Ok(()) => self.sync_names(name),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(self.error(Operation::Remove, name, error)),
        }
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions {
            create_new: Some(self),
            batch: Some(self),
            locks: Some(self),
            logs: Some(self),
            info: Some(self),
            ..Extensions::default()
        }
    }
}

impl CreateNew for FileBackend {
    /// By a second name for the file: not every file system renames without replacing.
    fn rename_new(&self, from: &str, to: &str) -> Result<()> {
        let (source, target) = (self.path(from)?, self.path(to)?);
        self.unshare(from, to)?;
        let linked = fs::hard_link(&source, target);
        linked.map_err(|error| self.error(Operation::Rename, from, error))?;
        // The file is there now: a first name that stays is no failure.
        let _ = fs::remove_file(source);
        self.sync_names(to)
    }
}

impl BatchFiles for FileBackend {
    fn write_all(&self, files: &[(&str, &[u8])]) -> Vec<Result<()>> {
        let shared = self.shared_sync(files.len());
        if files.len() > 1
            && pack::fits(files)
            && let Some(ends) = self.write_pack(files, shared.as_ref())
        {
            return ends;
        }
        let write = |(name, bytes): &(&str, &[u8])| {
            let mut file = self.appender(name, 0)?;
            file.append(bytes)?;
            if shared.is_some() { Ok(()) } else { file.sync() }
        };
        let ends = files.iter().map(write).collect();
        match &shared {
            Some(shared) => self.sync_once(ends, || shared.sync()),
            None => ends,
        }
    }

    fn rename_all(&self, names: &[(&str, &str)]) -> Vec<Result<()>> {
        // Names in a folder that is open are found without the way to it.
        let folder = File::open(&self.folder).ok();
        let rename = |at: usize| {
            let (from, to) = names[at];
            if folder.as_ref().is_some_and(|folder| self.name_pending(folder, from, to)) {
                return Ok(());
            }
            let (source, target) = (self.path(from)?, self.path(to)?);
            self.unshare(from, to)?;
            let renamed = self.rename_over(&source, &target);
            renamed.map_err(|error| self.error(Operation::Rename, from, error))
        };
        let shared = self.shared_sync(names.len());
        let froms = names.iter().map(|(from, _)| *from);
        self.sync_once(self.waiting_first(froms, rename), || self.sync_shared(shared.as_ref()))
    }

    fn remove_all(&self, names: &[&str]) -> Vec<Result<()>> {
        let remove = |at: usize| {
            let name = names[at];
            if self.pending.take(name).is_some() {
                return Ok(());
            }
            match fs::remove_file(self.path(name)?) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(self.error(Operation::Remove, name, error))
                }
                _ => Ok(()),
            }
        };
        let shared = self.shared_sync(names.len());
        let ends = self.waiting_first(names.iter().copied(), remove);
        self.sync_once(ends, || self.sync_shared(shared.as_ref()))
    }

    fn compact(&self) -> Result<u64> {
        self.compact_packs()
    }

    fn missing(&self, names: &[String]) -> Option<Vec<bool>> {
        self.missing_of(names)
    }
}

impl Locks for FileBackend {
    /// The folder itself is locked, so no lock file is left behind.
    fn lock(&self, wait: bool) -> Result<Option<WriteLock>> {
        self.make()?;
        let fail = |error| self.error(Operation::Lock, "", error);
        let folder = File::open(&self.folder).map_err(fail)?;
        let outcome =
            if wait { folder.lock().map_err(TryLockError::Error) } else { folder.try_lock() };
        match outcome {
            Ok(()) => Ok(Some(WriteLock::on(folder))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) if lacks_locks(&source) => {
                Err(StoreError::NoLocks { place: self.place(), source })
            }
            Err(TryLockError::Error(error)) => Err(fail(error)),
        }
    }

    fn lock_holder(&self) -> Option<String> {
        holder::of(&self.folder)
    }
}

impl Logs for FileBackend {
    fn create_log(&self, name: &str, size: u64) -> Result<Box<dyn LogFile>> {
        let path = self.path(name)?;
        self.make()?;
        let Some(file) = self.make_file(name, &path)? else {
            return Err(self.error(Operation::Create, name, io::ErrorKind::AlreadyExists.into()));
        };
        let log = FileLog { file, path, len: size, place: self.place(), name: name.to_owned() };
        log.prepare().inspect_err(|_| {
            // Nobody knows of it yet.
            let _ = fs::remove_file(&log.path);
        })?;
        self.sync_names(name)?;
        Ok(Box::new(log))
    }

    fn close_log(&self, name: &str, to: &str, force: bool) -> Result<()> {
        let (from, target) = (self.path(name)?, self.path(to)?);
        let fail = |error| self.error(Operation::Rename, name, error);
        let file = match File::open(&from) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && target.exists() => {
                // Closed before, by somebody who may not have lived to see it durable.
                return self.sync_names(to);
            }
            file => file.map_err(fail)?,
        };
        if !force && matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            let (place, name) = (self.place(), name.to_owned());
            return Err(StoreError::InUse { place, name, holder: holder::of(&from) });
        }
        fs::rename(&from, &target).map_err(fail)?;
        self.sync_names(to)
    }
}

impl PlaceInfo for FileBackend {
    fn space(&self) -> Result<Option<Space>> {
        let found = match rustix::fs::statvfs(&self.folder) {
            Err(Errno::NOENT) if self.lazy.is_some() => return Ok(None),
            found => found.map_err(|error| self.error(Operation::Use, "", error.into()))?,
        };
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        // As Linux mounts a file system anew whose disk fails.
        let read_only = found.f_flag.contains(StatVfsMountFlags::RDONLY);
        let free = if read_only { 0 } else { bytes(found.f_bavail) };
        Ok(Some(Space { total: bytes(found.f_blocks), free }))
    }

    fn folder(&self) -> Option<&Path> {
        Some(&self.folder)
    }

    /// Everything counts, checksum tables and alignment included. With direct reads this is what
    /// the device is asked for, long reads in pieces that it takes at once, unless the file system
    /// cuts a read where the file is in pieces.
    fn io_counters(&self) -> (u64, u64) {
        self.meter.so_far()
    }
}

struct FileReader {
    file: File,
    /// Its offset in a file that it shares with others.
    start: u64,
    len: u64,
    meter: Arc<Meter>,
    place: String,
    name: String,
}

impl ReadAt for FileReader {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        super::check_range(&self.place, &self.name, offset, buf.len(), self.len)?;
        self.meter.add(1, buf.len() as u64);
        self.file
            .read_exact_at(buf, self.start + offset)
            .map_err(|error| StoreError::io(Operation::Read, &self.place, &self.name, error))
    }

    fn expect_random(&self) {
        // Where it is not taken, more is read than asked for.
        let _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::Random);
    }

    fn next_data(&self, offset: u64) -> Option<u64> {
        if self.start > 0 {
            return Some(offset);
        }
        direct::next_data(&self.file, offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_created_on_request_only() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("x/y/z");
        let error = FileBackend::open(&folder).unwrap_err();
        assert!(error.is_not_found() && error.to_string().contains("x/y/z"), "{error}");
        FileBackend::create(&folder).unwrap();
        FileBackend::create(&folder).unwrap();
        FileBackend::open(&folder).unwrap();
        fs::write(root.path().join("file"), b"x").unwrap();
        assert!(FileBackend::open(root.path().join("file")).is_err());
        assert!(FileBackend::create(root.path().join("file")).is_err());
        assert!(FileBackend::create(root.path().join("file/below")).is_err());
    }

    #[test]
    fn only_regular_files_are_files() {
        let root = tempfile::tempdir().unwrap();
        let disk = FileBackend::open(root.path()).unwrap();
        fs::create_dir(root.path().join("folder")).unwrap();
        std::os::unix::fs::symlink("nowhere", root.path().join("dangling")).unwrap();
        std::os::unix::fs::symlink("/dev/full", root.path().join("device")).unwrap();
        assert!(disk.list().unwrap().is_empty());
        for name in ["folder", "device"] {
            assert!(disk.open(name).is_err() && disk.append(name, 0).is_err(), "{name}");
        }
        assert!(disk.open("dangling").err().unwrap().is_not_found());
        assert!(disk.remove("folder").is_err());
    }

    #[test]
    fn a_confined_folder_reaches_nothing_outside_of_it() {
        use std::os::unix::fs::symlink;
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let secret = outside.path().join("secret");
        fs::write(&secret, b"secret").unwrap();
        symlink(&secret, root.path().join("link")).unwrap();
        symlink(outside.path().join("new"), root.path().join("dangling")).unwrap();
        symlink("/proc/self/root", root.path().join("up")).unwrap();
        let open = FileBackend::open(root.path()).unwrap();
        assert_eq!(open.list().unwrap(), ["link"]);
        for mode in [ReadMode::Cached, ReadMode::DIRECT] {
            let disk = FileBackend::open(root.path()).unwrap().with_reads(mode).confined();
            assert!(disk.list().unwrap().is_empty());
            for name in ["link", "dangling", "up"] {
                let text = disk.open(name).err().unwrap().to_string();
                assert!(text.contains("symbolic link"), "{text}");
                let text = disk.append(name, 0).err().unwrap().to_string();
                assert!(text.contains("symbolic link"), "{text}");
            }
            // A link that is planted after the look is not followed by the opening either.
            let flags = disk.flags();
            let planted = root.path().join("link");
            assert!(direct::open(&planted, flags).is_err());
            let mut options = OpenOptions::new();
            assert!(options.write(true).custom_flags(flags).open(&planted).is_err());
        }
        let disk = open.confined();
        // Renames and removals change the link, never what it names.
        disk.rename("link", "other").unwrap();
        crate::write_whole(&disk, "other", b"own").unwrap();
        disk.remove("dangling").unwrap();
        assert_eq!(disk.list().unwrap(), ["other"]);
        assert_eq!(fs::read(&secret).unwrap(), b"secret");
        assert!(!outside.path().join("new").exists());
    }

    #[test]
    fn small_files_share_one_and_give_its_space_back() {
        use std::os::unix::fs::MetadataExt;
        let root = tempfile::tempdir().unwrap();
        let disk = FileBackend::open(root.path()).unwrap();
        let names: Vec<String> = (0..20).map(|at| format!("k{at}.manifest")).collect();
        let bytes: Vec<Vec<u8>> = (0..20).map(|at| vec![at as u8; 3000 + at]).collect();
        let files: Vec<(&str, &[u8])> =
            names.iter().zip(&bytes).map(|(name, bytes)| (&name[..], &bytes[..])).collect();
        assert!(disk.write_all(&files).iter().all(Result::is_ok));
        assert_eq!(disk.list().unwrap().len(), 20);
        let look = |name: &str| fs::metadata(root.path().join(name)).unwrap();
        assert_eq!(look("k0.manifest").nlink(), 20);
        assert_eq!(look("k0.manifest").ino(), look("k7.manifest").ino());
        for name in &names[..12] {
            disk.remove(name).unwrap();
        }
        assert!(disk.compact().unwrap() >= 12 * 3000);
        assert_eq!((look("k12.manifest").nlink(), disk.list().unwrap().len()), (8, 8));
        assert!(look("k12.manifest").len() < 9 * 3200);
        // Damage of the table is every name's; a name that it does not have is an error, too.
        fs::rename(root.path().join("k19.manifest"), root.path().join("x.manifest")).unwrap();
        assert!(
            disk.open("x.manifest").err().unwrap().to_string().contains("no file of this name")
        );
        let shared = root.path().join("k12.manifest");
        fs::OpenOptions::new().write(true).open(shared).unwrap().write_at(b"?", 30).unwrap();
        let text = disk.open("k13.manifest").err().unwrap().to_string();
        assert!(text.contains("k13.manifest") && text.contains("pack file is damaged"), "{text}");
        // Written again it is whole, and shares nothing.
        crate::write_whole(&disk, "k13.manifest", b"new").unwrap();
        assert_eq!(disk.open("k13.manifest").unwrap().len(), 3);
    }

    #[test]
    fn file_systems_without_locks_are_told_from_other_failures() {
        // ENOLCK, EBADF, ENOTSUP: as network file systems answer.
        for number in [37, 9, 95] {
            let source = io::Error::from_raw_os_error(number);
            assert!(lacks_locks(&source));
            let text = StoreError::NoLocks { place: "/far".into(), source }.to_string();
            assert!(text.contains("/far") && text.contains("kiln agent"), "{text}");
        }
        // EIO and EINTR are none of these.
        assert!(!lacks_locks(&io::Error::from_raw_os_error(5)));
        assert!(!lacks_locks(&io::Error::from_raw_os_error(4)));
    }

    #[test]
    fn who_holds_a_lock_is_told_where_the_system_does() {
        let root = tempfile::tempdir().unwrap();
        let disk = FileBackend::open(root.path()).unwrap();
        assert_eq!(disk.lock_holder(), None);
        let held = disk.lock(false).unwrap().unwrap();
        let attempt = disk.lock_within(std::time::Duration::from_millis(60)).unwrap();
        let crate::LockAttempt::Busy { holder } = attempt else { panic!("{attempt:?}") };
        // Not every system tells, but none tells of somebody else.
        let mine = format!("process {} ", std::process::id());
        assert!(holder.is_none_or(|holder| holder.starts_with(&mine)));
        drop(held);
        assert_eq!(disk.lock_holder(), None);
    }

    #[test]
    fn a_full_device_is_recognised_with_place_and_reason() {
        // The one full disk that every Linux machine has.
        let Ok(file) = OpenOptions::new().write(true).open("/dev/full") else { return };
        let (place, name) = ("/dev".to_string(), "full".to_string());
        let mut file = FileAppender::new(file, 0, place, name);
        let error = file.append(b"x").unwrap_err();
        assert!(error.is_full() && !error.is_retryable(), "{error}");
        let text = error.to_string();
        assert!(text.starts_with("cannot write \"full\" in /dev: No space left"), "{text}");
        assert_eq!(file.len(), 0);
        for kind in [io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge] {
            assert!(StoreError::io(Operation::Write, "a", "b", kind.into()).is_full());
        }
    }

    #[test]
    fn a_file_cut_behind_the_readers_back_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        let disk = FileBackend::open(root.path()).unwrap();
        fs::write(root.path().join("a"), [7; 100]).unwrap();
        let file = disk.open("a").unwrap();
        fs::write(root.path().join("a"), [7; 50]).unwrap();
        assert!(file.read_at(40, &mut [0; 20]).is_err());
        file.read_at(30, &mut [0; 20]).unwrap();
    }
}
