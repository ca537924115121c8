//! Removing objects, and having them back without a copy.

use kiln_stripe::{PoolError, Result, Settings};

use crate::data::{put::check_together, put::only, writer::ObjectWriter};
use crate::layout::{Body, object_name};
use crate::{Key, Manifest, manifest::commit::Change};

/// An object to remove: its name, a fresh identity, and that of its data where it is known.
pub type Removal<'a> = (&'a str, [u8; 16], Option<[u8; 16]>);

impl ObjectWriter<'_> {
    /// Removes an object: from its commit on no reader finds it, then its files go.
    ///
    /// Returns what stays is a tombstone (a manifest that says so) until a scrub has seen all
    /// nodes: a node that was unavailable must not bring the object back. `run` is a fresh random
    /// identity. Where `known` is one, an object with other data stays.
    /// Errors: [`PoolError::NoObject`]; [`PoolError::Conflict`]: it has other data; as for
    /// [`ObjectWriter::put`].
    pub fn remove_over(
        &self,
        name: &str,
        run: [u8; 16],
        known: Option<[u8; 16]>,
        now_ms: u64,
        settings: &Settings<'_>,
    ) -> Result<()> {
        only(self.remove_all(&[(name, run, known)], now_ms, settings)?)
    }

    /// Removes several objects, as [`ObjectWriter::remove_over`] does each of them. They share
    /// locks, questions and syncs.
    /// Errors: [`PoolError::Usage`] for more than [`crate::MAX_TOGETHER`] objects, or a name that
    /// is there twice; what keeps all of them from being removed, as a place that stays locked.
    pub fn remove_all(
        &self,
        objects: &[Removal<'_>],
        now_ms: u64,
        settings: &Settings<'_>,
    ) -> Result<Vec<Result<()>>> {
        check_together(objects.iter().map(|(name, ..)| *name))?;
        let mut changes = Vec::with_capacity(objects.len());
        for (name, ..) in objects {
            let key = Key::of_object(name)?;
            let (thorough, keeps, staged_shards) = (false, true, &[]);
            changes.push(Change { key, name, now_ms, thorough, keeps, staged_shards });
        }
        let mut were_removed = Vec::new();
        let removed = self.manifests.commit_all(&changes, settings, |of, found| {
            let (name, run, known) = objects[of];
            let Some(there) = found.data() else {
                were_removed.extend(found.newest.is_some().then_some(of));
                return Err(PoolError::NoObject { name: name.to_owned() });
            };
            if known.is_some_and(|known| known != there.run) {
                return Err(PoolError::Conflict { name: name.to_owned() });
            }
            Ok(Some(Manifest {
                pool: self.map.config.id_bytes(),
                name: name.to_owned(),
                version: 0,
                run,
                created_ms: now_ms,
                size: 0,
                copies: Vec::new(),
                body: Body::Deleted,
                kept: None,
                key: None,
            }))
        })?;
        for of in were_removed {
            // Its remover may have died before it was noted; an index that still lists it,
            // which is why it is asked for, learns of it now.
            self.manifests.note_again(&changes[of].key, objects[of].1, settings)?;
        }
        Ok(removed.into_iter().map(|end| end.map(drop)).collect())
    }

    /// Has objects in force again that were removed, each as the version that is kept under this
    /// name: the object names the shards that the version has, and no byte is copied. They are as
    /// if they had never been removed.
    ///
    /// Returns `None` for an object that must be copied instead: it is there, or something was in
    /// force after that version, or a snapshot is of the time without it.
    /// Errors: as for [`ObjectWriter::remove_all`]; [`PoolError::NoObject`]: the version is not
    /// kept now.
    pub fn restore_all(
        &self,
        kept: &[&str],
        now_ms: u64,
        settings: &Settings<'_>,
    ) -> Result<Vec<Result<Option<Manifest>>>> {
        check_together(kept.iter().map(|kept| object_name(kept)))?;
        let mut changes = Vec::with_capacity(kept.len());
        for name in kept.iter().map(|kept| object_name(kept)) {
            let key = Key::of_object(name)?;
            let (thorough, keeps, staged_shards) = (true, false, &[]);
            changes.push(Change { key, name, now_ms, thorough, keeps, staged_shards });
        }
        self.manifests.commit_all(&changes, settings, |of, found| {
            // Changes of a kept version are made under the locks of its object, which are held.
            let there = self.manifests.ask(&Key::of(kept[of])?, true)?;
            let there = self.manifests.sure(there, kept[of])?.into_data();
            let none = || PoolError::NoObject { name: kept[of].to_owned() };
            let (there, name) = (there.ok_or_else(none)?, changes[of].name);
            let until = there.kept.map_or(0, |kept| kept.until_ms);
            let is_last = found.newest.as_ref().is_none_or(|last| last.created_ms <= until);
            let was_away = self.map.config.after_snapshots(name) > until;
            let is_exact = found.data().is_none() && is_last && !was_away;
            Ok(is_exact.then(|| Manifest { name: name.to_owned(), kept: None, ..there }))
        })
    }
}
