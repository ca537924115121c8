//! Failures while a volume is written.

use std::sync::Arc;

use std::io::ErrorKind;

use kiln_pool::{Index, Pool};
use kiln_store::{Backend, MemoryBackend, Operation};
use kiln_stripe::{Result, Silent};
use kiln_testkit::{Fault, FaultAction};
use kiln_volume::{Op, OpenRequest, Rim, Volume, VolumeError};

use crate::common::*;

fn begun(code: &str, nodes: usize) -> (Cluster, Arc<Rim>, Volume) {
    let cluster = Cluster::new(code, nodes);
    let rim = cluster.rim(&[], 1);
    Volume::create(&rim, "v", &small(1 << 20)).unwrap();
    let volume = open(&rim);
    (cluster, rim, volume)
}

/// Writes so many times so many random blocks, in steps of some blocks; `then` follows each.
fn written(
    volume: &Volume,
    (seed, steps, blocks, stride, of): (u64, u64, usize, u64, u64),
    mut then: impl FnMut(u64),
) -> Model {
    let (mut model, mut random) = (Model(vec![0; 1 << 20]), Random(seed));
    for step in 0..steps {
        let bytes = random.bytes(blocks * BLOCK);
        let op = Op::Write { offset: (step * stride % of) * BLOCK as u64, bytes: &bytes };
        volume.write(&[op]).unwrap();
        model.apply(&[op]);
        then(step);
    }
    model
}

/// Writes, loses something half way, goes on, and finds all after a crash.
fn writes_go_on(lose: impl Fn(&mut Cluster)) {
    let (mut cluster, _, volume) = begun("rs:4+2", 9);
    let model = written(&volume, (5, 40, 3, 5, 200), |step| {
        if step == 20 {
            lose(&mut cluster);
        }
    });
    drop(volume);
    cluster.crash(3);
    model.check(&open(&cluster.rim(&[], 2)), "after the crash");
}

/// A node with a copy of the log, and its names there.
fn with_log(cluster: &Cluster) -> (&str, Vec<String>) {
    let each = cluster.memory.iter().map(|(node, disk)| {
        let names = Backend::list(disk).unwrap();
        (&node[..], names.into_iter().filter(|name| name.ends_with(".log")).collect::<Vec<_>>())
    });
    each.into_iter().find(|(_, logs)| !logs.is_empty()).unwrap()
}

/// Writes that went to the wrong place: one copy has the batches of another volume, or its own ones
/// elsewhere. A check names that copy, and what was acknowledged is read.
#[test]
fn a_copy_of_a_log_with_bytes_of_another_place_is_named_and_not_read() {
    let (mut cluster, rim, volume) = begun("rs:4+2", 9);
    let ours = with_log(&cluster).1[0][..32].to_owned();
    Volume::create(&rim, "w", &small(1 << 20)).unwrap();
    let other = Volume::open(&rim, "w", &OpenRequest::of("other")).unwrap();
    let (mut model, mut random) = (Model(vec![0; 1 << 20]), Random(6));
    for step in 0..6u64 {
        let (bytes, theirs) = (random.bytes(BLOCK), random.bytes(BLOCK));
        let op = Op::Write { offset: step % 3 * BLOCK as u64, bytes: &bytes };
        volume.write(&[op]).unwrap();
        model.apply(&[op]);
        other.write(&[Op::Write { offset: 0, bytes: &theirs }]).unwrap();
    }
    drop((volume, other));
    cluster.crash(3);
    let log = |disk: &MemoryBackend, is_ours: bool| {
        let names = Backend::list(disk).unwrap().into_iter();
        names.filter(|name| name.contains(".log")).find(|name| name.starts_with(&ours) == is_ours)
    };
    let theirs = cluster.memory.values().find_map(|disk| disk.bytes(&log(disk, false)?)).unwrap();
    let (page, mut tried) = (BLOCK, 0);
    for (node, disk) in &cluster.memory {
        let Some(name) = log(disk, true) else { continue };
        let right = disk.bytes(&name).unwrap();
        let mut wrong = [theirs.clone(), right.clone(), right.clone(), right];
        wrong[1][..12 * page].rotate_left(2 * page);
        wrong[1][..2 * page].fill(0);
        wrong[2].copy_within(..2 * page, 2 * page);
        wrong[3][2 * page..4 * page].copy_from_slice(&theirs[2 * page..4 * page]);
        for (at, wrong) in wrong.into_iter().enumerate() {
            let copy = cluster.copy(1);
            copy.memory[node].put(&name, wrong);
            let rim = copy.rim(&[], 2);
            let check = Volume::check_log(&rim, "v").unwrap().unwrap();
            let named: Vec<&String> = check.faults.iter().map(|(node, _)| node).collect();
            assert_eq!((named, check.lost), (vec![node], None), "{at}");
            model.check(&open(&rim), &format!("{at} on {node}"));
            tried += 1;
        }
    }
    assert_eq!(tried, 12);
}

#[test]
fn a_log_node_that_fails_is_replaced_and_nothing_acknowledged_is_lost() {
    writes_go_on(|cluster| {
        let node = with_log(cluster).0;
        cluster.kill(node);
    });
}

#[test]
fn a_disk_that_is_wiped_under_its_log_deposes_nobody() {
    writes_go_on(|cluster| {
        let (node, logs) = with_log(cluster);
        for name in logs {
            Backend::remove(&cluster.memory[node], &name).unwrap();
        }
    });
}

#[test]
fn one_writer_at_a_time_and_a_deposed_one_writes_nothing() {
    let (cluster, rim, first) = begun("rs:4+2", 9);
    let write =
        |volume: &Volume, byte: u8| volume.write(&[Op::Write { offset: 0, bytes: &[byte; BLOCK] }]);
    write(&first, 1).unwrap();
    let error = Volume::open(&rim, "v", &OpenRequest::of("second")).unwrap_err();
    assert!(matches!(&error, VolumeError::InUse { writer, .. } if writer == "test"), "{error}");
    write(&first, 2).unwrap();
    let take = OpenRequest { take_over: true, ..OpenRequest::of("second") };
    let second = Volume::open(&cluster.rim(&[], 7), "v", &take).unwrap();
    let mut bytes = vec![0; BLOCK];
    second.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [2; BLOCK]);
    for _ in 0..2 {
        assert!(matches!(write(&first, 3), Err(VolumeError::Deposed { .. })));
        // Nor does it serve what it knew.
        let read = first.read(0, &mut bytes);
        assert!(matches!(read, Err(VolumeError::Deposed { .. })), "{read:?}");
        assert!(matches!(first.extents(0, 4096, 1), Err(VolumeError::Deposed { .. })));
    }
    assert!(matches!(first.close(), Err(VolumeError::Deposed { .. })));
    write(&second, 4).unwrap();
    second.close().unwrap();
    let third = open(&rim);
    third.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [4; BLOCK]);
}

#[test]
fn what_cannot_be_is_said() {
    let (_, rim, volume) = begun("rs:2+1", 5);
    let error = Volume::create(&rim, "v", &small(1 << 20)).unwrap_err();
    assert!(matches!(error, VolumeError::Exists { .. }), "{error}");
    for (size, name) in [(5, "w"), (1 << 20, "a/b"), (1 << 20, ""), (0, "w")] {
        let error = Volume::create(&rim, name, &small(size)).unwrap_err();
        assert!(matches!(error, VolumeError::Usage { .. }), "{error}");
    }
    let error = Volume::open(&rim, "w", &OpenRequest::of("test")).unwrap_err();
    assert!(matches!(error, VolumeError::NoVolume { .. }), "{error}");
    for (offset, len) in [(1 << 20, 1), ((1 << 20) - 4096, 4097), (u64::MAX, 2)] {
        let error = volume.read(offset, &mut vec![0; len]).unwrap_err();
        assert!(matches!(error, VolumeError::Usage { .. }), "{error}");
    }
    volume.close().unwrap();
    let error = volume.write(&[Op::Zero { offset: 0, len: 4096 }]).unwrap_err();
    assert!(error.to_string().contains("closed"), "{error}");
}

/// After a kill, in a pool without room for one byte, a volume opens to read: what was acknowledged
/// is all there. Such a reader writes nothing, and serves nothing more once there is a writer.
#[test]
fn a_volume_in_a_full_pool_opens_to_read() {
    let (mut cluster, rim, volume) = begun("rs:3+2", 7);
    let model = written(&volume, (9, 30, 2, 7, 200), |_| ());
    drop((volume, rim));
    cluster.crash(3);
    cluster.disks.values().for_each(|disk| disk.limit_space(0));
    let rim = cluster.rim(&[], 2);
    // To write, too: until there is room clients hear that there is none.
    let writer = open(&rim);
    model.check(&writer, "a writer in a full pool");
    for op in [Op::Write { offset: 0, bytes: &[1; BLOCK] }, Op::Zero { offset: 0, len: 1 << 20 }] {
        let error = writer.write(&[op]).unwrap_err();
        assert!(error.is_full(), "{error}");
    }
    assert!(writer.keep_snapshot("s").unwrap_err().is_full());
    assert!(writer.close().unwrap_err().is_full());
    drop(writer);
    let request = OpenRequest { read_only: true, ..OpenRequest::of("reader") };
    let reader = Volume::open(&rim, "v", &request).unwrap();
    model.check(&reader, "in a full pool");
    let op = Op::Zero { offset: 0, len: BLOCK as u64 };
    assert!(matches!(reader.write(&[op]), Err(VolumeError::ReadOnly { .. })));
    cluster.disks.values().for_each(|disk| disk.heal());
    let before = cluster.memory.values().map(|disk| disk.list().unwrap()).collect::<Vec<_>>();
    assert!(!reader.attend().unwrap());
    while reader.seal().unwrap() != kiln_volume::Worked::Nothing {}
    assert_eq!(reader.keep().unwrap(), kiln_volume::Worked::Nothing);
    model.check(&reader, "with room again");
    let after = cluster.memory.values().map(|disk| disk.list().unwrap()).collect::<Vec<_>>();
    assert_eq!(before, after);
    let writer = open(&cluster.rim(&[], 5));
    model.check(&writer, "its next writer");
    assert!(matches!(reader.attend(), Err(VolumeError::Deposed { .. })));
    assert!(matches!(reader.read(0, &mut [0; 4096]), Err(VolumeError::Deposed { .. })));
    reader.close().unwrap();
    writer.close().unwrap();
}

/// In a full pool clients free what a volume holds after a kill: with room for a map and for a log
/// of the little that is left it is written to as before, and its segments go.
#[test]
fn what_is_freed_in_a_full_pool_makes_room() {
    let (mut cluster, rim, volume) = begun("rs:3+2", 7);
    let mut model = written(&volume, (11, 90, 4, 7, 250), |step| {
        while step < 80 && volume.seal().unwrap() != kiln_volume::Worked::Nothing {}
    });
    let segments = |rim: &Rim| objects(&rim.pool(), ".volumes/data/").unwrap().len();
    let before = segments(&rim);
    drop((volume, rim));
    cluster.crash(3);
    cluster.disks.values().for_each(|disk| disk.limit_space(0));
    let rim = cluster.rim(&[], 2);
    let writer = open(&rim);
    let all = Op::Zero { offset: 0, len: 1 << 20 };
    assert!(writer.write(&[all]).unwrap_err().is_full());
    // A kill now leaves each block with its old bytes or zeros.
    let copy = cluster.copy(7);
    let (other, mut bytes) = (open(&copy.rim(&[], 8)), vec![1; 1 << 20]);
    other.read(0, &mut bytes).unwrap();
    let mut blocks = bytes.chunks(BLOCK).zip(model.0.chunks(BLOCK));
    assert!(blocks.all(|(now, before)| now == before || now.iter().all(|byte| *byte == 0)));
    cluster.disks.values().for_each(|disk| disk.limit_space(32 << 10));
    writer.write(&[all]).unwrap();
    model.apply(&[all]);
    let op = Op::Write { offset: 5 * BLOCK as u64, bytes: &[7; BLOCK] };
    writer.write(&[op]).unwrap();
    model.apply(&[op]);
    model.check(&writer, "with room again");
    drop(writer);
    cluster.crash(9);
    let rim = cluster.rim(&[], 5);
    let writer = open(&rim);
    model.check(&writer, "its next writer");
    writer.close().unwrap();
    assert!(segments(&rim) < before.min(4), "{before}");
}

/// Names of objects in a pool.
fn objects(pool: &Pool, prefix: &str) -> Result<Vec<String>> {
    let (index, mut names) = (Index::in_memory()?, Vec::new());
    index.refresh(pool, b"", &Silent)?;
    index.each(prefix, None, |listed| {
        names.push(listed.name);
        Ok(true)
    })?;
    Ok(names)
}

/// A removal that is cut off at any of its operations is ended by the next one, and leaves nothing;
/// meanwhile there is no volume to be used by mistake.
#[test]
fn a_removal_that_was_cut_off_is_ended_by_the_next() {
    let (mut cluster, _, volume) = begun("rs:3+2", 7);
    let mut random = Random(4);
    for step in 0..60u64 {
        let bytes = random.bytes(4 * BLOCK);
        volume
            .write(&[Op::Write { offset: (step % 60) * 4 * BLOCK as u64, bytes: &bytes }])
            .unwrap();
        volume.seal().unwrap();
    }
    drop(volume);
    cluster.crash(3);
    let (mut begun, mut whole) = (0, 0);
    for after in [0, 1, 2, 4, 7, 11, 16, 22] {
        let copy = cluster.copy(after);
        let rim = copy.rim(&[], 2);
        let list = |prefix: &str| objects(&rim.pool(), prefix);
        assert!(list(".volumes/").unwrap().len() > 5);
        for disk in copy.disks.values() {
            let fault = Fault::new(FaultAction::Fail(ErrorKind::Other)).on(Operation::Rename);
            disk.inject(fault.after(after).always());
        }
        let removed = Volume::remove(&rim, "v", &list, "test");
        copy.disks.values().for_each(|disk| disk.heal());
        let rim = copy.rim(&[], 3);
        let list = |prefix: &str| objects(&rim.pool(), prefix);
        if removed.is_err() {
            match Volume::open(&rim, "v", &OpenRequest::of("test")) {
                Err(VolumeError::Removing { .. }) => begun += 1,
                opened => whole += u32::from(opened.is_ok_and(|volume| volume.close().is_ok())),
            }
            Volume::remove(&rim, "v", &list, "test").unwrap();
        }
        // A new index may list what was removed half way, and again: it is only a hint.
        let left = list(".volumes/").unwrap().into_iter();
        let left: Vec<String> = left.filter(|name| rim.pool().manifest(name).is_ok()).collect();
        assert_eq!(left, [""; 0], "after {after}");
        for disk in copy.memory.values() {
            let logs = disk.list().unwrap().into_iter().filter(|name| name.contains(".log"));
            assert_eq!(logs.collect::<Vec<_>>(), [""; 0], "after {after}");
        }
    }
    assert!(begun > 0 && whole > 0, "{begun} begun, {whole} whole");
}
