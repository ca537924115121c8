//! The index follows changes, notices when it cannot, and never needs to be trusted.

use std::sync::Arc;

use kiln_store::{Backend, MemoryBackend};
use kiln_stripe::{Settings, Silent, StreamSource};

use super::*;
use crate::repair::queue::{RepairQueue, Rules};
use crate::{Membership, NodeConfig, Policy, Pool, PoolConfig, PutRequest};

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

    /// The log of changes of each disk.
    fn logs(&self) -> Vec<Option<Vec<u8>>> {
        self.disks.iter().map(|disk| disk.bytes(".kiln-changes")).collect()
    }

    /// Logs as they were before: a client that changed something since died before it was noted.
    fn put_logs(&self, before: Vec<Option<Vec<u8>>>) {
        for (disk, log) in self.disks.iter().zip(before) {
            match log {
                Some(log) => disk.put(".kiln-changes", log),
                None => disk.remove(".kiln-changes").unwrap(),
            }
        }
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

/// Its remover died between that and the note; the next one who asks notes it.
#[test]
fn a_removal_that_was_not_noted_is_noted_by_the_next() {
    let world = World::new(5);
    let index = Index::in_memory().unwrap();
    world.put("a", 1, b"some");
    world.put("b", 2, b"more");
    index.refresh(&world.pool(), b"boot", &Silent).unwrap();
    let before = world.logs();
    world.remove("a");
    world.put_logs(before);
    index.refresh(&world.pool(), b"boot", &Silent).unwrap();
    assert_eq!(names(&index, ""), ["a", "b"]);
    let again = world.pool().remove("a", [98; 16], 7, &Settings::new(&Silent));
    assert!(matches!(again, Err(PoolError::NoObject { .. })));
    index.refresh(&world.pool(), b"boot", &Silent).unwrap();
    assert_eq!(names(&index, ""), ["b"]);
    let never = world.pool().remove("c", [97; 16], 8, &Settings::new(&Silent));
    assert!(matches!(never, Err(PoolError::NoObject { .. })));
}

/// The client that emptied a node died between that and the note; the next repair, or the next
/// question what the object lacks, notes it.
#[test]
fn a_repair_that_was_not_noted_is_noted_by_the_next() {
    let settings = Settings { threads: 1, memory: 1 << 20, ..Settings::new(&Silent) };
    for by_heal in [true, false] {
        let mut world = World::new(5);
        let (index, elsewhere) = (Index::in_memory().unwrap(), Index::in_memory().unwrap());
        world.put("a", 1, &[7; 50_000]);
        let mine = |index: &Index| index.by_key(&Key::of("a").unwrap()).unwrap().unwrap();
        index.refresh(&world.pool(), b"boot", &Silent).unwrap();
        let leaves = mine(&index).nodes[0].clone();
        let pool = world.pool();
        world.config = pool
            .members()
            .set_state(std::slice::from_ref(&leaves), crate::NodeState::Leaving, false, &settings)
            .unwrap();
        index.refresh(&world.pool(), b"boot", &Silent).unwrap();
        elsewhere.refresh(&world.pool(), b"boot", &Silent).unwrap();
        let before = world.logs();
        let healed = world
            .pool()
            .repairer()
            .repair("a", &crate::RepairRequest::default(), &settings)
            .unwrap();
        assert_eq!(healed.rebuilt.len(), 1);
        world.put_logs(before);
        index.refresh(&world.pool(), b"boot", &Silent).unwrap();
        assert!(mine(&index).nodes.contains(&leaves), "it was not noted");
        if by_heal {
            let (pool, heal) = (world.pool(), crate::RepairRequest::default());
            let survey =
                || pool.repairer().survey(&index, &mut RepairQueue::new(Rules::default()), 0);
            assert!(survey().unwrap().under_replicated > 0, "the map is not settled");
            pool.repairer().repair("a", &heal, &settings).unwrap();
            pool.repairer().settle(&survey().unwrap(), &index, &settings).unwrap().unwrap();
            assert!(!mine(&index).nodes.contains(&leaves));
            // That all is in place made a new map.
            let open = |node: &NodeConfig| Ok(world.disk(node));
            world.config =
                Membership::newest(world.config.clone(), false, &open, &settings).unwrap();
        } else {
            world
                .pool()
                .repairer()
                .needs("a", &crate::RepairRequest::default(), &settings)
                .unwrap();
        }
        for index in [&index, &elsewhere] {
            index.refresh(&world.pool(), b"boot", &Silent).unwrap();
            assert!(!mine(index).nodes.contains(&leaves), "{by_heal}");
        }
    }
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
fn too_few_nodes_make_nothing_unknown() {
    let world = World::new(5);
    let index = Index::in_memory().unwrap();
    for at in 0..20u8 {
        world.put(&format!("x{at:02}"), at, b"old");
    }
    index.refresh(&world.pool(), b"", &Silent).unwrap();
    let known = names(&index, "");
    assert_eq!(known.len(), 20);
    world.put("x07", 77, b"newer");
    let without = |away: usize| {
        let open = |node: &NodeConfig| match world.config.position(&node.id).unwrap() < away {
            true => kiln_store::FileBackend::open("/nowhere").map(|b| Arc::new(b) as _),
            false => Ok(world.disk(node)),
        };
        Pool::open(world.config.clone(), &open)
    };
    for away in 0..5 {
        let pool = without(away).unwrap();
        let new = Index::in_memory().unwrap();
        let complete = away < 2;
        assert_eq!(pool.sees_all().unwrap(), complete);
        for index in [&index, &new] {
            let part = matches!(index.refresh(&pool, b"", &Silent).unwrap(), Refreshed::Part(_));
            assert_eq!(part, !complete);
        }
        assert_eq!(names(&index, ""), known);
        let seven = index.by_key(&Key::of("x07").unwrap()).unwrap().unwrap();
        assert_eq!(seven.version, 2);
        assert!(!complete || names(&new, "") == known);
        let mut queue = RepairQueue::new(Rules::default());
        let status = pool.repairer().survey(&new, &mut queue, 0).unwrap();
        assert_eq!(status.incomplete, !complete);
    }
    assert!(matches!(without(5), Err(PoolError::NoNodes { .. })));
    index.refresh(&world.pool(), b"", &Silent).unwrap();
    assert_eq!(names(&index, ""), known);
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

/// A world of objects, one of them removed, and the files of its index.
fn indexed(folder: &Path) -> (World, std::path::PathBuf, Vec<String>) {
    let (world, path) = (World::new(5), folder.join("pool.index.redb"));
    for at in 0..60 {
        world.put(&format!("a/{at:02}"), at, &[at; 10]);
    }
    world.remove("a/31");
    let index = Index::open(&path).unwrap();
    index.refresh(&world.pool(), b"boot", &Silent).unwrap();
    world.put("b", 70, b"by a change, not by the scan");
    assert_eq!(index.refresh(&world.pool(), b"boot", &Silent).unwrap(), Refreshed::Changes(1));
    let right = names(&index, "");
    (world, path, right)
}

/// Numbers from a seed.
fn numbers(state: u64) -> impl FnMut(usize) -> usize {
    let mut random = kiln_testkit::Random(state);
    move |below| random.index(below)
}

/// Damages bytes in one of the ways in which disks do.
fn damaged(mut bytes: Vec<u8>, below: &mut impl FnMut(usize) -> usize) -> Vec<u8> {
    let len = bytes.len();
    // Most of a small database is empty: places near the ends hit more that matters.
    let at = match below(3) {
        0 => below(len),
        1 => below(len.min(65_536)),
        _ => below(len.min(512)),
    };
    let end = (at + 1 + below(16_384)).min(len);
    match below(6) {
        0 => bytes.truncate(at),
        1 => bytes[at] ^= 1 << below(8),
        2 => bytes[at..end].fill(0),
        3 => bytes[at..end].iter_mut().for_each(|byte| *byte = below(256) as u8),
        4 => bytes.extend(std::iter::repeat_n(below(256) as u8, end - at)),
        // A block in another's place.
        _ => {
            let (from, to) = (below(len / 4096) * 4096, below(len / 4096) * 4096);
            bytes.copy_within(from..(from + 4096).min(len), to.min(len.saturating_sub(4096)));
        }
    }
    bytes
}

#[test]
fn whatever_happens_to_its_file_the_list_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let (world, path, right) = indexed(folder.path());
    let sums = folder.path().join("pool.index.redb.sums");
    let good = [std::fs::read(&path).unwrap(), std::fs::read(&sums).unwrap()];
    let (pool, mut remade) = (world.pool(), 0);
    for seed in 0..600 {
        let below = &mut numbers(seed);
        let mut files = good.clone();
        // Mostly the index, sometimes its checksums, sometimes both.
        let (first, second) = (below(4), below(10));
        if first > 0 {
            files[0] = damaged(std::mem::take(&mut files[0]), below);
        }
        if first == 0 || second == 0 {
            files[1] = damaged(std::mem::take(&mut files[1]), below);
        }
        std::fs::write(&path, &files[0]).unwrap();
        std::fs::write(&sums, &files[1]).unwrap();
        let index = Index::open(&path).unwrap();
        let refreshed = index.refresh(&pool, b"boot", &Silent).unwrap();
        assert_eq!(names(&index, ""), right, "seed {seed}");
        assert_eq!(index.len().unwrap(), 61, "seed {seed}");
        let key = Key::of("a/07").unwrap();
        assert_eq!(index.by_key(&key).unwrap().unwrap().name, "a/07", "seed {seed}");
        let mut queue = RepairQueue::new(Rules::default());
        let survey = pool.repairer().survey(&index, &mut queue, 0);
        assert_eq!(survey.unwrap().objects, 60, "seed {seed}");
        match index.remade() {
            None => assert!(files == good || files[0].is_empty(), "seed {seed}"),
            Some(_) => {
                remade += 1;
                assert!(matches!(refreshed, Refreshed::All(_)), "seed {seed}");
            }
        }
    }
    assert!(remade > 500, "only {remade} damages were noticed");
}

#[test]
fn an_index_is_healed_once() {
    let folder = tempfile::tempdir().unwrap();
    let (world, path, right) = indexed(folder.path());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[5000] ^= 4;
    std::fs::write(&path, bytes).unwrap();
    let index = Index::open(&path).unwrap();
    assert!(index.remade().unwrap().contains("block 1"), "{:?}", index.remade());
    index.refresh(&world.pool(), b"boot", &Silent).unwrap();
    drop(index);
    let index = Index::open(&path).unwrap();
    assert_eq!(index.remade(), None);
    assert_eq!(index.refresh(&world.pool(), b"boot", &Silent).unwrap(), Refreshed::Changes(0));
    assert_eq!(names(&index, ""), right);
}

#[test]
fn a_process_that_is_killed_costs_a_scan_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let (world, path, right) = indexed(folder.path());
    let sums = folder.path().join("pool.index.redb.sums");
    // Never closed: the files are as a killed process leaves them, at some moments.
    let index = Index::open(&path).unwrap();
    for at in 0..20u8 {
        world.put("b", 100 + at, &[at; 30]);
        let before = std::fs::read(&sums).unwrap();
        index.refresh(&world.pool(), b"boot", &Silent).unwrap();
        let copy = folder.path().join(format!("copy{at}"));
        std::fs::copy(&path, &copy).unwrap();
        // Between the commit's last write and that of the checksums, or after both.
        let late = at % 2 == 0;
        let known = if late { before } else { std::fs::read(&sums).unwrap() };
        std::fs::write(folder.path().join(format!("copy{at}.sums")), known).unwrap();
        let copy = Index::open(&copy).unwrap();
        assert_eq!(copy.remade().is_some(), late);
        copy.refresh(&world.pool(), b"boot", &Silent).unwrap();
        assert_eq!(names(&copy, ""), right);
    }
}

#[test]
fn damage_while_it_is_open_is_an_error_or_unseen() {
    let folder = tempfile::tempdir().unwrap();
    let (world, path, right) = indexed(folder.path());
    let good = std::fs::read(&path).unwrap();
    for seed in 0..60 {
        std::fs::write(&path, &good).unwrap();
        CheckedFile::remove(&folder.path().join("copy")).unwrap();
        let copy = folder.path().join("copy");
        std::fs::copy(&path, &copy).unwrap();
        std::fs::copy(path.with_extension("redb.sums"), copy.with_extension("sums")).unwrap();
        let index = Index::open(&copy).unwrap();
        std::fs::write(&copy, damaged(good.clone(), &mut numbers(seed))).unwrap();
        let mut seen = Vec::new();
        let see = |listed: Listed| {
            seen.push(listed.name);
            Ok(true)
        };
        match index.refresh(&world.pool(), b"boot", &Silent).and_then(|_| index.each("", None, see))
        {
            Ok(()) => assert_eq!(seen, right, "seed {seed}"),
            Err(error) => assert!(matches!(error, PoolError::Index { .. }), "seed {seed}: {error}"),
        }
    }
}
