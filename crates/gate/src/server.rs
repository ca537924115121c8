//! The server: connections, and requests handed to threads that may block.
//!
//! Each request is served by one call on a thread of a bounded set; its payload comes to it, and
//! the object's bytes go from it, through channels of a few blocks, so memory stays bounded.

mod body;
mod channel;

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinSet;

use crate::access::AccessKey;
use crate::calls::authenticated;
use crate::error::{Code, GateError, Result};
use crate::gate::{Gate, fresh_id, now_ms};
use crate::reply::{Answer, Reply};
use crate::request::Request;
use crate::server::body::Body;
use crate::server::channel::{Inbox, Outbox, forward};

/// Time for which a key that was read is taken as it was.
const KEY_AGE: Duration = Duration::from_secs(2);
/// Most keys that are remembered.
const KEPT_KEYS: usize = 1024;
/// Most bytes of a request's head.
const MAX_HEAD: usize = 64 << 10;
/// Most headers of a request.
const MAX_HEADERS: usize = 200;
/// Interval at which nodes that were away are looked for.
const LOOK: Duration = Duration::from_secs(15);

/// Interval at which data that no record names is looked for.
const SWEEP: Duration = Duration::from_secs(3600);

/// Limits of a server.
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
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 1024,
            requests: 64,
            idle: Duration::from_secs(60),
            grace: Duration::from_secs(30),
        }
    }
}

/// A running server; it ends with [`Server::end`].
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    runtime: Runtime,
    stop: watch::Sender<bool>,
    accepting: tokio::task::JoinHandle<()>,
}

/// All that requests share.
struct Shared {
    gate: Arc<Gate>,
    limits: Limits,
    slots: Arc<Semaphore>,
    keys: Mutex<HashMap<String, (Instant, AccessKey)>>,
}

impl Server {
    /// Serves a pool on a socket that listens.
    ///
    /// # Errors
    /// The system gives no threads, or the socket fails.
    pub fn start(gate: Arc<Gate>, listener: TcpListener, limits: Limits) -> io::Result<Server> {
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
        let shared = Arc::new(Shared { gate, limits, slots, keys: Mutex::default() });
        runtime.spawn(look_after(Arc::clone(&shared), stopped.clone()));
        let accepting = runtime.spawn(accept(shared, listener, stopped));
        Ok(Server { address, runtime, stop, accepting })
    }

    /// Returns the address that is listened on.
    pub fn address(&self) -> SocketAddr {
        self.address
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
            if due { gate.sweep(now_ms()).map(drop) } else { Ok(()) }
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
    let places = Arc::new(Semaphore::new(shared.limits.connections));
    let mut connections = JoinSet::new();
    loop {
        let accepted = async {
            // Only closed semaphores fail, and this one never is.
            let place = Arc::clone(&places).acquire_owned().await.ok();
            (listener.accept().await, place)
        };
        let (socket, place) = tokio::select! {
            _ = stopped.changed() => break,
            accepted = accepted => accepted,
        };
        while connections.try_join_next().is_some() {}
        match socket {
            Ok((socket, _)) => {
                // Small answers are not held back.
                let _ = socket.set_nodelay(true);
                let connection = serve(Arc::clone(&shared), socket, stopped.clone());
                connections.spawn(async move {
                    connection.await;
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
    socket: tokio::net::TcpStream,
    mut stopped: watch::Receiver<bool>,
) {
    let limits = shared.limits.clone();
    let service = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, std::convert::Infallible>(handle(shared, request).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits.idle);
    builder.max_buf_size(MAX_HEAD).max_headers(MAX_HEADERS);
    let connection = builder.serve_connection(TokioIo::new(socket), service);
    let mut connection = std::pin::pin!(connection);
    let end = tokio::select! {
        end = connection.as_mut() => end,
        _ = stopped.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = end {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Serves one request.
async fn handle(shared: Arc<Shared>, request: http::Request<Incoming>) -> Response<Body> {
    let (id, begun) = (fresh_id(), Instant::now());
    let (head, body) = request.into_parts();
    let (method, path) = (head.method.clone(), head.uri.path().to_owned());
    let answered = answer(&shared, head, body, &id).await;
    let (reply, body) = answered.unwrap_or_else(|error| {
        if error.code.status() >= 500 {
            tracing::warn!(%method, path, %error, id, "request failed");
        }
        (Reply::error(&error, &path, &id), None)
    });
    let (status, millis) = (reply.status, begun.elapsed().as_millis() as u64);
    tracing::info!(%method, path, status, millis, id, "request");
    response(reply.with("x-amz-request-id", id), body, method == http::Method::HEAD)
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
) -> Result<(Reply, Option<Body>)> {
    let busy = || GateError::new(Code::SlowDown, "the server has as many requests as it may");
    let slot = tokio::time::timeout(shared.limits.idle, Arc::clone(&shared.slots).acquire_owned());
    let slot = slot.await.map_err(|_| busy())?.map_err(|_| busy())?;
    let req = Request::new(&head)?;
    let (inbox, feeder) = channel::inbox();
    let (reply, replied) = oneshot::channel();
    let outbox = Outbox::new(reply, shared.limits.idle);
    let feeding = tokio::spawn(forward(body, feeder, shared.limits.idle));
    let (working, id) = (Arc::clone(shared), id.to_owned());
    let work = tokio::task::spawn_blocking(move || {
        let _slot = slot;
        call(&working, &req, inbox, outbox, &id)
    });
    match replied.await {
        // It is under way: the rest comes through the body.
        Ok(begun) => Ok(begun),
        Err(_) => {
            feeding.abort();
            let end = work.await;
            end.unwrap_or_else(|_| Err(GateError::new(Code::InternalError, "the call was cut off")))
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
    let mut call = authenticated(&shared.gate, req, find, now_ms(), &mut inbox)?;
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
