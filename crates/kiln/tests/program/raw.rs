//! Bare chunks, as Ceph and others have them.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::rig::{Rig, data, sha256};

/// The program writes the very bytes that Ceph wrote, and repairs what Ceph wrote.
#[test]
fn chunks_of_ceph() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../code/tests/vectors");
    let manifest: Value =
        serde_json::from_slice(&fs::read(folder.join("manifest.json")).unwrap()).unwrap();
    let vectors = manifest["vectors"].as_array().unwrap();
    assert!(!vectors.is_empty());
    for vector in vectors {
        let rig = Rig::new();
        let words = |key: &str| vector[key].as_str().unwrap().to_owned();
        let (place, profile) = (folder.join(words("dir")), words("profile_string"));
        let unit = vector["stripe_unit"].as_u64().unwrap();
        fs::copy(place.join("in"), rig.path("in")).unwrap();
        let raw = format!("--format raw -c {profile} --chunk {unit}");
        rig.kiln(&format!("encode in {raw} -o chunks")).ok();
        let sums = vector["shard_sha256"].as_array().unwrap();
        for (index, sum) in sums.iter().enumerate() {
            let got = sha256(&rig.read(format!("chunks/in.{index}")));
            assert_eq!(got, sum.as_str().unwrap(), "{profile}: chunk {index}");
        }
        fs::copy(place.join("in.1"), rig.path("chunks/in.1")).unwrap();
        rig.remove("chunks/in.0");
        rig.kiln(&format!("repair chunks {raw}")).ok();
        let got = sha256(&rig.read("chunks/in.0"));
        assert_eq!(got, sums[0].as_str().unwrap(), "{profile}: repaired chunk 0");
        let size = vector["input_size"].as_u64().unwrap();
        rig.remove("chunks/in.1");
        rig.kiln(&format!("decode chunks {raw} --size {size} -o back")).ok();
        assert!(rig.read("back") == rig.read("in"), "{profile}: decode");
    }
}

#[test]
fn raw_round_trips() {
    for (spec, n) in [("rs:4+2", 6), ("clay:4+2", 6), ("rdp:4+2", 6), ("rs:10+4", 14)] {
        for (flags, bytes) in [("", 100_001), ("--chunk 4096", 100_001), ("--chunk 1024", 1)] {
            let rig = Rig::new();
            let data = rig.data("object", bytes, 1);
            rig.kiln(&format!("encode object -c {spec} --format raw -o chunks {flags}")).ok();
            let names = rig.names("chunks");
            assert_eq!(names.len(), n);
            assert!((0..n).all(|index| names.contains(&format!("object.{index}"))), "{names:?}");
            let first = rig.read("chunks/object.0");
            let size = if flags.is_empty() { bytes } else { bytes.min(1024) };
            let same = first.len().min(size).min(1024);
            assert_eq!(first[..same], data[..same], "data chunks are verbatim");
            let whole = rig.snapshot("chunks");
            let raw = format!("--format raw -c {spec} {flags}");
            rig.kiln(&format!("verify chunks {raw}")).ok();
            rig.remove("chunks/object.1");
            rig.remove("chunks/object.4");
            rig.kiln(&format!("verify chunks {raw}")).code(1);
            rig.kiln(&format!("decode chunks -o back {raw} --size {bytes}")).ok();
            assert!(rig.read("back") == data, "{spec} {flags} {bytes}");
            rig.kiln(&format!("repair chunks {raw}")).ok();
            assert!(rig.snapshot("chunks") == whole, "{spec} {flags} {bytes}");
        }
    }
}

#[test]
fn raw_needs_to_be_told() {
    let rig = Rig::new();
    rig.data("object", 10_000, 1);
    rig.kiln("encode object -c rs:2+1 --format raw -o chunks").ok();
    let before = rig.snapshot("chunks");
    rig.kiln("decode chunks -o back").fails(7, &["no shards"]);
    rig.kiln("decode chunks -o back --format raw").fails(3, &["--code"]);
    rig.kiln("decode chunks -o back --format raw -c rs:2+1").fails(3, &["size"]);
    rig.kiln("decode chunks -o back --format raw -c rs:2+1 --size 1GiB").fails(2, &["536870912"]);
    rig.kiln("encode object -c rs:2+1 --format raw -o chunks")
        .fails(5, &["object", "give --force"]);
    rig.remove("chunks/object.0");
    rig.remove("chunks/object.2");
    rig.kiln("repair chunks --format raw -c rs:2+1").fails(2, &["not recoverable"]);
    rig.kiln("decode chunks -o back --format raw -c rs:2+1 --size 10000").code(2);
    assert!(rig.snapshot("chunks") == before[1..2]);
    assert!(!rig.path("back").exists());
}

#[test]
fn raw_streams() {
    let rig = Rig::new();
    let data = data(3_000_000, 9);
    let words = "encode - --name piped --format raw -c clay:4+2 --chunk 64KiB -o chunks";
    rig.kiln_with_input(words, &data).ok();
    rig.remove("chunks/piped.3");
    rig.kiln("decode chunks -o back --format raw -c clay:4+2 --chunk 64KiB --size 3000000").ok();
    assert!(rig.read("back") == data);
}
