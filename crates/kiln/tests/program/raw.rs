//! Bare chunks, as Ceph and others have them.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::rig::{Rig, sha256};

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
