//! The index follows changes, notices when it cannot, and never needs to be believed.

use std::sync::Arc;

use kiln_store::{Backend, MemoryBackend};

use super::*;
use crate::{NodeConfig, Policy, PoolConfig, PutRequest, Settings, Silent, StreamSource};

struct World {
    config: PoolConfig,
    disks: Vec<Arc<MemoryBackend>>,
}

impl World {
    fn new(nodes: usize) -> World {
        let mut config = PoolConfig::new([3; 16], "t", Policy::for_code("rs:2+1").unwrap());
        for at in 0..nodes {
            config.node.push(NodeConfig::new(&format!("n{at}"), &format!("memory://{at}")));
        }
        let disks: Vec<_> = (0..nodes).map(|_| Arc::new(MemoryBackend::new())).collect();
        let world = World { config, disks };
        Pool::create(world.config.clone(), &|node| Ok(world.disk(node))).unwrap();
        world
    }

    fn disk(&self, node: &NodeConfig) -> Arc<dyn Backend> {
        self.disks[self.config.position(&node.id).unwrap()].clone()
    }

    fn pool(&self) -> Pool {
        Pool::open(self.config.clone(), &|node| Ok(self.disk(node))).unwrap()
    }

    fn put(&self, name: &str, run: u8, bytes: &[u8]) {
        let req = PutRequest { name, run: [run; 16], now_ms: 5, replace: true };
        let settings = Settings { threads: 1, memory: 1 << 20, ..Settings::new(&Silent) };
        self.pool().put(&req, &mut StreamSource::new(bytes), &settings).unwrap();
    }

    fn remove(&self, name: &str) {
        self.pool().remove(name, [99; 16], 6, &Settings::new(&Silent)).unwrap();
    }
}

fn names(index: &Index, prefix: &str) -> Vec<String> {
    let mut names = Vec::new();
    let add = |listed: Listed| {
        names.push(listed.name);
        Ok(true)
    };
    index.each(prefix, None, add).unwrap();
    names
}

#[test]
fn it_follows_changes_without_reading_everything() {
    let world = World::new(5);
    let index = Index::in_memory().unwrap();
    for at in 0..40 {
        world.put(&format!("a/{at:02}"), at, &[at; 10]);
    }
    let first = index.refresh(&world.pool(), b"boot", &Silent).unwrap();
    assert!(matches!(first, Refreshed::All(_)), "{first:?}");
    assert_eq!(names(&index, "a/").len(), 40);
    world.put("a/07", 50, b"longer than before");
    world.put("b", 51, &[7; 9000]);
    world.remove("a/03");
    let next = index.refresh(&world.pool(), b"boot", &Silent).unwrap();
    assert_eq!(next, Refreshed::Changes(3));
    assert_eq!(names(&index, "a/").len(), 39);
    assert_eq!(names(&index, ""), [names(&index, "a/"), vec!["b".into()]].concat());
    let mut seen = Vec::new();
    let see = |listed: Listed| {
        seen.push((listed.name, listed.size, listed.version));
        Ok(false)
    };
    index.each("a/", Some("a/07"), see).unwrap();
    assert_eq!(seen, [("a/07".to_string(), 18, 2)]);
    assert_eq!(index.refresh(&world.pool(), b"boot", &Silent).unwrap(), Refreshed::Changes(0));
    let other = index.refresh(&world.pool(), b"another boot", &Silent).unwrap();
    assert!(matches!(other, Refreshed::All(_)), "{other:?}");
    assert_eq!(names(&index, "").len(), 40);
}

#[test]
fn stale_copies_do_not_win() {
    let world = World::new(6);
    let index = Index::in_memory().unwrap();
    for at in 0..20u8 {
        let name = format!("x{at}");
        world.put(&name, at, b"old");
        let holder = world.pool().manifest(&name).unwrap().copies[0].clone();
        // One holder is unavailable while the object changes, and comes back with the old copy.
        let open = |node: &NodeConfig| match node.id == holder {
            true => kiln_store::FileBackend::open("/nowhere").map(|b| Arc::new(b) as _),
            false => Ok(world.disk(node)),
        };
        let pool = Pool::open(world.config.clone(), &open).unwrap();
        let req = PutRequest { name: &name, run: [at + 100; 16], now_ms: 5, replace: true };
        let settings = Settings { threads: 1, memory: 1 << 20, ..Settings::new(&Silent) };
        pool.put(&req, &mut StreamSource::new(&b"newer"[..]), &settings).unwrap();
    }
    index.refresh(&world.pool(), b"", &Silent).unwrap();
    let check = |listed: Listed| {
        assert_eq!((listed.size, listed.version), (5, 2), "{}", listed.name);
        Ok(true)
    };
    index.each("", None, check).unwrap();
    assert_eq!(names(&index, "").len(), 20);
}

#[test]
fn a_file_that_is_no_index_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("index.redb");
    std::fs::write(&path, b"this is no database at all").unwrap();
    let world = World::new(3);
    world.put("a", 1, b"x");
    let index = Index::open(&path).unwrap();
    index.refresh(&world.pool(), b"", &Silent).unwrap();
    drop(index);
    let index = Index::open(&path).unwrap();
    assert_eq!(index.refresh(&world.pool(), b"", &Silent).unwrap(), Refreshed::Changes(0));
    assert_eq!(names(&index, ""), ["a"]);
    let damage = vec![(Key([1; 16]), vec![3u16, 700])];
    index.set_damage(&damage).unwrap();
    assert_eq!(index.damage(10).unwrap(), damage);
    index.set_damage(&[(Key([1; 16]), vec![])]).unwrap();
    assert!(index.damage(10).unwrap().is_empty());
}
