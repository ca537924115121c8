//! Requests to one bucket: signed, tried again after faults that pass, with an end.

use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};
use std::{io, thread};

use kiln_store::{Operation, StoreError};
use rusty_s3::{Bucket, Credentials, Method, S3Action, UrlStyle};
use ureq::Agent;
use ureq::http::{HeaderMap, Request, Response};

use crate::fence::Fence;
use crate::place::Place;
use crate::reply::{Reply, io_error};
use crate::settings::Access;

/// Most tries of one request.
const TRIES: u32 = 7;
/// Pause after the first failure; each next one is twice as long, up to [`LONGEST_PAUSE`].
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// All tries of a request together take so many times what a server may be silent.
const DEADLINE: u32 = 4;
/// Most bytes of an answer that is text: a page of a listing has 1000 names.
const MAX_TEXT: u64 = 8 << 20;
/// How long a signature is accepted: longer than all tries of the slowest request.
const SIGNED_FOR: Duration = Duration::from_secs(3600);

/// A request; signed anew for every try.
pub(crate) struct Ask<'a> {
    pub op: Operation,
    /// The file, for messages.
    pub name: &'a str,
    pub headers: Vec<(&'static str, String)>,
    pub body: &'a [u8],
}

impl<'a> Ask<'a> {
    pub(crate) fn new(op: Operation, name: &'a str) -> Ask<'a> {
        Ask { op, name, headers: Vec::new(), body: &[] }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Ask<'a> {
        self.headers.push((name, value.into()));
        self
    }
}

/// One bucket, and how its server is talked to.
#[derive(Debug)]
pub(crate) struct Client {
    agent: Agent,
    pub bucket: Bucket,
    credentials: Credentials,
    pub place: Place,
    /// Whether the bucket is there, once that was asked.
    there: OnceLock<bool>,
    /// What says whether the lock that is held still is.
    pub fence: Mutex<Weak<Fence>>,
    pub reads: AtomicU64,
    pub bytes: AtomicU64,
}

impl Client {
    pub(crate) fn new(place: Place, access: Access) -> Result<Client, String> {
        let Access { credentials, region, endpoint } = access;
        let (url, style) = match &endpoint {
            Some(url) => (url.clone(), UrlStyle::Path),
            // A name with dots has no certificate of its own.
            None if place.bucket.contains('.') => {
                (format!("https://s3.{region}.amazonaws.com"), UrlStyle::Path)
            }
            None => (format!("https://s3.{region}.amazonaws.com"), UrlStyle::VirtualHost),
        };
        let wrong = |why: String| format!("its endpoint {url:?} cannot be used: {why}");
        let parsed = url.parse().map_err(|error| wrong(format!("{error}")))?;
        let bucket = Bucket::new(parsed, style, place.bucket.clone(), region)
            .map_err(|error| wrong(error.to_string()))?;
        let host = bucket.base_url().host_str().unwrap_or("");
        let near = host == "localhost" || host.starts_with("127.") || host == "[::1]";
        let patience = Some(place.patience);
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(patience)
            .timeout_per_read(patience)
            .timeout_per_write(patience)
            .timeout_recv_response(patience)
            .max_idle_connections_per_host(16)
            .max_idle_connections(64)
            .user_agent(concat!("kiln/", env!("CARGO_PKG_VERSION")));
        if near {
            config = config.proxy(None);
        }
        let agent = config.build().new_agent();
        let (reads, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let (there, fence) = (OnceLock::new(), Mutex::default());
        Ok(Client { agent, bucket, credentials, place, there, fence, reads, bytes })
    }

    pub(crate) fn credentials(&self) -> Option<&Credentials> {
        Some(&self.credentials)
    }

    /// The key of a file.
    pub(crate) fn key(&self, name: &str) -> String {
        format!("{}{name}", self.place.prefix)
    }

    /// An error of this place.
    pub(crate) fn error(&self, op: Operation, name: &str, source: io::Error) -> StoreError {
        io_error(op, &self.place.text, name, source)
    }

    /// Sends a request until it is answered, or the time is over. `into` is filled by the body of
    /// a success, which must have just its length. An answer that is no success is an error, but
    /// for those that `accept` takes.
    pub(crate) fn send<'a, A: S3Action<'a>>(
        &self,
        ask: &Ask<'_>,
        action: &A,
        mut into: Option<&mut [u8]>,
        accept: impl Fn(&Reply) -> bool,
    ) -> Result<Reply, StoreError> {
        let begin = Instant::now();
        let (mut pause, mut tried) = (PAUSE, false);
        for attempt in 1.. {
            let end = self.once::<A>(ask, action.sign(SIGNED_FOR).as_str(), into.as_deref_mut());
            let over = attempt == TRIES || begin.elapsed() >= self.place.patience * DEADLINE;
            match end {
                Ok(mut reply) => {
                    reply.tried = tried;
                    if reply.is_success() || accept(&reply) {
                        return Ok(reply);
                    }
                    if over || !reply.is_passing() {
                        return Err(self.refusal(ask, &reply));
                    }
                }
                Err(error) if over => return Err(self.error(ask.op, ask.name, error)),
                Err(_) => {}
            }
            // Of a try that was not answered nobody knows what it did.
            tried = true;
            thread::sleep(pause.mul_f64(0.5 + 0.5 * jitter()));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Err(self.error(ask.op, ask.name, io::ErrorKind::TimedOut.into()))
    }

    /// Removes an object.
    pub(crate) fn delete(&self, name: &str) -> Result<(), StoreError> {
        let key = self.key(name);
        let action = self.bucket.delete_object(self.credentials(), &key);
        let absent = |reply: &Reply| reply.status == 404 && !reply.lacks_bucket();
        self.send(&Ask::new(Operation::Remove, name), &action, None, absent).map(drop)
    }

    /// Refuses to write if a lock was held and may be lost.
    pub(crate) fn check_fence(&self) -> Result<(), StoreError> {
        let fence = self.fence.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        match fence.is_none_or(|fence| fence.holds_or_will()) {
            true => Ok(()),
            false => {
                let (place, name) = (self.place.text.clone(), crate::fence::LOCK.to_owned());
                Err(StoreError::Fenced { place, name })
            }
        }
    }

    /// Tells a bucket that is missing from an object that is: a HEAD is answered without a word.
    fn refusal(&self, ask: &Ask<'_>, reply: &Reply) -> StoreError {
        let missing = reply.status == 404 && reply.code().is_empty() && !self.is_there();
        let text = "<Code>NoSuchBucket</Code>".to_owned();
        match missing {
            true => Reply { status: 404, text, ..Reply::default() },
            false => Reply { status: reply.status, text: reply.text.clone(), ..Reply::default() },
        }
        .error(ask.op, &self.place.text, ask.name)
    }

    fn is_there(&self) -> bool {
        *self.there.get_or_init(|| {
            let action = self.bucket.head_bucket(self.credentials());
            let ask = Ask::new(Operation::OpenPlace, "");
            let url = action.sign(SIGNED_FOR);
            let reply = self.once::<rusty_s3::actions::HeadBucket<'_>>(&ask, url.as_str(), None);
            reply.map_or(true, |reply| reply.status != 404)
        })
    }

    fn once<'a, A: S3Action<'a>>(
        &self,
        ask: &Ask<'_>,
        url: &str,
        into: Option<&mut [u8]>,
    ) -> io::Result<Reply> {
        let (method, has_body) = match A::METHOD {
            Method::Head => ("HEAD", false),
            Method::Get => ("GET", false),
            Method::Post => ("POST", true),
            Method::Put => ("PUT", true),
            Method::Delete => ("DELETE", false),
        };
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in &ask.headers {
            request = request.header(*name, value);
        }
        let sent = if has_body {
            self.agent.run(request.body(ask.body).map_err(io::Error::other)?)
        } else {
            self.agent.run(request.body(()).map_err(io::Error::other)?)
        };
        let mut response = sent.map_err(ureq::Error::into_io)?;
        let mut reply = reply_of(&response);
        match into {
            Some(buf) if reply.is_success() => self.fill(&reply, &mut response, buf)?,
            _ if method == "HEAD" => {}
            _ => {
                let body = response.body_mut().with_config().limit(MAX_TEXT).lossy_utf8(true);
                reply.text = body.read_to_string().map_err(ureq::Error::into_io)?;
            }
        }
        Ok(reply)
    }

    /// Reads a body of just the length of the buffer.
    fn fill(
        &self,
        reply: &Reply,
        response: &mut Response<ureq::Body>,
        buf: &mut [u8],
    ) -> io::Result<()> {
        if reply.length != Some(buf.len() as u64) {
            // Nothing of it is read: it could be all of the object.
            let why = format!("asked for {} bytes, got {:?}", buf.len(), reply.length);
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        response.body_mut().with_config().limit(buf.len() as u64 + 1).reader().read_exact(buf)?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(buf.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

fn reply_of(response: &Response<ureq::Body>) -> Reply {
    let headers: &HeaderMap = response.headers();
    let get = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let text = |name: &str| get(name).map(str::to_owned);
    Reply {
        status: response.status().as_u16(),
        tag: text("etag"),
        length: get("content-length").and_then(|length| length.trim().parse().ok()),
        range: text("content-range"),
        modified: text("last-modified"),
        text: String::new(),
        tried: false,
    }
}

/// A number from 0 to 1: pauses of many clients must not end together.
fn jitter() -> f64 {
    (random() >> 11) as f64 / (1u64 << 53) as f64
}

/// 64 bits that differ each time.
pub(crate) fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}
