//! A pool gets a key, or another one: every manifest is written again with its seal.
//!
//! First the map says that the new seal is the one to write, and that those of before still count;
//! then all manifests are renewed; then the map says that nothing else counts any more. What is cut
//! short goes on when it is run again.

use kiln_store::SumKind;
use kiln_stripe::{PoolError, Result, Settings, names::DESCRIPTION};
use serde::Serialize;

use crate::layout::seal::{Seals, UNSEALED};
use crate::map::cluster_map::{ClusterMap, Opener};
use crate::map::meta_files::{MAX_TEXT, is_accepted, is_intact, read_small};
use crate::members::membership::{Membership, map_of};
use crate::{
    Key, Listed, Manifest, PoolConfig, PoolKeys, index::Index, layout::Body,
    manifest::commit::Change, manifest::quorum::Found, manifest::store::ManifestStore,
};

/// Objects whose manifests are renewed together.
pub(crate) const TOGETHER: usize = 256;

/// A pass over manifests, which are asked for by the seals of `by`.
pub(crate) struct Renewal<'a> {
    pub by: ManifestStore<'a>,
    pub now_ms: u64,
    pub settings: &'a Settings<'a>,
}

/// Report of sealing a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SealReport {
    /// The id of the key that seals now.
    pub key: String,
    /// Manifests looked at, those of removed objects among them.
    pub manifests: u64,
    /// Manifests that were sealed by this run; the others had the seal already.
    pub sealed: u64,
    /// Objects in shards of before, which are checked by CRCs still: a forged shard of theirs is
    /// found by a deep scrub, not by every read. Put again they are checked by hashes.
    pub shards_with_crc: u64,
}

impl PoolConfig {
    /// Reads a node's copy of a description that was lost. Where keys are at hand, a copy counts
    /// that one of them sealed: without that rule one disk could unseal the pool.
    ///
    /// # Errors
    /// [`PoolError::Refused`]: it is damaged, or has no seal by these keys; as
    /// [`PoolConfig::from_toml`].
    pub fn from_copy(bytes: &[u8], keys: &PoolKeys) -> Result<PoolConfig> {
        let refused = |why: &str| {
            let what = format!("copy of the pool's description: {why}; name other nodes");
            Err(PoolError::Refused { what })
        };
        if !is_intact(bytes) {
            return refused("its checksum is wrong");
        }
        let config = PoolConfig::from_toml(&String::from_utf8_lossy(bytes))?;
        let ids = keys.ids();
        if !ids.is_empty() && !is_accepted(bytes, &Seals::of(&ids, keys)) {
            return refused(
                "it has no seal by the key at hand (of a pool that never had one, move the key's \
                 file away)",
            );
        }
        Ok(PoolConfig { keys: keys.clone(), ..config })
    }
}

impl Membership<'_> {
    /// Refuses a description without seals, taken from one copy, where nodes have copies that name
    /// keys.
    ///
    /// # Errors
    /// [`PoolError::Refused`].
    pub fn check_unsealed(&self) -> Result<()> {
        for (at, store) in self.map.present().filter(|_| self.map.config.sealed.is_empty()) {
            let copy = read_small(store, DESCRIPTION, MAX_TEXT).ok().flatten();
            let copy =
                copy.and_then(|copy| PoolConfig::from_copy(&copy, &PoolKeys::default()).ok());
            if copy.is_some_and(|copy| copy.id == self.map.config.id && !copy.sealed.is_empty()) {
                let id = &self.map.nodes[at].config.id;
                let what = format!(
                    "pool description: it names no key, and the copy of node {id} does; name the \
                     key by --pool-key"
                );
                return Err(PoolError::Refused { what });
            }
        }
        Ok(())
    }

    /// The map by which the first of the keys at hand is the one to seal with, and what counted
    /// before does still; `None` when it is so already.
    ///
    /// # Errors
    /// [`PoolError::Usage`] without a key; as [`Membership::change`].
    pub fn begin_sealing(&self, settings: &Settings<'_>) -> Result<Option<PoolConfig>> {
        let id = self.first_key()?;
        if self.map.config.sealed.first() == Some(&id) {
            return Ok(None);
        }
        self.all_here()?;
        let next = self.change(false, settings, |next| {
            if next.sealed.is_empty() {
                next.sealed.push(UNSEALED.to_owned());
            }
            next.sealed.retain(|known| *known != id);
            next.sealed.insert(0, id);
            Ok(())
        })?;
        Ok(Some(next))
    }

    /// Seals all manifests by the first key, and then accepts no other seal; the map that says so
    /// is returned with the report. The index must be fresh, and all nodes available: what a node
    /// has that was not sealed would not be accepted when it is back.
    ///
    /// # Errors
    /// [`PoolError::Refused`] while nodes are unavailable; as [`Membership::change`]; stores.
    pub fn seal_all(
        &self,
        index: &Index,
        now_ms: u64,
        settings: &Settings<'_>,
    ) -> Result<(PoolConfig, SealReport)> {
        let id = self.first_key()?;
        let only = PoolConfig { sealed: vec![id.clone()], ..(*self.map.config).clone() };
        let strict = self.map.with_config(only);
        let mut report = SealReport { key: id.clone(), ..SealReport::default() };
        settings.observer.begin("seal", None);
        let renewal = Renewal { by: ManifestStore::new(&strict), now_ms, settings };
        index.in_batches("", TOGETHER, true, |batch| {
            let mut with_crc = 0;
            let is_right = |found: &Found| {
                let is_sealed = found.certain && found.corrupt.is_empty();
                let sealed = found.newest.as_ref().filter(|_| is_sealed);
                with_crc += u64::from(sealed.is_some_and(has_crc));
                sealed.is_some()
            };
            let renewed =
                self.renew(&renewal, batch, is_right, |found| Ok(found.newest.clone()))?;
            report.manifests += batch.len() as u64;
            report.sealed += renewed.len() as u64;
            let renewed = renewed.iter().filter(|manifest| has_crc(manifest)).count();
            report.shards_with_crc += with_crc + renewed as u64;
            Ok(true)
        })?;
        if self.map.config.sealed.len() == 1 {
            return Ok(((*self.map.config).clone(), report));
        }
        self.all_here()?;
        let config = self.change(false, settings, |next| {
            next.sealed = vec![id];
            Ok(())
        })?;
        Ok((config, report))
    }

    /// The map of a pool whose key is lost, by which what its nodes have is accepted as it is,
    /// under any seal: as in a pool without a key, so that it can be given another one. Those
    /// who have the lost key accept neither this map nor what is done by it.
    ///
    /// # Errors
    /// [`PoolError::Refused`] while nodes are unavailable; as [`Membership::change`].
    pub fn without_key(
        config: PoolConfig,
        open: Opener<'_>,
        settings: &Settings<'_>,
    ) -> Result<PoolConfig> {
        let doubtful = |config: PoolConfig| PoolConfig {
            sealed: vec![UNSEALED.to_owned()],
            keys: PoolKeys::default(),
            ..config
        };
        let mut pool = ClusterMap::open(doubtful(config), open)?;
        Membership::new(&pool).all_here()?;
        while let Err(error) = pool.check_map() {
            let PoolError::MapChanged { node, .. } = &error else { return Err(error) };
            let newer = pool.store(node).and_then(|store| map_of(store, &pool.config).ok()?);
            let known = pool.config.revision;
            let Some(newer) = newer.filter(|map| map.revision > known) else { return Err(error) };
            pool = ClusterMap::open(doubtful(newer), open)?;
            Membership::new(&pool).all_here()?;
        }
        Membership::new(&pool).change(false, settings, |next| {
            next.sealed.clear();
            Ok(())
        })
    }

    /// Writes manifests again that are not right, as `make` has them; those that were written.
    pub(crate) fn renew(
        &self,
        renewal: &Renewal<'_>,
        batch: &[Listed],
        mut is_right: impl FnMut(&Found) -> bool,
        make: impl Fn(&Found) -> Result<Option<Manifest>>,
    ) -> Result<Vec<Manifest>> {
        let Renewal { now_ms, settings, .. } = *renewal;
        let keys: Vec<(Key, bool)> =
            batch.iter().map(|listed| Ok((Key::of(&listed.name)?, true))).collect::<Result<_>>()?;
        let found = renewal.by.ask_each(&keys)?;
        let mut changes = Vec::new();
        for ((listed, (key, _)), found) in batch.iter().zip(&keys).zip(found) {
            settings.observer.advance(1);
            if !is_right(&found) {
                let name = &listed.name[..];
                let (thorough, keeps, staged_shards) = (true, false, &[]);
                changes.push(Change { key: *key, name, now_ms, thorough, keeps, staged_shards });
            }
        }
        let ends = self.manifests.commit_all(&changes, settings, |_, found| make(found))?;
        ends.into_iter().filter_map(Result::transpose).collect()
    }

    fn first_key(&self) -> Result<String> {
        let what = || PoolError::Usage { what: "sealing a pool needs a key of it".into() };
        self.map.config.keys.ids().into_iter().next().ok_or_else(what)
    }

    pub(crate) fn all_here(&self) -> Result<()> {
        let away: Vec<&str> = self.map.away().iter().map(|(node, _)| &node.id[..]).collect();
        if away.is_empty() {
            return Ok(());
        }
        let what = format!(
            "nodes {} are unavailable, and what they have would not be accepted when they are \
             back; bring them back, or let kiln pool forget them",
            away.join(", ")
        );
        Err(PoolError::Refused { what })
    }
}

/// Returns whether an object is in shards that are checked by CRCs.
fn has_crc(manifest: &Manifest) -> bool {
    matches!(&manifest.body, Body::Shards(placed) if placed.sums == SumKind::Crc32c)
}
