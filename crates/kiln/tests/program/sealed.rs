//! Pools with a key of their own, by the program.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::pool::{create, shards};
use crate::rig::{Rig, data, flip};
use crate::volumes::{Client, Server};

/// An object in shards and one in its manifest.
fn put(rig: &Rig) -> [(&'static str, Vec<u8>); 2] {
    let objects = [("large", data(200_000, 1)), ("small", data(3_000, 2))];
    for (name, bytes) in &objects {
        fs::write(rig.path("input"), bytes).unwrap();
        rig.kiln(&format!("put input {name} --force -q")).ok();
    }
    objects
}

#[track_caller]
fn comes_back(rig: &Rig, objects: &[(&str, Vec<u8>)]) {
    for (name, bytes) in objects {
        rig.kiln(&format!("get {name} -o back --force -q")).ok();
        assert!(rig.read("back") == *bytes, "{name}");
    }
}

#[test]
fn a_sealed_pool_needs_its_key_and_believes_nothing_else() {
    let rig = Rig::new();
    let nodes: Vec<String> = (0..7).map(|at| format!("--node d{at:02}")).collect();
    let made = rig.kiln(&format!("pool create --sealed -c clay:4+2 {}", nodes.join(" "))).ok();
    assert!(made.stderr.contains("pool.seal.key"), "{}", made.stderr);
    let objects = put(&rig);
    comes_back(&rig, &objects);
    let shard = format!("d00/{}", shards(&rig, 0)[0]);
    assert!(rig.kiln(&format!("inspect {shard} --json")).ok().stdout.contains("blake3"));

    // Without the key, and with another pool's.
    fs::rename(rig.path("pool.seal.key"), rig.path("safe")).unwrap();
    rig.kiln("get small -o back --force").fails(8, &["sealed with key", ".seal.key"]);
    rig.kiln("get small -o back --force --pool-key none").fails(4, &["none"]);
    fs::write(rig.path("bad"), "secret").unwrap();
    rig.kiln("get small -o back --force --pool-key bad").fails(3, &["64 hex digits"]);
    fs::write(rig.path("other"), format!("{}\n", "5a".repeat(32))).unwrap();
    rig.kiln("get small -o back --force --pool-key other").fails(8, &["sealed with key"]);
    rig.kiln("status --pool-key safe").ok();
    fs::rename(rig.path("safe"), rig.path("pool.seal.key")).unwrap();

    flip(&rig.path(&shard), 5_000, 2);
    comes_back(&rig, &objects);
    rig.kiln("scrub").code(1);
    rig.kiln("repair").ok();
    rig.kiln("scrub --deep").ok();
    comes_back(&rig, &objects);
}

#[test]
fn a_pool_gets_a_key_and_another_one() {
    let rig = Rig::new();
    create(&rig, "clay:4+2", 7);
    let objects = put(&rig);
    let report = rig.kiln("pool seal --json").ok().json();
    assert_eq!((&report["sealed"], &report["shards_with_crc"]), (&2.into(), &1.into()));
    assert!(rig.kiln("pool seal").ok().stdout.contains("0 sealed now"));
    comes_back(&rig, &objects);
    let old = fs::read_to_string(rig.path("pool.seal.key")).unwrap();
    let both = format!("{}\n{old}", "c3".repeat(32));
    fs::write(rig.path("pool.seal.key"), &both).unwrap();
    // Not yet exchanged: the old one seals.
    comes_back(&rig, &objects);
    rig.remove("d03");
    rig.kiln("pool seal").fails(5, &["n03", "unavailable"]);
    fs::create_dir(rig.path("d03")).unwrap();
    rig.kiln("pool add-node n03 --replace").ok();
    rig.kiln("repair").ok();
    assert_eq!(rig.kiln("pool seal --json").ok().json()["sealed"], 2);
    fs::write(rig.path("pool.seal.key"), "c3".repeat(32)).unwrap();
    comes_back(&rig, &objects);
    rig.kiln("scrub --deep").ok();
    fs::write(rig.path("pool.seal.key"), old).unwrap();
    rig.kiln("get small -o back --force").fails(8, &["sealed with key"]);
}

#[test]
fn a_lost_key_is_no_lost_pool() {
    let rig = Rig::new();
    create(&rig, "rs:2+1", 4);
    rig.kiln("pool seal -q").ok();
    let objects = put(&rig);
    rig.kiln("pool seal --lost-key").fails(3, &["pool.seal.key has the pool's key"]);
    fs::rename(rig.path("pool.seal.key"), rig.path("old")).unwrap();
    rig.kiln("get small -o back --force").fails(8, &["sealed with key", "--lost-key"]);
    fs::rename(rig.path("d02"), rig.path("away")).unwrap();
    rig.kiln("pool seal --lost-key").fails(5, &["n02", "unavailable"]);
    fs::rename(rig.path("away"), rig.path("d02")).unwrap();
    // It was found again.
    rig.kiln("get small -o back --force -q --pool-key old").ok();
    let sealed = rig.kiln("pool seal --lost-key").ok();
    assert!(sealed.stdout.contains("2 sealed now"), "{}", sealed.stdout);
    comes_back(&rig, &objects);
    rig.kiln("scrub --deep").ok();
    rig.kiln("get small -o back --force --pool-key old").fails(8, &["sealed with key"]);
}

/// As OPERATORS says it of a key that leaked.
#[test]
fn a_new_key_is_made_used_and_left_alone() {
    let rig = Rig::new();
    create(&rig, "rs:2+1", 3);
    let objects = put(&rig);
    rig.kiln("pool seal -q").ok();
    let key = || fs::read_to_string(rig.path("pool.seal.key")).unwrap();
    let old = key();
    let made = rig.kiln("pool seal --new-key").ok();
    assert!(made.stdout.contains("a new key before the old one: copy the file"), "{}", made.stdout);
    let both = key();
    assert!(both.ends_with(&old) && both.len() == 2 * old.len());
    comes_back(&rig, &objects);
    // Once more before it seals: no third key.
    let again = rig.kiln("pool seal --new-key").ok();
    assert!(again.stdout.contains("none was added"), "{}", again.stdout);
    let keys = rig.kiln("pool seal --new-key --json").ok().json()["keys"].clone();
    assert_eq!(keys.as_array().unwrap().len(), 2);
    assert_eq!(key(), both);
    assert_eq!(rig.kiln("pool seal --json").ok().json()["sealed"], 2);
    assert_eq!(key(), both);
    rig.kiln("pool seal --new-key --drop-old-keys").fails(3, &["cannot be used with"]);
    rig.kiln("pool seal --drop-old-keys -q").ok();
    assert_eq!(format!("{}{old}", key()), both);
    let mode = rig.path("pool.seal.key").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    comes_back(&rig, &objects);
    // The leaked one opens nothing any more.
    fs::write(rig.path("old"), old).unwrap();
    rig.kiln("get small -o back --force --pool-key old").fails(8, &["sealed with key"]);
}

/// The last writes of clients are in no object yet, and outlive each exchange of keys all the same.
#[test]
fn volumes_keep_what_only_their_logs_have_when_keys_are_exchanged() {
    let rig = Rig::new();
    create(&rig, "rs:4+2", 7);
    rig.kiln("volume create disk 4MiB --segment 64KiB -q").ok();
    let holds = |client: &mut Client, at: u64, bytes: &[u8]| {
        assert!(client.read(at, bytes.len()) == bytes, "at {at}");
    };
    let (one, two, three) = (data(8192, 1), data(4096, 2), data(12_288, 3));
    {
        let server = Server::start(&rig, "");
        Client::new(&rig).write(0, &one).unwrap();
        drop(server); // killed
    }
    // It is not in use: it is closed.
    rig.kiln("pool seal").ok();
    let server = Server::start(&rig, "");
    let mut client = Client::new(&rig);
    holds(&mut client, 0, &one);
    client.write(16_384, &two).unwrap();
    // Its server goes on with a new log, and `seal` waits for that.
    rig.kiln("pool seal --new-key -q").ok();
    rig.kiln("pool seal --drop-old-keys -q").ok();
    client.write(32_768, &three).unwrap();
    drop(server);
    let server = Server::start(&rig, "");
    let mut client = Client::new(&rig);
    for (at, bytes) in [(0, &one), (16_384, &two), (32_768, &three)] {
        holds(&mut client, at, bytes);
    }
    server.end();
    rig.kiln("scrub --deep").ok();
}
