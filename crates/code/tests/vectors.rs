//! Chunks and repair plans that Ceph made, byte for byte (`ceph-erasure-code-tool` 16.2.15, plugins
//! isa, jerasure, clay and lrc), see `vectors/manifest.json`; and digests of chunks of clay's other
//! scalar codes and of their plain codes, see `vectors/scalars.json`.

use kiln_code::{Codec, HelperReads, RebuildMethod};
use serde_json::Value;
use sha2::{Digest, Sha256};
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
        let place = folder().join(vector["dir"].as_str().unwrap());
        let input = std::fs::read(place.join("in")).unwrap();
        assert_eq!(input.len(), number(&vector["input_size"]));
        let (codec, shards) = encoded(vector, input);
        for (shard, number) in shards.iter().zip(codec.mapping()) {
            let wanted = std::fs::read(place.join(format!("in.{number}"))).unwrap();
            assert!(*shard == wanted, "{}, shard {number}", codec.spec());
        }
    }
}

/// The shards of a vector, its stripes one after the other.
fn encoded(vector: &Value, mut input: Vec<u8>) -> (Codec, Vec<Vec<u8>>) {
    let profile = vector["profile_string"].as_str().unwrap();
    let codec = Codec::new(&profile.parse().unwrap()).unwrap();
    let (shape, unit) = (codec.shape(), number(&vector["stripe_unit"]));
    input.resize(number(&vector["stripes"]) * shape.k * unit, 0);
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
    (codec, shards)
}

/// Compares chunks with those of Ceph's clay for every scalar code that it takes, and rebuilds
/// each chunk from the reads of its repair, the last m from the others.
#[test]
fn scalar_codes_of_clay_match_ceph() {
    let vectors = json(&folder().join("scalars.json"));
    let vectors = vectors["vectors"].as_array().unwrap();
    assert_eq!(vectors.len(), 40);
    for vector in vectors {
        let mut state = 1_u64;
        let input = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005);
            state = state.wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        });
        let input = input.take(number(&vector["input_size"])).collect();
        let (codec, shards) = encoded(vector, input);
        for (shard, wanted) in shards.iter().zip(vector["shard_sha256"].as_array().unwrap()) {
            let digest =
                Sha256::digest(shard).iter().map(|b| format!("{b:02x}")).collect::<String>();
            assert_eq!(digest, *wanted, "{}", codec.spec());
        }
        let (n, m) = (codec.shape().n(), codec.shape().m);
        let chunk = number(&vector["stripe_unit"]);
        for lost in (0..n).map(|lost| lost..lost + 1).chain(std::iter::once(n - m..n)) {
            let lost: Vec<usize> = lost.collect();
            let others: Vec<usize> = (0..n).filter(|chunk| !lost.contains(chunk)).collect();
            let plan = codec.repair_plan(&lost, &others).unwrap();
            let sub = chunk / codec.shape().alpha;
            let read = |helper: &HelperReads| -> Vec<u8> {
                let subs: Vec<&[u8]> = shards[helper.chunk][..chunk].chunks(sub).collect();
                let runs = helper.runs.iter().cloned();
                runs.flat_map(|run| subs[run.start as usize..run.end as usize].concat()).collect()
            };
            let read: Vec<Vec<u8>> = plan.helpers().iter().map(read).collect();
            let sources: Vec<&[u8]> = read.iter().map(|bytes| &bytes[..]).collect();
            let mut rebuilt = vec![vec![0x5a; chunk]; lost.len()];
            let mut results: Vec<&mut [u8]> = rebuilt.iter_mut().map(|c| &mut c[..]).collect();
            plan.run(&sources, &mut results).unwrap();
            for (lost, rebuilt) in lost.iter().zip(&rebuilt) {
                assert!(*rebuilt == shards[*lost][..chunk], "{} chunk {lost}", codec.spec());
            }
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
