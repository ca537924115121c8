//! Folders and pools: cp, sync, mv, what names may be, and how to come back from a lost pool.toml.

use std::fs::{self, File, FileTimes, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use crate::rig::{Rig, data};

fn pool() -> Rig {
    let rig = Rig::new();
    for node in 0..6 {
        fs::create_dir(rig.path(format!("n{node}"))).unwrap();
    }
    let nodes: Vec<String> = (0..6).map(|node| format!("--node n{node}")).collect();
    rig.kiln(&format!("pool create pool.toml -c rs:4+2 {}", nodes.join(" "))).ok();
    rig
}

fn set_time(rig: &Rig, name: &str, seconds: u64, nanos: u32) {
    let time = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos);
    let file = File::open(rig.path(name)).unwrap();
    file.set_times(FileTimes::new().set_modified(time)).unwrap();
}

fn names(rig: &Rig) -> Vec<String> {
    rig.kiln("ls").ok().stdout.lines().map(str::to_owned).collect()
}

#[test]
fn modes_times_links_and_empty_folders_come_back() {
    let rig = pool();
    fs::create_dir_all(rig.path("in/deep/empty")).unwrap();
    fs::write(rig.path("in/secret"), b"secret").unwrap();
    fs::write(rig.path("in/deep/.tool"), data(100_000, 1)).unwrap();
    fs::set_permissions(rig.path("in/secret"), Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(rig.path("in/deep/.tool"), Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(rig.path("in/deep"), Permissions::from_mode(0o750)).unwrap();
    set_time(&rig, "in/secret", 1_000_000_000, 42);
    symlink("deep/.tool", rig.path("in/link")).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(rig.path("in/pipe")).status().unwrap();
    assert!(pipe.success());
    set_time(&rig, "in/deep", 1_100_000_000, 7);
    let ended = rig.kiln("cp in pool:a/b").ok();
    assert!(ended.stderr.contains("left out") && ended.stderr.contains("in/pipe"));
    assert_eq!(names(&rig), ["a/b/deep/.tool", "a/b/secret"], "how it is kept is not listed");
    rig.kiln("cp pool:a/b out -q").ok();
    let meta = |name: &str| rig.path(name).metadata().unwrap();
    let secret = meta("out/secret");
    assert_eq!((secret.mode() & 0o777, secret.mtime(), secret.mtime_nsec()), {
        (0o600, 1_000_000_000, 42)
    });
    assert_eq!(meta("out/deep/.tool").mode() & 0o777, 0o755);
    assert_eq!((meta("out/deep").mode() & 0o777, meta("out/deep").mtime()), (0o750, 1_100_000_000));
    assert!(rig.path("out/deep/empty").is_dir());
    assert_eq!(fs::read_link(rig.path("out/link")).unwrap().to_str(), Some("deep/.tool"));
    // A part of it too.
    rig.kiln("cp pool:a/b/deep part -q").ok();
    assert_eq!(meta("part/.tool").mode() & 0o777, 0o755);
    // An object put in place of a file has not that file's mode.
    rig.kiln("put pool.toml a/b/secret --force -q").ok();
    rig.kiln("cp pool:a/b again -q").ok();
    assert_ne!(meta("again/secret").mtime(), 1_000_000_000);
}

#[test]
fn files_go_where_cp_would_put_them() {
    let rig = pool();
    let x = rig.data("x.dat", 50_000, 1);
    rig.kiln("cp x.dat pool:y.dat -q").ok();
    rig.kiln("cp x.dat pool:films/ -q").ok();
    rig.kiln("cp x.dat pool: -q").ok();
    assert_eq!(names(&rig), ["films/x.dat", "x.dat", "y.dat"]);
    rig.kiln("rm x.dat -q").ok();
    rig.kiln("put x.dat x.dat -q").ok();
    // Into a folder that is there; onto a name that is not.
    rig.data("z.dat", 10, 2);
    rig.kiln("cp z.dat pool:films -q").ok();
    rig.kiln("cp pool:x.dat copy.dat -q").ok();
    assert!(rig.read("copy.dat") == x);
    fs::create_dir(rig.path("there")).unwrap();
    rig.kiln("cp pool:films/x.dat there -q").ok();
    rig.kiln("cp pool:films/x.dat new/ -q").ok();
    assert!(rig.read("there/x.dat") == x && rig.read("new/x.dat") == x);
    rig.kiln("cp pool:nothing w").fails(7, &["no object"]);
}

#[test]
fn no_object_is_a_folder() {
    let rig = pool();
    rig.data("x", 1000, 1);
    rig.kiln("put x big/m.bin -q").ok();
    rig.kiln("put x big").fails(5, &["is a folder", "big/m.bin"]);
    rig.kiln("put x big/m.bin/more/x").fails(5, &["is an object"]);
    rig.kiln("put x other -q").ok();
    rig.kiln("mv other big").fails(5, &["is a folder"]);
    fs::create_dir_all(rig.path("in/other")).unwrap();
    fs::write(rig.path("in/other/file"), b"x").unwrap();
    let ended = rig.kiln("cp in pool:").code(4);
    assert!(ended.stderr.contains("is an object"), "{}", ended.stderr);
    rig.kiln("stat other/.kiln-attributes").fails(7, &["no object"]);
    rig.kiln("cp pool: out -q").ok();
}

#[test]
fn folders_are_known_without_an_index() {
    let rig = pool();
    rig.data("x", 1000, 1);
    rig.kiln("put x a/b/c -q").ok();
    rig.kiln("put x a/b/d -q").ok();
    assert!(!rig.path("pool.index.redb").exists(), "a put makes no list of all objects");
    rig.kiln("put x a").fails(5, &["is a folder", "a/b/c"]);
    rig.kiln("put x a/b").fails(5, &["is a folder", "a/b/c"]);
    rig.kiln("cp x pool:p/q/file -q").ok();
    rig.kiln("put x p").fails(5, &["is a folder", "p/q/file"]);
    rig.kiln("put x old -q").ok();
    rig.kiln("mv old r/s/new -q").ok();
    rig.kiln("put x r").fails(5, &["is a folder", "r/s/new"]);
    // What has no more objects is no folder any more.
    rig.kiln("rm a/b/c a/b/d -q").ok();
    rig.kiln("put x a/b -q").ok();
    rig.kiln("put x a").fails(5, &["is a folder", "a/b"]);
    assert_eq!(names(&rig), ["a/b", "p/q/file", "r/s/new"]);
    // Names of which the folder's own object would be too long.
    let long = format!("{}/{}", "l".repeat(1010), "n".repeat(12));
    rig.kiln(&format!("put x {long} -q")).ok();
    rig.kiln(&format!("put x {} -q", "m".repeat(1024))).ok();
    rig.kiln(&format!("rm {long} {} a/b -q", "m".repeat(1024))).ok();
    // A scrub removes folders' own objects when nothing is left in them.
    let objects = || rig.kiln("status --json").json()["objects"].as_u64().unwrap();
    let before = objects();
    rig.kiln("scrub -q --dry-run").ok();
    assert_eq!(objects(), before);
    rig.kiln("scrub -q --grace 0").ok();
    assert_eq!(objects(), before - 2, "those of a and a/b");
    rig.kiln("put x a -q").ok();
    assert_eq!(names(&rig), ["a", "p/q/file", "r/s/new"]);
}

/// Takes one node after the other away and counts those that a put misses.
#[test]
fn a_put_asks_few_nodes() {
    const NODES: usize = 60;
    let rig = Rig::new();
    let mut nodes = String::new();
    for node in 0..NODES {
        fs::create_dir(rig.path(format!("n{node:02}"))).unwrap();
        nodes += &format!(" --node n{node:02}");
    }
    rig.kiln(&format!("pool create pool.toml -c rs:2+1 {nodes}")).ok();
    rig.data("x", 100_000, 1);
    let asked = (0..NODES).filter(|node| {
        let (here, away) = (rig.path(format!("n{node:02}")), rig.path("away"));
        fs::rename(&here, &away).unwrap();
        let put = rig.kiln("put x a/b --force").ok();
        fs::rename(&away, &here).unwrap();
        put.stderr.contains(&format!("node n{node:02} is unavailable"))
    });
    // Three homes for each of five names: object, folder, and what keeps their attributes.
    let asked = asked.count();
    assert!((3..=15).contains(&asked), "{asked} nodes");
}

#[test]
fn nothing_is_written_by_an_edited_description_that_is_not_agreed() {
    let rig = pool();
    rig.data("x", 1000, 1);
    rig.kiln("put x a -q").ok();
    let edit = |from: &str, to: &str| {
        let text = fs::read_to_string(rig.path("pool.toml")).unwrap();
        assert!(text.contains(from), "{text}");
        fs::write(rig.path("pool.toml"), text.replacen(from, to, 1)).unwrap();
    };
    let revision = || {
        let text = fs::read_to_string(rig.path("pool.toml")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("revision = ")).unwrap();
        line.parse::<u64>().unwrap()
    };
    let before = revision();
    for (weight, command) in [("weight = 2.5", "put x b -q"), ("weight = 3.5", "rm a -q")] {
        let agreed = revision();
        edit("weight = 1.0", weight);
        rig.kiln(command).ok();
        assert!(revision() > agreed, "{command} wrote by a map that was not agreed");
    }
    assert!(revision() >= before + 2);
    assert_eq!(names(&rig), ["b"]);
}

#[test]
fn sync_copies_what_has_changed() {
    let rig = pool();
    fs::create_dir_all(rig.path("in/sub")).unwrap();
    for (name, seed) in [("a", 1), ("b", 2), ("sub/c", 3)] {
        fs::write(rig.path("in").join(name), data(5000, seed)).unwrap();
    }
    let plan = rig.kiln("sync in pool:p --dry-run").ok();
    assert!(plan.stdout.contains("would copy p/sub/c: new"), "{}", plan.stdout);
    assert!(plan.stdout.ends_with("\n3 files would be copied, 14.65 KiB\n"), "{}", plan.stdout);
    assert_eq!(names(&rig), [""; 0], "a dry run does nothing");
    rig.kiln("sync in pool:p -q").ok();
    let idle = rig.kiln("sync in pool:p --json").ok().json();
    assert_eq!((&idle["copied"], &idle["skipped"]), (&0.into(), &3.into()));
    // Another time; other bytes of the same size and time; another size.
    set_time(&rig, "in/a", 1_000_000_000, 1);
    let time = rig.path("in/b").metadata().unwrap().modified().unwrap();
    fs::write(rig.path("in/b"), data(5000, 9)).unwrap();
    let times = FileTimes::new().set_modified(time);
    File::options().write(true).open(rig.path("in/b")).unwrap().set_times(times).unwrap();
    fs::write(rig.path("in/sub/c"), b"short").unwrap();
    let steps = |flags: &str| {
        let report = rig.kiln(&format!("sync in pool:p --dry-run --json {flags}")).ok().json();
        let steps = report["steps"].as_array().unwrap().clone();
        steps.iter().map(|step| step.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let [a, c] = ["would copy p/a: other time", "would copy p/sub/c: other size"];
    assert_eq!(steps(""), [a, c]);
    assert_eq!(steps("--size-only"), [c]);
    assert_eq!(steps("--checksum"), ["would copy p/b: other bytes", c]);
    rig.kiln("sync in pool:p --checksum -q").ok();
    rig.kiln("sync in pool:p -q").ok();
    assert_eq!(rig.kiln("sync in pool:p --json").ok().json()["copied"], 0);
    // The other way, and removing.
    rig.kiln("sync pool:p out -q").ok();
    assert!(rig.read("out/b") == data(5000, 9) && rig.read("out/sub/c") == b"short");
    assert_eq!(rig.kiln("sync pool:p out --json").ok().json()["copied"], 0);
    fs::write(rig.path("out/stray"), b"x").unwrap();
    rig.remove("in/a");
    assert_eq!(steps("--delete"), ["would remove p/a: not in the source"]);
    let plan = rig.kiln("sync pool:p out --delete --dry-run").ok();
    let end = "\n0 files would be copied, 0 B; 3 skipped; 1 would be removed\n";
    assert!(plan.stdout.ends_with(end), "{}", plan.stdout);
    let plan = rig.kiln("sync in pool:p --delete --dry-run --json").ok().json();
    assert_eq!((&plan["dry_run"], &plan["removed"]), (&true.into(), &1.into()));
    assert!(names(&rig).contains(&"p/a".to_owned()) && rig.names("out").contains(&"stray".into()));
    rig.kiln("sync in pool:p --delete -q").ok();
    rig.kiln("sync pool:p out --delete -q").ok();
    assert_eq!(names(&rig), ["p/b", "p/sub/c"]);
    assert_eq!(rig.names("out"), ["b", "sub"]);
    rig.kiln("sync nowhere pool:p --delete").fails(3, &["is not a folder"]);
}

#[test]
fn objects_get_other_names() {
    let rig = pool();
    let x = rig.data("x", 6_000_000, 1);
    rig.kiln("put x -q").ok();
    rig.data("y", 100, 2);
    rig.kiln("put y d/y -q").ok();
    rig.kiln("mv x d/y").fails(5, &["d/y", "give --force"]);
    rig.kiln("mv x x/").fails(5, &["is an object"]);
    rig.kiln("mv x films/ -q").ok();
    rig.kiln("mv films/x films/").fails(3, &["itself"]);
    rig.kiln("mv -r d e/f -q").ok();
    assert_eq!(names(&rig), ["e/f/y", "films/x"]);
    rig.kiln("get films/x -o back -q").ok();
    assert!(rig.read("back") == x);
    rig.kiln("mv -r films films/x").fails(3, &["lies in it"]);
    rig.kiln("mv nothing z").fails(7, &["no object"]);
    rig.kiln("mv e/f/y films/x --force -q").ok();
    assert_eq!(names(&rig), ["films/x"]);
    rig.kiln("scrub -q").ok();
    assert!(rig.kiln("ls -l").ok().stdout.contains("  20"), "a date of this century");
}

#[test]
fn a_lost_description_comes_back() {
    let rig = pool();
    rig.data("x", 100, 1);
    rig.kiln("put x -q").ok();
    let before = String::from_utf8(rig.read("pool.toml")).unwrap();
    let id = before.lines().find(|line| line.starts_with("id = ")).unwrap().to_owned();
    rig.kiln("pool restore n2").fails(5, &["exists"]);
    rig.remove("pool.toml");
    rig.kiln("pool restore n2").ok();
    assert!(String::from_utf8(rig.read("pool.toml")).unwrap().contains(&id));
    rig.kiln("get x -o back -q").ok();
    rig.kiln("pool create other.toml -c rs:1+1 --node o1 --node o2 --node o3 -q").ok();
    rig.kiln("pool restore n1 o1 --force").fails(5, &["two pools"]);
    rig.kiln("pool restore nothing --force").code(4);
    // A node that has not heard of the newest change is enough to find it.
    fs::create_dir(rig.path("n6")).unwrap();
    rig.kiln("pool add-node n06 n6 -q").ok();
    rig.remove("pool.toml");
    rig.kiln("pool restore n0 n3 -q").ok();
    assert!(String::from_utf8(rig.read("pool.toml")).unwrap().contains("n06"));
}

#[test]
fn status_answers_three_questions() {
    let rig = pool();
    rig.data("x", 5_000_000, 1);
    rig.kiln("put x -q").ok();
    let good = rig.kiln("status").ok().stdout;
    for answer in ["is all data safe?    yes", "nothing is due", "nothing is to be rebuilt"] {
        assert!(good.contains(answer), "{good}");
    }
    rig.remove("n1");
    fs::create_dir(rig.path("n1")).unwrap();
    rig.kiln("pool add-node n01 --replace -q").ok();
    let bad = rig.kiln("status").code(1).stdout;
    for answer in ["tolerates 1 more loss\n", "run kiln repair", "to go"] {
        assert!(bad.contains(answer), "{bad}");
    }
    assert_eq!(rig.kiln("status --json").code(1).json()["repair_here"], false);
    let scrub = rig.kiln("scrub").code(1).stdout;
    assert!(scrub.contains("tolerates 1 more loss\n"), "{scrub}");
}
