//! Volumes in pools with a key: who can write to nodes, and has no key, makes no batch of a log.

use std::sync::atomic::{AtomicU8, Ordering};
use std::{collections::BTreeMap, sync::Arc};

use kiln_pool::{Index, Membership, NodeConfig, Pool, PoolConfig, PoolKeys};
use kiln_store::{Backend, checksum, write_whole};
use kiln_stripe::{PoolError, Result, Settings, Silent};
use kiln_testkit::FaultyBackend;
use kiln_volume::{Op, OpenRequest, Rim, Volume, VolumeError};

use crate::common::*;

const SIZE: u64 = 512 << 10;

type Disks = BTreeMap<String, FaultyBackend>;

fn keys(secrets: &[u8]) -> PoolKeys {
    let text: String = secrets.iter().map(|byte| PoolKeys::text_of(&[*byte; 32])).collect();
    PoolKeys::parse(&text).unwrap()
}

/// A volume with one acknowledged write that only its log has; its writer is dead.
fn written(keys: PoolKeys) -> (Cluster, Model) {
    let cluster = Cluster::sealed("rs:3+2", 7, keys);
    let rim = cluster.rim(&[], 1);
    Volume::create(&rim, "v", &small(SIZE)).unwrap();
    let (volume, mut model) = (open(&rim), Model(vec![0; SIZE as usize]));
    let bytes = Random(3).bytes(2 * BLOCK);
    let ops = [Op::Write { offset: 5 * BLOCK as u64, bytes: &bytes }];
    volume.write(&ops).unwrap();
    model.apply(&ops);
    // What disks have now is what a power cut leaves; the writer knows nothing of the copy.
    (cluster.copy(9), model)
}

/// Copies of the log: nodes and files.
fn logs(cluster: &Cluster) -> Vec<(String, String)> {
    let names = cluster.memory.iter().map(|(id, disk)| (id, disk.list().unwrap()));
    names
        .flat_map(|(id, names)| names.into_iter().map(|name| (id.clone(), name)))
        .filter(|(_, name)| name.ends_with(".log"))
        .collect()
}

/// Changes a byte of the first block of data of the first batch, and makes its checksums right.
fn forge(cluster: &Cluster, node: &str, file: &str) {
    let disk = &cluster.memory[node];
    let log = disk.open(file).unwrap();
    let mut bytes = vec![0; log.len() as usize];
    log.read_at(0, &mut bytes).unwrap();
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (sums, data) = (64 + number(40) * 24, 64 + number(40) * 24 + number(44) * 4);
    bytes[data + 100] ^= 0x55;
    let sum = checksum(&bytes[data..data + BLOCK]);
    bytes[sums..sums + 4].copy_from_slice(&sum.to_le_bytes());
    let head = [&bytes[..52], &bytes[64..data]].concat();
    bytes[52..56].copy_from_slice(&checksum(&head).to_le_bytes());
    write_whole(disk, file, &bytes).unwrap();
}

#[test]
fn a_forged_batch_counts_only_where_nothing_is_sealed() {
    for (keys, believed) in [(keys(&[1]), false), (PoolKeys::default(), true)] {
        let (cluster, model) = written(keys);
        let logs = logs(&cluster);
        assert_eq!(logs.len(), 3);
        for (node, file) in &logs[..2] {
            forge(&cluster, node, file);
        }
        let volume = open(&cluster.rim(&[], 2));
        let mut found = vec![0; SIZE as usize];
        volume.read(0, &mut found).unwrap();
        assert_eq!(found != model.0, believed);
    }
}

#[test]
fn volumes_of_sealed_pools_are_as_others_are() {
    let cluster = Cluster::sealed("clay:3+2", 7, keys(&[1]));
    let rim = cluster.rim(&[], 1);
    Volume::create(&rim, "v", &small(SIZE)).unwrap();
    let (mut model, mut random) = (Model(vec![0; SIZE as usize]), Random(8));
    let volume = open(&rim);
    for _ in 0..90 {
        let blocks = 1 + random.below(9);
        let offset = random.below(SIZE / BLOCK as u64 - blocks) * BLOCK as u64;
        let bytes = random.bytes(blocks as usize * BLOCK);
        let ops = [Op::Write { offset, bytes: &bytes }, Op::Zero { offset: 0, len: 4096 }];
        volume.write(&ops).unwrap();
        model.apply(&ops);
        volume.seal().unwrap();
        volume.keep().unwrap();
    }
    model.check(&volume, "in memory");
    // After a power cut, and with m nodes gone: from segments and from the log.
    let after = cluster.copy(4);
    model.check(&open(&after.rim(&["n01", "n04"], 2)), "after");
    let rim = after.rim(&[], 3);
    model.check(&open(&rim), "with all");
    assert!(Volume::check_log(&rim, "v").unwrap().is_some_and(|log| log.is_good()));
}

/// The key that the volume's log is sealed by.
fn key(rim: &Rim) -> String {
    Volume::log_report(rim, "v").unwrap().unwrap().key
}

/// Opens a pool by the newest map that its nodes have.
fn newest(config: &PoolConfig, disks: &Disks) -> Result<Pool> {
    let open = |node: &NodeConfig| Ok(Arc::new(disks[&node.id].clone()) as Arc<dyn Backend>);
    let pool = Pool::open(config.clone(), &open)?;
    let Err(PoolError::MapChanged { .. }) = pool.check_map() else { return Ok(pool) };
    let known = pool.config().clone();
    Pool::open(Membership::newest(known, false, &open, &Settings::new(&Silent))?, &open)
}

/// The pool as a server has it, which follows its map.
fn following(cluster: &Cluster) -> Arc<Rim> {
    let (config, disks) = (cluster.config.clone(), cluster.disks.clone());
    let ids = AtomicU8::new(0xa0);
    let id = move || [ids.fetch_add(1, Ordering::Relaxed); 16];
    let rim = Rim::new(newest(&config, &disks).unwrap(), id, || 1_700_000_000_000);
    Arc::new(rim.in_sequence().reopening(Box::new(move || newest(&config, &disks))))
}

/// Has the pool seal by the first of these keys, and believe what it did before.
fn exchange(cluster: &mut Cluster, keys: PoolKeys) {
    cluster.config.keys = keys;
    let pool = newest(&cluster.config, &cluster.disks).unwrap();
    cluster.config = pool.members().begin_sealing(&Settings::new(&Silent)).unwrap().unwrap();
}

/// Has it believe nothing else.
fn seal_all(cluster: &mut Cluster) {
    let (pool, index) = (newest(&cluster.config, &cluster.disks).unwrap(), Index::in_memory());
    let index = index.unwrap();
    index.refresh(&pool, b"", &Silent).unwrap();
    let now_ms = 1_700_000_000_000;
    cluster.config = pool.members().seal_all(&index, now_ms, &Settings::new(&Silent)).unwrap().0;
}

#[test]
fn the_key_of_a_log_is_needed_until_another_one_is_begun() {
    let (mut cluster, model) = written(keys(&[1]));
    let first = cluster.config.sealed[0].clone();
    assert_eq!(key(&cluster.rim(&[], 2)), first);
    // Everything else is sealed by another key by now, and no writer looked after the log.
    exchange(&mut cluster, keys(&[2, 1]));
    let mut without = cluster.copy(5);
    seal_all(&mut without);
    without.config.keys = keys(&[2]);
    // With both keys at hand the log is read, and the next one sealed by the new key.
    let rim = cluster.rim(&[], 3);
    let volume = open(&rim);
    model.check(&volume, "with both keys");
    assert_eq!(key(&rim), cluster.config.sealed[0]);
    assert!(!volume.attend().unwrap());
    // With the new one alone nothing is taken from anybody, and it is said which key is lacking.
    let before = logs(&without);
    let end = Volume::open(&without.rim(&[], 4), "v", &OpenRequest::of("test"));
    let error = end.err().unwrap();
    let lacks = matches!(&error, VolumeError::Pool(PoolError::NoKey { id, .. }) if *id == first);
    assert!(lacks, "{error}");
    assert_eq!(logs(&without), before);
    // Where the pool believes what has no seal, as after its key was lost, it is read all the same.
    without.config.sealed.push("none".into());
    model.check(&open(&without.rim(&[], 5)), "with a lost key");
}

#[test]
fn a_writer_goes_on_with_a_log_sealed_by_the_new_key() {
    for before in [keys(&[1, 2]), PoolKeys::default()] {
        let (mut cluster, mut model) = written(before.clone());
        // It has both, and the pool seals by the first, or none at all.
        cluster.config.keys = keys(&[1, 2]);
        let rim = following(&cluster);
        let volume = open(&rim);
        assert_eq!((key(&rim), volume.attend().unwrap()), (cluster.config.sealed.concat(), false));
        exchange(&mut cluster, keys(&[2, 1]));
        assert!(volume.attend().unwrap());
        assert_eq!(key(&rim), cluster.config.sealed[0]);
        let bytes = Random(5).bytes(BLOCK);
        let ops = [Op::Write { offset: 0, bytes: &bytes }];
        volume.write(&ops).unwrap();
        model.apply(&ops);
        // It dies, and the old key is gone.
        let mut after = cluster.copy(6);
        seal_all(&mut after);
        after.config.keys = keys(&[2]);
        model.check(&open(&after.rim(&[], 3)), "by the new key alone");
    }
}
