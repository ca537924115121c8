//! The contract of [`Backend`] as checks, which each crate with a backend runs for its own.

use crate::pattern;
use kiln_store::{
    Backend, Capabilities, Capability, Existing, NewFile, ReadAt, StoreError, Upload, check_name,
    move_file, write_whole,
};

/// One part of the contract.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Its statement.
    pub name: &'static str,
    /// A place that lacks one of these has other checks instead: that it says so.
    pub needs: &'static [Capability],
    /// Panics when the (empty) place breaks it.
    pub run: fn(&dyn Backend),
}

/// Runs the whole contract; `fresh` gives an empty place each time. Checks that need more than the
/// place says it can do are left out.
///
/// # Panics
/// When the place breaks the contract.
pub fn check_all(what: &str, fresh: &mut dyn FnMut() -> std::sync::Arc<dyn Backend>) {
    let mut done = 0;
    for check in CHECKS {
        let disk = fresh();
        let lacking = Capabilities::of(check.needs).lacking(disk.capabilities());
        println!("{what}: {}{}", check.name, lacking.map_or("", |_| " (left out)"));
        if lacking.is_none() {
            (check.run)(&*disk);
            done += 1;
        }
    }
    assert!(done >= 5, "{what}: hardly anything was checked");
}

const fn check(name: &'static str, needs: &'static [Capability], run: fn(&dyn Backend)) -> Check {
    Check { name, needs, run }
}

/// The whole contract. Every check wants an empty place of its own.
pub static CHECKS: &[Check] = {
    use Capability::{Append, Copy, CreateIfAbsent, List, Lock, Log, RangedRead, Rename};
    &[
        check(
            "what it cannot do it says, and does not do",
            &[],
            what_it_cannot_do_it_says_and_does_not_do,
        ),
        check(
            "written bytes are read back at any offset",
            &[RangedRead],
            written_bytes_are_read_back_at_any_offset,
        ),
        check("reading past the end is refused", &[RangedRead], reading_past_the_end_is_refused),
        check(
            "append cuts longer files and refuses shorter ones",
            &[Append],
            append_cuts_longer_files_and_refuses_shorter_ones,
        ),
        check(
            "two who write the same to one file do no harm",
            &[Append, Rename],
            two_who_write_the_same_to_one_file_do_no_harm,
        ),
        check(
            "rename replaces and open files keep their bytes",
            &[Rename],
            rename_replaces_and_open_files_keep_their_bytes,
        ),
        check(
            "of many written each has its own end",
            &[Append, List],
            of_many_written_each_has_its_own_end,
        ),
        check(
            "files that are written together are independent",
            &[Append, Rename, List],
            files_that_are_written_together_are_independent,
        ),
        check(
            "of many renamed or removed each has its own end",
            &[Append, Rename, List],
            of_many_renamed_or_removed_each_has_its_own_end,
        ),
        check("a file appears whole or not at all", &[List], a_file_appears_whole_or_not_at_all),
        check(
            "what is there already stays where that is wanted",
            &[CreateIfAbsent, List],
            what_is_there_already_stays_where_that_is_wanted,
        ),
        check("a copy has the same bytes", &[Copy, List], a_copy_has_the_same_bytes),
        check(
            "what is written once appears when it is complete",
            &[List],
            what_is_written_once_appears_when_it_is_complete,
        ),
        check(
            "a tag tells whether a file is still the same",
            &[Copy, CreateIfAbsent, List],
            a_tag_tells_whether_a_file_is_still_the_same,
        ),
        check(
            "remove is idempotent and open says not found",
            &[List],
            remove_is_idempotent_and_open_says_not_found,
        ),
        check("names are listed sorted", &[List], names_are_listed_sorted),
        check("each name is shown once", &[List], each_name_is_shown_once_and_an_error_ends_it),
        check("one writer at a time holds the lock", &[Lock], one_writer_at_a_time_holds_the_lock),
        check(
            "names that are not plain are refused everywhere",
            &[List],
            names_that_are_not_plain_are_refused_everywhere,
        ),
        check(
            "readers share a file between threads",
            &[RangedRead],
            readers_share_a_file_between_threads,
        ),
        check(
            "a log is written in place, by its writer only",
            &[Log, List],
            a_log_is_written_in_place_by_its_writer_only,
        ),
    ]
};

fn write(disk: &dyn Backend, name: &str, bytes: &[u8]) {
    write_whole(disk, name, bytes).unwrap();
}

/// Returns all bytes of a file, which must be there.
pub fn read(disk: &dyn Backend, name: &str) -> Vec<u8> {
    let file = disk.open(name).unwrap();
    let mut bytes = vec![0; file.len() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

/// A file that was replaced while it is open has its old bytes, or cannot be read any more.
fn still_reads(disk: &dyn Backend, file: &dyn ReadAt, expected: &[u8]) {
    let mut bytes = vec![0; expected.len()];
    match file.read_at(0, &mut bytes) {
        Ok(()) => assert_eq!(bytes, expected),
        Err(error) => assert!(!disk.capabilities().has(Capability::KeepOpen), "{error}"),
    }
}

fn written_bytes_are_read_back_at_any_offset(disk: &dyn Backend) {
    let bytes = pattern(10_000);
    let mut file = disk.create(&NewFile::named("a")).unwrap();
    for piece in bytes.chunks(777) {
        file.write(piece).unwrap();
    }
    file.complete().unwrap();
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
    let mut file = disk.append("a", 0).unwrap();
    assert!(file.is_empty());
    for piece in pattern(1000).chunks(333) {
        file.append(piece).unwrap();
    }
    assert_eq!(file.len(), 1000);
    file.sync().unwrap();
    drop(file);
    assert_eq!(read(disk, "a"), pattern(1000));
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

/// Two repairs of one shard that do not know of each other: one gives the part its name while the
/// other still writes.
fn two_who_write_the_same_to_one_file_do_no_harm(disk: &dyn Backend) {
    let bytes = pattern(600);
    let mut writers = [disk.append("a.part", 0).unwrap(), disk.append("a.part", 0).unwrap()];
    writers[0].append(&bytes).unwrap();
    writers[0].sync().unwrap();
    writers[1].append(&bytes[..400]).unwrap();
    disk.rename("a.part", "a").unwrap();
    writers[1].append(&bytes[400..]).unwrap();
    writers[1].sync().unwrap();
    assert_eq!(read(disk, "a"), bytes);
}

fn rename_replaces_and_open_files_keep_their_bytes(disk: &dyn Backend) {
    write(disk, "old", b"old");
    write(disk, "new", b"newer");
    let before = disk.open("old").unwrap();
    disk.rename("new", "old").unwrap();
    assert_eq!(disk.list().unwrap(), ["old"]);
    assert_eq!(read(disk, "old"), b"newer");
    still_reads(disk, &*before, b"old");
    assert!(disk.rename("absent", "x").unwrap_err().is_not_found());
    disk.rename("old", "old").unwrap();
    assert_eq!(read(disk, "old"), b"newer");
}

fn of_many_written_each_has_its_own_end(disk: &dyn Backend) {
    write(disk, "f03", &pattern(5_000));
    let names: Vec<String> = (0..20).map(|at| format!("f{at:02}")).collect();
    let bytes: Vec<Vec<u8>> = (0..20).map(|at| pattern(100 * at)).collect();
    for count in [20, 2] {
        let mut files: Vec<(&str, &[u8])> =
            names.iter().zip(&bytes).map(|(name, bytes)| (&name[..], &bytes[..])).collect();
        files.truncate(count);
        files.insert(1, ("../f", b"outside"));
        let ends = disk.write_all(&files);
        let good: Vec<bool> = ends.iter().map(Result::is_ok).collect();
        assert!(good.iter().enumerate().all(|(at, good)| *good == (at != 1)), "{good:?}");
        assert_eq!(disk.list().unwrap(), names);
        assert!(names.iter().zip(&bytes).all(|(name, bytes)| read(disk, name) == *bytes));
    }
    assert!(disk.write_all(&[]).is_empty());
}

/// As pools write copies of manifests: written together, renamed together, then each by itself.
fn files_that_are_written_together_are_independent(disk: &dyn Backend) {
    let part = |at: usize| format!(".k{at}.run.manifest.part");
    let name = |at: usize| format!("k{at}.manifest");
    let write = |range: std::ops::Range<usize>, more: usize| {
        let parts: Vec<String> = range.clone().map(part).collect();
        let bytes: Vec<Vec<u8>> = range.clone().map(|at| pattern(70 * at + more)).collect();
        let files: Vec<(&str, &[u8])> =
            parts.iter().zip(&bytes).map(|(part, bytes)| (&part[..], &bytes[..])).collect();
        assert!(disk.write_all(&files).iter().all(Result::is_ok));
        assert!(range.clone().all(|at| read(disk, &part(at)) == pattern(70 * at + more)));
        let names: Vec<String> = range.map(name).collect();
        let renames: Vec<(&str, &str)> =
            parts.iter().zip(&names).map(|(part, name)| (&part[..], &name[..])).collect();
        assert!(disk.rename_all(&renames).iter().all(Result::is_ok));
    };
    write(0..30, 1);
    assert_eq!(disk.list().unwrap().len(), 30);
    assert!((0..30).all(|at| read(disk, &name(at)) == pattern(70 * at + 1)));
    let before = disk.open(&name(7)).unwrap();
    // Some anew together, some by itself, renamed, written to, removed: no other one changes.
    write(5..12, 2);
    write_whole(disk, &name(0), b"alone").unwrap();
    disk.append(&name(1), 0).unwrap().append(b"more").unwrap();
    disk.rename(&name(2), ".k2.manifest.5.quarantine").unwrap();
    disk.rename(&name(3), "other").unwrap();
    disk.rename(&name(4), "k99.manifest").unwrap();
    assert!(disk.remove_all(&[&name(12), &name(13)]).iter().all(Result::is_ok));
    assert!((5..12).all(|at| read(disk, &name(at)) == pattern(70 * at + 2)));
    assert_eq!((read(disk, &name(0)), read(disk, &name(1))), (b"alone".into(), b"more".into()));
    assert_eq!(read(disk, ".k2.manifest.5.quarantine"), pattern(141));
    assert_eq!((read(disk, "other"), read(disk, "k99.manifest")), (pattern(211), pattern(281)));
    assert!((14..30).all(|at| read(disk, &name(at)) == pattern(70 * at + 1)));
    still_reads(disk, &*before, &pattern(7 * 70 + 1));
    // Space comes back, and what is left stays.
    let gone: Vec<String> = (14..27).map(name).collect();
    let gone: Vec<&str> = gone.iter().map(|name| &name[..]).collect();
    assert!(disk.remove_all(&gone).iter().all(Result::is_ok));
    let names = disk.list().unwrap();
    disk.compact().unwrap();
    assert_eq!(disk.list().unwrap(), names);
    assert!((27..30).all(|at| read(disk, &name(at)) == pattern(70 * at + 1)));
    assert_eq!(disk.compact().unwrap(), 0);
}

fn of_many_renamed_or_removed_each_has_its_own_end(disk: &dyn Backend) {
    for name in ["a.part", "b.part", "b", "c.part"] {
        write(disk, name, &pattern(100 + name.len()));
    }
    let names =
        [("a.part", "a"), ("absent", "x"), ("b.part", "b"), ("c.part", "../c"), ("c.part", "c")];
    let ends: Vec<bool> = disk.rename_all(&names).iter().map(Result::is_ok).collect();
    assert_eq!(ends, [true, false, true, false, true]);
    assert_eq!(disk.list().unwrap(), ["a", "b", "c"]);
    assert!(["a", "b", "c"].iter().all(|name| read(disk, name) == pattern(106)));
    let ends: Vec<bool> =
        disk.remove_all(&["a", "absent", "..", "c"]).iter().map(Result::is_ok).collect();
    assert_eq!(ends, [true, true, false, true]);
    assert_eq!(disk.list().unwrap(), ["b"]);
    assert!(disk.rename_all(&[]).is_empty() && disk.remove_all(&[]).is_empty());
}

fn what_it_cannot_do_it_says_and_does_not_do(disk: &dyn Backend) {
    write(disk, "a", b"a");
    let keep = NewFile { existing: Existing::Keep, ..NewFile::named("b") };
    let attempts: [(Capability, &dyn Fn() -> Option<StoreError>); 7] = [
        (Capability::Append, &|| disk.append("b", 0).err()),
        (Capability::Rename, &|| disk.rename("a", "b").err()),
        (Capability::Copy, &|| disk.copy("a", "b").err()),
        (Capability::Lock, &|| disk.lock(false).err()),
        (Capability::CreateIfAbsent, &|| disk.create(&keep).err()),
        (Capability::Log, &|| disk.create_log("b", 512).err()),
        (Capability::Log, &|| disk.close_log("a", "b", true).err()),
    ];
    for (capability, attempt) in attempts {
        if !disk.capabilities().has(capability) {
            let error = attempt().unwrap();
            let named = matches!(&error, StoreError::Incapable { lacks, place, .. }
                if *lacks == capability && *place == disk.place());
            assert!(named && error.is_usage(), "{error:?}");
            assert_eq!(read(disk, "a"), b"a");
        }
    }
    let all = Capabilities::of(&Capability::ALL);
    assert_eq!(
        all.require(disk, "the battery").is_ok(),
        all.lacking(disk.capabilities()).is_none()
    );
}

fn a_file_appears_whole_or_not_at_all(disk: &dyn Backend) {
    write(disk, "a", b"old");
    let begin = |name| disk.create(&NewFile::named(name)).unwrap();
    let visible = || -> Vec<String> {
        let names = disk.list().unwrap();
        names.into_iter().filter(|name| !name.starts_with('.')).collect()
    };
    let mut file = begin("a");
    file.write(&pattern(5000)).unwrap();
    assert_eq!((visible(), read(disk, "a")), (vec!["a".to_owned()], b"old".to_vec()));
    file.sync().unwrap();
    assert_eq!(read(disk, "a"), b"old");
    file.complete().unwrap();
    assert_eq!(read(disk, "a"), pattern(5000));
    // Nothing is left of what was not completed, empty files are files.
    for name in ["a", "b"] {
        let mut file = begin(name);
        file.write(b"new").unwrap();
        drop(file);
        drop(begin(name));
    }
    begin("empty").complete().unwrap();
    assert_eq!(disk.list().unwrap(), ["a", "empty"]);
    assert_eq!((read(disk, "a"), read(disk, "empty")), (pattern(5000), vec![]));
}

fn what_is_there_already_stays_where_that_is_wanted(disk: &dyn Backend) {
    let part = |writer: usize| format!(".a.{writer}.part");
    let begin = |writer: usize| {
        let new = NewFile { name: "a", part: part(writer), existing: Existing::Keep };
        let mut file = disk.create(&new).unwrap();
        file.write(&[writer as u8; 700]).unwrap();
        file
    };
    let (first, second) = (begin(1), begin(2));
    second.complete().unwrap();
    assert!(first.complete().unwrap_err().is_exists());
    assert_eq!((disk.list().unwrap(), read(disk, "a")), (vec!["a".to_owned()], vec![2; 700]));
    disk.remove("a").unwrap();
    // Of many at once one wins, and its bytes are the file's.
    let uploads: Vec<Box<dyn Upload + '_>> = (0..8).map(begin).collect();
    let won: Vec<usize> = std::thread::scope(|scope| {
        let spawn = |file: Box<dyn Upload + '_>| file.complete();
        let threads: Vec<_> =
            uploads.into_iter().map(|file| scope.spawn(move || spawn(file))).collect();
        let ends = threads.into_iter().map(|thread| thread.join().unwrap()).enumerate();
        ends.filter_map(|(writer, end)| end.is_ok().then_some(writer)).collect()
    });
    assert_eq!(won.len(), 1);
    assert_eq!(read(disk, "a"), vec![won[0] as u8; 700]);
    assert_eq!(disk.list().unwrap(), ["a"]);
}

fn a_copy_has_the_same_bytes(disk: &dyn Backend) {
    write(disk, "a", &pattern(5000));
    write(disk, "b", b"other");
    disk.copy("a", "b").unwrap();
    disk.copy("a", "c d+e%f").unwrap();
    assert_eq!((read(disk, "b"), read(disk, "c d+e%f")), (pattern(5000), pattern(5000)));
    assert!(disk.copy("absent", "d").unwrap_err().is_not_found());
    move_file(disk, "b", "d").unwrap();
    assert_eq!(disk.list().unwrap(), ["a", "c d+e%f", "d"]);
    for (from, to) in [("a", "../a"), ("a/b", "b")] {
        assert!(matches!(disk.copy(from, to), Err(StoreError::BadName { .. })));
    }
}

fn what_is_written_once_appears_when_it_is_complete(disk: &dyn Backend) {
    let whole = !disk.capabilities().has(Capability::Append);
    write(disk, "a", b"old");
    let mut file = disk.write_once("a").unwrap();
    for piece in pattern(70_000).chunks(9_999) {
        file.append(piece).unwrap();
    }
    file.sync().unwrap();
    assert_eq!(file.len(), 70_000);
    if whole {
        assert_eq!(read(disk, "a"), b"old");
        let mut dropped = disk.write_once("b").unwrap();
        dropped.append(b"x").unwrap();
        drop(dropped);
        assert_eq!(disk.list().unwrap(), ["a"]);
    }
    file.append(b"end").unwrap();
    file.complete().unwrap();
    let mut expected = pattern(70_000);
    expected.extend(b"end");
    assert_eq!(read(disk, "a"), expected);
    disk.write_once("empty").unwrap().complete().unwrap();
    assert_eq!(disk.list().unwrap(), ["a", "empty"]);
}

fn a_tag_tells_whether_a_file_is_still_the_same(disk: &dyn Backend) {
    write(disk, "a", b"first");
    let Some(first) = disk.open("a").unwrap().tag() else { return };
    let over = |tag, bytes: &[u8]| {
        let mut file =
            disk.create(&NewFile { existing: Existing::Same(tag), ..NewFile::named("a") })?;
        file.write(bytes)?;
        file.complete()
    };
    over(first, b"second").unwrap();
    assert!(over(first, b"third").unwrap_err().is_exists());
    assert_eq!(read(disk, "a"), b"second");
    let second = disk.open("a").unwrap().tag().unwrap();
    assert_ne!(first, second);
    disk.remove("a").unwrap();
    assert!(over(second, b"fourth").unwrap_err().is_exists());
    assert!(disk.list().unwrap().is_empty());
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
        let mut errors = vec![
            disk.open(name).err(),
            disk.remove(name).err(),
            disk.create(&NewFile::named(name)).err(),
        ];
        if Capabilities::FILES.lacking(disk.capabilities()).is_none() {
            errors.extend([
                disk.append(name, 0).err(),
                disk.rename(name, "b").err(),
                disk.rename("a", name).err(),
            ]);
        }
        for error in errors {
            assert!(matches!(error, Some(StoreError::BadName { .. })), "{name:?}: {error:?}");
        }
    }
    assert_eq!(disk.list().unwrap(), ["a"]);
}

fn a_log_is_written_in_place_by_its_writer_only(disk: &dyn Backend) {
    const LEN: u64 = (2 << 20) + 512;
    let mut log = disk.create_log("a.log", LEN).unwrap();
    assert_eq!((log.len(), read(disk, "a.log") == vec![0; LEN as usize]), (LEN, true));
    assert!(disk.create_log("a.log", 512).err().unwrap().is_exists());
    // Over and over, up to the last byte and no further.
    for start in [LEN - 600, 0, 512] {
        log.write_at(start, &pattern(600)).unwrap();
        log.sync().unwrap();
    }
    assert!(matches!(log.write_at(LEN - 1, b"ab"), Err(StoreError::Truncated { .. })));
    let bytes = read(disk, "a.log");
    assert_eq!((&bytes[..512], &bytes[512..1112]), (&pattern(600)[..512], &pattern(600)[..]));
    assert_eq!(&bytes[LEN as usize - 600..], pattern(600));
    // Its writer lives.
    let error = disk.close_log("a.log", "a.closed", false).unwrap_err();
    assert!(error.is_in_use() && error.to_string().contains("a.log"), "{error}");
    log.sync().unwrap();
    disk.close_log("a.log", "a.closed", true).unwrap();
    log.write_at(0, b"too late").unwrap();
    assert!(log.sync().unwrap_err().is_fenced());
    assert_eq!(disk.list().unwrap(), ["a.closed"]);
    // Again, as somebody does who was interrupted.
    disk.close_log("a.log", "a.closed", false).unwrap();
    disk.remove("a.closed").unwrap();
    assert!(log.sync().unwrap_err().is_fenced());
    assert!(disk.close_log("a.log", "a.closed", false).unwrap_err().is_not_found());
    // A log whose writer is gone is nobody's.
    drop(disk.create_log("b.log", 512).unwrap());
    disk.close_log("b.log", "b.closed", false).unwrap();
    assert_eq!(disk.list().unwrap(), ["b.closed"]);
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
