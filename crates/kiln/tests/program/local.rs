//! A locally repairable code, by the program: what it reads, what it tolerates, and what is too
//! much.

use crate::pool::{create, shards};
use crate::rig::{Rig, data, shard};

#[test]
fn one_lost_shard_is_rebuilt_from_its_group() {
    let rig = Rig::new();
    let data = rig.encoded("lrc:12+2+2", "--sub-chunk 4096", 500_000);
    let whole = rig.snapshot("shards");
    let chunks = (500_000 / (12 * 4096)) * 4096 + 4096 / 2; // the last stripe is about half
    for (lost, helpers) in [(3, vec![0, 1, 2, 4, 5, 12]), (13, vec![6, 7, 8, 9, 10, 11])] {
        rig.remove(shard(lost));
        let dry = rig.kiln("repair shards --dry-run --json").ok().json();
        let report = rig.kiln("repair shards --json").ok().json();
        assert_eq!(report["strategy"], "repair");
        assert_eq!(report["helpers"], serde_json::json!(helpers));
        assert_eq!(report["bytes_read"], dry["bytes_read"]);
        let (read, written) = (&report["bytes_read"], &report["bytes_written"]);
        let (read, written) = (read.as_u64().unwrap(), written.as_u64().unwrap());
        assert_eq!(read, 6 * written, "k/l chunks for one");
        assert!(written.abs_diff(chunks) < 4096, "{written}");
        assert_eq!(rig.snapshot("shards"), whole);
    }
    rig.remove(shard(15));
    let report = rig.kiln("repair shards --json").ok().json();
    assert_eq!(report["helpers"].as_array().unwrap().len(), 12, "a global parity takes k");
    rig.decodes_to(&data);
}

#[test]
fn as_many_as_there_are_parities_may_be_lost_where_the_pattern_allows() {
    let rig = Rig::new();
    let data = rig.encoded("lrc:12+2+2", "", 300_000);
    let whole = rig.snapshot("shards");
    for lost in [[0, 1, 6, 7], [0, 6, 14, 15], [2, 3, 12, 13], [5, 11, 12, 14]] {
        lost.iter().for_each(|&index| rig.remove(shard(index)));
        rig.kiln("verify shards").code(1);
        rig.decodes_to(&data);
        rig.kiln("repair shards").ok();
        assert_eq!(rig.snapshot("shards"), whole, "{lost:?}");
    }
    // Two beyond the group's parity, and both global ones: one too many.
    for index in [0, 1, 2, 14] {
        rig.remove(shard(index));
    }
    for command in ["verify", "repair", "decode -o back"] {
        let mut words = command.split(' ');
        let (name, rest) = (words.next().unwrap(), words.collect::<Vec<_>>().join(" "));
        let ended = rig.kiln(&format!("{name} shards {rest}")).fails(2, &["not recoverable"]);
        assert!(ended.stderr.contains("12 of 16 shards, needs 12 of others"), "{}", ended.stderr);
    }
}

#[test]
fn what_people_are_told() {
    let rig = Rig::new();
    rig.data("object", 50_000, 1);
    let encoded = rig.kiln("encode object -c lrc:12+2+2 -o shards").ok();
    assert!(encoded.stdout.contains("any 3 may be lost"), "{}", encoded.stdout);
    let file = rig.kiln("inspect shards/object.00.kiln").ok();
    assert!(file.stdout.contains("0 of 16, any 3 may be lost"), "{}", file.stdout);
    let card = rig.kiln("codes lrc:12+2+2 --json").ok().json();
    assert_eq!((&card["margin"], &card["m"]), (&3.into(), &4.into()));
    assert_eq!(
        (&card["repair_chunks_min"], &card["repair_chunks_max"]),
        (&6.0.into(), &12.0.into())
    );
    // Huang et al. count 86 % of four losses for this code.
    assert_eq!((card["survived"].as_f64().unwrap() * 100.0).round(), 86.0);
    assert!(
        rig.kiln("codes lrc:12+2+2").ok().stdout.contains("any 3, and 86 % of the patterns of 4")
    );
    let ceph = rig.kiln("codes plugin=lrc,k=4,m=2,l=3").ok();
    assert!(ceph.stdout.contains("its shards 0, 1, 4, 5, 3, 7, 2, 6"), "{}", ceph.stdout);
    let plan = rig.kiln("plan -c lrc:12+2+2 --lost 0 --json").ok().json();
    assert_eq!((&plan["chunks_read"], &plan["strategy"]), (&6.0.into(), &"repair".into()));
    let average = rig.kiln("plan -c lrc:12+2+2 --average 4 --json").ok().json();
    assert_eq!(average["patterns"], 1820);
    assert_eq!(average["not_recoverable"], 252);
    rig.kiln("plan -c lrc:12+2+2 --lost 0,1,2,3").fails(2, &["count as 11"]);
    // A planner places any code's repair.
    rig.kiln("plan -c lrc:12+2+2 --lost 0 --strategy best").ok();
    rig.kiln("plan -c lrc:6+2+2 --recover --nodes 14 --stripes 40").ok();
    assert!(rig.kiln("codes --compare 12+4").ok().stdout.contains("lrc:12+2+2"));
}

#[test]
fn pools_hold_objects_of_it() {
    let rig = Rig::new();
    create(&rig, "lrc:4+2+2", 9);
    let bytes = data(700_000, 4);
    std::fs::write(rig.path("object"), &bytes).unwrap();
    rig.kiln("put object big").ok();
    rig.kiln("status").ok();
    let homes: Vec<usize> = {
        let stat = rig.kiln("stat big --json").ok().json();
        assert_eq!(stat["code"], "lrc:4+2+2,layout=kiln");
        let state = |state: &serde_json::Value| state["node"].as_str().unwrap()[1..].parse();
        stat["shards"].as_array().unwrap().iter().map(|shard| state(shard).unwrap()).collect()
    };
    let lose = |index: usize| {
        let node = homes[index];
        for name in shards(&rig, node) {
            rig.remove(format!("d{node:02}/{name}"));
        }
    };
    // One shard: its group of two others.
    lose(0);
    let status = rig.kiln("status --json").code(1).json();
    assert_eq!(status["endangered"]["2"], 1, "{status}");
    let report = rig.kiln("repair --json").ok().json();
    assert_eq!(report["repaired"], 1);
    rig.kiln("scrub --deep").ok();
    // As many as there are parities: two of each group.
    [0, 1, 2, 3].into_iter().for_each(lose);
    let status = rig.kiln("status --json").code(1).json();
    assert_eq!(status["endangered"]["0"], 1, "{status}");
    rig.kiln("get big -o back").ok();
    assert!(rig.read("back") == bytes);
    rig.kiln("repair").ok();
    rig.kiln("scrub --deep").ok();
    // A whole group and a global parity: three unknowns, two equations.
    [0, 1, 4, 6].into_iter().for_each(lose);
    let status = rig.kiln("status --json").code(2).json();
    assert_eq!(status["unreadable"], 1, "{status}");
    rig.kiln("stat big").code(2);
    rig.kiln("get big -o lost").fails(2, &["not recoverable"]);
    rig.kiln("repair").code(2);
}
