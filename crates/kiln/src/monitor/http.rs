//! A small server of documents over HTTP/1.1: requests are GET and HEAD, answers end connections,
//! and no request changes anything.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use std::{future::Future, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::{net::TcpListener, time::timeout};
use tokio_rustls::TlsAcceptor;

use kiln_net::{ClusterKey, NetError, NetOperation, Result};

/// A request line and headers fit in this, or are not read.
const REQUEST_MAX: usize = 8192;
/// A client that has not sent its request and taken its answer within this time is disconnected.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections at once; one more ends another.
const CLIENTS: usize = 64;
/// Interval of renewing the certificate of a page.
const RENEWAL: Duration = Duration::from_secs(86_400);
/// The name that goes with a token where a browser asks for name and password.
const USER: &str = "kiln";

/// A document that is answered.
#[derive(Debug, Clone)]
pub struct Document {
    /// The status of HTTP: 200, 404 or 503.
    pub status: u16,
    /// Its media type.
    pub kind: &'static str,
    /// More headers, as whole lines.
    pub headers: &'static [&'static str],
    pub body: String,
}

impl Document {
    #[must_use]
    pub fn new(kind: &'static str, body: String) -> Document {
        Document { status: 200, kind, headers: &[], body }
    }

    /// Words with a status.
    #[must_use]
    pub fn text(status: u16, body: &str) -> Document {
        Document { status, ..Document::new("text/plain; charset=utf-8", body.to_owned()) }
    }

    fn head(&self) -> String {
        let reason = match self.status {
            200 => "OK",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            503 => "Service Unavailable",
            _ => "See Body",
        };
        let headers: String = self.headers.iter().map(|line| format!("{line}\r\n")).collect();
        format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\n\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n{headers}\
             Connection: close\r\n\r\n",
            self.status,
            self.kind,
            self.body.len()
        )
    }
}

/// Clients that are let in.
///
/// On loopback everybody of this machine, but no page of another site that a browser was sent to:
/// the name that is asked for must be an address or `localhost`. Elsewhere a token is wanted, over
/// TLS. A token and not the cluster's key: that key can do everything, and has no place in a
/// browser; a token shows this page and nothing else.
#[derive(Debug, Clone, Default)]
pub struct AccessPolicy {
    /// Credential to be shown, as `Authorization: Bearer TOKEN`, or as the password of `kiln`.
    pub token: Option<String>,
    /// Connections are encrypted, with a certificate made by this key.
    pub tls: Option<ClusterKey>,
    /// Whatever name is asked for, and without a token: for what is scraped by machines.
    pub open: bool,
}

impl AccessPolicy {
    /// Everybody who reaches it.
    #[must_use]
    pub fn anyone() -> AccessPolicy {
        AccessPolicy { open: true, ..AccessPolicy::default() }
    }

    /// Returns whether an address may be listened on without token and TLS.
    #[must_use]
    pub fn is_loopback(listen: &str) -> bool {
        let host = listen.rsplit_once(':').map_or(listen, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
    }

    /// Returns the answer instead of a document, if any.
    fn refusal(&self, request: &Request) -> Option<Document> {
        let Some(token) = &self.token else {
            return (!self.open && !is_own_name(&request.host)).then(|| {
                Document::text(403, "this page is asked for by its address or as localhost\n")
            });
        };
        let shown = request.authorization.as_bytes();
        let basic = STANDARD.encode(format!("{USER}:{token}"));
        let wanted = [format!("Bearer {token}"), format!("Basic {basic}")];
        // All bytes are compared, so that the time tells nothing of the token.
        let same = |wanted: &String| {
            let differ = wanted.bytes().zip(shown).fold(0, |all, (a, b)| all | (a ^ b));
            wanted.len() == shown.len() && differ == 0
        };
        if wanted.iter().filter(|wanted| same(wanted)).count() > 0 {
            return None;
        }
        let body =
            "a token is wanted: as Authorization: Bearer TOKEN, or as the password of kiln\n";
        Some(Document {
            headers: &["WWW-Authenticate: Basic realm=\"kiln\", charset=\"UTF-8\""],
            ..Document::text(401, body)
        })
    }
}

/// Returns whether a browser that asks for this name means this machine.
fn is_own_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, _)) => name,
            None => return false,
        },
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    // Programs that are no browsers may leave it out.
    name.is_empty() || name == "localhost" || name.parse::<IpAddr>().is_ok()
}

/// Parts of a request that are read.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    method: String,
    /// Without what follows a `?`.
    path: String,
    host: String,
    authorization: String,
}

impl Request {
    /// `None`: it is no request.
    fn parse(bytes: &[u8]) -> Option<Request> {
        let mut lines = std::str::from_utf8(bytes).ok()?.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, target) = (words.next()?.to_owned(), words.next()?);
        words.next().filter(|version| version.starts_with("HTTP/1."))?;
        let path = target.split_once('?').map_or(target, |(path, _)| path).to_owned();
        let mut request = Request { method, path, ..Request::default() };
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            match name.to_ascii_lowercase().as_str() {
                "host" => request.host = value.trim().to_owned(),
                "authorization" => request.authorization = value.trim().to_owned(),
                _ => {}
            }
        }
        Some(request)
    }
}

/// Answers requests; dropping it ends that.
#[derive(Debug)]
pub struct HttpServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl HttpServer {
    /// Starts to answer on the runtime that calls: `answer` gives the document of a path.
    /// Errors: the address cannot be listened on; no certificate can be made.
    pub async fn start<A, F>(listen: &str, policy: AccessPolicy, answer: A) -> Result<HttpServer>
    where
        A: Fn(String) -> F + Send + Sync + 'static,
        F: Future<Output = Document> + Send,
    {
        let failed =
            |source| NetError::Io { op: NetOperation::Listen, place: listen.to_owned(), source };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let mut tls = policy.tls.as_ref().map(ClusterKey::page_server).transpose()?;
        let mut made = Instant::now();
        let site = Arc::new(Site { policy, answer });
        let mut clients = Clients::default();
        let task = tokio::spawn(async move {
            loop {
                let Ok((stream, client)) = listener.accept().await else {
                    // Too many open files, say: a moment may change that.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                };
                if let Some(key) = site.policy.tls.as_ref().filter(|_| made.elapsed() > RENEWAL) {
                    // The old one lasts for some days yet.
                    tls = key.page_server().ok().or(tls);
                    made = Instant::now();
                }
                let (site, tls) = (Arc::clone(&site), tls.clone());
                let served = tokio::spawn(async move {
                    let _ = timeout(PATIENCE, site.serve(stream, tls)).await;
                });
                clients.add(client.ip(), served.abort_handle());
            }
        });
        Ok(HttpServer { address, task })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The open connections, the oldest first.
#[derive(Default)]
struct Clients(VecDeque<(IpAddr, AbortHandle)>);

impl Clients {
    /// Adds a connection; where there are too many, ends the oldest of the address with most. So
    /// clients that never send a request compete with each other, not with those that do.
    fn add(&mut self, from: IpAddr, connection: AbortHandle) {
        self.0.retain(|(_, connection)| !connection.is_finished());
        self.0.push_back((from, connection));
        if self.0.len() <= CLIENTS {
            return;
        }
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        self.0.iter().for_each(|(ip, _)| *counts.entry(*ip).or_default() += 1);
        let most = counts.values().copied().max();
        let oldest = self.0.iter().position(|(ip, _)| counts.get(ip).copied() == most);
        if let Some((_, connection)) = oldest.and_then(|at| self.0.remove(at)) {
            connection.abort();
        }
    }
}

struct Site<A> {
    policy: AccessPolicy,
    answer: A,
}

impl<A, F> Site<A>
where
    A: Fn(String) -> F + Send + Sync,
    F: Future<Output = Document> + Send,
{
    async fn serve(
        &self,
        stream: tokio::net::TcpStream,
        tls: Option<Arc<ServerConfig>>,
    ) -> std::io::Result<()> {
        match tls {
            Some(config) => self.talk(TlsAcceptor::from(config).accept(stream).await?).await,
            None => self.talk(stream).await,
        }
    }

    async fn talk(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
            if bytes.len() >= REQUEST_MAX || stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        }
        let request = Request::parse(&bytes);
        let (document, head) = match request {
            None => return Ok(()),
            Some(request) => (self.document(&request).await, request.method == "HEAD"),
        };
        stream.write_all(document.head().as_bytes()).await?;
        if !head {
            stream.write_all(document.body.as_bytes()).await?;
        }
        stream.shutdown().await
    }

    async fn document(&self, request: &Request) -> Document {
        if let Some(refusal) = self.policy.refusal(request) {
            return refusal;
        }
        match &request.method[..] {
            "GET" | "HEAD" => (self.answer)(request.path.clone()).await,
            _ => Document {
                headers: &["Allow: GET, HEAD"],
                ..Document::text(405, "nothing can be changed here\n")
            },
        }
    }
}
