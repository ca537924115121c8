//! Requests to a NameNode and to DataNodes: tried again after faults that pass, with an end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, io, sync::OnceLock};

use crate::{Fenced, Tries, agent, encoded, fill, io_error};
use kiln_store::{Operation, Result, StoreError};
use parking_lot::Mutex;
use ureq::http::{Request, Response};
use ureq::{Agent, AsSendBody};

use crate::{hdfs::known::Known, hdfs::place::Place, hdfs::reply::Reply};

/// A DataNode that did not answer any try is then tried once for each request, for so long.
const DOWN: Duration = Duration::from_secs(30);
/// Most bytes of an answer that is text: a page of a listing has 1000 names.
const MAX_TEXT: u64 = 8 << 20;

/// A request to the NameNode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub op: Operation,
    /// The file, for messages; empty: the place.
    pub name: &'a str,
    pub method: &'static str,
    /// The path in HDFS.
    pub path: &'a str,
    /// The operation of WebHDFS, and its parameters.
    pub action: &'static str,
    pub query: &'a [(&'static str, &'a str)],
}

/// One folder, and how its servers are talked to.
#[derive(Debug)]
pub(crate) struct Client {
    agent: Agent,
    pub place: Place,
    user: Option<String>,
    /// True if the place's other NameNode is the active one, as far as is known.
    failed_over: AtomicBool,
    /// True if the folder is there, once that was seen.
    there: OnceLock<()>,
    /// Certainty of the lock that is held.
    pub fence: Fenced,
    /// Blocks of files that were read on this machine.
    pub known: Known,
    /// When a DataNode last did not answer, whatever was tried.
    down: Mutex<Option<Instant>>,
    pub reads: AtomicU64,
    pub bytes: AtomicU64,
}

impl Client {
    pub(crate) fn new(place: Place) -> Client {
        let known = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let user = place.user.clone();
        let user = user.or_else(|| {
            ["HADOOP_USER_NAME", "USER", "LOGNAME"].iter().find_map(|name| known(name))
        });
        let (reads, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let (there, fence, known) = (OnceLock::new(), Fenced::default(), Known::default());
        let (agent, down) = (agent(&place.namenode.host, place.patience), Mutex::default());
        let failed_over = AtomicBool::new(false);
        Client { agent, place, user, failed_over, there, fence, known, down, reads, bytes }
    }

    /// The path of a file in HDFS.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.place.path)
    }

    /// An error of this place.
    pub(crate) fn error(&self, op: Operation, name: &str, source: io::Error) -> StoreError {
        io_error(op, &self.place.text, name, source)
    }

    /// As [`Client::error`], of these words.
    pub(crate) fn fail(&self, op: Operation, name: &str, why: &str) -> StoreError {
        self.error(op, name, io::Error::other(why.to_owned()))
    }

    pub(crate) fn tries(&self) -> Tries {
        Tries::new(self.place.patience)
    }

    /// As [`Client::tries`], of reads: where a DataNode is down for a while each waits once only.
    pub(crate) fn read_tries(&self) -> Tries {
        let down = *self.down.lock();
        match down.is_some_and(|since| since.elapsed() < DOWN) {
            true => self.tries().once(),
            false => self.tries(),
        }
    }

    /// Notes whether reads succeed.
    pub(crate) fn note_reads(&self, succeed: bool) {
        let down = if succeed { None } else { Some(Instant::now()) };
        *self.down.lock() = down;
    }

    /// Asks the NameNode until it answers, or the time is over. An answer that is no success is an
    /// error, but for those that `accept` takes. Where there are two, a try is one of each.
    pub(crate) fn ask(&self, ask: &Ask<'_>, accept: impl Fn(&Reply) -> bool) -> Result<Reply> {
        let (mut tries, mut tried, mut switched) = (self.tries(), false, false);
        loop {
            let other = self.failed_over.load(Ordering::Relaxed);
            let (end, standby) = match self.once(ask.method, &self.url_at(other, ask), None) {
                Ok(mut reply) => {
                    reply.tried = tried;
                    // What is on standby tells nothing of files, whatever is accepted.
                    if !reply.is_standby() && (reply.is_success() || accept(&reply)) {
                        return Ok(reply);
                    }
                    if !reply.is_passing() {
                        return Err(self.refusal(ask.op, ask.name, &reply));
                    }
                    (self.refusal(ask.op, ask.name, &reply), Some(reply.is_standby()))
                }
                Err(error) => (self.error(ask.op, ask.name, error), None),
            };
            // Of a try that was not answered nobody knows what it did.
            tried |= standby != Some(true);
            if standby != Some(false) && self.place.standby.is_some() {
                // Unless another thread was faster.
                let (found, set) = (Ordering::Relaxed, Ordering::Relaxed);
                let _ = self.failed_over.compare_exchange(other, !other, set, found);
                switched = !switched;
                if switched {
                    continue;
                }
            }
            if !tries.again() {
                return Err(end);
            }
        }
    }

    /// The error of a refusal: tells a folder that is missing from a file that is.
    pub(crate) fn refusal(&self, op: Operation, name: &str, reply: &Reply) -> StoreError {
        if reply.is_absent() && !self.is_there() {
            let path = &self.place.path;
            let why = format!("there is no such folder; make it with: hdfs dfs -mkdir -p {path}");
            return self.fail(op, name, &why);
        }
        reply.error(op, &self.place.text, name)
    }

    fn is_there(&self) -> bool {
        if self.there.get().is_some() {
            return true;
        }
        let op = Operation::OpenPlace;
        let (path, action) = (&self.place.path, "GETFILESTATUS");
        let ask = Ask { op, name: "", method: "GET", path, action, query: &[] };
        let there = self.once("GET", &self.url(&ask), None);
        let there = there.map_or(true, |reply| !reply.is_absent());
        if there {
            let _ = self.there.set(());
        }
        there
    }

    fn url(&self, ask: &Ask<'_>) -> String {
        self.url_at(self.failed_over.load(Ordering::Relaxed), ask)
    }

    fn url_at(&self, other: bool, ask: &Ask<'_>) -> String {
        let namenode = self.place.standby.as_ref().filter(|_| other);
        let server = namenode.unwrap_or(&self.place.namenode).authority();
        let path = encoded(ask.path, b"/");
        let mut url = format!("http://{server}/webhdfs/v1{path}?op={}", ask.action);
        let user = self.user.as_deref().map(|user| ("user.name", user));
        for (name, value) in user.iter().chain(ask.query) {
            url.push_str(&format!("&{name}={}", encoded(value, b"/,")));
        }
        url
    }

    /// Sends a request once. `into` is filled by the body of a success, which must have just its
    /// length.
    pub(crate) fn once(
        &self,
        method: &'static str,
        url: &str,
        into: Option<&mut [u8]>,
    ) -> io::Result<Reply> {
        let request = Request::builder().method(method).uri(url);
        let sent = match method {
            "PUT" | "POST" => self.agent.run(request.body(&[][..]).map_err(io::Error::other)?),
            _ => self.agent.run(request.body(()).map_err(io::Error::other)?),
        };
        let mut response = sent.map_err(unanswered)?;
        let mut reply = reply_of(&response);
        match into {
            Some(buf) if reply.status == 200 => {
                fill(&mut response, buf)?;
                self.count(buf.len());
            }
            _ => read_text(&mut reply, &mut response)?,
        }
        Ok(reply)
    }

    /// Sends bytes to a DataNode.
    pub(crate) fn put(&self, url: &str, body: impl AsSendBody) -> io::Result<Reply> {
        // DataNodes say that they wait for the bytes whether or not they are asked.
        let request = Request::builder().method("PUT").uri(url).header("expect", "100-continue");
        let request = request.header("content-type", "application/octet-stream");
        let sent = self.agent.run(request.body(body).map_err(io::Error::other)?);
        let mut response = sent.map_err(unanswered)?;
        let mut reply = reply_of(&response);
        read_text(&mut reply, &mut response)?;
        Ok(reply)
    }

    /// Counts a read.
    pub(crate) fn count(&self, bytes: usize) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Refuses to write if a lock was held and may be lost.
    pub(crate) fn check_fence(&self) -> Result<()> {
        self.fence.check(&self.place.text)
    }
}

/// Says what a user can do about an answer that is none.
fn unanswered(error: ureq::Error) -> io::Error {
    match error {
        ureq::Error::Protocol(error) => io::Error::other(format!(
            "what answers there does not speak HTTP: give the port of HTTP (9870 for NameNodes and \
             9864 for DataNodes unless set otherwise), not the port of Hadoop's RPC ({error})"
        )),
        other => other.into_io(),
    }
}

fn reply_of(response: &Response<ureq::Body>) -> Reply {
    let get = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    Reply {
        status: response.status().as_u16(),
        location: get("location").map(str::to_owned),
        ..Reply::default()
    }
}

fn read_text(reply: &mut Reply, response: &mut Response<ureq::Body>) -> io::Result<()> {
    let body = response.body_mut().with_config().limit(MAX_TEXT).lossy_utf8(true);
    reply.text = body.read_to_string().map_err(ureq::Error::into_io)?;
    Ok(())
}
