//! The shell of an agent: accepts connections, runs disk jobs, keeps the time.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kiln_store::{Backend, StoreError};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;

use super::ClusterKey;
use super::dial::Peer;
use super::disk::DiskSet;
use super::runtime::PendingRequest;
use super::stream::{Outgoing, Stream, read_frame, write_frames};
use crate::agent::{
    Action, Agent, ConnectionId, Counts, Event, Limits, TaskId, push_answer, push_message,
};
use crate::proto::{Frame, PAYLOAD_MAX, Priority};
use crate::task::Fragment;
use crate::{NodeError, NodeOperation, Result};

/// How long the answer to a fragment is waited for; it comes when the fragment has arrived.
const PUSH_PATIENCE: Duration = Duration::from_secs(60);
/// How much is still read from a refused peer, and for how long.
const FAREWELL_BYTES: u64 = 64 * 1024;
const FAREWELL: Duration = Duration::from_secs(1);
/// Events that wait for the agent, at most; who brings more waits.
const EVENTS: usize = 1024;

/// What an agent is made of.
///
/// ```
/// use std::sync::Arc;
/// use kiln_node::net::AgentSetup;
/// use kiln_store::MemoryBackend;
/// let setup = AgentSetup::plain("disk-3", Arc::new(MemoryBackend::new()));
/// assert!(setup.key.is_none());
/// ```
#[derive(Debug, Clone)]
pub struct AgentSetup {
    /// Name of the place it serves.
    pub place: String,
    /// Its storage.
    pub backend: Arc<dyn Backend>,
    /// The cluster's key; `None`: no TLS, on the loopback interface only.
    pub key: Option<ClusterKey>,
    /// What it allows.
    pub limits: Limits,
}

impl AgentSetup {
    /// An agent without TLS, for this machine only.
    #[must_use]
    pub fn plain(place: &str, backend: Arc<dyn Backend>) -> AgentSetup {
        AgentSetup { place: place.to_owned(), backend, key: None, limits: Limits::default() }
    }
}

/// An agent at work. Dropping it ends the agent.
#[derive(Debug)]
pub struct Serving {
    address: SocketAddr,
    requests: mpsc::Sender<oneshot::Sender<Report>>,
    tasks: [JoinHandle<()>; 2],
}

/// How an agent is doing.
///
/// ```
/// assert_eq!(kiln_node::net::Report::default().counts.requests, 0);
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Report {
    /// What it has done.
    pub counts: Counts,
    /// Connections, waiting requests, disk jobs under way.
    pub load: (usize, usize, usize),
}

impl Serving {
    /// Where it listens; the port is the one that the system chose if 0 was asked for.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How it is doing; all zeros when it has ended.
    pub async fn report(&self) -> Report {
        self.watcher().report().await
    }

    /// Somebody else may ask how it is doing.
    #[must_use]
    pub fn watcher(&self) -> Watcher {
        Watcher { requests: self.requests.clone() }
    }
}

/// Asks an agent of this process how it is doing.
///
/// ```
/// # use std::sync::Arc;
/// # use kiln_node::net::{AgentSetup, serve};
/// # use kiln_store::MemoryBackend;
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let setup = AgentSetup::plain("here", Arc::new(MemoryBackend::new()));
/// let agent = serve(setup, "127.0.0.1:0").await?;
/// let watcher = agent.watcher();
/// assert_eq!(watcher.report().await.load, (0, 0, 0));
/// # Ok::<(), kiln_node::NodeError>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Watcher {
    requests: mpsc::Sender<oneshot::Sender<Report>>,
}

impl Watcher {
    /// How the agent is doing; all zeros when it has ended.
    pub async fn report(&self) -> Report {
        let (answer, report) = oneshot::channel();
        if self.requests.send(answer).await.is_err() {
            return Report::default();
        }
        report.await.unwrap_or_default()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Starts an agent on the runtime that calls.
///
/// # Errors
/// The address cannot be listened on, or is not loopback although there is no key.
pub async fn serve(setup: AgentSetup, listen: &str) -> Result<Serving> {
    let failed =
        |source| NodeError::Io { op: NodeOperation::Listen, place: listen.to_owned(), source };
    let listener = TcpListener::bind(listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    if setup.key.is_none() && !address.ip().is_loopback() {
        let why = "without the cluster's key only loopback addresses are served";
        return Err(NodeError::Setup { what: listen.to_owned(), why: why.to_owned() });
    }
    let (events, inbox) = mpsc::channel(EVENTS);
    let (requests, asked) = mpsc::channel(16);
    // Bounded by the fragments of the tasks.
    let (tell, pushed) = mpsc::unbounded_channel();
    let agent = Agent::new(&setup.place, setup.limits);
    let shell = Shell {
        agent,
        disks: Arc::new(DiskSet::new(setup.backend)),
        writers: HashMap::new(),
        events: events.clone(),
        start: Instant::now(),
        peers: Peers { key: setup.key.clone(), known: HashMap::new(), tell },
    };
    let door = Acceptor { listener, key: setup.key, limits: setup.limits, events };
    let tasks = [tokio::spawn(shell.run(inbox, asked, pushed)), tokio::spawn(door.run())];
    Ok(Serving { address, requests, tasks })
}

/// What reaches the shell of the agent.
enum Incoming {
    Event(Event),
    /// A new connection with its writing half's queue.
    New(ConnectionId, u64, mpsc::UnboundedSender<Outgoing>),
}

/// Runs the state machine.
struct Shell {
    agent: Agent,
    disks: Arc<DiskSet>,
    writers: HashMap<ConnectionId, mpsc::UnboundedSender<Outgoing>>,
    events: mpsc::Sender<Incoming>,
    start: Instant,
    peers: Peers,
}

impl Shell {
    async fn run(
        mut self,
        mut inbox: mpsc::Receiver<Incoming>,
        mut asked: mpsc::Receiver<oneshot::Sender<Report>>,
        mut pushed: mpsc::UnboundedReceiver<Event>,
    ) {
        // One that never comes while there is nothing to wait for.
        let far = Duration::from_secs(3600);
        loop {
            let wake = self.agent.wake_at().map_or(self.start.elapsed() + far, |at| at);
            let event = tokio::select! {
                next = inbox.recv() => match next {
                    None => break,
                    Some(Incoming::Event(event)) => event,
                    Some(Incoming::New(connection, session, writer)) => {
                        self.writers.insert(connection, writer);
                        Event::Connected { connection, session }
                    }
                },
                Some(event) = pushed.recv() => event,
                Some(answer) = asked.recv() => {
                    // It does not matter if the requester is gone.
                    let (counts, load) = (self.agent.counts(), self.agent.load());
                    let _ = answer.send(Report { counts, load });
                    continue;
                }
                () = sleep_until(self.start + wake) => Event::Tick,
            };
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        if let Event::Closed { connection } = event {
            self.writers.remove(&connection);
        }
        let mut work = VecDeque::from(self.agent.handle(self.start.elapsed(), event));
        while let Some(action) = work.pop_front() {
            match action {
                Action::Send { connection, session, frame } => {
                    if let Some(writer) = self.writers.get(&connection) {
                        // The writer ends before us when the connection broke; that is reported.
                        let _ = writer.send(Outgoing::Frame(session, frame));
                    }
                }
                Action::Close { connection, why } => {
                    tracing::info!(connection, why, "connection closed");
                    if let Some(writer) = self.writers.remove(&connection) {
                        let _ = writer.send(Outgoing::Close);
                    }
                }
                Action::Start { job, work } => {
                    let (disks, events) = (Arc::clone(&self.disks), self.events.clone());
                    tokio::task::spawn_blocking(move || {
                        let run = std::panic::AssertUnwindSafe(|| disks.run(work));
                        let outcome = std::panic::catch_unwind(run).unwrap_or_else(|_| {
                            let what = "a storage backend panicked".to_owned();
                            Err(StoreError::Misuse { op: "use", name: String::new(), what })
                        });
                        // The shell is gone only when the agent ends.
                        let _ =
                            events.blocking_send(Incoming::Event(Event::Finished { job, outcome }));
                    });
                }
                Action::Push { task, address, fragments } => {
                    self.peers.push(task, address, fragments)
                }
                Action::Forget { task } => self.disks.forget_task(task),
                Action::Drop { slot } => self.disks.forget(slot),
            }
        }
    }
}

/// Connections to other agents.
struct Peers {
    key: Option<ClusterKey>,
    known: HashMap<String, Peer>,
    tell: mpsc::UnboundedSender<Event>,
}

impl Peers {
    /// Sends fragments; the answer becomes an event.
    fn push(&mut self, task: TaskId, address: String, fragments: Vec<Fragment>) {
        let (message, payload) = push_message(task, &fragments);
        self.known.retain(|_, peer| !peer.has_ended());
        if !self.known.contains_key(&address) {
            match address.parse() {
                Ok(to) => {
                    let runtime = tokio::runtime::Handle::current();
                    self.known
                        .insert(address.clone(), Peer::connect(&runtime, &to, self.key.clone()));
                }
                Err(error) => {
                    let answer = Err(error);
                    let _ = self.tell.send(Event::Pushed { task, address, fragments, answer });
                    return;
                }
            }
        }
        let (tell, to) = (self.tell.clone(), address.clone());
        let answer = Box::new(move |result: Result<Frame>| {
            // The agent ends together with the one who listens.
            let (address, answer) = (to, result.and_then(|frame| push_answer(&frame)));
            let _ = tell.send(Event::Pushed { task, address, fragments, answer });
        });
        if let Some(peer) = self.known.get(&address) {
            let (priority, patience) = (Priority::Repair, PUSH_PATIENCE);
            peer.ask(PendingRequest { message, payload, priority, patience, answer });
        }
    }
}

/// Accepts connections.
struct Acceptor {
    listener: TcpListener,
    key: Option<ClusterKey>,
    limits: Limits,
    events: mpsc::Sender<Incoming>,
}

impl Acceptor {
    async fn run(self) {
        let places = Arc::new(Semaphore::new(self.limits.connections));
        let random = RandomState::new();
        for connection in 1.. {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
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
                hello: self.limits.hello,
                events: self.events.clone(),
            };
            let tls = self.key.as_ref().map(|key| TlsAcceptor::from(key.server()));
            tokio::spawn(async move {
                incoming.welcome(stream, tls).await;
                drop(place);
            });
        }
    }
}

/// Ends a connection whose last bytes should be read: closing it while bytes of the other side wait
/// unread would reset it, and a reset overtakes the alert that says why.
async fn part(mut stream: TcpStream) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut rest = stream.take(FAREWELL_BYTES);
    let _ = timeout(FAREWELL, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
}

/// One accepted connection.
struct IncomingConnection {
    id: ConnectionId,
    session: u64,
    hello: Duration,
    events: mpsc::Sender<Incoming>,
}

impl IncomingConnection {
    async fn welcome(self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        // Small frames must not wait for large ones.
        let _ = stream.set_nodelay(true);
        let stream: Box<dyn Stream> = match tls {
            None => Box::new(stream),
            Some(tls) => match timeout(self.hello, tls.accept(stream).into_fallible()).await {
                Ok(Ok(stream)) => Box::new(stream),
                Ok(Err((error, stream))) => {
                    tracing::info!(%error, "a peer without the cluster's key was refused");
                    part(stream).await;
                    return;
                }
                Err(_) => {
                    tracing::info!("a peer did not complete the handshake in time and was refused");
                    return;
                }
            },
        };
        let (reading, writing) = tokio::io::split(stream);
        let (writer, queue) = mpsc::unbounded_channel();
        if self.events.send(Incoming::New(self.id, self.session, writer)).await.is_err() {
            return;
        }
        // Whichever half ends first ends the other.
        let why = tokio::select! {
            result = self.read(reading) => result.err().map(|error| error.to_string()),
            result = self.write(writing, queue) => result.err().map(|error| error.to_string()),
        };
        if let Some(why) = why {
            tracing::info!(connection = self.id, why, "connection broke");
        }
        let closed = Event::Closed { connection: self.id };
        let _ = self.events.send(Incoming::Event(closed)).await;
    }

    async fn read(&self, mut stream: ReadHalf<Box<dyn Stream>>) -> Result<()> {
        let (mut session, mut payload_max) = (0, 0);
        while let Some(frame) = read_frame(&mut stream, session, payload_max).await? {
            let event = Event::Frame { connection: self.id, frame };
            if self.events.send(Incoming::Event(event)).await.is_err() {
                break;
            }
            (session, payload_max) = (self.session, PAYLOAD_MAX);
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
