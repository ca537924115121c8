//! A pool over memory nodes that can go away, rot and come back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::{cell::Cell, io::ErrorKind, time::Duration};

use kiln_pool::layout::Class;
use kiln_pool::repair::queue::{RepairQueue, Rules};
use kiln_pool::{
    GetReport, GetRequest, Index, KeepRule, Key, Membership, NodeConfig, NodeFile, NodeState,
    Policy, Pool, PoolConfig, PoolStatus, PutReport, PutRequest, RecodeReport, RecodeRequest,
    ScrubReport, ScrubRequest,
};
use kiln_store::{
    Backend, Extensions, Locks, MemoryBackend, ReadAt, Result, StagedBackend, StoreError, WriteLock,
};
use kiln_stripe::{PoolError, Settings, Silent, StreamSource};
use kiln_testkit::{Bucket, FaultyBackend};

use crate::sealed::keys;

/// Position-dependent bytes.
pub fn data(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64)
        .map(|i| {
            let z = (i ^ seed.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            (z.rotate_left(17) >> 11) as u8 ^ (i as u8)
        })
        .collect()
}

pub fn settings() -> Settings<'static> {
    // How many processors there are is looked up once only: that takes longer than a small put.
    static DEFAULT: LazyLock<Settings<'static>> = LazyLock::new(|| Settings::new(&Silent));
    Settings { threads: 2, memory: 8 << 20, ..*DEFAULT }
}

/// Name of a copy of an object's manifest.
pub fn manifest(name: &str) -> String {
    NodeFile::Manifest { key: Key::of(name).unwrap() }.name()
}

/// A scrub at a moment without grace for what is left over.
pub fn at_once(now_ms: u64) -> ScrubRequest<'static> {
    ScrubRequest { now_ms, grace_ms: 0, ..ScrubRequest::default() }
}

pub fn scrub(pool: &Pool, index: &Index, req: &ScrubRequest<'_>) -> Result<ScrubReport, PoolError> {
    pool.repairer().scrub(index, &mut RepairQueue::new(Rules::default()), req, &settings())
}

pub fn survey(pool: &Pool, index: &Index) -> PoolStatus {
    pool.repairer().survey(index, &mut RepairQueue::new(Rules::default()), 3_000).unwrap()
}

thread_local! {
    /// Kind of the disks of this test.
    pub static DISKS: Cell<Disks> = const { Cell::new(Disks::Files) };
}

/// Kind of disks.
#[derive(Clone, Copy)]
pub enum Disks {
    /// Folders.
    Files,
    /// As object stores are: without renames and appending.
    Buckets,
    /// Folders, in an encrypted pool.
    Encrypted,
    /// Object stores with a folder beside them for what is being written.
    Served,
}

/// One node's disk.
#[derive(Clone)]
pub struct Disk {
    pub memory: Arc<MemoryBackend>,
    pub faulty: FaultyBackend,
}

impl Disk {
    pub fn new(memory: MemoryBackend) -> Disk {
        let memory = Arc::new(memory);
        let bucket = || Arc::new(Bucket::over(memory.clone()));
        let place: Arc<dyn Backend> = match DISKS.get() {
            Disks::Files | Disks::Encrypted => memory.clone(),
            Disks::Buckets => bucket(),
            Disks::Served => Arc::new(StagedBackend::new(bucket(), Arc::new(MemoryBackend::new()))),
        };
        Disk { faulty: FaultyBackend::new(place), memory }
    }
}

/// All disks of a pool, and which of them answer.
pub struct World {
    pub config: PoolConfig,
    pub disks: Vec<Disk>,
    pub away: BTreeSet<usize>,
    runs: AtomicU64,
}

impl World {
    /// `count` nodes, each a domain of its own, with a policy around a code.
    pub fn new(code: &str, count: usize) -> World {
        let mut policy = Policy::for_code(code).unwrap();
        for class in &mut policy.class {
            // Small sizes, so that small objects have several stripes.
            let below = if class.is_inline() { 100 } else { 5_000 };
            class.below = class.below.map(|_| below);
            class.sub_chunk = (class.code != "inline").then_some(64);
        }
        World::with_policy(policy, count)
    }

    pub fn with_policy(policy: Policy, count: usize) -> World {
        let mut config = PoolConfig::new([7; 16], "test", policy);
        for at in 0..count {
            config.node.push(NodeConfig::new(&format!("n{at:02}"), &format!("memory://{at}")));
        }
        if matches!(DISKS.get(), Disks::Encrypted) {
            config.data_keys = keys(&[9]);
            config.encrypt().unwrap();
        }
        let disks = (0..count).map(|_| Disk::new(MemoryBackend::new())).collect();
        let mut world = World { config, disks, away: BTreeSet::new(), runs: AtomicU64::new(0) };
        let pool = Pool::create(world.config.clone(), &|node| world.open_node(node)).unwrap();
        world.config = pool.config().clone();
        world
    }

    pub fn open_node(&self, node: &NodeConfig) -> Result<Arc<dyn Backend>> {
        let at: usize = node.url.trim_start_matches("memory://").parse().unwrap();
        if self.away.contains(&at) {
            let source = ErrorKind::NotConnected.into();
            let (place, name) = (node.url.clone(), String::new());
            return Err(StoreError::Io { op: kiln_store::Operation::Open, place, name, source });
        }
        Ok(Arc::new(self.disks[at].faulty.clone()))
    }

    /// Nodes for a policy of one class, of one code.
    pub fn of_class(code: &str, sub_chunk: u32, count: usize) -> World {
        let mut policy = Policy::for_code(code).unwrap();
        policy.class = vec![Class { below: None, code: code.into(), sub_chunk: Some(sub_chunk) }];
        World::with_policy(policy, count)
    }

    /// A world like this one, of which nothing is this one's.
    pub fn copy(&self) -> World {
        let disks = self.disks.iter().map(|disk| Disk::new(disk.memory.crash(0))).collect();
        let runs = AtomicU64::new(self.runs.load(Ordering::Relaxed));
        World { config: self.config.clone(), disks, away: self.away.clone(), runs }
    }

    /// The pool as a process that starts now sees it.
    pub fn pool(&self) -> Pool {
        Pool::open(self.newest(), &|node| self.open_node(node)).unwrap()
    }

    /// The pool's map in force.
    pub fn newest(&self) -> PoolConfig {
        let open = |node: &NodeConfig| self.open_node(node);
        Membership::newest(self.config.clone(), false, &open, &settings()).unwrap()
    }

    pub fn run(&self) -> [u8; 16] {
        let mut run = [0xA5; 16];
        let count = self.runs.fetch_add(1, Ordering::Relaxed) + 1;
        run[..8].copy_from_slice(&count.to_be_bytes());
        run
    }

    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<PutReport, PoolError> {
        let req = PutRequest { name, run: self.run(), now_ms: 1_000, replace: true };
        self.pool().put(&req, &mut StreamSource::new(bytes), &settings())
    }

    /// Puts objects together; how each ended.
    pub fn put_all(
        &self,
        pool: &Pool,
        objects: &[(&str, Vec<u8>)],
        replace: bool,
    ) -> Result<Vec<Result<PutReport, PoolError>>, PoolError> {
        let put = |name| PutRequest { name, run: self.run(), now_ms: 1_000, replace };
        let puts = objects.iter().map(|(name, bytes)| (put(*name), None, &bytes[..]));
        pool.writer().put_bytes(&puts.collect::<Vec<_>>(), &settings())
    }

    pub fn get(&self, name: &str) -> Result<Vec<u8>, PoolError> {
        self.part_of(name, None).map(|(bytes, _)| bytes)
    }

    pub fn part_of(
        &self,
        name: &str,
        range: Option<std::ops::Range<u64>>,
    ) -> Result<(Vec<u8>, GetReport), PoolError> {
        let mut out = Vec::new();
        let report = self.pool().get(&GetRequest { name, range }, &mut out, &settings())?;
        Ok((out, report))
    }

    /// Writes objects in another code, without waiting for locks.
    pub fn recode(
        &self,
        pool: &Pool,
        index: &Index,
        name: &str,
        to: &str,
    ) -> Result<RecodeReport, PoolError> {
        let req = RecodeRequest {
            names: &[name.to_owned()],
            skip: &|_| false,
            to: Some(to),
            lower_safety: false,
            at_most: u64::MAX,
            dry_run: false,
            nodes: None,
            fresh: &|| (self.run(), 1_000),
        };
        pool.writer().recode(index, &req, &Settings { lock_wait: Duration::ZERO, ..settings() })
    }

    pub fn remove(&self, name: &str) -> Result<(), PoolError> {
        self.pool().remove(name, self.run(), 1_000, &settings())
    }

    /// So many versions are kept of objects whose names begin with these.
    pub fn keep(&mut self, rules: &[(&str, u64)]) {
        let rule = |(prefix, last): &(&str, u64)| KeepRule {
            prefix: (*prefix).to_owned(),
            last: *last,
            ..KeepRule::default()
        };
        let set = |next: &mut PoolConfig| {
            next.keep = rules.iter().map(rule).collect();
            Ok(())
        };
        self.config = self.pool().members().change(false, &settings(), set).unwrap();
    }

    /// A new index of the pool as it is now.
    pub fn index(&self) -> Index {
        let index = Index::in_memory().unwrap();
        self.refresh(&index);
        index
    }

    pub fn refresh(&self, index: &Index) {
        index.refresh(&self.pool(), b"", &Silent).unwrap();
    }

    pub fn scrub(&self, index: &Index, req: &ScrubRequest<'_>) -> ScrubReport {
        scrub(&self.pool(), index, req).unwrap()
    }

    pub fn survey(&self, index: &Index) -> PoolStatus {
        survey(&self.pool(), index)
    }

    /// Names of the pool's own files on a node.
    pub fn files(&self, node: usize) -> Vec<String> {
        let names = self.disks[node].memory.list().unwrap();
        names.into_iter().filter(|name| NodeFile::parse(name).is_some()).collect()
    }

    /// Shards of an object, by index: nodes and files.
    pub fn shards(&self, name: &str) -> BTreeMap<u16, (usize, String)> {
        let of = Key::of(name).unwrap();
        let files = (0..self.disks.len()).flat_map(|at| {
            let files = self.files(at).into_iter();
            files.map(move |file| (at, file))
        });
        let index = |file: &str| match NodeFile::parse(file) {
            Some(NodeFile::Shard { key, index, .. }) if key == of => Some(index),
            _ => None,
        };
        files.filter_map(|(at, file)| Some((index(&file)?, (at, file)))).collect()
    }

    /// Operations on all disks so far.
    pub fn operations(&self) -> u64 {
        self.disks.iter().map(|disk| disk.faulty.operations()).sum()
    }

    pub fn set_state(&mut self, nodes: &[usize], state: NodeState) {
        let map = self.newest();
        let ids: Vec<String> = nodes.iter().map(|at| map.node[*at].id.clone()).collect();
        self.config = self.pool().members().set_state(&ids, state, false, &settings()).unwrap();
    }

    /// A node's disk is replaced by an empty one, which the pool takes.
    pub fn replace_disk(&mut self, node: usize) {
        self.disks[node] = Disk::new(MemoryBackend::new());
        self.away.remove(&node);
        self.take_disk(node);
    }

    /// The pool takes the disk that a node has now, which is empty, in place of its lost one.
    pub fn take_disk(&mut self, node: usize) {
        let pool = self.pool();
        let (config, open) = (pool.config().node[node].clone(), |node: &_| self.open_node(node));
        self.config = pool.members().replace_disk(config, self.run(), &open, &settings()).unwrap();
    }
}

/// Called before a client looks at a disk, or asks for its lock.
pub type Look = Arc<dyn Fn() + Send + Sync>;

/// A disk of a client after whose every look another one can act.
pub fn watched(inner: Arc<dyn Backend>, look: Look) -> Arc<dyn Backend> {
    Arc::new(Watched { inner, look })
}

struct Watched<B> {
    inner: B,
    look: Look,
}

impl<B> std::fmt::Debug for Watched<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watched")
    }
}

impl Backend for Watched<Arc<dyn Backend>> {
    kiln_store::forward_backend!(inner: place capabilities append rename remove);

    fn list(&self) -> Result<Vec<String>> {
        (self.look)();
        self.inner.list()
    }

    fn open(&self, name: &str) -> Result<Box<dyn ReadAt>> {
        (self.look)();
        let inner = self.inner.open(name)?;
        Ok(Box::new(Watched { inner, look: Arc::clone(&self.look) }))
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions {
            locks: Some(self),
            info: self.inner.extensions().info,
            ..Extensions::default()
        }
    }
}

impl Locks for Watched<Arc<dyn Backend>> {
    fn lock(&self, wait: bool) -> Result<Option<WriteLock>> {
        (self.look)();
        self.inner.lock(wait)
    }
}

impl ReadAt for Watched<Box<dyn ReadAt>> {
    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        (self.look)();
        self.inner.read_at(offset, buf)
    }
}
