//! The lock of a place: a file that one writer at a time makes, where there is none, and gives
//! signs of life to.
//!
//! A file of HDFS has a number that no other one ever has, and can be removed by it whatever it is
//! called: so whoever takes a lock over removes the very one that it saw, and of several the
//! NameNode lets one make the next. A lock that stays as it is for [`LEASE`], by the clock of who
//! waits, is of somebody who is gone. No two clocks are ever compared.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use kiln_store::{Operation, ReadAt, StoreError};

use crate::client::Client;
use crate::fence::{Fence, LOCK};
use crate::operations::{Status, by_id};
use crate::read::File;
use crate::write::put;

/// After this time without a sign of life a lock is taken over.
const LEASE: Duration = Duration::from_secs(30);
/// How often a holder gives one.
const RENEW: Duration = Duration::from_secs(8);
/// Longest lock that is read, in bytes.
const MAX_LOCK: u64 = 4096;

/// A lock that is held.
#[derive(Debug)]
struct Lease {
    client: Arc<Client>,
    fence: Arc<Fence>,
    /// The path of the file by its number.
    path: String,
    /// Its time of modification when it was made: signs of life count up from there.
    made: u64,
    released: Mutex<bool>,
    wake: Condvar,
}

/// What others hold, as it was seen first.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    held: Option<(u64, u64, Instant)>,
    pub holder: Option<String>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The guard of a lock: when it goes, so does the lock.
#[derive(Debug)]
pub(crate) struct Guard(Arc<Lease>);

/// Tries to get the lock; `None`: somebody else has it.
pub(crate) fn acquire(
    client: &Arc<Client>,
    seen: &Mutex<Seen>,
) -> Result<Option<Guard>, StoreError> {
    for _ in 0..2 {
        let sent = Instant::now();
        match put(client, LOCK, holder().as_bytes(), true) {
            Ok(()) => {
                let status = client.status(Operation::Lock, LOCK, &client.path(LOCK))?;
                locked(seen).held = None;
                return begin(client, &status, sent).map(Some);
            }
            Err(error) if error.is_exists() => {}
            Err(error) => return Err(error),
        }
        match client.status(Operation::Lock, LOCK, &client.path(LOCK)) {
            Ok(status) if !is_gone(client, seen, &status) => return Ok(None),
            Ok(status) => client.delete(LOCK, &by_id(status.file_id))?,
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// From now on the lock is kept by a thread.
fn begin(client: &Arc<Client>, status: &Status, sent: Instant) -> Result<Guard, StoreError> {
    let lease = Arc::new(Lease {
        client: Arc::clone(client),
        fence: Arc::new(Fence::new(sent)),
        path: by_id(status.file_id),
        made: status.modification_time,
        released: Mutex::new(false),
        wake: Condvar::new(),
    });
    let guard = Guard(Arc::clone(&lease));
    let thread = thread::Builder::new().name("kiln-hdfs-lease".into());
    let spawned = thread.spawn(move || lease.keep());
    spawned.map_err(|error| client.error(Operation::Lock, "", error))?;
    *locked(&client.fence) = Arc::downgrade(&guard.0.fence);
    Ok(guard)
}

impl Lease {
    fn keep(&self) {
        let mut time = self.made;
        loop {
            let released = locked(&self.released);
            let wait = self.wake.wait_timeout_while(released, RENEW, |released| !*released);
            if *wait.unwrap_or_else(PoisonError::into_inner).0 || self.fence.is_lost() {
                return;
            }
            time += 1;
            let sent = Instant::now();
            match self.client.touch(LOCK, &self.path, time) {
                Ok(true) => self.fence.note(Some(sent)),
                Ok(false) => self.fence.note(None),
                // It may pass; what counts is the time since the last success.
                Err(_) => {}
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        *locked(&self.0.client.fence) = Weak::new();
        *locked(&self.0.released) = true;
        self.0.wake.notify_all();
        // If it stays, the next one waits until it is clear that nobody has it.
        let _ = self.0.client.delete(LOCK, &self.0.path);
    }
}

/// Whether a lock's holder has given no sign of life for too long.
fn is_gone(client: &Arc<Client>, seen: &Mutex<Seen>, status: &Status) -> bool {
    let now = (status.file_id, status.modification_time);
    let known = locked(seen).held;
    match known {
        Some((file, time, since)) if (file, time) == now => since.elapsed() >= LEASE,
        _ => {
            let holder =
                if known.is_none_or(|known| known.0 != now.0) { said(client) } else { None };
            let mut seen = locked(seen);
            seen.held = Some((now.0, now.1, Instant::now()));
            seen.holder = holder.or(seen.holder.take());
            false
        }
    }
}

/// What the holder wrote into its lock, for messages only.
fn said(client: &Arc<Client>) -> Option<String> {
    let file = File::open(client, LOCK).ok()?;
    let mut text = vec![0; file.len().min(MAX_LOCK) as usize];
    file.read_at(0, &mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines().next().map(|line| line.chars().take(200).collect())
}

/// Who this is, for the messages of others.
fn holder() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("process {} on {}\n", std::process::id(), host.trim())
}
