//! Messages and exit codes when something goes wrong.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::agents::Agent;
use crate::rig::{Ended, Rig, program, shard};

/// The one object on standard output, and the line on standard error.
#[track_caller]
fn told(ended: Ended, exit: i32, kind: &str) -> Value {
    let ended = ended.code(exit);
    let told = ended.json();
    assert_eq!((told["exit"].as_i64(), told["kind"].as_str()), (Some(exit.into()), Some(kind)));
    let error = told["error"].as_str().unwrap();
    assert!(ended.stderr.contains(error), "the same on standard error: {}", ended.stderr);
    assert!(!told["todo"].as_str().unwrap().is_empty());
    told
}

fn pool(rig: &Rig) {
    for node in 0..6 {
        fs::create_dir(rig.path(format!("n{node}"))).unwrap();
    }
    let nodes: Vec<String> = (0..6).map(|node| format!("--node n{node}")).collect();
    rig.kiln(&format!("pool create pool.toml -c rs:4+2 {}", nodes.join(" "))).ok();
}

#[test]
fn errors_are_json_too() {
    let rig = Rig::new();
    told(rig.kiln("encode --json"), 3, "usage");
    told(rig.kiln("nonsense --json"), 3, "usage");
    told(rig.kiln("verify nothing --json"), 4, "io");
    fs::create_dir(rig.path("empty")).unwrap();
    told(rig.kiln("verify empty --json"), 7, "not-found");
    let data = rig.encoded("rs:2+1", "", 10_000);
    let there = told(rig.kiln("encode object -c rs:2+1 -o shards --json"), 5, "refused");
    assert_eq!(there["todo"], "nothing was changed; remove what is in the way");
    rig.data("object", 10_000, 2);
    let other = told(rig.kiln("encode object -c rs:2+1 -o shards --json"), 5, "refused");
    assert_eq!(other["todo"], "nothing was changed; give --force to replace what is there");
    assert!(other["error"].as_str().unwrap().ends_with("give --force to replace what is there"));
    for index in [0, 1] {
        rig.remove(shard(index));
    }
    told(rig.kiln("verify shards --json"), 2, "not-recoverable");
    // Data on standard output stays alone there.
    let ended = rig.kiln("decode shards -o - --json").code(2);
    assert_ne!(data, ended.stdout.as_bytes());
    pool(&rig);
    told(rig.kiln("get nope --json"), 7, "not-found");
    told(rig.kiln("volume stat nope --json"), 7, "not-found");
}

#[test]
fn a_wrong_key_is_no_loss() {
    let rig = Rig::new();
    rig.kiln("agent --init --key right.key").ok();
    rig.kiln("agent --init --key wrong.key").ok();
    let agent = Agent::start(&rig, "served", "--key right.key");
    let place = &agent.address;
    rig.data("object", 1000, 1);
    rig.kiln(&format!("encode object -c rs:2+1 -o {place} --key right.key -q")).ok();
    rig.kiln(&format!("verify {place} --key right.key -q")).ok();
    let ended = rig.kiln(&format!("verify {place} --key wrong.key --json"));
    told(ended, 8, "wrong-key");

    // A pool of whose nodes none can be asked says so, too, whatever it is asked for.
    let agents = ["a", "b", "c"].map(|name| Agent::start(&rig, name, "--key right.key"));
    let nodes = agents.each_ref().map(|agent| format!("--node {}", agent.address)).join(" ");
    rig.kiln(&format!("pool create pool.toml -c rs:2+1 {nodes} --key right.key -q")).ok();
    rig.kiln("put object --key right.key -q").ok();
    for words in ["status", "ls", "get object -o back", "stat object", "scrub", "put object other"]
    {
        told(rig.kiln(&format!("{words} --key wrong.key --json")), 8, "wrong-key");
    }
}

#[test]
fn who_looks_does_not_wait_for_who_works() {
    let rig = Rig::new();
    pool(&rig);
    rig.data("object", 1000, 1);
    rig.kiln("put object -q").ok();
    rig.kiln("ls -q").ok();
    // As a repair has it from its beginning to its end.
    let lock = fs::File::open(rig.path("pool.index.redb.lock")).unwrap();
    lock.lock().unwrap();
    let ended = rig.kiln("status").ok();
    assert!(ended.stdout.contains("1 object") && ended.stderr.contains("findings of scrubs"));
    assert_eq!(rig.kiln("ls").ok().stdout, "object\n");
    rig.kiln("mv object other -q").ok();
    let mut scrub = rig.command("scrub -q").stderr(Stdio::piped()).spawn().unwrap();
    let mut said = [0; 13];
    scrub.stderr.as_mut().unwrap().read_exact(&mut said).unwrap();
    assert_eq!(&said, b"kiln: warning");
    lock.unlock().unwrap();
    assert!(scrub.wait().unwrap().success());
}

#[test]
fn words_that_make_no_sense_are_answered_by_what_does() {
    let rig = Rig::new();
    let ended = rig.kiln("").code(3);
    assert!(ended.stderr.contains("encode") && ended.stderr.contains("no command given"));
    let ended = rig.kiln("pool").code(3);
    assert!(ended.stderr.contains("add-node") && ended.stderr.contains("no command given"));
    rig.kiln("ls").fails(4, &["pool.toml", "--pool", "kiln pool create", "kiln pool restore"]);
    rig.kiln("verify nowhere").fails(4, &["nowhere", "no such folder"]);
    assert!(!rig.kiln("verify nowhere --nope").code(3).stderr.contains("tip"));
    // What encode calls --name may be called so afterwards.
    rig.encoded("rs:2+1", "--name its", 1000);
    rig.kiln("verify shards --name its").ok();
    let all = rig.kiln("verify shards --all --json").ok();
    assert_eq!(all.stdout.matches("\"object\":").count(), 1, "{}", all.stdout);
}

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
fn long_lists_are_summed_up() {
    let rig = Rig::new();
    rig.encoded("rs:2+1", "--sub-chunk 64", 100_000);
    let mut bytes = rig.read(shard(1));
    let len = bytes.len();
    for at in (5000..len - 5000).step_by(64) {
        bytes[at] ^= 1;
    }
    fs::write(rig.path(shard(1)), bytes).unwrap();
    let ended = rig.kiln("verify shards").code(1);
    assert!(ended.stdout.contains("damaged stripes"), "{}", ended.stdout);
    assert!(ended.stdout.lines().count() < 10, "{}", ended.stdout);
}
