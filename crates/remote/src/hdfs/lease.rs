//! The lock of a place: a file that one writer at a time makes, where there is none, and gives
//! signs of life to.
//!
//! A file of HDFS has a number that no other one ever has, and can be removed by it whatever it is
//! called: so whoever takes a lock over removes the very one that it saw, and of several the
//! NameNode lets one make the next. A lock that stays as it is for [`LEASE`], by the clock of who
//! waits, is of somebody who is gone. No two clocks are ever compared.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Fence, LEASE, LOCK, MAX_LOCK, RENEW, holder, holder_said};
use kiln_store::{Operation, ReadAt, Result};
use parking_lot::{Condvar, Mutex};

use crate::hdfs::operations::{Status, by_id};
use crate::{hdfs::client::Client, hdfs::read::File, hdfs::write::put};

/// Time that the server of a place keeps a lock without users.
const LINGER: Duration = Duration::from_secs(2);
/// After this time it gives the lock back whoever wants it, and waits for [`TURN`] itself.
const KEPT: Duration = Duration::from_secs(10);
/// Longer than others wait between their tries.
const TURN: Duration = Duration::from_secs(1);

/// A lock that is held.
#[derive(Debug)]
struct Lease {
    client: Arc<Client>,
    fence: Arc<Fence>,
    begun: Instant,
    /// The path of the file by its number.
    path: String,
    /// Its time of modification when it was made: signs of life count up from there.
    made: u64,
    released: Mutex<bool>,
    wake: Condvar,
}

/// Lock of another holder, as it was seen first.
#[derive(Debug, Default)]
struct Seen {
    held: Option<(u64, u64, Instant)>,
    holder: Option<String>,
}

/// The lock of a place, for all threads of this program.
#[derive(Debug)]
pub(crate) struct PlaceLock {
    client: Arc<Client>,
    /// True if a lock that was given back is kept for a while.
    lingers: bool,
    turn: Mutex<Turn>,
    seen: Mutex<Seen>,
}

/// Holder of the lock.
#[derive(Debug, Default)]
struct Turn {
    /// A thread of this program has it, or asks for it.
    taken: bool,
    /// The lock that nobody uses, and since when.
    idle: Option<(Arc<Lease>, Instant)>,
    /// Until when others have their turn.
    rests: Option<Instant>,
}

/// The guard of a lock: when it goes, so does the lock.
#[derive(Debug)]
pub(crate) struct Guard {
    locks: Arc<PlaceLock>,
    lease: Arc<Lease>,
}

impl PlaceLock {
    pub(crate) fn new(client: Arc<Client>, lingers: bool) -> Arc<PlaceLock> {
        Arc::new(PlaceLock { client, lingers, turn: Mutex::default(), seen: Mutex::default() })
    }

    /// Returns the holder of the lock, as far as it was seen.
    pub(crate) fn holder(&self) -> Option<String> {
        self.seen.lock().holder.clone()
    }

    /// Tries to get the lock; `None`: somebody else has it.
    pub(crate) fn acquire(self: &Arc<PlaceLock>) -> Result<Option<Guard>> {
        let idle = {
            let mut turn = self.turn.lock();
            if turn.taken {
                self.seen.lock().holder = Some(holder());
                return Ok(None);
            }
            if turn.rests.is_some_and(|until| Instant::now() < until) {
                return Ok(None);
            }
            (turn.taken, turn.rests) = (true, None);
            turn.idle.take()
        };
        let lease = match idle {
            // A lock that may have been taken over meanwhile is none.
            Some((lease, _)) if lease.fence.holds() => Ok(Some(lease)),
            Some((lease, _)) => {
                lease.end();
                self.ask()
            }
            None => self.ask(),
        };
        match lease {
            Ok(Some(lease)) => {
                self.client.fence.by(&lease.fence);
                Ok(Some(Guard { locks: Arc::clone(self), lease }))
            }
            other => {
                self.turn.lock().taken = false;
                other.map(|_| None)
            }
        }
    }

    /// Asks HDFS for it.
    fn ask(self: &Arc<PlaceLock>) -> Result<Option<Arc<Lease>>> {
        let (client, seen) = (&self.client, &self.seen);
        for _ in 0..2 {
            let sent = Instant::now();
            match put(client, LOCK, format!("{}\n", holder()).as_bytes(), true) {
                Ok(()) => {
                    let status = client.status(Operation::Lock, LOCK, &client.path(LOCK))?;
                    seen.lock().held = None;
                    return begin(self, &status, sent).map(Some);
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

    /// Takes the lock back that nobody has used for long enough; whether it did.
    fn expire(&self, lease: &Arc<Lease>) -> bool {
        let mut turn = self.turn.lock();
        let over = |(idle, since): &(Arc<Lease>, Instant)| {
            Arc::ptr_eq(idle, lease) && since.elapsed() >= LINGER
        };
        let over = turn.idle.as_ref().is_some_and(over);
        if over {
            turn.idle = None;
        }
        over
    }
}

impl Drop for PlaceLock {
    fn drop(&mut self) {
        if let Some((lease, _)) = self.turn.lock().idle.take() {
            lease.end();
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.locks.client.fence.free();
        let now = Instant::now();
        let kept = self.lease.begun.elapsed() >= KEPT;
        let lingers = self.locks.lingers && !kept && self.lease.fence.holds();
        let lease = Arc::clone(&self.lease);
        if !lingers {
            // If it stays, the next one waits until it is clear that nobody has it.
            lease.end();
        }
        let mut turn = self.locks.turn.lock();
        turn.taken = false;
        turn.idle = lingers.then_some((lease, now));
        turn.rests = (self.locks.lingers && kept).then_some(now + TURN);
    }
}

/// From now on the lock is kept by a thread.
fn begin(locks: &Arc<PlaceLock>, status: &Status, sent: Instant) -> Result<Arc<Lease>> {
    let client = &locks.client;
    let lease = Arc::new(Lease {
        client: Arc::clone(client),
        begun: sent,
        fence: Arc::new(Fence::new(sent)),
        path: by_id(status.file_id),
        made: status.modification_time,
        released: Mutex::new(false),
        wake: Condvar::new(),
    });
    let thread = thread::Builder::new().name("kiln-hdfs-lease".into());
    let (kept, of) = (Arc::clone(&lease), Arc::downgrade(locks));
    let spawned = thread.spawn(move || Lease::keep(&kept, &of));
    if let Err(error) = spawned {
        lease.end();
        return Err(client.error(Operation::Lock, "", error));
    }
    Ok(lease)
}

impl Lease {
    fn keep(lease: &Arc<Lease>, locks: &Weak<PlaceLock>) {
        let (mut time, mut next) = (lease.made, Instant::now() + RENEW);
        loop {
            let pause = LINGER.min(next.saturating_duration_since(Instant::now()));
            let released = {
                let mut released = lease.released.lock();
                lease.wake.wait_while_for(&mut released, |released| !*released, pause);
                *released
            };
            if released || lease.fence.is_lost() {
                return;
            }
            if locks.upgrade().is_some_and(|locks| locks.expire(lease)) {
                return lease.end();
            }
            if Instant::now() < next {
                continue;
            }
            time += 1;
            let sent = Instant::now();
            next = sent + RENEW;
            match lease.client.touch(LOCK, &lease.path, time) {
                Ok(true) => lease.fence.renew(sent),
                Ok(false) => lease.fence.lose(),
                // It may pass; what counts is the time since the last success.
                Err(_) => {}
            }
        }
    }

    /// Gives it back. What cannot be removed is taken over when it is clear that nobody has it.
    fn end(&self) {
        *self.released.lock() = true;
        self.wake.notify_all();
        let _ = self.client.delete(LOCK, &self.path);
    }
}

/// Returns whether a lock's holder has given no sign of life for too long.
fn is_gone(client: &Arc<Client>, seen: &Mutex<Seen>, status: &Status) -> bool {
    let now = (status.file_id, status.modification_time);
    let known = seen.lock().held;
    match known {
        Some((file, time, since)) if (file, time) == now => since.elapsed() >= LEASE,
        _ => {
            let holder =
                if known.is_none_or(|known| known.0 != now.0) { said(client) } else { None };
            let mut seen = seen.lock();
            seen.held = Some((now.0, now.1, Instant::now()));
            seen.holder = holder.or(seen.holder.take());
            false
        }
    }
}

/// Reads the holder from its lock, for messages only.
fn said(client: &Arc<Client>) -> Option<String> {
    let file = File::open(client, LOCK).ok()?;
    let mut text = vec![0; file.len().min(MAX_LOCK) as usize];
    file.read_at(0, &mut text).ok()?;
    holder_said(&text, 0)
}
