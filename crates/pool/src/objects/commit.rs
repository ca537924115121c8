//! The moment at which a new version of an object takes the place of the old one.
//!
//! Order, under the locks of the object's homes that can be reached: copies of the new manifest are
//! written and synced under part names; the new shards get their names (nobody looks for them yet);
//! the manifests get theirs, which is the commit; only then the old version's files go. A crash
//! leaves the old version whole, or the new one whole with some of the old one's files still about,
//! which a scrub removes.

use kiln_store::{Existing, NewFile, StoreError, Upload};

use super::look::Found;
use super::{Pool, changes};
use crate::engine::sinks::in_parallel;
use crate::{Body, Key, Manifest, NodeFile, PoolError, Result, Settings};

/// A shard's part that becomes a shard.
#[derive(Clone, Debug)]
pub(crate) struct StagedShard {
    /// Position of its node.
    pub node: usize,
    /// Its name so far.
    pub part: String,
    /// Its name from now on.
    pub name: String,
}

/// What is to change about one object.
pub(crate) struct Change<'a> {
    /// The object.
    pub key: Key,
    /// Its name.
    pub name: &'a str,
    /// Time for the names of parts.
    pub now_ms: u64,
    /// Ask all of its homes, not only as many as make sure: a repair leaves nothing behind.
    pub thorough: bool,
    /// Shards that are complete and durable but for their names.
    pub staged_shards: &'a [StagedShard],
}

/// Copies that are staged, and the positions of their nodes.
type Staged<'a> = (Vec<usize>, Vec<Box<dyn Upload + 'a>>);

impl Pool {
    /// Replaces the manifest in force by the one that `make` derives from what is found; version
    /// and copies are filled in here. `None` from `make` changes nothing.
    ///
    /// # Errors
    /// Before the commit: nothing has changed, but arrivals may have their new names.
    /// [`PoolError::UnderReplicated`]: the new version is in force.
    pub(crate) fn commit(
        &self,
        change: &Change<'_>,
        settings: &Settings<'_>,
        make: impl FnOnce(&Found) -> Result<Option<Manifest>>,
    ) -> Result<Option<Manifest>> {
        // Two writers of one object have a home in common, which one of them locks first.
        let _locks = self.lock(self.config.homes_now(&change.key).positions(), settings)?;
        let found = self.look_locked(&change.key, change.name, change.thorough)?;
        let Some(mut manifest) = make(&found)? else { return Ok(None) };
        let before = found.newest.as_ref().map_or(0, |old| old.version).max(self.config.floor);
        manifest.version = before + 1;
        let (holders, copies) = self.stage(change, &mut manifest)?;
        self.replace(change, &manifest, copies)?;
        self.retire(&change.key, &found, &manifest, &holders, settings);
        for &at in &holders {
            if let Ok(store) = self.usable(at) {
                changes::note(store, &change.key, &mark(&manifest));
            }
        }
        Ok(Some(manifest))
    }

    /// Where copies of an object's manifest go: the best of its homes that can be used, without
    /// those that are full.
    fn holders(&self, key: &Key, full: &[usize]) -> Result<Vec<usize>> {
        let homes = self.config.homes_now(key);
        let want = homes.copies;
        let usable = homes.positions().filter(|at| self.nodes[*at].is_here() && !full.contains(at));
        let chosen: Vec<usize> = usable.take(want).collect();
        if chosen.len() < want {
            let what = format!(
                "a manifest needs {want} of its {} homes, in distinct failure domains, and only {} \
                 can be used",
                homes.nodes.len(),
                chosen.len()
            );
            return Err(PoolError::Refused { what });
        }
        Ok(chosen)
    }

    /// Copies of a manifest, durable but for their names, and the nodes that they are on; dropped,
    /// they leave nothing. A node that has no room is passed over.
    fn stage(&self, change: &Change<'_>, manifest: &mut Manifest) -> Result<Staged<'_>> {
        let name = NodeFile::Manifest { key: change.key }.name();
        let (key, run, started) = (change.key, manifest.run, change.now_ms);
        let part = NodeFile::ManifestPart { key, run, started }.name();
        let new = NewFile { name: &name, part, existing: Existing::Replace };
        let (mut full, mut no_space) = (Vec::new(), None);
        loop {
            let holders = match (self.holders(&key, &full), no_space.take()) {
                (Err(_), Some(error)) => return Err(PoolError::from(error)),
                (holders, _) => holders?,
            };
            manifest.copies = holders.iter().map(|&at| self.nodes[at].config.id.clone()).collect();
            let bytes = manifest.to_bytes();
            let write = |at: usize| -> Result<std::result::Result<Box<dyn Upload>, StoreError>> {
                let store = self.usable(at)?;
                Ok(store.create(&new).and_then(|mut file| {
                    file.write(&bytes)?;
                    file.sync()?;
                    Ok(file)
                }))
            };
            let ends = in_parallel(self.sequence.as_ref(), holders.clone(), |_, at| write(at))?;
            let mut copies = Vec::with_capacity(ends.len());
            for (end, at) in ends.into_iter().zip(&holders) {
                match end {
                    Ok(copy) => copies.push(copy),
                    Err(error) if error.is_full() => {
                        full.push(*at);
                        no_space = Some(error);
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            if no_space.is_none() {
                return Ok((holders, copies));
            }
        }
    }

    fn replace(
        &self,
        change: &Change<'_>,
        manifest: &Manifest,
        copies: Vec<Box<dyn Upload + '_>>,
    ) -> Result<()> {
        let (key, sequence, want) = (change.key, self.sequence.as_ref(), copies.len());
        in_parallel(
            sequence,
            change.staged_shards.iter().collect(),
            |_, staged_shard: &StagedShard| {
                Ok::<_, PoolError>(
                    self.usable(staged_shard.node)?
                        .rename(&staged_shard.part, &staged_shard.name)?,
                )
            },
        )?;
        let ends = in_parallel(sequence, copies, |_, copy| {
            Ok::<_, PoolError>(copy.complete().map_err(PoolError::from))
        })?;
        let have = ends.iter().filter(|end| end.is_ok()).count();
        let Some(error) = ends.into_iter().find_map(std::result::Result::err) else {
            return Ok(());
        };
        // A rename that failed may still have happened: what counts is what readers find.
        if have == 0 && self.ask(&key, true)?.newest.as_ref() != Some(manifest) {
            return Err(error);
        }
        let (name, why) = (change.name.to_owned(), error.to_string());
        Err(PoolError::UnderReplicated { name, have, want, why })
    }

    /// Removes what the new version replaced. Failures leave files that a scrub will find.
    fn retire(
        &self,
        key: &Key,
        found: &Found,
        new: &Manifest,
        holders: &[usize],
        settings: &Settings<'_>,
    ) {
        let mut doomed: Vec<(usize, String)> = Vec::new();
        let manifest = NodeFile::Manifest { key: *key }.name();
        let corrupt = found.corrupt.iter().map(|(at, _)| at);
        for &at in found.copies.iter().chain(&found.stale).chain(&found.ghosts).chain(corrupt) {
            if !holders.contains(&at) {
                doomed.push((at, manifest.clone()));
            }
        }
        for old in found.newest.iter().chain(&found.older) {
            for (index, node) in places(old) {
                let kept = old.run == new.run && places(new).any(|(i, n)| (i, n) == (index, node));
                if let (false, Some(at)) = (kept, self.config.position(node)) {
                    let run = old.run;
                    doomed.push((at, NodeFile::Shard { key: *key, run, index }.name()));
                }
            }
        }
        let ends = in_parallel(self.sequence.as_ref(), doomed, |_, (at, name)| {
            let store = self.nodes[at].store().ok();
            Ok::<_, PoolError>(store.map_or(Ok(()), |store| store.remove(&name)))
        });
        for end in ends.into_iter().flatten() {
            if let Err(error) = end {
                settings.observer.warn(&format!("{error}; a scrub will remove it"));
            }
        }
    }
}

/// Indices and nodes of an object's shards; none when it is not in shards.
pub(crate) fn places(manifest: &Manifest) -> impl Iterator<Item = (u16, &str)> {
    let places = match &manifest.body {
        Body::Shards(placed) => &placed.places[..],
        _ => &[],
    };
    places.iter().enumerate().map(|(index, place)| (index as u16, &place.node[..]))
}

/// What tells this change from all others in a log of changes.
fn mark(manifest: &Manifest) -> [u8; 16] {
    let mut mark = manifest.run;
    mark[8..].copy_from_slice(&manifest.version.to_le_bytes());
    mark
}
