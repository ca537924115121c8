//! Input and places that cannot be used: the exit code, one line, nothing lost.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::time::Duration;

use crate::rig::{Rig, shard};

#[test]
fn input_that_is_not_there() {
    let rig = Rig::new();
    rig.kiln("encode nothing -c rs:2+1 -o shards").fails(4, &["nothing"]);
    rig.kiln("decode nothing -o back").fails(4, &["nothing"]);
    rig.kiln("verify nothing").fails(4, &["nothing"]);
    rig.kiln("repair nothing").fails(4, &["nothing"]);
    rig.kiln("inspect nothing").fails(4, &["nothing"]);
    assert!(rig.names(".").is_empty(), "nothing was created");
}

#[test]
fn folders_without_shards() {
    let rig = Rig::new();
    fs::create_dir(rig.path("empty")).unwrap();
    for command in ["decode empty -o back", "verify empty", "repair empty", "inspect empty"] {
        rig.kiln(command).fails(7, &["no shards", "empty"]);
    }
    rig.encoded("rs:2+1", "", 1000);
    rig.kiln("verify shards --object other").fails(7, &["other"]);
    assert!(!rig.path("back").exists());
}

#[test]
fn files_that_are_no_shards() {
    let rig = Rig::new();
    let data = rig.encoded("rs:2+1", "", 10_000);
    // A foreign file that only has the name, and an empty one.
    fs::write(rig.path("shards/object.07.kiln"), b"not a shard at all").unwrap();
    fs::write(rig.path("shards/readme.txt"), b"hello").unwrap();
    rig.decodes_to(&data);
    fs::write(rig.path("text.kiln"), b"plain text").unwrap();
    rig.kiln("inspect text.kiln").fails(4, &["text.kiln"]);
    fs::write(rig.path("none.kiln"), b"").unwrap();
    rig.kiln("inspect none.kiln").fails(4, &["none.kiln"]);
}

#[test]
fn folders_that_cannot_be_written() {
    let rig = Rig::new();
    rig.data("object", 10_000, 1);
    fs::write(rig.path("file"), b"in the way").unwrap();
    // Root may write everywhere, but cannot make a folder below a file.
    rig.kiln("encode object -c rs:2+1 -o file").fails(4, &["file"]);
    rig.kiln("encode object -c rs:2+1 -o file/below").fails(4, &["file/below"]);
    rig.kiln("encode object -c rs:2+1 -o a -o file/below -o b").fails(4, &["file/below"]);
    assert_eq!(rig.names("."), ["file", "object"], "no folder was left behind");
    rig.encoded("rs:2+1", "", 10_000);
    let before = rig.snapshot("shards");
    rig.kiln("decode shards -o file/below").fails(4, &["file/below"]);
    rig.kiln("decode shards -o shards").fails(3, &["folder"]);
    rig.remove(shard(0));
    rig.kiln("repair shards --lost 0 --to file/below").fails(4, &["file/below"]);
    assert_eq!(rig.snapshot("shards"), before[1..], "shards are as they were");
    assert_eq!(rig.read("file"), b"in the way");
}

#[test]
fn an_existing_output_is_kept() {
    let rig = Rig::new();
    rig.encoded("rs:2+1", "", 10_000);
    fs::write(rig.path("back"), b"precious").unwrap();
    rig.kiln("decode shards -o back").fails(5, &["back", "--force"]);
    assert_eq!(rig.read("back"), b"precious");
    // Neither does a failing decode with --force harm it.
    rig.remove(shard(0));
    rig.remove(shard(1));
    rig.kiln("decode shards -o back --force").fails(2, &["not recoverable"]);
    assert_eq!(rig.read("back"), b"precious");
    assert_eq!(rig.names("."), ["back", "object", "shards"], "no temporary file stays");
}

#[test]
fn too_many_lost() {
    let rig = Rig::new();
    rig.encoded("clay:4+2", "", 100_000);
    for index in [0, 3, 5] {
        rig.remove(shard(index));
    }
    let before = rig.snapshot("shards");
    rig.kiln("decode shards -o back").fails(2, &["not recoverable"]);
    rig.kiln("repair shards").fails(2, &["not recoverable"]);
    rig.kiln("verify shards").code(2);
    assert_eq!(rig.snapshot("shards"), before);
    assert!(!rig.path("back").exists());
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
