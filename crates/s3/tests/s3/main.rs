//! The backend against real servers: the contract of places, long objects, pages, refusals.

mod server;

use std::sync::Arc;

use kiln_store::backends::battery::check_all;
use kiln_store::{Backend, BatchRead, Existing, NewFile, write_whole};

use server::{open, servers};

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 253 * 7 + 1) as u8).collect()
}

#[test]
fn the_contract_of_places_holds() {
    // s3s-fs looks first and writes then: of several at once more than one succeed.
    for (name, server) in servers().into_iter().filter(|(name, _)| *name == "moto") {
        let mut count = 0;
        check_all(name, &mut || {
            count += 1;
            Arc::new(server.place(&format!("battery/{count}")))
        });
    }
}

#[test]
fn long_objects_are_written_in_parts_and_read_in_ranges() {
    for (_, server) in servers() {
        let disk = server.place("long");
        let bytes = pattern(19_000_000);
        let mut file = disk.write_once("a").unwrap();
        for piece in bytes.chunks(777_777) {
            file.append(piece).unwrap();
        }
        assert!(disk.list().unwrap().is_empty());
        file.complete().unwrap();
        assert!(file.append(b"more").is_err());
        let file = disk.open("a").unwrap();
        assert_eq!(file.len(), bytes.len() as u64);
        let mut pieces = vec![vec![0; 1000]; 20];
        let mut batch: Vec<BatchRead<'_>> = (pieces.iter_mut().enumerate())
            .map(|(at, piece)| BatchRead::new(at as u64 * 900_000 + 13, piece))
            .collect();
        let before = disk.issued();
        file.read_batch(&mut batch).unwrap();
        let after = disk.issued();
        assert_eq!((after.0 - before.0, after.1 - before.1), (20, 20_000));
        for (at, piece) in pieces.iter().enumerate() {
            assert_eq!(*piece, bytes[at * 900_000 + 13..][..1000]);
        }
        // Dropped on the way it leaves nothing, and what was there stays.
        let mut other = disk.write_once("a").unwrap();
        other.append(&pattern(9_000_000)).unwrap();
        drop(other);
        disk.copy("a", "b").unwrap();
        let mut back = vec![0; bytes.len()];
        disk.open("b").unwrap().read_at(0, &mut back).unwrap();
        assert!(back == bytes);
    }
}

#[test]
fn listings_have_many_pages_and_only_this_prefix() {
    for (_, server) in servers() {
        let (disk, other) = (server.place("pages"), server.place("pages/below"));
        write_whole(&server.place("pages2"), "a", b"a").unwrap();
        write_whole(&other, "b", b"b").unwrap();
        let names: Vec<String> = (0..1100).map(|at| format!("f{at:04}")).collect();
        std::thread::scope(|scope| {
            for names in names.chunks(275) {
                let disk = &disk;
                scope.spawn(move || {
                    names.iter().for_each(|name| write_whole(disk, name, b"x").unwrap());
                });
            }
        });
        assert_eq!(disk.list().unwrap(), names);
        assert_eq!(other.list().unwrap(), ["b"]);
    }
}

#[test]
fn what_is_replaced_while_it_is_read_is_never_mixed() {
    for (_, server) in servers() {
        let disk = server.place("mixed");
        write_whole(&disk, "a", &pattern(5000)).unwrap();
        let file = disk.open("a").unwrap();
        let mut buf = [0; 100];
        file.read_at(50, &mut buf).unwrap();
        write_whole(&disk, "a", &vec![9; 5000]).unwrap();
        let error = file.read_at(50, &mut buf).unwrap_err();
        assert!(error.to_string().contains("replaced while it was read"), "{error}");
    }
}

#[test]
fn two_programs_never_have_the_lock_together() {
    for (_, server) in servers() {
        let (one, two) = (server.place("lock"), server.place("lock"));
        let held = one.lock(false).unwrap();
        assert!(held.is_some() && two.lock(false).unwrap().is_none());
        assert!(two.lock_holder().unwrap().contains("process"));
        assert!(one.list().unwrap().is_empty());
        write_whole(&one, "a", b"under the lock").unwrap();
        drop(held);
        assert!(two.lock(false).unwrap().is_some());
    }
}

#[test]
fn a_missing_bucket_and_wrong_credentials_are_said() {
    for (name, server) in servers() {
        let disk = open(&server.url("no-such-bucket", "x"), "secret").unwrap();
        let keep = NewFile { existing: Existing::Keep, ..NewFile::named("a") };
        let mut errors = vec![disk.list().unwrap_err(), disk.open("a").err().unwrap()];
        if name == "s3s-fs" {
            // It makes buckets that are put to, and looks at credentials, which moto does not.
            let disk = open(&server.url("test-bucket", "x"), "wrong").unwrap();
            for error in [disk.list().unwrap_err(), write_whole(&disk, "a", b"a").unwrap_err()] {
                assert!(error.to_string().contains("credentials"), "{name}: {error}");
            }
        } else {
            errors.push(write_whole(&disk, "a", b"a").unwrap_err());
            errors.push(disk.lock(false).unwrap_err());
            errors.push(disk.create(&keep).err().unwrap());
        }
        for error in errors {
            assert!(!error.is_not_found(), "{name}: {error}");
            assert!(error.to_string().contains("no such bucket"), "{name}: {error}");
        }
    }
}
