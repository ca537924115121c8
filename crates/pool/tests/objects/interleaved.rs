//! Two clients of one pool, of which one stands still before each of its looks while the other goes
//! on: the map never goes back, and what was acknowledged stays.

use std::sync::atomic::{AtomicU64, Ordering};
use std::{sync::Arc, time::Duration};

use kiln_pool::{Index, Membership, NodeConfig, NodeState, Pool, PoolConfig, ScrubRequest};
use kiln_store::{Backend, Result, WriteLock};
use kiln_stripe::{PoolError, Settings, Silent};

use crate::recover::recover;
use crate::world::*;

/// A node's copy of the map.
const DESCRIPTION: &str = "kiln-pool.toml";

/// The other client: after so many looks of the first one it changes the map and puts an object.
struct Other {
    world: World,
    left: AtomicU64,
    /// The epoch that was acknowledged to it.
    epoch: AtomicU64,
}

impl Other {
    fn look(&self) {
        let less = |left: u64| left.checked_sub(1);
        if self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) != Ok(1) {
            return;
        }
        // If the first client has locks, it goes on first.
        let free = |disk: &Disk| (&disk.faulty as &dyn Backend).lock(false).unwrap();
        let locks: Vec<Option<WriteLock>> = self.world.disks.iter().map(free).collect();
        if locks.iter().any(Option::is_none) {
            return;
        }
        drop(locks);
        let open = |node: &NodeConfig| self.world.open_node(node);
        let no_wait = Settings { lock_wait: Duration::ZERO, ..settings() };
        let mut map =
            Membership::newest(self.world.config.clone(), false, &open, &no_wait).unwrap();
        for (id, state) in [("n00", NodeState::Leaving), ("n01", NodeState::Leaving)] {
            let pool = Pool::open(map, &open).unwrap();
            map = pool.members().set_state(&[id.to_owned()], state, false, &no_wait).unwrap();
        }
        self.epoch.store(map.revision, Ordering::SeqCst);
        self.world.put("later", &data(9_000, 5)).unwrap();
    }

    /// Returns how a node's place is opened by the first client.
    fn watched(self: &Arc<Self>, node: &NodeConfig) -> Result<Arc<dyn Backend>> {
        let (inner, other) = (self.world.open_node(node)?, Arc::clone(self));
        Ok(watched(inner, Arc::new(move || other.look())))
    }
}

/// A pool with an object.
fn with_object() -> World {
    let world = World::new("rs:3+2", 8);
    world.put("earlier", &data(9_000, 4)).unwrap();
    world
}

/// A pool after a change: a node leaves. The nodes of these numbers have the map of before.
fn changed(behind: impl Fn(usize) -> bool) -> World {
    let mut world = with_object();
    let copy = |world: &World, at: usize| world.disks[at].memory.bytes(DESCRIPTION).unwrap();
    let before: Vec<Vec<u8>> = (0..8).map(|at| copy(&world, at)).collect();
    let leaving = NodeState::Leaving;
    let next =
        world.pool().members().set_state(&["n07".to_owned()], leaving, false, &settings()).unwrap();
    for (at, text) in before.into_iter().enumerate().filter(|(at, _)| behind(*at)) {
        world.disks[at].memory.put(DESCRIPTION, text);
    }
    if !behind(7) {
        world.config = next;
    }
    world
}

type Opens<'a> = &'a dyn Fn(&NodeConfig) -> Result<Arc<dyn Backend>>;

/// Has a client do something while the other acts after each number of its looks.
fn whenever(first: &World, of: impl Fn(PoolConfig, Opens<'_>) -> Result<(), PoolError>) {
    let (mut at, mut acted) = (0, 0);
    loop {
        at += 1;
        let world = first.copy();
        let other = Arc::new(Other { world, left: at.into(), epoch: 0.into() });
        let end = of(other.world.config.clone(), &|node: &_| other.watched(node));
        let over = other.left.swap(0, Ordering::SeqCst) > 0;
        let epoch = other.epoch.load(Ordering::SeqCst);
        match end {
            Ok(()) => {}
            // It is told, and begins again.
            Err(PoolError::MapChanged { .. }) if epoch > 0 => {}
            Err(error) => panic!("at {at}: {error}"),
        }
        let newest = other.world.newest();
        assert!(newest.revision >= epoch, "at {at}: {} after {epoch}", newest.revision);
        let current = |disk: &&Disk| {
            let bytes = disk.memory.bytes(DESCRIPTION).unwrap();
            PoolConfig::from_toml(&String::from_utf8_lossy(&bytes)).unwrap().revision >= epoch
        };
        let have = other.world.disks.iter().filter(current).count();
        assert!(have * 2 > 8, "at {at}: {have} of 8 nodes have epoch {epoch}");
        assert!(other.world.get("earlier").unwrap() == data(9_000, 4), "at {at}");
        if epoch > 0 {
            acted += 1;
            let leaves = |at: usize| newest.node[at].state == NodeState::Leaving;
            assert!(leaves(0) && leaves(1), "at {at}: {newest:#?}");
            assert!(other.world.get("later").unwrap() == data(9_000, 5), "at {at}");
        }
        if over {
            break;
        }
    }
    assert!(acted > 5, "{acted} of {at}");
}

#[test]
fn a_reader_that_completes_a_change_rolls_nothing_back() {
    // One node has the next map.
    whenever(&changed(|at| at != 3), |map, open| {
        Membership::newest(map, false, open, &settings()).map(drop)
    });
}

#[test]
fn a_change_of_the_map_rolls_nothing_back() {
    whenever(&with_object(), |map, open| {
        let pool = Pool::open(map, open)?;
        pool.members()
            .set_state(&["n05".to_owned()], NodeState::Leaving, false, &settings())
            .map(drop)
    });
}

#[test]
fn a_repair_that_settles_the_map_rolls_nothing_back() {
    whenever(&changed(|_| false), |map, open| {
        let (pool, index) = (Pool::open(map, open)?, Index::in_memory()?);
        index.refresh(&pool, b"", &Silent)?;
        recover(&pool, &index, (3_000, false), &settings()).map(drop)
    });
}

#[test]
fn a_scrub_that_gives_nodes_the_map_rolls_nothing_back() {
    // One node missed the change.
    whenever(&changed(|at| at == 6), |map, open| {
        let (pool, index) = (Pool::open(map, open)?, Index::in_memory()?);
        index.refresh(&pool, b"", &Silent)?;
        let req = ScrubRequest { now_ms: 3_000, ..ScrubRequest::default() };
        scrub(&pool, &index, &req).map(drop)
    });
}
