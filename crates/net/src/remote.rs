//! An agent's place as a [`Backend`]: blocking calls over the asynchronous core.

mod files;
mod log;

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{collections::BTreeMap, fmt, io, path::Path};

use bytes::Bytes;
use kiln_store::names::{file_key, object_key, object_name};
use kiln_store::{
    Append, Backend, BackendKind, BatchFiles, Capabilities, Capability, Extensions, Held, Locality,
    Located, Location, LockAnswer, LockAttempt, Locks, LogFile, Logs, Opening, Operation,
    PlaceInfo, ReadAt, Space, StoreError, WriteLock, check_name, lock_pause,
};

use self::files::{RemoteAppender, RemoteReader};
use self::log::RemoteLog;
use super::dial::Peer;
#[cfg(any(test, feature = "sim"))]
use super::runtime::VirtualRuntime;
use super::runtime::{PendingRequest, Runtime, Taken, Turn};
use super::{Address, ClusterKey, silence::Greetings};
use crate::agent::Rights;
use crate::prefix::{Recent, files};
use crate::proto::{Frame, Message, Priority};
use crate::{NetError, NetOperation, Result};

/// Time limit of answers: the disk may be busy with others.
const PATIENCE: Duration = Duration::from_secs(30);
/// The same where the disk has to make things durable.
const SYNC_PATIENCE: Duration = Duration::from_secs(300);
/// After a failure to connect, no request tries again for so long: a dead node must not cost every
/// request its whole time.
const PAUSE: Duration = Duration::from_secs(1);

/// The latest version of pools' descriptions that agents read which do not tell.
const READ_BEFORE: u32 = 2;

/// Files that are open at once where many are written.
const FILES_AT_ONCE: usize = 32;

/// Capabilities that an agent needs of a place to serve it: clients cannot ask for less.
pub const SERVED: Capabilities = Capabilities::FILES.and(&[Capability::Durable]);

/// The row of agents in a table of places (see [`kiln_store::open_place`]), by what gives the
/// network for an address, or says why there is none.
#[derive(Debug)]
pub struct Agents<F>(pub F);

impl<F: Fn(&Address) -> Result<Network, String> + Sync> BackendKind for Agents<F> {
    fn examples(&self) -> &'static [&'static str] {
        &["kiln://host:port", "kiln+plain://127.0.0.1:port"]
    }

    fn about(&self) -> &'static str {
        "a folder that kiln agent serves; kiln+plain:// on this machine, without TLS"
    }

    fn open(&self, place: &Location<'_>, _: Opening) -> Result<Arc<dyn Backend>, StoreError> {
        let address: Address =
            place.text.to_string_lossy().parse().map_err(|error| match error {
                NetError::Setup { why, .. } => place.bad(&why),
                other => place.bad(&other.to_string()),
            })?;
        let network = (self.0)(&address).map_err(|why| place.bad(&why))?;
        Ok(Arc::new(network.open(&address)))
    }
}

/// Makes connections to agents; clones share its threads.
#[derive(Clone)]
pub struct Network {
    inner: Arc<Inner>,
}

struct Inner {
    runtime: Runtime,
    priority: Priority,
    /// Connections by which repairs are ordered, by address: many repairs share one, since every
    /// handshake costs thousands of bytes.
    orders: Mutex<BTreeMap<String, Arc<Peer>>>,
    greetings: Arc<Greetings>,
    /// The rights of a key that is for some names only, and names in use by their files' hash.
    limited: Option<Limited>,
}

type Limited = (Rights, Mutex<Recent<String>>);

/// Names in use that are remembered, at least.
const USED: usize = 65_536;

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = matches!(&self.inner.runtime, Runtime::Real { key: Some(_), .. });
        write!(f, "Network(key: {key})")
    }
}

impl Network {
    /// A network with the cluster's key and `threads` threads (at least 1) for its connections.
    pub fn new(key: Option<ClusterKey>, threads: usize) -> Result<Network> {
        let failed = |source| NetError::Io {
            op: NetOperation::Start,
            place: "the network's threads".to_owned(),
            source,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(threads.max(1))
            .thread_name("kiln-net")
            .enable_all()
            .build()
            .map_err(failed)?;
        let rights = key.as_ref().and_then(ClusterKey::holder);
        let limited = rights.filter(|rights| rights.prefix.is_some());
        let limited = limited.map(|rights| (rights, Mutex::new(Recent::of(USED))));
        let runtime = Runtime::Real { runtime: Some(runtime), key, start: Instant::now() };
        Ok(Network::on(runtime, limited))
    }

    /// The network of one client of a simulation.
    #[cfg(any(test, feature = "sim"))]
    pub fn simulated(simulation: Arc<dyn VirtualRuntime>) -> Network {
        Network::on(Runtime::Simulated(simulation), None)
    }

    fn on(runtime: Runtime, limited: Option<Limited>) -> Network {
        let (priority, orders) = (Priority::Client, Mutex::default());
        let greetings = Arc::default();
        Network { inner: Arc::new(Inner { runtime, priority, orders, greetings, limited }) }
    }

    /// Shows an agent the names of objects that are in use, by the hashes in their files' names,
    /// where our key is for some names only.
    pub fn show(&self, peer: &Peer, keys: impl IntoIterator<Item = [u8; 16]>) {
        let Some((_, used)) = &self.inner.limited else { return };
        for key in keys {
            if let Some(name) = locked(used).get(&key) {
                peer.show(key, name);
            }
        }
    }

    /// Takes up from a file which agents were silent for earlier commands, and notes it there.
    pub fn remember(&self, silent: &Path) {
        self.inner.greetings.remember(silent);
    }

    /// The place of the agent at this address. Connects when it is first used, and again after
    /// the connection broke.
    pub fn open(&self, address: &Address) -> RemoteBackend {
        self.inner.greetings.know(address);
        let remote = Remote {
            network: self.clone(),
            address: address.clone(),
            place: address.to_string(),
            state: Mutex::default(),
        };
        RemoteBackend { remote: Arc::new(remote) }
    }

    /// Returns the number of sound stripes of an unfinished shard at an agent; see
    /// [`Message::Resume`].
    pub fn resume(&self, address: &Address, request: Message) -> Result<u64> {
        let place = self.open(address);
        let peer = self.peer(address)?;
        let answer = place.remote.ask(&peer, request, SYNC_PATIENCE)?;
        match answer.message {
            Message::Resumed { stripes } => Ok(stripes),
            _ => Err(place.remote.unexpected(&answer)),
        }
    }

    /// Takes a name at an agent: `by` tells others who has it, `what` whom the name stands for.
    /// Errors: [`NetError::Taken`]: another one has it. Those of the connection;
    /// [`NetError::Version`] where the agent knows no names.
    pub fn claim(
        &self,
        address: &Address,
        (name, claimant, by): (&str, [u8; 16], &str),
        what: &str,
    ) -> Result<Claim> {
        let remote = self.open(address).remote;
        let peer = self.peer(address)?;
        let request = Message::Claim { name: name.to_owned(), claimant, by: by.to_owned() };
        let answer = remote.ask(&peer, request, PATIENCE)?;
        match answer.message {
            Message::Opened { handle, .. } => Ok(Claim { remote, peer, handle }),
            Message::Held { by } => {
                let (what, place) = (what.to_owned(), remote.place.clone());
                Err(NetError::Taken { what, by, place })
            }
            _ => Err(remote.unexpected(&answer)),
        }
    }

    /// The connection by which repairs are ordered at an agent, made anew when the last one has
    /// ended.
    pub fn peer(&self, address: &Address) -> Result<Arc<Peer>> {
        let mut orders = locked(&self.inner.orders);
        orders.retain(|_, peer| !peer.has_ended());
        if let Some(peer) = orders.get(&address.to_string()) {
            return Ok(Arc::clone(peer));
        }
        let peer = Arc::new(self.connect(address)?);
        orders.insert(address.to_string(), Arc::clone(&peer));
        Ok(peer)
    }

    /// Begins to connect to an agent.
    fn connect(&self, address: &Address) -> Result<Peer> {
        match &self.inner.runtime {
            Runtime::Real { runtime: Some(runtime), key, .. } => {
                let (greetings, place) = (&self.inner.greetings, address.to_string());
                greetings.check(&place).map_err(|source| NetError::Io {
                    op: NetOperation::Connect,
                    place,
                    source,
                })?;
                Ok(Peer::connect(runtime.handle(), address, key.clone(), greetings))
            }
            Runtime::Real { .. } => Err(NetError::protocol("the network is shutting down")),
            Runtime::Simulated(simulation) => Ok(Peer::simulated(simulation, address)),
        }
    }

    /// The time since some beginning.
    pub fn now(&self) -> Duration {
        self.inner.runtime.now()
    }

    /// Waits for so long.
    pub fn sleep(&self, time: Duration) {
        self.inner.runtime.sleep(time);
    }

    /// Does the work on so many threads, and waits until all have ended.
    pub fn at_once(&self, threads: usize, work: &(dyn Fn() + Sync)) {
        self.inner.runtime.at_once(threads, work);
    }

    /// Waits for the turn.
    pub fn take<'a>(&self, turn: &'a Turn) -> Taken<'a> {
        self.inner.runtime.take(turn)
    }

    /// Waits for what others send, at most for so long where a time is given.
    pub fn receive<T>(
        &self,
        from: &Receiver<T>,
        patience: Option<Duration>,
    ) -> Result<T, RecvTimeoutError> {
        self.inner.runtime.receive(from, patience)
    }
}

/// The storage of a remote agent.
///
/// Reads go on after the connection broke and came back; appends, and whatever was done under a
/// lock, do not: they fail, so a client that has lost the right to write does not.
#[derive(Debug, Clone)]
pub struct RemoteBackend {
    remote: Arc<Remote>,
}

/// The state that all open files of a remote place share.
#[derive(Debug)]
struct Remote {
    network: Network,
    address: Address,
    place: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    peer: Option<Arc<Peer>>,
    /// When the last attempt to connect failed.
    failed: Option<(Duration, io::ErrorKind, String)>,
    /// Holder of the lock at the last try.
    holder: Option<String>,
    /// Connections on which locks are held.
    locks: Vec<Arc<Peer>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An answer that will come.
type Coming = Receiver<Result<Frame>>;

impl Remote {
    /// The connection, made anew when the last one has ended.
    fn peer(&self) -> Result<Arc<Peer>> {
        let mut state = locked(&self.state);
        if let Some(peer) = &state.peer
            && !peer.has_ended()
        {
            return Ok(Arc::clone(peer));
        }
        if let Some((at, kind, text)) = &state.failed
            && self.network.now() < *at + PAUSE
        {
            let source = io::Error::new(*kind, text.clone());
            return Err(NetError::Io {
                op: NetOperation::Connect,
                place: self.place.clone(),
                source,
            });
        }
        let peer = Arc::new(self.network.connect(&self.address)?);
        state.peer = Some(Arc::clone(&peer));
        Ok(peer)
    }

    /// The connection for something that changes the place: not a new one while a lock is held
    /// that went with the old one.
    fn peer_to_write(&self) -> Result<Arc<Peer>> {
        if locked(&self.state).locks.iter().any(|peer| peer.has_ended()) {
            let why = "the connection broke, and with it the lock on this place; run it again";
            let source = io::Error::new(io::ErrorKind::ConnectionAborted, why);
            return Err(NetError::Io {
                op: NetOperation::Write,
                place: self.place.clone(),
                source,
            });
        }
        self.peer()
    }

    fn begin(&self, peer: &Peer, message: Message, payload: Bytes, patience: Duration) -> Coming {
        if self.network.inner.limited.is_some() {
            let files = files(&message).into_iter().flatten();
            self.network.show(peer, files.filter_map(file_key));
        }
        let (tell, answer) = sync_channel(1);
        peer.ask(PendingRequest {
            message,
            payload,
            priority: self.network.inner.priority,
            patience,
            // The receiver is gone when an earlier part of the same call failed.
            token: Box::new(move |result| drop(tell.send(result))),
        });
        answer
    }

    /// Waits for an answer; that it comes in time is the link's duty.
    fn end(&self, coming: &Coming) -> Result<Frame> {
        let gone = || {
            let source = io::ErrorKind::ConnectionAborted.into();
            NetError::Io { op: NetOperation::Talk, place: self.place.clone(), source }
        };
        let answer = self.network.receive(coming, None).unwrap_or_else(|_| Err(gone()));
        if let Err(NetError::Io { op: NetOperation::Connect, source, .. }) = &answer {
            let (now, text) = (self.network.now(), source.to_string());
            locked(&self.state).failed = Some((now, source.kind(), text));
        }
        answer
    }

    fn ask(&self, peer: &Peer, message: Message, patience: Duration) -> Result<Frame> {
        self.end(&self.begin(peer, message, Bytes::new(), patience))
    }

    /// Asks what can be asked twice without harm: once more when the connection had ended.
    fn ask_again(&self, message: &Message) -> Result<(Arc<Peer>, Frame)> {
        let peer = self.peer()?;
        let answer = match self.ask(&peer, message.clone(), PATIENCE) {
            Err(NetError::Io { op: NetOperation::Talk, .. }) if peer.has_ended() => {
                let peer = self.peer()?;
                return Ok((Arc::clone(&peer), self.ask(&peer, message.clone(), PATIENCE)?));
            }
            other => other?,
        };
        Ok((peer, answer))
    }

    /// Asks for one change each of files with these names, all of them before the first answer is
    /// waited for: together they take hardly longer than one.
    fn change_all<'a>(
        &self,
        op: Operation,
        changes: impl Iterator<Item = (&'a str, Result<Message, StoreError>)>,
    ) -> Vec<Result<(), StoreError>> {
        let begin = |(name, message): (&'a str, Result<Message, StoreError>)| {
            check_name(name)?;
            let (message, peer) = (message?, self.peer_to_write());
            let peer = peer.map_err(|error| self.store_error(error, op, name))?;
            Ok((name, self.begin(&peer, message, Bytes::new(), SYNC_PATIENCE)))
        };
        let coming: Vec<Result<(&str, Coming), StoreError>> = changes.map(begin).collect();
        let end = |coming: Result<(&str, Coming), StoreError>| {
            let (name, coming) = coming?;
            self.end(&coming).map(drop).map_err(|error| self.store_error(error, op, name))
        };
        coming.into_iter().map(end).collect()
    }

    /// An answer of another kind than the request asks for.
    fn unexpected(&self, frame: &Frame) -> NetError {
        NetError::protocol(format!("{} answered by {}", self.place, frame.message.name()))
    }

    fn store_error(&self, error: NetError, op: Operation, name: &str) -> StoreError {
        error.into_store(op, &self.place, name)
    }
}

impl RemoteBackend {
    /// The lock that was asked for, unless another client has it.
    fn granted(&self, peer: Arc<Peer>, coming: &Coming) -> Result<Option<WriteLock>, StoreError> {
        let fail = |error| self.remote.store_error(error, Operation::Lock, "");
        let frame = self.remote.end(coming).map_err(fail)?;
        match frame.message {
            Message::Busy {} => Ok(None),
            Message::Held { by } => {
                locked(&self.remote.state).holder = Some(by);
                Ok(None)
            }
            Message::Opened { handle, .. } => {
                locked(&self.remote.state).locks.push(Arc::clone(&peer));
                let remote = Arc::clone(&self.remote);
                Ok(Some(WriteLock::held_by(HeldLock { remote, peer, handle, closing: None })))
            }
            _ => Err(fail(self.remote.unexpected(&frame))),
        }
    }
}

impl Backend for RemoteBackend {
    fn place(&self) -> String {
        self.remote.place.clone()
    }

    /// Returns what every agent serves: it takes no place that can do less ([`Network::open`] does
    /// not ask it).
    fn capabilities(&self) -> Capabilities {
        SERVED.and(&[Capability::Log])
    }

    fn list(&self) -> Result<Vec<String>, StoreError> {
        let fail = |error| self.remote.store_error(error, Operation::List, "");
        let mut all: Vec<String> = Vec::new();
        loop {
            let after = all.last().cloned().unwrap_or_default();
            let asked = self.remote.ask_again(&Message::List { after }).map_err(fail)?;
            let (names, more) = match asked.1.message {
                Message::Names { names, more } => (names, more),
                _ => return Err(fail(self.remote.unexpected(&asked.1))),
            };
            let ascending = all.last().into_iter().chain(&names).is_sorted();
            if !ascending || (more && names.is_empty()) {
                return Err(fail(NetError::protocol("names that are not in order")));
            }
            all.extend(names);
            if !more {
                return Ok(all);
            }
        }
    }

    fn open(&self, name: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        check_name(name)?;
        let reader = RemoteReader::open(Arc::clone(&self.remote), name);
        Ok(Box::new(reader.map_err(|error| self.remote.store_error(error, Operation::Open, name))?))
    }

    fn append(&self, name: &str, at: u64) -> Result<Box<dyn Append>, StoreError> {
        check_name(name)?;
        let appender = RemoteAppender::open(Arc::clone(&self.remote), name, at);
        Ok(Box::new(
            appender.map_err(|error| self.remote.store_error(error, Operation::Create, name))?,
        ))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        self.rename_all(&[(from, to)]).into_iter().collect()
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.remove_all(&[name]).into_iter().collect()
    }

    fn extensions(&self) -> Extensions<'_> {
        Extensions {
            batch: Some(self),
            logs: Some(self),
            locks: Some(self),
            locality: Some(self),
            info: Some(self),
            ..Extensions::default()
        }
    }
}

impl BatchFiles for RemoteBackend {
    /// Each step is asked for all files before its answers are waited for.
    fn write_all(&self, files: &[(&str, &[u8])]) -> Vec<Result<(), StoreError>> {
        files
            .chunks(FILES_AT_ONCE)
            .flat_map(|files| files::write_all(&self.remote, files))
            .collect()
    }

    fn rename_all(&self, names: &[(&str, &str)]) -> Vec<Result<(), StoreError>> {
        let rename = |(from, to): &(&str, &str)| {
            check_name(to)?;
            Ok(Message::Rename { from: (*from).to_owned(), to: (*to).to_owned() })
        };
        let changes = names.iter().map(|names| (names.0, rename(names)));
        self.remote.change_all(Operation::Rename, changes)
    }

    fn remove_all(&self, names: &[&str]) -> Vec<Result<(), StoreError>> {
        let changes =
            names.iter().map(|name| (*name, Ok(Message::Remove { name: (*name).to_owned() })));
        self.remote.change_all(Operation::Remove, changes)
    }
}

impl Logs for RemoteBackend {
    fn create_log(&self, name: &str, size: u64) -> Result<Box<dyn LogFile>, StoreError> {
        check_name(name)?;
        let log = RemoteLog::create(Arc::clone(&self.remote), name, size);
        let fail = |error| self.remote.store_error(error, Operation::Create, name);
        Ok(Box::new(log.map_err(fail)?))
    }

    fn close_log(&self, name: &str, to: &str, force: bool) -> Result<(), StoreError> {
        check_name(name)?;
        check_name(to)?;
        let (from, to) = (name.to_owned(), to.to_owned());
        // Once more does no harm: it is closed already then.
        let asked = self.remote.ask_again(&Message::CloseLog { name: from, to, force });
        asked.map(drop).map_err(|error| self.remote.store_error(error, Operation::Rename, name))
    }
}

impl Locks for RemoteBackend {
    fn lock(&self, wait: bool) -> Result<Option<WriteLock>, StoreError> {
        let fail = |error| self.remote.store_error(error, Operation::Lock, "");
        let peer = self.remote.peer().map_err(fail)?;
        // A waiting request waits as long as the agent lives: the link sees to that.
        let patience = if wait { Duration::ZERO } else { PATIENCE };
        let coming = self.remote.begin(&peer, Message::Lock { wait }, Bytes::new(), patience);
        self.granted(peer, &coming)
    }

    fn begin_lock(&self) -> Option<LockAnswer<'_>> {
        let fail = |error| self.remote.store_error(error, Operation::Lock, "");
        let asked = self.remote.peer().map_err(fail).map(|peer| {
            let lock = Message::Lock { wait: false };
            let coming = self.remote.begin(&peer, lock, Bytes::new(), PATIENCE);
            (peer, coming)
        });
        Some(LockAnswer::of(|| asked.and_then(|(peer, coming)| self.granted(peer, &coming))))
    }

    /// Asks again and again: a lock that is granted when nobody waits any more would be held for
    /// nobody.
    fn lock_within(&self, time: Duration) -> Result<LockAttempt, StoreError> {
        let begin = self.remote.network.now();
        loop {
            let lock = self.lock(false)?;
            let waited = self.remote.network.now().saturating_sub(begin);
            if let Some(lock) = lock {
                return Ok(LockAttempt::Granted { lock, waited });
            }
            if waited >= time {
                return Ok(LockAttempt::Busy { holder: self.lock_holder() });
            }
            self.remote.network.sleep(lock_pause(waited).min(time - waited));
        }
    }

    fn lock_holder(&self) -> Option<String> {
        locked(&self.remote.state).holder.clone()
    }
}

impl Locality for RemoteBackend {
    /// Of an agent of before there was this question: no server moves files.
    fn locality(&self, name: &str) -> Result<Located, StoreError> {
        check_name(name)?;
        let fail = |error| self.remote.store_error(error, Operation::Open, name);
        let answer = match self.remote.ask_again(&Message::Locate { name: name.to_owned() }) {
            Ok((_, frame)) => frame,
            Err(NetError::Version { .. }) => return Ok(Located::Unmanaged),
            Err(error) => return Err(fail(error)),
        };
        let found = answer.message.locality();
        found.ok_or_else(|| fail(self.remote.unexpected(&answer)))
    }

    fn copy_local(&self, from: &str, to: &str) -> Result<(), StoreError> {
        check_name(to)?;
        let copy = Message::CopyHome { from: from.to_owned(), to: to.to_owned() };
        let ends = self.remote.change_all(Operation::Write, [(from, Ok(copy))].into_iter());
        ends.into_iter().collect()
    }
}

impl PlaceInfo for RemoteBackend {
    fn use_object(&self, name: &str) -> Result<(), StoreError> {
        let Some((rights, used)) = &self.remote.network.inner.limited else { return Ok(()) };
        if !rights.cover(name) {
            let why = format!("the key is one of the role {rights}");
            let source = io::Error::new(io::ErrorKind::PermissionDenied, why);
            let (op, place, name) = (Operation::Use, self.place(), name.to_owned());
            return Err(StoreError::Io { op, place, name, source });
        }
        let mut used = locked(used);
        for name in [name, object_name(name)] {
            used.note(object_key(name), name.to_owned());
        }
        Ok(())
    }

    fn space(&self) -> Result<Option<Space>, StoreError> {
        let answer = match self.remote.ask_again(&Message::Space {}) {
            Ok((_, frame)) => frame,
            // An agent of before there was this question.
            Err(NetError::Version { .. }) => return Ok(None),
            Err(error) => return Err(self.remote.store_error(error, Operation::Use, "")),
        };
        match answer.message {
            Message::Room { known, total, free } => Ok(known.then_some(Space { total, free })),
            _ => Err(self.remote.store_error(self.remote.unexpected(&answer), Operation::Use, "")),
        }
    }

    fn reads(&self) -> Result<Option<u32>, StoreError> {
        match self.remote.ask_again(&Message::Reads {}) {
            Ok((_, Frame { message: Message::ReadsUpTo { version }, .. })) => Ok(Some(version)),
            Ok((_, frame)) => {
                Err(self.remote.store_error(self.remote.unexpected(&frame), Operation::Use, ""))
            }
            Err(NetError::Version { .. }) => Ok(Some(READ_BEFORE)),
            Err(error) => Err(self.remote.store_error(error, Operation::Use, "")),
        }
    }
}

/// A name at an agent that only one has at a time: this one, until it is dropped or the connection
/// ends.
pub struct Claim {
    remote: Arc<Remote>,
    peer: Arc<Peer>,
    handle: u32,
}

impl Claim {
    /// Returns whether the connection is over, and the name lost.
    pub fn has_ended(&self) -> bool {
        self.peer.has_ended()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.peer.has_ended() {
            let close = Message::Close { handle: self.handle };
            // Waited for, so that who wants the name next gets it.
            let _ = self.remote.ask(&self.peer, close, PATIENCE);
        }
    }
}

/// Gives a lock back when dropped.
#[derive(Debug)]
struct HeldLock {
    remote: Arc<Remote>,
    peer: Arc<Peer>,
    handle: u32,
    /// The agent was told that it is given back.
    closing: Option<Mutex<Coming>>,
}

impl Held for HeldLock {
    fn begin_release(&mut self) {
        if self.closing.is_some() {
            return;
        }
        let mut state = locked(&self.remote.state);
        if let Some(at) = state.locks.iter().position(|peer| Arc::ptr_eq(peer, &self.peer)) {
            state.locks.swap_remove(at);
        }
        drop(state);
        if !self.peer.has_ended() {
            let close = Message::Close { handle: self.handle };
            let coming = self.remote.begin(&self.peer, close, Bytes::new(), PATIENCE);
            self.closing = Some(Mutex::new(coming));
        }
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        self.begin_release();
        if let Some(closing) = &self.closing {
            // Waited for, so that who asks for the lock next gets it.
            let _ = self.remote.end(&locked(closing));
        }
    }
}
