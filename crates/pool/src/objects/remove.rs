//! Removing objects.

use super::Pool;
use super::commit::Change;
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
        self.commit(&change, settings, |found| {
            if found.data().is_none() {
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
        })?;
        Ok(())
    }
}
