//! The shell of an agent: runs the state machine and its disk jobs, keeps the time.

use std::collections::{HashMap, VecDeque};
use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use kiln_store::{Backend, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio::{net::TcpListener, task::JoinHandle};

use super::accept::{Acceptor, Incoming};
use super::runtime::{Answer, PendingRequest};
use super::{ClusterKey, dial::Peer, disk::DiskSet, stream::Outgoing};
use crate::admission::RefusalLog;
use crate::agent::{
    Action, Agent, ConnectionId, Counts, Event, Limits, PeerInfo, TaskId, push_answer,
    push_message, store_error,
};
use crate::proto::{Message, Priority};
use crate::{NetError, NetOperation, Result, task::Fragment};

/// Time limit of the answer to a fragment, which comes when the fragment has arrived.
const PUSH_PATIENCE: Duration = Duration::from_secs(60);
/// Events that wait for the agent, at most; who brings more waits.
const EVENTS: usize = 1024;

/// The parts of an agent.
#[derive(Debug, Clone)]
pub struct AgentSetup {
    /// Name of the place it serves.
    pub place: String,
    /// Its storage.
    pub backend: Arc<dyn Backend>,
    /// The cluster's key; `None`: no TLS, on the loopback interface only.
    pub key: Option<ClusterKey>,
    /// Its limits.
    pub limits: Limits,
}

impl AgentSetup {
    /// An agent without TLS, for this machine only.
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

/// State of a running agent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Report {
    /// Its counters.
    pub counts: Counts,
    /// Connections, waiting requests, disk jobs under way.
    pub load: (usize, usize, usize),
}

impl Serving {
    /// Returns its address; the port is the one that the system chose if 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its state; all zeros when it has ended.
    pub async fn report(&self) -> Report {
        self.watcher().report().await
    }

    /// Gives others access to its state.
    pub fn watcher(&self) -> Watcher {
        Watcher { requests: self.requests.clone() }
    }
}

/// Asks an agent of this process how it is doing.
#[derive(Debug, Clone)]
pub struct Watcher {
    requests: mpsc::Sender<oneshot::Sender<Report>>,
}

impl Watcher {
    /// Returns the agent's state; all zeros when it has ended.
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
/// Errors: the address cannot be listened on, or is not loopback although there is no key.
pub async fn serve(setup: AgentSetup, listen: &str) -> Result<Serving> {
    let failed =
        |source| NetError::Io { op: NetOperation::Listen, place: listen.to_owned(), source };
    let listener = TcpListener::bind(listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    if setup.key.is_none() && !address.ip().is_loopback() {
        let why = "without the cluster's key only loopback addresses are served";
        return Err(NetError::Setup { what: listen.to_owned(), why: why.to_owned() });
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
        log: RefusalLog::default(),
        events: events.clone(),
        start: Instant::now(),
        failed: 0,
        peers: Peers { key: setup.key.clone(), known: HashMap::new(), tell },
    };
    let door = Acceptor { listener, key: setup.key, limits: setup.limits, events };
    let tasks = [tokio::spawn(shell.run(inbox, asked, pushed)), tokio::spawn(door.run())];
    Ok(Serving { address, requests, tasks })
}

/// Runs the state machine.
struct Shell {
    agent: Agent,
    disks: Arc<DiskSet>,
    writers: HashMap<ConnectionId, (PeerInfo, mpsc::UnboundedSender<Outgoing>)>,
    log: RefusalLog,
    events: mpsc::Sender<Incoming>,
    start: Instant,
    failed: u64,
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
                    Some(Incoming::New(connection, session, peer, writer)) => {
                        self.writers.insert(connection, (peer.clone(), writer));
                        Event::Connected { connection, session, peer }
                    }
                },
                Some(event) = pushed.recv() => event,
                Some(answer) = asked.recv() => {
                    // It does not matter if the requester is gone.
                    let counts = Counts { failed: self.failed, ..self.agent.counts() };
                    let load = self.agent.load();
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
                    self.failed += u64::from(is_failure(&frame.message));
                    if let Some((_, writer)) = self.writers.get(&connection) {
                        // The writer ends before us when the connection broke; that is reported.
                        let _ = writer.send(Outgoing::Frame(session, frame));
                    }
                }
                Action::Close { connection, why } => {
                    if let Some((peer, writer)) = self.writers.remove(&connection) {
                        let now = self.start.elapsed();
                        if let Some(peer) = peer.address
                            && let Some(left_out) = self.log.note(now, peer.ip())
                        {
                            tracing::info!(%peer, connection, why, left_out, "connection closed");
                        }
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

/// Returns whether an answer tells of a failure. That a file is not there, that one is, that a lock
/// is held or that no client waits any more are answers of every day, and no operator wants to hear
/// of them.
fn is_failure(answer: &Message) -> bool {
    if !matches!(answer, Message::Failed { .. }) {
        return false;
    }
    match store_error(answer.clone(), "", "", "a") {
        NetError::GaveUp { .. } | NetError::Store(StoreError::InUse { .. }) => false,
        NetError::Store(StoreError::Io { source, .. }) => !matches!(
            source.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists | io::ErrorKind::ResourceBusy
        ),
        _ => true,
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
                    // Fragments are big and their senders patient: no haste after others.
                    let greetings = Arc::default();
                    let peer = Peer::connect(&runtime, &to, self.key.clone(), &greetings);
                    self.known.insert(address.clone(), peer);
                }
                Err(error) => {
                    let answer = Err(error);
                    let _ = self.tell.send(Event::Pushed { task, address, fragments, answer });
                    return;
                }
            }
        }
        let (tell, to) = (self.tell.clone(), address.clone());
        let token: Answer = Box::new(move |result| {
            // The agent ends together with the one who listens.
            let (address, answer) = (to, result.and_then(|frame| push_answer(&frame)));
            let _ = tell.send(Event::Pushed { task, address, fragments, answer });
        });
        if let Some(peer) = self.known.get(&address) {
            let (priority, patience) = (Priority::Repair, PUSH_PATIENCE);
            peer.ask(PendingRequest { message, payload, priority, patience, token });
        }
    }
}

#[cfg(test)]
mod tests {
    use kiln_store::MemoryBackend;

    use super::*;
    use crate::agent::failed;

    #[test]
    fn answers_of_every_day_are_no_failures() {
        let absent = MemoryBackend::new().open("a").err().unwrap();
        let of = |kind: io::ErrorKind| {
            let (place, name) = ("memory".to_owned(), "a".to_owned());
            let op = kiln_store::Operation::Use;
            StoreError::Io { op, place, name, source: kind.into() }
        };
        assert!(!is_failure(&Message::Done {}) && !is_failure(&failed(&absent)));
        for kind in [io::ErrorKind::AlreadyExists, io::ErrorKind::ResourceBusy] {
            assert!(!is_failure(&failed(&of(kind))), "{kind}");
        }
        let failures = [
            io::ErrorKind::PermissionDenied,
            io::ErrorKind::StorageFull,
            io::ErrorKind::InvalidData,
        ];
        for kind in failures {
            assert!(is_failure(&failed(&of(kind))), "{kind}");
        }
    }
}
