//! A folder that outputs are written below. Names are resolved one by one and no link below the
//! folder is followed, so nothing outside of it is written or changed.

use std::ffi::{OsStr, OsString};
use std::fs::{File, FileTimes, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{
    AtFlags, Mode, OFlags, linkat, mkdirat, openat, readlinkat, renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::permissions::folder_mode;
use crate::names::output_part;

/// Opens a folder to name things in it.
const FOLDER: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The folder that holds an output, and its name there.
#[derive(Clone)]
pub struct Slot {
    pub folder: Arc<OwnedFd>,
    pub name: Box<OsStr>,
}

/// See the module.
#[derive(Clone)]
pub struct OutputTree {
    root: Arc<OwnedFd>,
    path: PathBuf,
}

impl OutputTree {
    /// Opens a folder, made where absent. It may be named by a link; those below it may not.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn open(path: &Path) -> io::Result<OutputTree> {
        std::fs::create_dir_all(path)?;
        Ok(OutputTree { root: Arc::new(folder_of(path)?), path: path.to_owned() })
    }

    /// The folder's path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a folder below; with `make` it and those above it are made where absent.
    ///
    /// # Errors
    /// `InvalidInput` for names that lead out; `NotADirectory` for a link or a file in the way.
    pub fn folder(&self, inside: &Path, make: bool) -> io::Result<Arc<OwnedFd>> {
        let mut at = self.root.clone();
        for part in inside.components() {
            let Component::Normal(name) = part else {
                if part == Component::CurDir {
                    continue;
                }
                return Err(invalid("a name that leads out of the folder"));
            };
            let next = match openat(&at, name, FOLDER, Mode::empty()) {
                Err(Errno::NOENT) if make => {
                    match mkdirat(&at, name, Mode::from_raw_mode(0o700)) {
                        Ok(()) => set_mode(&at, name, folder_mode())?,
                        Err(Errno::EXIST) => {}
                        Err(error) => return Err(error.into()),
                    }
                    openat(&at, name, FOLDER, Mode::empty())
                }
                next => next,
            };
            at = Arc::new(next.map_err(|error| match error {
                Errno::NOTDIR | Errno::LOOP => {
                    let what = format!("{} is a link or a file, not a folder", name.display());
                    io::Error::new(io::ErrorKind::NotADirectory, what)
                }
                error => error.into(),
            })?);
        }
        Ok(at)
    }

    /// The folder and name of something below, whose folder is made where absent.
    ///
    /// # Errors
    /// As [`OutputTree::folder`].
    pub fn slot(&self, inside: &Path) -> io::Result<Slot> {
        self.found(inside, true)
    }

    fn found(&self, inside: &Path, make: bool) -> io::Result<Slot> {
        let Some(Component::Normal(name)) = inside.components().next_back() else {
            return Err(invalid("no name of a file"));
        };
        let folder = self.folder(inside.parent().unwrap_or(Path::new("")), make)?;
        Ok(Slot { folder, name: name.into() })
    }

    /// Makes a symbolic link, in place of a file or another link of its name.
    ///
    /// # Errors
    /// As [`OutputTree::folder`]; a folder of its name.
    pub fn link(&self, inside: &Path, target: &OsStr) -> io::Result<()> {
        let slot = self.slot(inside)?;
        let part = output_part(&slot.name);
        let _ = unlinkat(&slot.folder, &part, AtFlags::empty());
        symlinkat(target, &slot.folder, &part)?;
        let renamed = renameat(&slot.folder, &part, &slot.folder, &*slot.name);
        if renamed.is_err() {
            let _ = unlinkat(&slot.folder, &part, AtFlags::empty());
        }
        Ok(renamed?)
    }

    /// Returns the target of a link below; `None`: something else has the name.
    ///
    /// # Errors
    /// As [`OutputTree::folder`]; `NotFound`.
    pub fn read_link(&self, inside: &Path) -> io::Result<Option<OsString>> {
        let slot = self.found(inside, false)?;
        match readlinkat(&slot.folder, &*slot.name, Vec::new()) {
            Ok(target) => Ok(Some(OsString::from_vec(target.into_bytes()))),
            Err(Errno::INVAL) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives a file below another name.
    ///
    /// # Errors
    /// As [`OutputTree::folder`]; something of that name.
    pub fn hard_link(&self, of: &Path, inside: &Path) -> io::Result<()> {
        let (of, to) = (self.found(of, false)?, self.slot(inside)?);
        Ok(linkat(&of.folder, &*of.name, &to.folder, &*to.name, AtFlags::empty())?)
    }

    /// Sets mode and time of a file or folder below; links are left alone.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn set(&self, inside: &Path, mode: u32, time: Option<SystemTime>) -> io::Result<()> {
        let slot = self.found(inside, false)?;
        if let Some(time) = time {
            let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let open = || openat(&slot.folder, &*slot.name, flags, Mode::empty());
            let file = match open() {
                // A mode that denies its owner to read.
                Err(Errno::ACCESS) => {
                    set_mode(&slot.folder, &slot.name, 0o700)?;
                    open()
                }
                opened => opened,
            };
            File::from(file?).set_times(FileTimes::new().set_modified(time))?;
        }
        set_mode(&slot.folder, &slot.name, mode)
    }

    /// Removes a file, a link or an empty folder below.
    ///
    /// # Errors
    /// The system's refusal.
    pub fn remove(&self, inside: &Path, is_folder: bool) -> io::Result<()> {
        let slot = self.found(inside, false)?;
        let flags = if is_folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        Ok(unlinkat(&slot.folder, &*slot.name, flags)?)
    }
}

/// Opens a folder by its path, whose links are followed.
pub fn folder_of(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Opens the parent of a path.
pub fn slot_of(path: &Path) -> io::Result<Slot> {
    let Some(name) = path.file_name() else { return Err(invalid("no name of a file")) };
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = Arc::new(folder_of(folder.unwrap_or(Path::new(".")))?);
    Ok(Slot { folder, name: name.into() })
}

/// Makes the names of a folder durable.
pub fn sync_folder(folder: impl AsFd) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::fsync(openat(folder, ".", flags, Mode::empty())?)?)
}

/// Sets the mode of what has a name, unless it is a link.
fn set_mode(folder: &OwnedFd, name: &OsStr, mode: u32) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = File::from(openat(folder, name, flags, Mode::empty())?);
    match fd.metadata()?.is_symlink() {
        true => Ok(()),
        false => std::fs::set_permissions(path_of(fd.as_fd()), Permissions::from_mode(mode)),
    }
}

/// A path to what is open.
fn path_of(fd: BorrowedFd<'_>) -> PathBuf {
    format!("/proc/self/fd/{}", fd.as_raw_fd()).into()
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// Returns whether a name can be one of a file below a folder: no part is empty or leads out.
pub fn is_plain(name: &str) -> bool {
    !name.as_bytes().contains(&0) && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_is_reached_through_links_or_upwards() {
        let place = tempfile::tempdir().unwrap();
        let (out, other) = (place.path().join("out"), place.path().join("other"));
        fs::create_dir(&other).unwrap();
        fs::write(other.join("f"), "theirs").unwrap();
        let tree = OutputTree::open(&out).unwrap();
        symlink(&other, out.join("link")).unwrap();
        symlink(other.join("f"), out.join("file")).unwrap();
        for inside in ["link/f", "../other/f", "link", ""] {
            assert!(tree.folder(Path::new(inside), true).is_err() != inside.is_empty());
        }
        for inside in ["link/new", "../new", "/tmp/new", "..", "."] {
            assert!(tree.slot(Path::new(inside)).is_err(), "{inside}");
        }
        tree.set(Path::new("file"), 0o600, None).unwrap();
        assert_eq!(fs::metadata(other.join("f")).unwrap().permissions().mode() & 0o077, 0o044);
        assert!(tree.set(Path::new("file"), 0o600, Some(SystemTime::UNIX_EPOCH)).is_err());
        tree.link(Path::new("file"), OsStr::new("elsewhere/")).unwrap();
        assert_eq!(fs::read_link(out.join("file")).unwrap().as_os_str(), "elsewhere/");
        tree.link(Path::new("a/b/c"), OsStr::new("x")).unwrap();
        assert!(tree.link(Path::new("a/b"), OsStr::new("x")).is_err());
        assert_eq!(fs::read_dir(out.join("a")).unwrap().count(), 1, "a part is left");
        assert_eq!(fs::read_to_string(other.join("f")).unwrap(), "theirs");
        assert_eq!(fs::read_dir(&other).unwrap().count(), 1);
    }

    #[test]
    fn plain_names() {
        for (name, plain) in [("a", true), ("a/b.c", true), ("a//b", false), ("/a", false)] {
            assert_eq!(is_plain(name), plain, "{name}");
        }
        assert!(!is_plain("a/../b") && !is_plain("") && !is_plain(".") && !is_plain("a\0"));
    }
}
