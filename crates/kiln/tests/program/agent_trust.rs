//! Permissions of agents' clients: roles of keys, links out of their folder, waiting for locks.

use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::agent_pool::Scene;
use crate::agents::Agent;
use crate::rig::{Rig, data};

/// Waits until it holds, for a while.
#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn links_in_a_served_folder_lead_nowhere() {
    let rig = Rig::new();
    rig.data("secret", 1000, 1);
    std::fs::create_dir(rig.path("d0")).unwrap();
    std::os::unix::fs::symlink(rig.path("secret"), rig.path("d0/object.00.kiln")).unwrap();
    std::os::unix::fs::symlink(rig.path("new"), rig.path("d0/.object.01.kiln.part")).unwrap();
    let agent = Agent::start(&rig, "d0", "--plain");
    let secret = rig.read("secret");
    assert_ne!(rig.kiln(&format!("verify {}", agent.address)).code, 0);
    rig.data("object", 5000, 2);
    // What is written takes the place of a link, or is refused; what the link names stays.
    rig.kiln(&format!("encode object -c rs:2+1 -o {} -q", agent.address));
    assert!(rig.read("secret") == secret);
    assert!(!rig.path("new").exists());
}

#[test]
fn refused_peers_are_logged_with_their_address_and_not_too_often() {
    let rig = Rig::new();
    rig.kiln("agent --init --key cluster.key").ok();
    rig.kiln("agent --init --key other.key").ok();
    let agent = Agent::logging(&rig, "d0", "--key cluster.key", "log");
    let socket = agent.address.strip_prefix("kiln://").unwrap().split('/').next().unwrap();
    let lines = || {
        let log = String::from_utf8(rig.read("log")).unwrap();
        log.lines().filter(|line| line.contains("refused")).map(str::to_owned).collect::<Vec<_>>()
    };
    rig.kiln(&format!("verify {} --key other.key", agent.address)).code(8);
    until("a line of the log", || !lines().is_empty());
    assert!(lines()[0].contains("127.0.0.1:"), "{:?}", lines());
    for _ in 0..200 {
        // Each says something that is no handshake.
        let mut stream = TcpStream::connect(socket).unwrap();
        let _ = std::io::Write::write_all(&mut stream, b"GET / HTTP/1.1\r\n\r\n");
    }
    std::thread::sleep(Duration::from_millis(200));
    assert!(lines().len() < 10, "{} lines", lines().len());
}

#[test]
fn a_second_coordinator_is_refused_with_the_first_ones_address() {
    let scene = Scene::new("rs:2+1", 4, &[100_000]);
    let words = "coordinator --stay --wait 0 --every 1 -q --key cluster.key";
    let begin = || scene.rig.command(words).stderr(Stdio::null()).spawn().unwrap();
    let mut first = begin();
    // Another machine has its own copy of the description, and no lock in common.
    let elsewhere = scene.rig.path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::copy(scene.rig.path("pool.toml"), elsewhere.join("pool.toml")).unwrap();
    let second =
        || scene.rig.kiln("coordinator --pool elsewhere/pool.toml --wait 0 --key cluster.key");
    let mut refused = second();
    until("the first one has begun", || {
        // The second may have been quicker, and the first have been refused.
        if first.try_wait().unwrap().is_some() {
            first = begin();
        }
        if refused.code == 0 {
            refused = second();
        }
        refused.code != 0
    });
    let process = format!("process {}", first.id());
    refused.fails(5, &["is repaired already", &process, "127.0.0.1:", "wait for its end"]);
    first.kill().unwrap();
    first.wait().unwrap();
    until("its name is free", || second().code == 0);
}

#[test]
fn whoever_waits_for_a_lock_is_told_so_and_not_for_ever() {
    let rig = Rig::new();
    rig.kiln("pool create pool.toml -c rs:2+1 --node d0 --node d1 --node d2").ok();
    std::fs::write(rig.path("input"), data(10_000, 1)).unwrap();
    let folder = std::fs::File::open(rig.path("d1")).unwrap();
    folder.lock().unwrap();
    let ended = rig.kiln("put input a -q --lock-wait 3");
    assert!(ended.stderr.contains("waiting for the lock of"), "{}", ended.stderr);
    ended.fails(5, &["d1", "3 s", "--lock-wait"]);
    drop(folder);
    rig.kiln("put input a -q").ok();
}
