//! Commands that lose data or safety ask first; trouble of the process itself is no damage.

use std::fs;
use std::os::unix::fs::symlink;
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
fn nodes_that_are_healthy_or_not_empty_need_a_word_more() {
    let rig = pool();
    rig.data("x", 300_000, 1);
    rig.kiln("put x -q").ok();
    rig.kiln("pool forget n01").fails(5, &["n01: healthy", "drain", "--yes"]);
    fs::create_dir(rig.path("new")).unwrap();
    rig.kiln("pool add-node n01 new --replace").fails(5, &["n01 is healthy", "--yes"]);
    fs::write(rig.path("new/theirs"), "precious").unwrap();
    rig.kiln("pool add-node n07 new").fails(5, &["is not empty", "not make 1 of", "--yes"]);
    let listed = rig.kiln("status").ok().stdout;
    assert!(!listed.contains("n07"), "{listed}");
    rig.kiln("pool add-node n07 new --yes -q").ok();
    rig.kiln("pool forget n01 --yes -q").ok();
    rig.kiln("repair -q").ok();
    // One that is gone needs none.
    fs::remove_dir_all(rig.path("n2")).unwrap();
    rig.kiln("pool add-node n02 --replace -q").ok();
    rig.kiln("repair -q").ok();
    rig.kiln("get x -o back -q").ok();
    assert_eq!(rig.read("back"), rig.read("x"));
    assert_eq!(rig.read("new/theirs"), b"precious");
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
fn shards_behind_links_are_repaired_where_they_lie() {
    let rig = Rig::new();
    rig.data("x", 300_000, 1);
    rig.kiln("encode x -c rs:3+2 -o s -q").ok();
    fs::create_dir(rig.path("disk")).unwrap();
    let real = rig.path("disk/shard");
    fs::rename(rig.path("s/x.01.kiln"), &real).unwrap();
    symlink(&real, rig.path("s/x.01.kiln")).unwrap();
    let whole = fs::read(&real).unwrap();
    let mut bad = whole.clone();
    bad[20_000] ^= 1;
    fs::write(&real, bad).unwrap();
    rig.kiln("repair s --scan -q").ok();
    assert!(rig.path("s/x.01.kiln").is_symlink());
    assert_eq!(fs::read(&real).unwrap(), whole);
    // The disk is there again, and empty.
    fs::remove_file(&real).unwrap();
    rig.kiln("repair s -q").ok();
    assert!(rig.path("s/x.01.kiln").is_symlink() && fs::read(&real).unwrap() == whole);
    assert_eq!(fs::read_dir(rig.path("disk")).unwrap().count(), 1);
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

#[test]
fn without_memory_kiln_works_or_says_so() {
    let rig = Rig::new();
    let bytes = rig.data("big", 9_000_000, 1);
    rig.kiln("encode big -c rs:4+2 -o s -q").ok();
    let ended = |kib: u64, words: &str| {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("ulimit -v {kib} && exec \"$@\"")).arg("sh");
        command.arg(program().get_program()).args(words.split_whitespace());
        command.current_dir(rig.path(""));
        Rig::end(command)
    };
    for kib in [600_000, 1_000_000] {
        for words in ["verify s -q", "decode s -o back --force -q", "repair s --scan -q"] {
            ended(kib, words).ok();
        }
        assert!(rig.read("back") == bytes);
    }
    ended(400_000, "verify s").fails(4, &["memory", "ulimit -v"]);
}
