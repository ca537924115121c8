//! The contract of [`Backend`] as checks, run for every row of [`super::BACKENDS`] and for the
//! wrapper, and by other crates for their own backends (feature `battery`).

use super::{Backend, check_name};
use crate::StoreError;

/// One part of the contract: its name, and what panics when an (empty) place breaks it.
pub type Check = (&'static str, fn(&dyn Backend));

/// The whole contract. Every check wants an empty place of its own.
pub static CHECKS: &[Check] = &[
    ("written bytes are read back at any offset", written_bytes_are_read_back_at_any_offset),
    ("reading past the end is refused", reading_past_the_end_is_refused),
    (
        "append cuts longer files and refuses shorter ones",
        append_cuts_longer_files_and_refuses_shorter_ones,
    ),
    (
        "rename replaces and open files keep their bytes",
        rename_replaces_and_open_files_keep_their_bytes,
    ),
    ("remove is idempotent and open says not found", remove_is_idempotent_and_open_says_not_found),
    ("names are listed sorted", names_are_listed_sorted),
    ("each name is shown once", each_name_is_shown_once_and_an_error_ends_it),
    ("one writer at a time holds the lock", one_writer_at_a_time_holds_the_lock),
    (
        "names that are not plain are refused everywhere",
        names_that_are_not_plain_are_refused_everywhere,
    ),
    ("readers share a file between threads", readers_share_a_file_between_threads),
];

/// Bytes that differ at every position a test could confuse.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 167 + i / 256 * 13 + 5) as u8).collect()
}

fn write(disk: &dyn Backend, name: &str, bytes: &[u8]) {
    let mut file = disk.append(name, 0).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
}

fn read(disk: &dyn Backend, name: &str) -> Vec<u8> {
    let file = disk.open(name).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn written_bytes_are_read_back_at_any_offset(disk: &dyn Backend) {
    let bytes = pattern(10_000);
    let mut file = disk.append("a", 0).unwrap();
    assert!(file.is_empty());
    for piece in bytes.chunks(777) {
        file.append(piece).unwrap();
    }
    assert_eq!(file.len(), 10_000);
    file.sync().unwrap();
    let file = disk.open("a").unwrap();
    assert_eq!(file.len(), 10_000);
    for (offset, len) in [(0, 10_000), (1, 1), (4095, 4098), (9_999, 1), (10_000, 0)] {
        let mut buf = vec![0xaa; len];
        file.read_at(offset as u64, &mut buf).unwrap();
        assert_eq!(buf, bytes[offset..offset + len]);
    }
}

fn reading_past_the_end_is_refused(disk: &dyn Backend) {
    write(disk, "a", &pattern(100));
    let file = disk.open("a").unwrap();
    for (offset, len) in [(0, 101), (100, 1), (u64::MAX, 2), (1 << 62, 1)] {
        let error = file.read_at(offset, &mut vec![0; len]).unwrap_err();
        assert!(matches!(error, StoreError::Truncated { have: 100, .. }), "{error}");
        assert!(error.is_damage());
    }
}

fn append_cuts_longer_files_and_refuses_shorter_ones(disk: &dyn Backend) {
    write(disk, "a", &pattern(1000));
    let mut file = disk.append("a", 600).unwrap();
    assert_eq!(file.len(), 600);
    file.append(b"tail").unwrap();
    drop(file);
    let mut expected = pattern(600);
    expected.extend(b"tail");
    assert_eq!(read(disk, "a"), expected);
    let error = disk.append("a", 605).err().unwrap();
    assert!(matches!(error, StoreError::Truncated { need: 605, have: 604, .. }), "{error}");
    assert_eq!(read(disk, "a"), expected);
}

fn rename_replaces_and_open_files_keep_their_bytes(disk: &dyn Backend) {
    write(disk, "old", b"old");
    write(disk, "new", b"newer");
    let before = disk.open("old").unwrap();
    disk.rename("new", "old").unwrap();
    assert_eq!(disk.list().unwrap(), ["old"]);
    assert_eq!(read(disk, "old"), b"newer");
    let mut buf = [0; 3];
    before.read_at(0, &mut buf).unwrap();
    assert_eq!(&buf, b"old");
    assert!(disk.rename("absent", "x").unwrap_err().is_not_found());
    disk.rename("old", "old").unwrap();
    assert_eq!(read(disk, "old"), b"newer");
}

fn remove_is_idempotent_and_open_says_not_found(disk: &dyn Backend) {
    write(disk, "a", b"a");
    disk.remove("a").unwrap();
    disk.remove("a").unwrap();
    let error = disk.open("a").err().unwrap();
    assert!(error.is_not_found() && !error.is_damage() && !error.is_retryable(), "{error}");
    assert!(error.to_string().contains(&disk.place()), "{error}");
    assert!(disk.list().unwrap().is_empty());
}

fn names_are_listed_sorted(disk: &dyn Backend) {
    for name in ["b", ".hidden.part", "a.10.kiln", "a.09.kiln", "ü"] {
        write(disk, name, name.as_bytes());
    }
    assert_eq!(disk.list().unwrap(), [".hidden.part", "a.09.kiln", "a.10.kiln", "b", "ü"]);
}

fn each_name_is_shown_once_and_an_error_ends_it(disk: &dyn Backend) {
    for name in ["b", ".hidden", "a"] {
        write(disk, name, b"x");
    }
    let mut seen = Vec::new();
    let all = disk.each_name(&mut |name| {
        seen.push(name.to_owned());
        Ok(())
    });
    all.unwrap();
    seen.sort();
    assert_eq!(seen, disk.list().unwrap());
    let mut calls = 0;
    let end = disk.each_name(&mut |name| {
        calls += 1;
        check_name(name)?;
        check_name("")
    });
    assert!(end.is_err() && calls == 1);
}

fn one_writer_at_a_time_holds_the_lock(disk: &dyn Backend) {
    let held = disk.lock(false).unwrap();
    assert!(held.is_some() && disk.lock(false).unwrap().is_none());
    drop(held);
    let again = disk.lock(true).unwrap();
    assert!(again.is_some() && disk.lock(false).unwrap().is_none());
}

fn names_that_are_not_plain_are_refused_everywhere(disk: &dyn Backend) {
    let long = "x".repeat(256);
    assert!(check_name(&long[1..]).is_ok());
    for name in ["", ".", "..", "/", "a/b", "../a", "/etc/passwd", "a\0b", &long] {
        assert!(matches!(check_name(name), Err(StoreError::BadName { .. })), "{name:?}");
    }
    write(disk, "a", b"a");
    for name in ["", ".", "..", "a/b", "../a", "a\0b"] {
        let errors = [
            disk.open(name).err(),
            disk.append(name, 0).err(),
            disk.rename(name, "b").err(),
            disk.rename("a", name).err(),
            disk.remove(name).err(),
        ];
        for error in errors {
            assert!(matches!(error, Some(StoreError::BadName { .. })), "{name:?}: {error:?}");
        }
    }
    assert_eq!(disk.list().unwrap(), ["a"]);
}

fn readers_share_a_file_between_threads(disk: &dyn Backend) {
    let bytes = pattern(1 << 16);
    write(disk, "a", &bytes);
    let file = disk.open("a").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (file, bytes) = (&file, &bytes);
            scope.spawn(move || {
                for step in 0..200 {
                    let offset = (step * 331 + thread * 4099) % 65_000;
                    let mut buf = [0; 500];
                    file.read_at(offset as u64, &mut buf).unwrap();
                    assert_eq!(buf[..], bytes[offset..offset + 500]);
                }
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::BACKENDS;
    use super::CHECKS;
    use crate::FaultyBackend;

    #[test]
    fn every_backend_keeps_the_contract() {
        for row in BACKENDS {
            for (name, check) in CHECKS {
                for wrapped in [false, true] {
                    println!("{}: {name}, wrapped: {wrapped}", row.name);
                    let folder = tempfile::tempdir().unwrap();
                    let disk = (row.open)(folder.path().to_str().unwrap()).unwrap();
                    match wrapped {
                        false => check(&*disk),
                        true => check(&FaultyBackend::new(Arc::clone(&disk))),
                    }
                }
            }
        }
    }
}
