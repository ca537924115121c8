//! Help, usage errors, and the commands that need no data.

use std::time::Instant;

use crate::rig::Rig;

/// The commands that `kiln --help` lists: what is added to the table is tested.
fn commands(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines.take_while(|line| !line.is_empty());
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

#[test]
fn help_explains_itself() {
    let rig = Rig::new();
    let help = rig.kiln("--help").ok();
    assert_eq!(help.stderr, "");
    let commands = commands(&help.stdout);
    assert!(commands.len() > 15 && commands.contains(&"coordinator"), "{commands:?}");
    for command in commands {
        let own = rig.kiln(&format!("{command} --help")).ok().stdout;
        for part in ["Usage:", "Examples:", "Exit codes:", "--json", "--limit-rate", "--threads"] {
            assert!(own.contains(part), "{command} --help lacks '{part}'");
        }
        assert!(own.lines().all(|line| line.chars().count() <= 100), "{command}: long line");
        for jargon in ["MDS", "GF(", "sub-packetization", "coupled"] {
            assert!(!own.contains(jargon), "{command} --help uses '{jargon}'");
        }
    }
    assert!(rig.kiln("--version").ok().stdout.starts_with("kiln "));
}

#[test]
fn wrong_usage_is_exit_code_3_in_one_line() {
    let rig = Rig::new();
    rig.data("object", 1000, 1);
    let cases: &[(&str, &str)] = &[
        ("encod object", "encode"),
        ("encode", "--code"),
        ("encode object -c rs:2+1", "--output"),
        ("encode object -c rs:2+1 -o a -o b", "3"),
        ("encode object -c rs:2+1 -o a -o a -o b", "twice"),
        ("encode object -c rs:2+1 -o a --sub-chunk 4x", "64KiB"),
        ("encode object -c rs:2+1 -o a --sub-chunk 0", "--sub-chunk"),
        ("encode object -c clay:4+2 -o a --chunk 1004", "1008 is"),
        ("encode object -c clay:4+2 -o a --chunk 1001", "1008 is"),
        ("encode object -c rs:2+1 -o a --threads 0", "--threads"),
        ("encode object -c rs:2+1 -o a --limit-rate 0", "--limit-rate"),
        ("encode object -c rs:2+1 -o a --name a/b", "--name"),
        ("encode object -c rs:2+1 -o a --name .hidden", "--name"),
        ("encode - -c rs:2+1 -o a --format tape", "kiln, raw"),
        ("encode . -c rs:2+1 -o a/b --name x", "lies in the folder"),
        ("decode . -o - --unpack", "--unpack"),
        ("verify . --all --format raw --code rs:2+1 --size 9", "--all"),
        ("coordinator --stay --scrub-every 30", "e.g. 30d"),
        ("coordinator --scrub-every 30d", "--stay"),
        ("coordinator --http-token file", "--http"),
        ("coordinator --stay --on-finding true", "--scrub-every"),
        ("repair . --lost 1,x", "--lost"),
        ("repair . --lost 3-1", "backwards"),
        ("decode . -o back --format raw", "--code"),
        ("decode . -o back --size 5", "raw"),
        ("plan", "--code"),
        ("plan -c rs:4+2 --lost 0 --average 1", "cannot be used"),
        ("plan -c rs:4+2 --lost 9", "9"),
        ("plan -c rs:4+2 --average 3", "3"),
        ("plan -c rs:4+2 --average 0", "0"),
        ("verify . --nonsense", "--nonsense"),
    ];
    for (words, hint) in cases {
        rig.kiln(words).fails(3, &[hint]);
    }
    assert_eq!(rig.names("."), ["object"], "usage errors create nothing");
}

#[test]
fn codes_that_cannot_be_are_refused_with_the_reason() {
    let rig = Rig::new();
    rig.data("object", 1000, 1);
    let cases: &[(&str, &[&str])] = &[
        ("turbo:4+2", &["turbo", "rs", "clay", "rep"]),
        ("rs", &["rs"]),
        ("rs:0+2", &["rs"]),
        ("rs:4+2,x=1", &["x"]),
        ("rs:200+100", &["rs"]),
        ("rs:4+2,matrix=magic", &["magic", "cauchy"]),
        ("rs:22+4,matrix=isa", &["isa"]),
        ("rs:5+6,matrix=isa", &["isa"]),
        ("clay:4+2,d=9", &["d"]),
        ("clay:57+4", &["sub-chunks"]),
        ("clay:99999999999999999999+2", &["clay"]),
        ("plugin=clay,k=4", &["m"]),
    ];
    for (spec, hints) in cases {
        rig.kiln(&format!("encode object -c {spec} -o shards")).fails(3, hints);
        rig.kiln(&format!("codes {spec}")).fails(3, hints);
    }
    assert_eq!(rig.names("."), ["object"]);
}

#[test]
fn codes_and_plans_tell_the_papers_numbers() {
    let rig = Rig::new();
    let list = rig.kiln("codes --json").ok().json();
    let families: Vec<&str> = list["codes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["family"].as_str().unwrap())
        .collect();
    assert_eq!(families[..3], ["rs", "clay", "rep"]);
    assert_eq!(families.len(), kiln_code::CODES.len(), "{families:?}");
    for row in list["codes"].as_array().unwrap() {
        rig.kiln(&format!("codes {}", row["example"].as_str().unwrap())).ok();
    }
    let card = rig.kiln("codes clay:10+4 --json").ok().json();
    assert_eq!(card["alpha"], 256);
    assert_eq!(card["repair_chunks_mean"], 3.25);
    assert_eq!(card["repair_chunks_max"], 3.25);
    let plan = rig.kiln("plan -c clay:10+4 --lost 0 --json --chunk 1MiB").ok().json();
    assert_eq!(plan["bytes_read"], 13 * (1 << 20) / 4);
    assert_eq!(plan["read_runs"], 13);
    let plan = rig.kiln("plan -c rs:10+4 --lost 0 --json --chunk 1MiB").ok().json();
    assert_eq!(plan["bytes_read"], 10 << 20);
    let plan = rig.kiln("plan -c rdp:10+2 --lost 0 --json --chunk 1000KiB").ok().json();
    assert_eq!(plan["bytes_read"], 7_680_000, "3/4 of 10 chunks");
    let all = rig.kiln("plan -c clay:10+4 --json").ok().json();
    assert_eq!(all["losses"].as_array().unwrap().len(), 14);
    let average = rig.kiln("plan -c clay:10+4 --average 1 --json").ok().json();
    assert_eq!(average["mean_chunks"], 3.25);
    assert_eq!(average["exhaustive"], true);
    rig.kiln("plan -c rs:4+2 --lost 0,1,2").fails(2, &["not recoverable"]);
}

#[test]
fn codes_compare_side_by_side() {
    let rig = Rig::new();
    let report = rig.kiln("codes --compare 6+2 --json").ok().json();
    let row = |code: &str| {
        let rows = report["codes"].as_array().unwrap();
        rows.iter().find(|row| row["code"] == code).unwrap_or_else(|| panic!("no {code}")).clone()
    };
    assert_eq!(row("rdp:6+2")["xors"], 2.0 * 5.0 / 6.0);
    assert_eq!(row("rdp:6+2")["multiplications"], 0.0);
    assert_eq!(row("rs:6+2")["updates"], 2.0);
    assert_eq!(row("clay:6+2")["repair_chunks_mean"], 3.5);
    assert!(row("liberation:6+2")["encode_bytes_per_second"].as_f64().unwrap() > 0.0);
    let impossible = report["impossible"].as_array().unwrap();
    assert!(impossible.iter().any(|row| row["family"] == "star"));
    rig.kiln("codes --compare six").fails(3, &["K+M"]);
    let simulated = |variable: &str, value: &str| {
        let mut command = rig.command("codes rs:4+2 -v");
        command.env(variable, value).output().unwrap()
    };
    // Lines are wrapped.
    let text = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let shown = text(&simulated("KILN_CACHES", "2M,480M").stdout);
    assert!(shown.contains("last level 32 MiB of 480 MiB; KILN_CACHES"), "{shown}");
    let shown = text(&simulated("KILN_TUNE", "rs=nt:t0:512").stdout);
    assert!(shown.contains("512 bytes ahead into the first level (KILN_TUNE)"), "{shown}");
    for (variable, value) in [("KILN_CACHES", "much"), ("KILN_TUNE", "fast")] {
        let failed = simulated(variable, value);
        assert!(!failed.status.success() && text(&failed.stderr).contains(variable), "{failed:?}");
    }
    rig.kiln("codes --compare 255+2").fails(3, &["256 at most"]);
    rig.kiln("codes rs:4+2 --compare 4+2").fails(3, &["cannot be used"]);
}

#[test]
fn the_rate_limit_holds() {
    let rig = Rig::new();
    rig.data("object", 2 << 20, 1);
    let start = Instant::now();
    rig.kiln("encode object -c rs:4+2 --sub-chunk 16KiB -o shards -q --limit-rate 2MiB").ok();
    let seconds = start.elapsed().as_secs_f64();
    assert!(seconds > 0.8, "2 MiB at 2 MiB/s took {seconds:.2} s");
}
