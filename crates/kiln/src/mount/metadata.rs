//! Records of files, folders and links: read by folders, written a moment later.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use kiln_folders::attributes_in;
use kiln_pool::{PutRequest, layout::MAX_NAME};
use kiln_stripe::{PoolError, StreamSource};
use parking_lot::Mutex;

use super::refusal::Result;
use super::tree::{Found, find};
use super::{Mount, Source};
use crate::setup::{fresh_run, now_ms, volumes::of_pool};
use crate::transfer::attributes::{Attributes, Entry};
use crate::transfer::local_tree::split;

/// Folders whose records are remembered.
const REMEMBERED: usize = 256;
/// Times that a change starts again because another client was faster.
const TRIES: usize = 20;

/// Records of a folder by name.
type Entries = BTreeMap<String, Entry>;
/// Changes of them; `None`: the record goes.
type Changes = BTreeMap<String, Option<Entry>>;

/// Records, and version and time of the object that they were read from.
type Loaded = ((u64, u64), Arc<Entries>);

/// See the module.
#[derive(Default)]
pub struct Metadata {
    /// By folder.
    loaded: Mutex<HashMap<String, Loaded>>,
    /// Not written yet, by folder.
    pub pending: Mutex<BTreeMap<String, Changes>>,
    /// The right to write them, or to remove a folder.
    pub writing: Mutex<()>,
}

impl Mount {
    /// Returns the record of a name.
    pub fn entry(&self, name: &str) -> Result<Option<Entry>> {
        let (folder, word) = split(name);
        let pending = self.metadata.pending.lock().get(folder).and_then(|c| c.get(word).cloned());
        match pending {
            Some(entry) => Ok(entry),
            None => Ok(self.loaded(folder)?.get(word).cloned()),
        }
    }

    /// Returns all records of a folder.
    pub fn entries_in(&self, folder: &str) -> Result<Entries> {
        let mut entries = (*self.loaded(folder)?).clone();
        if let Some(changes) = self.metadata.pending.lock().get(folder) {
            apply(&mut entries, changes);
        }
        Ok(entries)
    }

    fn loaded(&self, folder: &str) -> Result<Arc<Entries>> {
        if let Source::Then(tree) = &self.names {
            let known = tree.folders.get(folder).map(|known| known.entries.clone());
            return Ok(Arc::new(known.unwrap_or_default()));
        }
        let name = attributes_in(folder);
        let Some(Found::File(object)) = find(self.fresh()?, &name)? else {
            return Ok(Arc::default());
        };
        let of = (object.version, object.put);
        if let Some((known, entries)) = self.metadata.loaded.lock().get(folder)
            && *known == of
        {
            return Ok(entries.clone());
        }
        let read = self
            .with(|pool| Attributes::load_from(pool, &name, &self.settings()).map_err(of_pool))?;
        let entries = Arc::new(read.unwrap_or_default().entries);
        let mut loaded = self.metadata.loaded.lock();
        if loaded.len() >= REMEMBERED {
            loaded.clear();
        }
        loaded.insert(folder.to_owned(), (of, entries.clone()));
        Ok(entries)
    }

    /// Changes the record of a name; see [`Mount::settle`].
    pub fn note(&self, name: &str, entry: Option<Entry>) {
        let (folder, word) = split(name);
        let mut pending = self.metadata.pending.lock();
        pending.entry(folder.to_owned()).or_default().insert(word.to_owned(), entry);
    }

    /// Writes changed records. Those that cannot be written are kept for the next time.
    pub fn settle(&self) -> Result {
        let _turn = self.metadata.writing.lock();
        let pending = self.metadata.pending.lock().clone();
        for (folder, changes) in pending {
            self.write(&folder, &changes)?;
            self.changed();
            let mut pending = self.metadata.pending.lock();
            if let Some(now) = pending.get_mut(&folder) {
                now.retain(|word, entry| changes.get(word) != Some(entry));
            }
            pending.retain(|_, changes| !changes.is_empty());
        }
        Ok(())
    }

    /// Changes records of a folder, and leaves the rest as other clients made it.
    fn write(&self, folder: &str, changes: &Changes) -> Result<(), PoolError> {
        let name = attributes_in(folder);
        for _ in 0..TRIES {
            let (over, read) = self.with(|pool| {
                let over = match pool.manifest(&name) {
                    Err(PoolError::NoObject { .. }) => None,
                    manifest => Some(manifest?.run),
                };
                let read = Attributes::load_from(pool, &name, &self.settings());
                Ok((over, read.map_err(of_pool)?))
            })?;
            let Some(Attributes { mut entries, .. }) = read else {
                let what = format!("{name}: written by a later kiln");
                return Err(PoolError::Refused { what });
            };
            if name.len() > MAX_NAME || !apply(&mut entries, changes) {
                return Ok(());
            }
            let text = Attributes::of(entries).to_bytes(folder).map_err(of_pool)?;
            let put = self.with(|pool| {
                let (run, now_ms) = (fresh_run(), now_ms());
                let req = PutRequest { name: &name, run, now_ms, replace: true };
                let mut source = StreamSource::new(&text[..]).with_size(text.len() as u64);
                pool.writer().put_over(&req, over, &mut source, &self.settings())
            });
            match put {
                Err(PoolError::Conflict { .. }) => {}
                put => return put.map(drop),
            }
        }
        Err(PoolError::Conflict { name })
    }
}

/// Makes changes; returns whether they change anything.
fn apply(entries: &mut Entries, changes: &Changes) -> bool {
    let mut changed = false;
    for (word, entry) in changes {
        changed |= entries.get(word) != entry.as_ref();
        match entry {
            Some(entry) => drop(entries.insert(word.clone(), entry.clone())),
            None => drop(entries.remove(word)),
        }
    }
    changed
}
