//! A pool of disks in memory, and a model of what a volume on it must hold.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::{collections::BTreeMap, io::ErrorKind};

use kiln_pool::{NodeConfig, Policy, Pool, PoolConfig, PoolKeys};
use kiln_store::{Backend, MemoryBackend, Operation, StoreError};
use kiln_stripe::Sequence;
pub use kiln_testkit::Random;
use kiln_testkit::{Fault, FaultAction, FaultyBackend};
use kiln_volume::{CreateRequest, Op, OpenRequest, Rim, Volume};

pub const BLOCK: usize = 4096;

/// Disks and the pool on them.
pub struct Cluster {
    pub config: PoolConfig,
    pub memory: BTreeMap<String, MemoryBackend>,
    pub disks: BTreeMap<String, FaultyBackend>,
    ids: Arc<AtomicU64>,
}

impl Cluster {
    pub fn new(code: &str, nodes: usize) -> Cluster {
        Cluster::sealed(code, nodes, PoolKeys::default())
    }

    /// A pool that is sealed by the first of these keys, if there are any.
    pub fn sealed(code: &str, nodes: usize, keys: PoolKeys) -> Cluster {
        let mut config = PoolConfig::new([1; 16], "test", Policy::for_code(code).unwrap());
        (config.sealed, config.keys) = (keys.ids().into_iter().take(1).collect(), keys);
        let mut memory = BTreeMap::new();
        for at in 0..nodes {
            let id = format!("n{at:02}");
            config.node.push(NodeConfig::new(&id, &format!("memory://{id}")));
            memory.insert(id, MemoryBackend::new());
        }
        let disks = wrapped(&memory);
        let open = |node: &NodeConfig| Ok(Arc::new(disks[&node.id].clone()) as Arc<dyn Backend>);
        let config = Pool::create(config, &open).unwrap().config().clone();
        Cluster { config, memory, disks, ids: Arc::default() }
    }

    /// The pool without some nodes, all on one thread.
    pub fn rim(&self, without: &[&str], seed: u64) -> Arc<Rim> {
        let disks = self.disks.clone();
        self.rim_on(without, seed, move |id| Arc::new(disks[id].clone()))
    }

    /// The same, with disks as they are given.
    pub fn rim_on(
        &self,
        without: &[&str],
        seed: u64,
        disk: impl Fn(&str) -> Arc<dyn Backend> + Send + Sync + 'static,
    ) -> Arc<Rim> {
        let without: Vec<String> = without.iter().map(|id| (*id).to_owned()).collect();
        let config = self.config.clone();
        let random = Arc::new(Mutex::new(Random(seed)));
        let open = move || {
            let open = |node: &NodeConfig| {
                if without.contains(&node.id) {
                    let (op, name) = (Operation::OpenPlace, String::new());
                    let (place, source) = (node.url.clone(), ErrorKind::NotFound.into());
                    return Err(StoreError::Io { op, place, name, source });
                }
                Ok(disk(&node.id))
            };
            let random = Arc::clone(&random);
            let pick = move |n| random.lock().unwrap().below(n as u64) as usize;
            Ok(Pool::open(config.clone(), &open)?.in_sequence(Sequence::new(pick)))
        };
        let pool = open().unwrap();
        let ids = Arc::clone(&self.ids);
        let id = move || {
            let mut id = [0x77; 16];
            // Names have only the first of these.
            id[..8].copy_from_slice(&ids.fetch_add(1, Ordering::Relaxed).to_le_bytes());
            id
        };
        let rim = Rim::new(pool, id, || 1_700_000_000_000).in_sequence();
        Arc::new(rim.reopening(Box::new(open)))
    }

    /// The same pool on copies of its disks, as a power cut now would leave them.
    pub fn copy(&self, seed: u64) -> Cluster {
        let (config, ids) = (self.config.clone(), Arc::clone(&self.ids));
        let memory: BTreeMap<String, MemoryBackend> = (0..)
            .zip(&self.memory)
            .map(|(at, (id, disk))| (id.clone(), disk.crash(seed + at)))
            .collect();
        let disks = wrapped(&memory);
        Cluster { config, memory, disks, ids }
    }

    /// Leaves what a power cut leaves.
    pub fn crash(&mut self, seed: u64) {
        for (at, disk) in (0..).zip(self.memory.values_mut()) {
            *disk = disk.crash(seed + at);
        }
        self.disks = wrapped(&self.memory);
    }

    /// Every disk fails for good after some more operations, each after as many as it likes.
    pub fn cut(&self, random: &mut Random, most: u64) {
        for disk in self.disks.values() {
            let fault = Fault::new(FaultAction::Fail(ErrorKind::Other));
            disk.inject(fault.after(random.below(most)).always());
        }
    }

    /// Everything on a node fails from now on.
    pub fn kill(&self, node: &str) {
        self.disks[node].inject(Fault::new(FaultAction::Fail(ErrorKind::Other)).always());
    }

    pub fn nodes(&self) -> Vec<String> {
        self.memory.keys().cloned().collect()
    }
}

fn wrapped(memory: &BTreeMap<String, MemoryBackend>) -> BTreeMap<String, FaultyBackend> {
    memory
        .iter()
        .map(|(id, disk)| (id.clone(), FaultyBackend::new(Arc::new(disk.clone()))))
        .collect()
}

/// The bytes that a volume must have.
pub struct Model(pub Vec<u8>);

impl Model {
    pub fn apply(&mut self, ops: &[Op<'_>]) {
        for op in ops {
            match op {
                Op::Write { offset, bytes } => {
                    self.0[*offset as usize..*offset as usize + bytes.len()].copy_from_slice(bytes);
                }
                Op::Zero { offset, len } => {
                    self.0[*offset as usize..(*offset + *len) as usize].fill(0);
                }
            }
        }
    }

    /// Takes over what is there after a write that was not acknowledged: every block is what it
    /// was, or what some of the changes, in their order, made of it.
    pub fn settle(&mut self, ops: &[Op<'_>], volume: &Volume, what: &str) {
        let mut versions = vec![Model(self.0.clone())];
        for op in ops {
            let mut next = Model(versions[versions.len() - 1].0.clone());
            next.apply(std::slice::from_ref(op));
            versions.push(next);
        }
        let mut found = vec![0xaa; self.0.len()];
        volume.read(0, &mut found).unwrap_or_else(|error| panic!("{what}: {error}"));
        for (at, block) in found.chunks(BLOCK).enumerate() {
            let range = at * BLOCK..(at * BLOCK + block.len());
            let known = versions.iter().any(|version| version.0[range.clone()] == *block);
            assert!(known, "{what}: block {at} is none that was ever to be there");
        }
        self.0 = found;
    }

    pub fn check(&self, volume: &Volume, what: &str) {
        let mut bytes = vec![0xaa; self.0.len()];
        volume.read(0, &mut bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
        let wrong = bytes.chunks(BLOCK).zip(self.0.chunks(BLOCK)).position(|(a, b)| a != b);
        assert_eq!(wrong, None, "{what}: block");
    }
}

pub fn small(size: u64) -> CreateRequest {
    CreateRequest { size, segment: 64 << 10, log: 256 << 10 }
}

pub fn open(rim: &Arc<Rim>) -> Volume {
    Volume::open(rim, "v", &OpenRequest::of("test")).unwrap()
}
