//! Agents that repair by plans of a file, which were searched for before.

use std::fs;

use serde_json::Value;

use crate::agents::{Agent, list, six_with_an_object};
use crate::rig::{Ended, Rig, flip};

/// Six agents with an object of clay:4+2, of which some are gone, and one that has nothing yet.
struct Broken {
    rig: Rig,
    /// In another order than their chunks.
    agents: Vec<Agent>,
    gone: Vec<(usize, String)>,
    spare: Agent,
}

impl Broken {
    fn without(lost: &[usize]) -> Broken {
        let rig = Rig::new();
        let (mut agents, key) = six_with_an_object(&rig);
        let gone = lost.iter().rev().map(|&chunk| {
            let agent = agents.remove(chunk);
            let address = agent.address.clone();
            agent.kill();
            (chunk, address)
        });
        let gone: Vec<(usize, String)> = gone.collect();
        agents.reverse();
        let spare = Agent::start(&rig, "spare", key);
        Broken { rig, agents, gone, spare }
    }

    /// `kiln coordinator` with all agents, to the spare one unless the words say otherwise.
    fn coordinator(&self, words: &str) -> Ended {
        let gone: String = self.gone.iter().map(|(_, address)| format!("{address} ")).collect();
        let to = match words.contains("--to") {
            true => String::new(),
            false => format!("--to {}", self.spare.address),
        };
        let agents = list(&self.agents, "");
        self.rig.kiln(&format!("coordinator {gone} {agents} {to} {words} --key cluster.key"))
    }

    /// The report of a repair that is then undone: what it made is what the agents had that are
    /// gone, and each agent sent what the plan said.
    fn repaired(&self, folder: &str, words: &str) -> Value {
        let report = self.coordinator(&format!("{words} --json")).ok().json();
        for (chunk, _) in &self.gone {
            let name = format!("object.{chunk:02}.kiln");
            let before = self.rig.read(format!("d{chunk}/{name}"));
            assert!(self.rig.read(format!("{folder}/{name}")) == before, "{words}: {chunk}");
            self.rig.remove(format!("{folder}/{name}"));
        }
        assert_eq!(report["bytes_sent"], report["planned_sent"], "{words}: {report}");
        report
    }
}

const WORDS: &str = "--strategy vertices --moves 20000 --plans ready.plans";

/// Neither addresses nor the order of agents are part of a plan.
#[test]
fn a_coordinator_repairs_by_the_plan_that_was_searched_for() {
    let broken = Broken::without(&[2]);
    let rig = &broken.rig;
    let plan = rig.kiln(&format!("plan -c clay:4+2 --lost 2 {WORDS} --json")).ok().json();
    assert_eq!(plan["ready"], false);
    let kept = rig.read("ready.plans");
    let report = broken.repaired("spare", WORDS);
    assert_eq!((&report["plan_cached"], &report["strategy"]), (&true.into(), &"vertices".into()));
    let ratio = |a: &Value, b: &Value| a.as_f64().unwrap() / b.as_f64().unwrap();
    assert_eq!(
        ratio(&report["planned_sent"], &report["planned_max_node_load"]),
        ratio(&plan["bandwidth"], &plan["max_node_load"])
    );
    let said = broken.coordinator(WORDS).ok();
    assert!(said.stdout.contains("vertices plan from ready.plans"), "{}", said.stdout);
    assert!(!said.stderr.contains("of this kind"), "{}", said.stderr);
    rig.remove("spare/object.02.kiln");
    assert!(rig.read("ready.plans") == kept);
    // Another search is made, and kept; so is one where there is no file yet.
    for other in [format!("{WORDS} --seed 7"), WORDS.replace("ready", "new")] {
        assert_eq!(broken.repaired("spare", &other)["plan_cached"], false);
        assert_eq!(broken.repaired("spare", &other)["plan_cached"], true);
    }
    assert_eq!(broken.repaired("spare", WORDS)["plan_cached"], true);
    assert_eq!(broken.repaired("spare", "--strategy vertices").get("plan_cached"), None);
}

#[test]
fn a_file_of_plans_that_is_of_no_use_costs_no_repair() {
    let broken = Broken::without(&[2]);
    let rig = &broken.rig;
    // What cannot be kept holds up nothing.
    let said = broken.coordinator(&WORDS.replace("ready.plans", "nowhere/ready.plans")).ok();
    assert!(said.stdout.contains("vertices plan, not from nowhere"), "{}", said.stdout);
    for words in ["has no vertices plan of this kind", "not kept for another time"] {
        assert!(said.stderr.contains(words), "{}", said.stderr);
    }
    rig.remove("spare/object.02.kiln");
    // What is no file of plans is left alone, and so are the agents.
    broken.repaired("spare", WORDS);
    flip(&rig.path("ready.plans"), rig.read("ready.plans").len() as u64 / 2, 1);
    let damaged = rig.read("ready.plans");
    broken.coordinator(WORDS).fails(4, &["ready.plans", "not a whole file of plans"]);
    assert!(rig.read("ready.plans") == damaged && rig.names("spare").is_empty());
    broken.coordinator("--strategy luck --plans new.plans").fails(3, &["luck", "central"]);
    broken.coordinator(&format!("{WORDS} --price prices.toml")).fails(3, &["--price"]);
    rig.kiln("coordinator --pool pool.toml --plans ready.plans").fails(3, &["AGENT"]);
    assert!(rig.read("ready.plans") == damaged && !rig.path("new.plans").exists());
}

/// Stores and receivers of chunks are part of a plan: a file of machines says it where it is not a
/// new agent for each lost chunk. So are links, which to a coordinator are all alike.
#[test]
fn a_plan_fits_where_the_same_chunks_are_at_one_agent() {
    let machines = |gets: usize, lost: &[usize], links: &str| {
        let node = |i: usize| {
            let chunks = if i < 6 && !lost.contains(&i) { format!("{i}") } else { String::new() };
            let lost = if i == gets { format!("{lost:?}") } else { "[]".into() };
            format!("[[node]]\nid = \"m{i}\"\nchunks = [{chunks}]\nrebuilds = {lost}\n{links}")
        };
        (0..7).map(node).collect::<String>()
    };
    for (lost, gets) in [(&[2][..], 0), (&[1, 4][..], 6)] {
        let broken = Broken::without(lost);
        let rig = &broken.rig;
        let list: Vec<String> = lost.iter().map(usize::to_string).collect();
        let command = format!("plan -c clay:4+2 --lost {} {WORDS}", list.join(","));
        let (folder, to) = match broken.agents.iter().find(|a| a.address.ends_with("/d0")) {
            Some(agent) if gets == 0 => ("d0", agent),
            _ => ("spare", &broken.spare),
        };
        let words = format!("{WORDS} --to {}", to.address);
        // Each on an agent of its own, links that differ; then as it is.
        rig.kiln(&command).ok();
        let slow = machines(gets, lost, "").replacen("id = \"m3\"", "id = \"m3\"\nup = \"1MB\"", 1);
        fs::write(rig.path("machines.toml"), slow).unwrap();
        rig.kiln(&format!("{command} --cluster machines.toml")).ok();
        let plans = rig.read("ready.plans");
        assert_eq!(broken.repaired(folder, &words)["plan_cached"], false, "{lost:?}");
        fs::write(rig.path("ready.plans"), plans).unwrap();
        let equal = machines(gets, lost, "up = \"2MB\"\ndown = \"2MB\"\n");
        fs::write(rig.path("machines.toml"), equal).unwrap();
        rig.kiln(&format!("{command} --cluster machines.toml")).ok();
        // Whatever all links have, if it is the same.
        let report = broken.repaired(folder, &words);
        assert_eq!(report["plan_cached"], true, "{lost:?}: {report}");
    }
}
