//! Pools whose nodes are agents: processes of their own, with mutual TLS.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::agents::Agent;
use crate::rig::{Rig, data};

/// A pool of agents `d0`, `d1`, ... and objects in it.
pub struct Scene {
    pub rig: Rig,
    pub agents: Vec<Option<Agent>>,
    pub objects: Vec<(String, Vec<u8>)>,
}

impl Scene {
    pub fn new(code: &str, nodes: usize, sizes: &[usize]) -> Scene {
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
        scene.ok(&format!("pool create -c {code} {}", nodes.join(" ")));
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
