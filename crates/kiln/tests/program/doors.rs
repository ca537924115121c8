//! Places by their URL, for every command that takes one: known, unknown, and unfit.

use std::fs;

use crate::rig::Rig;

/// Places of no kind that there is.
const UNKNOWN: [&str; 3] = ["s4://bucket/x", "klin://x", "hdsf:///x"];

/// Every command that takes the name of a place, a folder or a file.
const COMMANDS: [&str; 21] = [
    "encode object -c rs:2+1 -o @",
    "encode object -c rs:2+1 -o a -o @ -o b",
    "encode @ -c rs:2+1 -o a",
    "encode object -c rs:2+1 --format raw -o @",
    "decode @ -o back",
    "decode shards -o @",
    "verify @",
    "repair @",
    "repair shards @",
    "repair shards --lost 0 --to @",
    "inspect @",
    "probe @",
    "agent --plain --dir @",
    "coordinator @ --to kiln+plain://127.0.0.1:1",
    "pool create new.toml -c rs:2+1 --node c --node d --node @",
    "pool add-node x @ -p pool.toml",
    "put @ name -p pool.toml",
    "get object -o @ -p pool.toml",
    "cp @ pool: -p pool.toml",
    "cp pool: @ -p pool.toml",
    "cp pool:object @ -p pool.toml",
];

fn furnished() -> Rig {
    let rig = Rig::new();
    rig.encoded("rs:2+1", "", 10_000);
    let nodes = "--node n0 --node n1 --node n2 --node n3 --node n4 --node n5 --node n6";
    rig.kiln(&format!("pool create pool.toml -c rs:2+1 {nodes}")).ok();
    rig.kiln("put object -p pool.toml").ok();
    rig
}

#[test]
fn a_place_of_an_unknown_kind_is_told_what_is_known_and_makes_no_folder() {
    let rig = furnished();
    // But for locks and the index beside the pool's description.
    let seen = || {
        let names: Vec<String> =
            rig.names(".").into_iter().filter(|name| !name.starts_with("pool.")).collect();
        (names.iter().map(|name| rig.snapshot(name)).collect::<Vec<_>>(), names)
    };
    let before = seen();
    for command in COMMANDS {
        for place in UNKNOWN {
            let known = if command.contains("coordinator") { "kiln://" } else { "file:///folder" };
            rig.kiln(&command.replace('@', place)).fails(3, &[place, known]);
        }
    }
    assert!(seen() == before, "something was made or changed");
}

#[test]
fn a_bucket_that_cannot_be_meant_is_refused_before_anything_is_made() {
    let rig = furnished();
    let before = rig.names(".");
    for (place, why) in [
        ("s3://Upper/x", "3 to 63 characters"),
        ("s3://bucket/a//b", "single '/'"),
        ("s3://bucket/x?endpoint=ftp://host", "endpoint"),
        ("s3://bucket/x?pasword=1", "known: endpoint, region, profile, timeout"),
        ("s3://bucket/x?profile=nobody-here", "AWS_ACCESS_KEY_ID"),
    ] {
        let keyed = |words: &str| {
            let mut command = rig.command(words);
            command.env("AWS_ACCESS_KEY_ID", "k").env("AWS_SECRET_ACCESS_KEY", "s");
            Rig::end(command)
        };
        keyed(&format!("encode object -c rs:2+1 -o a -o b -o {place}")).fails(3, &[why]);
        keyed(&format!("inspect {place}")).fails(3, &[why]);
        keyed(&format!("pool create new.toml -c rs:2+1 --node c --node d --node {place}"))
            .fails(3, &[why]);
    }
    assert_eq!(rig.names("."), before);
}

#[test]
fn help_lists_the_kinds_of_places() {
    let help = Rig::new().kiln("--help").ok().stdout;
    for word in ["file:///folder", "kiln://host:port", "s3://bucket/prefix", "./odd://name"] {
        assert!(help.contains(word), "{word} is not in {help}");
    }
}

#[test]
fn a_url_of_a_folder_is_the_folder() {
    let rig = Rig::new();
    let data = rig.data("object", 10_000, 1);
    let url = format!("file://{}", rig.path("shards").display());
    rig.kiln(&format!("encode object -c rs:2+1 -o {url}")).ok();
    assert_eq!(rig.names("shards").len(), 3);
    rig.kiln(&format!("verify {url}")).ok();
    rig.kiln(&format!("inspect {url} {url}/object.00.kiln")).ok();
    rig.kiln(&format!("decode {url} -o file://{}", rig.path("back").display())).ok();
    assert_eq!(fs::read(rig.path("back")).unwrap(), data);
    rig.remove("shards/object.00.kiln");
    rig.kiln(&format!("repair {url}")).ok();
    rig.kiln(&format!("verify {url} shards")).fails(3, &["given twice"]);
    // A folder may have such a name, if it is meant.
    rig.kiln("encode object -c rs:2+1 -o ./odd://name").ok();
    assert_eq!(rig.names("odd:/name").len(), 3);
}

#[test]
fn a_place_that_cannot_do_what_is_needed_is_refused_before_anything_is_written() {
    let rig = Rig::new();
    rig.data("object", 10_000, 1);
    for command in [
        "encode object -c rs:2+1 -o a -o b -o memory://c",
        "encode object -c rs:2+1 --format raw -o memory://c",
        "agent --plain --dir memory://c",
        "pool create pool.toml -c rs:2+1 --node a --node b --node c --node memory://d",
    ] {
        let words = ["memory", "cannot keep files when this program ends", "name another place"];
        rig.kiln(command).fails(3, &words);
    }
    assert_eq!(rig.names("."), ["object"]);
}
