//! Removing objects.

use super::commit::Change;
use super::{Pool, changes};
use crate::{Body, Key, Manifest, PoolError, Result, Settings};

impl Pool {
    /// Removes an object: from its commit on nobody finds it, then its files go.
    ///
    /// What stays is a tombstone (a manifest that says so) until a scrub has seen all nodes: a node
    /// that was unavailable must not bring the object back. `run` is a fresh random identity.
    ///
    /// # Errors
    /// [`PoolError::NoObject`]; as for [`Pool::put`].
    pub fn remove(
        &self,
        name: &str,
        run: [u8; 16],
        now_ms: u64,
        settings: &Settings<'_>,
    ) -> Result<()> {
        let key = Key::of(name)?;
        let change = Change { key, name, now_ms, thorough: false, staged_shards: &[] };
        let mut was_removed = false;
        let removed = self.commit(&change, settings, |found| {
            if found.data().is_none() {
                was_removed = found.newest.is_some();
                return Err(PoolError::NoObject { name: name.to_owned() });
            }
            Ok(Some(Manifest {
                pool: self.config.id_bytes(),
                name: name.to_owned(),
                version: 0,
                run,
                created_ms: now_ms,
                size: 0,
                copies: Vec::new(),
                body: Body::Deleted,
            }))
        });
        if was_removed {
            // Whoever removed it may have died before it was noted; an index that still lists it,
            // which is why somebody asks, learns of it now.
            self.note_again(&key, run, settings)?;
        }
        removed.map(drop)
    }

    /// Notes a change that is in force already, on the object's homes.
    fn note_again(&self, key: &Key, mark: [u8; 16], settings: &Settings<'_>) -> Result<()> {
        let homes: Vec<usize> = self.config.homes_now(key).positions().collect();
        let _locks = self.lock(homes.iter().copied(), settings)?;
        for at in homes {
            if let Ok(store) = self.usable(at) {
                changes::note(store, &[(*key, mark)]);
            }
        }
        Ok(())
    }
}
