//! Listening, and the clients that there are.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use std::{collections::HashMap, io, net::TcpListener, os::unix::net::UnixListener};

use rustls::ServerConfig;

use crate::budget::{Budget, Memory};
use crate::{Export, Result, connection, stream::Socket};

/// Clients that send requests, at a time.
const MAX_CLIENTS: usize = 64;
/// Clients that negotiate, at a time: for another one the oldest of them is ended.
const MAX_NEGOTIATING: usize = 64;
/// Time limit of the negotiation.
const NEGOTIATION: Duration = Duration::from_secs(15);
/// Interval at which new clients are looked for.
const LOOK: Duration = Duration::from_millis(20);

/// The source of clients.
#[derive(Debug)]
pub enum Listener {
    /// A port.
    Tcp(TcpListener),
    /// A socket of this machine.
    Unix(UnixListener),
}

impl Listener {
    fn accept(&self) -> io::Result<Socket> {
        Ok(match self {
            Listener::Tcp(listener) => {
                let socket = listener.accept()?.0;
                socket.set_nonblocking(false)?;
                Socket::Tcp(socket)
            }
            Listener::Unix(listener) => {
                let socket = listener.accept()?.0;
                socket.set_nonblocking(false)?;
                Socket::Unix(socket)
            }
        })
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Listener::Tcp(listener) => listener.set_nonblocking(true),
            Listener::Unix(listener) => listener.set_nonblocking(true),
        }
    }
}

/// A server that runs until it is ended, or dropped.
///
/// ```
/// use std::sync::Arc;
/// use kiln_nbd::{About, Change, Done, Errno, Export, Listener, Server};
/// /// A kilobyte of zeros.
/// struct Zeros;
/// impl Export for Zeros {
///     fn about(&self) -> About {
///         About { name: "zeros".into(), size: 1024, read_only: true }
///     }
///     fn read(&self, _offset: u64, bytes: &mut [u8]) -> Result<(), Errno> {
///         bytes.fill(0);
///         Ok(())
///     }
///     fn change(&self, _change: Change, done: Done) {
///         done(Err(Errno::NotPermitted));
///     }
///     fn extents(&self, _: u64, len: u64, _: usize) -> Result<Vec<(u64, bool)>, Errno> {
///         Ok(vec![(len, false)])
///     }
/// }
/// let port = std::net::TcpListener::bind("127.0.0.1:0")?;
/// let server = Server::start(Listener::Tcp(port), Arc::new(Zeros), None, |_| ())?;
/// assert_eq!(server.clients(), 0);
/// server.end();
/// # Ok::<(), kiln_nbd::NbdError>(())
/// ```
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    ending: AtomicBool,
    clients: Mutex<HashMap<u64, Client>>,
    next: AtomicU64,
    memory: Arc<Memory>,
}

#[derive(Debug)]
struct Client {
    socket: Socket,
    /// When it came, as long as it negotiates.
    negotiates: Option<Instant>,
}

impl Shared {
    fn clients(&self) -> MutexGuard<'_, HashMap<u64, Client>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends clients that negotiate for too long, and where there are too many of them the oldest.
    fn end_slow(&self) {
        let clients = self.clients();
        let negotiate = || clients.values().filter_map(|one| Some((one.negotiates?, one)));
        let oldest = negotiate().min_by_key(|(since, _)| *since);
        let crowded = negotiate().count() >= MAX_NEGOTIATING;
        for (since, client) in negotiate() {
            let is_oldest = oldest.is_some_and(|(first, _)| first == since);
            if since.elapsed() > NEGOTIATION || (crowded && is_oldest) {
                client.socket.end();
            }
        }
    }

    /// Notes that a client sends requests from now on; `false`: too many others do.
    fn negotiated(&self, id: u64) -> bool {
        let mut clients = self.clients();
        let busy = clients.values().filter(|client| client.negotiates.is_none()).count();
        match clients.get_mut(&id) {
            Some(client) if busy < MAX_CLIENTS => {
                client.negotiates = None;
                true
            }
            _ => false,
        }
    }
}

impl Server {
    /// Serves an export to all clients; `log` gets the reasons of connections that failed.
    ///
    /// With a configuration of TLS only encrypted connections are served.
    pub fn start(
        listener: Listener,
        export: Arc<dyn Export>,
        tls: Option<Arc<ServerConfig>>,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Server> {
        listener.set_nonblocking()?;
        let shared = Arc::new(Shared::default());
        let of = Arc::clone(&shared);
        let serve = move || accept(&listener, &of, &export, tls.as_ref(), &log);
        let thread = Builder::new().spawn(serve)?;
        Ok(Server { shared, thread: Some(thread) })
    }

    /// Returns the number of clients.
    pub fn clients(&self) -> usize {
        self.shared.clients().len()
    }

    /// Ends all connections, and returns when nothing is under way any more.
    pub fn end(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        self.shared.ending.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn accept(
    listener: &Listener,
    shared: &Arc<Shared>,
    export: &Arc<dyn Export>,
    tls: Option<&Arc<ServerConfig>>,
    log: &(dyn Fn(&str) + Sync),
) {
    std::thread::scope(|scope| {
        while !shared.ending.load(Ordering::Acquire) {
            shared.end_slow();
            let socket = match listener.accept() {
                Ok(socket) => socket,
                Err(error) => {
                    if error.kind() != io::ErrorKind::WouldBlock {
                        log(&format!("cannot take a connection: {error}"));
                    }
                    std::thread::sleep(LOOK);
                    continue;
                }
            };
            if shared.clients().len() >= MAX_CLIENTS + 2 * MAX_NEGOTIATING {
                // Those that were ended are on their way out.
                std::thread::sleep(LOOK);
                continue;
            }
            let (Ok(known), Ok(ends)) = (socket.try_clone(), socket.try_clone()) else { continue };
            let id = shared.next.fetch_add(1, Ordering::Relaxed);
            let client = Client { socket: known, negotiates: Some(Instant::now()) };
            shared.clients().insert(id, client);
            let budget = Budget::of(&shared.memory, id, ends);
            let started = Builder::new().spawn_scoped(scope, move || {
                let negotiated = || shared.negotiated(id);
                if let Err(error) = connection::serve(socket, export, tls, budget, negotiated) {
                    log(&error.to_string());
                }
                if let Some(client) = shared.clients().remove(&id) {
                    client.socket.end();
                }
            });
            if let Err(error) = started {
                log(&format!("cannot serve a connection: {error}"));
                drop(shared.clients().remove(&id));
            }
        }
        shared.clients().values().for_each(|client| client.socket.end());
    });
}
