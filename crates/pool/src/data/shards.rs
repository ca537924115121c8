//! The shards of one object, opened where its manifest says that they are.

use std::sync::Arc;

use kiln_code::Codec;
use kiln_store::{Digest, Layout, ShardInfo, ShardReader, StoreError};
use kiln_stripe::chunks::Shards;
use kiln_stripe::geometry::check_stripes;
use kiln_stripe::{PoolError, Result};

use crate::layout::{Body, Placed};
use crate::map::cluster_map::ClusterMap;
use crate::map::presence::{is_marked, unmarked};
use crate::{Key, Manifest, NodeFile};

/// One shard as it was found.
pub(crate) enum Member {
    /// Usable; damaged when one of its ends is.
    Here {
        /// Reads it.
        reader: Box<ShardReader>,
        /// Damage of it all the same.
        damage: Option<String>,
    },
    /// Its node cannot be used.
    Unavailable(String),
    /// Its node has no such shard, or something else under its name.
    Lost(String),
}

/// The shards of one version of one object.
pub(crate) struct ObjectShards {
    pub manifest: Manifest,
    pub placed: Placed,
    pub codec: Arc<Codec>,
    pub layout: Layout,
    pub members: Vec<Member>,
}

impl ObjectShards {
    /// Opens what can be opened; nothing but headers and trailers is read.
    ///
    /// # Errors
    /// The manifest is of an object without shards, or names a code that this program cannot do.
    pub(crate) fn open(pool: &ClusterMap, manifest: &Manifest) -> Result<ObjectShards> {
        let (Body::Shards(placed), Some(info)) = (&manifest.body, manifest.shard_info(0)) else {
            return Err(PoolError::Internal { what: "an object without shards".into() });
        };
        let codec = pool.codec(&placed.spec)?;
        let (shape, said) = (codec.shape(), placed.shape());
        if shape != said {
            let detail = format!("its manifest says {said:?}, its code {} is {shape:?}", info.spec);
            return Err(PoolError::NotRecoverable { object: manifest.name.clone(), detail });
        }
        check_stripes(&manifest.name, shape, placed.sub_chunk)?;
        let layout = info.layout()?;
        let key = Key::of_shards(&manifest.name)?;
        let members = pool.in_parallel((0..placed.places.len()).collect(), |_, index: usize| {
            Ok::<_, PoolError>(member(pool, manifest, placed, key, index))
        })?;
        let (manifest, placed) = (manifest.clone(), placed.clone());
        Ok(ObjectShards { manifest, placed, codec, layout, members })
    }

    /// Digests of all shards, as recorded when the object was put.
    pub(crate) fn digests(&self) -> Vec<Digest> {
        self.placed.places.iter().map(|place| place.digest).collect()
    }

    /// Indices without a usable shard.
    pub(crate) fn gone(&self) -> Vec<usize> {
        self.indices(|member| !matches!(member, Member::Here { .. }))
    }

    /// Indices whose shard is damaged in its structure.
    pub(crate) fn damaged(&self) -> Vec<usize> {
        self.indices(|member| matches!(member, Member::Here { damage: Some(_), .. }))
    }

    fn indices(&self, wanted: impl Fn(&Member) -> bool) -> Vec<usize> {
        (0..self.members.len()).filter(|&index| wanted(&self.members[index])).collect()
    }

    /// Returns what is wrong with a shard, in words.
    pub(crate) fn problem(&self, index: usize) -> Option<&str> {
        match &self.members[index] {
            Member::Here { damage, .. } => damage.as_deref(),
            Member::Unavailable(why) | Member::Lost(why) => Some(why),
        }
    }
}

fn member(
    pool: &ClusterMap,
    manifest: &Manifest,
    placed: &Placed,
    key: Key,
    index: usize,
) -> Member {
    let node = &placed.places[index].node;
    let Some(at) = pool.config().position(node) else {
        return Member::Lost(format!("node {node} is no longer part of the pool"));
    };
    let store = match pool.nodes[at].store() {
        Ok(store) => store,
        Err(why) => return Member::Unavailable(why.to_owned()),
    };
    let name = NodeFile::Shard { key, run: manifest.run, index: index as u16 }.name();
    let mut reader = match ShardReader::open(&**store, &name) {
        Ok(reader) => reader,
        Err(error) if error.is_not_found() && !is_marked(&**store) => {
            return Member::Unavailable(unmarked(&**store));
        }
        Err(error) if error.is_not_found() || error.is_damage() => {
            return Member::Lost(error.to_string());
        }
        Err(error) => return Member::Unavailable(error.to_string()),
    };
    reader = reader.expecting(placed.places[index].digest);
    let expected = manifest.shard_info(index as u16);
    let said = ShardInfo { size: Some(manifest.size), ..reader.info().clone() };
    if Some(said) != expected || reader.size().is_some_and(|size| size != manifest.size) {
        return Member::Lost(format!("{name} in {}: it is another shard", store.place()));
    }
    // It says the same size or none, so this cannot fail.
    let _ = reader.with_size(manifest.size);
    let mut damage = reader.damage().map(|what| format!("{name} in {}: {what}", store.place()));
    let recorded = placed.places.iter().map(|place| &place.digest);
    if reader.digests().is_some_and(|digests| !digests.iter().eq(recorded)) {
        let place = store.place();
        damage = Some(format!("{name} in {place}: its digests are not the manifest's"));
    }
    Member::Here { reader: Box::new(reader), damage }
}

impl Shards for ObjectShards {
    fn object(&self) -> &str {
        &self.manifest.name
    }

    fn codec(&self) -> &Codec {
        &self.codec
    }

    fn object_bytes(&self) -> u64 {
        self.manifest.size
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn reader(&self, index: usize) -> Result<&ShardReader, StoreError> {
        match &self.members[index] {
            Member::Here { reader, .. } => Ok(reader),
            Member::Unavailable(why) | Member::Lost(why) => Err(StoreError::Damaged {
                place: self.placed.places[index].node.clone(),
                name: format!("shard {index}"),
                part: "shard".to_owned(),
                what: why.clone(),
            }),
        }
    }

    fn info_of(&self, index: usize) -> ShardInfo {
        let info = self.manifest.shard_info(index as u16);
        // `open` refuses objects without shards.
        info.unwrap_or_else(|| unreachable!("an object without shards"))
    }

    fn recorded(&self) -> Option<Vec<Digest>> {
        Some(self.digests())
    }

    fn node_name(&self, index: usize) -> String {
        self.placed.places[index].node.clone()
    }
}
