//! Two kilns at one object: the second waits for the first, and nothing is mixed or lost.

use std::process::Stdio;

use crate::rig::{Rig, shard};

const BYTES: usize = 6_000_000;

#[test]
fn the_second_of_two_encodes_waits_and_then_refuses() {
    let rig = Rig::new();
    let data = rig.data("object", BYTES, 1);
    let words = "encode object -c clay:4+2 --sub-chunk 64 -o shards";
    let slow = rig.start(&format!("{words} --limit-rate 6MiB"));
    let second = rig.command(words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (slow, second) = (slow.wait_with_output().unwrap(), second.wait_with_output().unwrap());
    // The first process wrote it; the other found it done.
    let mut codes = [slow.status.code(), second.status.code()];
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(5)]);
    rig.decodes_to(&data);
    rig.kiln("verify shards --deep").ok();
    assert_eq!(rig.names("shards").len(), 6);
}

#[test]
fn encodes_of_two_objects_into_one_folder_both_succeed() {
    let rig = Rig::new();
    rig.data("one", BYTES, 2);
    rig.data("two", BYTES, 3);
    let start = |name: &str| rig.start(&format!("encode {name} -c rs:4+2 -o shards"));
    for child in [start("one"), start("two")] {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    for name in ["one", "two"] {
        rig.kiln(&format!("decode shards --object {name} -o back-{name}")).ok();
        assert!(rig.read(format!("back-{name}")) == rig.read(name));
    }
}

#[test]
fn two_repairs_of_one_shard_end_well() {
    let rig = Rig::new();
    let data = rig.encoded("clay:4+2", "--sub-chunk 64", BYTES);
    let healthy = rig.snapshot("shards");
    rig.remove(shard(3));
    let start = || rig.start("repair shards --limit-rate 4MiB");
    for child in [start(), start()] {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    assert!(rig.snapshot("shards") == healthy);
    rig.decodes_to(&data);
}
