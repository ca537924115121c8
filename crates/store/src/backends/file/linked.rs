//! Files that are replaced behind symbolic links: a shard that lies on another disk stays there.

use super::{FileBackend, sync_folder};
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::{io, os::unix::fs::OpenOptionsExt};

/// Links that lead from one to the next.
const MAX_LINKS: usize = 40;

impl FileBackend {
    /// Renames a file of the folder; where a link has the new name, the file that it names is
    /// replaced, durably, and the link stays. Confined folders have no links: there it is replaced.
    pub(super) fn rename_over(&self, source: &Path, target: &Path) -> io::Result<()> {
        let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|found| found.is_symlink());
        if self.confined || !is_link(target) {
            return fs::rename(source, target);
        }
        let mut real = target.to_owned();
        for _ in 0..MAX_LINKS {
            if !is_link(&real) {
                return replace(source, &real);
            }
            let named = fs::read_link(&real)?;
            real = real.parent().unwrap_or(Path::new("")).join(named);
        }
        Err(rustix::io::Errno::LOOP.into())
    }
}

/// Moves a file over another one, which may be on another file system.
fn replace(source: &Path, target: &Path) -> io::Result<()> {
    match fs::rename(source, target) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            let mut part = target.as_os_str().to_owned();
            part.push(".part");
            let part = PathBuf::from(part);
            copy(source, &part).and_then(|()| fs::rename(&part, target)).inspect_err(|_| {
                let _ = fs::remove_file(&part);
            })?;
            let folder = target.parent().filter(|folder| *folder != Path::new(""));
            sync_folder(folder.unwrap_or(Path::new(".")))?;
            fs::remove_file(source)
        }
        Ok(()) => {
            let folder = target.parent().filter(|folder| *folder != Path::new(""));
            sync_folder(folder.unwrap_or(Path::new(".")))
        }
        failed => failed,
    }
}

/// Copies into a new file, durably.
fn copy(source: &Path, part: &Path) -> io::Result<()> {
    let mut from = File::open(source)?;
    match fs::remove_file(part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(part)?;
    io::copy(&mut from, &mut to)?;
    to.set_permissions(from.metadata()?.permissions())?;
    to.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::{Backend, write_whole};

    #[test]
    fn what_a_link_names_is_replaced_and_the_link_stays() {
        let (root, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let real = disk.path().join("real");
        fs::write(&real, b"old").unwrap();
        symlink(&real, disk.path().join("hop")).unwrap();
        symlink(disk.path().join("hop"), root.path().join("a")).unwrap();
        symlink("to/nowhere", root.path().join("lost")).unwrap();
        symlink("loop", root.path().join("loop")).unwrap();
        let folder = FileBackend::open(root.path()).unwrap();
        write_whole(&folder, "a.part", b"new").unwrap();
        folder.rename("a.part", "a").unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert!(root.path().join("a").is_symlink() && !root.path().join("a.part").exists());
        write_whole(&folder, "b.part", b"new").unwrap();
        for target in ["lost", "loop"] {
            assert!(folder.rename("b.part", target).is_err());
            assert!(root.path().join("b.part").exists() && root.path().join(target).is_symlink());
        }
        let batch = folder.extensions().batch.unwrap();
        assert!(batch.rename_all(&[("b.part", "a")]).into_iter().all(|end| end.is_ok()));
        assert!(root.path().join("a").is_symlink());
        fs::write(root.path().join("c"), b"more").unwrap();
        copy(&root.path().join("c"), &disk.path().join("c.part")).unwrap();
        assert_eq!(fs::read(disk.path().join("c.part")).unwrap(), b"more");
    }
}
