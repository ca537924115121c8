//! Orders of layers: shards made in any of them, and what `kiln plan --orders` says.

use std::fs;

use crate::rig::{Rig, shard};

#[test]
fn shards_in_any_order_describe_themselves() {
    let rig = Rig::new();
    let list = "# any permutation of 16 layers\n5 3 11 0 9, 14 1 7 12 2; 15 6 10 4 8 13\n";
    fs::write(rig.path("layers"), list).unwrap();
    for order in ["gray", "fewest", "balanced", "recursive:7:3", "gray:2.0.3.1/1-0", "layers"] {
        fs::write(rig.path("layers"), list).unwrap();
        let spec = format!("clay:5+2,order={order}");
        let data = rig.encoded(&spec, "--sub-chunk 256", 300_007);
        // A file's order is in the shards: the file is not needed again.
        rig.remove("layers");
        rig.kiln("verify shards --deep").ok();
        let whole = rig.snapshot("shards");
        for index in [0, 4, 5, 6] {
            rig.remove(shard(index));
            let plan = rig.kiln("repair shards --dry-run --json").ok().json();
            let done = rig.kiln("repair shards --json").ok().json();
            assert_eq!(plan["read_runs"], done["read_runs"], "{order} lost {index}");
            assert_eq!(rig.snapshot("shards"), whole, "{order}: shard {index} came back the same");
        }
        rig.remove(shard(1));
        rig.remove(shard(6));
        rig.decodes_to(&data);
        rig.remove("shards");
    }
}

/// Data shards are the user's bytes whatever the order: nothing is moved at write or read.
#[test]
fn data_stays_systematic() {
    let rig = Rig::new();
    rig.data("object", 4 * 8 * 512, 3);
    for (order, folder) in [("natural", "a"), ("gray", "b")] {
        let flags = format!("-c clay:4+2,order={order} --chunk 4096 --format raw -o {folder}");
        rig.kiln(&format!("encode object {flags} -q")).ok();
    }
    for index in 0..4 {
        let name = format!("object.{index}");
        assert!(rig.read(format!("a/{name}")) == rig.read(format!("b/{name}")));
    }
    assert!(rig.read("a/object.5") != rig.read("b/object.5"), "parity is another code's");
}

#[test]
fn plan_compares_orders() {
    let rig = Rig::new();
    let report = rig.kiln("plan -c clay:16+2 --orders --json").ok().json();
    assert_eq!((&report["s_seq"], &report["s_min"]), (&1022.into(), &520.into()));
    let rows = report["orders"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["order"] == name).unwrap();
    assert_eq!(row("natural")["s_total"], 1022);
    assert_eq!(row("gray")["s_total"], 520);
    assert_eq!(row("gray")["runs"][17], 128);
    assert_eq!(row("balanced")["most_runs"], 29);

    let weights = format!("{}5,5", "1,".repeat(12));
    let words = format!("plan -c clay:10+4,d=11 --orders --weights {weights} --json");
    let report = rig.kiln(&words).ok().json();
    let best = report["orders"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(best["order"], "gray:6.0.1.2.3.4.5");
    assert_eq!(best["runs"][13], 1);
    let text = rig.kiln(&words.replace(" --json", "")).ok().stdout;
    assert!(text.contains("no order has a weighted sum below"), "{text}");
    // What the plan counts is what a repair of such shards plans to read.
    let plan = rig.kiln("plan -c clay:16+2,order=gray --lost 17 --json").ok().json();
    assert_eq!(plan["read_runs"], 17 * 128);
}

#[test]
fn bad_orders_are_refused_in_one_line() {
    let rig = Rig::new();
    rig.data("object", 1000, 1);
    fs::write(rig.path("short"), "0 1 2").unwrap();
    let list: Vec<String> = (0..2048).map(|z| (z * 1171 % 2048).to_string()).collect();
    fs::write(rig.path("long"), list.join(" ")).unwrap();
    for (words, wanted) in [
        ("encode object -o s -c clay:4+2,order=spiral", "known: natural, gray"),
        ("encode object -o s -c clay:4+2,order=short", "lists 3 layers"),
        ("encode object -o s -c clay:18+4,d=19,order=long", "a shard has room for"),
        ("encode object -o s -c clay:4+2,order=list:x.y", "written by kiln"),
        ("encode object -o s -c clay:4+2,order=gray:0.1", "each of the digits"),
        ("plan -c rs:4+2 --orders", "only clay"),
        ("plan -c clay:4+2 --orders --weights 1,2", "weights"),
        ("plan -c clay:4+2 --orders --weights 1,2,x,4,5,6", "'x' is not a number"),
        ("plan -c clay:4+2 --weights 1,2,3,4,5,6", "--orders"),
    ] {
        rig.kiln(words).fails(3, &[wanted]);
    }
    rig.kiln("plan -c clay:4+2,order=/no/such/file --orders").fails(4, &["/no/such/file"]);
    assert!(!rig.path("s").exists(), "nothing was written");
}
