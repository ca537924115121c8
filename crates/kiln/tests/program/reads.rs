//! The gaps that a plan reads through on a device. Planned reads that are done and counted stand in
//! `sessions/reads.txt`.

use serde_json::Value;

use crate::rig::Rig;

/// A disk: 8 ms to get anywhere, 150 MB/s.
const DISK: &str = "{\"version\":1,\"read_seconds\":0.008,\"byte_seconds\":6.67e-9,\
     \"start_seconds\":0.0,\"combine\":\"sum\",\"parallelism\":1.0,\"depth\":1,\
     \"alignment\":512,\"worst_fit\":0.0}";

#[test]
fn a_plan_says_which_gaps_a_device_reads_through() {
    let rig = Rig::new();
    std::fs::write(rig.path("disk"), DISK).unwrap();
    // Chunk 17 of 16+2 has 128 runs in gray order, of two layers but at the ends.
    let plan = |chunk: &str| {
        let words = "plan -c clay:16+2,order=gray --lost 17 --device-model disk --json --chunk";
        rig.kiln(&format!("{words} {chunk}")).ok().json()
    };
    let small = plan("1MiB");
    let loss = &small["losses"][0];
    let number = |value: &Value| value.as_f64().unwrap();
    // All gaps of a chunk are bytes for 3.5 ms, a read costs 8: everything is read, so that k whole
    // chunks are less work than n-1 of them.
    assert_eq!(loss["chosen"], "decode", "{loss}");
    assert_eq!(number(&loss["as_runs"]["reads"]), 128.0 * 17.0);
    assert!(number(&loss["planned"]["reads"]) <= 17.0);
    assert!(number(&loss["planned"]["widest_gap"]) >= 4096.0);
    let large = plan("4GiB");
    let loss = &large["losses"][0];
    assert_eq!((&loss["chosen"], number(&loss["planned"]["reads"])), (&"runs".into(), 2176.0));
    // Half of every chunk, a read a run.
    let expected = 128.0 * 0.008 + (2u64 << 30) as f64 * 6.67e-9;
    assert!((number(&loss["planned"]["seconds"]) / expected - 1.0).abs() < 1e-6, "{loss}");
    // The sizes from which things change. All gaps are alike here but the ends: all are read up to
    // some size, and the repair pays from the next one on.
    let (gaps, pays) = (number(&small["gaps_until"]), number(&small["pays_from"]));
    assert!(gaps > (1 << 20) as f64 && pays <= 2.0 * gaps, "{gaps} {pays}");
    for size in small["sizes"].as_array().unwrap() {
        let (planned, runs, decode) = (&size["planned"], &size["as_runs"], &size["decode"]);
        let seconds = |way: &Value| number(&way["seconds"]);
        assert!(seconds(planned) <= 1.000_001 * seconds(runs).min(seconds(decode)), "{size}");
        let pays_now = number(&size["chunk"]) >= pays;
        assert_eq!(size["pays"].as_bool(), Some(pays_now), "{size}");
    }
    // Every single loss, and two at once; a folder that was probed is named as well as its file.
    std::fs::create_dir(rig.path("probed")).unwrap();
    std::fs::write(rig.path("probed/.kiln-device"), DISK).unwrap();
    let text = rig.kiln("plan -c clay:4+2 --device-model probed").ok().stdout;
    assert!(text.contains("gaps are read through in chunks up to"), "{text}");
    let two = rig.kiln("plan -c clay:6+3,order=gray --lost 0,1 --device-model disk --json").ok();
    assert_eq!(two.json()["losses"].as_array().unwrap().len(), 1);
}
