//! Requests to one bucket: signed, tried again after faults that pass, with an end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::{io, sync::OnceLock, time::Duration};

use crate::{Fenced, Tries, agent, fill, io_error, length};
use kiln_store::{Operation, Result, StoreError};
use rusty_s3::{Bucket, Credentials, Method, S3Action, UrlStyle};
use ureq::Agent;
use ureq::http::{HeaderMap, Request, Response};

use crate::{s3::place::Place, s3::reply::Reply, s3::settings::Access};

/// Most bytes of an answer that is text: a page of a listing has 1000 names.
const MAX_TEXT: u64 = 8 << 20;
/// Validity of a signature: longer than all tries of the slowest request.
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
    /// True if the bucket is there, once that was asked.
    there: OnceLock<bool>,
    /// Certainty of the lock that is held.
    pub fence: Fenced,
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
        let agent = agent(host, place.patience);
        let (reads, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let (there, fence) = (OnceLock::new(), Fenced::default());
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
    ) -> Result<Reply> {
        let (mut tries, mut tried) = (Tries::new(self.place.patience), false);
        loop {
            let end = self.once::<A>(ask, action.sign(SIGNED_FOR).as_str(), into.as_deref_mut());
            let end = match end {
                Ok(mut reply) => {
                    reply.tried = tried;
                    if reply.is_success() || accept(&reply) {
                        return Ok(reply);
                    }
                    if !reply.is_passing() {
                        return Err(self.refusal(ask, &reply));
                    }
                    Ok(reply)
                }
                Err(error) => Err(error),
            };
            // Of a try that was not answered nobody knows what it did.
            tried = true;
            if !tries.again() {
                return Err(match end {
                    Ok(reply) => self.refusal(ask, &reply),
                    Err(error) => self.error(ask.op, ask.name, error),
                });
            }
        }
    }

    /// Removes an object.
    pub(crate) fn delete(&self, name: &str) -> Result<()> {
        let key = self.key(name);
        let action = self.bucket.delete_object(self.credentials(), &key);
        let absent = |reply: &Reply| reply.status == 404 && !reply.lacks_bucket();
        self.send(&Ask::new(Operation::Remove, name), &action, None, absent).map(drop)
    }

    /// Refuses to write if a lock was held and may be lost.
    pub(crate) fn check_fence(&self) -> Result<()> {
        self.fence.check(&self.place.text)
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
            Some(buf) if reply.is_success() => {
                fill(&mut response, buf)?;
                self.reads.fetch_add(1, Ordering::Relaxed);
                self.bytes.fetch_add(buf.len() as u64, Ordering::Relaxed);
            }
            _ if method == "HEAD" => {}
            _ => {
                let body = response.body_mut().with_config().limit(MAX_TEXT).lossy_utf8(true);
                reply.text = body.read_to_string().map_err(ureq::Error::into_io)?;
            }
        }
        Ok(reply)
    }
}

fn reply_of(response: &Response<ureq::Body>) -> Reply {
    let headers: &HeaderMap = response.headers();
    let get = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let text = |name: &str| get(name).map(str::to_owned);
    Reply {
        status: response.status().as_u16(),
        tag: text("etag"),
        length: length(response),
        range: text("content-range"),
        modified: text("last-modified"),
        text: String::new(),
        tried: false,
    }
}
