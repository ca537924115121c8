//! The backend against real servers: the contract of places, long objects, pages, refusals.

#[path = "../shared/locks.rs"]
mod locks;
mod server;

use std::io::{BufRead, BufReader, Read, Write};
use std::{net::TcpListener, sync::Arc};

use kiln_store::{Backend, BatchRead, Existing, Locks, NewFile, Objects, PlaceInfo, write_whole};
use kiln_testkit::{battery::check_all, pattern};

use locks::{never_together, taken_over};
use server::{open, servers};

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
        let before = disk.io_counters();
        file.read_batch(&mut batch).unwrap();
        let after = disk.io_counters();
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
        never_together(&one, &two);
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

#[test]
fn a_lock_whose_holder_is_gone_is_taken_over_and_the_late_one_writes_no_more() {
    for (_, server) in servers().into_iter().filter(|(name, _)| *name == "moto") {
        let left = b"id\n1\nprocess 7 on elsewhere\n";
        taken_over(&server.place("gone"), &server.place("gone"), left, b"other\n1\nprocess 8\n");
    }
}

#[test]
fn a_server_that_ignores_conditions_is_refused_before_anything_is_written() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut line, mut length, mut first) = (String::new(), 0, String::new());
            while stream.read_line(&mut line).unwrap() > 2 {
                if first.is_empty() {
                    first = line.split('?').next().unwrap().to_owned();
                }
                let lower = line.to_ascii_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            stream.read_exact(&mut vec![0; length]).unwrap();
            tell.send(first).unwrap();
            let answer = "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 0\r\n\
                          Connection: close\r\n\r\n";
            stream.get_mut().write_all(answer.as_bytes()).unwrap();
        }
    });
    let disk = open(&format!("s3://abc/p?endpoint=http://127.0.0.1:{port}"), "x").unwrap();
    for error in [
        disk.lock(false).unwrap_err(),
        disk.create(&NewFile { existing: Existing::Keep, ..NewFile::named("a") }).err().unwrap(),
    ] {
        assert!(error.is_usage(), "{error}");
        assert!(error.to_string().contains("cannot create files only where there are none"));
    }
    let asked: Vec<String> = told.try_iter().collect();
    assert!(asked.iter().all(|line| line.contains("/abc/p/.kiln-probe-")), "{asked:?}");
    assert!(asked.last().unwrap().starts_with("DELETE"), "{asked:?}");
}
