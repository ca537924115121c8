//! Records of files, folders and links: read by folders, written a moment later.

use std::collections::HashMap;
use std::sync::Arc;

use kiln_folders::attributes_in;
use kiln_pool::layout::MAX_NAME;
use kiln_stripe::PoolError;
use parking_lot::Mutex;

use super::refusal::Result;
use super::tree::{Found, find};
use super::{Mount, Source};
use crate::setup::volumes::of_pool;
use crate::transfer::attributes::{Attributes, Entry};
use crate::transfer::local_tree::split;
use crate::transfer::records::{Changes, Entries, Records, apply, change_all};

/// Folders whose records are remembered.
const REMEMBERED: usize = 256;

/// Records, and version and time of the object that they were read from.
type Loaded = ((u64, u64), Arc<Records>);

/// See the module.
#[derive(Default)]
pub struct Metadata {
    /// By folder.
    loaded: Mutex<HashMap<String, Loaded>>,
    /// Not written yet, by folder.
    pub pending: Mutex<Entries>,
    /// The right to write them, or to remove a folder.
    pub writing: Mutex<()>,
}

impl Mount {
    /// Returns the record of a name. The pool itself has none, and is there whatever is lost.
    pub fn entry(&self, name: &str) -> Result<Option<Entry>> {
        if name.is_empty() {
            return Ok(None);
        }
        let (folder, word) = split(name);
        let pending = self.metadata.pending.lock().get(folder).and_then(|c| c.get(word).cloned());
        match pending {
            Some(entry) => Ok(entry),
            None => Ok(self.loaded(folder)?.get(word).cloned()),
        }
    }

    /// Returns all records of a folder.
    pub fn entries_in(&self, folder: &str) -> Result<Records> {
        let mut entries = (*self.loaded(folder)?).clone();
        if let Some(changes) = self.metadata.pending.lock().get(folder) {
            apply(&mut entries, changes);
        }
        Ok(entries)
    }

    fn loaded(&self, folder: &str) -> Result<Arc<Records>> {
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
        let read =
            self.with(|pool| Attributes::load(pool, &name, &self.settings()).map_err(of_pool))?;
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

    /// Changes records of a folder.
    fn write(&self, folder: &str, changes: &Changes) -> Result<(), PoolError> {
        if attributes_in(folder).len() > MAX_NAME {
            return Ok(());
        }
        self.with(|pool| {
            let change = |_: &str, records: &mut Records| apply(records, changes);
            let failed = change_all(pool, [folder].into_iter(), &self.settings(), &change)?.pop();
            failed.map_or(Ok(()), |(_, failure)| Err(of_pool(failure)))
        })
    }
}
