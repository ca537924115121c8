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

#[test]
fn what_is_private_stays_private() {
    let rig = Rig::new();
    rig.data("object", 100_000, 3);
    fs::set_permissions(rig.path("object"), Permissions::from_mode(0o600)).unwrap();
    rig.kiln("encode object -c rs:2+1 -o shards -q").ok();
    let mode = |name: &str| rig.path(name).metadata().unwrap().mode() & 0o777;
    assert_eq!(mode(&shard(0)), 0o600);
    rig.remove(shard(1));
    rig.kiln("repair shards -q").ok();
    assert_eq!(mode(&shard(1)), 0o600, "rebuilt");
    rig.kiln("decode shards -o back -q").ok();
    assert_eq!(mode("back"), 0o600);
    // As an archive even one file keeps all of it.
    set_time(&rig.path("object"), Duration::new(5, 7));
    rig.kiln("encode object --archive -c rs:2+1 -o other -q").ok();
    assert_eq!(rig.names("other")[0], "object.tar.00.kiln");
    rig.kiln("decode other --unpack -o again -q").ok();
    let meta = rig.path("again").metadata().unwrap();
    assert_eq!((meta.mtime(), meta.mtime_nsec(), meta.mode() & 0o777), (5, 7, 0o600));
}

#[test]
fn an_archive_of_others_stays_inside() {
    let rig = Rig::new();
    let tar = |words: &str| {
        let script = format!("mkdir -p sub; echo evil > evil; cd sub; {words}");
        let run = Command::new("sh").args(["-c", &script]).current_dir(rig.path("")).status();
        assert!(run.unwrap().success());
    };
    tar("tar -cPf ../out.tar ../evil");
    rig.remove("evil");
    rig.kiln("encode out.tar -c rs:2+1 -o shards -q").ok();
    let ended = rig.kiln("decode shards --unpack -o back");
    assert!(!rig.path("evil").exists(), "{}", ended.stderr);
    // What is no archive is an error and leaves nothing.
    rig.data("noise", 10_000, 9);
    rig.kiln("encode noise -c rs:2+1 -o noises -q").ok();
    rig.kiln("decode noises --unpack -o none").fails(4, &["none.kiln-part"]);
    assert!(!rig.path("none").exists() && !rig.path(".none.kiln-part").exists());
}

#[test]
fn names_are_kept_or_refused() {
    let rig = Rig::new();
    let odd = OsStr::from_bytes(b"b\xfe");
    fs::write(rig.path(odd), b"x").unwrap();
    let words = [OsStr::new("encode"), odd, OsStr::new("-crs:2+1"), OsStr::new("-oout")];
    let ended = rig.command_of(words).output().unwrap();
    assert_eq!(ended.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("not UTF-8"));
    fs::write(rig.path(".profile"), b"x").unwrap();
    rig.kiln("encode .profile -c rs:2+1 -o out").fails(3, &["--name"]);
    assert!(!rig.path("out").exists());
}

#[test]
fn all_objects_below_a_folder() {
    let rig = Rig::new();
    let (a, b) = (rig.data("a", 400_000, 1), rig.data("b", 70_000, 2));
    for (name, code, folder) in
        [("a", "clay:4+2", "all"), ("b", "rs:2+1", "all"), ("b", "rs:2+2", "all/deep/er")]
    {
        rig.kiln(&format!("encode {name} -c {code} -o {folder} -q")).ok();
    }
    let ended = rig.kiln("verify all --all").ok();
    assert!(ended.stdout.contains("3 objects; nothing is wrong"), "{}", ended.stdout);
    rig.remove("all/a.03.kiln");
    rig.remove("all/deep/er/b.00.kiln");
    let seen = rig.kiln("verify all --all --json").code(1).json();
    let objects = seen["objects"].as_array().unwrap();
    let exits: Vec<u64> = objects.iter().map(|o| o["exit"].as_u64().unwrap()).collect();
    assert_eq!(exits, [1, 0, 1]);
    assert_eq!(objects[2]["below"], "deep/er");
    rig.kiln("decode all --all -o back -q").ok();
    assert!(rig.read("back/a") == a && rig.read("back/b") == b);
    assert!(rig.read("back/deep/er/b") == b);
    rig.kiln("repair all --all").ok();
    rig.kiln("verify all --all --deep -q").ok();
    // A lost one does not affect the others.
    for index in 0..2 {
        rig.remove(format!("all/b.{index:02}.kiln"));
    }
    rig.remove("all/a.00.kiln");
    let ended = rig.kiln("repair all --all").code(2);
    assert!(ended.stderr.contains("b:") && ended.stderr.lines().count() == 1, "{}", ended.stderr);
    assert!(rig.path("all/a.00.kiln").exists());
    rig.kiln("verify all/deep --all -q").ok();
    // Without --all one has to be named.
    rig.kiln("decode all -o x").fails(3, &["--object", "--all"]);
    // Folders that belong together do so below too.
    for name in ["a", "b"] {
        let to = |disk: usize| format!("-o d{disk}/{name}");
        let to: Vec<String> = (0..3).map(to).collect();
        rig.kiln(&format!("encode {name} -c rs:2+1 {} -q", to.join(" "))).ok();
    }
    rig.remove("d1");
    rig.kiln("repair d0 d1 d2 --all -q").ok();
    assert_eq!(rig.names("d1/b"), ["b.01.kiln"]);
    rig.kiln("verify d0 d1 d2 --all -q").ok();
}

#[test]
fn a_part_of_an_object() {
    let rig = Rig::new();
    let data = rig.encoded("clay:4+2", "--sub-chunk 64", 100_003);
    rig.remove(shard(1));
    rig.remove(shard(4));
    for (start, len) in [(0, 1), (0, 100_003), (2047, 2), (5000, 40_000), (100_000, 50), (7, 0)] {
        let words = format!("decode shards --range {start}+{len} -o back --force --json");
        let report = rig.kiln(&words).ok().json();
        let wanted = &data[start..(start + len).min(data.len())];
        assert_eq!(report["bytes_written"], wanted.len());
        assert!(rig.read("back") == wanted, "{start}+{len}");
    }
    rig.kiln("decode shards --range 100004+1 -o x").fails(3, &["ends after 100003"]);
    rig.kiln("decode shards --range 5 -o x").fails(3, &["START+LENGTH"]);
    assert!(!rig.path("x").exists());
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

#[test]
fn zeros_take_no_room() {
    let rig = Rig::new();
    let mut image = vec![0; 8 << 20];
    image[3 << 20..(3 << 20) + 5000].copy_from_slice(&data(5000, 4));
    fs::write(rig.path("object"), &image).unwrap();
    rig.kiln("encode object -c rs:2+1 -o shards -q").ok();
    rig.decodes_to(&image);
    let blocks = rig.path("back").metadata().unwrap().blocks();
    assert!(blocks * 512 < 1 << 20, "{blocks} blocks of 512 bytes");
}
