//! Context of a volume: a pool, fresh ids, the time.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use kiln_pool::{GetRequest, Pool, PutRequest};
use kiln_store::StoreError;
use kiln_stripe::{Buffers, Observer, PoolError, Result, Settings, Silent, Source, StreamSource};

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

    /// Reads an object, of a long one the start: the identity of its data, and that.
    pub(crate) fn read(&self, name: &str, most: u64) -> Result<([u8; 16], Vec<u8>)> {
        self.with(|pool| {
            loop {
                let (manifest, mut text) = (pool.manifest(name)?, Vec::new());
                let req = GetRequest { name, range: Some(0..most) };
                pool.get(&req, &mut text, &self.settings(&Silent))?;
                // It may have been replaced between the two.
                if pool.manifest(name)?.run == manifest.run {
                    return Ok((manifest.run, text));
                }
            }
        })
    }

    /// Puts a small object over the data that the caller knows (`None`: nothing); gives the
    /// identity of the new, `None` where it is other data.
    pub(crate) fn replace(
        &self,
        name: &str,
        over: Option<[u8; 16]>,
        text: &str,
    ) -> Result<Option<[u8; 16]>> {
        let run = self.id();
        let put = self.with(|pool| {
            let req = PutRequest { name, run, now_ms: self.now_ms(), replace: true };
            let mut source = StreamSource::new(text.as_bytes()).with_size(text.len() as u64);
            pool.writer().put_over(&req, over, &mut source, &self.settings(&Silent))
        });
        match put {
            Ok(_) => Ok(Some(run)),
            // It may be there all the same: then it is ours.
            Err(error @ (PoolError::Conflict { .. } | PoolError::UnderReplicated { .. })) => {
                match self.with(|pool| pool.manifest(name)) {
                    Ok(found) => Ok((found.run == run).then_some(run)),
                    Err(PoolError::NoObject { .. }) => Ok(None),
                    Err(_) => Err(error),
                }
            }
            Err(error) => Err(error),
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
        self.remove_each(&[(name, None)])
    }

    /// Removes an object, if its data is what the caller knows.
    pub(crate) fn remove_over(&self, name: &str, run: [u8; 16]) -> Result<()> {
        self.remove_each(&[(name, Some(run))])
    }

    /// Removes objects, those that are there; they share locks and syncs.
    pub(crate) fn remove_all(&self, names: &[String]) -> Result<()> {
        self.remove_each(&names.iter().map(|name| (&name[..], None)).collect::<Vec<_>>())
    }

    fn remove_each(&self, objects: &[(&str, Option<[u8; 16]>)]) -> Result<()> {
        self.with(|pool| {
            let objects: Vec<_> =
                objects.iter().map(|(name, run)| (*name, self.id(), *run)).collect();
            let ends =
                pool.writer().remove_all(&objects, self.now_ms(), &self.settings(&Silent))?;
            ends.into_iter().zip(&objects).try_for_each(|(end, (.., known))| match end {
                Err(PoolError::NoObject { .. }) => Ok(()),
                Err(PoolError::Conflict { .. }) if known.is_some() => Ok(()),
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
