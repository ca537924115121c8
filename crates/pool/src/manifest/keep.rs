//! Versions that are kept: a manifest of its own for what a change replaces.
//!
//! It is an object like others, of the name [`kept_name`], with homes, quorum and repairs of its
//! own; its shards are those that the version had. So a shard may be named by two manifests, that
//! of the object and that of the kept version of its run: whatever removes one asks the other.
//! Changes of both are made under the locks of the object's homes.

use std::collections::{BTreeMap, BTreeSet};

use kiln_stripe::{PoolError, Result, Settings, node::Locks};

use crate::layout::{Kept, kept_name, kept_parts, object_name};
use crate::manifest::commit::{Change, Doomed, Step, has_shard};
use crate::{Key, Manifest, NodeFile, manifest::quorum::Found, manifest::store::ManifestStore};

impl Step<'_> {
    /// The change that keeps what this one replaces, under its name.
    pub(crate) fn keeping<'b>(&self, name: &'b str) -> Change<'b> {
        let (key, now_ms) = (self.change.key.kept(&self.replaced_run()), self.change.now_ms);
        Change { key, name, now_ms, thorough: true, keeps: false, staged_shards: &[] }
    }

    fn replaced_run(&self) -> [u8; 16] {
        self.found.newest.as_ref().map_or([0; 16], |old| old.run)
    }
}

impl ManifestStore<'_> {
    /// Locks the homes of objects, and of the versions of them that are to be kept, and asks for
    /// the objects' manifests.
    pub(crate) fn lock_and_ask(
        &self,
        changes: &[Change<'_>],
        settings: &Settings<'_>,
    ) -> Result<(Locks, Vec<Found>)> {
        let config = &self.map.config;
        changes.iter().try_for_each(|change| self.map.use_object(change.name))?;
        let wanted: Vec<(Key, bool)> =
            changes.iter().map(|change| (change.key, change.thorough)).collect();
        // Two writers of one object have a home in common, which one of them locks first.
        let mut keys: BTreeSet<Key> = changes.iter().map(|change| change.key).collect();
        for (name, _) in changes.iter().filter_map(|change| kept_parts(change.name)) {
            keys.insert(Key::of(name)?);
        }
        loop {
            let homes = |key: &Key| config.homes_now(key).positions().collect::<Vec<usize>>();
            let homes: BTreeSet<usize> = keys.iter().flat_map(homes).collect();
            let locks = self.map.lock(homes.iter().copied(), settings)?;
            let found = self.ask_many(&wanted, true)?;
            let kept = changes.iter().zip(&found).filter_map(|(change, found)| {
                self.keeps(change, found).map(|old| change.key.kept(&old.run))
            });
            let kept: Vec<Key> = kept.collect();
            let is_locked =
                |key: &Key| config.homes_now(key).positions().all(|at| homes.contains(&at));
            if kept.iter().all(is_locked) {
                return Ok((locks, found));
            }
            keys.extend(kept);
        }
    }

    /// The version that is kept if a change replaces it.
    fn keeps<'f>(&self, change: &Change<'_>, found: &'f Found) -> Option<&'f Manifest> {
        let old = found.data().filter(|old| change.keeps && old.kept.is_none())?;
        let now = self.until(change, old);
        self.map.config.keeps(change.name, (old.created_ms, now), 0, now).then_some(old)
    }

    /// When a change replaces a version.
    fn until(&self, change: &Change<'_>, old: &Manifest) -> u64 {
        let after = self.map.config.after_snapshots(object_name(change.name));
        change.now_ms.max(old.created_ms).max(after)
    }

    /// Names under which versions are kept that steps replace, and the steps.
    pub(crate) fn names_to_keep(&self, steps: &[Step<'_>]) -> Vec<(String, usize)> {
        let kept = steps.iter().enumerate().filter_map(|(of, step)| {
            let old = self.keeps(step.change, &step.found)?;
            (old.run != step.manifest.run).then(|| (kept_name(step.change.name, &old.run), of))
        });
        kept.collect()
    }

    /// Keeps what steps replace, under these names: that is in force when this returns. Where it
    /// fails the step has failed, and replaces nothing.
    pub(crate) fn keep(
        &self,
        names: &[(String, usize)],
        steps: &mut [Step<'_>],
        settings: &Settings<'_>,
    ) -> Result<()> {
        if names.is_empty() {
            return Ok(());
        }
        names.iter().try_for_each(|(name, _)| self.map.use_object(name))?;
        let changes = names.iter().map(|(name, of)| steps[*of].keeping(name));
        let changes: Vec<Change<'_>> = changes.collect();
        let wanted: Vec<(Key, bool)> = changes.iter().map(|change| (change.key, true)).collect();
        let mut kept = Vec::new();
        let found = self.ask_many(&wanted, true)?;
        for ((change, (name, of)), found) in changes.iter().zip(names).zip(found) {
            let step = &mut steps[*of];
            let old = step.found.newest.clone();
            let made = self.step(change, *of, found, |_| {
                Ok(old.map(|old| {
                    let until_ms = self.until(change, &old);
                    let past = Kept { version: old.version, until_ms };
                    Manifest { name: name.clone(), kept: Some(past), ..old }
                }))
            });
            match made {
                Ok(made) => kept.extend(made),
                Err(error) => step.fail(error),
            }
        }
        self.replace(&mut kept)?;
        self.note(&kept);
        for one in &mut kept {
            // Its shards are those of the object, whatever an attempt before had.
            one.is_kept = true;
        }
        self.retire(&kept, settings);
        for one in kept {
            let step = &mut steps[one.of];
            match one.failed {
                None => step.is_kept = true,
                // The new version is not in force.
                Some(PoolError::UnderReplicated { why, .. }) => {
                    let name = step.change.name;
                    let what = format!("object {name:?}: its version now cannot be kept ({why})");
                    step.fail(PoolError::Refused { what });
                }
                Some(error) => step.fail(error),
            }
        }
        Ok(())
    }

    /// Leaves out shards that another manifest names, or may name.
    pub(crate) fn without_kept(&self, mut shards: Vec<Doomed>) -> Vec<Doomed> {
        if shards.is_empty() || !self.map.config.has_versions() {
            return shards;
        }
        let names: BTreeSet<String> = shards.iter().map(|shard| shard.other.clone()).collect();
        let wanted = names.iter().map(|name| {
            self.map.use_object(name)?;
            Ok((Key::of(name)?, false))
        });
        let found = wanted.collect::<Result<Vec<_>>>().and_then(|wanted| self.ask_each(&wanted));
        // A scrub finds what is left over on nodes that cannot be asked.
        let Ok(found) = found else { return Vec::new() };
        let found: BTreeMap<String, Found> = names.into_iter().zip(found).collect();
        shards.retain(|shard| {
            let NodeFile::Shard { run, index, .. } = &shard.file else { return false };
            let (found, node) = (&found[&shard.other], &self.map.nodes[shard.at].config.id);
            // A version that was not acknowledged may be lost, and the one before in force again.
            found.certain
                && found
                    .newest
                    .as_ref()
                    .is_none_or(|newest| found.stable && !has_shard(newest, run, (*index, node)))
        });
        shards
    }
}
