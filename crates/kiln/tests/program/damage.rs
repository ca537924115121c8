//! Rot, truncation, mix-ups: found, named, repaired; never a wrong byte.

use std::fs::{self, OpenOptions};

use crate::rig::{Random, Rig, flip, seed, shard};

/// The header block of a shard file, from the format's description.
const HEADER: u64 = 4096;

fn length(rig: &Rig, name: &str) -> u64 {
    fs::metadata(rig.path(name)).unwrap().len()
}

/// Checks that damage of at most m shards is seen, worked around and repaired.
#[track_caller]
fn seen_and_healed(rig: &Rig, data: &[u8], whole: &[(std::path::PathBuf, Vec<u8>)], what: &str) {
    let verify = rig.kiln("verify shards --deep");
    assert_eq!(verify.code, 1, "{what}: verify said {} {}", verify.stdout, verify.stderr);
    rig.decodes_to(data);
    let repair = rig.kiln("repair shards --scan");
    assert_eq!(repair.code, 0, "{what}: {}", repair.stderr);
    let verify = rig.kiln("verify shards --deep");
    assert_eq!(verify.code, 0, "{what}: after repair {} {}", verify.stdout, verify.stderr);
    assert_eq!(rig.snapshot("shards").len(), whole.len(), "{what}: files after repair");
    assert!(rig.snapshot("shards") == whole, "{what}: repaired shards differ");
}

#[test]
fn a_flipped_bit_anywhere() {
    let rig = Rig::new();
    let data = rig.encoded("clay:4+2", "--sub-chunk 512", 300_000);
    let whole = rig.snapshot("shards");
    let len = length(&rig, &shard(0));
    // Header, data, checksum table and trailer, by position and by sweep.
    let mut places = vec![0, 9, 40, 200, HEADER, HEADER + 1, len - 1, len - 9, len - 60];
    places.extend((1..30).map(|part| len * part / 30));
    for (round, &at) in places.iter().enumerate() {
        let index = round % 6;
        flip(&rig.path(shard(index)), at, (round % 8) as u8);
        // Padding that is never read may hold anything; a deep verify may then say clean.
        let verify = rig.kiln("verify shards --deep");
        if verify.code == 0 {
            assert!((200..HEADER).contains(&at) || is_padding(&whole[index].1, at), "byte {at}");
            rig.decodes_to(&data);
            flip(&rig.path(shard(index)), at, (round % 8) as u8);
            continue;
        }
        seen_and_healed(&rig, &data, &whole, &format!("bit at byte {at} of shard {index}"));
    }
}

/// Returns whether a byte lies in a stretch of zeros, as padding does.
fn is_padding(bytes: &[u8], at: u64) -> bool {
    let at = at as usize;
    let around = &bytes[at.saturating_sub(4)..(at + 4).min(bytes.len())];
    around.iter().all(|byte| *byte == 0)
}

#[test]
fn truncated_shards() {
    let rig = Rig::new();
    let data = rig.encoded("rs:4+2", "--sub-chunk 4KiB", 300_000);
    let whole = rig.snapshot("shards");
    let len = length(&rig, &shard(1));
    for (index, keep) in [(0, 0), (1, 1), (5, 100), (2, HEADER), (3, len / 2), (4, len - 1)] {
        let file = OpenOptions::new().write(true).open(rig.path(shard(index))).unwrap();
        file.set_len(keep).unwrap();
        drop(file);
        let verify = rig.kiln("verify shards");
        assert_eq!(verify.code, 1, "shard {index} cut to {keep}: {}", verify.stdout);
        seen_and_healed(&rig, &data, &whole, &format!("shard {index} cut to {keep}"));
    }
}

#[test]
fn trailing_bytes() {
    let rig = Rig::new();
    let data = rig.encoded("rs:4+2", "--sub-chunk 4KiB", 300_000);
    let whole = rig.snapshot("shards");
    let mut bytes = rig.read(shard(2));
    bytes.extend_from_slice(b"something else");
    fs::write(rig.path(shard(2)), bytes).unwrap();
    seen_and_healed(&rig, &data, &whole, "bytes after the end");
}

#[test]
fn rot_in_different_stripes_of_many_shards() {
    // Each stripe of 4+2 loses at most two chunks, although all six shards are damaged.
    let rig = Rig::new();
    let data = rig.encoded("rs:4+2", "--sub-chunk 4KiB", 6 * 4 * 4096);
    let whole = rig.snapshot("shards");
    for index in 0..6 {
        flip(&rig.path(shard(index)), HEADER + index as u64 * 4096 + 77, 3);
    }
    seen_and_healed(&rig, &data, &whole, "one bad stripe in each shard");
}

#[test]
fn a_flipped_bit_in_any_helper_during_repair() {
    let seed = seed("a_flipped_bit_in_any_helper_during_repair");
    let mut random = Random::new(seed);
    let rig = Rig::new();
    rig.encoded("clay:4+2", "--sub-chunk 512", 300_000);
    let whole = rig.snapshot("shards");
    let data_end = length(&rig, &shard(0)) * 9 / 10;
    for helper in 1..6 {
        for _ in 0..4 {
            rig.remove(shard(0));
            let at = HEADER + random.below(data_end - HEADER);
            flip(&rig.path(shard(helper)), at, (at % 8) as u8);
            rig.kiln("repair shards").ok();
            assert!(rig.read(shard(0)) == whole[0].1, "helper {helper}, byte {at}: wrong bytes");
            rig.kiln("repair shards --scan").ok();
            assert!(rig.snapshot("shards") == whole, "helper {helper}, byte {at}: not repaired");
        }
    }
}
