//! The shell of a link: makes the connection, moves its frames, keeps the time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::{io, time::Duration};

use tokio::io::{ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_rustls::TlsConnector;

use super::runtime::{Answer, PendingRequest, VirtualRuntime};
use super::silence::{DOUBT, Greetings, LONGEST};
use super::stream::{Outgoing, Stream, read_frame, write_frames};
use super::{Address, ClusterKey};
use crate::NetError;
use crate::link::{Action, End, Event, Link};
use crate::prefix::{Recent, SHOWN};
use crate::proto::{BODY_MAX, Frame, Message, PAYLOAD_MAX};

/// A connection must be made within this time.
const CONNECT: Duration = Duration::from_secs(5);
/// Interval at which a connection compares its wait with the patience that others' answers leave.
const LOOK: Duration = Duration::from_millis(25);
/// The shortest silence that ends a connection on which an answer is owed.
const SILENCE: Duration = Duration::from_secs(3);
/// Time that a failed write waits for a message that the other side sent before.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// A connection to an agent. Dropping it closes the connection.
#[derive(Debug)]
pub struct Peer {
    address: String,
    transport: Transport,
    ended: Arc<AtomicBool>,
    why: Reason,
    /// Objects whose names were shown on it.
    shown: Mutex<Recent<()>>,
}

/// The end of a connection, for requests that come later.
type Reason = Arc<OnceLock<End>>;

/// The way of requests to the other side.
#[derive(Debug)]
enum Transport {
    /// Through the task that drives the connection.
    Task(mpsc::UnboundedSender<PendingRequest>),
    /// Through a simulation, by the number of the connection there.
    VirtualRuntime(Arc<dyn VirtualRuntime>, u64),
}

impl Peer {
    /// Begins to connect, on the runtime given. Failure to connect is the answer to the requests.
    pub(crate) fn connect(
        runtime: &tokio::runtime::Handle,
        address: &Address,
        key: Option<ClusterKey>,
        greetings: &Arc<Greetings>,
    ) -> Peer {
        // Bounded by the link: it answers requests that are too many at once.
        let (requests, asked) = mpsc::unbounded_channel();
        let ended = Arc::new(AtomicBool::new(false));
        let why = Reason::default();
        let dialer = Dialer {
            address: address.clone(),
            key,
            start: Instant::now(),
            ended: ended.clone(),
            why: Arc::clone(&why),
            greetings: Arc::clone(greetings),
            greeted: greetings.greet(&address.to_string()),
            connected: AtomicBool::new(false),
        };
        runtime.spawn(dialer.run(asked));
        let (address, shown) = (address.to_string(), Mutex::new(Recent::of(SHOWN)));
        Peer { address, transport: Transport::Task(requests), ended, why, shown }
    }

    /// The same in a simulation.
    pub fn simulated(simulation: &Arc<dyn VirtualRuntime>, address: &Address) -> Peer {
        let ended = Arc::new(AtomicBool::new(false));
        let number = simulation.connect(address, Arc::clone(&ended));
        Peer {
            address: address.to_string(),
            transport: Transport::VirtualRuntime(Arc::clone(simulation), number),
            ended,
            why: Reason::default(),
            shown: Mutex::new(Recent::of(SHOWN)),
        }
    }

    /// Returns whether the connection is over.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Asks; the answer comes on a thread of the runtime and must not take long.
    pub fn ask(&self, request: PendingRequest) {
        let requests = match &self.transport {
            Transport::Task(requests) => requests,
            Transport::VirtualRuntime(simulation, number) => {
                return simulation.ask(*number, request);
            }
        };
        if let Err(refused) = requests.send(request) {
            let request = refused.0;
            let cut = End::shutdown();
            let end = self.why.get().unwrap_or(&cut);
            (request.token)(Err(end.error(&self.address, request.message.name())));
        }
    }
}

impl Peer {
    /// Shows the name of an object, unless that was done: the agent takes note of it before
    /// the requests that follow.
    pub(crate) fn show(&self, key: [u8; 16], name: &str) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.get(&key).is_none() {
            shown.note(key, ());
            let message = Message::Name { name: name.to_owned() };
            // Under the lock, so that no other thread is ahead of it. A refusal shows later.
            self.ask(PendingRequest::new(Box::new(drop), message, Duration::ZERO));
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Transport::VirtualRuntime(simulation, number) = &self.transport {
            simulation.close(*number);
        }
    }
}

/// The task behind a peer.
struct Dialer {
    address: Address,
    key: Option<ClusterKey>,
    start: Instant,
    ended: Arc<AtomicBool>,
    why: Reason,
    greetings: Arc<Greetings>,
    /// Since when the agent owes an answer, perhaps on an earlier connection.
    greeted: std::time::Instant,
    /// The agent's machine has accepted the connection.
    connected: AtomicBool,
}

/// A report of one half of a connection.
enum ConnectionEvent {
    Frame(Frame),
    Ended(io::Error),
}

impl Dialer {
    async fn run(self, mut asked: mpsc::UnboundedReceiver<PendingRequest>) {
        let mut link = Link::new(&self.address.to_string(), &self.address.place, Duration::ZERO);
        let mut post = Post { writer: None, session: None };
        let mut halves = tokio::task::JoinSet::new();
        let (tell, mut heard) = mpsc::channel(64);
        // Questions that come meanwhile wait in the channel.
        let connected = tokio::select! {
            connected = self.connect() => connected,
            () = self.run_out_of_patience(true) => Err(self.silent()),
        };
        // An agent that has made a key plausible lives: it may have to find a place for us.
        let mut silent = std::pin::pin!(self.run_out_of_patience(self.address.plain));
        let first = match connected {
            Ok(stream) => {
                let (reading, writing) = tokio::io::split(stream);
                let (writer, queue) = mpsc::unbounded_channel();
                let (session, seen) = watch::channel(0);
                post.writer = Some(writer);
                post.session = Some(session);
                halves.spawn(read(reading, seen, tell.clone()));
                halves.spawn(write(writing, queue, tell));
                Event::Connected
            }
            Err(error) => Event::Closed(error),
        };
        self.take(&mut link, &mut post, first);
        while !link.has_ended() {
            let event = tokio::select! {
                request = asked.recv() => match request {
                    Some(request) => Event::Request(request),
                    None => break,
                },
                Some(heard) = heard.recv() => match heard {
                    ConnectionEvent::Frame(frame) => Event::Frame(frame),
                    ConnectionEvent::Ended(error) => Event::Closed(error),
                },
                () = &mut silent, if link.is_greeting() => Event::Closed(self.silent()),
                () = sleep_until(self.start + link.wake_at()) => Event::Tick,
            };
            let greeted = link.is_greeting();
            self.take(&mut link, &mut post, event);
            if greeted && !link.is_greeting() && !link.has_ended() {
                let address = self.address.to_string();
                self.greetings.answered(&address, self.start.elapsed());
                link.limit_silence(self.greetings.patience(&address, true).max(SILENCE));
            }
        }
        self.greetings.ended(&self.address.to_string());
        if matches!(link.end_reason(), Some(End::Silent)) {
            // The next connections are not made to it for a while.
            let _ = self.greetings.silent(&self.address.to_string(), SILENCE);
        }
        self.ended.store(true, Ordering::Release);
        asked.close();
        while let Some(request) = asked.recv().await {
            self.take(&mut link, &mut post, Event::Request(request));
        }
        // Says goodbye (TLS wants that), but not for ever.
        drop(post);
        let _ =
            timeout(Duration::from_secs(1), async { while halves.join_next().await.is_some() {} })
                .await;
    }

    /// Lets the link decide about an event, and does that. That the connection is over can be seen
    /// before the answers that say so: a caller that gets one asks `has_ended` whether to try on a
    /// new connection. Why it is over is kept before that.
    fn take(&self, link: &mut Link<Answer>, post: &mut Post, event: Event<Answer>) {
        let actions = link.handle(self.start.elapsed(), event);
        if let Some(end) = link.end_reason() {
            // Set once: the first reason is the one that the earlier requests got.
            let _ = self.why.set(end.clone());
            self.ended.store(true, Ordering::Release);
        }
        post.act(actions);
    }

    /// Waits until an agent that lives would have answered. A `hasty` wait ends the earlier, the
    /// sooner others have answered.
    async fn run_out_of_patience(&self, hasty: bool) {
        let address = self.address.to_string();
        let patience = || match hasty {
            true => self.greetings.patience(&address, self.connected.load(Ordering::Relaxed)),
            false => LONGEST,
        };
        let mut doubted = false;
        while self.greeted.elapsed() < patience() {
            sleep(LOOK).await;
            if self.start.elapsed() >= DOUBT && !std::mem::replace(&mut doubted, true) {
                self.greet_others();
            }
        }
    }

    /// Greets all agents of the network that were not greeted so far, until it is known which of
    /// them are silent.
    fn greet_others(&self) {
        let runtime = tokio::runtime::Handle::current();
        let greet = |to: &Address| Peer::connect(&runtime, to, self.key.clone(), &self.greetings);
        let peers: Vec<Peer> = self.greetings.others().iter().map(greet).collect();
        runtime.spawn(async {
            sleep(LONGEST).await;
            drop(peers);
        });
    }

    /// Notes that the agent is silent; returns the error.
    fn silent(&self) -> io::Error {
        self.greetings.silent(&self.address.to_string(), self.greeted.elapsed())
    }

    async fn connect(&self) -> io::Result<Box<dyn Stream>> {
        timeout(CONNECT, self.dial()).await.unwrap_or_else(|_| Err(self.silent()))
    }

    async fn dial(&self) -> io::Result<Box<dyn Stream>> {
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for socket in tokio::net::lookup_host(self.address.socket()).await? {
            if self.address.plain && !socket.ip().is_loopback() {
                let why = "kiln+plain is for loopback addresses only; use kiln:// and a key";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
            }
            match TcpStream::connect(socket).await {
                Ok(stream) => {
                    self.connected.store(true, Ordering::Relaxed);
                    return self.secure(stream).await;
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn secure(&self, stream: TcpStream) -> io::Result<Box<dyn Stream>> {
        stream.set_nodelay(true)?;
        if self.address.plain {
            return Ok(Box::new(stream));
        }
        let Some(key) = &self.key else {
            let why = "the cluster's key is needed (--key)";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        };
        let name = ClusterKey::name().map_err(io::Error::other)?;
        let stream = TlsConnector::from(key.client()).connect(name, stream).await;
        Ok(Box::new(stream.map_err(of_keys)?))
    }
}

/// The kind of errors of connections where each side holds a key and they do not belong together.
pub const WRONG_KEY: io::ErrorKind = io::ErrorKind::InvalidInput;

/// Says of an error of TLS whether it is about keys.
fn of_keys(error: io::Error) -> io::Error {
    use rustls::CertificateError::{BadSignature, UnknownIssuer};
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidCertificate(BadSignature | UnknownIssuer)) => {
            let what = format!("its key is not of the same cluster as ours ({error})");
            io::Error::new(WRONG_KEY, what)
        }
        Some(rustls::Error::InvalidCertificate(_)) => io::Error::new(WRONG_KEY, error),
        _ => error,
    }
}

/// The way out.
struct Post {
    writer: Option<mpsc::UnboundedSender<Outgoing>>,
    session: Option<watch::Sender<u64>>,
}

impl Post {
    fn act(&mut self, actions: Vec<Action<Answer>>) {
        for action in actions {
            match action {
                Action::Send { session, frame } => {
                    if let Some(writer) = &self.writer {
                        // A writer that ended reports why by itself.
                        let _ = writer.send(Outgoing::Frame(session, frame));
                    }
                }
                Action::Answer { token: take, answer } => take(answer),
                Action::Session(session) => {
                    if let Some(told) = &self.session {
                        let _ = told.send(session);
                    }
                }
                Action::Close => self.writer = None,
            }
        }
    }
}

/// The reading half. The session is told before any frame of it can arrive, since it is the
/// answer to a frame that we handed over; but the link must have seen it first.
async fn read(
    mut stream: ReadHalf<Box<dyn Stream>>,
    mut session: watch::Receiver<u64>,
    tell: mpsc::Sender<ConnectionEvent>,
) {
    let mut now = 0;
    let mut first = true;
    loop {
        let heard = match read_frame(&mut stream, now, (BODY_MAX, PAYLOAD_MAX)).await {
            Ok(Some(frame)) => ConnectionEvent::Frame(frame),
            Ok(None) => ConnectionEvent::Ended(io::ErrorKind::UnexpectedEof.into()),
            Err(NetError::Io { source, .. }) => ConnectionEvent::Ended(source),
            Err(other) => ConnectionEvent::Ended(io::Error::new(
                io::ErrorKind::InvalidData,
                other.to_string(),
            )),
        };
        let over = matches!(heard, ConnectionEvent::Ended(_));
        if tell.send(heard).await.is_err() || over {
            return;
        }
        if first {
            if session.changed().await.is_err() {
                return;
            }
            (now, first) = (*session.borrow(), false);
        }
    }
}

async fn write(
    mut stream: WriteHalf<Box<dyn Stream>>,
    queue: mpsc::UnboundedReceiver<Outgoing>,
    tell: mpsc::Sender<ConnectionEvent>,
) {
    if let Err(error) = write_frames(&mut stream, queue, None, |_| ()).await {
        // The reading half may have the alert by which the other side refused us: that says more
        // than that it has hung up since, and must not lose a race against it.
        sleep(LAST_WORDS).await;
        let _ = tell.send(ConnectionEvent::Ended(error)).await;
    }
}

#[cfg(test)]
mod tests;
