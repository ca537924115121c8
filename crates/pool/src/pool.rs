//! A pool: many objects over many nodes, found by name.
//!
//! Nothing runs in the background and there is no server: every process that opens a pool can read
//! and write it. Short locks on the nodes keep commits apart; everything else needs none, because
//! shards are named after their run and never change, and a manifest is replaced whole.

use std::{collections::BTreeMap, io::Write, ops::Deref, sync::Arc};

use kiln_store::{Backend, MemoryBackend};
use kiln_stripe::{Hedge, Result, Sequence, Settings, Source};

use crate::data::reader::ObjectReader;
use crate::data::writer::ObjectWriter;
use crate::manifest::store::ManifestStore;
use crate::map::cluster_map::{ClusterMap, Opener};
use crate::members::membership::Membership;
use crate::repair::repairer::Repairer;
use crate::{
    GetReport, GetRequest, Manifest, NodeConfig, OpenObject, Policy, PoolConfig, PutReport,
    PutRequest, StatReport,
};

/// An open pool; usable from several threads.
///
/// ```
/// use std::{collections::BTreeMap, sync::Arc};
/// use kiln_pool::{GetRequest, NodeConfig, Policy, Pool, PoolConfig, PutRequest};
/// use kiln_stripe::{Settings, Silent};
/// use kiln_stripe::StreamSource;
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
/// # Ok::<(), kiln_stripe::PoolError>(())
/// ```
#[derive(Debug)]
pub struct Pool(ClusterMap);

impl Deref for Pool {
    type Target = ClusterMap;

    fn deref(&self) -> &ClusterMap {
        &self.0
    }
}

impl Pool {
    /// Opens a pool. Nodes that cannot be opened, or are not marked as nodes of this pool with the
    /// disk that its map names, are unavailable; [`ClusterMap::away`] says why.
    /// Errors: the description is wrong, or no node's place can be opened at all.
    pub fn open(config: PoolConfig, open: Opener<'_>) -> Result<Pool> {
        ClusterMap::open(config, open).map(Pool)
    }

    /// Makes all nodes of a new pool its own and opens it.
    /// Errors: a place belongs to a pool already, or cannot be written.
    pub fn create(config: PoolConfig, open: Opener<'_>) -> Result<Pool> {
        ClusterMap::create(config, open).map(Pool)
    }

    /// Returns the same pool; all its work is done on the caller's thread: for simulations.
    #[must_use]
    pub fn in_sequence(self, sequence: Sequence) -> Pool {
        Pool(self.0.in_sequence(sequence))
    }

    /// Returns the same pool; its reads of objects do not wait for nodes that are late, as long as
    /// others have what is needed.
    #[must_use]
    pub fn hedged(self, hedge: Arc<Hedge>) -> Pool {
        Pool(self.0.hedged(hedge))
    }

    /// Returns the cluster map.
    pub fn map(&self) -> &ClusterMap {
        &self.0
    }

    /// Returns the store of manifests.
    pub fn manifests(&self) -> ManifestStore<'_> {
        ManifestStore::new(&self.0)
    }

    /// Returns the door to changes of the map.
    pub fn members(&self) -> Membership<'_> {
        Membership::new(&self.0)
    }

    /// Returns the reader of objects.
    pub fn reader(&self) -> ObjectReader<'_> {
        ObjectReader::new(&self.0)
    }

    /// Returns the writer of objects.
    pub fn writer(&self) -> ObjectWriter<'_> {
        ObjectWriter::new(&self.0)
    }

    /// Returns the repairer.
    pub fn repairer(&self) -> Repairer<'_> {
        Repairer::new(&self.0)
    }

    /// Reads an object, or a range of it; see [`ObjectReader::get`].
    pub fn get(
        &self,
        req: &GetRequest<'_>,
        out: &mut dyn Write,
        settings: &Settings<'_>,
    ) -> Result<GetReport> {
        self.reader().get(req, out, settings)
    }

    /// Opens an object, to read it many times.
    pub fn open_object(&self, name: &str) -> Result<OpenObject> {
        self.reader().open_object(name)
    }

    /// Describes an object and the state of its shards.
    pub fn stat(&self, name: &str) -> Result<StatReport> {
        self.reader().stat(name)
    }

    /// Returns the manifest of an object.
    pub fn manifest(&self, name: &str) -> Result<Manifest> {
        self.manifests().manifest(name)
    }

    /// Puts an object; see [`ObjectWriter::put`].
    pub fn put(
        &self,
        req: &PutRequest<'_>,
        source: &mut dyn Source,
        settings: &Settings<'_>,
    ) -> Result<PutReport> {
        self.writer().put(req, source, settings)
    }

    /// Removes an object; see [`ObjectWriter::remove_over`].
    pub fn remove(
        &self,
        name: &str,
        run: [u8; 16],
        now_ms: u64,
        settings: &Settings<'_>,
    ) -> Result<()> {
        self.writer().remove_over(name, run, None, now_ms, settings)
    }
}

/// Returns a pool of three disks in memory, coded `rs:2+1`, for the examples of this documentation.
#[doc(hidden)]
pub fn example_pool() -> Result<Pool> {
    let mut config = PoolConfig::new([1; 16], "demo", Policy::for_code("rs:2+1")?);
    config.node = ["a", "b", "c"].map(|id| NodeConfig::new(id, &format!("memory://{id}"))).into();
    let disks: BTreeMap<_, _> = config.node.iter().map(|node| (node.id.clone(), disk())).collect();
    Pool::create(config, &|node| Ok(disks[&node.id].clone()))
}

fn disk() -> Arc<dyn Backend> {
    Arc::new(MemoryBackend::new())
}
