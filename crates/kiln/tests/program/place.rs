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
fn a_bad_file_of_machines_is_said() {
    let rig = Rig::new();
    let six: String = (0..6).map(|i| format!("[[node]]\nid = \"m{i}\"\n")).collect();
    let chunks = |list: &str| six.replace("\"m1\"\n", &format!("\"m1\"\nchunks = {list}\n"));
    for (text, words) in [
        (String::new(), "no machine listed"),
        (six.replace("m4", "m3"), "two machines are called 'm3'"),
        (six.replace("\"m2\"\n", "\"m2\"\nload = 1.5\n"), "m2: load is 1.5"),
        (six.replace("\"m2\"\n", "\"m2\"\nup = \"0\"\n"), "m2: up is 0"),
        (six.replace("\"m2\"\n", "\"m2\"\nup = \"-3\"\n"), "'-3' is not a size"),
        (six.split("[[node]]\nid = \"m5\"").next().unwrap().into(), "5 machines for the 6 chunks"),
        (chunks("[0, 99]"), "m1: there is no chunk 99, only 0 to 5"),
        (chunks("[1, 1]"), "chunk 1 is at m1 and at m1"),
        (chunks("[1, 2, 3, 4]"), "no machine stores chunk 5"),
        (chunks("[1, 2, 3, 4, 5]"), "no machine rebuilds chunk 0"),
        (six.replace("\"m2\"\n", "\"m2\"\nrebuilds = [3]\n"), "no machine rebuilds chunk 0"),
    ] {
        fs::write(rig.path("machines.toml"), text).unwrap();
        rig.kiln("plan -c rs:4+2 --lost 0 --cluster machines.toml")
            .fails(4, &["machines.toml", words]);
    }
}

/// Without a name the best strategy is taken, and the flags of a placed plan ask for one.
#[test]
fn the_best_strategy_is_the_default() {
    let rig = Rig::new();
    let plan = |words: &str| rig.kiln(&format!("plan {words} --json")).ok().json();
    let hub = plan("-c clay:10+4 --lost 3 --strategy --block 256MiB");
    assert_eq!((&hub["strategy"], hub["bandwidth"].as_u64()), (&"hub".into(), Some(1 << 30)));
    assert_eq!(plan("-c rs:10+4 --lost 3 --strategy")["strategy"], "pipeline");
    let butterfly = plan("-c butterfly:4+2 --lost 0 --frontier --block 256MiB");
    let points = butterfly["frontier"].as_array().unwrap();
    let mib = |value: &serde_json::Value| value.as_u64().unwrap() >> 20;
    assert!(mib(&points[0]["max_node_load"]) == 256 && mib(&points[0]["bandwidth"]) <= 800);
    assert_eq!(mib(&points.last().unwrap()["bandwidth"]), 640, "the central plan ends it");
    let text = rig.kiln("plan -c clay:4+2 --lost 3 --strategy --block 256MiB").ok().stdout;
    assert!(text.contains("bandwidth 768 MiB (at least 768 MiB)"), "{text}");
}

/// Fewer helpers, several losses, unequal links, racks, a new node that is a helper or is outside,
/// a range of a chunk: every number stands beside a lower bound.
#[test]
fn general_cases_have_lower_bounds() {
    let rig = Rig::new();
    let mut machines = String::new();
    for i in 0..8 {
        let up = if i == 3 { "100MB" } else { "1GB" };
        machines += &format!("[[node]]\nid = \"m{i}\"\ndomain = \"rack{}\"\n", i / 2);
        machines += &format!("up = \"{up}\"\ndown = \"1GB\"\n");
    }
    fs::write(rig.path("outside.toml"), &machines).unwrap();
    let mut helper = machines;
    for i in 0..7 {
        let places =
            if i == 4 { "chunks = [4]\nrebuilds = [0]" } else { &format!("chunks = [{i}]") };
        helper = helper.replace(&format!("\"m{i}\"\n"), &format!("\"m{i}\"\n{places}\n"));
    }
    fs::write(rig.path("helper.toml"), helper).unwrap();
    for (words, racks) in [
        ("-c clay:4+3,d=5 --lost 0 --strategy", false),
        ("-c clay:4+3 --lost 0,6 --strategy", false),
        ("-c rs:4+3 --lost 1,2,3 --strategy pipeline", false),
        ("-c clay:4+3 --lost 0 --cluster outside.toml", true),
        ("-c clay:4+3 --lost 0 --cluster helper.toml", true),
        ("-c clay:4+3 --lost 0 --range 0..4KiB", false),
        ("-c rdp:4+2 --lost 1 --strategy anneal", false),
    ] {
        let report = rig.kiln(&format!("plan {words} --moves 20000 --json")).ok().json();
        let limits = &report["limits"];
        for name in ["max_node_load", "across_domains", "link_seconds"] {
            let (got, least) = (report[name].as_f64().unwrap(), limits[name].as_f64().unwrap());
            assert!(least > 0.0 && got >= least * 0.999_999, "{words} {name}: {got} {least}");
        }
        let (got, least) = (report["bandwidth"].as_u64(), report["bound_bandwidth"].as_u64());
        assert!(least > Some(0) && got >= least, "{words}: {got:?} {least:?}");
        let text = rig.kiln(&format!("plan {words} --moves 20000")).ok().stdout;
        assert_eq!(text.matches("(at least").count(), if racks { 4 } else { 3 }, "{text}");
    }
    // Matrices that are too large to look at: the closed form for one loss, a word for several.
    let text = rig.kiln("plan -c clay:17+3 --lost 2 --strategy hub --moves 0").ok().stdout;
    assert_eq!(text.matches("(at least").count(), 3, "{text}");
    let text = rig.kiln("plan -c clay:17+3 --lost 2,3 --strategy central").ok().stdout;
    assert!(text.contains("too large"), "{text}");
}

#[test]
fn what_cannot_be_planned_is_said() {
    let rig = Rig::new();
    rig.kiln("plan -c rs:4+2 --cluster x.toml").fails(3, &["--cluster", "--lost"]);
    rig.kiln("plan -c rs:4+2 --lost 0 --range 4..4").fails(3, &["--range", "empty"]);
    rig.kiln("plan -c rs:4+2 --lost 0 --range 4").fails(3, &["--range", "0..64KiB"]);
    rig.kiln("plan -c rs:4+2 --lost 0 --range 0..9GiB").fails(3, &["--range", "1 MiB"]);
    rig.kiln("plan -c rs:4+2 --lost 0 --seconds soon").fails(3, &["--seconds"]);
    rig.kiln("plan --code rs:4+2 --lost 0 --strategy luck").fails(3, &["luck", "central", "hub"]);
    rig.kiln("plan --code rs:4+2 --strategy hub").fails(3, &["--lost"]);
    rig.kiln("plan --code rs:4+2 --lost 0 --picture x.svg").fails(3, &["--picture"]);
    let report = rig.kiln("plan --code rs:4+2 --lost 0 --strategy hub --json").ok().json();
    assert!(report["note"].as_str().unwrap().contains("central instead of hub"));
}
