//! Shards of version 2: every sub-chunk under a hash, all hashes under a digest.

mod common;

use common::*;
use kiln_store::{Digest, ShardReader, ShardState, checksum, digest_of};

fn hash(bytes: &[u8]) -> [u8; 32] {
    *blake3::hash(bytes).as_bytes()
}

fn digest(reader: &ShardReader) -> Digest {
    reader.digests().unwrap()[usize::from(reader.info().index)]
}

#[test]
fn the_bytes_are_those_of_the_document() {
    let bytes = image(&hashed(Some(SIZE)), SIZE);
    assert_eq!(bytes[8..10], [2, 0]);
    // A segment: two chunks of four sub-chunks, a hash of each, a CRC, zeros.
    let (data, table) = (&bytes[4096..4096 + 192], &bytes[4288..4288 + 256]);
    assert!(data.chunks(24).flat_map(hash).eq(table.iter().copied()));
    assert_eq!(bytes[4548..8192], [0; 8192 - 4548]);
    // The last segment has one short stripe; the list of three tables follows its own.
    let last = &bytes[12352..12352 + 128];
    assert!(bytes[12288..12352].chunks(16).flat_map(hash).eq(last.iter().copied()));
    let list = &bytes[12484..12484 + 96];
    let tables = [table, &bytes[8384..8384 + 256], last];
    assert!(tables.into_iter().flat_map(hash).eq(list.iter().copied()));
    let mut bound = bytes[16..32].to_vec();
    bound.extend([1, 0]);
    bound.extend([0xff; 8]);
    bound.extend(list);
    assert_eq!(bytes[12580..12584], checksum(&bound).to_le_bytes());
    assert_eq!(bytes[12584..12594], *b"\x89KILN\r\n\x1a\x02\x00");
    let disk = disk_with(bytes);
    let reader = ShardReader::open(&disk, NAME).unwrap();
    assert_eq!(digest(&reader).as_bytes(), hash(disk.bytes(NAME).unwrap()[12484..12580].as_ref()));
    assert_eq!(digest_of(&reader).unwrap(), digest(&reader));
}

#[test]
fn who_knows_the_digest_is_shown_nothing_else() {
    let clean = image(&hashed(Some(SIZE)), SIZE);
    let disk = disk_with(clean.clone());
    let right = digest(&ShardReader::open(&disk, NAME).unwrap());
    // A sub-chunk, its hash and the CRC of its table; then the list too; then the trailer too.
    let mut forged = clean;
    forged[4096] ^= 1;
    let sum = hash(&forged[4096..4120]);
    forged[4288..4320].copy_from_slice(&sum);
    let reseal = |bytes: &mut [u8], segment: u64, entries: std::ops::Range<usize>| {
        let mut bound = bytes[16..32].to_vec();
        bound.extend([1, 0]);
        bound.extend(segment.to_le_bytes());
        bound.extend(&bytes[entries.clone()]);
        let sum = checksum(&bound).to_le_bytes();
        bytes[entries.end..entries.end + 4].copy_from_slice(&sum);
    };
    reseal(&mut forged, 0, 4288..4544);
    let table = hash(&forged[4288..4544]);
    let refused = |bytes: &[u8], what: &str| {
        disk.put(NAME, bytes.to_vec());
        let reader = ShardReader::open(&disk, NAME).unwrap().expecting(right);
        let error = read_chunk(&reader, 0).unwrap_err();
        assert!(error.is_damage() && error.to_string().contains("digest"), "{what}: {error}");
        reader
    };
    let reader = refused(&forged, "a table");
    assert_eq!(read_chunk(&reader, 2).unwrap(), chunk(2, 96), "other segments are sound");
    forged[12484..12516].copy_from_slice(&table);
    reseal(&mut forged, u64::MAX, 12484..12580);
    refused(&forged, "the list");
    let own = hash(&forged[12484..12580]);
    let at = forged.len() - 24 - 4 - 4 * 32 + 32;
    assert_eq!(forged[at..at + 32], *right.as_bytes());
    forged[at..at + 32].copy_from_slice(&own);
    let record = 80 + 18 + 4 * 32 + 4;
    common::reseal(&mut forged, record);
    refused(&forged, "everything");
    // Nobody who does not know the digest can tell.
    verify_any(&disk);
}

fn verify_any(disk: &kiln_store::MemoryBackend) {
    let reader = ShardReader::open(disk, NAME).unwrap();
    assert_eq!(reader.state(), ShardState::Complete);
    assert_ne!(read_chunk(&reader, 0).unwrap(), chunk(0, 96));
}

#[test]
fn an_empty_object_has_no_list() {
    let disk = disk_with(image(&hashed(Some(0)), 0));
    verify(&disk, NAME).unwrap();
    let reader = ShardReader::open(&disk, NAME).unwrap();
    assert_eq!(digest(&reader).as_bytes(), hash(&[]));
}
