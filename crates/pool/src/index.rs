//! A local index of a pool's objects, which only speeds listing: it can be deleted at any time.
//!
//! Writers do not touch it. A client that wants to list reads the nodes' logs of changes from where
//! the index stopped and looks at what changed; where a log cannot tell (first use, another boot, a
//! log cut), all manifests are read once. Memory stays bounded: names stream from the nodes into
//! the database. A file that is damaged is found out at opening, before the database sees any of
//! it, and made anew: it holds nothing that the pool does not hold, but what scrubs found.

mod checked;
mod entry;
mod scan;
pub(crate) mod versions;

use std::fs::{File, OpenOptions, TryLockError};
use std::{collections::HashSet, path::Path, sync::Arc};

use kiln_stripe::{Observer, PoolError, Result};
use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};

use self::checked::CheckedFile;
pub use self::entry::Listed;
use crate::manifest::changes::{self, Position};
use crate::manifest::quorum::Found;
use crate::manifest::store::ManifestStore;
use crate::map::cluster_map::ClusterMap;
use crate::{Key, PoolConfig};

/// Name to entry.
const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
/// Key to name.
const KEYS: TableDefinition<'_, &[u8], &str> = TableDefinition::new("keys");
/// Node to the place in its log up to which the index knows everything.
const LOGS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("logs");
/// Pool and epoch of the index.
const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");
/// Key to indices of shards that a scrub found damaged.
const DAMAGE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("damage");

/// Stands among damaged indices for copies of the manifest; no code has so many shards.
pub(crate) const THE_MANIFEST: u16 = u16::MAX;

/// Added to the index of a shard that does not fit the others although its checksums hold: a repair
/// must not read it.
const WRONG: u16 = 0x4000;

/// Returns how a shard stands among damaged ones.
pub(crate) fn suspect(index: u16, wrong: bool) -> u16 {
    if wrong { index | WRONG } else { index }
}

/// The shard that is meant, and whether its checksums cannot be relied upon.
pub(crate) fn suspected(damage: u16) -> (usize, bool) {
    (usize::from(damage & !WRONG), damage & WRONG != 0 && damage != THE_MANIFEST)
}

/// Changed when the tables change: an index of another format is made anew.
const FORMAT: &[u8] = b"1";
/// Beyond this many changed objects reading all manifests is the quicker way.
const MOST_CHANGES: usize = 50_000;
/// Objects that are asked for together.
pub(crate) const ASKED: usize = 1_000;
/// Entries between two commits of the database.
const BATCH: usize = 20_000;

/// See [`Index::lookup`].
pub(crate) struct Lookup(redb::ReadOnlyTable<&'static [u8], &'static str>);

impl Lookup {
    /// Returns whether the index certainly has no object of this key, not even a removed one.
    pub(crate) fn lacks(&self, key: &Key) -> bool {
        matches!(self.0.get(&key.0[..]), Ok(None))
    }
}

/// The index of one pool. Only one process at a time has it open; others wait. Clones share it.
///
/// ```
/// use kiln_pool::Index;
/// # let pool = kiln_pool::example_pool()?;
/// let index = Index::in_memory()?;
/// index.refresh(&pool, b"this boot", &kiln_stripe::Silent)?;
/// assert_eq!(index.len()?, 0);
/// # Ok::<(), kiln_stripe::PoolError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Index {
    db: Arc<Database>,
    lock: Option<Arc<File>>,
    remade: Option<Arc<str>>,
}

/// Way in which an index was brought up to date.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Refreshed {
    /// By looking at so many objects that had changed.
    Changes(u64),
    /// By reading so many manifests.
    All(u64),
    /// By reading so many manifests; with the nodes that are unavailable there may be objects that
    /// no other node knows. What was known before is kept.
    Part(u64),
}

/// An error of the index's file.
fn of_file(path: &Path, error: &std::io::Error) -> PoolError {
    PoolError::Index { what: format!("{}: {error}", path.display()) }
}

/// The file beside the index that keeps other processes out.
fn lock_of(path: &Path) -> Result<File> {
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    let options = OpenOptions::new().create(true).truncate(false).write(true).open(lock);
    options.map_err(|error| of_file(path, &error))
}

/// Any error of the database.
fn broken(error: impl Into<redb::Error>) -> PoolError {
    PoolError::Index { what: error.into().to_string() }
}

/// Record of what the nodes say now of an object that an index has.
pub(crate) struct Now(Found);

impl Now {
    /// As an index should have it, be it removed; `None`: no manifest is found.
    pub(crate) fn listed(&self) -> Option<Listed> {
        self.0.newest.as_ref().map(Listed::of)
    }

    /// Returns whether it was removed so long ago that nothing says so any more: all who would have
    /// a manifest have none, and removals of its time were forgotten.
    pub(crate) fn is_removed(&self, config: &PoolConfig, known: &Listed) -> bool {
        let none = self.0.newest.is_none() && self.0.corrupt.is_empty();
        none && self.0.certain && self.0.denied && known.version <= config.floor
    }
}

impl ManifestStore<'_> {
    /// Objects as the nodes have them now.
    pub(crate) fn found_now(&self, keys: &[Key]) -> Result<Vec<Now>> {
        let wanted: Vec<(Key, bool)> = keys.iter().map(|key| (*key, false)).collect();
        Ok(self.ask_each(&wanted)?.into_iter().map(Now).collect())
    }

    /// Objects as an index should have them now, removed ones too; `None`: no manifest is found.
    pub(crate) fn listed_now(&self, keys: &[Key]) -> Result<Vec<Option<Listed>>> {
        Ok(self.found_now(keys)?.iter().map(Now::listed).collect())
    }
}

impl Index {
    /// Opens the index in this file; waits while another process has it open. A file that is not
    /// as it was written is made anew, and [`Index::remade`] says so. Beside it are its checksums
    /// (`.sums`) and what others wait for (`.lock`).
    /// Errors: the file cannot be written.
    pub fn open(path: &Path) -> Result<Index> {
        let lock = lock_of(path)?;
        lock.lock().map_err(|error| of_file(path, &error))?;
        Index::open_locked(path, lock)
    }

    /// As [`Index::open`], but does not wait: nothing while another process has it open, which a
    /// repair has from its beginning to its end.
    pub fn try_open(path: &Path) -> Result<Option<Index>> {
        let lock = lock_of(path)?;
        match lock.try_lock() {
            Ok(()) => Index::open_locked(path, lock).map(Some),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(of_file(path, &error)),
        }
    }

    fn open_locked(path: &Path, lock: File) -> Result<Index> {
        let fail = |error: std::io::Error| of_file(path, &error);
        let database = |file| Database::builder().create_with_backend(file).map_err(broken);
        let found = match CheckedFile::open(path).map_err(fail)? {
            // Of a later version of the database, perhaps.
            Ok(file) => database(file).map_err(|error| error.to_string()),
            Err(flaw) => Err(format!("the local index {} is damaged ({flaw})", path.display())),
        };
        let (db, remade) = match found {
            Ok(db) => (db, None),
            Err(flaw) => {
                CheckedFile::remove(path).map_err(fail)?;
                let new = CheckedFile::open(path).map_err(fail)?;
                let new = new.map_err(|what| PoolError::Index { what })?;
                (database(new)?, Some(flaw.into()))
            }
        };
        Index { db: Arc::new(db), lock: Some(Arc::new(lock)), remade }.prepared()
    }

    /// An index that is forgotten with this value.
    pub fn in_memory() -> Result<Index> {
        let backend = redb::backends::InMemoryBackend::new();
        let db = Database::builder().create_with_backend(backend).map_err(broken)?;
        Index { db: Arc::new(db), lock: None, remade: None }.prepared()
    }

    /// Returns whether it is in a file, so that it knows the damage that scrubs have found.
    pub fn is_kept(&self) -> bool {
        self.lock.is_some()
    }

    /// Why the file that was there could not be used, if so: then the damage that scrubs had found
    /// is forgotten until the next one.
    pub fn remade(&self) -> Option<&str> {
        self.remade.as_deref()
    }

    /// Makes sure that all tables are there.
    fn prepared(self) -> Result<Index> {
        let tx = self.db.begin_write().map_err(broken)?;
        tx.open_table(OBJECTS).map_err(broken)?;
        tx.open_table(KEYS).map_err(broken)?;
        tx.open_table(LOGS).map_err(broken)?;
        tx.open_table(META).map_err(broken)?;
        tx.open_table(DAMAGE).map_err(broken)?;
        tx.commit().map_err(broken)?;
        Ok(self)
    }

    /// Brings the index up to date. `epoch` tells one boot of this machine from another: logs of
    /// changes are not synced, so what they said before a crash counts no more.
    /// A disk that cannot be read is named in a warning and passed over, as one that is away.
    /// Errors: no node can be used; one is gone since the pool was opened, which is to be opened
    /// again; too many fail while they are read; the database.
    pub fn refresh(
        &self,
        pool: &ClusterMap,
        epoch: &[u8],
        observer: &dyn Observer,
    ) -> Result<Refreshed> {
        let (mut positions, mut keys, mut failing) = (Vec::new(), Vec::new(), Vec::new());
        let mut whole = !self.describes(pool, epoch)?;
        for (at, store) in pool.present() {
            let id = &pool.nodes[at].config.id;
            let told = changes::since(store, &self.position(id)?);
            let (end, new) = match told {
                Err(PoolError::Store(error)) if error.is_gone() => return Err(error.into()),
                Err(error) => {
                    observer.warn(&format!("{error}; listed without it"));
                    failing.push(at);
                    continue;
                }
                Ok(told) => told,
            };
            positions.push((id.clone(), end));
            match new {
                Some(new) => keys.extend(new),
                None => whole = true,
            }
        }
        pool.any_here()?;
        let complete = pool.sees_without(&failing);
        keys.sort_unstable();
        keys.dedup();
        if whole || !complete || keys.len() > MOST_CHANGES {
            let before = failing.len();
            let manifests = self.scan(pool, !complete, &mut failing, observer)?;
            if !complete {
                return Ok(Refreshed::Part(manifests));
            }
            // A disk that would not list is asked again.
            if failing.len() == before {
                self.settle(pool, epoch, &positions)?;
            }
            return Ok(Refreshed::All(manifests));
        }
        for batch in keys.chunks(ASKED) {
            let (mut listed, mut forgotten) = (Vec::new(), Vec::new());
            for (key, now) in batch.iter().zip(ManifestStore::new(pool).found_now(batch)?) {
                match (now.listed(), self.by_key(key)?) {
                    (Some(now), _) => listed.push((*key, now)),
                    (None, Some(known)) if now.is_removed(&pool.config, &known) => {
                        forgotten.push(known.name);
                    }
                    _ => {}
                }
            }
            self.forget(&forgotten)?;
            self.store(&listed)?;
        }
        if !keys.is_empty() {
            self.settle(pool, epoch, &positions)?;
        }
        Ok(Refreshed::Changes(keys.len() as u64))
    }

    /// Objects that changed since the index was brought up to date, as far as the nodes' logs tell;
    /// `None`: any may have. More may be named than did.
    /// Errors: the database. A node that fails while it is asked says nothing.
    pub(crate) fn changed(&self, pool: &ClusterMap) -> Result<Option<HashSet<Key>>> {
        let mut changed = HashSet::new();
        for (at, store) in pool.present() {
            match changes::since(store, &self.position(&pool.nodes[at].config.id)?) {
                Ok((_, Some(keys))) => changed.extend(keys),
                Ok((_, None)) => return Ok(None),
                Err(_) => {}
            }
        }
        Ok(Some(changed))
    }

    /// Shows objects in order of name, from `start` on, as long as they begin with `prefix` and
    /// `see` says `true`.
    /// Errors: the database; errors of `see`.
    pub fn each(
        &self,
        prefix: &str,
        start: Option<&str>,
        mut see: impl FnMut(Listed) -> Result<bool>,
    ) -> Result<()> {
        let is_object = |listed: &Listed| listed.kept.is_none();
        self.each_version(
            prefix,
            start,
            |listed| if is_object(&listed) { see(listed) } else { Ok(true) },
        )
    }

    /// As [`Index::each`], with the versions that are kept of objects: all that has shards.
    pub fn each_version(
        &self,
        prefix: &str,
        start: Option<&str>,
        mut see: impl FnMut(Listed) -> Result<bool>,
    ) -> Result<()> {
        let there = |listed: Listed| if listed.deleted { Ok(true) } else { see(listed) };
        self.each_with_removed(prefix, start, there)
    }

    /// Shows objects that have names with a prefix in batches of at most `size`, in order of name,
    /// as long as `see` says `true`; `all`: kept versions too, and those of which only a tombstone
    /// is left. The index is locked while a batch is read, so `see` is called between.
    /// Errors: the database; errors of `see`.
    pub fn in_batches(
        &self,
        prefix: &str,
        size: usize,
        all: bool,
        see: impl FnMut(&[Listed]) -> Result<bool>,
    ) -> Result<()> {
        let is_object = |listed: &Listed| !listed.deleted && listed.kept.is_none();
        self.in_batches_of(prefix, None, size, |listed| all || is_object(listed), see)
    }

    /// As [`Index::in_batches`], from behind a name on, of entries that are wanted.
    pub(crate) fn in_batches_of(
        &self,
        prefix: &str,
        after: Option<&str>,
        size: usize,
        wanted: impl Fn(&Listed) -> bool,
        mut see: impl FnMut(&[Listed]) -> Result<bool>,
    ) -> Result<()> {
        let mut start = after.map(str::to_owned);
        loop {
            let mut batch = Vec::new();
            self.each_with_removed(prefix, start.as_deref(), |listed| {
                if start.as_ref() != Some(&listed.name) && wanted(&listed) {
                    batch.push(listed);
                }
                Ok(batch.len() < size)
            })?;
            let Some(last) = batch.last() else { return Ok(()) };
            start = Some(last.name.clone());
            if !see(&batch)? {
                return Ok(());
            }
        }
    }

    /// As [`Index::each`], removed objects included that still have a tombstone.
    fn each_with_removed(
        &self,
        prefix: &str,
        start: Option<&str>,
        mut see: impl FnMut(Listed) -> Result<bool>,
    ) -> Result<()> {
        let tx = self.db.begin_read().map_err(broken)?;
        let table = tx.open_table(OBJECTS).map_err(broken)?;
        let from = start.filter(|start| *start > prefix).unwrap_or(prefix);
        for row in table.range::<&str>(from..).map_err(broken)? {
            let (name, value) = row.map_err(broken)?;
            if !name.value().starts_with(prefix) {
                break;
            }
            let Some(listed) = Listed::from_bytes(name.value(), value.value()) else { continue };
            if !see(listed)? {
                break;
            }
        }
        Ok(())
    }

    /// Names in the index, those of removed objects included.
    pub fn len(&self) -> Result<u64> {
        let tx = self.db.begin_read().map_err(broken)?;
        tx.open_table(OBJECTS).map_err(broken)?.len().map_err(broken)
    }

    /// Returns whether nothing is in it.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Returns what is known of an object by its key, removed ones included.
    pub fn by_key(&self, key: &Key) -> Result<Option<Listed>> {
        let tx = self.db.begin_read().map_err(broken)?;
        let keys = tx.open_table(KEYS).map_err(broken)?;
        let Some(name) = keys.get(&key.0[..]).map_err(broken)? else { return Ok(None) };
        let table = tx.open_table(OBJECTS).map_err(broken)?;
        let value = table.get(name.value()).map_err(broken)?;
        Ok(value.and_then(|value| Listed::from_bytes(name.value(), value.value())))
    }

    /// For many questions whether there is an object of a key, by what the index knows now.
    pub(crate) fn lookup(&self) -> Result<Lookup> {
        let tx = self.db.begin_read().map_err(broken)?;
        Ok(Lookup(tx.open_table(KEYS).map_err(broken)?))
    }

    /// Removed objects that still have a tombstone.
    pub(crate) fn tombstones(&self) -> Result<Vec<Listed>> {
        let tx = self.db.begin_read().map_err(broken)?;
        let table = tx.open_table(OBJECTS).map_err(broken)?;
        let mut gone = Vec::new();
        for row in table.iter().map_err(broken)? {
            let (name, value) = row.map_err(broken)?;
            let listed = Listed::from_bytes(name.value(), value.value());
            gone.extend(listed.filter(|listed| listed.deleted));
            if gone.len() >= BATCH {
                break;
            }
        }
        Ok(gone)
    }

    /// Remembers which shards of an object are damaged; none: it is whole.
    pub fn set_damage(&self, damage: &[(Key, Vec<u16>)]) -> Result<()> {
        let tx = self.db.begin_write().map_err(broken)?;
        {
            let mut table = tx.open_table(DAMAGE).map_err(broken)?;
            for (key, indices) in damage {
                if indices.is_empty() {
                    table.remove(&key.0[..]).map_err(broken)?;
                } else {
                    let bytes: Vec<u8> = indices.iter().flat_map(|i| i.to_le_bytes()).collect();
                    table.insert(&key.0[..], &bytes[..]).map_err(broken)?;
                }
            }
        }
        tx.commit().map_err(broken)
    }

    /// Shards that a scrub found damaged, of at most `limit` objects.
    pub(crate) fn damage(&self, limit: usize) -> Result<Vec<(Key, Vec<u16>)>> {
        let tx = self.db.begin_read().map_err(broken)?;
        let table = tx.open_table(DAMAGE).map_err(broken)?;
        let mut all = Vec::new();
        for row in table.iter().map_err(broken)?.take(limit) {
            let (key, value) = row.map_err(broken)?;
            let Ok(key) = key.value().try_into() else { continue };
            let pairs = value.value().chunks_exact(2);
            all.push((Key(key), pairs.map(|b| u16::from_le_bytes([b[0], b[1]])).collect()));
        }
        Ok(all)
    }

    /// Shards of one object that a scrub found damaged.
    pub fn damage_of(&self, key: &Key) -> Result<Vec<u16>> {
        let tx = self.db.begin_read().map_err(broken)?;
        let table = tx.open_table(DAMAGE).map_err(broken)?;
        let value = table.get(&key.0[..]).map_err(broken)?;
        let indices = |bytes: &[u8]| {
            bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect()
        };
        Ok(value.map_or_else(Vec::new, |value| indices(value.value())))
    }

    /// Forgets objects of which nothing is left.
    pub(crate) fn forget(&self, names: &[String]) -> Result<()> {
        let tx = self.db.begin_write().map_err(broken)?;
        {
            let mut objects = tx.open_table(OBJECTS).map_err(broken)?;
            let mut keys = tx.open_table(KEYS).map_err(broken)?;
            for name in names {
                objects.remove(&name[..]).map_err(broken)?;
                keys.remove(&Key::of(name)?.0[..]).map_err(broken)?;
            }
        }
        tx.commit().map_err(broken)
    }

    /// Adds or replaces entries.
    pub(crate) fn store(&self, entries: &[(Key, Listed)]) -> Result<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let tx = self.db.begin_write().map_err(broken)?;
        {
            let mut objects = tx.open_table(OBJECTS).map_err(broken)?;
            let mut keys = tx.open_table(KEYS).map_err(broken)?;
            for (key, listed) in entries {
                objects.insert(&listed.name[..], &listed.to_bytes()[..]).map_err(broken)?;
                keys.insert(&key.0[..], &listed.name[..]).map_err(broken)?;
            }
        }
        tx.commit().map_err(broken)
    }

    fn position(&self, node: &str) -> Result<Position> {
        let tx = self.db.begin_read().map_err(broken)?;
        let table = tx.open_table(LOGS).map_err(broken)?;
        let value = table.get(node).map_err(broken)?;
        Ok(value.and_then(|value| Position::from_bytes(value.value())).unwrap_or_default())
    }

    /// Returns whether the index is a complete one of this pool, these nodes and this boot.
    fn describes(&self, pool: &ClusterMap, epoch: &[u8]) -> Result<bool> {
        let tx = self.db.begin_read().map_err(broken)?;
        let table = tx.open_table(META).map_err(broken)?;
        let is = |key: &str, value: &[u8]| -> Result<bool> {
            Ok(table.get(key).map_err(broken)?.is_some_and(|known| known.value() == value))
        };
        Ok(is("format", FORMAT)? && is("epoch", epoch)? && is("of", nodes(pool).as_bytes())?)
    }

    /// Notes that everything before these positions is in the index.
    fn settle(
        &self,
        pool: &ClusterMap,
        epoch: &[u8],
        positions: &[(String, Position)],
    ) -> Result<()> {
        let tx = self.db.begin_write().map_err(broken)?;
        {
            let mut logs = tx.open_table(LOGS).map_err(broken)?;
            for (node, position) in positions {
                logs.insert(&node[..], &position.to_bytes()[..]).map_err(broken)?;
            }
            let mut meta = tx.open_table(META).map_err(broken)?;
            for (key, value) in
                [("format", FORMAT), ("epoch", epoch), ("of", nodes(pool).as_bytes())]
            {
                meta.insert(key, value).map_err(broken)?;
            }
        }
        tx.commit().map_err(broken)
    }
}

/// The pool, and those of its nodes that can be used with where they are: a node that comes back
/// or is replaced may hold anything.
fn nodes(pool: &ClusterMap) -> String {
    let mut text = pool.config.id.clone();
    for (at, _) in pool.present() {
        let node = &pool.nodes[at].config;
        text.push_str(&format!("\n{} {}", node.id, node.url));
    }
    text
}

#[cfg(test)]
mod tests;
