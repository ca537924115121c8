//! A folder that outputs are written below. Names are resolved one by one and no link below the
//! folder is followed, so nothing outside of it is written or changed.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::{io, os::unix::ffi::OsStringExt, os::unix::fs::PermissionsExt, sync::Arc};

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Uid, chownat, linkat, mkdirat, openat, readlinkat, renameat,
    statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use super::kept::{Kept, note, sets_owners};
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
    /// The folder was not there before.
    made: bool,
}

impl OutputTree {
    /// Opens a folder, made where absent. It may be named by a link; those below it may not.
    pub fn open(path: &Path) -> io::Result<OutputTree> {
        let made = !path.exists();
        std::fs::create_dir_all(path)?;
        Ok(OutputTree { root: Arc::new(folder_of(path)?), path: path.to_owned(), made })
    }

    /// Sets metadata of the folder itself where it was made here; without any, it gets what the
    /// caller's umask leaves.
    pub fn set_root(&self, kept: Option<Kept>) -> io::Result<()> {
        if !self.made {
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(&self.root, ".", flags, Mode::empty())?;
        kept.unwrap_or_else(|| Kept::new(folder_mode(), None)).apply_all(&File::from(root))
    }

    /// The folder's path, for messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a folder below; with `make` it and those above it are made where absent.
    /// Errors: `InvalidInput` for names that lead out; `NotADirectory` for a link or a file in the
    /// way.
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
    /// Errors: as [`OutputTree::folder`]; a folder of its name.
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
    /// Errors: as [`OutputTree::folder`]; `NotFound`.
    pub fn read_link(&self, inside: &Path) -> io::Result<Option<OsString>> {
        let slot = self.found(inside, false)?;
        match readlinkat(&slot.folder, &*slot.name, Vec::new()) {
            Ok(target) => Ok(Some(OsString::from_vec(target.into_bytes()))),
            Err(Errno::INVAL) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives a file below another name.
    /// Errors: as [`OutputTree::folder`]; something of that name.
    pub fn hard_link(&self, of: &Path, inside: &Path) -> io::Result<()> {
        let (of, to) = (self.found(of, false)?, self.slot(inside)?);
        Ok(linkat(&of.folder, &*of.name, &to.folder, &*to.name, AtFlags::empty())?)
    }

    /// Sets metadata of a file or folder below; links are left alone.
    pub fn set(&self, inside: &Path, kept: &Kept) -> io::Result<()> {
        let slot = self.found(inside, false)?;
        if !kept.is_mode() {
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
            kept.apply(&File::from(file?))?;
        }
        set_mode(&slot.folder, &slot.name, kept.mode)
    }

    /// Gives a link below to its owner, where this process may.
    pub fn set_owner_of_link(&self, inside: &Path, owner: Option<(u32, u32)>) {
        let Some((user, group)) = owner.filter(|_| sets_owners()) else { return };
        let (user, group) = (Some(Uid::from_raw(user)), Some(Gid::from_raw(group)));
        note(
            "owners",
            self.found(inside, false).and_then(|slot| {
                Ok(chownat(&slot.folder, &*slot.name, user, group, AtFlags::SYMLINK_NOFOLLOW)?)
            }),
        );
    }

    /// Gives a file or link below the same name below another folder, in place of a file there.
    /// Errors: as [`OutputTree::folder`]; the other one is on another file system.
    pub fn link_into(&self, inside: &Path, other: &OutputTree) -> io::Result<()> {
        let (of, to) = (self.found(inside, false)?, other.slot(inside)?);
        match unlinkat(&to.folder, &*to.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(linkat(&of.folder, &*of.name, &to.folder, &*to.name, AtFlags::empty())?)
    }

    /// Returns whether nothing has a name below.
    pub fn is_free(&self, inside: &Path) -> bool {
        let look = |slot: Slot| Ok(statat(&slot.folder, &*slot.name, AtFlags::SYMLINK_NOFOLLOW)?);
        let found = self.found(inside, false).and_then(look);
        found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Gives a file below another name, in place of a file or link that has it.
    /// Errors: as [`OutputTree::folder`]; a folder of its name.
    pub fn hard_link_over(&self, of: &Path, inside: &Path) -> io::Result<()> {
        let (of, to) = (self.found(of, false)?, self.slot(inside)?);
        let part = output_part(&to.name);
        let _ = unlinkat(&to.folder, &part, AtFlags::empty());
        linkat(&of.folder, &*of.name, &to.folder, &part, AtFlags::empty())?;
        let renamed = renameat(&to.folder, &part, &to.folder, &*to.name);
        // Two names of one file are not renamed: the first one stays.
        let _ = unlinkat(&to.folder, &part, AtFlags::empty());
        Ok(renamed?)
    }

    /// Removes a file, a link or an empty folder below.
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
    use std::{fs, os::unix::fs::symlink};

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
        tree.set(Path::new("file"), &Kept::new(0o600, None)).unwrap();
        assert_eq!(fs::metadata(other.join("f")).unwrap().permissions().mode() & 0o077, 0o044);
        let kept = Kept::new(0o600, Some(std::time::SystemTime::UNIX_EPOCH));
        assert!(tree.set(Path::new("file"), &kept).is_err());
        tree.link(Path::new("file"), OsStr::new("elsewhere/")).unwrap();
        assert_eq!(fs::read_link(out.join("file")).unwrap().as_os_str(), "elsewhere/");
        tree.link(Path::new("a/b/c"), OsStr::new("x")).unwrap();
        assert!(tree.link(Path::new("a/b"), OsStr::new("x")).is_err());
        assert_eq!(fs::read_dir(out.join("a")).unwrap().count(), 1, "a part is left");
        assert_eq!(fs::read_to_string(other.join("f")).unwrap(), "theirs");
        assert_eq!(fs::read_dir(&other).unwrap().count(), 1);
        for (name, plain) in [("a", true), ("a/b.c", true), ("a//b", false), ("/a", false)] {
            assert_eq!(is_plain(name), plain, "{name}");
        }
        assert!(!is_plain("a/../b") && !is_plain("") && !is_plain(".") && !is_plain("a\0"));
    }
}
