//! A whole file system, made durable at once.
//!
//! `fsync` of each of many small files costs each a turn of the file system's journal and a flush
//! of the device's cache. `syncfs` writes everything that the file system has not yet written, what
//! other programs left there too, and then does both once. So it is for many files at a time.
//!
//! Several folders may lie on one file system, and several threads write to them at a time. They
//! share its syncs: whoever wants one while another runs waits for the next, which is for all who
//! wait; and where others are in the middle of writing, a moment is left to them. What was written
//! before a sync began is durable when it ends.
//!
//! A file system is used this way where `syncfs` is as good as `fsync`: on local file systems that
//! are known here, for which it ends in a commit and a flush, and on Linux 5.8 or later, which
//! tells of every write that failed since the file system was opened, whichever file it was of.
//! Others, as those over a network or of a process (FUSE), may answer before anything is durable.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use std::{collections::BTreeMap, fs::File, io, os::unix::fs::MetadataExt, path::Path};

/// Time that a sync waits for other writers: about the cost of a sync.
const PATIENCE: Duration = Duration::from_millis(5);

/// Somebody who is about to write to a file system and wants that to be durable.
#[derive(Debug)]
pub struct FileSystem {
    shared: Arc<Shared>,
    /// Syncs that had failed before this one began to write.
    failed: u64,
}

/// A file system that this process writes to.
#[derive(Debug)]
struct Shared {
    /// It stays open as long as anybody writes: the system tells each opened file of a failed write
    /// once.
    folder: File,
    syncs: Mutex<Syncs>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Syncs {
    /// Threads that wait for a sync.
    waiting: usize,
    begun: u64,
    done: u64,
    running: bool,
    failed: u64,
    /// Why the last of them failed, as the system numbers it.
    error: Option<i32>,
}

/// File systems in use, by device.
static IN_USE: Mutex<BTreeMap<u64, Weak<Shared>>> = Mutex::new(BTreeMap::new());

impl FileSystem {
    /// The file system of a folder, before the first byte is written to it: what fails from now on
    /// is told. `None`: its files are to be synced one by one.
    pub fn open(folder: &Path) -> Option<FileSystem> {
        let folder = File::open(folder).ok()?;
        if !is_trusted(&folder) {
            return None;
        }
        let device = folder.metadata().ok()?.dev();
        let mut in_use = IN_USE.lock();
        in_use.retain(|_, shared| shared.strong_count() > 0);
        let shared = in_use.get(&device).and_then(Weak::upgrade).unwrap_or_else(|| {
            let shared = Shared { folder, syncs: Mutex::default(), ended: Condvar::new() };
            let shared = Arc::new(shared);
            in_use.insert(device, Arc::downgrade(&shared));
            shared
        });
        let failed = shared.syncs().failed;
        Some(FileSystem { shared, failed })
    }

    /// Makes durable what was written to it before, or tells that something could not be written
    /// since it was opened, be it by another one who writes there.
    pub fn sync(&self) -> io::Result<()> {
        // Those who hold it are writing, or wait as well.
        let writers = || Arc::strong_count(&self.shared);
        self.shared.sync(self.failed, writers, || sync(&self.shared.folder))
    }
}

impl Shared {
    fn syncs(&self) -> MutexGuard<'_, Syncs> {
        self.syncs.lock()
    }

    /// `writers` counts those who write now or wait, the caller among them.
    fn sync(
        &self,
        failed: u64,
        writers: impl Fn() -> usize,
        act: impl Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        let mut syncs = self.syncs();
        syncs.waiting += 1;
        self.ended.notify_all();
        let began = Instant::now();
        // One that runs may have passed by what the caller wrote.
        let mine = syncs.begun + 1;
        while syncs.done < mine {
            if syncs.running {
                self.ended.wait(&mut syncs);
                continue;
            }
            // Others who write now are about to want one: one for all is shorter than two.
            let left = PATIENCE.saturating_sub(began.elapsed());
            if syncs.waiting < writers() && !left.is_zero() {
                self.ended.wait_for(&mut syncs, left);
                continue;
            }
            syncs.running = true;
            syncs.begun += 1;
            drop(syncs);
            let end = act();
            syncs = self.syncs();
            (syncs.running, syncs.done) = (false, syncs.begun);
            if let Err(error) = end {
                syncs.failed += 1;
                syncs.error = error.raw_os_error();
            }
            self.ended.notify_all();
        }
        syncs.waiting -= 1;
        // A failure is told to one sync only, so it counts for all who were writing meanwhile.
        match (syncs.failed == failed, syncs.error) {
            (true, _) => Ok(()),
            (false, Some(number)) => Err(io::Error::from_raw_os_error(number)),
            (false, None) => Err(io::Error::other("a sync of the file system failed")),
        }
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

/// Returns whether `syncfs` of this release of Linux fails where a write of a page failed: from 5.8
/// on.
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
        assert!(FileSystem::open("/proc".as_ref()).is_none());
        assert!(FileSystem::open("/nowhere".as_ref()).is_none());
        let root = tempfile::tempdir().unwrap();
        if let Some(files) = FileSystem::open(root.path()) {
            files.sync().unwrap();
        }
    }

    /// One sync for all who wait, never one that began before what it is to make durable; a failure
    /// is everybody's who was writing, and nobody's who begins later.
    #[test]
    fn syncs_are_shared_and_so_are_their_failures() {
        use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
        let folder = File::open(".").unwrap();
        let shared = Shared { folder, syncs: Mutex::default(), ended: Condvar::new() };
        let (written, durable, calls) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let mine = written.fetch_add(1, SeqCst) + 1;
                        shared
                            .sync(
                                0,
                                || 8,
                                || {
                                    calls.fetch_add(1, SeqCst);
                                    let now = written.load(SeqCst);
                                    std::thread::yield_now();
                                    durable.fetch_max(now, SeqCst);
                                    Ok(())
                                },
                            )
                            .unwrap();
                        assert!(durable.load(SeqCst) >= mine);
                    }
                });
            }
        });
        assert!(calls.load(SeqCst) <= 1600);
        let fails = || Err(io::Error::from_raw_os_error(5));
        assert_eq!(shared.sync(0, || 1, fails).unwrap_err().raw_os_error(), Some(5));
        // Somebody who wrote while that one failed, and whose own sync would find nothing wrong.
        assert_eq!(shared.sync(0, || 1, || Ok(())).unwrap_err().raw_os_error(), Some(5));
        shared.sync(1, || 1, || Ok(())).unwrap();
    }
}
