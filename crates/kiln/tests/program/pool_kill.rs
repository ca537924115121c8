//! `kill -9` of pool commands at random moments, and several of them at a time: objects are whole,
//! the old or the new version, and a scrub with a repair leaves nothing behind.

use std::process::Child;
use std::time::{Duration, Instant};

use crate::pool::create;
use crate::rig::{Random, Rig, say, seed};

const BYTES: usize = 5_000_000;

fn rounds() -> u64 {
    let given = std::env::var("KILN_KILL_ROUNDS").ok();
    let all = given.map_or(200_u64, |text| text.parse().expect("KILN_KILL_ROUNDS is a number"));
    all.div_ceil(8)
}

/// Kills after a random part of `usual`, a little more than the whole included.
fn kill(mut child: Child, random: &mut Random, usual: Duration) {
    let micros = usual.as_micros() as u64;
    std::thread::sleep(Duration::from_micros(random.below(micros + micros / 10)));
    let _ = child.kill();
    child.wait().unwrap();
}

/// Time that a command takes.
fn usual(rig: &Rig, words: &str) -> Duration {
    let start = Instant::now();
    rig.kiln(words).ok();
    start.elapsed()
}

/// Scrub and repair; then the pool is whole, and its nodes hold so many files of objects.
#[track_caller]
fn tidy(rig: &Rig, files: usize) {
    let code = rig.kiln("scrub --grace 0").code;
    assert!(code <= 1, "scrub said {code}");
    rig.kiln("repair").ok();
    rig.kiln("scrub --grace 0").ok();
    // A disk that was drained is none of them any more, and keeps what a kill left there.
    let status = rig.kiln("status --json").json();
    let nodes = status["nodes"].as_array().unwrap().iter().map(|node| &node["id"]);
    let names = nodes.flat_map(|id| rig.names(&id.as_str().unwrap().replace('n', "d")));
    let kept: Vec<String> = names.filter(|name| !name.contains("kiln-")).collect();
    assert_eq!(kept.len(), files, "{kept:?}");
}

#[test]
fn put_and_rm_survive_kills() {
    let seed = seed("put_and_rm_survive_kills");
    let mut random = Random::new(seed);
    let rig = Rig::new();
    create(&rig, "clay:4+2", 7);
    let (old, new) = (rig.data("old", BYTES, seed), rig.data("new", BYTES + 1, seed + 1));
    let usual_put = usual(&rig, "put old object --force -q");
    let mut replaced = 0;
    for round in 0..rounds() {
        rig.kiln("put old object --force -q").ok();
        kill(rig.start("put new object --force -q"), &mut random, usual_put);
        rig.kiln("get object -o back --force -q").ok();
        let back = rig.read("back");
        assert!(back == old || back == new, "round {round}: neither the old nor the new bytes");
        replaced += u64::from(back == new);
        // 6 shards, 3 manifests.
        tidy(&rig, 9);
        rig.kiln("get object -o back --force -q").ok();
        assert!(rig.read("back") == back, "round {round}: changed by tidying up");
    }
    let usual_rm = usual(&rig, "rm object");
    for round in 0..rounds().div_ceil(2) {
        rig.kiln("put old object --force -q").ok();
        kill(rig.start("rm object"), &mut random, usual_rm);
        let code = rig.kiln("get object -o back --force -q").code;
        match code {
            0 => {
                assert!(rig.read("back") == old, "round {round}");
                tidy(&rig, 9);
            }
            7 => tidy(&rig, 0),
            code => panic!("round {round}: get said {code}"),
        }
    }
    say(&format!("put: {} kills, {replaced} had replaced the object", rounds()));
}

#[test]
fn repair_and_drain_survive_kills() {
    let seed = seed("repair_and_drain_survive_kills");
    let mut random = Random::new(seed);
    let rig = Rig::new();
    create(&rig, "clay:4+2", 7);
    let old = rig.data("old", BYTES, seed);
    rig.kiln("put old object -q").ok();
    let lose = |rig: &Rig| {
        rig.remove("d02");
        rig.kiln("pool add-node n02 --replace -q").ok();
    };
    lose(&rig);
    let usual_repair = usual(&rig, "repair -q");
    for _ in 0..rounds() {
        lose(&rig);
        kill(rig.start("repair -q"), &mut random, usual_repair);
        rig.kiln("get object -o back --force -q").ok();
        assert!(rig.read("back") == old);
        tidy(&rig, 9);
    }
    for round in 0..rounds().div_ceil(2) {
        kill(rig.start("pool drain n04 -q"), &mut random, usual_repair * 2);
        rig.kiln("get object -o back --force -q").ok();
        assert!(rig.read("back") == old, "round {round}");
        let there = rig.kiln("status --json").json()["nodes"].as_array().unwrap().len() == 7;
        rig.kiln(if there { "pool drain n04 -q" } else { "status" }).ok();
        tidy(&rig, 9);
        rig.remove("d04");
        rig.kiln("pool add-node n04 d04 -q").ok();
    }
}

#[test]
fn several_writers_at_a_time() {
    let rig = Rig::new();
    create(&rig, "clay:4+2", 7);
    let files: Vec<Vec<u8>> =
        (0..4).map(|at| rig.data(&format!("f{at}"), 100_000 + at * 7, at as u64)).collect();
    for _ in 0..3 {
        let mut children: Vec<Child> = Vec::new();
        for at in 0..4 {
            children.push(rig.start(&format!("put f{at} same --force -q")));
            children.push(rig.start(&format!("put f{at} own/{at} --force -q")));
        }
        for child in children {
            let output = child.wait_with_output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{stderr}");
        }
        rig.kiln("get same -o back --force -q").ok();
        assert!(files.contains(&rig.read("back")));
        for (at, bytes) in files.iter().enumerate() {
            rig.kiln(&format!("get own/{at} -o back --force -q")).ok();
            assert!(rig.read("back") == *bytes);
        }
    }
    // Three more: the folder's own object.
    tidy(&rig, 5 * 9 + 3);
}
