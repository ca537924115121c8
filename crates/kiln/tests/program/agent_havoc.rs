//! Recoveries of pools while things go wrong: real processes, killed and stopped by their ids,
//! disks that are full and shards that rot. However it went, the pool is whole in the end.

use std::fs;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command};
use std::time::Duration;

use serde_json::Value;

use crate::agent_pool::Scene;
use crate::agents::Agent;
use crate::disk::where_mounts_work;

/// Short sub-chunks, so that small shards have several segments and a repair can go on in them.
fn scene(nodes: usize, sizes: &[usize]) -> Scene {
    let scene = Scene::new("clay:4+2", nodes, &[]);
    let text = fs::read_to_string(scene.rig.path("pool.toml")).unwrap();
    let last = text.rfind("code = \"clay").unwrap();
    let text = format!("{}sub_chunk = 128\n{}", &text[..last], &text[last..]);
    fs::write(scene.rig.path("pool.toml"), text).unwrap();
    let mut scene = scene;
    sizes.iter().enumerate().for_each(|(at, size)| scene.put(&format!("o{at}"), *size));
    scene
}

/// A coordinator at work, slowly.
fn begin(scene: &Scene, flags: &str) -> Child {
    let words = "coordinator --json --wait 0 --limit-rate 2MiB --key cluster.key";
    scene.rig.start(&format!("{words} {flags}"))
}

#[track_caller]
fn end(child: Child) -> Value {
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{:?}: {said}{told}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

fn wait(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Waits until unfinished shards of repairs hold so many bytes on all nodes together.
fn wait_for_parts(scene: &Scene, bytes: u64) {
    let held = |node: usize| -> u64 {
        let entries = fs::read_dir(scene.rig.path(format!("d{node}"))).unwrap().flatten();
        let parts = entries.filter(|entry| {
            entry.file_name().to_str().is_some_and(|name| name.ends_with(".repair.part"))
        });
        parts.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
    };
    for _ in 0..6000 {
        if (0..scene.agents.len()).map(held).sum::<u64>() >= bytes {
            return;
        }
        wait(10);
    }
    panic!("no repair wrote {bytes} bytes");
}

fn signal(agent: &Agent, name: &str) {
    let done = Command::new("kill").args([name, &agent.pid().to_string()]).status();
    assert!(done.unwrap().success());
}

/// An agent with an empty folder in the place of a lost one.
fn replace(scene: &mut Scene, node: usize, round: usize) {
    let agent = Agent::start(&scene.rig, &format!("new{node}-{round}"), "--key cluster.key");
    scene.ok(&format!("pool add-node n{node} {} --replace", agent.address));
    scene.agents[node] = Some(agent);
}

#[test]
fn a_helper_killed_at_any_moment_of_a_repair_is_done_without() {
    let mut scene = scene(10, &[5_000_000, 6_000_001]);
    for (round, after) in [50, 400, 1000].into_iter().enumerate() {
        scene.kill(1);
        let coordinator = begin(&scene, "");
        wait(after);
        scene.kill(2);
        let report = end(coordinator);
        assert_eq!((&report["failed_count"], &report["waiting"]), (&0.into(), &0.into()));
        scene.is_whole();
        (1..3).for_each(|node| replace(&mut scene, node, round));
    }
}

#[test]
fn a_coordinator_that_was_killed_goes_on_where_it_was() {
    let mut scene = scene(8, &[16_000_000]);
    scene.kill(3);
    for bytes in [300_000, 1_500_000] {
        let mut coordinator = begin(&scene, "");
        wait_for_parts(&scene, bytes);
        coordinator.kill().unwrap();
        coordinator.wait().unwrap();
    }
    let report = scene.recover("");
    assert_eq!(report["repaired"], 1, "{report}");
    // Agents go on for a while without it; at least what it saw done is kept.
    assert!(report["resumed_bytes"].as_u64().unwrap() > 0, "{report}");
    scene.is_whole();
}

#[test]
fn an_agent_that_stops_answering_for_a_while_is_waited_for() {
    let mut scene = scene(8, &[6_000_000]);
    scene.kill(0);
    let coordinator = begin(&scene, "");
    wait(600);
    let stopped = scene.agents[4].as_ref().unwrap();
    signal(stopped, "-STOP");
    wait(3000);
    signal(stopped, "-CONT");
    let report = end(coordinator);
    assert_eq!((&report["repaired"], &report["failed_count"]), (&1.into(), &0.into()));
    scene.is_whole();
}

#[test]
fn a_shard_that_rots_during_a_repair_is_not_used_and_repaired_too() {
    let mut scene = scene(8, &[6_000_000]);
    scene.kill(0);
    let coordinator = begin(&scene, "--strategy central");
    wait(300);
    // All of its later part: whatever is read from there is wrong.
    let path = scene.shard_of(1);
    let bytes = fs::read(&path).unwrap();
    let half = bytes.len() / 2;
    let rot: Vec<u8> = bytes[half..bytes.len() - 20_000].iter().map(|byte| byte ^ 4).collect();
    // In place: the file is never short.
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&rot, half as u64).unwrap();
    let report = end(coordinator);
    assert!(report["replanned_count"].as_u64().unwrap() >= 1, "{report}");
    assert_eq!((&report["repaired"], &report["failed_count"]), (&2.into(), &0.into()), "{report}");
    scene.is_whole();
}

#[test]
fn limits_change_while_a_recovery_runs() {
    let mut scene = scene(8, &[6_000_000]);
    scene.kill(0);
    scene.ok("pool limit --rate 20KiB --total 100KiB");
    let words = "coordinator --json --wait 0 --progress 1 --key cluster.key";
    let coordinator = scene.rig.start(words);
    wait(2500);
    scene.ok("pool limit --off");
    let report = end(coordinator);
    // At that rate it would have taken minutes.
    let seconds = report["seconds"].as_f64().unwrap();
    assert!(seconds > 2.0 && seconds < 60.0, "{seconds}");
    scene.rig.kiln("pool limit").fails(3, &["--rate"]);
    scene.rig.kiln("pool limit --rate 0").fails(3, &["--off"]);
    scene.is_whole();
}

#[test]
fn a_node_whose_disk_is_full_gets_no_shard() {
    let name = "agent_havoc::a_node_whose_disk_is_full_gets_no_shard";
    where_mounts_work(name, |rig| {
        let Some(_full) = crate::disk::Mount::new(rig, "full", "size=600k") else { return };
        let mut scene = scene(7, &[6_000_000]);
        let folder = rig.path("full");
        let agent = Agent::start(&scene.rig, folder.to_str().unwrap(), "--key cluster.key");
        scene.ok(&format!("pool add-node n7 {}", agent.address));
        scene.agents.push(Some(agent));
        scene.kill(0);
        // Told where to, it says why it cannot; left to choose, it takes the other one.
        let words = "coordinator --json --wait 0 --to n7 --tries 1 --key cluster.key";
        let report = scene.rig.kiln(words).code(4).json();
        assert!(report["failed"].to_string().contains("space"), "{report}");
        let report = scene.recover("");
        assert_eq!((&report["repaired"], &report["failed_count"]), (&1.into(), &0.into()));
        scene.agents[7] = None;
    });
}

#[test]
fn a_helper_killed_while_somebody_reads_is_decoded_around() {
    let mut scene = scene(7, &[5_000_000]);
    let shards = scene.ok("stat o0 --json").json()["shards"].clone();
    let home =
        |index: usize| -> usize { shards[index]["node"].as_str().unwrap()[1..].parse().unwrap() };
    let (lost, killed) = (home(1), home(3));
    scene.kill(lost);
    // A chunk that is lost, with helpers and without: 1 KiB, and half of five chunks.
    for (flags, strategy, received) in
        [("hub", "hub", 1024), ("central", "central", 2560), ("auto", "central", 2560)]
    {
        let words = format!("get o0 -o part --force --range 1KiB+1KiB --strategy {flags} --json");
        let report = scene.ok(&words).json();
        assert_eq!(report["strategy"], strategy, "{report}");
        assert_eq!(report["bytes_received"], received, "{report}");
        assert!(scene.rig.read("part") == scene.objects[0].1[1024..2048]);
    }
    // A reader that takes its time: agents wait for it, and one of them dies.
    let words = "get o0 -o - --strategy hub --json --key cluster.key";
    let mut child = scene.rig.start(words);
    let (mut bytes, mut stdout) = (vec![0; 100_000], child.stdout.take().unwrap());
    let mut stderr = child.stderr.take().unwrap();
    // The report is longer than what a pipe holds.
    let said = std::thread::spawn(move || {
        let mut said = String::new();
        stderr.read_to_string(&mut said).map(|_| said)
    });
    stdout.read_exact(&mut bytes).unwrap();
    scene.kill(killed);
    stdout.read_to_end(&mut bytes).unwrap();
    let said = said.join().unwrap().unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    assert!(bytes == scene.objects[0].1, "the bytes differ: {said}");
    let report: Value = serde_json::from_str(&said[said.find('{').unwrap()..]).unwrap();
    assert_eq!(report["strategy"], "mixed", "{report}");
    assert!(report["notes"][0].as_str().unwrap().contains("helpers gave up"), "{report}");
}
