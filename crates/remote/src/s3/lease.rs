//! The lock of a place: an object that one writer at a time has, and keeps by writing it again.
//!
//! It is made by a conditional put (only where there is none), and kept by others (only over the
//! one that was written last). Whoever waits looks whether it changes: one that stays the same for
//! [`LEASE`], by the clock of who waits, is of somebody who is gone, and is taken over the same
//! way. So no two clocks are ever compared. Of two who take it over one succeeds.

use std::time::{Duration, Instant};
use std::{sync::Arc, thread};

use crate::{Fence, LEASE, LOCK, MAX_LOCK, RENEW, holder, holder_said, random};
use kiln_store::{Capability, Existing, Operation, ReadAt, Result, StoreError, Tag};
use parking_lot::{Condvar, Mutex};

use crate::{s3::client::Client, s3::read::Object, s3::upload::Put};

/// A lock that is held.
#[derive(Debug)]
pub(crate) struct Lease {
    client: Arc<Client>,
    fence: Arc<Fence>,
    /// Text that no other lock has.
    id: String,
    state: Mutex<LeaseState>,
    wake: Condvar,
}

#[derive(Debug)]
struct LeaseState {
    count: u64,
    tag: Option<Tag>,
    released: bool,
}

/// Lock of another holder, as it was seen first.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    held: Option<(Tag, Instant)>,
    pub holder: Option<String>,
}

/// The guard of a lock: when it goes, so does the lock.
#[derive(Debug)]
pub(crate) struct Guard(Arc<Lease>);

impl Lease {
    /// Tries to get the lock; `None`: somebody else has it.
    pub(crate) fn acquire(client: &Arc<Client>, seen: &Mutex<Seen>) -> Result<Option<Guard>> {
        let id = format!("{:016x}{:016x}", random(), random());
        let state = Mutex::new(LeaseState { count: 0, tag: None, released: false });
        let (client, fence) = (Arc::clone(client), Arc::new(Fence::new(Instant::now())));
        let lease = Lease { client, fence, id, state, wake: Condvar::new() };
        let mut existing = Existing::Keep;
        for _ in 0..2 {
            match lease.write(existing) {
                Ok(()) => {
                    seen.lock().held = None;
                    return lease.begin().map(Some);
                }
                Err(error) if error.is_exists() => {}
                Err(error) => return Err(error),
            }
            match gone(&lease.client, seen)? {
                Held::No => existing = Existing::Keep,
                Held::Abandoned(tag) => existing = Existing::Same(tag),
                Held::Yes => return Ok(None),
            }
        }
        Ok(None)
    }

    /// From now on the lock is kept by a thread.
    fn begin(self) -> Result<Guard> {
        let lease = Arc::new(self);
        let guard = Guard(Arc::clone(&lease));
        let thread = thread::Builder::new().name("kiln-s3-lease".into());
        let spawned = thread.spawn(move || lease.keep());
        spawned.map_err(|error| guard.0.client.error(Operation::Lock, "", error))?;
        guard.0.client.fence.by(&guard.0.fence);
        Ok(guard)
    }

    /// Writes it, and notes what its server calls it.
    fn write(&self, existing: Existing) -> Result<()> {
        let before = Instant::now();
        let count = self.state.lock().count + 1;
        let holder = holder();
        let text = format!("{}\n{count}\n{holder}\n", self.id);
        let tag = Put::new(&self.client, LOCK, existing).put(text.as_bytes())?;
        let mut state = self.state.lock();
        (state.count, state.tag) = (count, tag);
        self.fence.renew(before);
        Ok(())
    }

    fn keep(&self) {
        let mut state = self.state.lock();
        while !state.released && !self.fence.is_lost() {
            let rest = RENEW.saturating_sub(self.fence.age());
            let rest = rest.max(Duration::from_millis(200));
            self.wake.wait_for(&mut state, rest);
            if state.released || self.fence.age() < RENEW {
                continue;
            }
            let Some(tag) = state.tag else { return };
            drop(state);
            let end = self.write(Existing::Same(tag));
            state = self.state.lock();
            // Anything else may pass; what counts is the time since the last success.
            if end.is_err_and(|error| error.is_exists()) {
                self.fence.lose();
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let ours = self.0.fence.holds();
        self.0.client.fence.free();
        self.0.state.lock().released = true;
        self.0.wake.notify_all();
        if ours {
            // If it stays, the next one waits until it is clear that nobody has it.
            let _ = self.0.client.delete(LOCK);
        }
    }
}

/// State of a lock of another holder.
enum Held {
    No,
    Abandoned(Tag),
    Yes,
}

fn gone(client: &Arc<Client>, seen: &Mutex<Seen>) -> Result<Held> {
    let object = match Object::open(client, LOCK) {
        Ok(object) => object,
        Err(error) if error.is_not_found() => return Ok(Held::No),
        Err(error) => return Err(error),
    };
    let mut text = vec![0; object.len().min(MAX_LOCK) as usize];
    // It may be written again just now; the holder is for messages only.
    let read = object.read_at(0, &mut text);
    let no_tags = || {
        let (place, what) = (client.place.text.clone(), "a lock".to_owned());
        StoreError::Incapable { place, lacks: Capability::CreateIfAbsent, what }
    };
    let tag = object.tag().ok_or_else(no_tags)?;
    let mut seen = seen.lock();
    if read.is_ok() {
        seen.holder = holder_said(&text, 2);
    }
    match seen.held {
        Some((known, since)) if known == tag && since.elapsed() >= LEASE => {
            Ok(Held::Abandoned(tag))
        }
        Some((known, _)) if known == tag => Ok(Held::Yes),
        _ => {
            seen.held = Some((tag, Instant::now()));
            Ok(Held::Yes)
        }
    }
}
