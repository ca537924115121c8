//! The cluster map of an open pool: nodes, their places and locks.
//!
//! Nodes are [`Backend`]s: folders of this machine, or places that the caller's opener makes of a
//! URL. A node is entered when it is first used; short locks on nodes keep commits apart.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::{collections::HashMap, convert::Infallible};

use kiln_code::Codec;
use kiln_store::{Backend, Capabilities, StoreError, write_whole};
use kiln_stripe::names::IDENTITY;
use kiln_stripe::node::{self, Locks};
use kiln_stripe::sinks::in_parallel;
use kiln_stripe::{Hedge, PoolError, Result, Sequence, Settings};
use serde::{Deserialize, Serialize};

use crate::map::features::{MemberRelease, refuse_unread};
use crate::map::meta_files::{MAX_TEXT, read_small, write_map};
use crate::{Key, Manifest, NodeConfig, PoolConfig, layout::Candidate, map::config::FIRST};

/// Codecs kept; a pool has few codes.
const MAX_CODECS: usize = 32;
/// Objects whose commit is remembered.
const MAX_COMMITTED: usize = 1 << 16;

/// Opens the place of a node.
pub type Opener<'a> = &'a dyn Fn(&NodeConfig) -> Result<Arc<dyn Backend>, StoreError>;

/// The cluster map of an open pool: its description, the places of its nodes, codecs of its codes.
///
/// It says which nodes can be used, takes their locks, and runs work on several of them at once.
#[derive(Debug)]
pub struct ClusterMap {
    pub(crate) config: Arc<PoolConfig>,
    pub(crate) nodes: Vec<Arc<PoolNode>>,
    codecs: Mutex<HashMap<String, Arc<Codec>>>,
    pub(crate) sequence: Option<Sequence>,
    /// Reads that are late are not waited for.
    hedge: Option<Arc<Hedge>>,
    /// Versions of objects that were seen on as many homes as a commit needs.
    committed: Mutex<HashMap<Key, (u64, [u8; 16])>>,
}

/// A node of an open pool. It is looked at when it is first used: an operation on one object uses
/// few of them.
#[derive(Clone, Debug)]
pub(crate) struct PoolNode {
    /// Its description.
    pub config: NodeConfig,
    /// The pool's id.
    pool: String,
    /// Its place, not yet looked at.
    opened: std::result::Result<Arc<dyn Backend>, String>,
    entered: OnceLock<Entry>,
}

/// Finding about a node's place.
type Entry = std::result::Result<Entered, String>;

/// A place that was found to be a node.
#[derive(Clone, Debug)]
struct Entered {
    store: Arc<dyn Backend>,
    /// As disks were marked that a pool without history took in place of lost ones.
    pub(crate) filling: bool,
}

impl PoolNode {
    fn entered(&self) -> &Entry {
        self.entered.get_or_init(|| {
            let store = self.opened.clone()?;
            enter(&self.pool, &self.config, store)
        })
    }

    /// Its place, or why it cannot be used.
    pub(crate) fn store(&self) -> std::result::Result<&Arc<dyn Backend>, &str> {
        match self.entered() {
            Ok(entered) => Ok(&entered.store),
            Err(why) => Err(why),
        }
    }

    /// Returns whether it was looked at already.
    pub(crate) fn was_used(&self) -> bool {
        self.entered.get().is_some()
    }

    /// Returns whether it can be used.
    pub(crate) fn is_here(&self) -> bool {
        self.store().is_ok()
    }

    /// Returns whether its place is a folder of this machine.
    pub(crate) fn is_folder(&self) -> bool {
        self.opened.as_ref().is_ok_and(|store| store.folder().is_some())
    }

    /// Returns whether it was not found to be unavailable so far; nothing is asked for that.
    pub(crate) fn may_be_here(&self) -> bool {
        !matches!(self.entered.get(), Some(Err(_)))
    }
}

/// The contents of [`IDENTITY`].
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Identity {
    version: u32,
    pub(crate) pool: String,
    pub(crate) node: String,
    /// Incarnation of the disk: see [`NodeConfig::disk`].
    #[serde(default, skip_serializing_if = "String::is_empty")]
    disk: String,
    /// A pool without history took this disk in place of a lost one, and did not yet see that no
    /// manifest is lacking.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) filling: bool,
}

impl ClusterMap {
    /// Opens a pool. Nodes that cannot be opened, or are not marked as nodes of this pool with the
    /// disk that its map names, are unavailable; [`ClusterMap::away`] says why.
    ///
    /// # Errors
    /// The description is wrong, or no node's place can be opened at all.
    pub fn open(config: PoolConfig, open: Opener<'_>) -> Result<ClusterMap> {
        config.check()?;
        config.check_keys()?;
        let node = |node: &NodeConfig| PoolNode {
            config: node.clone(),
            pool: config.id.clone(),
            opened: open(node).map_err(|error| error.to_string()),
            entered: OnceLock::new(),
        };
        let nodes: Vec<Arc<PoolNode>> = config.node.iter().map(|one| Arc::new(node(one))).collect();
        let why = nodes.iter().find_map(|node| node.opened.as_ref().err());
        if let (false, Some(why)) = (nodes.iter().any(|node| node.opened.is_ok()), why) {
            return Err(none_here(&config, why));
        }
        Ok(ClusterMap::of(config, nodes, None, None))
    }

    /// Makes all nodes of a new pool its own and opens it.
    ///
    /// # Errors
    /// A place belongs to a pool already, or cannot be written.
    pub fn create(mut config: PoolConfig, open: Opener<'_>) -> Result<ClusterMap> {
        config.check_keys()?;
        for at in 0..config.node.len() {
            // The pool's id is fresh, so this is no other disk's.
            let disk = Key::of(&format!("{}/{}", config.id, config.node[at].id))?;
            let node = &mut config.node[at];
            (node.disk, node.since) = (disk.to_string(), config.revision);
        }
        config.raise_version();
        config.check()?;
        // All are looked at before the first is written to.
        let stores: Vec<_> =
            config.node.iter().map(|node| opened(node, open)).collect::<Result<_, _>>()?;
        let of = |(node, store): (&NodeConfig, &Arc<dyn Backend>)| {
            MemberRelease::of(&node.id, Some(&**store))
        };
        let releases = || config.node.iter().zip(&stores).map(of).collect();
        refuse_unread(&config, FIRST, false, releases)?;
        for (at, (node, store)) in config.node.iter().zip(&stores).enumerate() {
            take(&config, node, &**store).inspect_err(|_| {
                // They hold nothing yet, and would be refused to the next pool.
                stores[..at].iter().for_each(|taken| drop(taken.remove(IDENTITY)));
            })?;
        }
        let pool = ClusterMap::open(config, open)?;
        for (at, store) in pool.present() {
            write_map(store, &pool.nodes[at].config.id, &pool.config, false)?;
        }
        Ok(pool)
    }

    /// The same pool by another description, with the nodes that were looked at.
    pub(crate) fn with_config(&self, config: PoolConfig) -> ClusterMap {
        let nodes = (config.node.iter())
            .map(|node| {
                let known = self.nodes.iter().find(|known| known.config.id == node.id);
                let same = known.filter(|known| known.config.disk == node.disk);
                let opened = known.map_or(Err("it is new".into()), |node| node.opened.clone());
                Arc::new(PoolNode {
                    config: node.clone(),
                    pool: config.id.clone(),
                    opened,
                    entered: same.map(|node| node.entered.clone()).unwrap_or_default(),
                })
            })
            .collect();
        let (sequence, hedge) = (self.sequence.clone(), self.hedge.clone());
        ClusterMap::of(config, nodes, sequence, hedge)
    }

    fn of(
        config: PoolConfig,
        nodes: Vec<Arc<PoolNode>>,
        sequence: Option<Sequence>,
        hedge: Option<Arc<Hedge>>,
    ) -> ClusterMap {
        let (config, codecs, committed) = (Arc::new(config), Mutex::default(), Mutex::default());
        ClusterMap { config, nodes, codecs, sequence, hedge, committed }
    }

    /// The same pool without the nodes that answered when they were used first and do not now;
    /// `None`: all do.
    pub(crate) fn without_silent(&self) -> Option<ClusterMap> {
        let ask = |_, (at, store): (usize, &dyn Backend)| {
            let answers = matches!(identity(store), Ok(Some(_)));
            Ok::<_, Infallible>((!answers).then_some(at))
        };
        let silent: Vec<usize> = match self.in_parallel(self.present().collect(), ask) {
            Ok(silent) => silent.into_iter().flatten().collect(),
            Err(never) => match never {},
        };
        if silent.is_empty() {
            return None;
        }
        Some(self.with_entered(&silent, &OnceLock::new()))
    }

    /// The same pool with another finding about some nodes.
    fn with_entered(&self, nodes: &[usize], entered: &OnceLock<Entry>) -> ClusterMap {
        let mut pool = self.with_config((*self.config).clone());
        for at in nodes {
            let entered = entered.clone();
            pool.nodes[*at] = Arc::new(PoolNode { entered, ..(*pool.nodes[*at]).clone() });
        }
        pool
    }

    /// The same pool without those of some nodes that are slow now; `None`: none is.
    pub(crate) fn without_slow(&self, of: impl Iterator<Item = usize>) -> Option<ClusterMap> {
        let slow: Vec<usize> = of.filter(|at| self.is_slow(&self.nodes[*at])).collect();
        let why = || OnceLock::from(Err("it is too slow".to_owned()));
        (!slow.is_empty()).then(|| self.with_entered(&slow, &why()))
    }

    pub(crate) fn is_slow(&self, node: &PoolNode) -> bool {
        self.hedge().is_some_and(|hedge| hedge.is_left_out(&node.config.id))
    }

    /// Returns whether copies of manifests may not be in place yet: members changed, or a node has
    /// a new disk.
    pub fn is_backfilling(&self) -> bool {
        !self.config.is_settled() || (0..self.nodes.len()).any(|at| self.is_unsure(at))
    }

    /// Returns whether it says nothing that a node does not have a manifest: its disk is new.
    pub(crate) fn is_unsure(&self, at: usize) -> bool {
        let node = &self.nodes[at];
        self.config.is_new(&node.config) || node.entered().as_ref().is_ok_and(|node| node.filling)
    }

    /// Returns whether it says nothing of what was put from an epoch on that a node does not have
    /// it: its disk is newer.
    pub(crate) fn is_newer_than(&self, at: usize, since: u64) -> bool {
        let node = &self.nodes[at];
        node.config.since > since || node.entered().as_ref().is_ok_and(|node| node.filling)
    }

    /// The same pool; all that is done with it is done on the caller's thread: for simulations.
    #[must_use]
    pub fn in_sequence(self, sequence: Sequence) -> ClusterMap {
        ClusterMap { sequence: Some(sequence), ..self }
    }

    /// Does something for each item, by several threads (see [`in_parallel`]), or on the caller's
    /// thread if this pool is one of a simulation.
    ///
    /// # Errors
    /// The first one of `body`, in order of the items.
    pub fn in_parallel<T: Send, R: Send, E: Send>(
        &self,
        items: Vec<T>,
        body: impl Fn(usize, T) -> Result<R, E> + Sync,
    ) -> Result<Vec<R>, E> {
        in_parallel(self.sequence.as_ref(), items, body)
    }

    /// The same pool; its reads of objects do not wait for late nodes.
    #[must_use]
    pub fn hedged(self, hedge: Arc<Hedge>) -> ClusterMap {
        ClusterMap { hedge: Some(hedge), ..self }
    }

    /// Settings for reads that do not wait for late nodes.
    pub(crate) fn read_settings<'a>(&'a self, settings: &Settings<'a>) -> Settings<'a> {
        let settings = self.settings(settings);
        let hedge = self.hedge.as_ref().filter(|_| settings.sequence.is_none());
        Settings { hedge, ..settings }
    }

    /// The hedge of questions for manifests; none in simulations.
    pub(crate) fn hedge(&self) -> Option<&Arc<Hedge>> {
        self.hedge.as_ref().filter(|_| self.sequence.is_none())
    }

    /// Remembers that a version of an object is on as many homes as a commit needs. It stays so as
    /// long as the map does: only a newer version replaces a copy.
    pub(crate) fn note_committed(&self, key: Key, manifest: &Manifest) {
        let mut committed = self.committed.lock().unwrap_or_else(PoisonError::into_inner);
        if committed.len() >= MAX_COMMITTED {
            committed.clear();
        }
        committed.insert(key, (manifest.version, manifest.run));
    }

    /// Returns whether a version of an object was seen to be committed.
    pub(crate) fn is_committed(&self, key: &Key, manifest: &Manifest) -> bool {
        let committed = self.committed.lock().unwrap_or_else(PoisonError::into_inner);
        committed.get(key) == Some(&(manifest.version, manifest.run))
    }

    /// Settings for what is done with this pool.
    pub(crate) fn settings<'a>(&'a self, settings: &Settings<'a>) -> Settings<'a> {
        Settings { sequence: self.sequence.as_ref().or(settings.sequence), ..*settings }
    }

    /// Tells the nodes' places, where that matters to them, that an object of this name, or a kept
    /// version, is about to be looked at or changed.
    ///
    /// # Errors
    /// The key by which this client talks to agents is for other names.
    pub fn use_object(&self, name: &str) -> Result<()> {
        let mut stores = self.nodes.iter().filter_map(|node| node.opened.as_ref().ok());
        stores.try_for_each(|store| Ok(store.use_object(name)?))
    }

    /// Returns what the pool is made of.
    pub fn config(&self) -> &PoolConfig {
        &self.config
    }

    /// Nodes that cannot be used, and why.
    pub fn away(&self) -> Vec<(&NodeConfig, &str)> {
        self.enter(0..self.nodes.len());
        self.nodes.iter().filter_map(|node| Some((&node.config, node.store().err()?))).collect()
    }

    /// Of the nodes that were used so far those that cannot be, and why. No node is asked for it.
    pub fn found_away(&self) -> Vec<(&NodeConfig, &str)> {
        let found = self.nodes.iter().filter_map(|node| Some((&node.config, node.entered.get()?)));
        found.filter_map(|(config, entered)| Some((config, &entered.as_ref().err()?[..]))).collect()
    }

    /// Returns whether the nodes that can be used know of every object. With more than m domains
    /// away there may be objects that none of them knows.
    ///
    /// # Errors
    /// [`PoolError::NoNodes`].
    pub fn sees_all(&self) -> Result<bool> {
        self.any_here()?;
        Ok(self.sees_without(&[]))
    }

    /// As [`ClusterMap::sees_all`], by all nodes but some.
    pub(crate) fn sees_without(&self, failing: &[usize]) -> bool {
        self.config.all_visible(|at, _| self.nodes[at].is_here() && !failing.contains(&at))
    }

    /// Asks all members which descriptions their releases read.
    pub fn releases(&self) -> Vec<MemberRelease> {
        let ask = |_, at: usize| {
            let (id, store) = (&self.nodes[at].config.id, self.nodes[at].store().ok());
            Ok::<_, Infallible>(MemberRelease::of(id, store.map(|store| &**store)))
        };
        match self.in_parallel((0..self.nodes.len()).collect(), ask) {
            Ok(all) => all,
            Err(never) => match never {},
        }
    }

    /// Refuses to say anything of what a pool holds of which no node can be used.
    ///
    /// # Errors
    /// [`PoolError::NoNodes`].
    pub fn any_here(&self) -> Result<()> {
        match (self.present().next(), self.away().first()) {
            (None, Some((_, why))) => Err(none_here(&self.config, why)),
            _ => Ok(()),
        }
    }

    /// The place of a node by its id, where it can be used.
    pub fn place(&self, id: &str) -> Option<Arc<dyn Backend>> {
        self.nodes[self.config.position(id)?].store().ok().cloned()
    }

    /// Nodes that can be used, by position.
    pub(crate) fn present(&self) -> impl Iterator<Item = (usize, &dyn Backend)> {
        self.enter(0..self.nodes.len());
        let stores = self.nodes.iter().map(|node| node.store().ok());
        stores.enumerate().filter_map(|(at, store)| Some((at, &**store?)))
    }

    /// Looks at nodes that were not used yet, all at once: a far one answers several times before
    /// it can be used.
    pub(crate) fn enter(&self, positions: impl Iterator<Item = usize>) {
        let mut new: Vec<usize> = positions.filter(|at| !self.nodes[*at].was_used()).collect();
        new.sort_unstable();
        new.dedup();
        if new.len() > 1 {
            let enter = |_, at: usize| Ok::<_, Infallible>(self.nodes[at].is_here());
            let _ = self.in_parallel(new, enter);
        }
    }

    /// The store of the node at a position.
    pub(crate) fn usable(&self, at: usize) -> Result<&dyn Backend> {
        let store = self.nodes[at].store();
        store.map(|store| &**store).map_err(|why| PoolError::Unavailable {
            node: self.nodes[at].config.id.clone(),
            why: why.to_owned(),
        })
    }

    /// The store of a node by id, where it can be used.
    pub(crate) fn store(&self, id: &str) -> Option<&dyn Backend> {
        self.nodes[self.config.position(id)?].store().ok().map(|store| &**store)
    }

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
        let fits = |(_, node): &(usize, &Arc<PoolNode>)| !node.config.is_leaving() && wanted(node);
        let nodes = self.nodes.iter().enumerate().filter(fits);
        nodes.map(|(at, node)| (at, node.config.candidate())).unzip()
    }

    /// Keeps other processes from changing objects with these homes as long as the locks live; see
    /// [`kiln_store::Locks::lock`].
    pub(crate) fn lock(
        &self,
        nodes: impl Iterator<Item = usize>,
        settings: &Settings<'_>,
    ) -> Result<Locks> {
        let node = |at: usize| {
            let node = &self.nodes[at];
            Some(kiln_stripe::Node::new(node.config.id.clone(), node.store().ok()?.clone()))
        };
        // One order for all, so that no two wait for each other.
        let mut nodes: Vec<usize> = nodes.collect();
        nodes.sort_unstable();
        nodes.dedup();
        self.enter(nodes.iter().copied());
        let nodes: Vec<kiln_stripe::Node> = nodes.into_iter().filter_map(node).collect();
        Ok(node::lock(&nodes, settings, false)?.0)
    }

    /// Locks every node that can be reached.
    pub(crate) fn lock_all(&self, settings: &Settings<'_>) -> Result<Locks> {
        self.lock(0..self.nodes.len(), settings)
    }
}

fn none_here(config: &PoolConfig, why: &str) -> PoolError {
    PoolError::NoNodes { pool: config.name.clone(), why: why.to_owned() }
}

/// Makes sure that a place is the node that it should be.
fn enter(
    pool: &str,
    node: &NodeConfig,
    store: Arc<dyn Backend>,
) -> std::result::Result<Entered, String> {
    Capabilities::require_writable(&*store, "a node of a pool")
        .map_err(|error| error.to_string())?;
    let place = store.place();
    match identity(&*store).map_err(|error| error.to_string())? {
        None => Err(format!("{place} is no node of this pool ({IDENTITY} is missing)")),
        Some(found) if found.pool != *pool || found.node != node.id => {
            Err(format!("{place} is node {:?} of pool {}", found.node, found.pool))
        }
        Some(found) if !node.disk.is_empty() && found.disk != node.disk => Err(format!(
            "{place} has another disk of node {} than the pool's map names: one of an earlier \
             time; nothing on it is used",
            node.id
        )),
        Some(found) => Ok(Entered { store, filling: found.filling }),
    }
}

/// Opens a node's place, and refuses one that cannot do what pools do with nodes.
pub(crate) fn opened(node: &NodeConfig, open: Opener<'_>) -> Result<Arc<dyn Backend>, StoreError> {
    let store = open(node)?;
    Capabilities::require_writable(&*store, "a node of a pool")?;
    Ok(store)
}

pub(crate) fn identity(store: &dyn Backend) -> Result<Option<Identity>> {
    let Some(bytes) = read_small(store, IDENTITY, MAX_TEXT)? else { return Ok(None) };
    let text = String::from_utf8_lossy(&bytes);
    let identity: Identity = toml::from_str(&text).map_err(|_| PoolError::Refused {
        what: format!("{IDENTITY} in {} cannot be read; look at it", store.place()),
    })?;
    Ok(Some(identity))
}

/// Writes a node's identity into a place that is not yet in use.
pub(crate) fn take(config: &PoolConfig, node: &NodeConfig, store: &dyn Backend) -> Result<()> {
    let refused = |why: String| {
        let place = store.place();
        Err(PoolError::Refused { what: format!("{place} cannot become node {}: {why}", node.id) })
    };
    match identity(store)? {
        Some(found) if (&found.pool, &found.node) == (&config.id, &node.id) => {
            let same = found.disk == node.disk;
            if same {
                return Ok(());
            }
        }
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
    write_identity(store, config, node)
}

pub(crate) fn write_identity(
    store: &dyn Backend,
    config: &PoolConfig,
    node: &NodeConfig,
) -> Result<()> {
    let (pool, disk) = (config.id.clone(), node.disk.clone());
    let identity = Identity { version: 1, pool, node: node.id.clone(), disk, filling: false };
    let text = toml::to_string(&identity)
        .map_err(|error| PoolError::Internal { what: error.to_string() })?;
    Ok(write_whole(store, IDENTITY, text.as_bytes())?)
}
