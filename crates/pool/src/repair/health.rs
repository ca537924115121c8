//! The health of one object: which shards and manifest copies it lacks, and how many further losses
//! it tolerates.

use kiln_store::{ShardState, digest_of};
use kiln_stripe::{Depth, Result, Settings, scan::scan};

use crate::data::shards::{Member, ObjectShards};
use crate::index::suspected;
use crate::manifest::quorum::Found;
use crate::repair::queue::Damaged;
use crate::repair::repairer::Repairer;
use crate::{Key, Manifest};

/// Looks at an object that others replace all the time.
const LOOKS: usize = 4;

/// Health of one object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    /// Indices to rebuild or move, ascending.
    pub targets: Vec<u16>,
    /// Ones of them that are out of reach rather than known to be lost.
    pub away: Vec<u16>,
    /// Ones of them that are sound but must leave a node that is to be drained.
    pub leaving: Vec<u16>,
    /// Ones of them that do not fit the others although their checksums hold.
    pub wrong: Vec<u16>,
    /// Further losses of nodes that it tolerates; negative: it cannot be read now.
    pub margin: i32,
    /// Bytes to be rebuilt.
    pub bytes: u64,
    /// Chunk bytes read to find this.
    pub bytes_read: u64,
    /// Copies of the manifest are missing, old, corrupt, or not where readers look.
    pub under_replicated: bool,
    /// Copies of it are out of reach: what a repair makes up for when their nodes do not return.
    pub copies_away: bool,
    /// Words for people: one line each.
    pub notes: Vec<String>,
}

impl Health {
    /// Returns whether nothing is to be done.
    pub(crate) fn is_whole(&self) -> bool {
        self.targets.is_empty() && !self.under_replicated && self.margin >= 0
    }

    /// As the repair queue wants it.
    pub(crate) fn damaged(&self, key: Key) -> Damaged {
        Damaged {
            key,
            lost: self.targets.clone(),
            margin: self.margin,
            bytes: self.bytes,
            transient: !self.targets.is_empty() && self.away.len() == self.targets.len(),
        }
    }
}

impl Repairer<'_> {
    /// Looks at an object, as deep as asked; `suspects` are indices that were found damaged.
    pub(crate) fn health(
        &self,
        found: &Found,
        depth: Depth,
        suspects: &[u16],
        settings: &Settings<'_>,
    ) -> Result<Health> {
        self.health_and_shards(found, depth, suspects, settings).map(|(health, _)| health)
    }

    /// As [`Repairer::health`], of an object as it is at the end: where it was replaced while it
    /// was looked at, and so seemed to lack something, it is looked at again. `None`: it was
    /// removed, or it changes faster than it can be read.
    pub(crate) fn health_in_force(
        &self,
        mut found: Found,
        depth: Depth,
        settings: &Settings<'_>,
    ) -> Result<Option<Health>> {
        for _ in 0..LOOKS {
            let Some(manifest) = found.data() else { return Ok(None) };
            let (key, name) = (Key::of(&manifest.name)?, manifest.name.clone());
            let health = self.health(&found, depth, &[], settings)?;
            if health.is_whole() || self.is_in_force(&key, manifest)? {
                return Ok(Some(health));
            }
            found = self.manifests.look_at_all(&key, &name)?;
        }
        if let Some(manifest) = found.data() {
            let what = "is replaced faster than it can be read; what it is now was not looked at";
            settings.observer.warn(&format!("object {:?} {what}", manifest.name));
        }
        Ok(None)
    }

    /// As [`Repairer::health`], with the shards that were opened for it, if the object has some:
    /// far away an open costs several requests, which who needs them next need not make again.
    pub(crate) fn health_and_shards(
        &self,
        found: &Found,
        depth: Depth,
        suspects: &[u16],
        settings: &Settings<'_>,
    ) -> Result<(Health, Option<ObjectShards>)> {
        let settings = &self.map.settings(settings);
        let Some(manifest) = &found.newest else { return Ok((Health::default(), None)) };
        let key = Key::of(&manifest.name)?;
        let mut health = self.manifest_health(found, manifest, &key);
        if !matches!(manifest.body, crate::layout::Body::Shards(_)) {
            return Ok((health, None));
        }
        let waits = Settings { hedge: None, ..*settings };
        let shards = ObjectShards::open_with(self.map, manifest, &waits)?;
        self.shards_health(&shards, depth, suspects, settings, &mut health)?;
        Ok((health, Some(shards)))
    }

    /// Adds what is found of an object's shards.
    fn shards_health(
        &self,
        shards: &ObjectShards,
        depth: Depth,
        suspects: &[u16],
        settings: &Settings<'_>,
        health: &mut Health,
    ) -> Result<()> {
        let (codec, n) = (&shards.codec, shards.count());
        let mut bad = vec![false; n];
        for index in shards.gone().into_iter().chain(shards.damaged()) {
            bad[index] = true;
            let why = shards.problem(index).unwrap_or("it is damaged");
            health.notes.push(format!("shard {index}: {why}"));
        }
        suspects.iter().map(|&i| suspected(i).0).filter(|i| *i < n).for_each(|i| bad[i] = true);
        let mut hopeless = false;
        if depth >= Depth::Data {
            self.check_tables(shards, &mut bad, health);
            let result = scan(shards, &[], depth == Depth::Parity, settings)?;
            health.bytes_read = result.statistics.bytes();
            hopeless = result.hopeless_count > 0;
            for index in result.statistics.bad_indices() {
                bad[index] = true;
            }
            let wrong = result.wrong.iter().enumerate().filter(|(_, wrong)| **wrong);
            health.wrong = wrong.map(|(index, _)| index as u16).collect();
            let notes = result.statistics.findings.list.iter().map(ToString::to_string);
            health.notes.extend(notes);
        }
        let lost: Vec<usize> = (0..n).filter(|&index| bad[index]).collect();
        // Several shards may be corrupt in different stripes: then the object is still recoverable.
        let readable = match depth >= Depth::Data {
            true => !hopeless,
            false => codec.tolerates(&shards.gone()),
        };
        health.margin = if readable { codec.margin(&lost).max(0) } else { -1 };
        let away = |i: &usize| matches!(shards.member(*i), Member::Unavailable(_));
        for (index, &bad) in bad.iter().enumerate() {
            let node = &shards.placed.places[index].node;
            let draining = self.map.config.node.iter().any(|c| c.id == *node && c.is_leaving());
            if bad || draining {
                health.targets.push(index as u16);
                if away(&index) && !draining {
                    health.away.push(index as u16);
                }
                if !bad {
                    health.leaving.push(index as u16);
                }
            }
        }
        let each = kiln_stripe::rebuild::chunk_bytes(shards, 0);
        health.bytes = each * health.targets.len() as u64;
        Ok(())
    }

    /// Copies of the manifest: as many as there should be, all the same, all where readers look.
    pub(crate) fn manifest_health(&self, found: &Found, manifest: &Manifest, key: &Key) -> Health {
        let mut health = Health::default();
        let id = |at: usize| &self.map.nodes[at].config.id;
        let homes = self.map.config.homes_now(key);
        let is_home = |at: usize| homes.positions().any(|home| home == at);
        let here = found.copies.iter().filter(|&&at| is_home(at)).count();
        let recorded = manifest.copies.iter().filter_map(|id| self.map.config.position(id));
        let away = recorded.filter(|&at| is_home(at) && !self.map.nodes[at].is_here()).count();
        if here + away < homes.copies || manifest.copies.len() < homes.copies {
            health.under_replicated = true;
            let want = homes.copies;
            health.notes.push(format!("manifest: {here} of {want} copies are where they belong"));
        }
        health.copies_away = here < homes.copies;
        for id in &manifest.copies {
            let at = self.map.config.position(id).filter(|&at| is_home(at));
            let away = at.is_some_and(|at| !self.map.nodes[at].is_here());
            if !away && !at.is_some_and(|at| found.copies.contains(&at)) {
                health.under_replicated = true;
                health.notes.push(format!("manifest: the copy on node {id} is missing or leaves"));
            }
        }
        for &at in found.copies.iter().filter(|&&at| !is_home(at)) {
            health.under_replicated = true;
            health.notes.push(format!("manifest: a copy on node {} belongs elsewhere", id(at)));
        }
        for &at in &found.stale {
            health.under_replicated = true;
            health.notes.push(format!("manifest: an old version is on node {}", id(at)));
        }
        for (_, why) in &found.corrupt {
            health.under_replicated = true;
            health.notes.push(format!("manifest: {why}"));
        }
        // A reader needs one copy, and answers from all homes but as many as there are copies.
        let silent = |(_, domain): &&(Option<usize>, &str)| found.away.iter().any(|d| d == domain);
        let silent = homes.nodes.iter().filter(silent).count();
        let spare = homes.copies as i32 - 1 - silent as i32;
        health.margin = (here as i32 - 1).max(found.copies.len() as i32 - 1).min(spare.max(0));
        health
    }

    /// Checksum tables against the digests of the manifest.
    fn check_tables(&self, shards: &ObjectShards, bad: &mut [bool], health: &mut Health) {
        for (index, digest) in shards.digests().iter().enumerate() {
            let Member::Here { reader, .. } = shards.member(index) else { continue };
            if reader.state() == ShardState::NoTrailer {
                continue;
            }
            let why = match digest_of(reader) {
                Ok(found) if found == *digest => continue,
                Ok(_) => "its checksum tables do not match the recorded digest".to_owned(),
                Err(error) => error.to_string(),
            };
            bad[index] = true;
            health.notes.push(format!("shard {index}: {why}"));
        }
    }
}
