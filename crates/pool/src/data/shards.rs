//! The shards of one object, opened where its manifest says that they are.

use std::sync::{Arc, OnceLock};

use kiln_code::Codec;
use kiln_store::{Backend, Digest, Layout, ShardInfo, ShardReader, StoreError};
use kiln_stripe::chunks::Shards;
use kiln_stripe::geometry::check_stripes;
use kiln_stripe::sinks::in_parallel;
use kiln_stripe::{Hedge, PoolError, Result, Settings, Silent};

use crate::layout::{Body, Place, Placed};
use crate::map::cluster_map::{ClusterMap, PoolNode};
use crate::map::presence::{is_marked, unmarked};
use crate::{Key, Manifest, NodeFile};

/// One shard as it was found.
pub(crate) enum Member {
    /// Usable; damaged when one of its ends is.
    Here {
        /// Reads it.
        reader: Arc<ShardReader>,
        /// Damage of it all the same.
        damage: Option<String>,
    },
    /// Its node cannot be used.
    Unavailable(String),
    /// Its node has no such shard, or something else under its name.
    Lost(String),
    /// Its node has not answered yet.
    Late,
}

/// A shard that is opened when it is asked for, perhaps by a thread that nobody waits for.
struct Opening {
    /// Its node; without one `found` is filled from the beginning.
    node: Option<Arc<PoolNode>>,
    manifest: Arc<Manifest>,
    key: Key,
    index: usize,
    found: OnceLock<Member>,
}

impl Opening {
    fn new(pool: &ClusterMap, manifest: &Arc<Manifest>, key: Key, index: usize) -> Opening {
        let (node, manifest) = (&placed(manifest)[index].node, Arc::clone(manifest));
        let (node, found) = match pool.config().position(node) {
            None => {
                let why = format!("node {node} is no longer part of the pool");
                (None, OnceLock::from(Member::Lost(why)))
            }
            Some(at) => (Some(Arc::clone(&pool.nodes[at])), OnceLock::new()),
        };
        Opening { node, manifest, key, index, found }
    }

    fn member(&self) -> &Member {
        let Some(node) = &self.node else { return self.known() };
        self.found.get_or_init(|| match node.store() {
            Ok(store) => member(&**store, &self.manifest, self.key, self.index),
            Err(why) => Member::Unavailable(why.to_owned()),
        })
    }

    /// The same, where that is known already.
    fn known(&self) -> &Member {
        self.found.get().unwrap_or(&LATE)
    }
}

/// Places of an object's shards.
fn placed(manifest: &Manifest) -> &[Place] {
    match &manifest.body {
        Body::Shards(placed) => &placed.places,
        _ => &[],
    }
}

/// The shards of one version of one object.
pub(crate) struct ObjectShards {
    pub manifest: Arc<Manifest>,
    pub placed: Placed,
    pub codec: Arc<Codec>,
    pub layout: Layout,
    members: Vec<Arc<Opening>>,
    hedge: Option<Arc<Hedge>>,
}

/// A member that is asked for without waiting for it.
static LATE: Member = Member::Late;

impl ObjectShards {
    /// Opens what can be opened; nothing but headers and trailers is read.
    /// Errors: the manifest is of an object without shards, or names a code that this program
    /// cannot do.
    pub(crate) fn open(pool: &ClusterMap, manifest: &Manifest) -> Result<ObjectShards> {
        ObjectShards::open_with(pool, manifest, &Settings::new(&Silent))
    }

    /// As [`ObjectShards::open`], with the sequence and the hedge of settings: without waiting for
    /// late nodes if the object can be read without them.
    pub(crate) fn open_with(
        pool: &ClusterMap,
        manifest: &Manifest,
        settings: &Settings<'_>,
    ) -> Result<ObjectShards> {
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
        let settings = pool.settings(settings);
        if settings.hedge.is_none() {
            let position = |place: &Place| pool.config().position(&place.node);
            pool.enter(placed.places.iter().filter_map(position));
        }
        let manifest = Arc::new(manifest.clone());
        let opening = |index| Arc::new(Opening::new(pool, &manifest, key, index));
        let members: Vec<Arc<Opening>> = (0..placed.places.len()).map(opening).collect();
        let open = |_, one: &Arc<Opening>| {
            one.member();
            Ok::<_, PoolError>(())
        };
        match settings.hedge {
            Some(hedge) => first(hedge, placed, &members, |_| {
                let good = |of: &Opening| matches!(of.known(), Member::Here { damage: None, .. });
                let lacking = (0..members.len()).filter(|index| !good(&members[*index]));
                codec.tolerates(&lacking.collect::<Vec<_>>())
            }),
            None => drop(in_parallel(settings.sequence, members.iter().collect(), open)?),
        }
        let (placed, hedge) = (placed.clone(), settings.hedge.cloned());
        Ok(ObjectShards { manifest, placed, codec, layout, members, hedge })
    }

    /// Number of shards.
    pub(crate) fn count(&self) -> usize {
        self.members.len()
    }

    /// Returns what was found of a shard.
    pub(crate) fn member(&self, index: usize) -> &Member {
        self.members.get(index).map_or(&LATE, |opening| opening.known())
    }

    /// Digests of all shards, as recorded when the object was put.
    pub(crate) fn digests(&self) -> Vec<Digest> {
        self.placed.places.iter().map(|place| place.digest).collect()
    }

    /// Indices without a usable shard.
    pub(crate) fn gone(&self) -> Vec<usize> {
        self.indices(|member| !matches!(member, Member::Here { .. } | Member::Late))
    }

    /// Of these, indices whose nodes cannot be used.
    pub(crate) fn unavailable(&self) -> Vec<usize> {
        self.indices(|member| matches!(member, Member::Unavailable(_)))
    }

    /// Indices whose nodes have not answered yet.
    pub(crate) fn late(&self) -> Vec<usize> {
        self.indices(|member| matches!(member, Member::Late))
    }

    /// Indices whose shard is damaged in its structure.
    pub(crate) fn damaged(&self) -> Vec<usize> {
        self.indices(|member| matches!(member, Member::Here { damage: Some(_), .. }))
    }

    fn indices(&self, wanted: impl Fn(&Member) -> bool) -> Vec<usize> {
        (0..self.members.len()).filter(|&index| wanted(self.member(index))).collect()
    }

    /// Returns what is wrong with a shard, in words.
    pub(crate) fn problem(&self, index: usize) -> Option<&str> {
        match self.member(index) {
            Member::Here { damage, .. } => damage.as_deref(),
            Member::Unavailable(why) | Member::Lost(why) => Some(why),
            Member::Late => Some("its node has not answered yet"),
        }
    }
}

/// Opens what was not yet, without waiting for late nodes once it is enough.
fn first(
    hedge: &Arc<Hedge>,
    placed: &Placed,
    members: &[Arc<Opening>],
    enough: impl Fn(&[Option<()>]) -> bool,
) {
    let job = |(opening, place): (&Arc<Opening>, &Place)| {
        let opening = Arc::clone(opening);
        let open: Box<dyn FnOnce() + Send> = Box::new(move || _ = opening.member());
        (place.node.clone(), open)
    };
    let new = members.iter().zip(&placed.places).filter(|(one, _)| one.found.get().is_none());
    hedge.gather(new.map(job).collect(), enough);
}

fn member(store: &dyn Backend, manifest: &Manifest, key: Key, index: usize) -> Member {
    let places = placed(manifest);
    let name = NodeFile::Shard { key, run: manifest.run, index: index as u16 }.name();
    let mut reader = match ShardReader::open(store, &name) {
        Ok(reader) => reader,
        Err(error) if error.is_not_found() && !is_marked(store) => {
            return Member::Unavailable(unmarked(store));
        }
        Err(error) if error.is_not_found() || error.is_damage() => {
            return Member::Lost(error.to_string());
        }
        Err(error) => return Member::Unavailable(error.to_string()),
    };
    reader = reader.expecting(places[index].digest);
    let expected = manifest.shard_info(index as u16);
    let stored = manifest.stored_size();
    let said = ShardInfo { size: Some(stored), ..reader.info().clone() };
    if Some(said) != expected || reader.size().is_some_and(|size| size != stored) {
        return Member::Lost(format!("{name} in {}: it is another shard", store.place()));
    }
    // It says the same size or none, so this cannot fail.
    let _ = reader.with_size(stored);
    let mut damage = reader.damage().map(|what| format!("{name} in {}: {what}", store.place()));
    let recorded = places.iter().map(|place| &place.digest);
    if reader.digests().is_some_and(|digests| !digests.iter().eq(recorded)) {
        let place = store.place();
        damage = Some(format!("{name} in {place}: its digests are not the manifest's"));
    }
    Member::Here { reader: Arc::new(reader), damage }
}

impl Shards for ObjectShards {
    fn object(&self) -> &str {
        &self.manifest.name
    }

    fn codec(&self) -> &Codec {
        &self.codec
    }

    fn object_bytes(&self) -> u64 {
        self.manifest.stored_size()
    }

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn reader(&self, index: usize) -> Result<&ShardReader, StoreError> {
        match self.member(index) {
            Member::Here { reader, .. } => Ok(reader),
            _ => Err(StoreError::Damaged {
                place: self.placed.places[index].node.clone(),
                name: format!("shard {index}"),
                part: "shard".to_owned(),
                what: self.problem(index).unwrap_or_default().to_owned(),
            }),
        }
    }

    fn info_of(&self, index: usize) -> ShardInfo {
        let info = self.manifest.shard_info(index as u16);
        // `open` refuses objects without shards.
        info.unwrap_or_else(|| unreachable!("an object without shards"))
    }

    fn shared(&self, index: usize) -> Option<Arc<ShardReader>> {
        match self.member(index) {
            Member::Here { reader, .. } => Some(Arc::clone(reader)),
            _ => None,
        }
    }

    fn wait_for_late(&self) -> bool {
        let late = self.late().len();
        if let Some(hedge) = self.hedge.as_ref().filter(|_| late > 0) {
            first(hedge, &self.placed, &self.members, |opened| opened.iter().any(Option::is_some));
        }
        self.late().len() < late
    }

    fn recorded(&self) -> Option<Vec<Digest>> {
        Some(self.digests())
    }

    fn node_name(&self, index: usize) -> String {
        self.placed.places[index].node.clone()
    }
}
