//! The pool under the server: records and data in it, and a list of their names.

use std::sync::mpsc::{Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{collections::HashSet, fmt, io::Write, ops::Range};

use kiln_pool::{GetRequest, Index, Listed, MAX_TOGETHER, Manifest, Pool, PutRequest};
use kiln_stripe::{Budget, Buffers, PoolError, Settings, Silent, Source, StreamSource};
use serde::{Serialize, de::DeserializeOwned};

use crate::error::{Code, GateError, Result};
use crate::record;

/// Opens the pool again, after its map has changed or a node has failed.
pub type Reopen = Box<dyn Fn() -> Result<Pool, PoolError> + Send + Sync>;

/// Bytes of stripes of a put or get, and bytes that are kept from one to the next.
const MEMORY: u64 = 4 << 20;
const KEPT_MEMORY: usize = 32 << 20;
/// Bytes of stripes that all puts of data share, the most of one put, and of one stripe: 53 large
/// uploads have one each.
const PUTS_MEMORY: u64 = 80 << 20;
const MAX_PUT_MEMORY: u64 = 16 << 20;
const STRIPE: u64 = 3 << 19;
/// Times that a change starts again because another writer was faster.
pub(crate) const RETRIES: usize = 20;
/// Most objects whose data lies behind the record.
const MAX_SMALL: u64 = 60 << 10;

/// A pool that is served as buckets; all of its calls block.
pub struct Gate {
    pool: RwLock<Arc<Pool>>,
    reopen: Option<Reopen>,
    index: Mutex<Index>,
    epoch: Vec<u8>,
    buffers: Arc<Buffers>,
    /// Records that wait to be written, and the right to write them.
    waiting: Mutex<Vec<Waiting>>,
    writing: Mutex<()>,
    /// Memory of puts of data that are under way.
    budget: Arc<Budget>,
}

/// A record that waits to be written with those of other threads.
struct Waiting {
    name: String,
    run: [u8; 16],
    over: Option<[u8; 16]>,
    bytes: Arc<Vec<u8>>,
    tell: Sender<Ended>,
}

/// End of a write together with others; `None`: it is to be done alone.
type Ended = Option<Result<(), PoolError>>;

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gate").field(&self.pool().config().name).finish()
    }
}

/// A record with the identity by which it is replaced.
#[derive(Clone, Debug)]
pub(crate) struct Seen<T> {
    pub record: T,
    /// Identity of this version of it.
    pub run: [u8; 16],
    /// Bytes behind it.
    pub data: Vec<u8>,
}

/// End of a write that depends on what was there.
pub(crate) enum Written {
    /// It is in force, with this identity.
    Done([u8; 16]),
    /// Something else is there: look again.
    Conflict,
}

impl Gate {
    /// Serves a pool, with an index of its objects, which may be empty. `epoch` tells one boot of
    /// this machine from another, as [`Index::refresh`] wants it.
    pub fn new(pool: Pool, index: Index, epoch: &[u8]) -> Gate {
        Gate {
            pool: RwLock::new(Arc::new(pool)),
            reopen: None,
            index: Mutex::new(index),
            epoch: epoch.to_vec(),
            buffers: Arc::new(Buffers::new(KEPT_MEMORY)),
            waiting: Mutex::default(),
            writing: Mutex::default(),
            budget: Budget::new(PUTS_MEMORY, STRIPE),
        }
    }

    /// Adds a way to open the pool again when its members have changed.
    #[must_use]
    pub fn reopening(self, reopen: Reopen) -> Gate {
        Gate { reopen: Some(reopen), ..self }
    }

    /// Returns the pool as it is open now.
    pub fn pool(&self) -> Arc<Pool> {
        self.pool.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens the pool again where it could not use a node so far, which may be back.
    pub fn look_for_nodes(&self) -> Result<()> {
        match self.pool().found_away().is_empty() {
            true => Ok(()),
            false => Ok(self.open_again()?),
        }
    }

    fn open_again(&self) -> Result<(), PoolError> {
        if let Some(reopen) = &self.reopen {
            let pool = Arc::new(reopen()?);
            *self.pool.write().unwrap_or_else(PoisonError::into_inner) = pool;
        }
        Ok(())
    }

    /// Does something with the pool, once more with the pool opened again where that may help.
    pub(crate) fn with<T>(
        &self,
        mut act: impl FnMut(&Pool) -> Result<T, PoolError>,
    ) -> Result<T, PoolError> {
        match act(&self.pool()) {
            Err(error) if self.reopen.is_some() && may_pass(&error) => {
                self.open_again()?;
                act(&self.pool())
            }
            end => end,
        }
    }

    /// Returns the memory that puts of data share.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    pub(crate) fn settings(&self) -> Settings<'_> {
        let settings = Settings::new(&Silent);
        Settings {
            threads: settings.threads.min(2),
            memory: MEMORY,
            buffers: Some(&self.buffers),
            ..settings
        }
    }

    /// Reads a record; `None`: there is none.
    pub(crate) fn see<T: DeserializeOwned>(&self, name: &str) -> Result<Option<Seen<T>>> {
        let found = self.with(|pool| {
            let manifest = match pool.manifest(name) {
                Err(PoolError::NoObject { .. }) => return Ok(None),
                manifest => manifest?,
            };
            match whole(pool, &manifest, &self.settings()) {
                // It was removed after the look.
                Err(PoolError::NoObject { .. }) => Ok(None),
                bytes => Ok(Some((bytes?, manifest.run))),
            }
        })?;
        let Some((mut data, run)) = found else { return Ok(None) };
        let (record, at) = record::from_bytes(&data)?;
        data.drain(..at);
        Ok(Some(Seen { record, run, data }))
    }

    /// Reads many records, in order; those that are gone are left out.
    pub(crate) fn see_all<T: DeserializeOwned>(&self, names: &[String]) -> Result<Vec<Option<T>>> {
        let mut all = Vec::with_capacity(names.len());
        for names in names.chunks(MAX_TOGETHER) {
            let read = self.with(|pool| {
                let mut bytes: Vec<Vec<u8>> = names.iter().map(|_| Vec::new()).collect();
                let gets = names.iter().zip(&mut bytes);
                let gets = gets.map(|(name, out)| (GetRequest { name, range: None }, out));
                let ends = pool.reader().read_all(gets.collect(), &self.settings())?;
                let again = |end| match end {
                    Err(error) if may_pass(&error) => Err(error),
                    end => Ok(end),
                };
                let ends = ends.into_iter().map(again).collect::<Result<Vec<_>, _>>()?;
                Ok(ends.into_iter().zip(bytes).collect::<Vec<_>>())
            })?;
            for (end, bytes) in read {
                match end {
                    Ok(_) => all.push(Some(record::from_bytes(&bytes)?.0)),
                    Err(PoolError::NoObject { .. }) => all.push(None),
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(all)
    }

    /// Writes a record over the version that was seen, or where there was none.
    pub(crate) fn write(
        &self,
        name: &str,
        record: &impl Serialize,
        data: &[u8],
        over: Option<[u8; 16]>,
    ) -> Result<Written> {
        self.write_as(fresh(), name, record, data, over)
    }

    /// As [`Gate::write`], under an identity that is fresh.
    pub(crate) fn write_as(
        &self,
        run: [u8; 16],
        name: &str,
        record: &impl Serialize,
        data: &[u8],
        over: Option<[u8; 16]>,
    ) -> Result<Written> {
        let bytes = Arc::new(record::to_bytes(record, data)?);
        let alone = || {
            self.with(|pool| {
                let req = PutRequest { name, run, now_ms: now_ms(), replace: false };
                let mut source = StreamSource::new(&bytes[..]).with_size(bytes.len() as u64);
                pool.writer().put_over(&req, over, &mut source, &self.settings()).map(drop)
            })
        };
        let end = match self.write_together(name, run, over, &bytes) {
            Some(Err(error)) if may_pass(&error) => alone(),
            end => end.unwrap_or_else(alone),
        };
        match end {
            Ok(()) => Ok(Written::Done(run)),
            // An earlier try, through a pool that was opened again since, may have been it.
            Err(PoolError::Conflict { .. }) => match self.with(|pool| pool.manifest(name)) {
                Ok(manifest) if manifest.run == run => Ok(Written::Done(run)),
                _ => Ok(Written::Conflict),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a record together with those of other threads, or leaves that to one of them: in
    /// one commit they share locks, questions and syncs.
    fn write_together(
        &self,
        name: &str,
        run: [u8; 16],
        over: Option<[u8; 16]>,
        bytes: &Arc<Vec<u8>>,
    ) -> Ended {
        let (tell, told) = channel();
        let (name, bytes) = (name.to_owned(), Arc::clone(bytes));
        locked(&self.waiting).push(Waiting { name, run, over, bytes, tell });
        loop {
            let _turn = locked(&self.writing);
            match told.try_recv() {
                Err(TryRecvError::Empty) => {}
                end => return end.ok().flatten(),
            }
            // The pool writes no name twice at a time.
            let mut names = HashSet::new();
            let all: Vec<Waiting> = locked(&self.waiting)
                .extract_if(.., |one| names.insert(one.name.clone()))
                .collect();
            let now_ms = now_ms();
            let puts = all.iter().map(|one| {
                let req = PutRequest { name: &one.name, run: one.run, now_ms, replace: false };
                (req, Some(one.over), &one.bytes[..])
            });
            let ends = self.pool().writer().put_bytes(&puts.collect::<Vec<_>>(), &self.settings());
            let mut ends = ends.into_iter().flatten();
            for one in &all {
                let _ = one.tell.send(ends.next().map(|end| end.map(drop)));
            }
        }
    }

    /// Removes a record of the version that was seen.
    pub(crate) fn remove(&self, name: &str, seen: [u8; 16]) -> Result<Written> {
        let run = fresh();
        let end = self.with(|pool| {
            pool.writer().remove_over(name, run, Some(seen), now_ms(), &self.settings())
        });
        match end {
            Ok(()) => Ok(Written::Done(run)),
            // Another one removed it: only that one knows what becomes of its data.
            Err(PoolError::Conflict { .. } | PoolError::NoObject { .. }) => Ok(Written::Conflict),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes what nothing names any more. Failures leave objects that a sweep will find.
    pub(crate) fn discard(&self, names: &[String]) {
        for names in names.chunks(MAX_TOGETHER) {
            let objects: Vec<_> = names.iter().map(|name| (name.as_str(), fresh(), None)).collect();
            let end =
                self.with(|pool| pool.writer().remove_all(&objects, now_ms(), &self.settings()));
            if let Err(error) = end {
                tracing::warn!(%error, "data that nothing needs was not removed; a sweep will");
            }
        }
    }

    /// Returns whether an object of this record and data lies in the pool's manifest.
    pub(crate) fn is_small(&self, size: u64) -> bool {
        let whole = size + 2048;
        whole <= MAX_SMALL && self.pool().config().policy.class_of(whole).is_inline()
    }

    /// Puts data that no record names yet; it is durable when this returns.
    pub(crate) fn put_data(&self, name: &str, source: &mut dyn Source) -> Result<(), PoolError> {
        let req = PutRequest { name, run: fresh(), now_ms: now_ms(), replace: false };
        let (memory, budget) = (MAX_PUT_MEMORY, Some(&self.budget));
        let end = self.pool().put(&req, source, &Settings { memory, budget, ..self.settings() });
        if let Err(error) = &end
            && may_pass(error)
        {
            // For the client's next try.
            self.open_again()?;
        }
        end.map(drop)
    }

    /// Reads a range of data.
    pub(crate) fn read_data(
        &self,
        name: &str,
        range: Range<u64>,
        out: &mut dyn Write,
    ) -> Result<(), PoolError> {
        let req = GetRequest { name, range: Some(range) };
        let mut counted = Counted { out, any: false };
        match self.pool().get(&req, &mut counted, &self.settings()) {
            Err(error) if !counted.any && self.reopen.is_some() && may_pass(&error) => {
                self.open_again()?;
                self.pool().get(&req, counted.out, &self.settings()).map(drop)
            }
            end => end.map(drop),
        }
    }

    /// Shows names with a prefix in order, from `start` on, as long as `see` says `true`; `fresh`:
    /// all changes that ended before are seen, else those that were known at the last call.
    pub(crate) fn each(
        &self,
        (prefix, start, fresh): (&str, Option<&str>, bool),
        see: impl FnMut(Listed) -> Result<bool, PoolError>,
    ) -> Result<()> {
        let index = locked(&self.index);
        if fresh {
            self.with(|pool| index.refresh(pool, &self.epoch, &Silent))?;
        }
        Ok(index.each(prefix, start, see)?)
    }

    pub(crate) fn names(&self, prefix: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        self.each((prefix, None, true), |listed| {
            names.push(listed.name);
            Ok(true)
        })?;
        Ok(names)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes whether anything was written: then a read cannot start again.
struct Counted<'a> {
    out: &'a mut dyn Write,
    any: bool,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.any = true;
        self.out.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// All bytes of an object, from its manifest where they are there.
fn whole(pool: &Pool, manifest: &Manifest, settings: &Settings<'_>) -> Result<Vec<u8>, PoolError> {
    if let Some(bytes) = pool.reader().inline(manifest)? {
        return Ok(bytes);
    }
    let object = pool.open_object(&manifest.name)?;
    match object.size() == manifest.size {
        true => object.read(pool, 0..manifest.size, settings),
        false => Err(PoolError::Changed { object: manifest.name.clone() }),
    }
}

/// Returns whether the pool, opened again, may do what it could not do.
pub fn may_pass(error: &PoolError) -> bool {
    match error {
        PoolError::MapChanged { .. }
        | PoolError::Uncertain { .. }
        | PoolError::Unavailable { .. }
        | PoolError::NoNodes { .. } => true,
        // A node's folder or machine is gone: opened again, the pool does without it.
        PoolError::Store(error) => !error.is_full(),
        _ => false,
    }
}

/// A fresh identity.
pub(crate) fn fresh() -> [u8; 16] {
    *uuid::Uuid::new_v4().as_bytes()
}

/// A fresh identity in 32 hex digits.
pub(crate) fn fresh_id() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// The time, in ms since 1970.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

/// An error of another writer who is faster each time.
pub(crate) fn contended() -> GateError {
    Code::OperationAborted.error("object: others change it at the same time; try again")
}
