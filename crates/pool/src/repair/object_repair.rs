//! Repair of one object: lost shards are rebuilt as partial files, verified, and put in place.

use kiln_stripe::estimate::estimate_stripes;
use kiln_stripe::node::Part;
use kiln_stripe::rebuild::{Rebuilt, rebuild_shards};
use kiln_stripe::{Depth, PoolError, Quiet, ReadsReport, Result, Settings};
use serde::Serialize;

use crate::index::{THE_MANIFEST, suspected};
use crate::manifest::commit::{Change, StagedShard, places};
use crate::{
    Key, Manifest, NodeFile, data::capacity::WithRoom, data::shards::ObjectShards, layout::Body,
    manifest::quorum::Found, map::presence::Asked, repair::health::Health,
    repair::repairer::Repairer,
};

/// Rounds of a repair that keeps finding new damage in its helpers.
const ROUNDS: usize = 4;

/// Request to repair an object.
#[derive(Clone, Debug, Default)]
pub struct RepairRequest {
    /// The time, in ms since 1970.
    pub now_ms: u64,
    /// Also rebuild the shards of unavailable nodes, on other nodes, as if they were lost.
    pub away: bool,
    /// Indices known to be damaged.
    pub suspects: Vec<u16>,
    /// True if [`Repairer::needs`] has sound shards rebuilt, too, that must leave a node: its link
    /// may have enough to carry.
    pub rebuild_leaving: bool,
}

/// Report of a repair of one object.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RepairedObject {
    /// The object.
    pub object: String,
    /// Indices rebuilt or moved, and the node of each.
    pub rebuilt: Vec<(u16, String)>,
    /// Indices not rebuilt because their nodes are unavailable.
    pub left: Vec<u16>,
    /// Chunk bytes read.
    pub bytes_read: u64,
    /// Contiguous reads of chunk bytes.
    pub read_runs: u64,
    /// Chunk bytes written.
    pub bytes_written: u64,
    /// Of these, kept from an interrupted repair.
    pub resumed_bytes: u64,
    /// Copies of the manifest were made or renewed.
    pub manifest: bool,
    /// Expected cost of its reads, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<ExpectedReads>,
    /// Shards have no place: why. All else is done.
    #[serde(skip)]
    pub refused: Option<String>,
    /// Damage that was known before and is left then.
    #[serde(skip)]
    pub left_damaged: Vec<u16>,
}

/// Expected cost of reads on [`Settings::devices`]: seconds, or what is paid.
#[derive(Copy, Clone, Debug, Default, PartialEq, Serialize)]
pub struct ExpectedReads {
    /// As they were planned.
    pub planned: f64,
    /// With one read for every run of the repair with the fewest bytes.
    pub as_runs: f64,
    /// Of k whole chunks.
    pub whole_chunks: f64,
}

impl ExpectedReads {
    /// Adds what was expected of one repair.
    pub fn add(sum: &mut Option<ExpectedReads>, more: Option<ExpectedReads>) {
        let Some(more) = more else { return };
        let sum = sum.get_or_insert_default();
        sum.planned += more.planned;
        sum.as_runs += more.as_runs;
        sum.whole_chunks += more.whole_chunks;
    }

    /// Returns those of one repair.
    pub fn of(reads: &ReadsReport) -> ExpectedReads {
        ExpectedReads {
            planned: reads.expected_seconds,
            as_runs: reads.expected_seconds_as_runs,
            whole_chunks: reads.expected_seconds_whole_chunks,
        }
    }
}

/// Damage of an object, as a repair sees it.
pub(crate) struct Work {
    pub health: Health,
    /// Its shards, as they were opened to look at them.
    pub shards: Option<ObjectShards>,
    /// Indices to rebuild or move now.
    pub todo: Vec<u16>,
    /// Indices that wait for unavailable nodes.
    pub left: Vec<u16>,
    /// Copies of its manifest are to be written.
    pub renew: bool,
}

/// Place of one shard.
pub(crate) struct Target {
    pub index: usize,
    pub node: usize,
    pub part: String,
    pub name: String,
}

/// An object whose rebuilt shards are verified parts on their nodes.
pub(crate) struct InPlace<'a> {
    pub key: Key,
    pub name: &'a str,
    /// The version that they are of.
    pub run: [u8; 16],
    pub targets: &'a [Target],
    /// The time, in ms since 1970.
    pub now_ms: u64,
}

impl InPlace<'_> {
    fn staged(&self) -> Vec<StagedShard> {
        let staged = |target: &Target| StagedShard {
            node: target.node,
            part: target.part.clone(),
            name: target.name.clone(),
        };
        self.targets.iter().map(staged).collect()
    }
}

/// Shards whose bytes are known to be wrong, of indices known to be damaged.
pub(crate) fn wrong_of(suspects: &[u16]) -> Vec<usize> {
    suspects.iter().map(|s| suspected(*s)).filter(|s| s.1).map(|s| s.0).collect()
}

impl Repairer<'_> {
    /// Repairs one object: rebuilds its lost and damaged shards (on their nodes, or on others
    /// where those are gone or to be drained) and renews its manifest.
    ///
    /// A rebuilt shard is a hidden part until its digest equals the one in the manifest and it
    /// was read back from its node. A shard that moves is removed from its old node only after
    /// that. An interrupted repair goes on where its parts end.
    /// Errors: [`PoolError::StripeLost`] and [`PoolError::NotRecoverable`] when too much is lost,
    /// [`PoolError::Mismatch`]; store errors. Nothing is then replaced.
    pub fn repair(
        &self,
        name: &str,
        req: &RepairRequest,
        settings: &Settings<'_>,
    ) -> Result<RepairedObject> {
        let key = Key::of(name)?;
        let mut repaired = RepairedObject { object: name.to_owned(), ..RepairedObject::default() };
        let mut suspects = req.suspects.clone();
        for _ in 0..ROUNDS {
            let found = self.manifests.look_at_all(&key, name)?;
            let Some(manifest) = found.newest.clone() else {
                return Err(PoolError::NoObject { name: name.to_owned() });
            };
            let work = self.work(&found, (req.away, &suspects), settings)?;
            repaired.left.clone_from(&work.left);
            if work.todo.is_empty() {
                if work.renew {
                    self.renew(key, &manifest, req.now_ms, settings)?;
                    repaired.manifest = true;
                } else if work.left.is_empty() && repaired.rebuilt.is_empty() {
                    self.manifests.note_sound(&key, &manifest, settings)?;
                }
                return Ok(repaired);
            }
            let done = |index: &&u16| repaired.rebuilt.iter().any(|(done, _)| done == *index);
            let rebuilt = match work.todo.iter().find(done) {
                Some(&index) => {
                    let todo = "its disk does not return the bytes that were written; replace the \
                                disk";
                    let (object, index, todo) = (name.to_owned(), index.into(), todo.into());
                    Err(PoolError::Mismatch { object, index, todo })
                }
                None => {
                    let object = (key, &manifest, req.now_ms);
                    self.rebuild(object, &work, &suspects, &mut repaired, settings)
                }
            };
            let in_force = rebuilt.is_ok() && repaired.refused.is_none();
            let in_force = in_force || self.is_in_force(&key, &manifest)?;
            suspects = match rebuilt {
                Ok(_) if in_force && repaired.refused.is_some() => {
                    let RepairedObject { rebuilt, left_damaged, .. } = &mut repaired;
                    let done = |at| rebuilt.iter().any(|(done, _)| usize::from(*done) == at);
                    left_damaged.extend(&req.suspects);
                    left_damaged.retain(|one| *one != THE_MANIFEST && !done(suspected(*one).0));
                    return Ok(repaired);
                }
                Ok(suspects) if in_force => suspects,
                Err(error) if in_force => return Err(error),
                // It was replaced or removed, and its shards went while they were looked at.
                _ => {
                    (repaired.refused, repaired.rebuilt) = (None, Vec::new());
                    Vec::new()
                }
            };
        }
        let what = format!("object {name:?}: every attempt finds new damage; run kiln scrub");
        Err(PoolError::Refused { what })
    }

    /// Looks at what an object lacks; `suspects` are indices known to be damaged.
    pub(crate) fn work(
        &self,
        found: &Found,
        (away, suspects): (bool, &[u16]),
        settings: &Settings<'_>,
    ) -> Result<Work> {
        let (health, shards) = self.health_and_shards(found, Depth::Headers, suspects, settings)?;
        let waits = |index: &u16| !away && health.away.contains(index);
        let (left, todo) = health.targets.iter().copied().partition(waits);
        let renew = health.under_replicated || (away && health.copies_away);
        Ok(Work { health, shards, todo, left, renew })
    }

    /// Returns what the reads of an object's repair would cost, if that is known.
    pub fn expected_reads(
        &self,
        name: &str,
        req: &RepairRequest,
        settings: &Settings<'_>,
    ) -> Result<Option<ExpectedReads>> {
        if settings.devices.is_none() {
            return Ok(None);
        }
        let found = self.manifests.look_at_all(&Key::of(name)?, name)?;
        let work = self.work(&found, (req.away, &req.suspects), settings)?;
        let Some(shards) = work.shards.filter(|_| work.health.margin >= 0) else { return Ok(None) };
        let targets: Vec<usize> = work.todo.iter().map(|index| usize::from(*index)).collect();
        let statistics = estimate_stripes(&shards, &targets, &targets, settings.devices)?;
        Ok(statistics.reads.as_ref().map(ExpectedReads::of))
    }

    /// Writes copies of an object's manifest that are missing, in a map that is not settled; says
    /// whether any were.
    pub fn renew_copies(&self, name: &str, now_ms: u64, settings: &Settings<'_>) -> Result<bool> {
        if !self.map.is_backfilling() {
            return Ok(false);
        }
        let key = Key::of(name)?;
        let found = match self.manifests.look_at_all(&key, name) {
            Ok(found) => found,
            Err(PoolError::Uncertain { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let Some(manifest) = &found.newest else { return Ok(false) };
        let lacking = self.manifest_health(&found, manifest, &key).under_replicated;
        if lacking {
            self.renew(key, manifest, now_ms, settings)?;
        }
        Ok(lacking)
    }

    /// Returns whether nothing has changed an object since this manifest was found: what its shards
    /// seem to lack else says nothing of it.
    pub(crate) fn is_in_force(&self, key: &Key, manifest: &Manifest) -> Result<bool> {
        Ok(self.manifests.ask(key, false)?.newest.as_ref() == Some(manifest))
    }

    /// Rebuilds what there is to do; returns indices of other shards that turned out to be damaged.
    fn rebuild(
        &self,
        (key, manifest, now_ms): (Key, &Manifest, u64),
        Work { health, shards, todo, renew, .. }: &Work,
        suspects: &[u16],
        repaired: &mut RepairedObject,
        settings: &Settings<'_>,
    ) -> Result<Vec<u16>> {
        let Some(shards) = shards.as_ref().filter(|_| health.margin >= 0) else {
            let detail = health.notes.join("; ");
            return Err(PoolError::NotRecoverable { object: manifest.name.clone(), detail });
        };
        let bytes = kiln_stripe::rebuild::chunk_bytes(shards, 0);
        let (targets, refused) = self.targets(manifest, todo, bytes, &self.map.asked())?;
        if let (true, Some(refused)) = (targets.is_empty(), &refused) {
            // Copies of the manifest have homes of their own. Without them the map is not settled,
            // and nothing that would make room for the shards could be changed in the end.
            if *renew {
                self.renew(key, manifest, now_ms, settings)?;
                repaired.manifest = true;
            }
            repaired.refused = Some(refused.clone());
            return Ok(Vec::new());
        }
        let bad = self.write_parts(shards, &targets, &wrong_of(suspects), repaired, settings)?;
        let (name, run) = (&manifest.name[..], manifest.run);
        let object = InPlace { key, name, run, targets: &targets, now_ms };
        if !self.put_in_place(&object, settings)? {
            return Ok(Vec::new());
        }
        repaired.manifest = true;
        for target in &targets {
            let node = self.map.nodes[target.node].config.id.clone();
            repaired.rebuilt.push((target.index as u16, node));
        }
        // Shards that have no place are found to lack one at the next look.
        Ok(bad)
    }

    /// Makes verified parts the shards of their object. `false`: the object was replaced or
    /// removed meanwhile, and the parts with it.
    pub(crate) fn put_in_place(
        &self,
        object: &InPlace<'_>,
        settings: &Settings<'_>,
    ) -> Result<bool> {
        let ends = self.put_all_in_place(std::slice::from_ref(object), settings)?;
        ends.into_iter().next().unwrap_or(Ok(false))
    }

    /// As [`Repairer::put_in_place`], for objects of which none is there twice, with one commit.
    pub(crate) fn put_all_in_place(
        &self,
        objects: &[InPlace<'_>],
        settings: &Settings<'_>,
    ) -> Result<Vec<Result<bool>>> {
        let staged: Vec<Vec<StagedShard>> = objects.iter().map(InPlace::staged).collect();
        let changes: Vec<Change<'_>> = (objects.iter().zip(&staged))
            .map(|(object, staged_shards)| {
                let InPlace { key, name, now_ms, .. } = *object;
                Change { key, name, now_ms, thorough: true, keeps: false, staged_shards }
            })
            .collect();
        let committed = self.manifests.commit_all(&changes, settings, |at, now| {
            let InPlace { run, targets, .. } = objects[at];
            let Some(current) = now.newest.as_ref().filter(|now| now.run == run) else {
                return Ok(None);
            };
            let mut next = current.clone();
            if let Body::Shards(placed) = &mut next.body {
                for target in targets {
                    let id = &self.map.nodes[target.node].config.id;
                    placed.places[target.index].node.clone_from(id);
                }
            }
            Ok(Some(next))
        })?;
        let ends = committed.into_iter().zip(&staged).map(|(committed, staged)| {
            if committed?.is_some() {
                return Ok(true);
            }
            // The object was replaced or removed: its new version is the one to look at.
            for staged_shard in staged {
                if let Ok(store) = self.map.nodes[staged_shard.node].store() {
                    store.remove(&staged_shard.part)?;
                }
            }
            Ok(false)
        });
        Ok(ends.collect())
    }

    /// A shard that is to be written on a node.
    pub(crate) fn target(
        &self,
        object: &str,
        run: [u8; 16],
        index: u16,
        node: usize,
    ) -> Result<Target> {
        let (key, by) = (Key::of(object)?, self.map.config.repairer);
        let part = NodeFile::RepairPart { key, run, index, by }.name();
        let name = NodeFile::Shard { key: Key::of_shards(object)?, run, index }.name();
        Ok(Target { index: usize::from(index), node, part, name })
    }

    /// Returns where the shards in `todo`, of so many bytes each, go: to their own nodes, or to the
    /// best of the other domains that have room; and why some go nowhere, if so.
    pub(crate) fn targets(
        &self,
        manifest: &Manifest,
        todo: &[u16],
        bytes: u64,
        asked: &Asked,
    ) -> Result<(Vec<Target>, Option<String>)> {
        let own: Vec<(u16, Option<usize>)> =
            places(manifest).map(|(index, node)| (index, self.map.config.position(node))).collect();
        let stays = |index: u16, at: usize| {
            let leaves = self.map.nodes[at].config.is_leaving();
            !todo.contains(&index) || (!leaves && self.map.is_still(at, asked))
        };
        let mut taken: Vec<&str> = Vec::new();
        for &(index, at) in &own {
            if let Some(at) = at.filter(|&at| stays(index, at)) {
                taken.push(&self.map.nodes[at].config.domain);
            }
        }
        let home = |index: u16| own[usize::from(index)].1.filter(|&at| stays(index, at));
        let moving = todo.iter().filter(|index| home(**index).is_none()).count();
        let WithRoom { chosen, full, .. } = self.writer.place_with_room(
            &Key::of_shards(&manifest.name)?,
            moving,
            &taken,
            bytes,
            asked,
        )?;
        let mut fresh = chosen.into_iter();
        let mut targets = Vec::with_capacity(todo.len());
        let mut nowhere = Vec::new();
        for &index in todo {
            match home(index).or_else(|| fresh.next()) {
                Some(node) => {
                    targets.push(self.target(&manifest.name, manifest.run, index, node)?);
                }
                None => nowhere.push(index),
            }
        }
        let refused = (!nowhere.is_empty()).then(|| {
            format!(
                "object {:?}: there is no domain left for shards {nowhere:?}; replace a node's \
                 disk or add a node{}",
                manifest.name,
                self.writer.without_room(&full)
            )
        });
        Ok((self.named_directly(targets), refused))
    }

    /// Targets with the names under which their shards are written: where there are no renames
    /// those that they keep.
    pub(crate) fn named_directly(&self, mut targets: Vec<Target>) -> Vec<Target> {
        for target in &mut targets {
            if self.manifests.is_direct(target.node) {
                target.part.clone_from(&target.name);
            }
        }
        targets
    }

    /// Rebuilds shards as parts, without reading those that are `wrong`; returns indices of others
    /// that turned out to be damaged.
    pub(crate) fn write_parts(
        &self,
        shards: &ObjectShards,
        targets: &[Target],
        wrong: &[usize],
        repaired: &mut RepairedObject,
        settings: &Settings<'_>,
    ) -> Result<Vec<u16>> {
        let part = |target: &Target| {
            let store = self.map.usable(target.node)?;
            Ok(Part { index: target.index, store, name: target.part.clone() })
        };
        let parts = targets.iter().map(part).collect::<Result<Vec<Part<'_>>>>()?;
        self.rebuild_parts(shards, &parts, wrong, repaired, settings)
    }

    /// As [`Repairer::write_parts`], wherever the parts are.
    pub(crate) fn rebuild_parts(
        &self,
        shards: &ObjectShards,
        parts: &[Part<'_>],
        wrong: &[usize],
        repaired: &mut RepairedObject,
        settings: &Settings<'_>,
    ) -> Result<Vec<u16>> {
        let read = self.map.read_settings(settings);
        let quiet = Settings { observer: &Quiet(settings.observer), ..read };
        let Rebuilt { statistics, written_each, kept_each } =
            rebuild_shards(shards, parts, wrong, settings.devices, &quiet)?;
        ExpectedReads::add(
            &mut repaired.expected,
            statistics.reads.as_ref().map(ExpectedReads::of),
        );
        repaired.bytes_read += statistics.bytes();
        repaired.read_runs += statistics.runs();
        repaired.bytes_written += written_each * parts.len() as u64;
        repaired.resumed_bytes += kept_each * parts.len() as u64;
        let bad = statistics.bad_indices().into_iter();
        let others = bad.filter(|index| parts.iter().all(|part| part.index != *index));
        Ok(others.map(|index| index as u16).collect())
    }

    /// Writes the same manifest again, to all nodes that should hold it.
    pub(crate) fn renew(
        &self,
        key: Key,
        manifest: &Manifest,
        now_ms: u64,
        settings: &Settings<'_>,
    ) -> Result<()> {
        let (name, thorough, keeps) = (&manifest.name[..], true, false);
        let change = Change { key, name, now_ms, thorough, keeps, staged_shards: &[] };
        self.manifests.commit(&change, settings, |found| Ok(found.newest.clone()))?;
        Ok(())
    }
}
