//! Removal of kept versions that no rule keeps any more.

use crate::layout::{Body, object_name};
use crate::{
    Kept, Key, Listed, Manifest, data::put::MAX_TOGETHER, index::Index, index::versions::Version,
    manifest::commit::Change, repair::repairer::Repairer,
};
use kiln_stripe::{Result, Settings};
use serde::Serialize;

/// Versions that a report names at most.
const MAX_TOLD: usize = 1000;

/// Report of a prune.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PruneReport {
    /// Nothing was changed.
    pub dry_run: bool,
    /// Versions that stay.
    pub kept: u64,
    /// Versions that were removed, or would be.
    pub removed: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects and versions of at most 1000 of them.
    pub versions: Vec<(String, u64)>,
}

impl Repairer<'_> {
    /// Removes kept versions of objects that no rule keeps any more. The index must be fresh.
    /// Errors: the index; what keeps all versions from being removed.
    pub fn prune(
        &self,
        index: &Index,
        (now_ms, dry_run): (u64, bool),
        settings: &Settings<'_>,
    ) -> Result<PruneReport> {
        let mut report = PruneReport { dry_run, ..PruneReport::default() };
        let (mut name, is_kept) =
            (String::new(), |one: &Listed| one.kept.is_some() && !one.deleted);
        index.in_batches_of("", None, MAX_TOGETHER, is_kept, |batch| {
            let mut doomed = Vec::new();
            for listed in batch {
                // Versions of one object stand together.
                if object_name(&listed.name) != name {
                    object_name(&listed.name).clone_into(&mut name);
                    self.judge_versions(&name, index, now_ms, &mut report, &mut doomed)?;
                }
            }
            for doomed in doomed.chunks(MAX_TOGETHER) {
                let removed = match dry_run {
                    true => vec![true; doomed.len()],
                    false => self.remove_versions(doomed, index, now_ms, settings)?,
                };
                for (one, _) in doomed.iter().zip(removed).filter(|(_, removed)| *removed) {
                    report.removed += 1;
                    report.bytes += one.size;
                    if report.versions.len() < MAX_TOLD {
                        report.versions.push((one.name.clone(), one.version));
                    }
                }
            }
            Ok(true)
        })?;
        Ok(report)
    }

    /// Finds out which versions of an object are not kept.
    fn judge_versions(
        &self,
        name: &str,
        index: &Index,
        now_ms: u64,
        report: &mut PruneReport,
        doomed: &mut Vec<Version>,
    ) -> Result<()> {
        let mut versions = index.versions_of(name)?;
        versions.retain(|one| one.until_ms.is_some());
        for (one, newer) in versions.into_iter().zip(0..) {
            let times = (one.created_ms, one.until_ms.unwrap_or(0));
            match self.map.config.keeps(name, times, newer, now_ms) {
                true => report.kept += 1,
                false => doomed.push(one),
            }
        }
        Ok(())
    }

    /// Removes versions that are still as they are listed; which ones were.
    fn remove_versions(
        &self,
        doomed: &[Version],
        index: &Index,
        now_ms: u64,
        settings: &Settings<'_>,
    ) -> Result<Vec<bool>> {
        let (thorough, keeps, staged_shards) = (false, false, &[]);
        let keys = doomed.iter().map(|one| Key::of(&one.object)).collect::<Result<Vec<Key>>>()?;
        let changes = keys.iter().zip(doomed).map(|(key, one)| {
            let (key, name) = (*key, &one.object[..]);
            Change { key, name, now_ms, thorough, keeps, staged_shards }
        });
        let ends =
            self.manifests.commit_all(&changes.collect::<Vec<_>>(), settings, |of, found| {
                let Version { version, until_ms, .. } = doomed[of];
                let same = |kept: Kept| kept.version == version && Some(kept.until_ms) == until_ms;
                let Some(there) = found.data().filter(|there| there.kept.is_some_and(same)) else {
                    return Ok(None);
                };
                // The same for all who remove it.
                let run = keys[of].kept(&there.run).0;
                let (size, body, created_ms) = (0, Body::Deleted, now_ms);
                Ok(Some(Manifest { run, size, body, created_ms, key: None, ..there.clone() }))
            })?;
        let (mut removed, mut entries) = (Vec::new(), Vec::new());
        for (key, end) in keys.into_iter().zip(ends) {
            let end = end.unwrap_or_else(|error| {
                settings.observer.warn(&error.to_string());
                None
            });
            removed.push(end.is_some());
            entries.extend(end.map(|tombstone| (key, Listed::of(&tombstone))));
        }
        index.store(&entries)?;
        Ok(removed)
    }
}
