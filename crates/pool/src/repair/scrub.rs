//! Scrub: looks at everything a pool has, tells what is wrong, and tidies up.

use std::ops::Deref;

use kiln_store::{Backend, move_file};
use kiln_stripe::{Depth, PoolError, Quiet, Result, Settings};
use serde::Serialize;

use crate::data::shards::{Member, ObjectShards};
use crate::index::{Index, THE_MANIFEST, suspect, suspected};
use crate::manifest::commit::{has_shard, places};
use crate::{
    Key, Listed, Manifest, NodeFile, manifest::quorum::Found, map::cluster_map::ClusterMap,
    map::config::is_zero, repair::health::Health, repair::queue::RepairQueue,
    repair::repairer::Repairer, repair::unreferenced_shards::Strays,
};

/// Objects that a report tells in detail at most.
const MAX_TOLD: usize = 1000;
/// Objects between two updates of the index.
const BATCH: usize = 1000;

/// Request to scrub.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ScrubRequest<'a> {
    /// Depth of reading each object.
    pub depth: Depth,
    /// The time, in ms since 1970.
    pub now_ms: u64,
    /// Unfinished files are leftovers when they are older than this.
    pub grace_ms: u64,
    /// Only objects whose names begin with this; leftovers are looked for only without it.
    pub prefix: &'a str,
    /// Change nothing, not even remove leftovers.
    pub dry_run: bool,
}

impl Default for ScrubRequest<'_> {
    fn default() -> Self {
        let (depth, prefix) = (Depth::Data, "");
        ScrubRequest { depth, now_ms: 0, grace_ms: 24 * 3_600_000, prefix, dry_run: false }
    }
}

/// Findings of a scrub.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ScrubReport {
    /// Objects looked at.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Chunk bytes read.
    pub bytes_read: u64,
    /// Objects with damage that a repair can repair.
    pub damaged: u64,
    /// Objects that cannot be read in full.
    pub unreadable: u64,
    /// Objects that could not be looked at in full, since nodes became unavailable meanwhile: the
    /// scrub says nothing of them.
    #[serde(skip_serializing_if = "is_zero")]
    pub unasked: u64,
    /// Objects that lack copies of their manifest.
    #[serde(rename = "thin")]
    pub under_replicated: u64,
    /// Details of at most 1000 of them.
    pub findings: Vec<Finding>,
    /// Files that belong to nothing: of interrupted puts and repairs, of replaced versions.
    pub leftovers: u64,
    /// Number of them that were removed, or put in quarantine where they are data.
    pub leftovers_removed: u64,
    /// Shards and manifests in quarantine: nothing seems to need them; they are removed by a scrub
    /// after the time of grace.
    pub quarantined: u64,
    /// Objects whose manifests were all lost, made again from their shards.
    pub restored: u64,
    /// Objects whose manifests were all lost and whose shards are there, in a sealed pool: nothing
    /// proves that these are the bytes of a put, so they stay in quarantine.
    #[serde(skip_serializing_if = "is_zero")]
    pub unproven: u64,
    /// Tombstones that are no longer needed and were dropped.
    pub forgotten: u64,
    /// Kept versions that no rule keeps any more and that were removed, or would be.
    #[serde(skip_serializing_if = "is_zero")]
    pub pruned: u64,
    /// Bytes given back that objects which are gone still took, in files that they shared with
    /// others.
    #[serde(skip_serializing_if = "is_zero")]
    pub compacted: u64,
    /// Files that the server of their place has moved elsewhere, as HDFS does.
    #[serde(skip_serializing_if = "is_zero")]
    pub astray: u64,
    /// Number of them that are back.
    #[serde(skip_serializing_if = "is_zero")]
    pub brought_back: u64,
    /// Ids of unavailable nodes.
    pub away: Vec<String>,
    /// So many nodes are unavailable that there may be objects which only they know.
    pub incomplete: bool,
    /// Everything is as it should be.
    pub clean: bool,
    /// Wall time, filled by the caller.
    pub seconds: f64,
}

/// An object that is not as it should be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The object.
    pub object: String,
    /// Indices of shards to rebuild.
    pub lost: Vec<u16>,
    /// Further losses that it tolerates; negative: it cannot be read now.
    pub margin: i32,
    /// Findings, one line each.
    pub notes: Vec<String>,
}

/// A scrub under way.
pub(crate) struct Scrub<'a> {
    repairer: Repairer<'a>,
    pub index: &'a Index,
    pub req: &'a ScrubRequest<'a>,
    pub settings: &'a Settings<'a>,
    queue: &'a mut RepairQueue,
    pub report: ScrubReport,
}

impl<'a> Deref for Scrub<'a> {
    type Target = Repairer<'a>;

    fn deref(&self) -> &Repairer<'a> {
        &self.repairer
    }
}

impl Repairer<'_> {
    /// Looks at all objects (rot, missing shards, manifests that are missing or old) and at all
    /// files of all nodes (leftovers). What is damaged is remembered in the index, for the next
    /// repair, and reported to `queue`. The index must be fresh.
    /// Errors: the index; errors of nodes are findings.
    pub fn scrub(
        &self,
        index: &Index,
        queue: &mut RepairQueue,
        req: &ScrubRequest<'_>,
        settings: &Settings<'_>,
    ) -> Result<ScrubReport> {
        let mut total = 0;
        index.each_version(req.prefix, None, |listed| {
            total += listed.size;
            Ok(true)
        })?;
        settings.observer.begin("scrub", Some(total));
        Ok(self.scrub_part(index, queue, req, None, &|| true, settings)?.0)
    }

    /// A part of a [`Repairer::scrub`] of all objects: from behind the object `after` on, in order
    /// of name, as long as `go_on` says so, which is asked after each object. Gives the last one
    /// that was looked at; `None`: this was the last part, and everything else was looked at too.
    pub fn scrub_part(
        &self,
        index: &Index,
        queue: &mut RepairQueue,
        req: &ScrubRequest<'_>,
        after: Option<&str>,
        go_on: &dyn Fn() -> bool,
        settings: &Settings<'_>,
    ) -> Result<(ScrubReport, Option<String>)> {
        let away = self.map.away().iter().map(|(node, _)| node.id.clone()).collect();
        let incomplete = !self.map.sees_all()?;
        let report = ScrubReport { away, incomplete, ..ScrubReport::default() };
        let mut scrub = Scrub { repairer: *self, index, req, settings, queue, report };
        if !req.dry_run {
            scrub.report.quarantined += self.readmit(true, req.now_ms, settings);
        }
        let last = scrub.objects(after, go_on)?;
        if last.is_none() && req.prefix.is_empty() {
            scrub.rest()?;
        }
        scrub.report.judge();
        Ok((scrub.report, last))
    }
}

impl Scrub<'_> {
    /// Looks at objects; gives the one after which it was told to end.
    fn objects(&mut self, after: Option<&str>, go_on: &dyn Fn() -> bool) -> Result<Option<String>> {
        let mut last = None;
        let there = |listed: &Listed| !listed.deleted;
        self.index.in_batches_of(self.req.prefix, after, BATCH, there, |batch| {
            let mut damage = Vec::with_capacity(batch.len());
            for listed in batch {
                damage.extend(self.object(listed)?);
                if !go_on() {
                    last = Some(listed.name.clone());
                    break;
                }
            }
            if !self.req.dry_run {
                self.index.set_damage(&damage)?;
            }
            Ok(last.is_none())
        })?;
        Ok(last)
    }

    /// Scrubs the rest after all objects: those that are gone, and files that belong to none.
    fn rest(&mut self) -> Result<()> {
        if self.map.config.has_versions() {
            match self.prune(self.index, (self.req.now_ms, self.req.dry_run), self.settings) {
                Ok(pruned) => self.report.pruned = pruned.removed,
                Err(error) => self.settings.observer.warn(&error.to_string()),
            }
        }
        self.tombstones()?;
        let strays = self.find_leftovers()?;
        self.unlisted(&strays)?;
        self.restore(&strays)?;
        self.finish(&strays)?;
        self.bring_back();
        if !self.req.dry_run {
            self.report.compacted = self.compact();
        }
        Ok(())
    }

    /// Has nodes give back the space of what is gone, one after the other.
    fn compact(&self) -> u64 {
        let one = |at: usize, store: &dyn Backend| {
            let _lock = self.map.lock(std::iter::once(at), self.settings)?;
            Ok::<_, PoolError>(store.compact()?)
        };
        let mut compacted = 0;
        for (at, store) in self.map.present() {
            match one(at, store) {
                Ok(bytes) => compacted += bytes,
                // Everything is there all the same.
                Err(error) => self.settings.observer.warn(&error.to_string()),
            }
        }
        compacted
    }

    fn object(&mut self, listed: &Listed) -> Result<Option<(Key, Vec<u16>)>> {
        let key = Key::of(&listed.name)?;
        let quiet = Quiet(self.settings.observer);
        let inner = Settings { observer: &quiet, ..*self.settings };
        let found = match self.manifests.look_at_all(&key, &listed.name) {
            Ok(found) => found,
            Err(error) => {
                if let Some(pool) = self.map.without_silent() {
                    return self.object_of(&pool, listed);
                }
                self.tell_unlooked(listed, &error);
                return Ok(None);
            }
        };
        if let Some(newest) = found.newest.as_ref().map(Listed::of)
            && newest != *listed
        {
            // Changed meanwhile, or the index followed a copy that a commit cut short left behind.
            self.index.store(&[(key, newest)])?;
        }
        if found.newest.is_none() && !self.req.dry_run {
            // Its shards, if there are any, are to be seen as those of no object.
            self.index.forget(std::slice::from_ref(&listed.name))?;
        }
        let run = found.newest.as_ref().map(|manifest| manifest.run);
        let is_corrupt = !found.corrupt.is_empty();
        let Some(health) = self.health_in_force(found, self.req.depth, &inner)? else {
            return Ok(None);
        };
        if !health.is_whole()
            && let Some(pool) = self.map.without_silent()
        {
            return self.object_of(&pool, listed);
        }
        self.report.under_replicated += u64::from(health.under_replicated);
        if listed.k == 0 || self.req.depth < Depth::Data {
            self.settings.observer.advance(listed.size);
        }
        self.report.objects += 1;
        self.report.bytes += listed.size;
        self.report.bytes_read += health.bytes_read;
        if health.is_whole() {
            return Ok((self.req.depth >= Depth::Data).then_some((key, Vec::new())));
        }
        self.queue.report(health.damaged(key), self.req.now_ms);
        if has_left(&health, listed, &self.report) {
            self.report.unasked += 1;
            return Ok(None);
        }
        self.report.unreadable += u64::from(health.margin < 0);
        self.report.damaged += u64::from(health.margin >= 0);
        let damaged = remembered(&health);
        if let (Some(run), false) = (run, self.req.dry_run) {
            let keys = (&key, &Key::of_shards(&listed.name)?);
            let lasting = lasting(&damaged, is_corrupt);
            self.mark_damage(keys, &run, &listed.nodes, &lasting, self.settings);
        }
        let Health { targets: lost, margin, notes, .. } = health;
        self.report.tell(Finding { object: listed.name.clone(), lost, margin, notes });
        Ok(Some((key, damaged)))
    }

    /// Scrubs an object by the nodes that answer.
    fn object_of(&mut self, map: &ClusterMap, listed: &Listed) -> Result<Option<(Key, Vec<u16>)>> {
        let Scrub { index, req, settings, .. } = *self;
        let (repairer, report) = (Repairer::new(map), std::mem::take(&mut self.report));
        let mut scrub = Scrub { repairer, index, req, settings, queue: self.queue, report };
        let damage = scrub.object(listed);
        self.report = scrub.report;
        damage
    }

    /// Reports an object of which it could not be said whether there is one.
    fn tell_unlooked(&mut self, listed: &Listed, error: &PoolError) {
        // A disk that takes no copy, when a version is given to more homes, is no loss.
        let passing = matches!(error, PoolError::MapChanged { .. } | PoolError::Store(_));
        if passing || !self.map.away().is_empty() {
            self.settings.observer.warn(&error.to_string());
            self.report.unasked += 1;
            return;
        }
        self.report.unreadable += 1;
        // The number of copies is unknown.
        self.report.under_replicated += 1;
        let (object, notes) = (listed.name.clone(), vec![error.to_string()]);
        self.report.tell(Finding { object, margin: -1, notes, lost: vec![] });
    }

    /// Files on nodes that no manifest in force asks for.
    fn find_leftovers(&mut self) -> Result<Strays> {
        let mut strays = Strays::default();
        let lookup = self.index.lookup()?;
        for (at, store) in self.map.present() {
            let node = &self.map.nodes[at].config.id;
            let mut suspects: Vec<NodeFile> = Vec::new();
            let mut end = Ok(());
            let listed = store.each_name(&mut |name| {
                if end.is_ok()
                    && let Some(file) = NodeFile::parse(name)
                {
                    if let NodeFile::ManifestPart { key, run, .. } = file {
                        strays.begun(key, run);
                    }
                    if let NodeFile::Manifest { key } = file
                        && strays.unlisted.len() < MAX_SUSPECTS
                        && lookup.lacks(&key)
                    {
                        strays.unlisted.insert(key);
                    }
                    match self.is_wanted(node, &file) {
                        Ok(false) if suspects.len() < MAX_SUSPECTS => suspects.push(file),
                        Ok(false) => strays.leave(&file),
                        Ok(true) => {}
                        Err(error) => end = Err(error),
                    }
                }
                Ok(())
            });
            end?;
            if let Err(error) = listed {
                self.settings.observer.warn(&error.to_string());
            }
            for file in suspects {
                match self.clear(at, &file, &mut strays) {
                    Err(PoolError::Store(error)) => {
                        strays.leave(&file);
                        self.settings.observer.warn(&error.to_string());
                    }
                    end => end?,
                }
            }
        }
        Ok(strays)
    }

    /// Looks at objects that only their manifests told of.
    fn unlisted(&mut self, strays: &Strays) -> Result<()> {
        for key in &strays.unlisted {
            let found = self.manifests.ask(key, true)?;
            self.report.under_replicated += u64::from(found.may_hide());
            let Some(manifest) = found.newest else { continue };
            let listed = Listed::of(&manifest);
            self.index.store(&[(*key, listed.clone())])?;
            let damage = self.object(&listed)?;
            if !self.req.dry_run {
                self.index.set_damage(damage.as_slice())?;
            }
        }
        Ok(())
    }

    /// Returns whether a file is what the index expects there: a quick answer for the many.
    fn is_wanted(&self, node: &str, file: &NodeFile) -> Result<bool> {
        let old = |started: u64| started.saturating_add(self.req.grace_ms) <= self.req.now_ms;
        Ok(match file {
            // Manifests are looked at with their objects, where those are looked for.
            NodeFile::Manifest { key } => {
                let homes = self.map.config.homes(key);
                let mut homes = homes.iter().flat_map(crate::map::homes::Homes::positions);
                homes.any(|at| self.map.nodes[at].config.id == *node)
            }
            NodeFile::QuarantinedShard { .. } | NodeFile::QuarantinedManifest { .. } => false,
            // Damage that this scrub has not found is looked for before its mark goes.
            NodeFile::Damaged { key, run, index: damage } => {
                let is_of =
                    |listed: Listed| !listed.deleted && listed.run == kiln_stripe::names::hex(run);
                let seen = || Ok::<_, PoolError>(self.index.damage_of(key)?.contains(damage));
                self.index.by_key(key)?.is_some_and(is_of)
                    && (self.req.depth < Depth::Data || seen()?)
            }
            NodeFile::ManifestPart { started, .. } | NodeFile::ShardPart { started, .. } => {
                !old(*started)
            }
            NodeFile::RepairPart { .. } => false,
            NodeFile::Shard { key, run, index: at } => {
                let named = |listed: Listed| {
                    listed.run == kiln_stripe::names::hex(run)
                        && listed.nodes.get(usize::from(*at)).is_some_and(|id| id == node)
                };
                let kept = || match self.map.config.has_versions() {
                    true => {
                        Ok::<_, PoolError>(self.index.by_key(&key.kept(run))?.is_some_and(named))
                    }
                    false => Ok(false),
                };
                self.index.by_key(key)?.is_some_and(named) || kept()?
            }
        })
    }

    /// Returns whether nothing needs a file that the manifest in force, if there is one, does not
    /// name.
    fn is_leftover(&self, node: &str, file: &NodeFile, newest: Option<&Manifest>) -> Result<bool> {
        let (
            NodeFile::Shard { run, index, .. } | NodeFile::RepairPart { run, index, .. },
            Some(newest),
        ) = (file, newest)
        else {
            return Ok(true);
        };
        if newest.run != *run {
            return Ok(true);
        }
        let at = usize::from(*index);
        let elsewhere = places(newest).nth(at).is_some_and(|(_, id)| id != node);
        if !elsewhere && matches!(file, NodeFile::Shard { .. }) {
            return Ok(false);
        }
        // Not before the shard that replaced it is seen to be there: what a repair has begun it may
        // go on with until then.
        let shards = ObjectShards::open(self.map, newest)?;
        let there = (at < shards.count()).then(|| shards.member(at));
        Ok(there.is_none_or(|there| matches!(there, Member::Here { damage: None, .. })))
    }

    /// Returns whether damage that a mark tells of is there no more.
    fn is_healed(&self, file: &NodeFile, found: &Found) -> Result<bool> {
        let (NodeFile::Damaged { run, index, .. }, Some(newest)) = (file, &found.newest) else {
            return Ok(true);
        };
        if newest.run != *run {
            return Ok(true);
        }
        let health = self.health(found, Depth::Parity, &[], self.settings)?;
        Ok(match *index {
            THE_MANIFEST => found.corrupt.is_empty(),
            index => !health.targets.contains(&(suspected(index).0 as u16)),
        })
    }

    /// The manifest that a file is judged by: its object's, or that of a kept version; whether
    /// nothing follows from it yet, and whether nodes are unavailable that may say more. The
    /// object's homes are locked.
    fn holder(&self, at: usize, file: &NodeFile) -> Result<(Found, bool, bool)> {
        let found = self.manifests.ask(&file.key(), true)?;
        // A copy that a dead commit left on one home may be lost with it: nothing follows from it.
        let is_unsure = |found: &Found| !found.certain || (found.newest.is_some() && !found.stable);
        // Partial files are judged by their age. A shard is data: an unavailable node may have the
        // manifest that needs it.
        let (unsure, away) = (is_unsure(&found), !found.away.is_empty());
        let versions = self.map.config.has_versions();
        let Some((kept, run, index)) = file.of_kept().filter(|_| versions) else {
            return Ok((found, unsure, away));
        };
        let kept = self.manifests.ask(&kept, true)?;
        let (unsure, away) = (unsure || is_unsure(&kept), away || !kept.away.is_empty());
        let place = (index, &self.map.nodes[at].config.id[..]);
        let of_object = found.newest.as_ref().is_some_and(|newest| newest.run == run);
        let is_better = |kept: &Manifest| !of_object || has_shard(kept, &run, place);
        let holder = if kept.newest.as_ref().is_some_and(is_better) { kept } else { found };
        Ok((holder, unsure, away))
    }

    /// Makes sure under the locks that a file is a leftover, and removes it.
    fn clear(&mut self, at: usize, file: &NodeFile, strays: &mut Strays) -> Result<()> {
        // No commit can be under way, so a file that no manifest names now is named by none.
        let key = file.key();
        let _locks = self.map.lock(self.map.config.homes_now(&key).positions(), self.settings)?;
        let (found, unsure, away) = self.holder(at, file)?;
        let is_data = file.quarantined(0).is_some();
        if unsure
            || (is_data && away)
            || self.manifests.may_be_arriving(at, file, (self.req.grace_ms, self.req.now_ms))?
        {
            strays.leave(file);
            return Ok(());
        }
        let node = &self.map.nodes[at].config.id;
        if let NodeFile::Shard { run, index, .. } = file
            && found.newest.is_none()
            && found.ghosts.is_empty()
        {
            strays.note(key, *run, *index, at);
        }
        if let NodeFile::QuarantinedShard { since, .. }
        | NodeFile::QuarantinedManifest { since, .. } = file
        {
            return self.leave_quarantine(at, file, *since, &found);
        }
        if let NodeFile::Damaged { .. } = file {
            if !self.req.dry_run && self.is_healed(file, &found)? {
                self.map.usable(at)?.remove(&file.name())?;
            }
            return Ok(());
        }
        let doomed = self.is_leftover(node, file, found.newest.as_ref())?;
        if !doomed {
            return Ok(());
        }
        self.report.leftovers += 1;
        if self.req.dry_run {
            return Ok(());
        }
        let store = self.map.usable(at)?;
        match file.quarantined(self.req.now_ms) {
            Some(kept) => {
                move_file(store, &file.name(), &kept.name())?;
                self.report.quarantined += 1;
            }
            None => store.remove(&file.name())?,
        }
        self.report.leftovers_removed += 1;
        Ok(())
    }
}

/// Damage that must be remembered: missing files are found again by any survey.
fn remembered(health: &Health) -> Vec<u16> {
    let rot = |i: &&u16| !health.away.contains(i) && !health.leaving.contains(i);
    let numbered = |i: &u16| suspect(*i, health.wrong.contains(i));
    let mut damaged: Vec<u16> = health.targets.iter().filter(rot).map(numbered).collect();
    damaged.extend(health.under_replicated.then_some(THE_MANIFEST));
    damaged
}

/// Damage of these that names do not show; `is_corrupt`: a copy of the manifest is.
fn lasting(damaged: &[u16], is_corrupt: bool) -> Vec<u16> {
    damaged.iter().filter(|one| **one != THE_MANIFEST || is_corrupt).copied().collect()
}

/// Returns whether an object lacks only what nodes have that became unavailable during the scrub.
fn has_left(health: &Health, listed: &Listed, report: &ScrubReport) -> bool {
    let left = |index: &u16| {
        let node = listed.nodes.get(usize::from(*index));
        node.is_some_and(|id| !report.away.contains(id))
    };
    health.away.iter().any(left) && health.away.len() == health.targets.len()
}

/// Leftovers of one node that are looked at in one scrub.
const MAX_SUSPECTS: usize = 100_000;

impl ScrubReport {
    fn tell(&mut self, finding: Finding) {
        if self.findings.len() < MAX_TOLD {
            self.findings.push(finding);
        }
    }

    /// Returns whether everything is as it should be.
    fn judge(&mut self) {
        let found = self.damaged + self.unreadable + self.under_replicated + self.unproven;
        self.clean = found + self.unasked == 0
            && self.away.is_empty()
            && self.leftovers == self.leftovers_removed
            && self.astray == self.brought_back;
    }
}
