//! Pools whose nodes are agents: processes of their own, mutual TLS, killed and stopped.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::agents::Agent;
use crate::rig::{Rig, data, flip};

/// A pool of agents `d0`, `d1`, ... and objects in it.
pub struct Scene {
    pub rig: Rig,
    pub agents: Vec<Option<Agent>>,
    pub objects: Vec<(String, Vec<u8>)>,
}

impl Scene {
    pub fn new(code: &str, nodes: usize, sizes: &[usize]) -> Scene {
        Scene::with_flags(&format!("-c {code}"), nodes, sizes)
    }

    /// As [`Scene::new`], with more flags of `pool create` than the code.
    pub fn with_flags(flags: &str, nodes: usize, sizes: &[usize]) -> Scene {
        let rig = Rig::new();
        rig.kiln("agent --init --key cluster.key").ok();
        let mut scene = Scene { rig, agents: Vec::new(), objects: Vec::new() };
        for at in 0..nodes {
            let agent = Agent::start(&scene.rig, &format!("d{at}"), "--key cluster.key");
            scene.agents.push(Some(agent));
        }
        let nodes: Vec<String> = scene
            .agents
            .iter()
            .flatten()
            .enumerate()
            .map(|(at, agent)| format!("--node {},id=n{at}", agent.address))
            .collect();
        scene.ok(&format!("pool create {flags} {}", nodes.join(" ")));
        for (at, size) in sizes.iter().enumerate() {
            scene.put(&format!("o{at}"), *size);
        }
        scene
    }

    pub fn put(&mut self, name: &str, size: usize) {
        let bytes = data(size, self.objects.len() as u64 + 1);
        fs::write(self.rig.path("input"), &bytes).unwrap();
        self.ok(&format!("put input {name} -q"));
        self.objects.push((name.to_owned(), bytes));
    }

    #[track_caller]
    pub fn ok(&self, words: &str) -> crate::rig::Ended {
        self.rig.kiln(&format!("{words} --key cluster.key")).ok()
    }

    #[track_caller]
    pub fn recover(&self, flags: &str) -> Value {
        self.ok(&format!("coordinator --json --wait 0 {flags}")).json()
    }

    pub fn kill(&mut self, node: usize) {
        self.agents[node].take().unwrap().kill();
    }

    /// The file of a large shard on a node, or on the next one that has one.
    pub fn shard_of(&self, node: usize) -> PathBuf {
        let names = |node: usize| {
            let folder = format!("d{node}");
            let names = self.rig.names(&folder).into_iter();
            names.filter(|name| name.ends_with(".kiln")).map(move |name| format!("{folder}/{name}"))
        };
        let large = |name: &String| fs::metadata(self.rig.path(name)).unwrap().len() > 1_000_000;
        let nodes = (node..self.agents.len()).chain(0..node);
        self.rig.path(nodes.flat_map(names).find(large).unwrap())
    }

    /// Every object reads back, the pool is whole, and a full scrub finds nothing.
    #[track_caller]
    pub fn is_whole(&self) {
        for (name, bytes) in &self.objects {
            self.ok(&format!("get {name} -o back --force -q"));
            assert!(self.rig.read("back") == *bytes, "{name} came back different");
        }
        let scrub = self.rig.kiln("scrub --json --key cluster.key");
        assert!(scrub.code <= 1, "{}", scrub.stderr);
        assert_eq!(scrub.json()["damaged"], 0, "{}", scrub.stdout);
    }
}

#[test]
fn a_pool_of_agents_is_a_pool() {
    let mut scene = Scene::new("clay:4+2", 7, &[10, 100_000, 5_000_000]);
    assert!(scene.ok("status --json").json()["whole"] == 3);
    scene.ok("get o2 -o part --range 4000000+100 -q");
    assert!(scene.rig.read("part") == scene.objects[2].1[4_000_000..4_000_100]);
    scene.ok("rm o1");
    scene.objects.remove(1);
    scene.is_whole();
    flip(&scene.shard_of(0), 9_000, 3);
    let found = scene.rig.kiln("scrub --json --key cluster.key").code(1).json();
    assert_eq!(found["damaged"], 1, "{found}");
    let report = scene.recover("");
    assert_eq!((&report["repaired"], &report["failed_count"]), (&1.into(), &0.into()));
    scene.is_whole();
    scene.kill(2);
    scene.ok("get o2 -o back --force -q");
    assert!(scene.rig.read("back") == scene.objects[1].1);
    scene.rig.kiln("status --key cluster.key").code(1);
}

#[test]
fn a_pool_of_agents_takes_another_code() {
    let mut scene = Scene::new("rs:4+2", 7, &[10, 100_000, 5_000_000]);
    for code in ["clay:4+2", "clay:3+2"] {
        let done = scene.ok(&format!("pool recode --to {code} --json")).json();
        assert_eq!((&done["recoded"], &done["moved"]), (&2.into(), &done["planned"]), "{done}");
        for (name, bytes) in &scene.objects {
            scene.ok(&format!("get {name} -o back --force -q"));
            assert!(scene.rig.read("back") == *bytes, "{name}");
        }
        if code == "clay:4+2" {
            scene.is_whole();
            scene.kill(3);
        }
    }
}

#[test]
fn a_lost_agent_is_rebuilt_by_the_others_with_the_traffic_of_the_plans() {
    let mut scene = Scene::new("clay:4+2", 9, &[10, 200_000, 5_000_000, 5_000_000, 6_000_001]);
    for (lost, flags) in [(1, "--strategy hub"), (2, "--strategy central --to n8"), (3, "")] {
        scene.kill(lost);
        let report = scene.recover(flags);
        assert_eq!(report["failed_count"], 0, "{report}");
        assert_eq!((&report["waiting"], &report["replanned_count"]), (&0.into(), &0.into()));
        for what in ["sent", "max_node_load"] {
            let measured = &report[if what == "sent" { "bytes_sent" } else { what }];
            assert_eq!(*measured, report[format!("planned_{what}")], "{flags}, {what}: {report}");
        }
        scene.is_whole();
        // Back with an empty folder, as a new node; shards stay where they are now.
        let agent = Agent::start(&scene.rig, &format!("new{lost}"), "--key cluster.key");
        let node = format!("n{lost} {} --replace", agent.address);
        scene.ok(&format!("pool add-node {node}"));
        scene.agents[lost] = Some(agent);
    }
}

#[test]
fn a_pool_is_rebuilt_by_the_cheapest_plans() {
    let mut scene = Scene::new("rs:4+2", 7, &[5_000_000, 5_000_000, 6_000_001]);
    let nodes = |nodes: &[usize]| {
        let nodes: Vec<String> = nodes.iter().map(|node| format!("\"n{node}\"")).collect();
        nodes.join(", ")
    };
    let table = format!(
        "currency = \"EUR\"\ngets_1000 = 0.001\ngigabyte = 1.0\n[zone.a]\nnodes = [{}]\n[zone.b]\n\
         nodes = [{}]\n",
        nodes(&[0, 1, 2, 3]),
        nodes(&[4, 5, 6])
    );
    fs::write(scene.rig.path("prices.toml"), table).unwrap();
    scene.kill(1);
    let report = scene.recover("--price prices.toml --to n0,n2,n3,n4,n5,n6");
    assert_eq!((&report["failed_count"], &report["replanned_count"]), (&0.into(), &0.into()));
    assert_eq!(report["bytes_sent"], report["planned_sent"], "{report}");
    let price = &report["price"];
    assert_eq!(price["currency"], "EUR");
    let (planned, unweighed) =
        (price["planned"].as_f64().unwrap(), price["unweighed"].as_f64().unwrap());
    assert!(planned > 0.0 && planned < unweighed, "{report}");
    scene.is_whole();
    let wrong = "coordinator --wait 0 --price wrong.toml --key cluster.key";
    fs::write(scene.rig.path("wrong.toml"), "gets_1000 = -1\ngigabyte = 0\n").unwrap();
    scene.rig.kiln(wrong).fails(3, &["numbers from 0 on"]);
}

#[test]
fn a_node_that_leaves_is_emptied_by_all_agents_as_planned() {
    let mut scene = Scene::new("clay:4+2", 8, &[]);
    for at in 0..16 {
        scene.put(&format!("o{at:02}"), 4_000_000);
    }
    let planned = scene.ok("pool drain n0 --mark --json").json();
    let number = |what: &str| planned[what].as_u64().unwrap();
    assert!(number("copied") > 0 && number("rebuilt") > 0, "{planned}");
    assert_eq!(number("copied") + number("rebuilt"), number("shards"));
    assert!(number("max_node_load") < number("copied_max_node_load"), "{planned}");
    assert!(number("bound") <= number("max_node_load"), "{planned}");
    let text = scene.ok("pool drain n0 --mark").stdout;
    assert!(text.contains("copied from it") && text.contains("no plan gets below"), "{text}");
    let report = scene.recover("");
    assert_eq!(report["failed_count"], 0, "{report}");
    assert_eq!(report["repaired"], number("shards"), "{report}");
    // What is copied goes from agent to agent too, to where it was planned.
    assert_eq!((&report["central"], &report["replanned_count"]), (&0.into(), &0.into()));
    assert_eq!(report["strategies"]["copied"]["objects"], number("copied"), "{report}");
    let sent = report["bytes_sent"].as_u64().unwrap() as f64;
    assert!((sent / number("bytes") as f64 - 1.0).abs() < 0.01, "{sent} {planned}");
    scene.ok("pool drain n0 -q");
    assert!(scene.rig.names("d0").iter().all(|name| !name.ends_with(".kiln")));
    scene.kill(0);
    scene.is_whole();
}

#[test]
fn who_has_another_key_is_told_that_and_not_that_data_is_lost() {
    let scene = Scene::new("rs:2+1", 3, &[10]);
    scene.rig.kiln("agent --init --key other.key").ok();
    for command in ["status", "get o0 -o back", "ls"] {
        let command = format!("{command} --key other.key");
        scene.rig.kiln(&command).fails(8, &["no node", "not of the same cluster", "certificate"]);
    }
}

#[test]
fn agents_rebuild_what_a_sealed_pool_lost_and_cannot_forge_it() {
    let mut scene = Scene::with_flags("-c clay:4+2 --sealed", 8, &[10, 200_000, 5_000_000]);
    assert!(!scene.rig.names("d0").iter().any(|name| name.contains("key")));
    flip(&scene.shard_of(0), 9_000, 3);
    scene.kill(1);
    let report = scene.recover("");
    assert_eq!(report["failed_count"], 0, "{report}");
    scene.kill(2);
    // Read while shards are missing, by agents that compute.
    scene.ok("get o2 -o part --range 4000000+100 -q");
    assert!(scene.rig.read("part") == scene.objects[2].1[4_000_000..4_000_100]);
    let report = scene.recover("--strategy hub");
    assert_eq!(report["failed_count"], 0, "{report}");
    scene.is_whole();
}

#[test]
fn creating_a_pool_makes_the_key_and_waits_for_the_agents() {
    let rig = Rig::new();
    // Addresses that are free: an agent had each for a moment.
    rig.kiln("agent --init --key first.key").ok();
    let addresses: Vec<String> = (0..3)
        .map(|at| {
            let agent = Agent::start(&rig, &format!("d{at}"), "--key first.key");
            let address = agent.address.clone();
            agent.kill();
            address
        })
        .collect();
    let nodes: Vec<String> = addresses.iter().map(|address| format!("--node {address}")).collect();
    let create = format!("pool create -c rs:2+1 --key cluster.key {}", nodes.join(" "));
    // No client with the key is there, and it need not wait: the key stays for the next time.
    let ended = rig.kiln(&format!("{create} --wait 0"));
    assert!(ended.code != 0 && ended.stderr.contains("made cluster.key"), "{}", ended.stderr);
    assert!(!rig.path("pool.toml").exists());
    let key = rig.read("cluster.key");
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(rig.path("cluster.key")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
    // The agents are started while it waits.
    let agents = std::thread::scope(|scope| {
        let created = scope.spawn(|| rig.kiln(&format!("{create} --wait 120")));
        let start = |(at, address): (usize, &String)| {
            let socket = address.split('/').nth(2).unwrap();
            Agent::listening(&rig, &format!("d{at}"), "--key cluster.key", socket)
        };
        let agents: Vec<Agent> = addresses.iter().enumerate().map(start).collect();
        created.join().unwrap().ok();
        agents
    });
    assert!(rig.read("cluster.key") == key);
    fs::write(rig.path("input"), data(50_000, 1)).unwrap();
    rig.kiln("put input x --key cluster.key -q").ok();
    rig.kiln("get x -o back --key cluster.key -q").ok();
    assert!(rig.read("back") == rig.read("input"));
    // A pool of folders needs no key, and none is made.
    rig.kiln("pool create folders.toml -c rs:1+1 --node f0 --node f1 --key no.key").ok();
    assert!(!rig.path("no.key").exists());
    drop(agents);
}

/// Stopped processes: the system accepts connections for them, and they never answer. With m of
/// them every command ends within seconds, where each of them used to cost fifteen, and says which
/// they are.
#[test]
fn stopped_agents_cost_commands_little() {
    let scene = Scene::new("rs:3+2", 7, &[3_000_000, 100]);
    let signal = |scene: &Scene, node: usize, signal: &str| {
        let pid = scene.agents[node].as_ref().unwrap().pid().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    };
    [1, 4].iter().for_each(|node| signal(&scene, *node, "-STOP"));
    fs::write(scene.rig.path("input"), data(50_000, 9)).unwrap();
    for (words, code) in [
        ("get o0 -o back --force", 0),
        ("get o1 -o back --force", 0),
        ("put input new", 0),
        ("ls", 0),
        ("status", 1),
        ("cp pool:new copy", 0),
        ("rm new", 0),
    ] {
        let begin = Instant::now();
        let ended = scene.rig.kiln(&format!("{words} --key cluster.key"));
        let took = begin.elapsed();
        if words == "status" {
            for node in ["n1", "n4"] {
                let line = format!("{node} cannot be asked: ");
                let line = ended.stdout.lines().find(|said| said.starts_with(&line));
                assert!(line.is_some_and(|line| line.contains("silent")), "{}", ended.stdout);
            }
        }
        ended.code(code);
        assert!(took < Duration::from_secs(24), "{words} took {took:?}");
    }
    [1, 4].iter().for_each(|node| signal(&scene, *node, "-CONT"));
    scene.is_whole();
}
