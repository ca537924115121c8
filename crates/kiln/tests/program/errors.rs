//! Messages, exit codes and help.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::rig::{Rig, program};

/// As another user than root, whom nothing stops; skipped where there is none.
#[test]
fn no_permission_has_a_code_of_its_own() {
    let rig = Rig::new();
    rig.encoded("rs:2+1", "", 1000);
    fs::set_permissions(rig.path("shards"), Permissions::from_mode(0o000)).unwrap();
    let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let ended = if root {
        fs::set_permissions(rig.path(""), Permissions::from_mode(0o755)).unwrap();
        let mut su = Command::new("setpriv");
        su.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        su.arg(program().get_program()).args(["verify", "shards", "--json"]);
        su.current_dir(rig.path("")).output()
    } else {
        rig.command("verify shards --json").output()
    };
    fs::set_permissions(rig.path("shards"), Permissions::from_mode(0o755)).unwrap();
    match ended {
        // The program lies where other users may not look, or there is no setpriv.
        Ok(output) if output.status.code().is_none_or(|code| code > 100) => {
            crate::rig::say("no_permission: SKIPPED, no other user can run the program here");
        }
        Err(_) => crate::rig::say("no_permission: SKIPPED, there is no setpriv"),
        Ok(output) => {
            assert_eq!(output.status.code(), Some(9), "{output:?}");
            let told: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(told["kind"], "not-permitted");
        }
    }
}

#[test]
fn an_interrupt_says_what_stays() {
    let rig = Rig::new();
    let mut child = rig
        .command("encode - --name piped -c rs:2+1 -o shards")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // It waits for input, and has what watches for interrupts by the time that a part is there.
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, &vec![1; 8 << 20]).unwrap();
    while !rig.path("shards").exists() || rig.names("shards").is_empty() {
        std::thread::yield_now();
    }
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    assert!(said.contains("interrupted") && said.contains("hidden parts"), "{said}");
    assert!(said.lines().count() == 1);
}

#[test]
fn input_that_changes_while_it_is_read() {
    for grow in [true, false] {
        let rig = Rig::new();
        rig.data("object", 1 << 20, 1);
        let words = "encode object -c rs:4+2 --sub-chunk 4KiB -o shards --limit-rate 1MiB";
        let child = rig.start(words);
        std::thread::sleep(Duration::from_millis(400));
        if grow {
            let mut file = OpenOptions::new().append(true).open(rig.path("object")).unwrap();
            file.write_all(b"more").unwrap();
        } else {
            let file = File::options().write(true).open(rig.path("object")).unwrap();
            file.set_len(1000).unwrap();
        }
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "grow {grow}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(stderr.contains("changed"), "{stderr}");
        assert!(!rig.path("shards").exists(), "grow {grow}: nothing stays");
    }
}

/// The commands that `kiln --help` lists: what is added to the table is tested.
fn commands(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines.take_while(|line| !line.is_empty());
    names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

#[test]
fn help_explains_itself() {
    let rig = Rig::new();
    let help = rig.kiln("--help").ok();
    assert_eq!(help.stderr, "");
    let commands = commands(&help.stdout);
    assert!(commands.len() > 15 && commands.contains(&"coordinator"), "{commands:?}");
    for command in commands {
        let own = rig.kiln(&format!("{command} --help")).ok().stdout;
        for part in ["Usage:", "Examples:", "Exit codes:", "--json", "--limit-rate", "--threads"] {
            assert!(own.contains(part), "{command} --help lacks '{part}'");
        }
        assert!(own.lines().all(|line| line.chars().count() <= 100), "{command}: long line");
        for jargon in ["MDS", "GF(", "sub-packetization", "coupled"] {
            assert!(!own.contains(jargon), "{command} --help uses '{jargon}'");
        }
    }
    assert!(rig.kiln("--version").ok().stdout.starts_with("kiln "));
}
