//! Scrubbing of files that no manifest asks for: data goes into quarantine, objects whose
//! manifests are all lost are made again from their shards, and what is long since of no use goes.

use std::collections::BTreeMap;

use kiln_store::{Backend, ShardReader, move_file};
use kiln_stripe::{PoolError, Result, Settings};

use crate::data::shards::{Member, ObjectShards};
use crate::layout::{Body, Place, Placed, place};
use crate::manifest::commit::{Change, places};
use crate::repair::unreferenced_shards::{Stray, Strays};
use crate::{
    Key, Listed, Manifest, NodeFile, manifest::quorum::Found, manifest::store::ManifestStore,
    map::cluster_map::ClusterMap, map::meta_files::epoch_of, map::presence::is_marked,
    members::membership::Membership, repair::scrub::Scrub,
};

impl Scrub<'_> {
    /// A file in quarantine: it returns to its place if it is asked for again and nothing is there,
    /// and goes when its time is over.
    pub(crate) fn leave_quarantine(
        &mut self,
        at: usize,
        file: &NodeFile,
        since: u64,
        found: &Found,
    ) -> Result<()> {
        let (store, node) = (self.map.usable(at)?, &self.map.nodes[at].config.id);
        if let (NodeFile::QuarantinedShard { key, run, index, .. }, Some(manifest)) =
            (file, &found.newest)
            && manifest.run == *run
            && places(manifest).any(|(i, id)| i == *index && id == node)
            && !self.req.dry_run
        {
            let shard = NodeFile::Shard { key: *key, run: *run, index: *index }.name();
            let shards = ObjectShards::open(self.map, manifest)?;
            if matches!(shards.member(usize::from(*index)), Member::Lost(_)) {
                move_file(store, &file.name(), &shard)?;
                return Ok(());
            }
        }
        if since.saturating_add(self.req.grace_ms) > self.req.now_ms || self.req.dry_run {
            self.report.quarantined += 1;
            return Ok(());
        }
        store.remove(&file.name())?;
        Ok(())
    }

    /// Makes objects again of which no manifest is left, only shards: what suffices to decode, and
    /// is more than a removal leaves behind while m nodes are unavailable, was not removed.
    pub(crate) fn restore(&mut self, strays: &Strays) -> Result<()> {
        if self.map.config.is_encrypted() {
            // The keys of the objects were in their manifests.
            return Ok(());
        }
        for ((key, run), shards) in strays.lost() {
            let Some(manifest) = self.manifest_of(key, run, shards)? else { continue };
            if self.map.config.seals().is_strict() {
                self.report.unproven += 1;
                self.settings.observer.warn(&format!(
                    "object {:?}: no copy of its manifest is left, {} shards are; the pool is \
                     sealed, and shards cannot prove whose they are: look at them, and put the \
                     object again",
                    manifest.name,
                    shards.len()
                ));
                continue;
            }
            self.report.restored += 1;
            if self.req.dry_run {
                continue;
            }
            let change = Change {
                key: *key,
                name: &manifest.name,
                now_ms: self.req.now_ms,
                thorough: true,
                keeps: false,
                staged_shards: &[],
            };
            // They were just put in quarantine.
            for &(at_index, at) in shards {
                let file = NodeFile::Shard { key: *key, run: *run, index: at_index };
                if let Some(kept) = file.quarantined(self.req.now_ms) {
                    move_file(self.map.usable(at)?, &kept.name(), &file.name())?;
                }
            }
            let committed = self.manifests.commit(&change, self.settings, |now| {
                Ok(now.newest.is_none().then(|| manifest.clone()))
            })?;
            if let Some(manifest) = committed {
                self.settings.observer.warn(&format!(
                    "object {:?}: no copy of its manifest was left; it was made again from {} \
                     shards",
                    manifest.name,
                    shards.len()
                ));
                self.index.store(&[(*key, Listed::of(&manifest))])?;
            }
        }
        Ok(())
    }

    /// Returns what the manifest of these shards must have been; `None` when they are too few to
    /// tell.
    fn manifest_of(&self, key: &Key, run: &[u8; 16], shards: &[Stray]) -> Result<Option<Manifest>> {
        let mut known: Option<(kiln_store::ShardInfo, u64, Vec<kiln_store::Digest>)> = None;
        let mut sound: BTreeMap<u16, usize> = BTreeMap::new();
        for &(index, at) in shards {
            let file = NodeFile::Shard { key: *key, run: *run, index };
            let kept =
                file.quarantined(self.req.now_ms).filter(|_| !self.req.dry_run).unwrap_or(file);
            let store = self.map.usable(at)?;
            let Ok(reader) = ShardReader::open(store, &kept.name()) else { continue };
            let (Some(size), Some(digests)) = (reader.size(), reader.digests()) else { continue };
            let info = kiln_store::ShardInfo { index: 0, size: None, ..reader.info().clone() };
            if reader.damage().is_some()
                || reader.info().index != index
                || info.run != *run
                || Key::of(&info.object).ok() != Some(*key)
            {
                continue;
            }
            match &known {
                Some(first) if first.0 != info || first.1 != size || first.2 != digests => continue,
                Some(_) => {}
                None => known = Some((info, size, digests.to_vec())),
            }
            sound.insert(index, at);
        }
        let Some((info, size, digests)) = known else { return Ok(None) };
        let Ok(codec) = self.map.codec(&info.spec) else { return Ok(None) };
        let (shape, n) = (codec.shape(), usize::from(info.n));
        let lost: Vec<usize> = (0..n).filter(|i| !sound.contains_key(&(*i as u16))).collect();
        if shape.n() != n || digests.len() != n || sound.len() <= shape.m || !codec.tolerates(&lost)
        {
            return Ok(None);
        }
        let taken: Vec<&str> =
            sound.values().map(|&at| &self.map.nodes[at].config.domain[..]).collect();
        let (positions, candidates) = self.map.candidates(|_| true);
        let mut others = place(key, &candidates, lost.len(), &taken).into_iter();
        let mut homes = Vec::with_capacity(n);
        for (index, digest) in digests.iter().enumerate() {
            let known = sound.get(&(index as u16)).copied();
            let at = known.or_else(|| others.next().map(|at| positions[at]));
            let Some(at) = at else { return Ok(None) };
            homes.push(Place { node: self.map.nodes[at].config.id.clone(), digest: *digest });
        }
        Ok(Some(Manifest {
            pool: self.map.config.id_bytes(),
            name: info.object.clone(),
            version: 0,
            run: *run,
            created_ms: self.req.now_ms,
            size,
            copies: Vec::new(),
            kept: None,
            key: None,
            body: Body::Shards(Placed {
                spec: info.spec.clone(),
                k: info.k,
                alpha: info.alpha,
                sub_chunk: info.sub_chunk,
                segment_stripes: info.segment_stripes,
                sums: info.sums,
                places: homes,
            }),
        }))
    }

    /// Sees to it that removals are known on as many homes as objects are: where a copy of a
    /// tombstone is lost, an older version would be the newest one some day.
    pub(crate) fn tombstones(&mut self) -> Result<()> {
        for listed in self.index.tombstones()? {
            let key = Key::of(&listed.name)?;
            let renewed = self.manifests.look_at_all(&key, &listed.name).and_then(|found| {
                let Some(manifest) = &found.newest else { return Ok(None) };
                let lacking = self.manifest_health(&found, manifest, &key).under_replicated;
                if lacking && !self.req.dry_run {
                    self.renew(key, manifest, self.req.now_ms, self.settings)?;
                }
                Ok((lacking && !self.req.dry_run).then_some(()))
            });
            match renewed {
                Ok(None) => {}
                Ok(Some(())) => {
                    let newest = self.manifests.ask(&key, true)?.newest;
                    let entry = newest.map(|manifest| (key, Listed::of(&manifest)));
                    self.index.store(entry.as_slice())?;
                }
                Err(error) => {
                    self.report.under_replicated += 1;
                    self.settings.observer.warn(&error.to_string());
                }
            }
        }
        Ok(())
    }

    /// Ends a scrub of everything: the map is settled if all is in place, and removals are
    /// forgotten once nothing can contradict them.
    pub(crate) fn finish(&mut self, strays: &Strays) -> Result<()> {
        if self.req.dry_run {
            return Ok(());
        }
        self.report.quarantined += self.readmit(false, self.req.now_ms, self.settings);
        let mut settled = None;
        if self.report.under_replicated == 0 && self.map.is_backfilling() {
            settled = self.members.settle_now(self.settings)?;
        }
        if self.report.under_replicated > 0 {
            return Ok(());
        }
        let pool = settled.map(|map| self.map.with_config(map));
        match self.drop_tombstones(pool.as_ref().unwrap_or(self.map), strays) {
            // They stay while a disk fails writes.
            Err(PoolError::Store(error)) => self.settings.observer.warn(&error.to_string()),
            end => end?,
        }
        Ok(())
    }

    /// Gives the map to nodes that did not get it when it was changed, which succeeds without them:
    /// from now on an older one says that a disk was rolled back, and what such disks alone have is
    /// not accepted (seed 24000 of the simulator lost an object by that).
    fn tell_all(map: &ClusterMap, settings: &Settings<'_>) -> Result<()> {
        let (members, knows) =
            (Membership::new(map), |store| epoch_of(store, &map.config).ok().flatten());
        let behind: Vec<usize> = (map.present())
            .filter(|(_, store)| knows(*store) != Some(map.config.revision))
            .map(|(at, _)| at)
            .collect();
        behind.into_iter().try_for_each(|at| members.tell(at, settings))
    }

    /// Tombstones go once all nodes are available and nothing older is left on them, shards
    /// neither: without a tombstone they are those of an object whose manifest was lost, and made
    /// one again (seed 2201 of the simulator got a removed object back by that). Versions up to
    /// theirs are below the pool's floor then: a disk of before brings nothing back.
    fn drop_tombstones(&mut self, map: &ClusterMap, strays: &Strays) -> Result<()> {
        if !map.config.is_settled() || !map.away().is_empty() {
            return Ok(());
        }
        let mut tombstones = Vec::new();
        for listed in self.index.tombstones()? {
            if !strays.may_have(&Key::of(&listed.name)?) {
                tombstones.push(listed);
            }
        }
        let Some(floor) = tombstones.iter().map(|listed| listed.version).max() else {
            return Ok(());
        };
        // Each node must take the map that tells of it.
        let full = |store: &dyn Backend| matches!(store.space(), Ok(Some(room)) if room.free == 0);
        if map.present().any(|(_, store)| !is_marked(store) || full(store)) {
            return Ok(());
        }
        // All nodes are there: who has an older map after this was rolled back.
        let pool = map.with_config(Membership::new(map).change(false, self.settings, |next| {
            (next.floor, next.floored) = (floor.max(next.floor), next.revision);
            Ok(())
        })?);
        Self::tell_all(&pool, self.settings)?;
        let mut forgotten = Vec::new();
        for listed in tombstones {
            let key = Key::of(&listed.name)?;
            let _locks = pool.lock(pool.config.homes_now(&key).positions(), self.settings)?;
            let found = ManifestStore::new(&pool).ask(&key, true)?;
            let removed = found.newest.as_ref().is_none_or(|manifest| {
                !manifest.body.is_data() && manifest.version <= pool.config.floor
            });
            if !removed || !found.certain {
                let newest = found.newest.filter(|_| found.certain);
                let known = newest.map(|manifest| (key, Listed::of(&manifest)));
                self.index.store(known.as_slice())?;
                continue;
            }
            let name = NodeFile::Manifest { key }.name();
            // Older versions first: a crash must not leave one of them without the tombstone that
            // overrides it. A node that is out may have one too, and would bring it back with it.
            for (at, store) in pool.present() {
                if !found.copies.contains(&at) {
                    store.remove(&name)?;
                }
            }
            for at in &found.copies {
                pool.usable(*at)?.remove(&name)?;
            }
            self.report.forgotten += 1;
            forgotten.push(listed.name);
        }
        self.index.forget(&forgotten)
    }
}
