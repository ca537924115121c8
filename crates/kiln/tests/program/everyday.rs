//! Everyday work, and its output.

use crate::rig::{Rig, shard};

/// Every family's example, and some more.
fn codes() -> impl Iterator<Item = &'static str> {
    let more = ["rs:4+2", "clay:4+2", "clay:5+3,d=6", "evenodd:5+2", "liberation:4+2,packet=512"];
    kiln_code::CODES.iter().map(|family| family.example).chain(more)
}

#[test]
fn encode_verify_lose_repair_decode() {
    for spec in codes() {
        let codec = kiln_code::Codec::new(&spec.parse().unwrap()).unwrap();
        let kiln_code::Shape { k, m, .. } = codec.shape();
        let rig = Rig::new();
        let data = rig.encoded(spec, "", 3_000_001);
        let n = k + m;
        let names: Vec<String> = (0..n).map(|i| format!("object.{i:02}.kiln")).collect();
        assert_eq!(rig.names("shards"), names, "exactly n files");
        rig.kiln("verify shards --deep").ok();
        let whole = rig.snapshot("shards");
        for index in [0, k - 1, k, n - 1] {
            rig.remove(shard(index));
            rig.kiln("verify shards").code(1);
            rig.kiln("repair shards").ok();
            rig.kiln("verify shards --deep").ok();
            assert_eq!(rig.snapshot("shards"), whole, "{spec}: shard {index} came back the same");
        }
        // The first m shards, or where no code of the form has them back, those around data's end.
        let lost = [0..m, k - 1..k - 1 + m].map(Iterator::collect::<Vec<usize>>);
        let lost = lost.iter().find(|lost| codec.tolerates(lost)).unwrap();
        for &index in lost {
            rig.remove(shard(index));
        }
        rig.decodes_to(&data);
        rig.kiln("repair shards").ok();
        assert_eq!(rig.snapshot("shards"), whole, "{spec}: {m} shards came back the same");
    }
}
