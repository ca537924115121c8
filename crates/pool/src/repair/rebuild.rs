//! The interface for repairs that are computed elsewhere: what has to be rebuilt from what, and the
//! commit of shards that other machines have written.
//!
//! A coordinator has agents do the work. It asks here what an object needs, gets the shards written
//! under [`MissingShards::part`] on their nodes, and has them put in place here: the manifest is
//! replaced by the same code as everywhere.

use std::{collections::VecDeque, convert::Infallible, sync::Arc};

use kiln_code::Codec;
use kiln_store::{Digest, ShardInfo, read_back};
use kiln_stripe::{PoolError, Result, Settings, chunks::Shards};

use crate::data::shards::{Member, ObjectShards};
use crate::manifest::commit::places;
use crate::manifest::quorum::Found;
use crate::repair::health::Health;
use crate::repair::object_repair::{InPlace, Target, Work};
use crate::repair::repairer::Repairer;
use crate::{Key, NodeFile, RepairRequest};

/// Needs of one object.
#[derive(Debug)]
pub enum Needs {
    /// Nothing, or nothing that can be done while nodes are unavailable.
    Nothing,
    /// Something that [`Repairer::repair`] does best: copies of its manifest, shards that move
    /// while others are lost.
    Central,
    /// Shards are to be rebuilt, or all of them to be copied.
    Rebuild(Box<MissingShards>),
}

/// Answer of the nodes about an object, see [`Repairer::look_for`].
#[derive(Clone, Debug)]
pub struct Looked {
    name: String,
    found: Found,
}

/// An object with shards to rebuild.
#[derive(Debug)]
pub struct MissingShards {
    /// Its name.
    pub name: String,
    /// Its code.
    pub codec: Arc<Codec>,
    /// Information of its shards; the index is the first one's.
    pub info: ShardInfo,
    /// Digests of all shards.
    pub digests: Vec<Digest>,
    /// Indices to rebuild, ascending.
    pub lost: Vec<u16>,
    /// Shards that can be read: index, node and file.
    pub sources: Vec<(u16, String, String)>,
    /// The shards to rebuild themselves, where all of them are sound, on nodes that leave: who can
    /// read them copies them.
    pub leaving: Vec<(u16, String, String)>,
    /// Node of every index as recorded, lost ones included.
    pub homes: Vec<String>,
    /// Further losses that it tolerates.
    pub margin: i32,
    key: Key,
    /// By which its shards are named.
    shards: Key,
    /// Number of the repairer.
    by: u64,
}

/// Shards of one object that other machines have rebuilt.
#[derive(Debug, Clone)]
pub struct RebuiltShards {
    /// Shards that it lacked.
    pub lacking: Arc<MissingShards>,
    /// Indices that were rebuilt, each with the id of its node.
    pub nodes: Vec<(u16, String)>,
}

impl MissingShards {
    /// Name under which a rebuilt shard is written.
    pub fn part(&self, index: u16) -> String {
        NodeFile::RepairPart { key: self.key, run: self.info.run, index, by: self.by }.name()
    }

    /// Name of the shard once it is in place.
    pub fn file(&self, index: u16) -> String {
        NodeFile::Shard { key: self.shards, run: self.info.run, index }.name()
    }

    /// Index, node and file of a shard.
    fn source(&self, index: u16) -> (u16, String, String) {
        (index, self.homes[usize::from(index)].clone(), self.file(index))
    }
}

fn is_sound(member: &Member) -> bool {
    matches!(member, Member::Here { damage: None, .. })
}

impl Repairer<'_> {
    /// Looks at an object: what has to be done to make it whole, and with what.
    /// Errors: [`PoolError::NoObject`], [`PoolError::NotRecoverable`]; too many nodes away; a
    /// store.
    pub fn needs(&self, name: &str, req: &RepairRequest, settings: &Settings<'_>) -> Result<Needs> {
        let found = self.manifests.look_at_all(&Key::of(name)?, name)?;
        self.needs_of(&Looked { name: name.to_owned(), found }, req, settings)
    }

    /// Asks all homes of objects about them, each node once for all objects of which it is a home.
    /// Errors: for each object: too many nodes away; a node knows a newer map.
    pub fn look_for(&self, names: &[&str]) -> Vec<Result<Looked>> {
        let keys: Result<Vec<(Key, bool)>> =
            names.iter().map(|name| Ok((Key::of(name)?, true))).collect();
        let found = keys.and_then(|keys| self.manifests.ask_each(&keys));
        let Ok(found) = found else {
            // It may be about a name, or a node, that only one of them has.
            return (names.iter()).map(|name| self.looked(name, None)).collect();
        };
        names.iter().zip(found).map(|(name, found)| self.looked(name, Some(found))).collect()
    }

    fn looked(&self, name: &str, found: Option<Found>) -> Result<Looked> {
        let key = Key::of(name)?;
        let found = match found {
            Some(found) => self.manifests.settled(&key, name, found)?,
            None => self.manifests.look_at_all(&key, name)?,
        };
        Ok(Looked { name: name.to_owned(), found })
    }

    /// As [`Repairer::needs`], by what the nodes said.
    pub fn needs_of(
        &self,
        looked: &Looked,
        req: &RepairRequest,
        settings: &Settings<'_>,
    ) -> Result<Needs> {
        let Looked { name, found } = looked;
        let key = Key::of(name)?;
        let Some(manifest) = &found.newest else {
            return Err(PoolError::NoObject { name: name.clone() });
        };
        let Work { health, shards, todo: lost, left, renew } =
            self.work(found, (req.away, &req.suspects), settings)?;
        if lost.is_empty() {
            if !renew && left.is_empty() {
                self.manifests.note_sound(&key, manifest, settings)?;
            }
            return Ok(if renew { Needs::Central } else { Needs::Nothing });
        }
        let moves = !health.leaving.is_empty() && !req.rebuild_leaving;
        let all = lost.iter().all(|index| health.leaving.contains(index));
        let Some(shards) = shards.filter(|shards| {
            let is_here = |index: &u16| is_sound(shards.member(usize::from(*index)));
            !moves || (all && lost.iter().all(is_here))
        }) else {
            return Ok(Needs::Central);
        };
        if health.margin < 0 {
            let (object, detail) = (name.clone(), health.notes.join("; "));
            return Err(PoolError::NotRecoverable { object, detail });
        }
        let mut lacking = self.lacking((key, Key::of_shards(name)?), &shards, &health, lost);
        if moves {
            let of = |index: &u16| lacking.source(*index);
            lacking.leaving = lacking.lost.iter().map(of).collect();
        }
        Ok(Needs::Rebuild(Box::new(lacking)))
    }

    fn lacking(
        &self,
        (key, of_shards): (Key, Key),
        shards: &ObjectShards,
        health: &Health,
        lost: Vec<u16>,
    ) -> MissingShards {
        let manifest = &shards.manifest;
        let sound = |index: &u16| {
            is_sound(shards.member(usize::from(*index))) && !health.targets.contains(index)
        };
        let all = 0..shards.count() as u16;
        let mut lacking = MissingShards {
            name: manifest.name.clone(),
            codec: Arc::clone(&shards.codec),
            info: shards.info_of(0),
            digests: shards.digests(),
            sources: Vec::new(),
            leaving: Vec::new(),
            homes: places(manifest).map(|(_, node)| node.to_owned()).collect(),
            margin: health.margin,
            lost,
            key,
            shards: of_shards,
            by: self.map.config.repairer,
        };
        lacking.sources = all.filter(sound).map(|index| lacking.source(index)).collect();
        lacking
    }

    /// Puts rebuilt shards in place, each on the node named beside its index: they are there under
    /// [`MissingShards::part`], durable. What the nodes return must have the recorded digests.
    /// Objects, of which none is there twice, share locks and syncs; how it ended for each of
    /// them, in their order. `false`: the object was replaced or removed meanwhile, and the parts
    /// were removed.
    /// Errors: for each object: [`PoolError::Mismatch`] when a node returns something else; a node
    /// that is not of the pool or away; stores.
    pub fn put_rebuilt(
        &self,
        rebuilt: &[RebuiltShards],
        now_ms: u64,
        settings: &Settings<'_>,
    ) -> Vec<Result<bool>> {
        let mut ends: Vec<Result<bool>> = rebuilt.iter().map(|_| Ok(false)).collect();
        let mut verified = Vec::new();
        for (at, targets) in self.verify_rebuilt(rebuilt).into_iter().enumerate() {
            match targets {
                Ok(targets) => verified.push((at, targets)),
                Err(error) => ends[at] = Err(error),
            }
        }
        let together: Vec<InPlace<'_>> = (verified.iter())
            .map(|(at, targets)| {
                let lacking = &rebuilt[*at].lacking;
                let (key, run) = (lacking.key, lacking.info.run);
                InPlace { key, name: &lacking.name, run, targets, now_ms }
            })
            .collect();
        let put = match self.put_all_in_place(&together, settings) {
            Ok(put) => put,
            // What keeps all of them back may be about a node that only one of them needs.
            Err(_) => together.iter().map(|one| self.put_in_place(one, settings)).collect(),
        };
        for ((at, _), end) in verified.iter().zip(put) {
            ends[*at] = end;
        }
        ends
    }

    /// Reads rebuilt shards back from their nodes; the targets that they are, for each object.
    fn verify_rebuilt(&self, rebuilt: &[RebuiltShards]) -> Vec<Result<Vec<Target>>> {
        let verify = |(lacking, (index, id)): (&MissingShards, &(u16, String))| {
            let what = || PoolError::Usage { what: format!("the pool has no node {id:?}") };
            let node = self.map.config.position(id).ok_or_else(what)?;
            let target = self.target(&lacking.name, lacking.info.run, *index, node)?;
            let (store, digest) = (self.map.usable(node)?, &lacking.digests[target.index]);
            read_back(store, &target.part, digest)
                .map_err(|error| PoolError::rebuilt(error, &lacking.name, target.index))?;
            Ok(target)
        };
        let shards = (rebuilt.iter())
            .flat_map(|object| object.nodes.iter().map(|shard| (&*object.lacking, shard)))
            .collect();
        // An error of one object is not to end the others.
        let verified = self.map.in_parallel(shards, |_, shard| Ok::<_, Infallible>(verify(shard)));
        let mut verified: VecDeque<Result<Target>> = verified.into_iter().flatten().collect();
        let own = |object: &RebuiltShards| verified.drain(..object.nodes.len()).collect();
        rebuilt.iter().map(own).collect()
    }
}
