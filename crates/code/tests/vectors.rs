//! Chunks and repair plans that Ceph made, byte for byte (`ceph-erasure-code-tool` 16.2.15, plugins
//! isa, jerasure, clay and lrc), see `vectors/manifest.json`.

use kiln_code::{Codec, RebuildMethod};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn number(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

#[test]
fn chunks_match_ceph() {
    let manifest = json(&folder().join("manifest.json"));
    let vectors = manifest["vectors"].as_array().unwrap();
    assert_eq!(vectors.len(), 54);
    for vector in vectors {
        let profile = vector["profile_string"].as_str().unwrap();
        let codec = Codec::new(&profile.parse().unwrap()).unwrap();
        let (shape, unit) = (codec.shape(), number(&vector["stripe_unit"]));
        let place = folder().join(vector["dir"].as_str().unwrap());
        let mut input = std::fs::read(place.join("in")).unwrap();
        assert_eq!(input.len(), number(&vector["input_size"]));
        let stripes = number(&vector["stripes"]);
        input.resize(stripes * shape.k * unit, 0);
        let mut shards = vec![Vec::new(); shape.n()];
        for stripe in input.chunks(shape.k * unit) {
            let data = shape.split(stripe, unit).unwrap();
            let mut parity = vec![vec![0xa5; unit]; shape.m];
            let sources: Vec<&[u8]> = data.iter().map(|c| &c[..]).collect();
            let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(|c| &mut c[..]).collect();
            codec.encode(&sources, &mut outputs).unwrap();
            for (shard, chunk) in shards.iter_mut().zip(data.iter().chain(&parity)) {
                shard.extend_from_slice(chunk);
            }
        }
        for (shard, number) in shards.iter().zip(codec.mapping()) {
            let wanted = std::fs::read(place.join(format!("in.{number}"))).unwrap();
            assert!(*shard == wanted, "{profile}, shard {number}");
        }
    }
}

#[test]
fn repair_plans_match_ceph() {
    let mut plans = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path().join("repair_plan.json");
        if !path.exists() {
            continue;
        }
        let manifest = json(&folder().join("manifest.json"));
        let name = entry.file_name().into_string().unwrap();
        let of_this = |v: &&Value| v["dir"].as_str().unwrap().starts_with(&format!("{name}/"));
        let vector = manifest["vectors"].as_array().unwrap().iter().find(of_this).unwrap();
        let profile = vector["profile_string"].as_str().unwrap();
        let codec = Codec::new(&profile.parse().unwrap()).unwrap();
        for (lost, helpers) in json(&path).as_object().unwrap() {
            let lost: usize = lost.parse().unwrap();
            let available: Vec<usize> = (0..codec.shape().n()).filter(|&i| i != lost).collect();
            let plan = codec.repair_plan(&[lost], &available).unwrap();
            assert_eq!(plan.strategy(), RebuildMethod::Repair, "{name} chunk {lost}");
            assert_eq!(plan.helpers().len(), helpers.as_object().unwrap().len());
            for helper in plan.helpers() {
                let runs: Vec<Value> =
                    helper.runs.iter().map(|r| serde_json::json!([r.start, r.len()])).collect();
                let wanted = &helpers[helper.chunk.to_string()];
                assert_eq!(Value::from(runs), *wanted, "{name} chunk {lost}");
            }
            plans += 1;
        }
    }
    assert!(plans > 50, "{plans} plans compared");
}
