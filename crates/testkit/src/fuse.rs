//! Disks that fail at one moment of all that is done with them: the power goes, an operation
//! fails, one of them is full or lost, or another writer comes in between.

use std::sync::atomic::{AtomicI64, Ordering};
use std::{fmt, io::ErrorKind, sync::Arc};

use kiln_store::{Backend, MemoryBackend, Operation};
use parking_lot::Mutex;

use crate::faulty::{Access, FaultAction, Faults, Struck};

/// The failure of a [`Fuse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    /// Nothing works any more, anywhere.
    Kill,
    /// One operation fails.
    Error,
    /// A disk has no room from then on.
    Full,
    /// A disk does nothing any more.
    Lost,
    /// Nothing fails, but another writer acts at that moment.
    Rival,
}

type Act = Box<dyn FnOnce() + Send>;

/// Counts operations that change something, on all disks together, and strikes at one of them.
pub struct Fuse {
    failing: Failing,
    left: AtomicI64,
    struck: Mutex<Option<String>>,
    rival: Mutex<Option<Act>>,
    /// Locks of places that are held: a rival would wait for them.
    locks: Arc<()>,
}

impl fmt::Debug for Fuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} after {:?}", self.failing, self.left)
    }
}

impl Fuse {
    /// Strikes after so many operations.
    #[must_use]
    pub fn new(failing: Failing, after: i64) -> Arc<Fuse> {
        let (left, struck, rival) = (AtomicI64::new(after), Mutex::default(), Mutex::default());
        Arc::new(Fuse { failing, left, struck, rival, locks: Arc::default() })
    }

    /// Sets what a rival does at its moment.
    pub fn then(&self, act: impl FnOnce() + Send + 'static) {
        *self.rival.lock() = Some(Box::new(act));
    }

    /// Operations that could still pass.
    pub fn left(&self) -> i64 {
        self.left.load(Ordering::SeqCst)
    }

    /// The disk that was struck.
    pub fn struck(&self) -> Option<String> {
        self.struck.lock().clone()
    }

    /// Puts the fuse to a disk.
    pub fn wrap(self: &Arc<Fuse>, disk: &str, inner: Arc<dyn Backend>) -> Arc<dyn Backend> {
        self.fused(disk, inner, None)
    }

    /// Puts the fuse to a disk over `memory`, reached through `inner`. Files that are written
    /// together, and names that are given together, share a sync, before which none is durable.
    pub fn wrap_together(
        self: &Arc<Fuse>,
        disk: &str,
        inner: Arc<dyn Backend>,
        memory: MemoryBackend,
    ) -> Arc<dyn Backend> {
        self.fused(disk, inner, Some(memory))
    }

    fn fused(
        self: &Arc<Fuse>,
        disk: &str,
        inner: Arc<dyn Backend>,
        memory: Option<MemoryBackend>,
    ) -> Arc<dyn Backend> {
        let faults = Arc::new(DiskFuse { fuse: Arc::clone(self), disk: disk.to_owned(), memory });
        Arc::new(Struck { inner, faults })
    }

    fn fails(&self, disk: &str, op: Operation) -> Option<ErrorKind> {
        use Operation::{Complete, Create, Remove, Rename, Sync, Write};
        let changes = matches!(op, Create | Write | Sync | Complete | Rename | Remove);
        let left = if changes { self.left.fetch_sub(1, Ordering::SeqCst) } else { self.left() };
        if self.failing == Failing::Rival {
            let due = changes && left <= 0 && Arc::strong_count(&self.locks) == 1;
            let act = if due { self.rival.lock().take() } else { None };
            act.into_iter().for_each(|act| act());
            return None;
        }
        let mut struck = self.struck.lock();
        let now = changes && left == 0;
        if now {
            *struck = Some(disk.to_owned());
        }
        let here = struck.as_deref() == Some(disk);
        let failed = match self.failing {
            Failing::Kill => struck.is_some(),
            Failing::Error => now,
            Failing::Full => now || (here && matches!(op, Create | Write)),
            Failing::Lost => here,
            Failing::Rival => false,
        };
        let full = self.failing == Failing::Full;
        failed.then_some(if full { ErrorKind::StorageFull } else { ErrorKind::Other })
    }
}

#[derive(Debug)]
struct DiskFuse {
    fuse: Arc<Fuse>,
    disk: String,
    memory: Option<MemoryBackend>,
}

impl Faults for DiskFuse {
    fn strike(&self, access: &Access<'_>) -> Vec<FaultAction> {
        let failed = self.fuse.fails(&self.disk, access.operation);
        failed.map(FaultAction::Fail).into_iter().collect()
    }

    fn batches(&self) -> bool {
        self.memory.is_some()
    }

    fn names(&self) -> Option<&MemoryBackend> {
        self.memory.as_ref()
    }

    fn lock_token(&self) -> Option<Arc<()>> {
        Some(Arc::clone(&self.fuse.locks))
    }
}
