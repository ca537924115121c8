//! Folders as objects, all objects below a folder, parts of objects, and what can be had when not
//! all can.

use std::ffi::OsStr;
use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use crate::rig::{Rig, data, flip, shard};

/// Contents of a folder, as its owner sees them: name, mode, time, kind and content.
fn listing(root: &Path) -> Vec<String> {
    let (mut seen, mut todo) = (Vec::new(), vec![root.to_owned()]);
    while let Some(path) = todo.pop() {
        let meta = path.symlink_metadata().unwrap();
        let content = if meta.is_symlink() {
            format!("-> {}", fs::read_link(&path).unwrap().display())
        } else if meta.is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            "folder".to_owned()
        } else {
            crate::rig::sha256(&fs::read(&path).unwrap())
        };
        // A link's own mode and time do not matter.
        let own = match meta.is_symlink() {
            true => String::new(),
            false => format!("{:o} {}.{:09}", meta.mode(), meta.mtime(), meta.mtime_nsec()),
        };
        seen.push(format!("{:?} {own} {content}", path.strip_prefix(root).unwrap()));
    }
    seen.sort();
    seen
}

fn set_time(path: &Path, since: Duration) {
    let times = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH + since);
    File::open(path).unwrap().set_times(times).unwrap();
}

/// A folder with whatever folders have.
fn odd_folder(rig: &Rig) -> PathBuf {
    let root = rig.path("photos");
    fs::create_dir_all(root.join("2024/empty")).unwrap();
    fs::create_dir_all(root.join("locked")).unwrap();
    fs::write(root.join("2024/beach.jpg"), data(300_000, 1)).unwrap();
    fs::write(root.join(".hidden"), b"dot").unwrap();
    fs::write(root.join("l".repeat(240)), b"long").unwrap();
    fs::write(root.join(OsStr::from_bytes(b"not\xffutf8")), b"odd").unwrap();
    fs::write(root.join("locked/secret"), data(5000, 2)).unwrap();
    fs::write(root.join("empty file"), b"").unwrap();
    fs::hard_link(root.join("2024/beach.jpg"), root.join("same")).unwrap();
    symlink("2024/beach.jpg", root.join("link")).unwrap();
    symlink("/nowhere/at/all", root.join("dangling")).unwrap();
    fs::set_permissions(root.join("locked/secret"), Permissions::from_mode(0o400)).unwrap();
    fs::set_permissions(root.join(".hidden"), Permissions::from_mode(0o755)).unwrap();
    set_time(&root.join(".hidden"), Duration::new(1_000_000_000, 123_456_789));
    set_time(&root.join("2024/beach.jpg"), Duration::new(86_400, 0));
    set_time(&root.join("2024/empty"), Duration::new(1_700_000_000, 5));
    fs::set_permissions(root.join("locked"), Permissions::from_mode(0o500)).unwrap();
    root
}

#[test]
fn a_folder_comes_back_as_it_was() {
    let rig = Rig::new();
    let root = odd_folder(&rig);
    let made = Command::new("mkfifo").arg(root.join("pipe")).status().unwrap();
    assert!(made.success());
    let encoded = rig.kiln("encode photos -c clay:4+2 -o shards").ok();
    assert!(encoded.stderr.contains("left out") && encoded.stderr.contains("photos/pipe"));
    fs::remove_file(root.join("pipe")).unwrap();
    let before = listing(&root);
    rig.remove("shards/photos.tar.01.kiln");
    rig.kiln("repair shards -q").ok();
    rig.remove("shards/photos.tar.00.kiln");
    rig.remove("shards/photos.tar.05.kiln");
    rig.kiln("decode shards --unpack -o back -q").ok();
    let mut after = listing(&rig.path("back"));
    // The folder itself: a file was made in it and removed again after it was packed.
    let top = |line: &String| !line.starts_with("\"\" ");
    after.retain(top);
    assert_eq!(after, before.into_iter().filter(top).collect::<Vec<_>>());
    let inode = |name: &str| rig.path(name).metadata().unwrap().ino();
    assert_eq!(inode("back/same"), inode("back/2024/beach.jpg"), "still one file of two names");
    rig.kiln("decode shards --unpack -o back").fails(5, &["exists"]);
    // Another program reads the archive too, and sees the same names.
    rig.kiln("decode shards -o photos.tar -q").ok();
    fs::rename(&root, rig.path("original")).unwrap();
    let mut tar = Command::new("tar");
    tar.args(["-xpf", "photos.tar"]).current_dir(rig.path(""));
    assert!(tar.status().unwrap().success());
    let by_tar = listing(&root).into_iter().filter(top).collect::<Vec<_>>();
    assert_eq!(by_tar, after, "as the system's tar sees it");
    assert!(rig.names(".").iter().all(|name| !name.starts_with('.')), "no hidden part stays");
}

/// Offset of a sub-chunk of a stripe of an unsegmented small shard: after the header.
fn spoil(rig: &Rig, index: usize, offset: u64) {
    flip(&rig.path(shard(index)), offset, 3);
}

#[test]
fn one_bad_byte_in_more_shards_than_there_are_parities() {
    let rig = Rig::new();
    let data = rig.encoded("clay:4+2", "--sub-chunk 512", 60_000);
    // The same place in three of six: no stripe of it can be decoded as others are.
    for index in [0, 2, 4] {
        spoil(&rig, index, 9000);
    }
    rig.kiln("decode shards -o back").fails(2, &["stripe"]);
    let report = rig.kiln("decode shards --salvage -o back --json").ok().json();
    assert_eq!(report["missing_bytes"], 0);
    assert!(report["solved_bytes"].as_u64().unwrap() > 0);
    assert!(rig.read("back") == data, "coupled sub-chunks tell the rest");
}

#[test]
fn what_is_left_is_told_byte_by_byte() {
    let rig = Rig::new();
    let data = rig.encoded("rs:4+2", "--sub-chunk 1024", 50_000);
    for index in [0, 2, 4] {
        spoil(&rig, index, 9000);
    }
    let ended = rig.kiln("decode shards --salvage -o rest").code(6);
    assert!(ended.stdout.contains("MISSING"), "{}", ended.stdout);
    let report = rig.kiln("decode shards --salvage -o rest --force --json").code(6).json();
    check_rest(&report, &rig.read("rest"), &data);
    assert_eq!(report["missing_bytes"], 2048, "two data chunks of one stripe");
    // Fewer shards than data: what is in data shards is there.
    let rig = Rig::new();
    let data = rig.encoded("clay:10+4", "--sub-chunk 64", 400_000);
    for index in [0, 1, 3, 7, 11] {
        rig.remove(shard(index));
    }
    rig.kiln("decode shards -o back").fails(2, &["not recoverable"]);
    let seen = rig.kiln("inspect shards --json").ok().json();
    assert_eq!(seen["objects"][0]["recoverable"], false);
    let report = rig.kiln("decode shards --salvage -o rest --json").code(6).json();
    check_rest(&report, &rig.read("rest"), &data);
    let missing = report["missing_bytes"].as_u64().unwrap();
    assert!((150_000..170_000).contains(&missing), "4 of 10 data shards: {missing}");
    rig.kiln("decode shards --salvage --format raw -c rs:2+1 -o x").code(3);
}

/// Every byte is right, or a zero that was told as missing.
fn check_rest(report: &serde_json::Value, rest: &[u8], data: &[u8]) {
    assert_eq!(rest.len(), data.len());
    let mut told = vec![false; data.len()];
    for gap in report["missing"].as_array().unwrap() {
        let (start, len) = (gap["start"].as_u64().unwrap(), gap["length"].as_u64().unwrap());
        told[start as usize..(start + len) as usize].fill(true);
    }
    let count = told.iter().filter(|told| **told).count();
    assert_eq!(report["missing_bytes"], count);
    for (at, told) in told.into_iter().enumerate() {
        assert_eq!(rest[at], if told { 0 } else { data[at] }, "byte {at}, missing: {told}");
    }
}
