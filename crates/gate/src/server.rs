//! The server: connections, and requests handed to threads that may block.
//!
//! Each request is served by one call on a thread of a bounded set; its payload comes to it, and
//! the object's bytes go from it, through channels of a few blocks, so memory stays bounded.

mod body;
mod channel;

use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};
use std::{collections::HashMap, io};

use http::Response;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::{runtime::Runtime, task::JoinSet};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};

use crate::error::{Code, GateError, Result};
use crate::gate::{Gate, fresh_id, now_ms};
use crate::reply::{Answer, Reply};
use crate::server::channel::{Inbox, Outbox, forward};
use crate::{access::AccessKey, calls::authenticated, request::Request, server::body::Body};

/// Time for which a key that was read is taken as it was.
const KEY_AGE: Duration = Duration::from_secs(2);
/// Most keys that are remembered.
const KEPT_KEYS: usize = 1024;
/// Most bytes of a request's head.
const MAX_HEAD: usize = 64 << 10;
/// Most headers of a request.
const MAX_HEADERS: usize = 200;
/// Time without a request after which a connection makes room where all places are taken.
const QUIET: Duration = Duration::from_secs(2);
/// Interval at which nodes that were away are looked for.
const LOOK: Duration = Duration::from_secs(15);

/// Interval at which data that no record names is looked for.
const SWEEP: Duration = Duration::from_secs(3600);

/// Limits of a server, and the signatures that it accepts.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Most connections; more wait to be accepted.
    pub connections: usize,
    /// Most requests at a time; more wait for a while, then they are refused.
    pub requests: usize,
    /// Time for the head of a request, and for each step of a payload.
    pub idle: Duration,
    /// Time for requests to end when the server does.
    pub grace: Duration,
    /// The region that signatures are for; without one, any.
    pub region: Option<String>,
    /// Signatures of version 2 are good, too.
    pub version2: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 1024,
            requests: 64,
            idle: Duration::from_secs(60),
            grace: Duration::from_secs(30),
            region: None,
            version2: false,
        }
    }
}

/// Numbers of a server since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests by the hundreds of their status: 2, 3, 4, 5.
    pub requests: [u64; 4],
    /// Milliseconds from their heads to the heads of their answers.
    pub millis: u64,
    /// Bytes of payloads that clients announced.
    pub received: u64,
    /// Bytes of answers.
    pub sent: u64,
    /// Requests that are served now.
    pub running: u64,
    /// Connections.
    pub connections: u64,
}

/// A running server; it ends with [`Server::end`].
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    runtime: Runtime,
    stop: watch::Sender<bool>,
    accepting: tokio::task::JoinHandle<()>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Server").field(&self.address).finish()
    }
}

/// All that requests share.
struct Shared {
    tls: RwLock<Option<Arc<ServerConfig>>>,
    counts: [AtomicU64; 7],
    places: Arc<Semaphore>,
    gate: Arc<Gate>,
    limits: Limits,
    slots: Arc<Semaphore>,
    keys: Mutex<HashMap<String, (Instant, AccessKey)>>,
}

impl Server {
    /// Serves a pool on a socket that listens, encrypted where a certificate is given.
    ///
    /// # Errors
    /// The system gives no threads, or the socket fails.
    pub fn start(
        gate: Arc<Gate>,
        listener: TcpListener,
        limits: Limits,
        tls: Option<Arc<ServerConfig>>,
    ) -> io::Result<Server> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            // Each request takes one thread, and the search for nodes.
            .max_blocking_threads(limits.requests + 2)
            .thread_name("kiln-s3")
            .enable_all()
            .build()?;
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let (stop, stopped) = watch::channel(false);
        let slots = Arc::new(Semaphore::new(limits.requests));
        let places = Arc::new(Semaphore::new(limits.connections));
        let (tls, keys, counts) = (RwLock::new(tls), Mutex::default(), Default::default());
        let shared = Arc::new(Shared { tls, counts, places, gate, limits, slots, keys });
        runtime.spawn(look_after(Arc::clone(&shared), stopped.clone()));
        let accepting = runtime.spawn(accept(Arc::clone(&shared), listener, stopped));
        Ok(Server { address, shared, runtime, stop, accepting })
    }

    /// Returns the address that is listened on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Encrypts new connections with another certificate.
    pub fn set_tls(&self, tls: Arc<ServerConfig>) {
        *self.shared.tls.write().unwrap_or_else(PoisonError::into_inner) = Some(tls);
    }

    /// Returns a function that reads the server's numbers, also after its end.
    pub fn counter(&self) -> impl Fn() -> Counts + Send + Sync + 'static {
        let shared = Arc::clone(&self.shared);
        move || {
            let limits = &shared.limits;
            let taken = |most: usize, slots: &Semaphore| (most - slots.available_permits()) as u64;
            let [a, b, c, d, millis, received, sent] =
                shared.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
            Counts {
                requests: [a, b, c, d],
                millis,
                received,
                sent,
                running: taken(limits.requests, &shared.slots),
                connections: taken(limits.connections, &shared.places),
            }
        }
    }

    /// Accepts nothing more, and waits until requests that have begun are answered.
    pub fn end(self) {
        let _ = self.stop.send(true);
        let _ = self.runtime.block_on(self.accepting);
        self.runtime.shutdown_timeout(Duration::from_secs(5));
    }
}

/// Opens the pool again where nodes were away, and removes what no record names.
async fn look_after(shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let mut swept = Instant::now();
    loop {
        tokio::select! {
            _ = stopped.changed() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        let gate = Arc::clone(&shared.gate);
        let due = swept.elapsed() > SWEEP;
        let looked = tokio::task::spawn_blocking(move || {
            gate.look_for_nodes()?;
            if due {
                let expired = gate.expire(now_ms());
                gate.sweep(now_ms())?;
                expired?;
            }
            Ok::<(), GateError>(())
        });
        if due {
            swept = Instant::now();
        }
        if let Ok(Err(error)) = looked.await {
            tracing::warn!(%error, "the pool was not looked after");
        }
    }
}

async fn accept(
    shared: Arc<Shared>,
    listener: tokio::net::TcpListener,
    mut stopped: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = async {
            // Only closed semaphores fail, and this one never is.
            let place = Arc::clone(&shared.places).acquire_owned().await.ok();
            (listener.accept().await, place)
        };
        let (socket, place) = tokio::select! {
            _ = stopped.changed() => break,
            accepted = accepted => accepted,
        };
        while connections.try_join_next().is_some() {}
        match socket {
            Ok((socket, peer)) => {
                // Small answers are not held back.
                let _ = socket.set_nodelay(true);
                let tls = shared.tls.read().unwrap_or_else(PoisonError::into_inner).clone();
                let (shared, stopped) = (Arc::clone(&shared), stopped.clone());
                connections.spawn(async move {
                    match tls.map(TlsAcceptor::from) {
                        None => serve(shared, socket, peer, stopped).await,
                        Some(tls) => {
                            let idle = shared.limits.idle;
                            match tokio::time::timeout(idle, tls.accept(socket)).await {
                                Ok(Ok(socket)) => serve(shared, socket, peer, stopped).await,
                                _ => tracing::debug!(%peer, "a connection was not encrypted"),
                            }
                        }
                    }
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(shared.limits.grace, all).await.is_err() {
        tracing::warn!("requests that have not ended are cut off");
    }
}

async fn serve(
    shared: Arc<Shared>,
    socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    mut stopped: watch::Receiver<bool>,
) {
    let (limits, places) = (shared.limits.clone(), Arc::clone(&shared.places));
    let (asks, asked) = watch::channel(Instant::now());
    let service = service_fn(move |request| {
        asks.send_replace(Instant::now());
        let shared = Arc::clone(&shared);
        async move { Ok::<_, std::convert::Infallible>(handle(shared, request, peer).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.idle);
    builder.max_buf_size(MAX_HEAD).max_headers(MAX_HEADERS);
    let connection = builder.serve_connection(TokioIo::new(socket), service);
    let mut connection = std::pin::pin!(connection);
    let end = loop {
        let quiet = tokio::select! {
            end = connection.as_mut() => break end,
            _ = stopped.changed() => false,
            () = tokio::time::sleep(QUIET) => true,
        };
        if quiet && (places.available_permits() > 0 || asked.borrow().elapsed() < QUIET) {
            continue;
        }
        if quiet && !asked.has_changed().unwrap_or(true) {
            return;
        }
        // A request that is being answered is answered to its end.
        connection.as_mut().graceful_shutdown();
        break connection.await;
    };
    if let Err(error) = end {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Headers for pages of other origins.
type Cors = Vec<(&'static str, String)>;

/// Serves one request.
async fn handle(
    shared: Arc<Shared>,
    request: http::Request<Incoming>,
    peer: SocketAddr,
) -> Response<Body> {
    let (id, begun) = (fresh_id(), Instant::now());
    let (head, body) = request.into_parts();
    let (method, path, key) = (head.method.clone(), head.uri.path().to_owned(), key_of(&head));
    let received = http_body::Body::size_hint(&body).exact().unwrap_or(0);
    let waits = head.headers.contains_key("expect");
    let cors = Arc::new(OnceLock::new());
    let answered = answer(&shared, head, body, &id, &cors).await;
    let (mut reply, body) = answered.unwrap_or_else(|error| {
        if error.code.status() >= 500 {
            tracing::warn!(%method, path, %error, id, "request failed");
        }
        (Reply::error(&error, &path, &id), None)
    });
    for (name, value) in cors.get().into_iter().flatten() {
        reply = reply.with(name, value);
    }
    // Clients that were refused before they sent a body do not agree on how to go on.
    if waits && reply.status >= 300 {
        reply = reply.with("connection", "close");
    }
    let (status, millis) = (reply.status, begun.elapsed().as_millis() as u64);
    let sent = match &body {
        Some(body) => http_body::Body::size_hint(body).exact().unwrap_or(0),
        None => reply.body.len() as u64,
    };
    // Queries, which may have signatures, are left out; so is all that could sign.
    tracing::info!(%peer, key, %method, path, status, received, sent, millis, id, "request");
    let class = usize::from(status / 100).clamp(2, 5) - 2;
    for (at, more) in [(class, 1), (4, millis), (5, received), (6, sent)] {
        shared.counts[at].fetch_add(more, Ordering::Relaxed);
    }
    response(reply.with("x-amz-request-id", id), body, method == http::Method::HEAD)
}

/// The id of the access key that a request says it is of, for the log.
fn key_of(head: &http::request::Parts) -> String {
    let header = head.headers.get("authorization").and_then(|value| value.to_str().ok());
    let text = header.or(head.uri.query()).unwrap_or_default();
    let from = text.split_once("Credential=").map_or("", |(_, id)| id);
    let id = from.split(|letter: char| !letter.is_ascii_alphanumeric()).next();
    id.filter(|id| !id.is_empty()).unwrap_or("-").to_owned()
}

/// The answer as HTTP has it.
fn response(reply: Reply, body: Option<Body>, head: bool) -> Response<Body> {
    let mut response = Response::builder().status(reply.status).header("server", "kiln");
    for (name, value) in &reply.headers {
        let value = http::HeaderValue::from_bytes(value.as_bytes());
        // A value that no header can have was never accepted by the server.
        if let Ok(value) = value {
            response = response.header(name.as_str(), value);
        }
    }
    let bytes = if head || reply.status == 304 { Vec::new() } else { reply.body };
    let body = body.unwrap_or_else(|| Body::whole(bytes));
    response.body(body).unwrap_or_else(|_| Response::new(Body::whole(Vec::new())))
}

/// Has a request answered on a thread that may block.
async fn answer(
    shared: &Arc<Shared>,
    head: http::request::Parts,
    body: Incoming,
    id: &str,
    cors: &Arc<OnceLock<Cors>>,
) -> Result<(Reply, Option<Body>)> {
    let busy = || Code::SlowDown.error("the server has as many requests as it may");
    let slot = tokio::time::timeout(shared.limits.idle, Arc::clone(&shared.slots).acquire_owned());
    let slot = slot.await.map_err(|_| busy())?.map_err(|_| busy())?;
    let req = Request::new(&head)?;
    let (inbox, feeder) = channel::inbox();
    let (reply, replied) = oneshot::channel();
    let outbox = Outbox::new(reply, shared.limits.idle);
    let feeding = tokio::spawn(forward(body, feeder, shared.limits.idle));
    let (working, id, cors) = (Arc::clone(shared), id.to_owned(), Arc::clone(cors));
    let work = tokio::task::spawn_blocking(move || {
        let _slot = slot;
        if req.method == http::Method::OPTIONS {
            let headers = working.gate.preflight(&req)?;
            return Ok(headers
                .into_iter()
                .fold(Reply::new(200), |reply, (name, value)| reply.with(name, value)));
        }
        // Before anything is sent.
        let _ = cors.set(working.gate.cors(&req));
        call(&working, &req, inbox, outbox, &id)
    });
    match replied.await {
        // It is under way: the rest comes through the body.
        Ok(begun) => Ok(begun),
        Err(_) => {
            feeding.abort();
            let end = work.await;
            end.unwrap_or_else(|_| Code::InternalError.err("the call was cut off"))
                .map(|reply| (reply, None))
        }
    }
}

/// Serves one request, on a thread that may block.
fn call(
    shared: &Shared,
    req: &Request,
    mut inbox: Inbox,
    mut outbox: Outbox,
    id: &str,
) -> Result<Reply> {
    let find = |key: &str| shared.key(key);
    let limits = &shared.limits;
    let from = (&*shared.gate, limits.region.as_deref(), limits.version2);
    let mut call = authenticated(from, req, find, now_ms(), &mut inbox)?;
    match call.run(&mut outbox)? {
        Answer::Reply(reply) => Ok(reply),
        Answer::Sent(end) => {
            if let Err(error) = end {
                tracing::warn!(path = req.path, %error, id, "an object was not sent to its end");
                outbox.cut();
            }
            // It was sent already.
            Ok(Reply::new(200))
        }
    }
}

impl Shared {
    /// Finds an access key; one that was read a moment ago is not read again.
    fn key(&self, id: &str) -> Result<Option<AccessKey>> {
        {
            let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, key)) = keys.get(id).filter(|(read, _)| read.elapsed() < KEY_AGE) {
                return Ok(Some(key.clone()));
            }
        }
        let found = self.gate.key(id)?;
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.len() >= KEPT_KEYS {
            keys.clear();
        }
        match &found {
            Some(key) => keys.insert(id.to_owned(), (Instant::now(), key.clone())),
            None => keys.remove(id),
        };
        Ok(found)
    }
}
