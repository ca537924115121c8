//! Folders of other machines: agents as processes of their own, over the loopback interface.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus};

use serde_json::Value;

use crate::rig::Rig;

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

/// Asks an agent for a document over HTTP.
fn asked(agent: &Agent, path: &str) -> String {
    let url = agent.started["metrics"].as_str().unwrap();
    let host = url.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn an_agent_tells_its_metrics_and_ends_when_told() {
    let rig = Rig::new();
    let agent = Agent::start(&rig, "d0", "--plain --name here --metrics 127.0.0.1:0");
    let data = rig.data("object", 100_000, 1);
    rig.kiln(&format!("encode object -c rs:2+1 -o {} -q", agent.address)).ok();
    rig.kiln(&format!("decode {} -o back -q", agent.address)).ok();
    assert!(rig.read("back") == data);
    let answer = asked(&agent, "/metrics");
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
fn an_agent_says_whether_it_lives_and_serves() {
    let rig = Rig::new();
    let agent = Agent::start(&rig, "d0", "--plain --metrics 127.0.0.1:0");
    let ask = |path: &str| asked(&agent, path);
    assert!(ask("/health").starts_with("HTTP/1.1 200") && ask("/health").ends_with("lives\n"));
    assert!(ask("/ready").starts_with("HTTP/1.1 200"));
    assert!(ask("/else").starts_with("HTTP/1.1 404"));
    rig.remove("d0");
    assert!(ask("/ready").starts_with("HTTP/1.1 503"), "{}", ask("/ready"));
    assert!(ask("/health").starts_with("HTTP/1.1 200"));
    // Rules and dashboard ask for what agents say.
    let said = ask("/metrics");
    for file in ["alerts.yml", "dashboard.json"] {
        let path = format!("{}/../../dist/monitoring/{file}", env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(path).unwrap();
        for name in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_') {
            let space = name.starts_with("kiln_disk_free") || name.starts_with("kiln_disk_total");
            // A coordinator says these: `make page-test` compares them.
            let coordinator = ["pool", "node", "repair", "scrub", "survey", "volume_log"];
            let other = coordinator.iter().any(|of| name.starts_with(&format!("kiln_{of}")));
            if name.starts_with("kiln_") && !space && !other {
                assert!(said.contains(name), "{file} asks for {name}, which no agent says");
            }
        }
    }
}
