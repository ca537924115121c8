//! Power cuts and failing disks: a shard with its final name is complete, always.

mod common;

use common::*;
use kiln_store::{
    Backend, Digest, MemoryBackend, Operation, Result, ShardReader, ShardState, ShardWriter,
    StoreError, SumKind, valid_segments,
};
use kiln_testkit::{Fault, FaultAction, FaultyBackend};
use std::{io::ErrorKind, sync::Arc};

/// Crash images looked at per interrupted operation.
const SEEDS: u64 = 16;

/// Conditions of every crash image: the final name is absent, or (if it was there before)
/// holds a complete old or new shard; the part can be resumed and then is byte-identical.
fn check_image(image: &MemoryBackend, expected: &[u8], old: Option<&[u8]>) {
    match (image.bytes(NAME), old) {
        (None, None) => {}
        (None, Some(_)) => panic!("the old shard is gone"),
        (Some(bytes), old) => {
            assert!(bytes == expected || Some(&*bytes) == old, "a half-written shard");
            verify(image, NAME).unwrap();
        }
    }
    let info = small(Some(SIZE));
    let writer = ShardWriter::resume(image, PART, &info, u64::MAX).unwrap();
    complete(writer, &info, SIZE).unwrap();
    image.rename(PART, NAME).unwrap();
    assert_eq!(image.bytes(NAME).unwrap(), expected);
    assert_eq!(image.list().unwrap(), [NAME]);
}

/// The disk stops (or tears a write, then stops) at operation `at`; gives the number of all.
fn crash_at(at: u64, torn: Option<usize>, old: Option<&[u8]>, expected: &[u8]) -> u64 {
    let memory = MemoryBackend::new();
    if let Some(old) = old {
        memory.put(NAME, old.to_vec());
    }
    let disk = FaultyBackend::new(Arc::new(memory.clone()));
    let kind = ErrorKind::Other;
    match torn {
        // A torn write is only counted among writes.
        Some(keep) => disk.inject(Fault::new(FaultAction::Torn { keep, kind }).after(at)),
        None => disk.inject(Fault::new(FaultAction::Fail(kind)).after(at).always()),
    }
    let result = write(&disk, &small(Some(SIZE)), SIZE);
    let operations = disk.operations();
    for seed in 0..SEEDS {
        let image = memory.crash((seed * 7919) ^ at);
        if result.is_ok() {
            assert_eq!(image.bytes(NAME).unwrap(), expected, "acknowledged and lost");
        }
        check_image(&image, expected, old);
    }
    operations
}

#[test]
fn a_crash_at_any_operation_leaves_all_or_nothing() {
    let expected = image(&small(Some(SIZE)), SIZE);
    let mut other = small(Some(SIZE));
    other.run = [0x77; 16];
    let replaced = image(&other, SIZE);
    for old in [None, Some(&replaced[..])] {
        let all = crash_at(u64::MAX, None, old, &expected);
        assert!(all > 12, "{all} operations: the test lost its subject");
        for at in 0..all {
            crash_at(at, None, old, &expected);
            for keep in [0, 1, 511, 4095] {
                crash_at(at, Some(keep), old, &expected);
            }
        }
    }
}

/// Rebuilds the shard, going on where its part ends, and gives it its name.
fn rebuild(disk: &dyn Backend, digests: &[Digest]) -> Result<()> {
    let info = small(Some(SIZE));
    let first = valid_segments(disk, PART, &info)? * u64::from(info.segment_stripes);
    let mut shard = ShardWriter::at(disk, PART, &info, first)?;
    let layout = info.layout()?;
    append(&mut shard, info.sums, &layout, layout.stripes())?;
    shard.finish_rebuilt(disk, SIZE, digests)?;
    disk.rename(PART, NAME)
}

/// A shard, its digests, and the same shard with damage, in its place.
fn damaged() -> (Vec<u8>, Vec<Digest>, MemoryBackend) {
    let expected = image(&small(Some(SIZE)), SIZE);
    let reader = ShardReader::open(&disk_with(expected.clone()), NAME).unwrap();
    let mut bytes = expected.clone();
    bytes[4100] ^= 1;
    (expected, reader.digests().unwrap().to_vec(), disk_with(bytes))
}

#[test]
fn a_rebuild_that_is_cut_anywhere_ends_with_the_recorded_shard() {
    let mut at = 0;
    loop {
        let (expected, digests, memory) = damaged();
        let old = memory.bytes(NAME).unwrap();
        let disk = FaultyBackend::new(Arc::new(memory.clone()));
        disk.inject(Fault::new(FaultAction::Fail(ErrorKind::Other)).after(at).always());
        let end = rebuild(&disk, &digests);
        for seed in 0..SEEDS {
            let image = memory.crash((seed * 7919) ^ at);
            let there = image.bytes(NAME).unwrap();
            assert!(there == expected || (end.is_err() && there == old), "cut at {at}");
            rebuild(&image, &digests).unwrap();
            assert_eq!(image.bytes(NAME).unwrap(), expected);
            assert_eq!(image.list().unwrap(), [NAME]);
        }
        if end.is_ok() {
            break;
        }
        at += 1;
    }
    assert!(at > 15, "{at} operations");
}

#[test]
fn a_place_that_returns_something_else_gets_no_rebuilt_shard() {
    let layout = small(Some(SIZE)).layout().unwrap();
    let len = damaged().0.len() as u64;
    // Header, first and last table, trailer; on the way to the disk, and on the way back.
    for offset in [70, layout.table(0).0 + 2, layout.table(2).0 + 2, len - 60] {
        for operation in [Operation::Write, Operation::Read] {
            let (expected, digests, memory) = damaged();
            let disk = FaultyBackend::new(Arc::new(memory.clone()));
            let flip = Fault::new(FaultAction::Flip { offset, mask: 4 }).on(operation);
            disk.inject(flip.named(PART).always());
            let error = rebuild(&disk, &digests).unwrap_err();
            let other = matches!(error, StoreError::Mismatch { written: true, .. });
            assert!(other, "byte {offset}, {operation:?}: {error}");
            assert_eq!(memory.list().unwrap(), [NAME]);
            assert_ne!(memory.bytes(NAME).unwrap(), expected);
            rebuild(&memory, &digests).unwrap();
            assert_eq!(memory.bytes(NAME).unwrap(), expected);
        }
    }
}

#[test]
fn another_digest_than_recorded_leaves_no_part() {
    let (_, mut digests, memory) = damaged();
    let mut wrong = digests[1].as_bytes().to_vec();
    wrong[3] ^= 1;
    digests[1] = Digest::new(SumKind::Crc32c, &wrong).unwrap();
    let old = memory.bytes(NAME);
    let error = rebuild(&memory, &digests).unwrap_err();
    assert!(matches!(error, StoreError::Mismatch { written: false, .. }), "{error}");
    let error = rebuild(&memory, &digests[..1]).unwrap_err();
    assert!(matches!(error, StoreError::Mismatch { written: false, .. }), "{error}");
    assert_eq!((memory.list().unwrap(), memory.bytes(NAME)), (vec![NAME.to_owned()], old));
}

#[test]
fn a_part_that_lost_what_was_to_be_kept_is_not_gone_on_with() {
    let info = small(Some(SIZE));
    let disk = disk_with(image(&info, SIZE));
    disk.rename(NAME, PART).unwrap();
    assert_eq!(valid_segments(&disk, PART, &info).unwrap(), 2);
    ShardWriter::at(&disk, PART, &info, 4).unwrap();
    disk.put(PART, disk.bytes(PART).unwrap()[..5000].to_vec());
    let error = ShardWriter::at(&disk, PART, &info, 4).unwrap_err();
    assert!(matches!(error, StoreError::Misuse { .. }), "{error}");
}

/// The negative control: the model does lose what was not synced.
#[test]
fn without_sync_a_crash_does_leave_half_a_shard() {
    let memory = MemoryBackend::new();
    let expected = image(&small(Some(SIZE)), SIZE);
    let mut file = memory.append(PART, 0).unwrap();
    file.append(&expected).unwrap();
    let vanished = (0..SEEDS).any(|seed| memory.crash(seed).bytes(PART).is_none());
    assert!(vanished, "a name without a synced folder may vanish");
    memory.rename(PART, NAME).unwrap();
    let halves = (0..SEEDS).filter(|&seed| {
        let image = memory.crash(seed);
        let bytes = image.bytes(NAME).expect("rename is durable");
        bytes != expected && verify(&image, NAME).is_err()
    });
    assert!(halves.count() > 0);
}

#[test]
fn a_full_disk_at_any_byte_is_reported_and_harms_nothing() {
    let expected = image(&small(Some(SIZE)), SIZE);
    for room in (0..expected.len() as u64).step_by(61).chain([0, 4096, expected.len() as u64 - 1]) {
        let memory = MemoryBackend::new();
        memory.put("bystander", chunk(3, 100));
        let disk = FaultyBackend::new(Arc::new(memory.clone()));
        disk.limit_space(room);
        let error = write(&disk, &small(Some(SIZE)), SIZE).unwrap_err();
        assert!(error.is_full() && !error.is_retryable(), "{error}");
        assert_eq!(memory.bytes("bystander").unwrap(), chunk(3, 100));
        assert!(memory.bytes(NAME).is_none());
        disk.heal();
        let info = small(Some(SIZE));
        complete(ShardWriter::resume(&disk, PART, &info, u64::MAX).unwrap(), &info, SIZE).unwrap();
        assert_eq!(memory.bytes(PART).unwrap(), expected);
    }
}

#[test]
fn a_writer_that_failed_refuses_to_go_on() {
    let disk = FaultyBackend::new(Arc::new(MemoryBackend::new()));
    let mut writer = ShardWriter::create(&disk, PART, &small(None)).unwrap();
    let bytes = chunk(0, 96);
    let sums = sums_of(SumKind::Crc32c, &bytes, 24);
    let torn = FaultAction::Torn { keep: 10, kind: ErrorKind::TimedOut };
    disk.inject(Fault::new(torn));
    assert!(writer.append_chunk(&bytes, &sums).unwrap_err().is_retryable());
    // Going on would put the next chunk behind ten stray bytes.
    for result in [writer.append_chunk(&bytes, &sums), writer.sync(), writer.seal().map(|_| ())] {
        assert!(matches!(result, Err(StoreError::Misuse { .. })), "{result:?}");
    }
}

#[test]
fn a_failed_sync_is_final() {
    let disk = FaultyBackend::new(Arc::new(MemoryBackend::new()));
    disk.inject(Fault::new(FaultAction::Fail(ErrorKind::TimedOut)).on(Operation::Sync));
    let error = write(&disk, &small(None), SIZE).unwrap_err();
    assert!(!error.is_retryable(), "{error}");
    assert_eq!(disk.list().unwrap(), [PART]);
}

#[test]
fn bits_flipped_on_the_way_are_seen_by_the_reader() {
    let memory = MemoryBackend::new();
    write(&memory, &small(Some(SIZE)), SIZE).unwrap();
    let disk = FaultyBackend::new(Arc::new(memory.clone()));
    let flip = |offset| Fault::new(FaultAction::Flip { offset, mask: 4 }).on(Operation::Read);
    // Once, in the data: the next read is good again.
    disk.inject(flip(4096 + 30).named("object"));
    let reader = ShardReader::open(&disk, NAME).unwrap();
    let error = read_chunk(&reader, 0).unwrap_err();
    assert!(matches!(&error, StoreError::BadSubChunks { subs, .. } if *subs == [1]), "{error}");
    read_chunk(&reader, 0).unwrap();
    // For ever, in the header.
    disk.inject(flip(20).always());
    assert_eq!(ShardReader::open(&disk, NAME).unwrap().state(), ShardState::NoHeader);
    disk.heal();
    assert_eq!(ShardReader::open(&disk, NAME).unwrap().state(), ShardState::Complete);
    // While writing: on disk for good.
    disk.inject(Fault::new(FaultAction::Flip { offset: 4200, mask: 1 }).on(Operation::Write));
    write(&disk, &small(Some(SIZE)), SIZE).unwrap();
    assert!(verify(&memory, NAME).is_err());
}

#[test]
fn an_unreadable_sector_is_an_error_with_place_and_reason() {
    let memory = MemoryBackend::new();
    write(&memory, &small(Some(SIZE)), SIZE).unwrap();
    let disk = FaultyBackend::new(Arc::new(memory));
    let reader = ShardReader::open(&disk, NAME).unwrap();
    disk.inject(Fault::new(FaultAction::Fail(ErrorKind::Other)).on(Operation::Read).after(1));
    let error = read_chunk(&reader, 0).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("read") && text.contains(NAME) && text.contains("memory"), "{text}");
    read_chunk(&reader, 0).unwrap();
}

#[test]
fn damage_in_a_part_ends_what_is_kept() {
    let info = small(Some(SIZE));
    let whole = image(&info, SIZE);
    let disk = MemoryBackend::new();
    let kept = |bytes: Vec<u8>| {
        disk.put(PART, bytes);
        valid_segments(&disk, PART, &info).unwrap()
    };
    assert_eq!(kept(whole[..12288 - 3000].to_vec()), 2);
    // Header, data, table, padding of segment 0; data of segment 1.
    for (at, segments) in [(70, 0), (4100, 0), (4290, 0), (6000, 1), (8200, 1)] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        assert_eq!(kept(bytes), segments, "byte {at}");
    }
    let mut other = info.clone();
    other.source = [0; 16];
    disk.put(PART, whole);
    assert_eq!(valid_segments(&disk, PART, &other).unwrap(), 0);
    assert_eq!(valid_segments(&disk, "absent", &info).unwrap(), 0);
}
