//! `kiln plan --strategy`: a repair placed on nodes.

use std::fs;

use crate::rig::Rig;

#[test]
fn clay_is_planned_at_the_bound() {
    let rig = Rig::new();
    let command = "plan --code clay:10+4 --lost 3 --strategy hub --block 256MiB --frontier --json";
    let report = rig.kiln(command).ok().json();
    let mib = |value: &serde_json::Value| value.as_u64().unwrap() >> 20;
    assert_eq!(mib(&report["max_node_load"]), 256);
    assert_eq!(mib(&report["bandwidth"]), 1024);
    assert_eq!(report["bound_bandwidth"], report["bandwidth"]);
    assert_eq!(mib(&report["bytes_read"]), 832);
    assert!(report["plan_seconds"].as_f64().is_some());
    assert_eq!(report["nodes"].as_array().unwrap().len(), 14);
    let points: Vec<(u64, u64)> = report["frontier"]
        .as_array()
        .unwrap()
        .iter()
        .map(|point| (mib(&point["max_node_load"]), mib(&point["bandwidth"])))
        .collect();
    assert_eq!(points, [(256, 1024), (400, 976), (544, 928), (688, 880), (832, 832)]);
}

#[test]
fn machines_come_from_a_file_and_plans_are_kept() {
    let rig = Rig::new();
    let mut machines = String::new();
    for i in 0..6 {
        machines += &format!("[[node]]\nid = \"m{i}\"\ndomain = \"rack{}\"\nup = \"1GB\"\n", i % 2);
    }
    fs::write(rig.path("machines.toml"), machines).unwrap();
    let command = "plan --code clay:3+2 --lost 1 --strategy anneal --cluster machines.toml \
                   --plans ready --picture plan.svg --moves 20000 --json";
    let first = rig.kiln(command).ok().json();
    assert_eq!(first["ready"], false);
    // The new node is the one after the stripe's.
    let targets: Vec<&str> = first["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|node| node["bytes_read"] == 0)
        .map(|node| node["name"].as_str().unwrap())
        .collect();
    assert_eq!(targets, ["m5"]);
    let second = rig.kiln(command).ok().json();
    assert_eq!(second["ready"], true);
    assert_eq!(first["nodes"], second["nodes"]);
    assert!(fs::read_to_string(rig.path("plan.svg")).unwrap().starts_with("<svg"));
    fs::write(rig.path("ready"), "something else").unwrap();
    rig.kiln(command).fails(4, &["ready"]);
    fs::write(rig.path("machines.toml"), "[[node]]\nid = \"a\"\nspeed = 3\n").unwrap();
    rig.kiln("plan --code rs:2+1 --lost 0 --strategy hub --cluster machines.toml")
        .fails(4, &["machines.toml", "speed"]);
}

#[test]
fn what_cannot_be_planned_is_said() {
    let rig = Rig::new();
    rig.kiln("plan --code rs:4+2 --lost 0 --strategy luck").fails(3, &["luck", "central", "hub"]);
    rig.kiln("plan --code rs:4+2 --strategy hub").fails(3, &["--lost"]);
    rig.kiln("plan --code rs:4+2 --lost 0 --picture x.svg").fails(3, &["--picture"]);
    let report = rig.kiln("plan --code rs:4+2 --lost 0 --strategy hub --json").ok().json();
    assert!(report["note"].as_str().unwrap().contains("central instead of hub"));
}
