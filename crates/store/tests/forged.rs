//! Files whose checksums are right and whose contents are not: made by another program, by a
//! mistake in ours, or put together from pieces.

mod common;

use common::*;
use kiln_store::{
    MemoryBackend, Operation, Result, ShardInfo, ShardReader, ShardState, ShardWriter, StoreError,
    checksum,
};
use kiln_testkit::{Fault, FaultAction, FaultyBackend};
use std::{io::ErrorKind, sync::Arc};

/// The same edit in header and trailer, with right checksums.
fn forged(edit: impl Fn(&mut [u8])) -> Result<ShardReader> {
    let mut bytes = image(&small(Some(SIZE)), SIZE);
    let trailer = bytes.len() - 24 - RECORD;
    edit(&mut bytes[..4096]);
    edit(&mut bytes[trailer..trailer + RECORD]);
    reseal(&mut bytes, RECORD);
    ShardReader::open(&disk_with(bytes), NAME)
}

#[test]
fn fields_outside_their_limits_are_damage() {
    forged(|_| {}).unwrap();
    // Offset, bytes, what the message must name.
    let cases: [(usize, &[u8], &str); 12] = [
        (10, &[3, 0], "kind"),
        (12, &[0, 0, 1, 0], "kind"),
        (48, &[4, 0], "index"),
        (50, &[0, 0], "k ="),
        (50, &[5, 0], "k ="),
        (52, &[1, 1], "n ="),
        (54, &[3, 0], "flags"),
        (54, &[0, 0], "flags"),
        (56, &[0; 4], "alpha"),
        (60, &[0xff; 4], "sub_chunk"),
        (64, &[0xff; 4], "segment_stripes"),
        (72, &[0xff; 8], "size"),
    ];
    for (at, value, name) in cases {
        let error = forged(|record| record[at..at + value.len()].copy_from_slice(value));
        let error = error.unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{name}: {error}");
        assert!(error.to_string().contains(name), "{name}: {error}");
    }
}

#[test]
fn texts_longer_than_the_record_or_not_utf8_are_damage() {
    for (at, value) in [(68, [0xff, 0x03]), (70, [0xff, 0x03]), (68, [1, 4]), (80, [0xff, 0xfe])] {
        let result = forged(|record| record[at..at + 2].copy_from_slice(&value));
        // A long text can fit the header, where only zeros follow; never the trailer.
        let good = result.as_ref().is_ok_and(|reader| reader.state() == ShardState::Complete);
        assert!(!good, "{at}: {result:?}");
    }
}

#[test]
fn the_number_of_digests_is_n() {
    for n in [3, 5] {
        let reader = forged(|record| record[52] = n).unwrap();
        assert_eq!(reader.state(), ShardState::NoTrailer);
        assert!(reader.damage().unwrap().contains("digests"), "{:?}", reader.damage());
    }
}

#[test]
fn another_geometry_puts_the_trailer_elsewhere() {
    let reader = forged(|record| record[64] = 3).unwrap();
    assert_eq!(reader.state(), ShardState::NoTrailer);
    assert!(reader.damage().unwrap().contains("it lies at"), "{:?}", reader.damage());
}

#[test]
fn a_piece_cut_out_of_the_middle_is_found() {
    let mut bytes = image(&small(Some(SIZE)), SIZE);
    bytes.drain(8192..12288);
    let reader = ShardReader::open(&disk_with(bytes), NAME).unwrap();
    assert_eq!(reader.state(), ShardState::NoTrailer);
    assert!(reader.damage().unwrap().contains("bytes long"), "{:?}", reader.damage());
    read_chunk(&reader, 0).unwrap();
    assert!(read_chunk(&reader, 2).unwrap_err().is_damage());
}

#[test]
fn a_tail_that_promises_more_than_the_file_is_refused() {
    let mut bytes = image(&small(Some(SIZE)), SIZE);
    let tail = bytes.split_off(bytes.len() - 24);
    for record in [0u32, 83, 84, 200, 6000, 6229, u32::MAX] {
        let mut bytes = bytes[..4096 + 100].to_vec();
        let mut tail = tail.clone();
        tail[..8].copy_from_slice(&(bytes.len() as u64 + 24).to_le_bytes());
        tail[8..12].copy_from_slice(&record.to_le_bytes());
        let sum = checksum(&tail[..12]).to_le_bytes();
        tail[12..16].copy_from_slice(&sum);
        bytes.extend(tail);
        let reader = ShardReader::open(&disk_with(bytes), NAME).unwrap();
        assert_eq!(reader.state(), ShardState::NoTrailer, "{record}");
    }
}

#[test]
fn an_end_that_cannot_be_read_is_an_io_error_not_a_foreign_file() {
    let memory = MemoryBackend::new();
    memory.put(NAME, image(&small(Some(SIZE)), SIZE)[..9000].to_vec());
    let disk = FaultyBackend::new(Arc::new(memory.clone()));
    let fail = || Fault::new(FaultAction::Fail(ErrorKind::Other)).on(Operation::Read);
    disk.inject(fail());
    let error = ShardReader::open(&disk, NAME).unwrap_err();
    assert!(matches!(error, StoreError::Io { op: kiln_store::Operation::Read, .. }), "{error}");
    // With the other end intact the shard still opens.
    memory.put(NAME, image(&small(Some(SIZE)), SIZE));
    disk.inject(fail());
    assert_eq!(ShardReader::open(&disk, NAME).unwrap().state(), ShardState::NoHeader);
    disk.inject(fail().after(1));
    assert_eq!(ShardReader::open(&disk, NAME).unwrap().state(), ShardState::NoTrailer);
}

#[test]
fn few_tables_stay_in_memory() {
    let disk = MemoryBackend::new();
    write(&disk, &small(None), 192 * 20).unwrap();
    let reader = ShardReader::open(&disk, NAME).unwrap();
    let metadata = |segment: u64| {
        let whole = std::slice::from_ref(&(0..4));
        reader.read_runs(2 * segment, whole, &mut [0; 96]).unwrap().metadata_bytes
    };
    assert!((0..10).all(|segment| metadata(segment) > 0));
    assert_eq!((metadata(9), metadata(8)), (0, 0));
    assert!(metadata(0) > 0, "all ten tables were kept");
}

#[test]
fn a_header_that_promises_more_than_the_file_is_found_out_at_once() {
    let memory = MemoryBackend::new();
    for size in [SIZE, 1 << 30, 1 << 53] {
        let bytes = image(&small(Some(SIZE)), SIZE);
        // The header alone, and with it one whole segment of two stripes.
        for (len, there) in [(4096, 0), (8191, 2), (8192, 2)] {
            let disk = MemoryBackend::new();
            let header = ShardInfo { size: Some(size), ..small(None) };
            drop(ShardWriter::create(&disk, NAME, &header).unwrap());
            memory.put(NAME, [disk.bytes(NAME).unwrap(), bytes[4096..len].to_vec()].concat());
            let faulty = FaultyBackend::new(Arc::new(memory.clone()));
            let reader = ShardReader::open(&faulty, NAME).unwrap();
            assert_eq!(reader.state(), ShardState::NoTrailer);
            assert!(reader.damage().unwrap().contains("cut short"), "{:?}", reader.damage());
            assert_eq!(reader.stripes_there(), there);
            assert!((0..there).all(|stripe| read_chunk(&reader, stripe).is_ok()));
            let error = read_chunk(&reader, reader.layout().stripes() - 1).unwrap_err();
            assert!(matches!(error, StoreError::Truncated { .. }), "{error}");
            assert!(kiln_store::digest_of(&reader).is_err());
            // Opening, both ends, a table, chunks; nothing for what is only declared.
            assert!(faulty.operations() < 12, "{} operations", faulty.operations());
        }
    }
}
