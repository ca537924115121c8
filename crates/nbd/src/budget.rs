//! Memory that the requests and replies of all clients may hold together.

use crate::stream::Socket;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of requests and replies that one client may have under way.
const ONE: u64 = 96 << 20;
/// The same of all clients.
const ALL: u64 = 384 << 20;
/// Kept back for short requests, so that clients that read nothing keep no others out.
const RESERVE: u64 = 64 << 20;
/// Requests of so many bytes count as short.
const SHORT: u64 = 256 << 10;
/// How long a client may leave a reply unread while others wait for memory.
const UNREAD: Duration = Duration::from_secs(5);
/// How often a request that waits looks for such clients.
const LOOK: Duration = Duration::from_millis(200);

/// Requests and bytes that all clients of a server have under way.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    held: Mutex<Held>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Held {
    total: u64,
    clients: HashMap<u64, Client>,
}

#[derive(Debug)]
struct Client {
    used: u64,
    socket: Socket,
    /// When the reply that is being written was begun.
    writing: Option<Instant>,
}

impl Held {
    fn fits(&self, id: u64, cost: u64) -> (bool, bool) {
        let mine = self.clients.get(&id).map_or(0, |client| client.used);
        let all = if cost <= SHORT { ALL + RESERVE } else { ALL };
        let within = |used: u64, most: u64| used == 0 || used + cost <= most;
        (within(mine, ONE), within(self.total, all))
    }

    /// Ends clients that read nothing.
    fn end_unread(&self) {
        for client in self.clients.values() {
            if client.writing.is_some_and(|since| since.elapsed() > UNREAD) {
                client.socket.end();
            }
        }
    }
}

impl Memory {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The share of one client.
#[derive(Debug)]
pub(crate) struct Budget {
    memory: Arc<Memory>,
    id: u64,
}

impl Budget {
    /// Of the client with this number, which no other client of the server has.
    pub fn of(memory: &Arc<Memory>, id: u64, socket: Socket) -> Budget {
        memory.held().clients.insert(id, Client { used: 0, socket, writing: None });
        Budget { memory: Arc::clone(memory), id }
    }

    /// Waits until so many bytes may be held.
    pub fn take(&self, cost: u64) {
        let mut held = self.memory.held();
        loop {
            match held.fits(self.id, cost) {
                (true, true) => break,
                (true, false) => held.end_unread(),
                (false, _) => {}
            }
            let waited = self.memory.freed.wait_timeout(held, LOOK);
            held = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        held.total += cost;
        if let Some(client) = held.clients.get_mut(&self.id) {
            client.used += cost;
        }
    }

    /// Gives bytes back.
    pub fn give(&self, cost: u64) {
        let mut held = self.memory.held();
        held.total -= cost;
        if let Some(client) = held.clients.get_mut(&self.id) {
            client.used -= cost;
        }
        drop(held);
        self.memory.freed.notify_all();
    }

    /// Notes that a reply is begun, or that none is on its way.
    pub fn writing(&self, begun: bool) {
        if let Some(client) = self.memory.held().clients.get_mut(&self.id) {
            client.writing = begun.then(Instant::now);
        }
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        self.memory.held().clients.remove(&self.id);
    }
}
