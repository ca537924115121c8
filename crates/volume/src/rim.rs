//! Context of a volume: a pool, fresh ids, the time.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use kiln_pool::{Pool, PutRequest};
use kiln_store::StoreError;
use kiln_stripe::{Buffers, Observer, PoolError, Result, Settings, Silent, Source};

/// Opens a pool again, after its map has changed or a node has failed.
pub type Reopen = Box<dyn Fn() -> Result<Pool> + Send + Sync>;

/// Bytes of stripes that a put or a read of a segment may take, and of those that are kept from one
/// to the next.
const MEMORY: usize = 64 << 20;

/// Retries while nodes fail or the pool's map changes.
const RETRIES: usize = 5;

/// Context of a volume: its pool, fresh ids, the time.
pub struct Rim {
    pool: RwLock<Arc<Pool>>,
    reopen: Option<Reopen>,
    buffers: Arc<Buffers>,
    id: Box<dyn Fn() -> [u8; 16] + Send + Sync>,
    now_ms: Box<dyn Fn() -> u64 + Send + Sync>,
    pub(crate) threads: bool,
}

impl fmt::Debug for Rim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rim").field(&self.pool().config().name).finish()
    }
}

impl Rim {
    /// A pool; `id` gives a fresh random identity each time, `now_ms` the time in ms since 1970.
    pub fn new(
        pool: Pool,
        id: impl Fn() -> [u8; 16] + Send + Sync + 'static,
        now_ms: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Rim {
        let (pool, buffers) = (RwLock::new(Arc::new(pool)), Arc::new(Buffers::new(MEMORY)));
        Rim {
            pool,
            reopen: None,
            buffers,
            id: Box::new(id),
            now_ms: Box::new(now_ms),
            threads: true,
        }
    }

    /// With a way to open the pool again when its members have changed.
    #[must_use]
    pub fn reopening(self, reopen: Reopen) -> Rim {
        Rim { reopen: Some(reopen), ..self }
    }

    /// Everything on the caller's thread: for simulations, with a pool that does the same.
    #[must_use]
    pub fn in_sequence(self) -> Rim {
        Rim { threads: false, ..self }
    }

    /// The pool as it is open now.
    pub fn pool(&self) -> Arc<Pool> {
        self.pool.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn id(&self) -> [u8; 16] {
        (self.id)()
    }

    pub(crate) fn now_ms(&self) -> u64 {
        (self.now_ms)()
    }

    /// Does something with the pool; where its map has changed, or a node fails, with the pool
    /// opened again: nodes that cannot be used are then known to be such.
    pub(crate) fn with<T>(&self, act: impl Fn(&Pool) -> Result<T>) -> Result<T> {
        let mut tries = 0;
        loop {
            match act(&self.pool()) {
                Err(error) if self.reopen.is_some() && tries < RETRIES && may_pass(&error) => {
                    self.open_again()?;
                    tries += 1;
                }
                // What a pool knows of its nodes is from when it was opened: they may be back. If
                // they are not, asking them again and again does not help.
                Err(error) if self.reopen.is_some() && tries == 0 && lacks_nodes(&error) => {
                    self.open_again()?;
                    tries = RETRIES;
                }
                end => return end,
            }
        }
    }

    /// Opens the pool again where it could not use a node so far, which may be back.
    pub(crate) fn look_for_nodes(&self) -> Result<()> {
        match self.pool().found_away().is_empty() {
            true => Ok(()),
            false => self.open_again(),
        }
    }

    fn open_again(&self) -> Result<()> {
        if let Some(reopen) = &self.reopen {
            let pool = Arc::new(reopen()?);
            *self.pool.write().unwrap_or_else(PoisonError::into_inner) = pool;
        }
        Ok(())
    }

    pub(crate) fn settings<'a>(&'a self, observer: &'a dyn Observer) -> Settings<'a> {
        let settings = Settings::new(observer);
        // A segment is small, and clients want the processor too.
        Settings {
            threads: settings.threads.min(2),
            memory: MEMORY as u64,
            buffers: Some(&self.buffers),
            ..settings
        }
    }

    /// Puts an object, over whatever has its name; `source` gives its bytes from the start.
    pub(crate) fn put<S: Source>(&self, name: &str, source: impl Fn() -> S) -> Result<()> {
        self.put_with(name, source, &self.settings(&Silent))
    }

    /// As [`Rim::put`], with other settings.
    pub(crate) fn put_with<S: Source>(
        &self,
        name: &str,
        source: impl Fn() -> S,
        settings: &Settings<'_>,
    ) -> Result<()> {
        self.with(|pool| {
            let (run, now_ms) = (self.id(), self.now_ms());
            let req = PutRequest { name, run, now_ms, replace: true };
            pool.put(&req, &mut source(), settings).map(drop)
        })
    }

    /// Removes an object, if it is there.
    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        self.remove_all(&[name])
    }

    /// Removes objects, those that are there; they share locks and syncs.
    pub(crate) fn remove_all(&self, names: &[&str]) -> Result<()> {
        self.with(|pool| {
            let objects: Vec<_> = names.iter().map(|name| (*name, self.id(), None)).collect();
            let ends =
                pool.writer().remove_all(&objects, self.now_ms(), &self.settings(&Silent))?;
            ends.into_iter().try_for_each(|end| match end {
                Err(PoolError::NoObject { .. }) => Ok(()),
                end => end,
            })
        })
    }
}

/// Returns whether nodes are lacking that may be back.
fn lacks_nodes(error: &PoolError) -> bool {
    matches!(
        error,
        PoolError::Uncertain { .. } | PoolError::Unavailable { .. } | PoolError::NoNodes { .. }
    )
}

/// Returns whether the pool, opened again, may do what it could not do.
fn may_pass(error: &PoolError) -> bool {
    match error {
        PoolError::MapChanged { .. } => true,
        PoolError::Store(error @ StoreError::Io { .. }) => {
            !error.is_full() && !error.is_not_found()
        }
        _ => false,
    }
}
