//! The moment at which new versions of objects take the place of the old ones.
//!
//! Order, under the locks of the objects' homes that can be reached: copies of the new manifests
//! are written and synced under part names; the new shards get their names (no reader looks for
//! them yet); the manifests get theirs, which is the commit; only then the old versions' files go.
//! A crash leaves the old version whole, or the new one whole with some of the old one's files
//! still about, which a scrub removes. Where the pool keeps old versions, a manifest that keeps it
//! is in force before the new one is.
//!
//! Several objects go through these steps together: they share locks, the look at every node's
//! epoch, and at each node the sync of the files and that of the folder. Each still has its own
//! outcome, and none is reported as done before all of its copies are durable.

use crate::layout::{Body, kept_name, object_name};
use crate::{
    Key, Manifest, NodeFile, manifest::changes, manifest::quorum::Found,
    manifest::store::ManifestStore, map::presence::is_marked,
};
use kiln_store::{Backend, StoreError};
use kiln_stripe::{PoolError, Result, Settings};
use std::{collections::BTreeMap, convert::Infallible};

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

/// Change of one object.
pub(crate) struct Change<'a> {
    /// The object.
    pub key: Key,
    pub name: &'a str,
    /// Time for the names of parts.
    pub now_ms: u64,
    /// Ask all of its homes, not only as many as make sure: a repair leaves nothing behind.
    pub thorough: bool,
    /// It gives the object another content: a version that it replaces may be kept.
    pub keeps: bool,
    /// Shards that are complete and durable but for their names.
    pub staged_shards: &'a [StagedShard],
}

/// A change on its way, with what was found and what is to be.
pub(crate) struct Step<'a> {
    pub change: &'a Change<'a>,
    /// Its position among the changes.
    pub of: usize,
    pub found: Found,
    pub manifest: Manifest,
    /// The version that it replaces was kept.
    pub is_kept: bool,
    /// Positions of the nodes that get copies.
    holders: Vec<usize>,
    /// Homes that have no room for one, or are no nodes any more.
    without: Vec<usize>,
    /// Why it ended.
    pub failed: Option<PoolError>,
}

impl Step<'_> {
    fn manifest_name(&self) -> String {
        NodeFile::Manifest { key: self.change.key }.name()
    }

    fn part_name(&self) -> String {
        let (key, run, started) = (self.change.key, self.manifest.run, self.change.now_ms);
        NodeFile::ManifestPart { key, run, started }.name()
    }

    pub fn fail(&mut self, error: PoolError) {
        self.failed.get_or_insert(error);
    }
}

/// A file that gets its name.
struct Rename {
    /// The step that it is of, by position.
    of: usize,
    from: String,
    to: String,
}

/// A shard that a change has no use for.
pub(crate) struct Doomed {
    /// Position of its node.
    pub at: usize,
    pub file: NodeFile,
    /// Object or kept version whose manifest may name it too.
    pub other: String,
}

/// Work by node.
pub(crate) type ByNode<T> = BTreeMap<usize, Vec<T>>;

impl ManifestStore<'_> {
    /// Replaces the manifest in force by the one that `make` derives from what is found; version
    /// and copies are filled in here. `None` from `make` changes nothing.
    /// Errors: before the commit: nothing has changed, but arrivals may have their new names.
    /// [`PoolError::UnderReplicated`]: the new version is in force.
    pub(crate) fn commit(
        &self,
        change: &Change<'_>,
        settings: &Settings<'_>,
        make: impl FnOnce(&Found) -> Result<Option<Manifest>>,
    ) -> Result<Option<Manifest>> {
        let mut make = Some(make);
        let once = |_, found: &Found| make.take().map_or(Ok(None), |make| make(found));
        let ends = self.commit_all(std::slice::from_ref(change), settings, once)?;
        ends.into_iter().next().unwrap_or(Ok(None))
    }

    /// As [`ManifestStore::commit`], for several objects, none of which is there twice. `make` is
    /// asked for each of them, by position.
    /// Errors: nothing has changed, but arrivals may have their new names. What fails for one
    /// object is in its place in the list.
    pub(crate) fn commit_all(
        &self,
        changes: &[Change<'_>],
        settings: &Settings<'_>,
        mut make: impl FnMut(usize, &Found) -> Result<Option<Manifest>>,
    ) -> Result<Vec<Result<Option<Manifest>>>> {
        let (_locks, all_found) = self.lock_and_ask(changes, settings)?;
        let mut steps = Vec::with_capacity(changes.len());
        let mut ends = Vec::with_capacity(changes.len());
        for (of, found) in all_found.into_iter().enumerate() {
            let step = self.step(&changes[of], of, found, |found| make(of, found));
            ends.push(step.map(|step| {
                steps.extend(step);
                None
            }));
        }
        self.keep(&self.names_to_keep(&steps), &mut steps, settings)?;
        self.replace(&mut steps)?;
        // Before anything is removed: who misses it learns why.
        self.note(&steps);
        self.retire(&steps, settings);
        for step in steps {
            ends[step.of] = step.failed.map_or(Ok(Some(step.manifest)), Err);
        }
        Ok(ends)
    }

    /// The change of one object, by what was found of it.
    pub(crate) fn step<'a>(
        &self,
        change: &'a Change<'a>,
        of: usize,
        found: Found,
        make: impl FnOnce(&Found) -> Result<Option<Manifest>>,
    ) -> Result<Option<Step<'a>>> {
        let found = self.sure(found, change.name)?;
        let Some(mut manifest) = make(&found)? else { return Ok(None) };
        let before = found.newest.as_ref().map_or(0, |old| old.version).max(self.map.config.floor);
        manifest.version = before + 1;
        if change.keeps {
            let after = self.map.config.after_snapshots(change.name);
            manifest.created_ms = manifest.created_ms.max(after);
        }
        let without = found.gone.clone();
        let holders = self.holders(&change.key, &without)?;
        let is_kept = false;
        Ok(Some(Step { change, of, found, manifest, is_kept, holders, without, failed: None }))
    }

    /// Returns where copies of an object's manifest go: the best of its homes that can be used,
    /// without some.
    fn holders(&self, key: &Key, without: &[usize]) -> Result<Vec<usize>> {
        let homes = self.map.config.homes_now(key);
        let want = homes.copies;
        let usable = |at: &usize| self.map.nodes[*at].is_here() && !without.contains(at);
        let usable = homes.positions().filter(usable);
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

    /// Puts the new manifests in place. What fails is noted in its step.
    pub(crate) fn replace(&self, steps: &mut [Step<'_>]) -> Result<()> {
        self.write_copies(steps)?;
        let mut shards = ByNode::new();
        for (of, step) in live(steps) {
            for shard in step.change.staged_shards.iter().filter(|shard| shard.part != shard.name) {
                let (from, to) = (shard.part.clone(), shard.name.clone());
                shards.entry(shard.node).or_default().push(Rename { of, from, to });
            }
        }
        for (of, end) in self.rename_all(shards)? {
            end.unwrap_or_else(|error| steps[of].fail(error));
        }
        let mut manifests = ByNode::new();
        let direct = self.put_directly(steps)?;
        for (of, step) in live(steps) {
            for &at in step.holders.iter().filter(|at| !self.is_direct(**at)) {
                let (from, to) = (step.part_name(), step.manifest_name());
                manifests.entry(at).or_default().push(Rename { of, from, to });
            }
        }
        for step in steps.iter().filter(|step| step.failed.is_some()) {
            self.remove_parts(step);
        }
        let mut have = vec![0; steps.len()];
        let mut errors: Vec<Option<PoolError>> = steps.iter().map(|_| None).collect();
        for (of, end) in self.rename_all(manifests)?.into_iter().chain(direct) {
            match end {
                Ok(()) => have[of] += 1,
                Err(error) => errors[of] = Some(error),
            }
        }
        for ((step, have), error) in steps.iter_mut().zip(have).zip(errors) {
            if let Some(error) = error {
                self.remove_parts(step);
                step.failed = Some(self.halfway(step, have, error));
            }
        }
        Ok(())
    }

    /// Puts the manifests of nodes without renames, each over what was found there; how it ended,
    /// with the steps that they are of.
    fn put_directly(&self, steps: &[Step<'_>]) -> Result<Vec<(usize, Result<()>)>> {
        let seals = self.map.config.seals();
        let mut puts = Vec::new();
        for (of, step) in live(steps) {
            let mut holders = step.holders.iter().filter(|at| self.is_direct(**at)).peekable();
            if holders.peek().is_some() {
                let bytes = step.manifest.sealed_bytes(&seals);
                puts.extend(holders.map(|&at| (of, at, bytes.clone())));
            }
        }
        self.map.in_parallel(puts, |_, (of, at, bytes)| {
            let (manifest, expected) = (&steps[of].manifest, &steps[of].found.expected);
            Ok((of, self.put_manifest(at, manifest, &bytes, expected)))
        })
    }

    /// Returns what it means that only some copies of a new manifest got their names. It counts as
    /// in force unless it certainly is not: what it names must not be removed then.
    fn halfway(&self, step: &Step<'_>, have: usize, error: PoolError) -> PoolError {
        // A rename that failed may still have happened: what counts is what readers find.
        let is_absent =
            |found: &Found| found.certain && found.newest.as_ref() != Some(&step.manifest);
        if have == 0 && self.ask(&step.change.key, true).as_ref().is_ok_and(is_absent) {
            return error;
        }
        let (want, name, why) =
            (step.holders.len(), step.change.name.to_owned(), error.to_string());
        PoolError::UnderReplicated { name, have, want, why }
    }

    /// Writes copies of all manifests, durable but for their names. A node that cannot take one is
    /// passed over; as a manifest names its copies, all of them are then written again.
    fn write_copies(&self, steps: &mut [Step<'_>]) -> Result<()> {
        let mut todo: Vec<usize> = (0..steps.len()).collect();
        while !todo.is_empty() {
            for &of in &todo {
                let step = &mut steps[of];
                let id = |&at: &usize| self.map.nodes[at].config.id.clone();
                step.manifest.copies = step.holders.iter().map(id).collect();
            }
            let ends = self.write_round(&todo, steps)?;
            let mut refused = BTreeMap::new();
            for (of, at, end) in ends {
                match end {
                    Ok(()) => {}
                    // It has no name yet: another home may have room, or a better disk.
                    Err(PoolError::Store(error)) => {
                        steps[of].without.push(at);
                        refused.insert(of, error);
                    }
                    Err(error) => steps[of].fail(error),
                }
            }
            todo.clear();
            for (of, error) in refused {
                let step = &mut steps[of];
                // With what did fit on those that refused.
                self.remove_parts(step);
                // Others come in their place, which were not asked whether they are still there.
                let homes = self.map.config.homes_now(&step.change.key);
                let emptied =
                    |at: &usize| self.map.usable(*at).is_ok_and(|store| !is_marked(store));
                step.without.extend(homes.positions().filter(emptied));
                match self.holders(&step.change.key, &step.without) {
                    Ok(holders) if step.failed.is_none() => {
                        step.holders = holders;
                        todo.push(of);
                    }
                    _ => step.fail(error.into()),
                }
            }
        }
        Ok(())
    }

    /// Writes the copies of these steps once; how it ended, by step and node.
    fn write_round(
        &self,
        todo: &[usize],
        steps: &[Step<'_>],
    ) -> Result<Vec<(usize, usize, Result<()>)>> {
        let seals = self.map.config.seals();
        let files: Vec<(String, Vec<u8>)> = (todo.iter())
            .map(|&of| (steps[of].part_name(), steps[of].manifest.sealed_bytes(&seals)))
            .collect();
        let mut copies = ByNode::new();
        for (&of, file) in todo.iter().zip(&files) {
            for &at in steps[of].holders.iter().filter(|at| !self.is_direct(**at)) {
                copies.entry(at).or_default().push((of, file));
            }
        }
        let copies: Vec<(usize, Vec<_>)> = copies.into_iter().collect();
        let ends = self.map.in_parallel(copies, |_, (at, copies)| {
            let files: Vec<(&str, &[u8])> =
                copies.iter().map(|(_, (part, bytes))| (&part[..], &bytes[..])).collect();
            let ends = self.for_each(at, &files, |store| store.write_all(&files));
            let ofs = copies.iter().map(|(of, _)| *of);
            Ok::<_, PoolError>(ofs.zip(ends).map(|(of, end)| (of, at, end)).collect::<Vec<_>>())
        })?;
        Ok(ends.into_iter().flatten().collect())
    }

    /// Runs work on several files of a node, with an end for each; where the node cannot be
    /// used, it is that.
    pub(crate) fn for_each<T>(
        &self,
        at: usize,
        files: &[T],
        act: impl FnOnce(&dyn Backend) -> Vec<Result<(), StoreError>>,
    ) -> Vec<Result<()>> {
        match self.map.usable(at) {
            Ok(store) => act(store).into_iter().map(|end| Ok(end?)).collect(),
            Err(_) => files.iter().map(|_| self.map.usable(at).map(drop)).collect(),
        }
    }

    /// Gives files their names, those of a node together; how it ended, with the steps that they
    /// are of.
    fn rename_all(&self, renames: ByNode<Rename>) -> Result<Vec<(usize, Result<()>)>> {
        let renames: Vec<(usize, Vec<Rename>)> = renames.into_iter().collect();
        let ends = self.map.in_parallel(renames, |_, (at, renames)| {
            let names: Vec<(&str, &str)> =
                renames.iter().map(|rename| (&rename.from[..], &rename.to[..])).collect();
            let ends = self.for_each(at, &names, |store| store.rename_all(&names));
            Ok::<_, PoolError>(renames.iter().map(|rename| rename.of).zip(ends).collect::<Vec<_>>())
        })?;
        Ok(ends.into_iter().flatten().collect())
    }

    /// Removes what a step that failed wrote under part names.
    fn remove_parts(&self, step: &Step<'_>) {
        for &at in step.holders.iter().filter(|at| !self.is_direct(**at)) {
            if let Ok(store) = self.map.nodes[at].store() {
                // The failure itself is what the user must see.
                let _ = store.remove(&step.part_name());
            }
        }
    }

    /// Removes what new versions replaced. Failures leave files that a scrub will find.
    pub(crate) fn retire(&self, steps: &[Step<'_>], settings: &Settings<'_>) {
        let (mut doomed, mut shards) = (ByNode::new(), Vec::new());
        for (_, step) in live(steps) {
            self.doom(step, &mut doomed, &mut shards);
        }
        for Doomed { at, file, .. } in self.without_kept(shards) {
            doomed.entry(at).or_default().push(file.name());
        }
        let ends = self.map.in_parallel(doomed.into_iter().collect(), |_, doomed| {
            let (at, names): (usize, Vec<String>) = doomed;
            let names: Vec<&str> = names.iter().map(|name| &name[..]).collect();
            let store = self.map.nodes[at].store().ok();
            Ok::<_, PoolError>(store.map_or(Vec::new(), |store| store.remove_all(&names)))
        });
        for end in ends.into_iter().flatten().flatten() {
            if let Err(error) = end {
                settings.observer.warn(&format!("{error}; a scrub will remove it"));
            }
        }
    }

    /// Files that a new version has no use for.
    fn doom(&self, step: &Step<'_>, doomed: &mut ByNode<String>, shards: &mut Vec<Doomed>) {
        let (found, new) = (&step.found, &step.manifest);
        let corrupt = found.corrupt.iter().map(|(at, _)| at);
        for &at in found.copies.iter().chain(&found.stale).chain(&found.ghosts).chain(corrupt) {
            if !step.holders.contains(&at) {
                doomed.entry(at).or_default().push(step.manifest_name());
            }
        }
        let Ok(key) = Key::of_shards(step.change.name) else { return };
        let replaced = found.newest.iter().filter(|_| !step.is_kept);
        for old in replaced.chain(&found.older) {
            let run = old.run;
            let object = object_name(step.change.name);
            let other = match new.kept {
                Some(_) => object.to_owned(),
                None => kept_name(object, &run),
            };
            for (index, node) in places(old).filter(|place| !has_shard(new, &run, *place)) {
                if let Some(at) = self.map.config.position(node) {
                    let file = NodeFile::Shard { key, run, index };
                    shards.push(Doomed { at, file, other: other.clone() });
                }
            }
        }
    }

    /// Notes in the logs of the nodes what changed, be it on some of its homes only.
    pub(crate) fn note(&self, steps: &[Step<'_>]) {
        let mut changed = ByNode::new();
        let in_force = |step: &&Step<'_>| {
            matches!(step.failed, None | Some(PoolError::UnderReplicated { .. }))
        };
        for step in steps.iter().filter(in_force) {
            for &at in &step.holders {
                let change = (step.change.key, mark(&step.manifest));
                changed.entry(at).or_default().push(change);
            }
        }
        let changed: Vec<(usize, Vec<_>)> = changed.into_iter().collect();
        let _ = self.map.in_parallel(changed, |_, (at, changed)| {
            if let Ok(store) = self.map.usable(at) {
                changes::note(store, &changed);
            }
            Ok::<_, Infallible>(())
        });
    }

    /// Notes a change that is in force already, on the object's homes.
    pub(crate) fn note_again(
        &self,
        key: &Key,
        mark: [u8; 16],
        settings: &Settings<'_>,
    ) -> Result<()> {
        let homes: Vec<usize> = self.map.config.homes_now(key).positions().collect();
        let _locks = self.map.lock(homes.iter().copied(), settings)?;
        let asked = self.map.asked();
        for at in homes.into_iter().filter(|at| self.map.is_still(*at, &asked)) {
            if let Ok(store) = self.map.usable(at) {
                changes::note(store, &[(*key, mark)]);
            }
        }
        Ok(())
    }

    /// An object that seemed to lack something is as it should be. The client that mended it may
    /// have died before that was noted: an index that still has what was before learns of
    /// it now, or it would say for ever that a node cannot be done without.
    pub(crate) fn note_sound(
        &self,
        key: &Key,
        manifest: &Manifest,
        settings: &Settings<'_>,
    ) -> Result<()> {
        self.note_again(key, mark(manifest), settings)
    }
}

/// Steps that did not fail, with their positions.
fn live<'s, 'a>(steps: &'s [Step<'a>]) -> impl Iterator<Item = (usize, &'s Step<'a>)> {
    steps.iter().enumerate().filter(|(_, step)| step.failed.is_none())
}

/// Indices and nodes of an object's shards; none when it is not in shards.
pub(crate) fn places(manifest: &Manifest) -> impl Iterator<Item = (u16, &str)> {
    let places = match &manifest.body {
        Body::Shards(placed) => &placed.places[..],
        _ => &[],
    };
    places.iter().enumerate().map(|(index, place)| (index as u16, &place.node[..]))
}

/// Returns whether a shard of a run is one of these, on this node.
pub(crate) fn has_shard(manifest: &Manifest, run: &[u8; 16], place: (u16, &str)) -> bool {
    manifest.run == *run && places(manifest).any(|known| known == place)
}

/// Returns what tells this change from all others in a log of changes.
fn mark(manifest: &Manifest) -> [u8; 16] {
    let mut mark = manifest.run;
    mark[8..].copy_from_slice(&manifest.version.to_le_bytes());
    mark
}
