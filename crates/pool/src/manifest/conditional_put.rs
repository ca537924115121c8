//! Places without renames, object stores: files are written under the names that they keep.
//!
//! No reader looks for a shard before a manifest names it, so shards need no hidden names. A
//! manifest is put over just the copy that was found when the change was decided (or where there
//! was none), so a writer whose lock was taken over while it stood still changes nothing any more.
//! `DESIGN.md` has the rest of what that needs.

use std::collections::BTreeMap;

use kiln_store::{Backend, Capability, Existing, NewFile, write_whole};
use kiln_stripe::{PoolError, Result};

use crate::layout::MAX_MANIFEST;
use crate::manifest::store::ManifestStore;
use crate::map::meta_files::read_tagged;
use crate::map::presence::Asked;
use crate::{Key, Manifest, NodeFile};

/// Findings under the name of a manifest, by node: nothing, or a file with this tag.
pub(crate) type Expected = BTreeMap<usize, Existing>;

/// Returns whether files get their names when they are complete, and no others before.
pub(crate) fn is_direct(store: &dyn Backend) -> bool {
    !store.capabilities().has(Capability::Rename)
}

impl ManifestStore<'_> {
    /// Returns whether a node's place is one without renames; one that cannot be used is not asked.
    pub(crate) fn is_direct(&self, at: usize) -> bool {
        self.map.nodes[at].store().is_ok_and(|store| is_direct(&**store))
    }

    /// Puts a copy of a manifest over what was expected to be there.
    /// Errors: something else is there ([`kiln_store::StoreError::is_exists`]): another writer was
    /// faster.
    pub(crate) fn put_manifest(
        &self,
        at: usize,
        manifest: &Manifest,
        bytes: &[u8],
        expected: &Expected,
    ) -> Result<()> {
        let store = self.map.usable(at)?;
        let key = Key::of(&manifest.name)?;
        let name = NodeFile::Manifest { key }.name();
        if !is_direct(store) {
            return Ok(write_whole(store, &name, bytes)?);
        }
        let existing = match expected.get(&at) {
            Some(existing) => *existing,
            None => self.expected_now(store, &name, manifest)?,
        };
        let mut file = store.create(&NewFile { existing, ..NewFile::named(&name) })?;
        file.write(bytes)?;
        Ok(file.complete()?)
    }

    /// Returns what is there on a node that was not asked before: an older one than the new one, or
    /// none.
    fn expected_now(&self, store: &dyn Backend, name: &str, new: &Manifest) -> Result<Existing> {
        let (bytes, existing) = read_tagged(store, name, MAX_MANIFEST as u64)?;
        let there = bytes.and_then(|bytes| Manifest::unseal(&bytes, &self.map.config.seals()).ok());
        match there {
            Some(there) if there.version >= new.version && there != *new => {
                Err(PoolError::Conflict { name: new.name.clone() })
            }
            _ => Ok(existing),
        }
    }

    /// Says before any shard has its name that a put has begun: a scrub that finds shards without a
    /// manifest must know that none was acknowledged. Gives the node and the name of what says it.
    pub(crate) fn announce(
        &self,
        key: Key,
        (run, started): ([u8; 16], u64),
        mut nodes: impl Iterator<Item = usize>,
        asked: &Asked,
    ) -> Result<Option<(usize, String)>> {
        if !nodes.any(|at| self.is_direct(at)) {
            return Ok(None);
        }
        let homes = self.map.config.homes_now(&key);
        let Some(at) = homes.positions().find(|at| self.map.is_still(*at, asked)) else {
            return Ok(None);
        };
        let name = NodeFile::ManifestPart { key, run, started }.name();
        write_whole(self.map.usable(at)?, &name, b"")?;
        Ok(Some((at, name)))
    }

    /// Removes what [`ManifestStore::announce`] wrote; what stays is removed by a scrub.
    pub(crate) fn withdraw(&self, announced: Option<&(usize, String)>) {
        if let Some((at, name)) = announced
            && let Ok(store) = self.map.usable(*at)
        {
            let _ = store.remove(name);
        }
    }

    /// Returns whether a shard that no manifest asks for may be of a put or a repair that is under
    /// way: where shards have their names before their manifest, only their age tells.
    pub(crate) fn may_be_arriving(
        &self,
        at: usize,
        file: &NodeFile,
        (grace_ms, now_ms): (u64, u64),
    ) -> Result<bool> {
        let store = self.map.usable(at)?;
        if !matches!(file, NodeFile::Shard { .. }) || !is_direct(store) {
            return Ok(false);
        }
        let written = store.modified(&file.name())?;
        Ok(written.is_none_or(|at| at.saturating_add(grace_ms) > now_ms))
    }
}
