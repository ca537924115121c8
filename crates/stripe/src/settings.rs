//! Resources and progress that a caller grants to an operation.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kiln_store::device::Devices;

use crate::{budget::Budget, buffers::Buffers, hedge::Hedge, sequence::Sequence};

/// Hears about progress, and may slow it down.
///
/// Calls come from several threads. [`Observer::advance`] may block: rate limits live there.
pub trait Observer: Sync {
    /// A phase starts ("encode", "scan", ...); `total_bytes` where it is known.
    fn begin(&self, _phase: &str, _total_bytes: Option<u64>) {}
    /// So many more bytes of the phase are done. May block to limit the rate.
    fn advance(&self, _bytes: u64) {}
    /// Something the user should know although the operation goes on.
    fn warn(&self, _message: &str) {}
}

/// An observer that says nothing.
#[derive(Copy, Clone, Debug, Default)]
pub struct Silent;

impl Observer for Silent {}

/// Progress of many objects as one: phases of single objects are not told.
pub struct Quiet<'a>(pub &'a dyn Observer);

impl Observer for Quiet<'_> {
    fn advance(&self, bytes: u64) {
        self.0.advance(bytes);
    }

    fn warn(&self, message: &str) {
        self.0.warn(message);
    }
}

/// Resources of an operation.
#[derive(Copy, Clone)]
pub struct Settings<'a> {
    /// Worker threads, at least 1 (0 counts as 1).
    pub threads: usize,
    /// Bytes of stripe buffers. A pipeline has two stripes in flight at least, and takes as much as
    /// they need; of stripes that are each larger than this, one.
    pub memory: u64,
    /// Pool of the memory of stripes; without it, it is allocated anew.
    pub buffers: Option<&'a Arc<Buffers>>,
    /// Memory of stripes that puts share with others, and the size of stripes that they make.
    pub budget: Option<&'a Arc<Budget>>,
    /// True if written data is of no use in memory once the device has it. Data that is put or
    /// repaired is not read soon, and would take the place of what others read.
    pub drop_behind: bool,
    /// Hears about progress.
    pub observer: &'a dyn Observer,
    /// Everything on the caller's thread, in this order: for simulations.
    pub sequence: Option<&'a Sequence>,
    /// Longest wait for the locks of places; then the operation ends by
    /// [`crate::PoolError::Locked`].
    pub lock_wait: Duration,
    /// Costs of reads of repairs in pools, by ids of nodes: they are planned for it. Without it,
    /// and where a node has no device, every run is read by itself.
    pub devices: Option<&'a Devices>,
    /// Does not wait for reads that are late. Without it, and in simulations, all are waited for.
    pub hedge: Option<&'a Arc<Hedge>>,
}

impl<'a> Settings<'a> {
    /// All cores of this process, 192 MiB of buffers, and a minute for locks.
    pub fn new(observer: &'a dyn Observer) -> Settings<'a> {
        // The system answers this from files.
        static CORES: OnceLock<usize> = OnceLock::new();
        let cores = || std::thread::available_parallelism().map_or(1, |n| n.get());
        let threads = *CORES.get_or_init(cores);
        let lock_wait = Duration::from_secs(60);
        let memory = 192 << 20;
        let (buffers, budget, sequence, devices, hedge) = (None, None, None, None, None);
        Settings {
            threads,
            memory,
            buffers,
            budget,
            drop_behind: false,
            observer,
            sequence,
            lock_wait,
            devices,
            hedge,
        }
    }

    /// Returns the number of threads, within what a pool of threads accepts.
    pub fn threads(&self) -> usize {
        self.threads.clamp(1, 1024)
    }
}
