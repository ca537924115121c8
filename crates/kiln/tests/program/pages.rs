//! Man pages and completions, from the table that makes --help; and what operators' tools ask.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use crate::agents::Agent;
use crate::rig::Rig;

#[test]
fn every_command_has_a_page() {
    let rig = Rig::new();
    rig.kiln("man pages").ok();
    let pages = rig.names("pages");
    let help = rig.kiln("--help").ok().stdout;
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    for command in commands.filter_map(|line| line.split_whitespace().next()) {
        assert!(pages.contains(&format!("kiln-{command}.1")), "{command}: {pages:?}");
    }
    assert!(pages.contains(&"kiln-pool-create.1".to_owned()), "{pages:?}");
    let page = String::from_utf8(rig.read("pages/kiln-encode.1")).unwrap();
    for word in ["photos.tar", "Exit codes", "sub\\-chunk"] {
        assert!(page.contains(word), "{word} in the page of encode");
    }
}

#[test]
fn shells_take_the_completions() {
    let rig = Rig::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = rig.kiln(&format!("completions {shell}")).ok().stdout;
        assert!(script.contains("salvage") && script.contains("repair"), "{shell}");
        fs::write(rig.path(shell), script).unwrap();
        // Those that are installed here read their own.
        if let Ok(status) = Command::new(shell).arg("-n").arg(rig.path(shell)).status() {
            assert!(status.success(), "{shell} -n");
        }
    }
    rig.kiln("completions csh").fails(3, &["bash, zsh, fish"]);
    // Bash offers what begins with what was typed.
    let ask = "source ./bash; COMP_WORDS=(kiln dec); COMP_CWORD=1; _kiln kiln dec kiln; \
               echo ${COMPREPLY[@]}";
    let said = Command::new("bash").args(["-c", ask]).current_dir(rig.path("")).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout).trim(), "decode");
}

#[test]
fn an_agent_says_whether_it_lives_and_serves() {
    let rig = Rig::new();
    let agent = Agent::start(&rig, "d0", "--plain --metrics 127.0.0.1:0");
    let url = agent.started["metrics"].as_str().unwrap();
    let host = url.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(host).unwrap();
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: here\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
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
