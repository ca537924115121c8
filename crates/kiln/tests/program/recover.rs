//! `kiln plan --recover`: whole machines.

use crate::rig::Rig;

#[test]
fn a_spread_recovery_stays_within_five_percent_of_its_bound() {
    let rig = Rig::new();
    let words =
        "plan -c clay:10+4 --recover --nodes 21 --stripes 100 --chunk 256MiB --menu central";
    let report = rig.kiln(&format!("{words} --json")).ok().json();
    assert_eq!(report["stripes"], 100);
    let (makespan, bound) = (&report["makespan"], &report["bound_makespan"]);
    let ratio = makespan.as_f64().unwrap() / bound.as_f64().unwrap();
    assert!((1.0..1.05).contains(&ratio), "{ratio}");
    assert_eq!(report["table"].as_array().unwrap().len(), 21);
    assert_eq!(report["table"][0]["sent"], 0, "the lost machine does nothing");
    let alone = rig.kiln(&format!("{words} --alone --json")).ok().json();
    assert!(alone["ratio"].as_f64().unwrap() > 1.2);
    let text = rig.kiln(&format!("{words} -v")).ok();
    assert!(
        text.stdout.contains("100 stripes with chunks of 256 MiB lost on n0"),
        "{}",
        text.stdout
    );
}

#[test]
fn stripes_and_machines_come_from_files() {
    let rig = Rig::new();
    let node =
        |i: usize| format!("[[node]]\nid = \"m{i}\"\ndomain = \"r{}\"\nup = \"1GB\"\n", i % 4);
    let cluster: String = (0..9).map(node).collect();
    std::fs::write(rig.path("cluster.toml"), cluster).unwrap();
    let stripes = "# three stripes\nm0 m1 m2 m3 m4 m5\nm2,m3,m4,m0,m6,m7\n- m3 m0 m4 m1 m5\n";
    std::fs::write(rig.path("stripes"), stripes).unwrap();
    let words = "plan -c rs:4+2 --recover --cluster cluster.toml --layout stripes --failed m0";
    let report = rig.kiln(&format!("{words} --to m8 --chunk 1MB --json")).ok().json();
    assert_eq!(report["stripes"], 3);
    // The stripe that misses two chunks comes first.
    assert_eq!(
        (&report["classes"][0]["lost"], &report["classes"][0]["stripes"]),
        (&2.into(), &1.into())
    );
    assert_eq!(report["to"][0], "m8");
    // Nine machines in four racks: six chunks cannot all be apart, which is said.
    assert!(report["crowded"].as_u64().unwrap() > 0);
    let text = rig.kiln(&format!("{words} --to m8")).ok().stdout;
    assert!(text.contains("in a failure domain with another chunk"), "{text}");
    rig.kiln(&format!("{words} --to nobody")).fails(3, &["--to", "nobody", "m0 to m8"]);
    std::fs::write(rig.path("stripes"), "m0 m1 m2 m3 m4\n").unwrap();
    rig.kiln(words).fails(4, &["line 1", "5 chunks"]);
    std::fs::write(rig.path("stripes"), "m0 m1 m2 m3 m4 mm\n").unwrap();
    rig.kiln(words).fails(4, &["line 1", "mm"]);
    std::fs::write(rig.path("stripes"), "- - m0 m3 m4 m5\n").unwrap();
    rig.kiln(words).fails(2, &["stripe 0", "3 chunks are left, 4 are needed"]);
    std::fs::write(rig.path("cluster.toml"), "[[node]]\nid = \"a\"\nspeed = 1\n").unwrap();
    rig.kiln(words).fails(4, &["cluster.toml", "speed"]);
}

#[test]
fn what_is_missing_is_said() {
    let rig = Rig::new();
    rig.kiln("plan -c rs:4+2 --recover --stripes 5").fails(3, &["--nodes"]);
    rig.kiln("plan -c rs:4+2 --recover --nodes 9").fails(3, &["--stripes"]);
    rig.kiln("plan -c rs:4+2 --recover --nodes 5 --stripes 3").fails(3, &["6 chunks need 6 nodes"]);
    rig.kiln("plan -c rs:4+2 --recover --nodes 9 --stripes 3 --menu luck").fails(3, &["central"]);
    rig.kiln("plan -c rs:4+2 --stripes 3").fails(3, &["--recover"]);
}
