//! Waiting for a lock that says only whether it was got.

use kiln_store::{LockAttempt, Locks, Result, WriteLock};
use std::thread;
use std::time::{Duration, Instant};

/// Pauses between tries: each is a request or several.
const RETRY: Duration = Duration::from_millis(500);

/// Tries once, or until it is got.
pub fn lock_now_or(
    wait: bool,
    mut attempt: impl FnMut() -> Result<Option<WriteLock>>,
) -> Result<Option<WriteLock>> {
    loop {
        let lock = attempt()?;
        if lock.is_some() || !wait {
            return Ok(lock);
        }
        thread::sleep(RETRY);
    }
}

/// [`Locks::lock_within`] by the clock: what tries themselves take counts too.
pub fn lock_within(disk: &dyn Locks, time: Duration) -> Result<LockAttempt> {
    let begin = Instant::now();
    loop {
        let lock = disk.lock(false)?;
        let waited = begin.elapsed();
        if let Some(lock) = lock {
            return Ok(LockAttempt::Granted { lock, waited });
        }
        if waited >= time {
            return Ok(LockAttempt::Busy { holder: disk.lock_holder() });
        }
        thread::sleep(RETRY.min(time - waited));
    }
}

#[cfg(test)]
mod tests {
    use kiln_store::MemoryBackend;

    use super::*;

    #[test]
    fn a_lock_is_waited_for_as_long_as_it_was_said() {
        let disk = MemoryBackend::new();
        let held = disk.lock(false).unwrap();
        let begin = Instant::now();
        let busy = lock_within(&disk, Duration::from_millis(80)).unwrap();
        assert!(matches!(busy, LockAttempt::Busy { .. }));
        assert!(begin.elapsed() >= Duration::from_millis(80));
        assert!(lock_now_or(false, || disk.lock(false)).unwrap().is_none());
        thread::scope(|scope| {
            let waits = scope.spawn(|| lock_now_or(true, || disk.lock(false)));
            drop(held);
            assert!(waits.join().unwrap().unwrap().is_some());
        });
        let got = lock_within(&disk, Duration::ZERO).unwrap();
        assert!(matches!(got, LockAttempt::Granted { .. }));
    }
}
