//! Locks as both kinds of places have them: one holder at a time, none that wrongly believes so.

use kiln_store::{Backend, LockAttempt, Locks, write_whole};
use std::time::{Duration, Instant};

pub fn never_together<D: Backend + Locks>(one: &D, two: &D) {
    let held = one.lock(false).unwrap();
    assert!(held.is_some() && two.lock(false).unwrap().is_none());
    assert!(two.lock_holder().unwrap().contains("process"));
    assert!(one.list().unwrap().is_empty());
    write_whole(one, "a", b"under the lock").unwrap();
    drop(held);
    assert!(two.lock(false).unwrap().is_some());
}

/// `left` is the lock of a process that was killed, `taken` that of another client.
pub fn taken_over<D: Backend + Locks>(disk: &D, other: &D, left: &[u8], taken: &[u8]) {
    write_whole(other, ".kiln-lock", left).unwrap();
    assert!(disk.lock(false).unwrap().is_none());
    assert_eq!(disk.lock_holder().unwrap(), "process 7 on elsewhere");
    let attempt = disk.lock_within(Duration::from_secs(120)).unwrap();
    assert!(matches!(attempt, LockAttempt::Granted { .. }), "{attempt:?}");
    write_whole(disk, "a", b"mine").unwrap();
    // Another client took it, believing that this one was gone: at the next sign of life that is
    // noticed, and nothing more is written.
    write_whole(other, ".kiln-lock", taken).unwrap();
    let begin = Instant::now();
    let fenced = loop {
        match write_whole(disk, "a", b"late") {
            Err(error) => break error,
            Ok(()) => assert!(begin.elapsed() < Duration::from_secs(120), "never fenced"),
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    assert!(fenced.is_fenced(), "{fenced}");
    drop(attempt);
    // The other's lock was left alone.
    assert!(other.lock(false).unwrap().is_none());
}
