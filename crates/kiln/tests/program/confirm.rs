//! Commands that lose data or safety ask first; trouble of the process itself is no damage.

use std::fs;
use std::process::Command;

use crate::rig::{Rig, data, program};
use crate::volumes::{Client, Server};

fn pool() -> Rig {
    let rig = Rig::new();
    (0..5).for_each(|node| fs::create_dir(rig.path(format!("n{node}"))).unwrap());
    let nodes: Vec<String> = (0..5).map(|node| format!("--node n{node}")).collect();
    rig.kiln(&format!("pool create pool.toml -c rs:3+2 {} -q", nodes.join(" "))).ok();
    rig
}

#[test]
fn a_smaller_volume_keeps_what_was_written_until_that_is_given_up() {
    let rig = pool();
    rig.kiln("volume create disk 16MiB -q").ok();
    // Nothing lies there.
    rig.kiln("volume resize disk 8MiB -q").ok();
    rig.kiln("volume resize disk 16MiB -q").ok();
    let (last, block) = ((16 << 20) - 4096, data(4096, 3));
    let server = Server::start(&rig, "");
    Client::new(&rig).write(last, &block).unwrap();
    server.end();
    rig.kiln("volume resize disk 1MiB").fails(5, &["1 block of 4 KiB", "past 1 MiB", "--yes"]);
    let server = Server::start(&rig, "");
    assert_eq!(Client::new(&rig).read(last, 4096), block);
    server.end();
    rig.kiln("volume resize disk 1MiB --yes -q").ok();
    rig.kiln("volume rm disk").fails(5, &["--yes"]);
    rig.kiln("volume rm disk --yes -q").ok();
}

#[test]
fn without_threads_kiln_works_or_says_so() {
    let rig = Rig::new();
    rig.data("big", 9_000_000, 1);
    // The limit is one of users, and counts for root never.
    let is_root = rustix::process::geteuid().is_root();
    for limit in [1, 2, 3, 6] {
        let to = rig.path(format!("o{limit}"));
        let program = program().get_program().to_owned();
        let mut command = Command::new("sh");
        let drop = "exec setpriv --reuid=65532 --regid=65532 --clear-groups prlimit --nproc";
        let script = match is_root {
            true => format!("chmod 777 . && {drop}={limit} \"$@\""),
            false => format!("ulimit -u {limit} && exec \"$@\""),
        };
        command.arg("-c").arg(script).arg("sh").arg(program);
        command.args(["encode", "big", "-c", "clay:4+2", "-q", "-o"]).arg(&to);
        let ended = Rig::end({
            command.current_dir(rig.path(""));
            command
        });
        let known = [0, 4, 9].contains(&ended.code);
        // Another user may not reach the program, nor every system have these tools.
        let cannot = [126, 127].contains(&ended.code) || ended.stderr.contains("setpriv");
        assert!(known || (is_root && cannot), "{limit}: {}: {}", ended.code, ended.stderr);
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    }
}
