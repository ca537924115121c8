//! Everyday work, and its output.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use crate::rig::{Rig, data, shard};

/// Every family's example, and some more.
fn codes() -> impl Iterator<Item = &'static str> {
    let more = ["rs:4+2", "clay:4+2", "clay:5+3,d=6", "evenodd:5+2", "liberation:4+2,packet=512"];
    kiln_code::CODES.iter().map(|family| family.example).chain(more)
}

#[test]
fn encode_verify_lose_repair_decode() {
    for spec in codes() {
        let codec = kiln_code::Codec::new(&spec.parse().unwrap()).unwrap();
        let kiln_code::Shape { k, m, .. } = codec.shape();
        let rig = Rig::new();
        let data = rig.encoded(spec, "", 3_000_001);
        let n = k + m;
        let names: Vec<String> = (0..n).map(|i| format!("object.{i:02}.kiln")).collect();
        assert_eq!(rig.names("shards"), names, "exactly n files");
        rig.kiln("verify shards --deep").ok();
        let whole = rig.snapshot("shards");
        for index in [0, k - 1, k, n - 1] {
            rig.remove(shard(index));
            rig.kiln("verify shards").code(1);
            rig.kiln("repair shards").ok();
            rig.kiln("verify shards --deep").ok();
            assert_eq!(rig.snapshot("shards"), whole, "{spec}: shard {index} came back the same");
        }
        // The first m shards, or where no code of the form has them back, those around data's end.
        let lost = [0..m, k - 1..k - 1 + m].map(Iterator::collect::<Vec<usize>>);
        let lost = lost.iter().find(|lost| codec.tolerates(lost)).unwrap();
        for &index in lost {
            rig.remove(shard(index));
        }
        rig.decodes_to(&data);
        rig.kiln("repair shards").ok();
        assert_eq!(rig.snapshot("shards"), whole, "{spec}: {m} shards came back the same");
    }
}

#[test]
fn sizes_around_every_boundary() {
    // clay:4+2 has 8 sub-chunks a chunk: with 64 bytes each a stripe holds 2048 bytes.
    for bytes in [0, 1, 15, 16, 17, 511, 512, 513, 2047, 2048, 2049, 4096, 100_003] {
        let rig = Rig::new();
        let data = rig.encoded("clay:4+2", "--sub-chunk 64", bytes);
        rig.remove(shard(1));
        rig.remove(shard(4));
        rig.decodes_to(&data);
        rig.kiln("repair shards").ok();
        rig.kiln("verify shards --deep").ok();
    }
}

#[test]
fn one_folder_for_each_shard() {
    let rig = Rig::new();
    let data = rig.data("object", 1_500_000, 7);
    let folders: Vec<String> = (0..6).map(|i| format!("disk{i}")).collect();
    let flags: Vec<String> = folders.iter().map(|folder| format!("-o {folder}")).collect();
    rig.kiln(&format!("encode object -c clay:4+2 {}", flags.join(" "))).ok();
    for (index, folder) in folders.iter().enumerate() {
        assert_eq!(rig.names(folder), [format!("object.{index:02}.kiln")]);
    }
    let lost = rig.read("disk3/object.03.kiln");
    rig.remove("disk3");
    let all = folders.join(" ");
    rig.kiln(&format!("verify {all}")).code(1);
    assert!(!rig.path("disk3").exists(), "verify creates nothing");
    rig.kiln(&format!("repair {all} --dry-run")).ok();
    assert!(!rig.path("disk3").exists(), "a dry run creates nothing");
    rig.kiln(&format!("repair {all}")).ok();
    assert!(rig.read("disk3/object.03.kiln") == lost);
    // Any k folders in any order give the object back.
    rig.kiln("decode disk5 disk1 disk3 disk0 -o back").ok();
    assert!(rig.read("back") == data);
    // A new disk under another name.
    rig.remove("disk2");
    rig.kiln("repair disk0 disk1 disk3 disk4 disk5 --to new").ok();
    assert_eq!(rig.names("new"), ["object.02.kiln"]);
    rig.kiln("verify disk0 disk1 new disk3 disk4 disk5 --deep").ok();
}

#[test]
fn through_pipes() {
    let rig = Rig::new();
    for bytes in [0, 1, 70_000, 3_000_000] {
        let data = data(bytes, 3);
        let encode = "encode - --name piped -c clay:4+2 --sub-chunk 256 -o shards --force -q";
        rig.kiln_with_input(encode, &data).ok();
        rig.remove("shards/piped.00.kiln");
        let mut child = rig.start("decode shards -o -");
        let mut back = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut back).unwrap();
        assert!(child.wait().unwrap().success());
        assert!(back == data, "{bytes} bytes through a pipe");
        rig.kiln("repair shards").ok();
        rig.kiln("verify shards --deep").ok();
    }
    // Without --name the object is called stdin.
    rig.kiln_with_input("encode - -c rs:2+1 -o other -q", b"some bytes").ok();
    assert_eq!(rig.names("other")[0], "stdin.00.kiln");
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let rig = Rig::new();
    rig.encoded("rs:4+2", "", 8 << 20);
    let mut child = rig.command("decode shards -o -").stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut [0; 100]).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "no message, no panic");
}

#[test]
fn decode_into_a_device_or_through_a_link() {
    let rig = Rig::new();
    let data = rig.encoded("rs:2+1", "", 100_000);
    rig.kiln("decode shards -o /dev/null").ok();
    fs::write(rig.path("real"), b"old").unwrap();
    std::os::unix::fs::symlink(rig.path("real"), rig.path("link")).unwrap();
    rig.kiln("decode shards -o link").fails(5, &["exists", "--force"]);
    rig.kiln("decode shards -o link --force").ok();
    assert!(rig.path("link").is_symlink() && rig.read("real") == data);
    let hidden = rig.names(".").into_iter().filter(|name| name.starts_with('.')).count();
    assert_eq!(hidden, 0, "no temporary file stays");
}

#[test]
fn reports_have_the_documented_fields() {
    let rig = Rig::new();
    rig.data("object", 5_000_000, 1);
    let encode = rig.kiln("encode object -c clay:10+4 -o shards --json").ok().json();
    assert_eq!(encode["code"], "clay:10+4");
    assert_eq!(encode["size"], 5_000_000);
    assert_eq!(encode["shards"].as_array().unwrap().len(), 14);
    assert!(encode["seconds"].as_f64().unwrap() > 0.0);
    rig.remove(shard(2));
    let dry = rig.kiln("repair shards --dry-run --json").ok().json();
    assert!(!rig.path(shard(2)).exists());
    let run = rig.kiln("repair shards --json").ok().json();
    assert_eq!(run["code"], "clay:10+4");
    assert_eq!(run["order"], "natural");
    assert_eq!(run["strategy"], "repair");
    assert_eq!(run["lost"], serde_json::json!([2]));
    assert_eq!(run["helpers"].as_array().unwrap().len(), 13);
    assert_eq!(run["verified"], true);
    let counts = [
        "bytes_read",
        "read_runs",
        "bytes_sent",
        "max_node_load",
        "bytes_written",
        "nodes",
        "helpers",
    ];
    for key in counts {
        assert!(!run[key].is_null(), "{key} is missing");
        assert_eq!(run[key], dry[key], "run and dry run differ in {key}");
    }
    let ratio = run["bytes_read"].as_f64().unwrap() / run["bytes_written"].as_f64().unwrap();
    assert_eq!(ratio, 3.25);
    let verify = rig.kiln("verify shards --deep --json").ok().json();
    assert_eq!(verify["clean"], true);
    assert_eq!(verify["recoverable"], true);
    let decode = rig.kiln("decode shards -o back --json").ok().json();
    assert_eq!(decode["bytes_written"], 5_000_000);
    let inspect = rig.kiln("inspect shards --json").ok().json();
    assert_eq!(inspect["objects"][0]["alpha"], 256);
    let file = rig.kiln(&format!("inspect {} --json", shard(13))).ok().json();
    assert_eq!(file["files"][0]["index"], 13);
}

#[test]
fn two_objects_in_one_folder() {
    let rig = Rig::new();
    let one = rig.data("one", 50_000, 1);
    let two = rig.data("two", 60_000, 2);
    rig.kiln("encode one -c rs:2+1 -o shards").ok();
    rig.kiln("encode two -c clay:2+2 -o shards").ok();
    rig.kiln("decode shards -o back").fails(3, &["one", "two"]);
    rig.kiln("decode shards --object one -o back1").ok();
    rig.kiln("decode shards --object two -o back2").ok();
    assert!(rig.read("back1") == one && rig.read("back2") == two);
    let inspect = rig.kiln("inspect shards --json").ok().json();
    assert_eq!(inspect["objects"].as_array().unwrap().len(), 2);
    rig.kiln("verify shards --object two").ok();
}

#[test]
fn force_replaces_and_nothing_else_does() {
    let rig = Rig::new();
    rig.encoded("rs:3+2", "", 200_000);
    let before = rig.snapshot("shards");
    let other = rig.data("object", 300_000, 99);
    rig.kiln("encode object -c rs:3+2 -o shards").fails(5, &["object", "give --force"]);
    assert_eq!(rig.snapshot("shards"), before, "a refused encode touches nothing");
    rig.kiln("encode object -c rs:3+2 -o shards --force").ok();
    rig.decodes_to(&other);
    rig.kiln("verify shards --deep").ok();
}

#[test]
fn quiet_is_quiet_and_progress_needs_a_terminal() {
    let rig = Rig::new();
    rig.data("object", 1 << 20, 1);
    let ended = rig.kiln("encode object -c rs:4+2 -o shards -q").ok();
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""));
    let ended = rig.kiln("decode shards -o back").ok();
    assert_eq!(ended.stderr, "", "no progress into a pipe");
    assert!(ended.stdout.contains("object"));
}

#[test]
fn any_number_of_threads_and_kernels_gives_the_same_bytes() {
    let rig = Rig::new();
    rig.data("object", 700_000, 1);
    let words = "encode object --format raw -c clay:5+3,d=7 --sub-chunk 100";
    rig.kiln(&format!("{words} -o first")).ok();
    let names = rig.names("first");
    for (round, threads) in [1, 2, 7].into_iter().enumerate() {
        rig.kiln(&format!("{words} -o again{round} --threads {threads}")).ok();
        for name in &names {
            assert!(rig.read(format!("first/{name}")) == rig.read(format!("again{round}/{name}")));
        }
    }
    let mut command = rig.command(&format!("{words} -o scalar"));
    assert!(command.env("KILN_KERNEL", "scalar").status().unwrap().success());
    for name in &names {
        assert!(rig.read(format!("first/{name}")) == rig.read(format!("scalar/{name}")));
    }
    let mut command = rig.command(&format!("{words} -o none"));
    let output = command.env("KILN_KERNEL", "abacus").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("abacus") && stderr.contains("scalar"), "{stderr}");
}

#[test]
fn a_warning_tells_of_damage_that_was_worked_around() {
    let rig = Rig::new();
    let data = rig.encoded("rs:4+2", "", 500_000);
    rig.remove(shard(2));
    let decode = rig.kiln("decode shards -o back -q").ok();
    assert!(rig.read("back") == data);
    assert_eq!(decode.stderr.lines().count(), 1, "{}", decode.stderr);
    assert!(decode.stderr.starts_with("kiln: warning: object: shard 2"), "{}", decode.stderr);
}
