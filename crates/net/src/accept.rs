//! The door of an agent: accepts connections, lets peers show who they are, and hands over those
//! of members. Who gets a place is decided by [`Admission`].

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{collections::HashMap, future::Future, net::SocketAddr, time::Duration};

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use super::ClusterKey;
use super::stream::{Outgoing, Stream, read_frame, write_frames};
use crate::admission::{Admission, Arrival, Entry, RefusalLog};
use crate::agent::{ConnectionId, Event, Limits, PeerInfo, Rights, refused};
use crate::proto::{BODY_MAX, Frame, PAYLOAD_MAX};
use crate::{Result, proto::field::TEXT_MAX};

/// Limits of what is still read from a refused peer: bytes, and time.
const FAREWELL_BYTES: u64 = 64 * 1024;
const FAREWELL: Duration = Duration::from_secs(1);
/// Bytes of a `Hello`, at most.
const HELLO_MAX: usize = TEXT_MAX + 8;

/// Input of the agent's shell.
pub(super) enum Incoming {
    Event(Event),
    /// A member's connection with its peer and its writing half's queue.
    New(ConnectionId, u64, PeerInfo, mpsc::UnboundedSender<Outgoing>),
}

/// The places of connections, and the log of those that get none.
struct Entrance {
    start: Instant,
    state: Mutex<State>,
    /// A connection ended.
    freed: Notify,
}

struct State {
    admission: Admission,
    log: RefusalLog,
    /// Ends connections that have not shown who they are.
    unproven: HashMap<ConnectionId, AbortHandle>,
}

impl Entrance {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether to tell of a peer that was refused or failed, and how many others were left
    /// out.
    fn note(&self, peer: SocketAddr) -> Option<u64> {
        self.state().log.note(self.start.elapsed(), peer.ip())
    }

    /// Tells that a peer was refused, unless too much was told lately.
    fn tell(&self, peer: SocketAddr, why: &str) {
        if let Some(left_out) = self.note(peer) {
            tracing::info!(%peer, why, left_out, "a peer was refused");
        }
    }

    /// A place among the members, waited for until `until`.
    async fn enter(&self, id: ConnectionId, until: Instant) -> Result<(), String> {
        loop {
            let freed = self.freed.notified();
            let why = match self.state().enter(id) {
                Entry::Entered => return Ok(()),
                Entry::Gone => return Err("others took its place".to_owned()),
                Entry::Full(open) => format!("{open} connections are open already"),
                Entry::Crowded(open) => {
                    format!("{open} connections of this address are open already")
                }
            };
            if timeout_at(until, freed).await.is_err() {
                return Err(why);
            }
        }
    }
}

impl State {
    fn enter(&mut self, id: ConnectionId) -> Entry {
        let entry = self.admission.enter(id);
        if entry == Entry::Entered {
            self.unproven.remove(&id);
        }
        entry
    }
}

/// A place; dropping it gives it back.
struct Seat {
    entrance: Arc<Entrance>,
    id: ConnectionId,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.entrance.state();
        state.admission.leave(self.id);
        state.unproven.remove(&self.id);
        drop(state);
        self.entrance.freed.notify_waiters();
    }
}

/// Accepts connections.
pub(super) struct Acceptor {
    pub listener: TcpListener,
    pub key: Option<ClusterKey>,
    pub limits: Limits,
    pub events: mpsc::Sender<Incoming>,
}

impl Acceptor {
    pub async fn run(self) {
        let state = State {
            admission: Admission::new(self.limits),
            log: RefusalLog::default(),
            unproven: HashMap::new(),
        };
        let (start, state, freed) = (Instant::now(), Mutex::new(state), Notify::new());
        let entrance = Arc::new(Entrance { start, state, freed });
        let random = RandomState::new();
        for connection in 1.. {
            let (stream, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, most likely: others must end first.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let incoming = IncomingConnection {
                id: connection,
                session: random.hash_one(connection),
                peer,
                limits: self.limits,
                events: self.events.clone(),
                seat: Seat { entrance: Arc::clone(&entrance), id: connection },
            };
            begin(&entrance, connection, peer, incoming.welcome(stream, self.key.clone()));
        }
    }
}

/// Gives a connection a place, perhaps that of another one, and begins with it.
fn begin(
    entrance: &Entrance,
    id: ConnectionId,
    peer: SocketAddr,
    welcome: impl Future<Output = ()> + Send + 'static,
) {
    // Held until the task is known, so that an evicted connection can be ended.
    let mut state = entrance.state();
    let arrival = state.admission.arrive(entrance.start.elapsed(), id, peer.ip());
    state.unproven.insert(id, tokio::spawn(welcome).abort_handle());
    let evicted = match arrival {
        Arrival::Replaces(other) => state.unproven.remove(&other),
        Arrival::Accepted => None,
    };
    drop(state);
    if let Some(evicted) = evicted {
        evicted.abort();
        // Of the same address or as old as it gets: the newcomer's says enough.
        entrance.tell(peer, "too many peers have not shown who they are; the oldest was closed");
    }
}

/// Ends a connection whose last bytes should be read: closing it while bytes of the other side wait
/// unread would reset it, and a reset overtakes the alert that says why.
async fn part(mut stream: impl Stream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut rest = stream.take(FAREWELL_BYTES);
    let _ = timeout(FAREWELL, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
}

/// Answers the peer's first frame by a refusal.
async fn refuse(mut stream: impl Stream, why: &str) {
    let farewell = Frame::new(0, refused(why)).encode(0);
    if timeout(FAREWELL, stream.write_all(&farewell)).await.is_ok_and(|sent| sent.is_ok()) {
        part(stream).await;
    }
}

/// One accepted connection.
struct IncomingConnection {
    id: ConnectionId,
    session: u64,
    peer: SocketAddr,
    limits: Limits,
    events: mpsc::Sender<Incoming>,
    seat: Seat,
}

impl IncomingConnection {
    async fn welcome(self, stream: TcpStream, key: Option<ClusterKey>) {
        // Small frames must not wait for large ones.
        let _ = stream.set_nodelay(true);
        let Some((mut stream, rights)) = self.secure(stream, key).await else { return };
        let until = Instant::now() + self.limits.hello;
        let hello = match timeout_at(until, read_frame(&mut stream, 0, (HELLO_MAX, 0))).await {
            Ok(Ok(Some(hello))) => hello,
            Ok(Ok(None)) => return,
            Ok(Err(error)) => return self.tell(&error.to_string()),
            Err(_) => return self.tell("it said no Hello in time"),
        };
        if let Err(why) = self.seat.entrance.enter(self.id, until).await {
            self.tell(&why);
            return refuse(stream, &why).await;
        }
        self.serve(stream, rights, hello).await;
    }

    fn tell(&self, why: &str) {
        self.seat.entrance.tell(self.peer, why);
    }

    /// The handshake of TLS, where there is one, and the rights of the key that the peer has shown.
    async fn secure(
        &self,
        stream: TcpStream,
        key: Option<ClusterKey>,
    ) -> Option<(Box<dyn Stream>, Rights)> {
        let Some(key) = key else { return Some((Box::new(stream), Rights::ALL)) };
        let tls = TlsAcceptor::from(key.server());
        match timeout(self.limits.handshake, tls.accept(stream).into_fallible()).await {
            Ok(Ok(stream)) => {
                let shown = stream.get_ref().1.peer_certificates().and_then(|all| all.first());
                let why =
                    match shown.map(|shown| (ClusterKey::rights(shown), key.is_revoked(shown))) {
                        Some((Some(rights), false)) => return Some((Box::new(stream), rights)),
                        Some((_, true)) => "its key is revoked",
                        _ => "its key has no role that is known here",
                    };
                self.tell(why);
                refuse(stream, why).await;
            }
            Ok(Err((error, stream))) => {
                self.tell(&format!("it has not shown a key of the cluster: {error}"));
                part(stream).await;
            }
            Err(_) => self.tell("it did not complete the handshake in time"),
        }
        None
    }

    /// Moves frames until the connection ends.
    async fn serve(self, stream: Box<dyn Stream>, rights: Rights, hello: Frame) {
        let (reading, writing) = tokio::io::split(stream);
        let (writer, queue) = mpsc::unbounded_channel();
        let info = PeerInfo { address: Some(self.peer), rights };
        let new = Incoming::New(self.id, self.session, info, writer);
        if self.events.send(new).await.is_err() {
            return;
        }
        // Whichever half ends first ends the other.
        let why = tokio::select! {
            result = self.read(reading, hello) => result.err().map(|error| error.to_string()),
            result = self.write(writing, queue) => result.err().map(|error| error.to_string()),
        };
        let (peer, connection) = (self.peer, self.id);
        if let Some(why) = why
            && let Some(left_out) = self.seat.entrance.note(peer)
        {
            tracing::info!(%peer, connection, why, left_out, "connection broke");
        }
        let closed = Event::Closed { connection: self.id };
        let _ = self.events.send(Incoming::Event(closed)).await;
    }

    async fn read(&self, mut stream: ReadHalf<Box<dyn Stream>>, hello: Frame) -> Result<()> {
        let mut next = Some(hello);
        while let Some(frame) = next {
            let event = Event::Frame { connection: self.id, frame };
            if self.events.send(Incoming::Event(event)).await.is_err() {
                break;
            }
            next = read_frame(&mut stream, self.session, (BODY_MAX, PAYLOAD_MAX)).await?;
        }
        Ok(())
    }

    async fn write(
        &self,
        mut stream: WriteHalf<Box<dyn Stream>>,
        queue: mpsc::UnboundedReceiver<Outgoing>,
    ) -> std::io::Result<()> {
        let event = |request| Incoming::Event(Event::Sent { connection: self.id, request });
        write_frames(&mut stream, queue, Some(&self.events), event).await
    }
}
