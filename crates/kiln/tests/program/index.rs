//! The local index of a pool, whose file anything may happen to.

use std::fs;

use crate::pool::create;
use crate::rig::{Rig, data, flip};

#[test]
fn a_damaged_index_is_made_anew_in_one_line() {
    let rig = Rig::new();
    create(&rig, "rs:2+1", 4);
    for at in 0..30 {
        let name = format!("tree/{at:02}");
        fs::create_dir_all(rig.path("tree")).unwrap();
        fs::write(rig.path(&name), data(at * 300, at as u64)).unwrap();
    }
    rig.kiln("cp tree pool:all -q").ok();
    let list = rig.kiln("ls").ok();
    assert_eq!(list.stdout.lines().filter(|line| line.starts_with("all/")).count(), 30);
    let (path, good) = (rig.path("pool.index.redb"), rig.read("pool.index.redb"));
    let len = good.len() as u64;
    let damages: [&dyn Fn(); 6] = [
        &|| fs::write(&path, &good[..good.len() / 2]).unwrap(),
        &|| fs::write(&path, &good[..100]).unwrap(),
        &|| flip(&path, 4096 + 70, 2),
        &|| flip(&path, 9, 1),
        &|| flip(&path, len - 30, 7),
        &|| fs::write(rig.path("pool.index.redb.sums"), b"no sums").unwrap(),
    ];
    for (damage, command) in damages.iter().cycle().zip(["ls", "status", "scrub", "repair"]) {
        damage();
        let ended = rig.kiln(command).ok();
        let lines: Vec<&str> =
            ended.stderr.lines().filter(|l| l.contains("rebuilt without")).collect();
        assert!(lines.len() == 1 && lines[0].contains("pool.index.redb"), "{}", ended.stderr);
        assert!(!ended.stderr.contains("panic"), "{}", ended.stderr);
    }
    for damage in damages {
        damage();
        let ended = rig.kiln("ls").ok();
        assert!(ended.stderr.contains("rebuilt without"), "{}", ended.stderr);
        assert_eq!(ended.stdout, list.stdout);
        // Once: the next one finds it whole.
        let ended = rig.kiln("ls").ok();
        assert!(!ended.stderr.contains("rebuilt without"), "{}", ended.stderr);
        assert_eq!(ended.stdout, list.stdout);
    }
    // Its removal prints nothing: there is nothing wrong.
    fs::remove_file(&path).unwrap();
    let ended = rig.kiln("ls").ok();
    assert!(!ended.stderr.contains("rebuilt without"), "{}", ended.stderr);
    assert_eq!(ended.stdout, list.stdout);
}
