//! A whole file system, made durable at once.
//!
//! `fsync` of each of many small files costs each a turn of the file system's journal and a flush
//! of the device's cache. `syncfs` writes everything that the file system has not yet written, what
//! other programs left there too, and then does both once. So it is for many files at a time.
//!
//! A file system is used this way where `syncfs` is as good as `fsync`: on local file systems that
//! are known here, for which it ends in a commit and a flush, and on Linux 5.8 or later, which
//! tells of every write that failed since the file system was opened, whichever file it was of.
//! Others, as those over a network or of a process (FUSE), may answer before anything is durable.

use std::fs::File;
use std::io;
use std::path::Path;

/// A file system, opened.
#[derive(Debug)]
pub(super) struct Volume(File);

impl Volume {
    /// The file system of a folder; `None`: its files are to be synced one by one.
    pub(super) fn open(folder: &Path) -> Option<Volume> {
        let folder = File::open(folder).ok()?;
        is_trusted(&folder).then_some(Volume(folder))
    }

    /// Makes durable what was written to it before, or tells of what could not be written since it
    /// was opened.
    pub(super) fn sync(&self) -> io::Result<()> {
        sync(&self.0)
    }
}

#[cfg(target_os = "linux")]
fn is_trusted(folder: &File) -> bool {
    /// Numbers of file systems, as `statfs` gives them: ext2 to ext4, XFS, Btrfs, F2FS.
    const KNOWN: [u64; 4] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010];
    static RELEASE: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    let told = *RELEASE.get_or_init(|| {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
        release.is_ok_and(|release| tells_of_failures(&release))
    });
    let number = |found: rustix::fs::StatFs| found.f_type as u64 & 0xFFFF_FFFF;
    told && rustix::fs::fstatfs(folder).is_ok_and(|found| KNOWN.contains(&number(found)))
}

#[cfg(target_os = "linux")]
fn sync(folder: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(folder)?)
}

#[cfg(not(target_os = "linux"))]
fn is_trusted(_: &File) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
fn sync(folder: &File) -> io::Result<()> {
    folder.sync_all()
}

/// Whether `syncfs` of this release of Linux fails where a write of a page failed: from 5.8 on.
#[cfg(target_os = "linux")]
fn tells_of_failures(release: &str) -> bool {
    let mut numbers = release.split(|at: char| !at.is_ascii_digit()).map(str::parse::<u32>);
    matches!((numbers.next(), numbers.next()), (Some(Ok(a)), Some(Ok(b))) if (a, b) >= (5, 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn only_a_kernel_that_tells_of_failures_is_trusted() {
        for release in ["5.8.0", "5.10.0-28-amd64", "6.1", "6.18.44-fc-v595\n", "10.0"] {
            assert!(tells_of_failures(release), "{release}");
        }
        for release in ["5.7.19", "4.19.0-27-amd64", "5", "", "a.b"] {
            assert!(!tells_of_failures(release), "{release}");
        }
    }

    #[test]
    fn file_systems_that_are_not_known_are_synced_file_by_file() {
        assert!(Volume::open("/proc".as_ref()).is_none());
        assert!(Volume::open("/nowhere".as_ref()).is_none());
        let root = tempfile::tempdir().unwrap();
        if let Some(volume) = Volume::open(root.path()) {
            volume.sync().unwrap();
        }
    }
}
