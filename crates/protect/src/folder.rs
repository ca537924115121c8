//! The protected folder: its files, without following a link below it, and the places of index and
//! parity.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, TryLockError};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::{io, os::fd::OwnedFd, sync::Arc};

use kiln_store::checksum;
use kiln_uring::start_writing;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, mkdirat, openat, statat};
use rustix::io::Errno;

use crate::index::{FileRecord, Head, Index, Set};
use crate::{OWN, ProtectError, error::is_absent};

/// Opens a folder to name things in it.
const FOLDER: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Receives the progress of an operation.
pub trait Watch: Sync {
    /// So many bytes of files are going to be read.
    fn begin(&self, _bytes: u64) {}
    /// So many more bytes of files were read.
    fn advance(&self, _bytes: u64) {}
    /// A file was made that is of no use when the process ends now.
    fn begun(&self, _folder: &Arc<OwnedFd>, _name: &OsStr) {}
    /// That file has its final name, or is gone.
    fn ended(&self, _folder: &Arc<OwnedFd>, _name: &OsStr) {}
}

impl Watch for () {}

/// A file as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub size: u64,
    pub mtime: i64,
    pub mode: u32,
    pub owner: (u32, u32),
    pub inode: u64,
    pub device: u64,
}

impl Found {
    fn new(stat: &Stat) -> Option<Found> {
        let mtime = stat.st_mtime.saturating_mul(1_000_000_000);
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then_some(Found {
            size: stat.st_size as u64,
            mtime: mtime.saturating_add(stat.st_mtime_nsec as i64),
            mode: stat.st_mode & 0o7777,
            owner: (stat.st_uid, stat.st_gid),
            inode: stat.st_ino,
            device: stat.st_dev,
        })
    }

    pub fn record(&self, path: PathBuf) -> FileRecord {
        let Found { size, mtime, mode, owner, inode, .. } = *self;
        FileRecord { path, size, mtime, mode, owner, inode, mixed: false }
    }

    pub fn is(&self, file: &FileRecord) -> bool {
        (self.size, self.mtime) == (file.size, file.mtime)
    }
}

/// Everything below the folder.
#[derive(Default)]
pub(crate) struct Walk {
    pub files: BTreeMap<PathBuf, Found>,
    /// Links, devices, sockets and pipes.
    pub others: u64,
    /// Folders that could not be looked at, and why.
    pub failures: Vec<(PathBuf, io::Error)>,
}

impl Walk {
    /// Paths of files that have another name now, and are the same otherwise.
    pub fn renamed(&self, files: &BTreeMap<u64, FileRecord>) -> BTreeMap<u64, PathBuf> {
        let known: BTreeSet<&PathBuf> = files.values().map(|file| &file.path).collect();
        let fresh = self.files.iter().filter(|(path, _)| !known.contains(path));
        let fresh = fresh.map(|(path, one)| ((one.inode, one.size, one.mtime), path));
        let mut fresh: BTreeMap<_, _> = fresh.collect();
        let gone = files.iter().filter(|(_, file)| !self.files.contains_key(&file.path));
        let now = gone.map(|(at, file)| (at, fresh.remove(&(file.inode, file.size, file.mtime))));
        now.filter_map(|(at, path)| Some((*at, path?.clone()))).collect()
    }
}

pub(crate) struct Folder {
    pub path: PathBuf,
    fd: Arc<OwnedFd>,
}

impl Folder {
    pub fn open(path: &Path) -> Result<Folder, ProtectError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from);
        let fd = Arc::new(fd.map_err(ProtectError::io("open", path))?);
        Ok(Folder { path: path.to_owned(), fd })
    }

    /// Opens a folder below; with `make` it and those above it are made where absent.
    pub fn below(&self, inside: &Path, make: bool) -> io::Result<Arc<OwnedFd>> {
        let mut at = self.fd.clone();
        for part in inside.components() {
            let Component::Normal(name) = part else {
                return Err(io::Error::from(Errno::INVAL));
            };
            if make && let Err(error) = mkdirat(&at, name, Mode::from_raw_mode(0o777)) {
                Some(error).filter(|error| *error != Errno::EXIST).map_or(Ok(()), Err)?;
            }
            at = Arc::new(openat(&at, name, FOLDER, Mode::empty())?);
        }
        Ok(at)
    }

    /// Opens a file to read it.
    pub fn file(&self, inside: &Path) -> io::Result<File> {
        let folder = self.below(inside.parent().unwrap_or(Path::new("")), false)?;
        let name = inside.file_name().ok_or(Errno::INVAL)?;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(openat(&folder, name, flags, Mode::empty())?);
        let is_file = file.metadata()?.is_file();
        is_file.then_some(file).ok_or_else(|| Errno::NOENT.into())
    }

    /// Looks at a file; `None`: no file has the name.
    pub fn look(&self, inside: &Path) -> io::Result<Option<Found>> {
        let look = || {
            let folder = self.below(inside.parent().unwrap_or(Path::new("")), false)?;
            let name = inside.file_name().ok_or(Errno::INVAL)?;
            Ok(Found::new(&statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?))
        };
        look().or_else(|error: io::Error| if is_absent(&error) { Ok(None) } else { Err(error) })
    }

    /// Looks at everything but the folders of parity.
    pub fn walk(&self, parity: &[PathBuf]) -> Walk {
        let id = |path: &PathBuf| path.metadata().ok().map(|meta| (meta.dev(), meta.ino()));
        let skipped: BTreeSet<(u64, u64)> = parity.iter().filter_map(id).collect();
        let mut walk = Walk::default();
        let mut open = vec![PathBuf::new()];
        while let Some(inside) = open.pop() {
            if let Err(error) = self.walk_one(&inside, &skipped, &mut walk, &mut open) {
                walk.failures.push((inside, error));
            }
        }
        walk
    }

    fn walk_one(
        &self,
        inside: &Path,
        skipped: &BTreeSet<(u64, u64)>,
        walk: &mut Walk,
        open: &mut Vec<PathBuf>,
    ) -> io::Result<()> {
        let folder = self.below(inside, false)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for entry in Dir::new(openat(&folder, ".", flags, Mode::empty())?)? {
            let name = OsString::from_vec(entry?.file_name().to_bytes().to_vec());
            if name == "." || name == ".." || name == OWN || is_part(&name) {
                continue;
            }
            let stat = match statat(&folder, &*name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                stat => stat?,
            };
            let path = inside.join(&name);
            match (FileType::from_raw_mode(stat.st_mode), Found::new(&stat)) {
                (_, Some(found)) => drop(walk.files.insert(path, found)),
                (FileType::Directory, _) if skipped.contains(&(stat.st_dev, stat.st_ino)) => {}
                (FileType::Directory, _) => open.push(path),
                _ => walk.others += 1,
            }
        }
        Ok(())
    }
}

/// Ending of the name of a file while it is written.
pub const PART: &str = ".kiln-part";

/// The hidden name of a file while it is written, no longer than file systems allow.
pub fn part_of(name: &OsStr) -> OsString {
    let mut part = OsString::from(".");
    match name.len() <= 240 {
        true => part.push(name),
        false => part.push(format!("{:08x}", checksum(name.as_bytes()))),
    }
    part.push(PART);
    part
}

fn is_part(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".") && name.as_bytes().ends_with(PART.as_bytes())
}

/// The folder with its index and its files of parity.
pub(crate) struct Place {
    pub folder: Folder,
    pub index: Option<Index>,
    /// Copies of the index.
    pub copies: Vec<PathBuf>,
    /// Folders of the parity.
    pub dirs: Vec<PathBuf>,
    _lock: Option<File>,
}

impl Place {
    /// Opens a folder; `dirs` are folders of its parity, where they are not those of the index.
    pub fn open(path: &Path, dirs: &[PathBuf], writes: bool) -> Result<Place, ProtectError> {
        let folder = Folder::open(path)?;
        let own = path.join(OWN);
        let whole = |dir: &PathBuf| std::path::absolute(dir).map_err(ProtectError::io("find", dir));
        let mut dirs = dirs.iter().map(whole).collect::<Result<Vec<_>, _>>()?;
        let lock = lock(&own, writes)?;
        let mut copies = vec![own.join("index"), own.join("index.copy")];
        copies.extend(dirs.iter().map(|dir| dir.join("index")));
        let mut index = Index::load(&copies)?;
        let known = index.as_ref().map_or(&dirs, |found| &found.head.parity_dirs);
        if dirs.is_empty() {
            dirs = known.clone();
        } else if dirs.len() != known.len() {
            let count = known.len();
            let problem = format!("its parity is in {count} other folders, not in {}", dirs.len());
            return Err(ProtectError::refused(path, problem));
        }
        if !dirs.is_empty() {
            copies.truncate(1);
            copies.extend(dirs.iter().map(|dir| dir.join("index")));
            index = Index::load(&copies)?;
        }
        if let Some(found) = &mut index
            && found.head.parity_dirs != dirs
        {
            found.head.parity_dirs = dirs.clone();
            found.uneven = true;
        }
        Ok(Place { folder, index, copies, dirs, _lock: lock })
    }

    /// Opens the files of parity, with `writes` made where absent.
    pub fn parity(&self, head: &Head, writes: bool) -> Result<Parity, ProtectError> {
        let own = [self.folder.path.join(OWN)];
        let dirs = if self.dirs.is_empty() { &own[..] } else { &self.dirs };
        let mut files = Vec::new();
        for dir in dirs {
            if writes {
                make_private(dir).map_err(ProtectError::io("make", dir))?;
            }
            let path = dir.join("parity");
            let mut options = File::options();
            options.read(true).write(writes).create(writes).mode(0o600);
            match options.open(&path) {
                Ok(file) => files.push(Some(file)),
                Err(error) if !writes && is_absent(&error) => files.push(None),
                Err(error) => return Err(ProtectError::io("open", path)(error)),
            }
        }
        Ok(Parity { files, rows: head.geometry.parity() })
    }
}

fn make_private(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Locks the folder of the index, `alone` or together with others that read.
fn lock(own: &Path, alone: bool) -> Result<Option<File>, ProtectError> {
    if own.symlink_metadata().is_ok_and(|meta| !meta.is_dir()) {
        return Err(ProtectError::refused(own, "is a link or a file, not a folder"));
    }
    let path = own.join("lock");
    let locked = if alone {
        make_private(own).map_err(ProtectError::io("make", own))?;
        let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(ProtectError::io("open", &path))?;
        file.try_lock().map(|()| Some(file))
    } else {
        // One that reads may not be able to make it.
        let Ok(file) = File::open(&path) else { return Ok(None) };
        file.try_lock_shared().map(|()| Some(file))
    };
    match locked {
        Err(TryLockError::WouldBlock) => {
            Err(ProtectError::refused(own, "another kiln protect is at work there"))
        }
        // Some network file systems have no locks.
        Err(TryLockError::Error(_)) => Ok(None),
        Ok(file) => Ok(file),
    }
}

/// The files of parity: rows go to them in turn.
pub(crate) struct Parity {
    files: Vec<Option<File>>,
    rows: usize,
}

impl Parity {
    fn place(&self, set: &Set, row: usize, offset: u64) -> io::Result<(&File, u64)> {
        let files = self.files.len();
        let (rows, row, file) = (self.rows.div_ceil(files), row / files, &self.files[row % files]);
        let file = file.as_ref().ok_or(Errno::NOENT)?;
        Ok((file, set.at * rows as u64 + row as u64 * set.block + offset))
    }

    /// Returns whether one of the files is not there.
    pub fn is_absent(&self) -> bool {
        self.files.iter().any(Option::is_none)
    }

    pub fn read(&self, set: &Set, row: usize, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (file, at) = self.place(set, row, offset)?;
        file.read_exact_at(out, at)
    }

    pub fn write(&self, set: &Set, row: usize, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let (file, at) = self.place(set, row, offset)?;
        file.write_all_at(bytes, at)
    }

    /// Has the parity of a set written out, and does not wait for it.
    pub fn begin_writing(&self, set: &Set) -> io::Result<()> {
        let rows = self.rows.div_ceil(self.files.len()) as u64;
        let bytes = set.at * rows..(set.at + set.block) * rows;
        self.files.iter().flatten().try_for_each(|file| start_writing(file, bytes.clone()))
    }

    pub fn sync(&self) -> io::Result<()> {
        self.files.iter().flatten().try_for_each(File::sync_all)
    }

    /// Cuts what is behind the last set.
    pub fn end_at(&self, rows: u64) -> io::Result<()> {
        let len = rows * self.rows.div_ceil(self.files.len()) as u64;
        self.files.iter().flatten().try_for_each(|file| match file.metadata()?.len() > len {
            true => file.set_len(len),
            false => Ok(()),
        })
    }
}
