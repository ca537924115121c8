//! Upgrades of agents, one by one under a pool in use. Files of an earlier release are read in
//! `sessions/pools.txt`.

use std::fs;
use std::process::{Command, Stdio};

use crate::agents::Agent;
use crate::rig::{Rig, data};

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
