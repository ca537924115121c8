//! The format on disk: every byte of it matters, and every damage to it is seen.

mod common;

use common::*;
use kiln_store::{
    Backend, MemoryBackend, ShardReader, ShardState, ShardWriter, StoreError, SumKind, checksum,
    digest_of,
};

/// CRC-32C one bit at a time, reflected polynomial 0x82f63b78 (RFC 3720, B.4).
fn bitwise_crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
    !bytes.iter().fold(!0, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), step))
}

#[test]
fn checksum_is_crc32c_at_every_length_and_alignment() {
    let bytes = chunk(7, 5000);
    for len in (0..1200).chain([4095, 4096, 4097]) {
        for start in [0, 1, 3, 8, 63] {
            let piece = &bytes[start..start + len];
            assert_eq!(checksum(piece), bitwise_crc(piece), "{len} bytes from {start}");
        }
    }
}

#[test]
fn golden_bytes_do_not_change() {
    let bytes = image(&small(Some(SIZE)), SIZE);
    // Header: magic, version 1, kind 1, 4096 bytes.
    assert_eq!(bytes[..16], *b"\x89KILN\r\n\x1a\x01\x00\x01\x00\x00\x10\x00\x00");
    assert_eq!(bytes[48..56], [1, 0, 2, 0, 4, 0, 1, 0]);
    assert_eq!(bytes[80..98], *b"clay:2+2,d=3object");
    assert_eq!(bytes[4092..4096], bitwise_crc(&bytes[..4092]).to_le_bytes());
    // Segment 0: two chunks, then their table, which is bound to run, index and segment.
    assert_eq!(bytes[4096..4192], chunk(0, 96));
    assert_eq!(bytes[4288..4292], bitwise_crc(&bytes[4096..4120]).to_le_bytes());
    let mut bound = bytes[16..32].to_vec();
    bound.extend([1, 0]);
    bound.extend([0; 8]);
    bound.extend(&bytes[4288..4320]);
    assert_eq!(bytes[4320..4324], bitwise_crc(&bound).to_le_bytes());
    assert_eq!(bytes[4324..8192], [0; 8192 - 4324]);
    // The last segment: one short chunk (16-byte sub-chunks), table, trailer, tail.
    assert_eq!(bytes[12288..12352], chunk(4, 64));
    assert_eq!(bytes[12372..12384], *b"\x89KILN\r\n\x1a\x01\x00\x02\x00");
    assert_eq!(bytes.len(), 12372 + RECORD + 24);
    assert_eq!(bytes[bytes.len() - 8..], *b"\x89TAIL\r\n\x1a");
    // Not a CRC: that of a block which ends in its own CRC is the same for all blocks.
    assert_eq!(xxhash_rust::xxh3::xxh3_64(&bytes), GOLDEN, "a changed format needs a new version");
}

/// XXH3-64 of the whole golden file.
const GOLDEN: u64 = 10_395_428_725_981_036_393;

#[test]
fn every_flipped_bit_is_found() {
    for info in [Some(SIZE), None].into_iter().flat_map(|size| [small(size), hashed(size)]) {
        flips_are_found(&image(&info, SIZE));
    }
}

#[test]
fn every_truncation_is_found_and_never_gives_wrong_bytes() {
    for info in [small(Some(SIZE)), hashed(Some(SIZE))] {
        let clean = image(&info, SIZE);
        for len in 0..clean.len() {
            let disk = disk_with(clean[..len].to_vec());
            let Ok(reader) = ShardReader::open(&disk, NAME) else {
                assert!(len < 4096, "{len}");
                continue;
            };
            assert_eq!(reader.state(), ShardState::NoTrailer, "{len}");
            let mut good = 0;
            for stripe in 0..reader.layout().stripes() {
                match read_chunk(&reader, stripe) {
                    Ok(bytes) => {
                        assert_eq!(bytes, chunk(stripe, bytes.len()));
                        good += 1;
                    }
                    Err(error) => assert!(error.is_damage(), "{len}: {error}"),
                }
            }
            // Whole segments stay readable without the rest of the file.
            let whole = (len.saturating_sub(4096) / 4096 * 2).min(4);
            assert!(info.sums == SumKind::Blake3 || good >= whole, "{len}: {good}");
        }
    }
}

#[test]
fn bytes_after_the_tail_are_found() {
    let mut bytes = image(&small(Some(SIZE)), SIZE);
    bytes.push(0);
    let reader = ShardReader::open(&disk_with(bytes), NAME).unwrap();
    assert_eq!(reader.state(), ShardState::NoTrailer);
    for stripe in 0..5 {
        read_chunk(&reader, stripe).unwrap();
    }
}

#[test]
fn a_shard_without_header_reads_by_its_trailer() {
    let mut bytes = image(&small(None), SIZE);
    bytes[..4096].fill(0xee);
    let reader = ShardReader::open(&disk_with(bytes), NAME).unwrap();
    assert_eq!(reader.state(), ShardState::NoHeader);
    assert_eq!(reader.info(), &small(Some(SIZE)));
    assert!(reader.damage().unwrap().contains("header"));
    for stripe in 0..5 {
        read_chunk(&reader, stripe).unwrap();
    }
}

#[test]
fn a_streamed_shard_without_trailer_needs_its_siblings_word() {
    let mut bytes = image(&small(None), SIZE);
    bytes.truncate(bytes.len() - 1);
    let mut reader = ShardReader::open(&disk_with(bytes), NAME).unwrap();
    assert_eq!((reader.state(), reader.size()), (ShardState::NoTrailer, None));
    assert!(matches!(read_chunk(&reader, 0), Err(StoreError::SizeUnknown { .. })));
    assert!(matches!(digest_of(&reader), Err(StoreError::SizeUnknown { .. })));
    reader.with_size(SIZE).unwrap();
    for stripe in 0..5 {
        read_chunk(&reader, stripe).unwrap();
    }
    assert!(matches!(reader.with_size(SIZE + 1), Err(StoreError::Misuse { .. })));
}

#[test]
fn other_files_and_later_versions_are_named_as_such() {
    for bytes in [vec![], chunk(1, 100), chunk(2, 4096), chunk(3, 20_000)] {
        let error = ShardReader::open(&disk_with(bytes), NAME).unwrap_err();
        assert!(matches!(error, StoreError::NotAShard { .. }), "{error}");
    }
    let mut bytes = image(&small(Some(SIZE)), SIZE);
    bytes[8] = 3;
    let sum = checksum(&bytes[..4092]).to_le_bytes();
    bytes[4092..4096].copy_from_slice(&sum);
    let error = ShardReader::open(&disk_with(bytes), NAME).unwrap_err();
    assert!(matches!(error, StoreError::Version { found: 3, supported: 2, .. }), "{error}");
}

#[test]
fn both_ends_bad_is_damage_and_mixed_ends_are_too() {
    let clean = image(&small(Some(SIZE)), SIZE);
    let mut bytes = clean.clone();
    bytes[20] ^= 1;
    let last = bytes.len() - 30;
    bytes[last] ^= 1;
    let error = ShardReader::open(&disk_with(bytes), NAME).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");

    let mut other = small(Some(SIZE));
    other.run[3] ^= 9;
    let mut bytes = image(&other, SIZE);
    bytes[..4096].copy_from_slice(&clean[..4096]);
    let error = ShardReader::open(&disk_with(bytes), NAME).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

#[test]
fn segments_of_another_run_index_or_place_are_refused() {
    let clean = image(&small(Some(SIZE)), SIZE);
    let swapped = [&clean[..4096], &clean[8192..12288], &clean[4096..8192], &clean[12288..]];
    let mut foreign = small(Some(SIZE));
    foreign.index = 2;
    let foreign = image(&foreign, SIZE);
    let mixed = [&clean[..4096], &foreign[4096..8192], &clean[8192..]];
    for bytes in [swapped.concat(), mixed.concat()] {
        let reader = ShardReader::open(&disk_with(bytes), NAME).unwrap();
        let error = read_chunk(&reader, 0).unwrap_err();
        assert!(error.is_damage() && error.to_string().contains("table of segment 0"), "{error}");
        read_chunk(&reader, 4).unwrap();
    }
}

#[test]
fn bad_sub_chunks_are_named_and_the_others_delivered() {
    let mut bytes = image(&small(Some(SIZE)), SIZE);
    bytes[8192 + 24] ^= 0x10;
    bytes[8192 + 95] ^= 0x01;
    let reader = ShardReader::open(&disk_with(bytes.clone()), NAME).unwrap();
    let mut buf = vec![0; 96];
    let error = reader.read_runs(2, std::slice::from_ref(&(0..4)), &mut buf).unwrap_err();
    match error {
        StoreError::BadSubChunks { stripe, subs, .. } => {
            assert_eq!((stripe, subs), (2, vec![1, 3]))
        }
        other => panic!("{other}"),
    }
    assert_eq!(buf, bytes[8192..8192 + 96]);
    let cost = reader.read_runs(2, &[0..1, 2..3], &mut buf[..48]).unwrap();
    assert_eq!((cost.data_bytes, cost.runs, cost.metadata_bytes), (48, 2, 0));
    assert_eq!(buf[24..48], chunk(2, 96)[48..72]);
}

#[test]
fn wrong_arguments_are_refused_not_guessed() {
    let disk = disk_with(image(&small(Some(SIZE)), SIZE));
    let reader = ShardReader::open(&disk, NAME).unwrap();
    let mut buf = [0; 96];
    let full = 0..4;
    let backwards = std::ops::Range { start: 3, end: 2 };
    for (stripe, run, len) in [
        (5, full.clone(), 96),
        (u64::MAX, full.clone(), 96),
        (0, full.clone(), 95),
        (0, 0..5, 96),
        (0, 2..2, 0),
        (0, backwards, 24),
        (4, full, 96),
    ] {
        let result = reader.read_runs(stripe, &[run], &mut buf[..len]);
        assert!(matches!(result, Err(StoreError::Misuse { .. })), "{result:?}");
    }
    assert!(matches!(reader.sums(5), Err(StoreError::Misuse { .. })));
}

#[test]
fn the_writer_refuses_what_no_reader_could_read() {
    let disk = MemoryBackend::new();
    let refused = |result: kiln_store::Result<()>| {
        assert!(matches!(result, Err(StoreError::Misuse { .. })), "{result:?}");
    };
    let bytes = chunk(0, 96);
    let sums = sums_of(SumKind::Crc32c, &bytes, 24);
    // Known size: lengths are exact. Unknown: only a multiple of 16 may end the object.
    let mut writer = ShardWriter::create(&disk, PART, &small(Some(SIZE))).unwrap();
    refused(writer.append_chunk(&bytes[..64], &sums));
    refused(writer.append_chunk(&bytes, &sums[1..]));
    writer.append_chunk(&bytes, &sums).unwrap();
    let own = writer.seal().unwrap();
    assert_eq!(writer.seal().unwrap(), own);
    refused(writer.append_chunk(&bytes, &sums));
    refused(writer.finish(SIZE, &digests(&small(None), own)));

    let mut writer = ShardWriter::create(&disk, PART, &small(None)).unwrap();
    refused(writer.append_chunk(&bytes[..32], &sums));
    refused(writer.append_chunk(&[], &sums));
    writer.append_chunk(&bytes[..64], &sums_of(SumKind::Crc32c, &bytes[..64], 16)).unwrap();
    refused(writer.append_chunk(&bytes, &sums));
    let own = writer.seal().unwrap();
    refused(writer.finish(192, &digests(&small(None), own)));

    let mut bad = small(None);
    bad.index = 4;
    let error = ShardWriter::create(&disk, PART, &bad).unwrap_err();
    assert!(matches!(error, StoreError::BadField { field: "index", .. }), "{error}");
}

#[test]
fn an_empty_object_is_a_header_and_a_trailer() {
    for size in [Some(0), None] {
        let disk = disk_with(image(&small(size), 0));
        verify(&disk, NAME).unwrap();
        let reader = ShardReader::open(&disk, NAME).unwrap();
        assert_eq!((reader.layout().stripes(), reader.size()), (0, Some(0)));
        assert!(read_chunk(&reader, 0).is_err());
    }
}

#[test]
fn threads_share_a_reader_and_read_each_table_once() {
    let mut info = small(None);
    (info.segment_stripes, info.sub_chunk) = (8, 64);
    let size = 512 * 30;
    let disk = MemoryBackend::new();
    write(&disk, &info, size).unwrap();
    let reader = ShardReader::open(&disk, NAME).unwrap();
    let metadata = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (reader, metadata) = (&reader, &metadata);
            scope.spawn(move || {
                for step in 0..120 {
                    let stripe = (step * 7 + thread) % 30;
                    let mut buf = vec![0; 128];
                    let cost = reader.read_runs(stripe, &[1..2, 3..4], &mut buf).unwrap();
                    metadata.fetch_add(cost.metadata_bytes, std::sync::atomic::Ordering::Relaxed);
                    let whole = chunk(stripe, 256);
                    assert_eq!(buf, [&whole[64..128], &whole[192..]].concat());
                }
            });
        }
    });
    // Three tables with their padding, and the last one without.
    let expected = 3 * (4096 - 8 * 256) + (6 * 4 * 4 + 4);
    assert_eq!(metadata.into_inner(), expected);
}

#[test]
fn the_file_backend_writes_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let disk = kiln_store::FileBackend::create(folder.path().join("a/b")).unwrap();
    write(&disk, &small(None), SIZE).unwrap();
    verify(&disk, NAME).unwrap();
    let bytes = std::fs::read(folder.path().join("a/b").join(NAME)).unwrap();
    assert_eq!(bytes, image(&small(None), SIZE));
    assert_eq!(disk.list().unwrap(), [NAME]);
}
