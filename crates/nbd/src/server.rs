//! Listening, and the clients that there are.

use std::collections::HashMap;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::ServerConfig;

use crate::stream::Socket;
use crate::{Export, Result, connection};

/// Clients at a time.
const MAX_CLIENTS: usize = 64;
/// How long until a new client is looked for again.
const LOOK: Duration = Duration::from_millis(20);

/// Where clients come from.
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
    clients: Mutex<HashMap<u64, Socket>>,
    next: AtomicU64,
}

impl Shared {
    fn clients(&self) -> MutexGuard<'_, HashMap<u64, Socket>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// Serves an export to whoever comes; `log` hears why connections ended that ended badly.
    ///
    /// With a configuration of TLS only encrypted connections are served.
    ///
    /// # Errors
    /// The listener cannot be used.
    pub fn start(
        listener: Listener,
        export: Arc<dyn Export>,
        tls: Option<Arc<ServerConfig>>,
        log: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Server> {
        listener.set_nonblocking()?;
        let shared = Arc::new(Shared::default());
        let of = Arc::clone(&shared);
        let thread =
            std::thread::spawn(move || accept(&listener, &of, &export, tls.as_ref(), &log));
        Ok(Server { shared, thread: Some(thread) })
    }

    /// How many clients there are.
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
            if shared.clients().len() >= MAX_CLIENTS {
                log(&format!("a connection was refused: there are {MAX_CLIENTS} already"));
                continue;
            }
            let Ok(known) = socket.try_clone() else { continue };
            let id = shared.next.fetch_add(1, Ordering::Relaxed);
            shared.clients().insert(id, known);
            scope.spawn(move || {
                if let Err(error) = connection::serve(socket, export, tls) {
                    log(&error.to_string());
                }
                if let Some(socket) = shared.clients().remove(&id) {
                    socket.end();
                }
            });
        }
        shared.clients().values().for_each(Socket::end);
    });
}
