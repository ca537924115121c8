//! Making the index anew from all manifests.

use std::collections::HashMap;

use kiln_stripe::{Observer, Result};
use redb::ReadableTable;

use super::{BATCH, Index, KEYS, Listed, META, OBJECTS, broken};
use crate::{Key, NodeFile, manifest::quorum::read_copy, map::cluster_map::ClusterMap};

/// Entries not yet in the database.
#[derive(Default)]
struct Batch(HashMap<Key, Listed>);

impl Index {
    /// Reads manifests of all nodes; returns how many. `keep`: they are added to what is known, as
    /// too few nodes are there to know of everything. Disks that cannot be listed become `failing`.
    ///
    /// One copy of each is enough: a node that is named by the manifest known so far holds the same
    /// one, or it was unavailable when that was written, and then a newer one is on a node that the
    /// old one does not name (copies are as many as ever, without the node that was unavailable).
    /// Only after a commit that was cut short among its renames is this not so: then the entry may
    /// be the old one's, until a scrub, or a repair, looks at the object itself.
    pub(super) fn scan(
        &self,
        pool: &ClusterMap,
        keep: bool,
        failing: &mut Vec<usize>,
        observer: &dyn Observer,
    ) -> Result<u64> {
        if !keep {
            self.clear()?;
        }
        observer.begin("index", None);
        let (id, seals, mut manifests) = (pool.config().id_bytes(), pool.config().seals(), 0);
        for (at, store) in pool.present() {
            let node = &pool.nodes[at].config.id;
            let mut batch = Batch::default();
            let mut end = Ok(());
            let listed = store.each_name(&mut |name| {
                if end.is_err() || !name.ends_with(".manifest") {
                    return Ok(());
                }
                let Some(NodeFile::Manifest { key }) = NodeFile::parse(name) else { return Ok(()) };
                end = self.known(&batch, &key).and_then(|known| {
                    // What was known before this scan may be older than what this node has.
                    let same = |known: &Listed| !keep && known.manifests.contains(node);
                    if known.as_ref().is_some_and(same) {
                        return Ok(());
                    }
                    manifests += 1;
                    match read_copy(store, &key, &id, &seals) {
                        // Corrupt copies are reported by a scrub.
                        Ok(None) | Err(_) => Ok(()),
                        Ok(Some(manifest)) => {
                            let mut new = Listed::of(&manifest);
                            if !new.manifests.contains(node) {
                                // Given to this node later, by a reader: that says nothing of those
                                // that it names.
                                new.manifests.clear();
                            }
                            if known.is_none_or(|known| newer(&new, &known)) {
                                batch.0.insert(key, new);
                            }
                            if batch.0.len() >= BATCH { self.flush(&mut batch) } else { Ok(()) }
                        }
                    }
                });
                Ok(())
            });
            end?;
            if let Err(error) = listed {
                failing.push(at);
                if error.is_gone() || (!keep && !pool.sees_without(failing)) {
                    return Err(error.into());
                }
                observer.warn(&format!("{error}; listed without it"));
            }
            self.flush(&mut batch)?;
        }
        Ok(manifests)
    }

    fn known(&self, batch: &Batch, key: &Key) -> Result<Option<Listed>> {
        match batch.0.get(key) {
            Some(listed) => Ok(Some(listed.clone())),
            None => self.by_key(key),
        }
    }

    fn flush(&self, batch: &mut Batch) -> Result<()> {
        let mut entries: Vec<(Key, Listed)> = batch.0.drain().collect();
        // In order of name: neighbours share pages.
        entries.sort_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        self.store(&entries)
    }

    /// Forgets everything but damage, and first of all that it is complete.
    fn clear(&self) -> Result<()> {
        let tx = self.db.begin_write().map_err(broken)?;
        {
            let mut meta = tx.open_table(META).map_err(broken)?;
            meta.retain(|_, _| false).map_err(broken)?;
            debug_assert!(meta.first().map_err(broken)?.is_none());
        }
        tx.delete_table(OBJECTS).map_err(broken)?;
        tx.delete_table(KEYS).map_err(broken)?;
        tx.open_table(OBJECTS).map_err(broken)?;
        tx.open_table(KEYS).map_err(broken)?;
        tx.commit().map_err(broken)
    }
}

fn newer(new: &Listed, known: &Listed) -> bool {
    let (new_is, known_is) = ((new.version, &new.run), (known.version, &known.run));
    new_is > known_is || (new_is == known_is && known.manifests.is_empty())
}
