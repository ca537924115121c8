//! Pools, by the program: every command, nodes lost, disks replaced, rot, drained nodes.

use std::fs;

use crate::rig::{Rig, data, flip};

/// A pool of so many folders `d00`, `d01`, ... described by pool.toml.
pub fn create(rig: &Rig, code: &str, nodes: usize) {
    let nodes: Vec<String> = (0..nodes).map(|at| format!("--node d{at:02}")).collect();
    rig.kiln(&format!("pool create -c {code} {}", nodes.join(" "))).ok();
}

/// Shard files in a node's folder.
pub fn shards(rig: &Rig, node: usize) -> Vec<String> {
    let names = rig.names(&format!("d{node:02}"));
    names.into_iter().filter(|name| name.ends_with(".kiln")).collect()
}

fn tree(rig: &Rig) -> Vec<(String, Vec<u8>)> {
    let files: Vec<(String, Vec<u8>)> = [0, 10, 50_000, 100_000, 4_500_000]
        .into_iter()
        .enumerate()
        .map(|(at, size)| (format!("folder {at}/ü{size}"), data(size, at as u64)))
        .collect();
    for (name, bytes) in &files {
        let path = rig.path("tree").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    files
}

#[track_caller]
fn comes_back(rig: &Rig, files: &[(String, Vec<u8>)]) {
    rig.kiln("cp pool:backup back --force -q").ok();
    for (name, bytes) in files {
        assert!(rig.read(format!("back/{name}")) == *bytes, "{name}");
    }
    rig.remove("back");
}

#[test]
fn a_tree_survives_the_loss_of_a_disk() {
    let rig = Rig::new();
    create(&rig, "clay:4+2", 6);
    let files = tree(&rig);
    let report = rig.kiln("cp tree pool:backup --json").ok().json();
    assert_eq!((&report["copied"], &report["failed"]), (&5.into(), &0.into()));
    let list = rig.kiln("ls --json").ok().json();
    let codes: Vec<&str> = (list["objects"].as_array().unwrap().iter())
        .map(|object| object["code"].as_str().unwrap().split(':').next().unwrap())
        .collect();
    assert_eq!(codes, ["inline", "inline", "rs", "rs", "clay"]);
    assert!(rig.kiln("ls backup/folder -l").ok().stdout.contains("backup/folder 3/ü100000"));
    rig.kiln("status").ok();
    rig.kiln("scrub --deep").ok();
    comes_back(&rig, &files);

    rig.remove("d03");
    rig.kiln("status").code(1);
    let seen = rig.kiln("stat backup/x").fails(7, &["no object"]);
    assert!(seen.stderr.contains("d03"), "{}", seen.stderr);
    comes_back(&rig, &files);
    rig.kiln("repair").code(1);
    rig.kiln("pool add-node n03 --replace").ok();
    let status = rig.kiln("status --json").code(1).json();
    assert!(status["endangered"]["1"].as_u64().unwrap() >= 3, "{status}");
    let dry = rig.kiln("repair --dry-run --json").ok().json();
    let report = rig.kiln("repair --json").ok().json();
    // Of some only the manifest was missing, which may have come with the move to its new home.
    assert_eq!(report["damaged"], dry["repaired"]);
    assert!(report["failed"].as_array().unwrap().is_empty());
    rig.kiln("status").ok();
    rig.kiln("scrub --deep").ok();
    comes_back(&rig, &files);
    assert!(shards(&rig, 3).len() == 3);
}

#[test]
fn work_on_one_object_asks_its_nodes_alone() {
    let rig = Rig::new();
    create(&rig, "rs:2+1", 16);
    let bytes = rig.data("object", 300_000, 1);
    let before = rig.read("pool.toml");
    rig.kiln("put object -q").ok();
    let folder = |id: &str| rig.path(format!("d{}", id.trim_start_matches('n')));
    // Away is one node after the other, as are the files of its folder.
    let mut silent = 0;
    for at in 0..16 {
        let id = format!("n{at:02}");
        fs::rename(folder(&id), rig.path("aside")).unwrap();
        let stat = rig.kiln("stat object --json");
        let get = rig.kiln("get object -o back --force -q");
        fs::rename(rig.path("aside"), folder(&id)).unwrap();
        assert!(rig.read("back") == bytes, "{id}");
        silent += usize::from(get.stderr.is_empty() && stat.stderr.is_empty());
    }
    // Five homes of the manifest and three nodes of shards are asked at most.
    assert!(silent >= 16 - 5 - 3, "{silent} of 16 nodes were not asked");
    assert!(silent < 16, "a node that is asked in vain is named");
    fs::rename(rig.path("d00"), rig.path("aside")).unwrap();
    assert!(rig.kiln("ls").ok().stderr.contains("n00"));
    fs::rename(rig.path("aside"), rig.path("d00")).unwrap();

    // By a description from before all its nodes were drained.
    for node in ["e0", "e1", "e2"] {
        rig.kiln(&format!("pool add-node {node} {node}")).ok();
    }
    let stat = rig.kiln("stat object --json").ok().json();
    for shard in stat["shards"].as_array().unwrap() {
        rig.kiln(&format!("pool drain {}", shard["node"].as_str().unwrap())).ok();
    }
    fs::write(rig.path("pool.toml"), &before).unwrap();
    rig.kiln("get object -o back --force -q").ok();
    assert!(rig.read("back") == bytes);
    fs::write(rig.path("pool.toml"), &before).unwrap();
    rig.kiln("rm object").ok();
    rig.kiln("get object -o back --force").fails(7, &["no object"]);
    rig.kiln("status").ok();
}

#[test]
fn rot_is_found_and_healed() {
    let rig = Rig::new();
    create(&rig, "clay:4+2", 6);
    let files = tree(&rig);
    rig.kiln("cp tree pool:backup -q").ok();
    let before: Vec<_> = (0..6).map(|node| rig.snapshot(&format!("d{node:02}"))).collect();
    for node in [1, 4] {
        for name in shards(&rig, node) {
            flip(&rig.path(format!("d{node:02}/{name}")), 4200, 3);
        }
    }
    rig.kiln("status").ok();
    rig.kiln("scrub --quick").ok();
    let report = rig.kiln("scrub --json").code(1).json();
    assert_eq!(report["damaged"], 3);
    comes_back(&rig, &files);
    rig.kiln("status").code(1);
    rig.kiln("repair").ok();
    rig.kiln("scrub --deep").ok();
    comes_back(&rig, &files);
    for (node, before) in before.iter().enumerate() {
        let after = rig.snapshot(&format!("d{node:02}"));
        let shard = |file: &&(std::path::PathBuf, Vec<u8>)| {
            file.0.extension().is_some_and(|extension| extension == "kiln")
        };
        let (old, new) = (before.iter().filter(shard), after.iter().filter(shard));
        assert!(old.eq(new), "node {node}: the repaired shards are the same as ever");
    }
}

#[test]
fn too_much_loss_is_said() {
    let rig = Rig::new();
    create(&rig, "rs:4+2", 6);
    rig.data("object", 100_000, 1);
    rig.kiln("put object -q").ok();
    for node in ["d00", "d02", "d05"] {
        rig.remove(node);
    }
    rig.kiln("get object -o back").fails(2, &["object"]);
    assert!(!rig.path("back").exists());
    rig.kiln("status").code(2);
    // Three copies of a manifest may all be on the three that are gone.
    for command in ["ls", "status", "repair"] {
        rig.kiln(command).code(2);
    }
    std::fs::remove_file(rig.path("pool.index.redb")).unwrap();
    assert!(rig.kiln("ls").code(2).stderr.contains("may be incomplete"));
    rig.kiln("repair -q").code(2);
    for node in ["d01", "d03", "d04"] {
        rig.remove(node);
    }
    for command in ["ls", "status", "scrub", "repair"] {
        // Nothing is known then, not even that anything is lost.
        rig.kiln(command).fails(4, &["no node"]);
    }
}

#[test]
fn a_drained_node_is_empty_and_nothing_is_lost() {
    let rig = Rig::new();
    create(&rig, "clay:3+2", 7);
    let files = tree(&rig);
    rig.kiln("cp tree pool:backup -q").ok();
    rig.kiln("pool drain n02 -v").ok();
    assert_eq!(shards(&rig, 2), Vec::<String>::new());
    let manifests = rig.names("d02").iter().filter(|name| name.ends_with(".manifest")).count();
    assert_eq!(manifests, 0);
    rig.remove("d02");
    rig.kiln("status").ok();
    rig.kiln("scrub").ok();
    comes_back(&rig, &files);
    // A dead node can be drained too: its shards are rebuilt from the others.
    rig.remove("d05");
    rig.kiln("pool drain n05 -q").ok();
    rig.kiln("scrub").ok();
    comes_back(&rig, &files);
    rig.kiln("pool drain n01").fails(3, &["domains"]);
    rig.kiln("pool add-node n10 d00").fails(3, &["where node n00 is", "add-node n00 --replace"]);
    rig.kiln("pool add-node n09 d09").ok();
    rig.kiln("pool drain n01 -q").ok();
    rig.kiln("scrub").ok();
    comes_back(&rig, &files);
}

#[test]
fn a_node_that_joins_gets_its_share() {
    let rig = Rig::new();
    create(&rig, "clay:3+2", 7);
    let files = tree(&rig);
    rig.kiln("cp tree pool:backup -q").ok();
    assert_eq!(rig.kiln("pool rebalance --json").ok().json()["shards_misplaced"], 0);
    rig.kiln("pool add-node n07 d07,weight=3").ok();
    let plan = rig.kiln("pool rebalance --dry-run --json").ok().json();
    assert!(plan["shards_misplaced"].as_u64().unwrap() > 0, "{plan}");
    assert_eq!(shards(&rig, 7), Vec::<String>::new());
    rig.kiln("pool rebalance --limit-rate 200MiB").ok();
    assert_eq!(shards(&rig, 7).len() as u64, plan["shards_moved"].as_u64().unwrap());
    assert_eq!(rig.kiln("pool rebalance --json").ok().json()["shards_misplaced"], 0);
    rig.kiln("scrub --deep").ok();
    let status = rig.kiln("status --json").ok().json();
    let nodes = status["nodes"].as_array().unwrap();
    let room =
        |node: &serde_json::Value| node["bytes_free"].as_u64() < node["bytes_total"].as_u64();
    assert!(nodes.len() == 8 && nodes.iter().all(room), "{status}");
    comes_back(&rig, &files);
    rig.remove("d07");
    comes_back(&rig, &files);
}

#[test]
fn ranges_streams_names_and_mistakes() {
    let rig = Rig::new();
    create(&rig, "rs:2+1", 3);
    let bytes = data(3_000_000, 9);
    rig.kiln_with_input("put - stream/of-bytes -q", &bytes).ok();
    rig.kiln("get stream/of-bytes --range 1MiB+1000 -o part -q").ok();
    assert!(rig.read("part") == bytes[1 << 20..(1 << 20) + 1000]);
    rig.kiln("get stream/of-bytes -q").ok();
    assert!(rig.read("of-bytes") == bytes);
    rig.kiln("get stream/of-bytes").fails(5, &["of-bytes"]);
    rig.kiln("put part stream/of-bytes").fails(5, &["exists already", "give --force to replace"]);
    rig.kiln("put part stream/of-bytes --force").ok();
    rig.kiln("get stream/of-bytes -o again -q").ok();
    assert!(rig.read("again") == rig.read("part"));
    rig.kiln("put part ../outside").fails(3, &["relative path"]);
    rig.kiln("get nothing").fails(7, &["no object"]);
    let folder = rig.kiln("get stream").fails(7, &["no object"]);
    assert!(folder.stderr.contains("kiln cp pool:stream TO"), "{}", folder.stderr);
    rig.kiln("get stream/of-bytes --range 5").fails(3, &["START+LENGTH"]);
    rig.kiln("ls --pool absent.toml").fails(4, &["absent.toml"]);
    rig.kiln("pool create -c rs:2+1 --node a --node b --node c").fails(5, &["pool.toml"]);
    rig.kiln("pool create p2.toml -c rs:4+2 --node a --node b").fails(3, &["6 distinct domains"]);
    rig.kiln("pool create p2.toml -c rs:1+1 --node d00 --node e1").fails(5, &["pool"]);
    assert!(!rig.path("p2.toml").exists());
    fs::write(rig.path("bad.toml"), "version = 7").unwrap();
    rig.kiln("ls --pool bad.toml").fails(3, &["version 7"]);
    rig.kiln("repair --scan").fails(3, &["--scan"]);
    rig.kiln("rm stream/of-bytes").ok();
    rig.kiln("rm stream/of-bytes").fails(7, &["no object"]);
    rig.kiln("put part a/b -q").ok();
    rig.kiln("rm -r a").ok();
    assert_eq!(rig.kiln("ls").ok().stdout, "");
    rig.kiln("scrub --grace 0").ok();
    rig.kiln("scrub --grace 0").ok();
    // Identity, description and perhaps a log of changes: no file of any object is left.
    for node in 0..3 {
        let names = rig.names(&format!("d{node:02}"));
        assert!((2..=3).contains(&names.len()), "{names:?}");
    }
}
