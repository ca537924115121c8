//! Folders of other machines: agents as processes of their own, over the loopback interface.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus};

use serde_json::Value;

use crate::rig::{Rig, flip};

/// An agent process; ended by its id when dropped.
pub struct Agent {
    child: Child,
    pub address: String,
    pub started: Value,
}

impl Agent {
    /// Serves a folder of the rig with these further flags.
    pub fn start(rig: &Rig, folder: &str, flags: &str) -> Agent {
        Agent::listening(rig, folder, flags, "127.0.0.1:0")
    }

    pub fn listening(rig: &Rig, folder: &str, flags: &str, listen: &str) -> Agent {
        let words = format!("agent --dir {folder} --listen {listen} --json {flags}");
        let mut child = rig.start(&words);
        // Its log is not looked at, but a full pipe must not stop it.
        let mut log = child.stderr.take().unwrap();
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Agent::began(child)
    }

    /// Serves a folder and writes its log to a file of the rig.
    pub fn logging(rig: &Rig, folder: &str, flags: &str, log: &str) -> Agent {
        let words = format!("agent --dir {folder} --listen 127.0.0.1:0 --json {flags}");
        let log = std::fs::File::create(rig.path(log)).unwrap();
        Agent::began(rig.command(&words).stderr(log).spawn().unwrap())
    }

    /// Waits until it serves.
    pub fn began(mut child: Child) -> Agent {
        // Kept open: it says nothing more, but must not find a closed pipe.
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut text = String::new();
        while lines.read_line(&mut text).unwrap() > 0 && !text.ends_with("}\n") {}
        let Ok(started) = serde_json::from_str::<Value>(&text) else {
            child.kill().unwrap();
            panic!("no agent: {text} {:?}", child.wait_with_output().unwrap());
        };
        Agent { child, address: started["address"].as_str().unwrap().to_owned(), started }
    }

    /// Agents for so many folders `d0`, `d1`, ...
    pub fn several(rig: &Rig, count: usize, flags: &str) -> Vec<Agent> {
        (0..count).map(|i| Agent::start(rig, &format!("d{i}"), flags)).collect()
    }

    /// Kills it, as a power cut would.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end.
    fn terminate(mut self) -> ExitStatus {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Their addresses, each with a word before it.
pub fn list(agents: &[Agent], word: &str) -> String {
    agents.iter().map(|agent| format!("{word} {} ", agent.address)).collect()
}

/// Six agents with an object of clay:4+2, and the flag for their key.
pub fn six_with_an_object(rig: &Rig) -> (Vec<Agent>, &'static str) {
    rig.kiln("agent --init --key cluster.key").ok();
    let key = "--key cluster.key";
    let agents = Agent::several(rig, 6, key);
    rig.data("object", 2_000_000, 9);
    rig.kiln(&format!("encode object -c clay:4+2 {} -q {key}", list(&agents, "-o"))).ok();
    (agents, key)
}

#[test]
fn every_command_works_on_agents_as_on_folders() {
    let rig = Rig::new();
    rig.kiln("agent --init --key cluster.key").ok();
    rig.kiln("agent --init --key cluster.key").fails(4, &["cluster.key"]);
    let mut agents = Agent::several(&rig, 6, "--key cluster.key");
    assert!(agents[0].address.starts_with("kiln://127.0.0.1:"));
    assert!(agents[3].address.ends_with("/d3"));
    let data = rig.data("object", 3_000_000, 5);
    let key = "--key cluster.key -q";
    let out = list(&agents, "-o");
    rig.kiln(&format!("encode object -c clay:4+2 {out} {key}")).ok();
    for index in 0..6 {
        assert_eq!(rig.names(&format!("d{index}")), [format!("object.{index:02}.kiln")]);
    }
    let all = list(&agents, "");
    rig.kiln(&format!("verify {all} {key}")).ok();
    flip(&rig.path("d1/object.01.kiln"), 300_000, 3);
    rig.kiln(&format!("verify {all} {key}")).code(1);

    agents.remove(4).kill();
    let spare = Agent::start(&rig, "spare", "--key cluster.key");
    rig.kiln(&format!("decode {all} -o back {key}")).ok();
    assert!(rig.read("back") == data);
    let living = list(&agents, "");
    let words = format!("repair {living} --to {} --scan --json {key}", spare.address);
    let report = rig.kiln(&words).ok().json();
    assert_eq!(report["lost"], serde_json::json!([1, 4]));
    agents.push(spare);
    let all = list(&agents, "");
    let ended = rig.kiln(&format!("verify {all} --json {key}")).ok();
    assert_eq!(ended.json()["damaged_count"].as_u64().unwrap_or(0), 0);
    assert_eq!(rig.names("spare"), ["object.04.kiln"]);
}

#[test]
fn clients_without_the_key_are_refused() {
    let rig = Rig::new();
    rig.kiln("agent --init --key cluster.key").ok();
    rig.kiln("agent --init --key other.key").ok();
    let agent = Agent::start(&rig, "d0", "--key cluster.key");
    rig.data("object", 1000, 1);
    let encode = format!("encode object -c rs:2+1 -o {}", agent.address);
    rig.kiln(&encode).fails(3, &["--key"]);
    rig.kiln(&format!("{encode} --key other.key")).fails(8, &["certificate"]);
    let elsewhere = agent.address.replace("/d0", "/d1");
    rig.kiln(&format!("encode object -c rs:2+1 -o {elsewhere} --key cluster.key"))
        .fails(9, &["this is \"d0\""]);
    let plain = agent.address.replace("kiln:", "kiln+plain:");
    rig.kiln(&format!("encode object -c rs:2+1 -o {plain}")).code(4);
    assert!(rig.names("d0").is_empty());
    rig.kiln("agent --dir d0 --plain --listen 0.0.0.0:0").fails(3, &["loopback"]);
    rig.kiln("agent --dir d0").fails(3, &["--key"]);
    rig.kiln(&format!("{encode} --key object")).fails(3, &["chmod 600"]);
}

#[test]
fn an_agent_tells_its_metrics_and_ends_when_told() {
    let rig = Rig::new();
    let agent = Agent::start(&rig, "d0", "--plain --name here --metrics 127.0.0.1:0");
    let data = rig.data("object", 100_000, 1);
    rig.kiln(&format!("encode object -c rs:2+1 -o {} -q", agent.address)).ok();
    rig.kiln(&format!("decode {} -o back -q", agent.address)).ok();
    assert!(rig.read("back") == data);
    let url = agent.started["metrics"].as_str().unwrap();
    let host = url.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let value = |name: &str| -> u64 {
        let wanted = format!("{name}{{place=\"here\"}} ");
        let line = answer.lines().find_map(|line| line.strip_prefix(&wanted));
        line.unwrap_or_else(|| panic!("{name}: {answer}")).parse().unwrap()
    };
    assert!(value("kiln_received_bytes_total") > 150_000);
    assert!(value("kiln_sent_bytes_total") > 100_000);
    assert_eq!(value("kiln_connections_expelled_total"), 0);
    assert!(value("kiln_disk_total_bytes") > value("kiln_disk_free_bytes"));
    assert!(answer.ends_with("# EOF\n"));
    assert!(agent.terminate().success());
}

#[test]
fn a_coordinator_has_the_agents_rebuild_what_is_lost() {
    let rig = Rig::new();
    let (mut agents, key) = six_with_an_object(&rig);
    let lost = rig.read("d2/object.02.kiln");
    let gone = agents.remove(2);
    let address = gone.address.clone();
    gone.kill();
    let spare = Agent::start(&rig, "spare", key);
    for strategy in ["central", "hub"] {
        let words = format!(
            "coordinator {} {address} --to {} --strategy {strategy} --json {key}",
            list(&agents, ""),
            spare.address
        );
        let report = rig.kiln(&words).ok().json();
        assert_eq!(report["lost"], serde_json::json!([2]));
        for what in ["sent", "max_node_load"] {
            let (measured, planned) = match what {
                "sent" => (&report["bytes_sent"], &report["planned_sent"]),
                _ => (&report["max_node_load"], &report["planned_max_node_load"]),
            };
            assert_eq!(measured, planned, "{strategy}, {what}: {report}");
        }
        assert!(rig.read("spare/object.02.kiln") == lost, "{strategy}");
        rig.remove("spare/object.02.kiln");
    }
    let words = format!("coordinator {} --to {} {key}", list(&agents, ""), agents[0].address);
    rig.kiln(&format!("{words} --strategy luck")).fails(3, &["luck", "central"]);
}

/// With prices the plan is chosen by them: sums are made in a zone before they leave it, and the
/// report says what that costs.
#[test]
fn a_coordinator_rebuilds_by_the_cheapest_plan() {
    let rig = Rig::new();
    rig.kiln("agent --init --key cluster.key").ok();
    let key = "--key cluster.key";
    let mut agents = Agent::several(&rig, 6, key);
    rig.data("object", 2_000_000, 9);
    rig.kiln(&format!("encode object -c rs:4+2 {} -q {key}", list(&agents, "-o"))).ok();
    let lost = rig.read("d2/object.02.kiln");
    agents.remove(2).kill();
    let spare = Agent::start(&rig, "spare", key);
    // Two helpers are where the new shard goes, three elsewhere.
    let names = |agents: &[&Agent]| {
        let names: Vec<String> =
            agents.iter().map(|agent| format!("{:?}", agent.address)).collect();
        names.join(", ")
    };
    let (here, there) =
        (names(&[&agents[0], &agents[1], &spare]), names(&[&agents[2], &agents[3], &agents[4]]));
    let table = |here: &str| {
        format!(
            "gets_1000 = 0.0\ngigabyte = 1.0\n[zone.here]\nnodes = [{here}]\n[zone.there]\nnodes = \
             [{there}]\n"
        )
    };
    std::fs::write(rig.path("prices.toml"), table(&here)).unwrap();
    let words = format!("coordinator {} --to {} {key}", list(&agents, ""), spare.address);
    let report = rig.kiln(&format!("{words} --price prices.toml --json")).ok().json();
    let price = &report["price"];
    let (planned, unweighed) = (&price["planned"], &price["unweighed"]);
    let (planned, unweighed) = (planned.as_f64().unwrap(), unweighed.as_f64().unwrap());
    // One sum crosses, of the length of a chunk.
    assert!((planned - 500_000.0 / 1e9).abs() < planned * 0.01, "{report}");
    assert!(planned < 0.6 * unweighed, "{report}");
    assert!(rig.read("spare/object.02.kiln") == lost);
    rig.remove("spare/object.02.kiln");
    let said = rig.kiln(&format!("{words} --price prices.toml --strategy central")).ok().stdout;
    assert!(said.contains("price of its plans: ") && said.contains("central"), "{said}");
    std::fs::write(rig.path("prices.toml"), table("\"nobody\"")).unwrap();
    rig.kiln(&format!("{words} --price prices.toml")).fails(3, &["nobody"]);
}
