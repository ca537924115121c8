//! Full and read-only disks. They need a mount: as root directly, else in a user namespace of the
//! test's own; where neither works the test says SKIPPED.

use std::path::Path;
use std::process::Command;

use crate::rig::{Rig, say, shard};

/// Set in the process that runs inside a namespace of its own.
const INSIDE: &str = "KILN_TEST_INSIDE_NAMESPACE";

/// A tmpfs, unmounted at the end.
pub struct Mount<'a> {
    rig: &'a Rig,
    name: &'static str,
}

impl<'a> Mount<'a> {
    pub fn new(rig: &'a Rig, name: &'static str, options: &str) -> Option<Mount<'a>> {
        std::fs::create_dir_all(rig.path(name)).unwrap();
        mount(&["-t", "tmpfs", "-o", options, "tmpfs"], &rig.path(name))
            .then(|| Mount { rig, name })
    }

    fn make_read_only(&self) {
        assert!(mount(&["-o", "remount,bind,ro"], &self.rig.path(self.name)));
    }
}

impl Drop for Mount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.rig.path(self.name)).status();
    }
}

fn mount(options: &[&str], target: &Path) -> bool {
    let done = Command::new("mount").args(options).arg(target).output();
    done.is_ok_and(|output| output.status.success())
}

/// Runs `test` where mounting works.
pub fn where_mounts_work(name: &str, test: impl FnOnce(&Rig)) {
    let rig = Rig::new();
    if Mount::new(&rig, "probe", "size=1m").is_some() {
        test(&rig);
        return;
    }
    let inside = std::env::var_os(INSIDE).is_some();
    let probe = Command::new("unshare").args(["-Urm", "true"]).output();
    if inside || !probe.is_ok_and(|output| output.status.success()) {
        say(&format!("SKIPPED: {name} needs to mount a tmpfs, as root or with unshare -Urm"));
        return;
    }
    let output = Command::new("unshare")
        .arg("-Urm")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    say(String::from_utf8_lossy(&output.stderr).trim_end());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn full_disk() {
    where_mounts_work("disk::full_disk", |rig| {
        let small = Mount::new(rig, "small", "size=2m").unwrap();
        let data = rig.data("object", 6 << 20, 1);
        for flags in ["", "--sub-chunk 4KiB"] {
            let words = format!("encode object -c rs:2+1 -o small/shards {flags}");
            rig.kiln(&words).fails(4, &["small/shards", "space"]);
            assert!(rig.names("small").is_empty(), "nothing stays on a full disk");
        }
        rig.kiln("encode object -c rs:2+1 -o ok1 -o small/shards -o ok2").fails(4, &["space"]);
        assert!(!rig.path("ok1").exists() && !rig.path("ok2").exists(), "nor on the others");

        rig.kiln("encode object -c rs:2+1 -o shards -q").ok();
        let before = rig.snapshot("shards");
        rig.kiln("decode shards -o small/back").fails(4, &["space"]);
        rig.remove(shard(0));
        rig.kiln("repair shards --to small").fails(4, &["space"]);
        assert!(rig.names("small").is_empty(), "nothing stays on a full disk");
        assert!(rig.snapshot("shards") == before[1..]);
        drop(small);
        rig.kiln("repair shards").ok();
        assert!(rig.snapshot("shards") == before);
        rig.decodes_to(&data);
    });
}

#[test]
fn read_only_disk() {
    where_mounts_work("disk::read_only_disk", |rig| {
        let fixed = Mount::new(rig, "fixed", "size=20m").unwrap();
        let data = rig.data("object", 1 << 20, 1);
        rig.kiln("encode object -c clay:4+2 -o fixed/shards -q").ok();
        std::fs::remove_file(rig.path("fixed/shards/object.02.kiln")).unwrap();
        fixed.make_read_only();
        rig.kiln("encode object -c rs:2+1 -o fixed/new").fails(4, &["fixed/new"]);
        rig.kiln("encode object -c rs:2+1 -o fixed").fails(4, &["fixed"]);
        rig.kiln("decode fixed/shards -o fixed/back").fails(4, &["fixed"]);
        rig.kiln("repair fixed/shards").fails(4, &["fixed"]);
        // Reading is still possible, and so is repair to another place.
        rig.kiln("verify fixed/shards").code(1);
        rig.kiln("decode fixed/shards -o back -q").ok();
        assert!(rig.read("back") == data);
        rig.kiln("repair fixed/shards --to other").ok();
        rig.kiln("verify fixed/shards other --deep").ok();
    });
}

#[test]
fn full_node_of_a_pool() {
    where_mounts_work("disk::full_node_of_a_pool", |rig| {
        let _small = Mount::new(rig, "d01", "size=2m").unwrap();
        crate::pool::create(rig, "rs:2+1", 3);
        let old = rig.data("old", 1 << 20, 1);
        rig.kiln("put old object -q").ok();
        rig.data("new", 8 << 20, 2);
        rig.kiln("put new object --force").fails(5, &["no room on n01"]);
        rig.kiln("get object -o back -q").ok();
        assert!(rig.read("back") == old, "the old version stays");
        rig.kiln("scrub --grace 0").ok();
        let parts = |node: &str| rig.names(node).iter().any(|name| name.ends_with(".part"));
        assert!(!["d00", "d01", "d02"].into_iter().any(parts), "nothing is left of the new one");
    });
}
