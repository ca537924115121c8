//! Requests of commands to places that are far away, counted at a small server of HDFS, and what
//! they do when it moves files.

use crate::rig::Rig;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout};
use std::{collections::BTreeMap, fs};

#[allow(dead_code, reason = "another crate's tests use the rest")]
#[path = "../../../remote/tests/hdfs/fake.rs"]
mod fake;

/// Six folders in one HDFS, each of a DataNode.
fn places() -> (fake::Fake, Vec<String>) {
    let hdfs = fake::Fake::start();
    let server = hdfs.authority();
    let place = |at| {
        hdfs.mkdir(&format!("/d{at}"));
        format!("hdfs://{server}/d{at}?datanode={server}&user=kiln")
    };
    let places = (0..6).map(place).collect();
    (hdfs, places)
}

/// An agent; ended by its id when dropped.
struct Agent {
    child: Child,
    address: String,
    /// Kept open: it must not find a closed pipe.
    _lines: BufReader<ChildStdout>,
}

impl Agent {
    /// Serves a place, once it says so.
    fn start(rig: &Rig, place: &str) -> Agent {
        let mut child = rig.start(&format!("agent --dir {place} --listen 127.0.0.1:0 --plain"));
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let address = line.split_whitespace().find(|word| word.starts_with("kiln"));
        let address = address.unwrap_or_else(|| panic!("no agent: {line}")).to_owned();
        Agent { child, address, _lines: lines }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A pool of these places.
fn create<'a>(rig: &Rig, places: impl Iterator<Item = &'a str>) {
    let node = |(at, place)| format!("--node {place},id=n{at}");
    let nodes: Vec<String> = places.enumerate().map(node).collect();
    rig.exits(0, &format!("pool create -c rs:4+2 {}", nodes.join(" ")));
}

/// A pool of six folders in one HDFS.
fn pool(rig: &Rig) -> fake::Fake {
    let (hdfs, places) = places();
    create(rig, places.iter().map(String::as_str));
    hdfs.state().log.clear();
    hdfs
}

/// A file "data" whose bytes depend on their position.
fn data(rig: &Rig) -> Vec<u8> {
    let words = (0..750_000u32).map(|at| at.wrapping_mul(0x9e37_79b9));
    let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
    fs::write(rig.path("data"), &bytes).unwrap();
    bytes
}

/// Requests of each operation since, and in all.
fn asked(hdfs: &fake::Fake) -> (BTreeMap<String, usize>, usize) {
    let log = std::mem::take(&mut hdfs.state().log);
    let mut counts = BTreeMap::new();
    for line in &log {
        let operation = line.split(' ').nth(1).unwrap_or_default();
        *counts.entry(operation.to_owned()).or_insert(0) += 1;
    }
    (counts, log.len())
}

/// A put looks at its name and at what is above it once before its data is written, and once under
/// its locks, which is what keeps it safe. The numbers may become smaller.
#[test]
fn a_put_asks_few_times() {
    let rig = Rig::new();
    let hdfs = pool(&rig);
    let bytes = data(&rig);
    for (put, code, most) in [
        ("put data a", 0, 156),
        ("put data b", 0, 157),
        ("put data b --force", 0, 165),
        // Two folders' own objects are looked for, and one is made.
        ("put data folder/one", 0, 255),
        ("put data folder/two", 0, 184),
        // What is there already is refused before anything is written.
        ("put data folder/two", 5, 76),
    ] {
        rig.exits(code, put);
        let (counts, all) = asked(&hdfs);
        assert!(all <= most, "{put}: {all} requests, {counts:?}");
        assert_eq!((code != 0), !counts.contains_key("CREATE"), "{put}: {counts:?}");
    }
    for name in ["a", "b", "folder/one", "folder/two"] {
        rig.exits(0, &format!("get {name} -o back --force -q"));
        assert!(rig.read("back") == bytes, "{name}");
    }
    // The logs of changes have one block each, however many changes there were.
    let parts = |at| hdfs.state().parts_of(&format!("/d{at}/.kiln-changes"));
    let parts: Vec<usize> = (0..6).map(parts).collect();
    assert!(parts.iter().all(|parts| *parts <= 1) && parts.contains(&1), "{parts:?}");
}

/// A block that HDFS moved to another DataNode is read; a scrub says so, and brings it back.
#[test]
fn a_scrub_brings_back_what_hdfs_moved() {
    let rig = Rig::new();
    let hdfs = pool(&rig);
    is_brought_back(&rig, &hdfs);
}

/// So do agents that serve such folders: each copies what belongs to its DataNode.
#[test]
fn agents_bring_back_what_hdfs_moved() {
    let rig = Rig::new();
    let (hdfs, places) = places();
    let agents: Vec<Agent> = places.iter().map(|place| Agent::start(&rig, place)).collect();
    create(&rig, agents.iter().map(|agent| agent.address.as_str()));
    is_brought_back(&rig, &hdfs);
}

fn is_brought_back(rig: &Rig, hdfs: &fake::Fake) {
    let bytes = data(rig);
    rig.exits(0, "put data a");
    let moved = hdfs.state().astray("/d1", Some(".kiln"));
    assert!(moved > 0);
    rig.exits(0, "get a -o back -q");
    assert!(rig.read("back") == bytes);
    let dry = rig.json(1, "scrub --dry-run --json");
    assert_eq!((&dry["astray"], &dry["damaged"]), (&moved.into(), &0.into()), "{dry}");
    assert_eq!(hdfs.state().astray("/d1", None), moved);
    let said = rig.exits(0, "scrub");
    assert!(said.contains(&format!("{moved} file")) && said.contains("brought back"), "{said}");
    assert_eq!(hdfs.state().astray("/d1", None), 0);
    assert!(rig.json(0, "scrub --json")["astray"].is_null());
    rig.exits(0, "get a -o back --force -q");
    assert!(rig.read("back") == bytes);
}
