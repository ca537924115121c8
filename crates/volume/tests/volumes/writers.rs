//! A pool whose nodes go away, come back, leave for good and lose their disks, and writers
//! that take a volume from each other meanwhile. Every block that anybody reads is of a write
//! that may be there; of several writers only the last one writes.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use kiln_pool::{Index, Membership, NodeConfig, NodeState, Policy, Pool, PoolConfig};
use kiln_store::{Backend, MemoryBackend, Operation, Result, StoreError};
use kiln_stripe::{PoolError, Sequence, Settings, Silent};
use kiln_testkit::{Fault, FaultAction, FaultyBackend};
use kiln_volume::{OpenRequest, Rim, Volume, VolumeError};

use crate::common::*;
use crate::{history::History, recover::recover};

const SIZE: u64 = 1 << 20;

/// A node's disk as it is now.
struct Disk {
    memory: MemoryBackend,
    faulty: FaultyBackend,
    away: bool,
}

impl Disk {
    fn of(memory: MemoryBackend) -> Disk {
        Disk { faulty: FaultyBackend::new(Arc::new(memory.clone())), memory, away: false }
    }
}

type Disks = Arc<Mutex<BTreeMap<String, Disk>>>;

/// The pool, as all see it who open it.
#[derive(Clone)]
struct World {
    /// The description, which a process that opens the pool brings up to date: of an old one every
    /// node may have left.
    config: Arc<Mutex<PoolConfig>>,
    disks: Disks,
    ids: Arc<AtomicU64>,
}

fn open_disk(disks: &Disks, node: &NodeConfig) -> Result<Arc<dyn Backend>> {
    let disks = disks.lock().unwrap();
    match disks.get(&node.id).filter(|disk| !disk.away) {
        Some(disk) => Ok(Arc::new(disk.faulty.clone())),
        None => {
            let (op, name, place) = (Operation::OpenPlace, String::new(), node.url.clone());
            Err(StoreError::Io { op, place, name, source: ErrorKind::NotFound.into() })
        }
    }
}

impl World {
    fn new(code: &str, nodes: usize) -> World {
        let mut config = PoolConfig::new([1; 16], "test", Policy::for_code(code).unwrap());
        let mut disks = BTreeMap::new();
        for at in 0..nodes {
            let id = format!("n{at:02}");
            config.node.push(NodeConfig::new(&id, &format!("memory://{id}")));
            disks.insert(id, Disk::of(MemoryBackend::new()));
        }
        let disks = Arc::new(Mutex::new(disks));
        let open = |node: &NodeConfig| open_disk(&disks, node);
        let config = Pool::create(config, &open).unwrap().config().clone();
        let config = Arc::new(Mutex::new(config));
        World { config, disks, ids: Arc::new(AtomicU64::new(1)) }
    }

    fn id(&self) -> [u8; 16] {
        let mut id = [0x77; 16];
        id[..8].copy_from_slice(&self.ids.fetch_add(1, Ordering::Relaxed).to_le_bytes());
        id
    }

    /// The pool by its map in force.
    fn pool(&self) -> Result<Pool, PoolError> {
        let open = |node: &NodeConfig| open_disk(&self.disks, node);
        let sequence = Sequence::new(|_| 0);
        let settings = Settings { sequence: Some(&sequence), ..Settings::new(&Silent) };
        let known = self.config.lock().unwrap().clone();
        let map = Membership::newest(known, false, &open, &settings)?;
        self.config.lock().unwrap().clone_from(&map);
        Ok(Pool::open(map, &open)?.in_sequence(sequence))
    }

    fn rim(&self) -> Arc<Rim> {
        let (one, other) = (self.clone(), self.clone());
        let rim = Rim::new(self.pool().unwrap(), move || one.id(), || 5_000).in_sequence();
        Arc::new(rim.reopening(Box::new(move || other.pool())))
    }

    fn set_away(&self, id: &str, away: bool) {
        let mut disks = self.disks.lock().unwrap();
        let disk = disks.get_mut(id).unwrap();
        disk.away = away;
        match away {
            true => {
                let fault = Fault::new(FaultAction::Fail(ErrorKind::Other)).always();
                disk.faulty.inject(fault);
            }
            // Who has it open has lost it, as a connection is lost.
            false => disk.faulty = FaultyBackend::new(Arc::new(disk.memory.clone())),
        }
    }

    /// The power goes everywhere.
    fn crash(&self, random: &mut Random) {
        for disk in self.disks.lock().unwrap().values_mut() {
            let away = disk.away;
            *disk = Disk { away, ..Disk::of(disk.memory.crash(random.next())) };
        }
    }

    fn repair(&self) -> Result<(), PoolError> {
        let sequence = Sequence::new(|_| 0);
        let settings = Settings { sequence: Some(&sequence), ..Settings::new(&Silent) };
        self.pool()?.members().attend(|_| false, &settings)?;
        let (pool, index) = (self.pool()?, Index::in_memory()?);
        index.refresh(&pool, b"", &Silent)?;
        let report = recover(&pool, &index, (5_000, false), &settings)?;
        assert!(report.failed.is_empty(), "{:?}", report.failed);
        Ok(())
    }

    /// A node leaves: its log goes elsewhere, then all else, and it comes back with a new disk.
    fn drain(&self, id: &str, writer: Option<&Volume>) {
        let settings = Settings::new(&Silent);
        let ids = [id.to_owned()];
        let pool = self.pool().unwrap();
        pool.members().set_state(&ids, NodeState::Leaving, false, &settings).unwrap();
        if let Some(writer) = writer {
            writer.attend().unwrap();
        }
        self.repair().unwrap();
        self.pool().unwrap().members().forget(&ids, false, &settings).unwrap();
        self.disks.lock().unwrap().insert(id.to_owned(), Disk::of(MemoryBackend::new()));
        let node = NodeConfig::new(&format!("{id}x"), &format!("memory://{id}x"));
        let fresh = Disk::of(MemoryBackend::new());
        self.disks.lock().unwrap().insert(node.id.clone(), fresh);
        let open = |node: &NodeConfig| open_disk(&self.disks, node);
        self.pool().unwrap().members().add_node(node, self.id(), &open, &settings).unwrap();
        self.repair().unwrap();
    }

    /// Files of logs, by node.
    fn logs(&self) -> BTreeSet<(String, String)> {
        let disks = self.disks.lock().unwrap();
        let of = |(id, disk): (&String, &Disk)| {
            let names = Backend::list(&disk.memory).unwrap();
            let logs = names.into_iter().filter(|name| name.contains(".log"));
            logs.map(|name| (id.clone(), name)).collect::<Vec<_>>()
        };
        disks.iter().flat_map(of).collect()
    }
}

struct Run {
    world: World,
    random: Random,
    history: History,
    writer: Volume,
    /// Writers that were deposed and do not know it.
    deposed: Vec<Volume>,
    away: Vec<String>,
    what: String,
}

impl Run {
    fn take_over(&mut self) {
        let take = OpenRequest { take_over: true, ..OpenRequest::of("another") };
        let next = Volume::open(&self.world.rim(), "v", &take);
        let next = next.unwrap_or_else(|error| panic!("{}: {error}", self.what));
        self.history.opened(&next, &self.what);
        let before = std::mem::replace(&mut self.writer, next);
        if self.random.below(2) == 0 && self.deposed.len() < 2 {
            self.deposed.push(before);
        }
    }

    fn step(&mut self) {
        match self.random.below(40) {
            0 => {
                self.world.crash(&mut self.random);
                self.take_over();
                // The earlier writer has the disks as they were.
                self.deposed.clear();
            }
            1 => self.take_over(),
            2 if self.away.is_empty() => {
                let pool = self.world.pool().unwrap();
                let nodes = &pool.config().node;
                let id = nodes[self.random.below(nodes.len() as u64) as usize].id.clone();
                self.world.set_away(&id, true);
                self.away.push(id);
            }
            3..=5 => {
                for id in std::mem::take(&mut self.away) {
                    self.world.set_away(&id, false);
                    let _ = self.writer.attend();
                }
                self.world.repair().unwrap();
            }
            6 if self.away.is_empty() => {
                let pool = self.world.pool().unwrap();
                let nodes = &pool.config().node;
                let id = nodes[self.random.below(nodes.len() as u64) as usize].id.clone();
                self.world.drain(&id, Some(&self.writer));
            }
            7 => {
                for volume in &self.deposed {
                    let plan = self.history.clone().plan(&mut self.random);
                    let ops: Vec<_> = plan.iter().map(crate::history::Change::op).collect();
                    let end = volume.write(&ops);
                    assert!(end.is_err(), "{}: a deposed writer acknowledged", self.what);
                    let _ = (volume.seal(), volume.keep(), volume.attend());
                }
            }
            8 => drop(self.history.check(&self.writer, &self.what)),
            _ => {
                let plan = self.history.plan(&mut self.random);
                match self.history.write(&self.writer, &plan) {
                    Err(VolumeError::Deposed { .. }) => panic!("{}: deposed", self.what),
                    // With nodes away it may have to wait for them.
                    Err(error) => assert!(!self.away.is_empty(), "{}: {error}", self.what),
                    Ok(()) => {}
                }
            }
        }
        let _ = (self.writer.seal(), self.writer.keep());
    }
}

fn play(code: &str, nodes: usize, seed: u64) {
    let (world, mut random) = (World::new(code, nodes), Random(seed));
    Volume::create(&world.rim(), "v", &small(SIZE)).unwrap();
    let writer = open(&world.rim());
    let (history, what) = (History::new(SIZE), String::new());
    random.next();
    let (deposed, away) = (Vec::new(), Vec::new());
    let mut run = Run { world, random, history, writer, deposed, away, what };
    for step in 0..400 {
        run.what = format!("{code}, writers, seed {seed}, step {step}");
        run.step();
    }
    run.what = format!("{code}, writers, seed {seed}, in the end");
    for id in std::mem::take(&mut run.away) {
        run.world.set_away(&id, false);
    }
    run.take_over();
    run.deposed.clear();
    // Of all logs that writers left behind none is there any more.
    let world = run.world.clone();
    let objects = move |prefix: &str| {
        let (pool, index, mut names) = (world.pool()?, Index::in_memory()?, Vec::new());
        index.refresh(&pool, b"", &Silent)?;
        index.each(prefix, None, |listed| {
            names.push(listed.name);
            Ok(true)
        })?;
        Ok(names)
    };
    let report = run.writer.check(&objects, &Silent).unwrap();
    assert_eq!(report.damaged_count, 0, "{}", run.what);
    let info = Volume::info(&run.world.rim(), "v").unwrap();
    let logs = run.world.logs();
    let nodes: Vec<&String> = logs.iter().map(|(node, _)| node).collect();
    let mut named: Vec<&String> = info.log_nodes.iter().collect();
    named.sort();
    assert_eq!(nodes, named, "{}: {logs:?}", run.what);
}

#[test]
fn writers_take_turns_while_nodes_come_and_go() {
    let (seeds, first) = crate::model::seeds();
    for seed in first..first + seeds {
        match seed % 3 {
            0 => play("rs:2+1", 6, seed),
            1 => play("rs:4+2", 10, seed),
            _ => play("clay:4+2", 10, seed),
        }
    }
}

/// A server runs for months: what it found of a node when it opened the pool is not for ever.
#[test]
fn nodes_that_are_back_are_used_again() {
    let world = World::new("rs:2+1", 6);
    let rim = world.rim();
    Volume::create(&rim, "v", &small(SIZE)).unwrap();
    world.set_away("n05", true);
    let rim = world.rim();
    let writer = open(&rim);
    rim.pool().check_map().unwrap();
    assert_eq!(rim.pool().found_away().len(), 1);
    world.set_away("n05", false);
    writer.attend().unwrap();
    rim.pool().check_map().unwrap();
    assert!(rim.pool().found_away().is_empty());
    // These lost two nodes one after the other, which were back, and could not write any more.
    [12, 48, 57].into_iter().for_each(|seed| play("rs:2+1", 6, seed));
}
