//! Upgrades: what an earlier release wrote is read and changed by this one, and agents are
//! exchanged one by one under a pool in use.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::agents::Agent;
use crate::rig::{Rig, data};

/// A pool, shards and a volume as release 0.1.0 left them, the volume by a kill: its last writes
/// are in its log alone. Nodes are described as folders of another place.
const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/0.1.0");
/// That place.
const WAS: &str = "file:///tmp/pool/";

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// The pool of an earlier release, moved to a place of this test.
fn earlier_pool() -> Rig {
    let rig = Rig::new();
    copy(VECTORS.as_ref(), &rig.path("."));
    let text = String::from_utf8(rig.read("pool.toml")).unwrap();
    let place = format!("file://{}/", rig.path(".").canonicalize().unwrap().display());
    fs::write(rig.path("pool.toml"), text.replace(WAS, &place)).unwrap();
    rig
}

#[test]
fn what_an_earlier_release_wrote_is_read_and_changed() {
    let rig = earlier_pool();
    let inline = rig.read("inline");
    assert_eq!(rig.kiln("ls").ok().stdout, "a/coded\na/inline\na/sealed\ntree/sub/file\n");
    rig.kiln("status").ok();
    for name in ["a/inline", "a/sealed", "tree/sub/file"] {
        rig.kiln(&format!("get {name} -o back --force -q")).ok();
        assert!(rig.read("back") == inline, "{name}");
    }
    rig.kiln("get a/coded -o coded -q").ok();
    rig.kiln("get gone -o back --force").fails(7, &["gone"]);
    rig.kiln("decode shards -o back --force -q").ok();
    assert!(rig.read("back") == inline);
    rig.kiln("verify shards").ok();
    // The map moved with the folders, all copies verify, and the log is taken up.
    rig.kiln("scrub --deep").ok();
    let check = rig.kiln("volume check disk --json").ok().json();
    assert_eq!((&check["blocks"], &check["damaged_count"]), (&18.into(), &0.into()));
    // A node is lost and made anew, by this release.
    rig.remove("d1");
    fs::create_dir(rig.path("d1")).unwrap();
    rig.kiln("pool add-node --replace n01 d1 -q").ok();
    rig.kiln("repair -q").ok();
    rig.kiln("scrub --deep").ok();
    rig.kiln("get a/coded -o back --force -q").ok();
    assert!(rig.read("back") == rig.read("coded"));
    rig.kiln("put inline a/coded --force -q").ok();
    rig.kiln("volume rm disk --yes -q").ok();
    rig.kiln("status").ok();
}

/// A pool that a later release wrote is refused with its version, and not changed.
#[test]
fn what_a_later_release_wrote_is_refused() {
    let rig = earlier_pool();
    let text = String::from_utf8(rig.read("pool.toml")).unwrap();
    fs::write(rig.path("later.toml"), text.replace("version = 2", "version = 3")).unwrap();
    let before = rig.snapshot("d0");
    for words in ["ls", "status", "get a/inline -o back", "put inline new", "repair", "scrub"] {
        rig.kiln(&format!("{words} -p later.toml")).fails(3, &["version 3", "up to 2"]);
    }
    assert!(rig.snapshot("d0") == before);
    // A shard of a later version is none that this program knows.
    let mut shard = rig.read("shards/inline.01.kiln");
    shard[8..10].copy_from_slice(&9u16.to_le_bytes());
    fs::write(rig.path("shards/inline.01.kiln"), &shard).unwrap();
    rig.kiln("verify shards").code(1);
    rig.kiln("decode shards -o back -q").ok();
    assert!(rig.read("back") == rig.read("inline"));
}

/// An agent by the earlier release that the environment names, else by this one.
fn agent(rig: &Rig, node: usize, listen: &str, earlier: bool) -> Agent {
    let other = std::env::var_os("KILN_EARLIER").filter(|_| earlier);
    let words = format!("agent --dir d{node} --listen {listen} --json --plain");
    let mut command = match other {
        None => rig.command(&words),
        Some(program) => {
            let mut command = Command::new(program);
            command.args(words.split_whitespace()).current_dir(rig.path("."));
            command
        }
    };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    Agent::began(command.spawn().unwrap())
}

/// All agents are exchanged, one at a time, and some of them back again, while clients go on.
#[test]
fn agents_are_exchanged_one_by_one_under_a_pool_in_use() {
    let rig = Rig::new();
    let mut agents: Vec<Agent> = (0..5).map(|at| agent(&rig, at, "127.0.0.1:0", true)).collect();
    let nodes: Vec<String> =
        agents.iter().map(|agent| format!("--node {}", agent.address)).collect();
    rig.kiln(&format!("pool create -c rs:2+1 {}", nodes.join(" "))).ok();
    let bytes = data(200_000, 1);
    fs::write(rig.path("input"), &bytes).unwrap();
    for (step, (node, back)) in
        [(0, false), (1, false), (2, false), (1, true), (3, false), (4, false), (1, false)]
            .into_iter()
            .enumerate()
    {
        let listen = agents[node].address.trim_start_matches("kiln+plain://").to_owned();
        let listen = listen.split('/').next().unwrap().to_owned();
        let gone = agents.remove(node);
        gone.kill();
        // While one is away its objects are read, and others written.
        rig.kiln(&format!("put input o{step} -q")).ok();
        agents.insert(node, agent(&rig, node, &listen, back));
        for known in 0..=step {
            rig.kiln(&format!("get o{known} -o back --force -q")).ok();
            assert!(rig.read("back") == bytes, "o{known} after step {step}");
        }
        rig.kiln("repair -q").ok();
    }
    rig.kiln("rm o0 -q").ok();
    rig.kiln("scrub --deep").ok();
    rig.kiln("status").ok();
}
