//! A pool: many objects over many nodes, found by name.
//!
//! Nodes are [`Backend`]s: folders of this machine, or whatever the caller's opener makes of a URL.
//! Nothing runs in the background and there is no server: every process that opens a pool can read
//! and write it. Short locks on the nodes keep commits apart; everything else needs none, because
//! shards are named after their run and never change, and a manifest is replaced whole.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kiln_code::Codec;
use kiln_store::{Backend, Capabilities, StoreError, write_whole};
use serde::{Deserialize, Serialize};

use super::small::read_small;
use crate::engine::names::{DESCRIPTION, IDENTITY};
use crate::{Candidate, NodeConfig, PoolConfig, PoolError, Result, Sequence, Settings};

/// Most bytes of these files.
const MAX_TEXT: u64 = 1 << 20;
/// Codecs kept; a pool has few codes.
const MAX_CODECS: usize = 32;

/// Opens the place of a node.
pub type Opener<'a> = &'a dyn Fn(&NodeConfig) -> Result<Arc<dyn Backend>, StoreError>;

/// An open pool; usable from several threads.
///
/// ```
/// use std::{collections::BTreeMap, sync::Arc};
/// use kiln_pool::{GetRequest, NodeConfig, Policy, Pool, PoolConfig, PutRequest, Settings, Silent};
/// use kiln_pool::StreamSource;
/// use kiln_store::{Backend, MemoryBackend};
/// let mut config = PoolConfig::new([1; 16], "demo", Policy::for_code("rs:2+1")?);
/// let mut disks: BTreeMap<String, Arc<dyn Backend>> = BTreeMap::new();
/// for id in ["a", "b", "c"] {
///     config.node.push(NodeConfig::new(id, &format!("memory://{id}")));
///     disks.insert(id.into(), Arc::new(MemoryBackend::new()));
/// }
/// let pool = Pool::create(config, &|node| Ok(disks[&node.id].clone()))?;
/// let settings = Settings::new(&Silent);
/// let bytes: Vec<u8> = (0..100_000u32).map(|i| (i * 7 % 251) as u8).collect();
/// let put = PutRequest { name: "numbers", run: [2; 16], now_ms: 0, replace: false };
/// pool.put(&put, &mut StreamSource::new(&bytes[..]), &settings)?;
/// let mut back = Vec::new();
/// pool.get(&GetRequest { name: "numbers", range: Some(5_000..5_010) }, &mut back, &settings)?;
/// assert_eq!(back, bytes[5_000..5_010]);
/// # Ok::<(), kiln_pool::PoolError>(())
/// ```
#[derive(Debug)]
pub struct Pool {
    pub(super) config: PoolConfig,
    pub(super) nodes: Vec<PoolNode>,
    codecs: Mutex<HashMap<String, Arc<Codec>>>,
    pub(super) sequence: Option<Sequence>,
}

/// A node of an open pool.
#[derive(Clone, Debug)]
pub(crate) struct PoolNode {
    /// Its description.
    pub config: NodeConfig,
    /// Its place, or why it cannot be used.
    pub store: std::result::Result<Arc<dyn Backend>, String>,
    /// Its disk is new and is still being backfilled: a manifest that is not there may have been on
    /// the old disk.
    pub backfilling: bool,
}

/// The contents of [`IDENTITY`].
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Identity {
    version: u32,
    pool: String,
    node: String,
    /// See [`PoolNode::backfilling`].
    #[serde(rename = "filling", default, skip_serializing_if = "std::ops::Not::not")]
    backfilling: bool,
}

impl Pool {
    /// Opens a pool. Nodes that cannot be opened, or are not marked as nodes of this pool, are
    /// unavailable; [`Pool::away`] says why.
    ///
    /// # Errors
    /// The description is wrong, or no node can be used at all.
    pub fn open(config: PoolConfig, open: Opener<'_>) -> Result<Pool> {
        config.check()?;
        let nodes: Vec<PoolNode> = (config.node.iter())
            .map(|node| {
                let entered = enter(&config, node, open);
                let backfilling = entered.as_ref().is_ok_and(|(_, backfilling)| *backfilling);
                PoolNode {
                    config: node.clone(),
                    store: entered.map(|(store, _)| store),
                    backfilling,
                }
            })
            .collect();
        let pool = Pool { config, nodes, codecs: Mutex::default(), sequence: None };
        let why = pool.nodes.iter().find_map(|node| node.store.as_ref().err());
        match (pool.nodes.iter().any(|node| node.store.is_ok()), why) {
            (false, Some(why)) => {
                let what = format!("no node of pool {:?} can be used: {why}", pool.config.name);
                Err(PoolError::NotRecoverable { object: "(all)".into(), detail: what })
            }
            _ => Ok(pool),
        }
    }

    /// Makes all nodes of a new pool its own and opens it.
    ///
    /// # Errors
    /// A node that cannot be written, or [`PoolError::Refused`] for one that belongs to a pool
    /// already or has a pool's files.
    pub fn create(config: PoolConfig, open: Opener<'_>) -> Result<Pool> {
        config.check()?;
        // All are looked at before the first is written to.
        let stores: Vec<_> =
            config.node.iter().map(|node| opened(node, open)).collect::<Result<_, _>>()?;
        for (node, store) in config.node.iter().zip(&stores) {
            take(&config, node, &**store, false)?;
        }
        let pool = Pool::open(config, open)?;
        pool.write_description()?;
        Ok(pool)
    }

    /// Makes one more node the pool's own, after it was added to the description.
    ///
    /// # Errors
    /// As [`Pool::create`].
    pub fn take_node(config: &PoolConfig, id: &str, open: Opener<'_>) -> Result<()> {
        config.check()?;
        let node = known(config, id)?;
        take(config, node, &*opened(node, open)?, false)
    }

    /// Takes an empty disk in place of a node's lost one. Until a repair or a scrub has seen that
    /// no manifest is missing ([`Pool::settle`]), what the node does not have counts as
    /// unavailable, not as absent: otherwise an object whose other copies are unavailable for a
    /// moment would look removed.
    ///
    /// # Errors
    /// As [`Pool::create`].
    pub fn replace_disk(config: &PoolConfig, id: &str, open: Opener<'_>) -> Result<()> {
        config.check()?;
        let node = known(config, id)?;
        take(config, node, &*opened(node, open)?, true)
    }

    /// Nodes with new disks have got all copies of manifests that they should have: of those that
    /// the others know of. These are all, unless too many others are unavailable.
    pub(crate) fn trust_all(&self) -> Result<()> {
        let unsure = self.nodes.iter().filter(|node| node.backfilling || node.store.is_err());
        let mut domains: Vec<&str> = unsure.map(|node| &node.config.domain[..]).collect();
        domains.sort_unstable();
        domains.dedup();
        if domains.len() >= self.config.policy.manifest_copies {
            return Ok(());
        }
        for node in self.nodes.iter().filter(|node| node.backfilling) {
            if let Ok(store) = &node.store {
                write_identity(&**store, &self.config, &node.config, false)?;
            }
        }
        Ok(())
    }

    /// Whether a node has a new disk that may lack something.
    pub(crate) fn is_backfilling(&self) -> bool {
        self.nodes.iter().any(|node| node.backfilling)
    }

    /// The same pool; all that is done with it is done on the caller's thread: for simulations.
    #[must_use]
    pub fn in_sequence(self, sequence: Sequence) -> Pool {
        Pool { sequence: Some(sequence), ..self }
    }

    /// Settings for what is done with this pool.
    pub(super) fn settings<'a>(&'a self, settings: &Settings<'a>) -> Settings<'a> {
        Settings { sequence: self.sequence.as_ref().or(settings.sequence), ..*settings }
    }

    /// What the pool is made of.
    pub fn config(&self) -> &PoolConfig {
        &self.config
    }

    /// Nodes that cannot be used, and why.
    pub fn away(&self) -> Vec<(&NodeConfig, &str)> {
        let away = |node: &PoolNode| node.store.is_err();
        let why = |node: &'_ PoolNode| node.store.as_ref().err().cloned();
        debug_assert!(self.nodes.iter().all(|node| away(node) == why(node).is_some()));
        (self.nodes.iter())
            .filter_map(|node| Some((&node.config, node.store.as_ref().err()?.as_str())))
            .collect()
    }

    /// Puts a copy of the description on every node that can be used.
    ///
    /// # Errors
    /// A node that cannot be written.
    pub fn write_description(&self) -> Result<()> {
        let text = self.config.to_toml()?;
        for (_, store) in self.present() {
            write_whole(store, DESCRIPTION, text.as_bytes())?;
        }
        Ok(())
    }

    /// The place of a node by its id, where it can be used.
    pub fn place(&self, id: &str) -> Option<Arc<dyn Backend>> {
        self.nodes[self.config.position(id)?].store.as_ref().ok().cloned()
    }

    /// Nodes that can be used, by position.
    pub(crate) fn present(&self) -> impl Iterator<Item = (usize, &dyn Backend)> {
        let stores = self.nodes.iter().map(|node| node.store.as_deref().ok());
        stores.enumerate().filter_map(|(at, store)| Some((at, store?)))
    }

    /// The store of the node at a position.
    ///
    /// # Errors
    /// It cannot be used.
    pub(super) fn usable(&self, at: usize) -> Result<&dyn Backend> {
        let store = self.nodes[at].store.as_deref();
        store.map_err(|why| PoolError::Internal { what: why.clone() })
    }

    /// The store of a node by id, where it can be used.
    pub(crate) fn store(&self, id: &str) -> Option<&dyn Backend> {
        self.nodes[self.config.position(id)?].store.as_deref().ok()
    }

    /// The codec of a spec.
    pub(crate) fn codec(&self, spec: &str) -> Result<Arc<Codec>> {
        let mut codecs = self.codecs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(codec) = codecs.get(spec) {
            return Ok(codec.clone());
        }
        let codec = Arc::new(Codec::new(&spec.parse()?)?);
        if codecs.len() >= MAX_CODECS {
            codecs.clear();
        }
        codecs.insert(spec.to_owned(), codec.clone());
        Ok(codec)
    }

    /// Nodes that new data may go to: positions and how placement sees them.
    pub(crate) fn candidates(
        &self,
        wanted: impl Fn(&PoolNode) -> bool,
    ) -> (Vec<usize>, Vec<Candidate<'_>>) {
        let fits = |(_, node): &(usize, &PoolNode)| !node.config.draining && wanted(node);
        let nodes = self.nodes.iter().enumerate().filter(fits);
        nodes.map(|(at, node)| (at, node.config.candidate())).unzip()
    }

    /// Whether every process that writes to a node must hold its lock first; see
    /// [`Backend::lock`].
    pub(crate) fn lock(&self, settings: &Settings<'_>) -> Result<Vec<kiln_store::WriteLock>> {
        let nodes: Vec<crate::Node> = (self.nodes.iter())
            .filter_map(|node| {
                let store = node.store.as_ref().ok()?;
                Some(crate::Node::new(node.config.id.clone(), store.clone()))
            })
            .collect();
        Ok(crate::engine::node::lock(&nodes, settings, false)?.0)
    }
}

fn known<'a>(config: &'a PoolConfig, id: &str) -> Result<&'a NodeConfig> {
    let node = config.node.iter().find(|node| node.id == id);
    node.ok_or_else(|| PoolError::Usage { what: format!("the pool has no node {id:?}") })
}

/// Opens a node and makes sure that it is the one; says whether its disk is being filled.
fn enter(
    config: &PoolConfig,
    node: &NodeConfig,
    open: Opener<'_>,
) -> std::result::Result<(Arc<dyn Backend>, bool), String> {
    let store = opened(node, open).map_err(|error| error.to_string())?;
    let place = store.place();
    match identity(&*store).map_err(|error| error.to_string())? {
        None => Err(format!("{place} is no node of this pool ({IDENTITY} is missing)")),
        Some(found) if found.pool != config.id || found.node != node.id => {
            Err(format!("{place} is node {:?} of pool {}", found.node, found.pool))
        }
        Some(found) => Ok((store, found.backfilling)),
    }
}

/// Opens a node's place, and refuses one that cannot do what pools do with nodes.
fn opened(node: &NodeConfig, open: Opener<'_>) -> Result<Arc<dyn Backend>, StoreError> {
    let store = open(node)?;
    Capabilities::FILES.require(&*store, "a node of a pool")?;
    Ok(store)
}

fn identity(store: &dyn Backend) -> Result<Option<Identity>> {
    let Some(bytes) = read_small(store, IDENTITY, MAX_TEXT)? else { return Ok(None) };
    let text = String::from_utf8_lossy(&bytes);
    let identity: Identity = toml::from_str(&text).map_err(|_| PoolError::Refused {
        what: format!("{IDENTITY} in {} cannot be read; look at it", store.place()),
    })?;
    Ok(Some(identity))
}

/// Writes a node's identity into a place that is not yet in use.
fn take(
    config: &PoolConfig,
    node: &NodeConfig,
    store: &dyn Backend,
    backfilling: bool,
) -> Result<()> {
    let refused = |why: String| {
        let place = store.place();
        Err(PoolError::Refused { what: format!("{place} cannot become node {}: {why}", node.id) })
    };
    match identity(store)? {
        Some(found) if found.pool == config.id && found.node == node.id => return Ok(()),
        Some(found) => {
            return refused(format!("it is node {:?} of pool {}", found.node, found.pool));
        }
        None => {}
    }
    let mut ours = 0u64;
    store.each_name(&mut |name| {
        ours += u64::from(crate::NodeFile::parse(name).is_some());
        Ok(())
    })?;
    if ours > 0 {
        return refused(format!("it has {ours} files of a pool; empty it, or use another place"));
    }
    write_identity(store, config, node, backfilling)
}

fn write_identity(
    store: &dyn Backend,
    config: &PoolConfig,
    node: &NodeConfig,
    backfilling: bool,
) -> Result<()> {
    let (pool, node) = (config.id.clone(), node.id.clone());
    let text = toml::to_string(&Identity { version: 1, pool, node, backfilling })
        .map_err(|error| PoolError::Internal { what: error.to_string() })?;
    Ok(write_whole(store, IDENTITY, text.as_bytes())?)
}
