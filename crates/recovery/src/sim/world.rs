//! The world: who there is, what is under way, and what time it is.

mod happen;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use kiln_store::{MemoryBackend, Operation, StoreError};

use super::disk::{Health, SimDisk};
use super::{faults::Faults, processes::Clients, scheduled_faults::ScheduledFault};
use kiln_net::agent::{
    self, Agent, Disk, JobId, Limits, PeerInfo, TaskId, push_answer, push_message,
};
use kiln_net::link::{self, Link, Request};
use kiln_net::proto::{Frame, HEADER, Header, Priority, VERSION};
use kiln_net::{Answer, DiskSet, NetError, NetOperation, Result, task::Fragment};
use kiln_testkit::Random;

/// A connection to a host that cannot be reached is given up after so long.
const CONNECT: Duration = Duration::from_secs(5);
/// A longer cut kills a connection on which something was sent meanwhile.
const RESEND: Duration = Duration::from_secs(10);
/// A simulated cluster.
#[derive(Debug)]
pub struct World {
    pub(super) random: Random,
    pub(super) faults: Faults,
    pub(super) now: Duration,
    order: u64,
    queue: BTreeMap<(Duration, u64), Happens>,
    pub(super) hosts: Vec<Host>,
    /// Processes that use the cluster from outside.
    pub(super) clients: Clients,
    wires: BTreeMap<u64, Wire>,
    next_wire: u64,
    jobs: Jobs,
    pub(super) scheduled_faults: Vec<ScheduledFault>,
    /// The latest version of the protocol that each client speaks; the latest one without an entry.
    versions: Vec<u8>,
    /// Requests that were not sent, since the agent's release does not know them.
    pub(super) unsent: u64,
}

pub(super) struct Host {
    agent: Option<Agent>,
    pub disk: MemoryBackend,
    pub health: Arc<Health>,
    /// The latest version of the protocol that its agent speaks.
    pub version: u8,
    /// Gone with its disk, until it gets another one.
    pub lost: bool,
    files: Arc<DiskSet>,
    /// Counts its lives: what was meant for an earlier one is lost.
    life: u64,
    /// It cannot be reached until then.
    pub cut_until: Duration,
    /// When it is to be woken next.
    tick: Option<Duration>,
    /// Its connections to other agents, by address.
    peers: BTreeMap<String, u64>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("life", &self.life).finish_non_exhaustive()
    }
}

/// The asker of a request on a wire.
enum Waits {
    Host(TaskId, String, Vec<Fragment>),
    Client(Answer),
}

impl std::fmt::Debug for Waits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waits")
    }
}

/// The process at one end of a wire that is no agent.
#[derive(Debug)]
pub(super) struct Outside {
    pub client: usize,
    /// Tells it that the connection is over.
    pub ended: Arc<AtomicBool>,
}

/// A connection.
#[derive(Debug)]
struct Wire {
    link: Link<Waits>,
    /// The agent that dialled; `None`: the coordinator or a client.
    from: Option<(usize, u64)>,
    outside: Option<Outside>,
    /// The one who dialled is gone; what it sent still arrives.
    hung_up: bool,
    /// Something was lost on it: as with TCP, nothing arrives after that.
    dead: bool,
    /// When it is to be woken next.
    tick: Option<Duration>,
    to: usize,
    to_life: u64,
    session: u64,
    /// Sessions of the next frame in each direction.
    up_session: u64,
    down_session: u64,
    /// When the last frame of each direction arrives: the order is kept.
    up: Duration,
    down: Duration,
}

#[derive(Debug)]
pub(super) enum Happens {
    Dialled { wire: u64, again: bool },
    Up { wire: u64, bytes: Bytes },
    Down { wire: u64, bytes: Bytes },
    Broken { wire: u64 },
    Job { host: usize, life: u64, job: JobId, slot: usize },
    AgentTick { host: usize, life: u64 },
    LinkTick { wire: u64 },
    Return { host: usize },
    HungUp { wire: u64 },
    Wake { thread: usize, pause: u64 },
    ScheduledFault { number: usize },
}

/// Disk jobs under way (they cannot be compared, so the queue holds their places).
type Jobs = BTreeMap<usize, Disk>;

impl World {
    /// Agents over these disks. Host i is dialled as `kiln+plain://127.0.0.1:{i + 1}`.
    pub fn new(seed: u64, faults: Faults, disks: Vec<MemoryBackend>) -> World {
        World {
            random: Random(seed),
            faults,
            now: Duration::ZERO,
            order: 0,
            queue: BTreeMap::new(),
            hosts: disks.into_iter().map(Host::new).collect(),
            clients: Clients::default(),
            wires: BTreeMap::new(),
            next_wire: 1,
            jobs: Jobs::new(),
            scheduled_faults: Vec::new(),
            versions: Vec::new(),
            unsent: 0,
        }
    }

    /// Has agents and clients of earlier releases, by the latest version of the protocol that each
    /// speaks.
    pub(super) fn limit_versions(&mut self, hosts: &[u8], clients: &[u8]) {
        self.versions = clients.to_vec();
        for (at, version) in hosts.iter().enumerate() {
            self.exchange(at, *version);
        }
    }

    /// Exchanges a host's agent for one that speaks versions up to this one.
    pub(super) fn exchange(&mut self, host: usize, version: u8) {
        self.hosts[host].version = version;
        self.crash(host);
        self.return_host(host);
    }

    /// Host i's address.
    pub fn address(host: usize) -> String {
        format!("kiln+plain://127.0.0.1:{}", host + 1)
    }

    pub(super) fn at(&mut self, time: Duration, what: Happens) {
        self.order += 1;
        self.queue.insert((time.max(self.now), self.order), what);
    }

    /// Lets the next thing happen.
    /// Errors: there is none, or not before `end`.
    pub(super) fn step(&mut self, end: Duration) -> Result<()> {
        let Some(((time, _), what)) = self.queue.pop_first() else {
            return Err(NetError::protocol("deadlock: every client waits"));
        };
        if time > end {
            return Err(NetError::protocol("it does not end within the time allowed"));
        }
        self.now = time;
        self.happen(what);
        Ok(())
    }

    fn happen(&mut self, what: Happens) {
        match what {
            Happens::Dialled { wire, again } => self.dialled(wire, again),
            Happens::Up { wire, bytes } => self.arrived_up(wire, bytes),
            Happens::Down { wire, bytes } => self.arrived_down(wire, bytes),
            Happens::Broken { wire } => self.broken(wire),
            Happens::Job { host, life, job, slot } => {
                let Some(work) = self.jobs.remove(&slot) else { return };
                if self.hosts[host].life == life {
                    let sick = self.hosts[host].health.errors_per_mille();
                    let failed = self.random.strikes(sick);
                    let outcome =
                        if failed { Err(disk_error()) } else { self.hosts[host].files.run(work) };
                    self.tell_agent(host, agent::Event::Finished { job, outcome });
                }
            }
            Happens::AgentTick { host, life } => {
                let here = &mut self.hosts[host];
                if here.life == life && here.tick.is_some_and(|tick| tick <= self.now) {
                    here.tick = None;
                    self.tell_agent(host, agent::Event::Tick);
                }
            }
            Happens::LinkTick { wire: id } => {
                let now = self.now;
                let due = |wire: &&mut Wire| wire.tick.is_some_and(|tick| tick <= now);
                if let Some(wire) = self.wires.get_mut(&id).filter(due) {
                    wire.tick = None;
                    self.tell_link(id, link::Event::Tick);
                }
            }
            Happens::Return { host } => self.return_host(host),
            Happens::HungUp { wire } => self.forget_wire(wire),
            Happens::Wake { thread, pause } => self.clients.wake(thread, pause),
            Happens::ScheduledFault { number } => self.fault(number),
        }
    }

    /// Starts a host's agent, if it does not run.
    pub(super) fn return_host(&mut self, host: usize) {
        if self.hosts[host].agent.is_none() && !self.hosts[host].lost {
            self.hosts[host].agent = Some(new_agent(self.hosts[host].version));
        }
    }

    /// A client begins to connect.
    pub(super) fn connect(&mut self, to: usize, outside: Outside) -> u64 {
        let gone = self.clients.is_killed(outside.client) || to >= self.hosts.len();
        let id = self.dial(None, Some(outside), to.min(self.hosts.len() - 1));
        if gone {
            self.tell_link(id, link::Event::Closed(io::ErrorKind::ConnectionAborted.into()));
        }
        id
    }

    pub(super) fn ask_for_client(&mut self, id: u64, request: kiln_net::PendingRequest) {
        let Request { token: answer, message, payload, priority, patience } = request;
        if self.wires.get(&id).is_none_or(|wire| wire.hung_up) {
            let source = io::ErrorKind::ConnectionAborted.into();
            return answer(Err(NetError::Io {
                op: NetOperation::Talk,
                place: String::new(),
                source,
            }));
        }
        let token = Waits::Client(answer);
        let request = Request { token, message, payload, priority, patience };
        self.tell_link(id, link::Event::Request(request));
    }

    /// A client needs a connection no more, or is no more: what it sent still arrives.
    pub(super) fn hang_up(&mut self, id: u64) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        if !wire.hung_up {
            wire.hung_up = true;
            let at = wire.up.max(self.now);
            self.at(at, Happens::HungUp { wire: id });
        }
    }

    /// A client's process ends at once.
    pub(super) fn kill_client(&mut self, client: usize) {
        let of = |wire: &Wire| wire.outside.as_ref().is_some_and(|out| out.client == client);
        let wires: Vec<u64> =
            self.wires.iter().filter(|(_, wire)| of(wire)).map(|(id, _)| *id).collect();
        for id in wires {
            self.hang_up(id);
            self.tell_link(id, link::Event::Closed(io::ErrorKind::ConnectionAborted.into()));
        }
    }

    /// Describes the waits, for finding the reason of a deadlock.
    pub(super) fn who_waits(&self) -> String {
        let line = |(id, wire): (&u64, &Wire)| {
            let Wire { link, outside, from, to, .. } = wire;
            format!("\n  wire {id} of {outside:?} {from:?} to host {to}: {link:?}")
        };
        let hosts = self.hosts.iter().enumerate().map(|(at, host)| {
            let load = host.agent.as_ref().map(Agent::load);
            format!("\n  host {at}: connections, waiting and running jobs {load:?}")
        });
        self.wires.iter().map(line).chain(hosts).collect()
    }

    /// The agent hears that a connection is over.
    fn forget_wire(&mut self, id: u64) {
        let Some(wire) = self.wires.remove(&id) else { return };
        if let Some(outside) = &wire.outside {
            outside.ended.store(true, Ordering::Release);
        }
        if self.hosts[wire.to].life == wire.to_life {
            self.tell_agent(wire.to, agent::Event::Closed { connection: id });
        }
    }

    fn dial(&mut self, from: Option<(usize, u64)>, outside: Option<Outside>, to: usize) -> u64 {
        let wire = self.next_wire;
        self.next_wire += 1;
        let version = match (from, &outside) {
            (Some((host, _)), _) => self.hosts[host].version,
            (None, Some(outside)) => *self.versions.get(outside.client).unwrap_or(&VERSION),
            (None, None) => VERSION,
        };
        let new = Wire {
            link: Link::new(&World::address(to), "", self.now).speaking(version),
            from,
            outside,
            hung_up: false,
            dead: false,
            tick: None,
            to,
            to_life: self.hosts[to].life,
            session: self.random.next(),
            up_session: 0,
            down_session: 0,
            up: self.now,
            down: self.now,
        };
        self.wires.insert(wire, new);
        let delay = self.random.millis(self.faults.delay_ms);
        self.at(self.now + delay, Happens::Dialled { wire, again: false });
        wire
    }

    fn reached(&self, wire: &Wire) -> bool {
        let host = &self.hosts[wire.to];
        let from_cut = wire.from.is_some_and(|(from, _)| self.hosts[from].cut_until > self.now);
        let out_cut =
            wire.outside.as_ref().is_some_and(|out| self.clients.is_cut(out.client, self.now));
        let cut = host.cut_until > self.now || from_cut || out_cut || wire.dead;
        host.agent.is_some() && host.life == wire.to_life && !cut
    }

    /// Returns whether a cut link swallows the frames without an error.
    fn swallowed(&self, wire: &Wire) -> bool {
        wire.outside.is_some() && self.hosts[wire.to].agent.is_some() && !self.reached(wire)
    }

    fn dialled(&mut self, id: u64, again: bool) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        wire.to_life = self.hosts[wire.to].life;
        let (to, session) = (wire.to, wire.session);
        let wire = &self.wires[&id];
        if self.swallowed(wire) && !again {
            // Tried once more at the end of its patience.
            let again = true;
            return self.at(self.now + CONNECT, Happens::Dialled { wire: id, again });
        }
        if !self.reached(wire) {
            let refused = io::ErrorKind::ConnectionRefused.into();
            return self.tell_link(id, link::Event::Closed(refused));
        }
        self.tell_agent(
            to,
            agent::Event::Connected { connection: id, session, peer: PeerInfo::KEYLESS },
        );
        self.tell_link(id, link::Event::Connected);
    }

    /// Puts a frame on its way, with what the network does to it.
    fn send(&mut self, id: u64, up: bool, session: u64, frame: &Frame) {
        let mut bytes = frame.encode(session);
        let faults = self.faults;
        if self.random.strikes(faults.breaks_per_mille) {
            self.at(self.now, Happens::Broken { wire: id });
            return;
        }
        if self.random.strikes(faults.flips_per_mille) {
            let at = self.random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << self.random.below(8);
        }
        let delay = self.random.millis(faults.delay_ms);
        let twice = self.random.strikes(faults.doubles_per_mille);
        let (Some(wire), bytes) = (self.wires.get_mut(&id), Bytes::from(bytes)) else { return };
        let last = if up { &mut wire.up } else { &mut wire.down };
        *last = (*last).max(self.now + delay);
        let at = *last;
        for _ in 0..1 + u8::from(twice) {
            let bytes = bytes.clone();
            let what = match up {
                true => Happens::Up { wire: id, bytes },
                false => Happens::Down { wire: id, bytes },
            };
            self.at(at, what);
        }
    }

    fn arrived_up(&mut self, id: u64, bytes: Bytes) {
        let Some(wire) = self.wires.get(&id) else { return };
        if !self.reached(wire) {
            return self.delayed(id, Happens::Up { wire: id, bytes });
        }
        let (to, session) = (wire.to, wire.up_session);
        match parse(&bytes, session) {
            Ok(frame) => {
                if let Some(wire) = self.wires.get_mut(&id) {
                    wire.up_session = wire.session;
                }
                self.tell_agent(to, agent::Event::Frame { connection: id, frame });
            }
            Err(_) => self.broken(id),
        }
    }

    fn arrived_down(&mut self, id: u64, bytes: Bytes) {
        let Some(wire) = self.wires.get(&id) else { return };
        if !self.reached(wire) {
            return self.delayed(id, Happens::Down { wire: id, bytes });
        }
        match parse(&bytes, wire.down_session) {
            Ok(frame) => self.tell_link(id, link::Event::Frame(frame)),
            Err(_) => self.at(self.now, Happens::Broken { wire: id }),
        }
    }

    /// Delays a frame: TCP sends those of a short cut again, and they arrive in order after it.
    /// After a long one the connection is dead, which both ends notice by the silence.
    fn delayed(&mut self, id: u64, what: Happens) {
        let Some(wire) = self.wires.get(&id) else { return };
        let mut until = self.hosts[wire.to].cut_until;
        if let Some((from, _)) = wire.from {
            until = until.max(self.hosts[from].cut_until);
        }
        if let Some(outside) = &wire.outside {
            until = until.max(self.clients.cut_until(outside.client));
        }
        let waits = until > self.now && until < self.now + RESEND;
        let Some(wire) = self.wires.get_mut(&id) else { return };
        if waits {
            (wire.up, wire.down) = (wire.up.max(until), wire.down.max(until));
            self.at(until, what);
        } else {
            wire.dead = true;
        }
    }

    /// Both ends hear of it.
    fn broken(&mut self, id: u64) {
        let Some(wire) = self.wires.get(&id) else { return };
        let to = wire.to;
        if self.hosts[to].life == wire.to_life {
            self.tell_agent(to, agent::Event::Closed { connection: id });
        }
        self.tell_link(id, link::Event::Closed(io::ErrorKind::ConnectionReset.into()));
    }

    pub(super) fn crash(&mut self, host: usize) {
        let seed = self.random.next();
        let Some(here) = self.hosts.get_mut(host) else { return };
        if here.agent.take().is_none() {
            return;
        }
        here.life += 1;
        let disk = here.disk.crash(seed);
        here.set_disk(disk);
        here.tick = None;
        here.peers.clear();
        let gone = |wire: &Wire| wire.to == host || wire.from.is_some_and(|(from, _)| from == host);
        let wires: Vec<u64> =
            self.wires.iter().filter(|(_, wire)| gone(wire)).map(|(id, _)| *id).collect();
        wires.into_iter().for_each(|id| self.broken(id));
    }

    fn tell_agent(&mut self, host: usize, event: agent::Event) {
        let (now, life) = (self.now, self.hosts[host].life);
        let Some(agent) = &mut self.hosts[host].agent else { return };
        let actions = agent.handle(now, event);
        let wake = agent.wake_at();
        if let Some(wake) = wake
            && self.hosts[host].tick.is_none_or(|tick| wake < tick)
        {
            self.hosts[host].tick = Some(wake);
            self.at(wake, Happens::AgentTick { host, life });
        }
        for action in actions {
            match action {
                agent::Action::Send { connection, session, frame } => {
                    self.send(connection, false, session, &frame);
                    let sent = agent::Event::Sent { connection, request: frame.id };
                    self.tell_agent(host, sent);
                }
                agent::Action::Close { connection, .. } => {
                    self.at(self.now, Happens::Broken { wire: connection });
                }
                agent::Action::Start { job, work } => {
                    self.order += 1;
                    let slot = self.order as usize;
                    self.jobs.insert(slot, work);
                    let most = self.faults.disk_ms * self.hosts[host].health.slowness();
                    let time = self.now + self.random.millis(most);
                    self.at(time, Happens::Job { host, life, job, slot });
                }
                agent::Action::Drop { slot } => self.hosts[host].files.forget(slot),
                agent::Action::Forget { task } => self.hosts[host].files.forget_task(task),
                agent::Action::Push { task, address, fragments } => {
                    self.push(host, task, &address, fragments);
                }
            }
        }
    }

    fn push(&mut self, host: usize, task: TaskId, address: &str, fragments: Vec<Fragment>) {
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<usize>().ok());
        let to = port.map_or(0, |port| port - 1);
        let known = self.hosts[host].peers.get(address).copied();
        let known = known.filter(|id| self.wires.contains_key(id));
        let id = known.unwrap_or_else(|| {
            let from = Some((host, self.hosts[host].life));
            let id = self.dial(from, None, to);
            self.hosts[host].peers.insert(address.to_owned(), id);
            id
        });
        let (message, payload) = push_message(task, &fragments);
        let to = address.to_owned();
        let patience = Duration::from_secs(60);
        let (token, priority) = (Waits::Host(task, to, fragments), Priority::Repair);
        let request = Request { token, message, payload, priority, patience };
        self.tell_link(id, link::Event::Request(request));
    }

    fn tell_link(&mut self, id: u64, event: link::Event<Waits>) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        let actions = wire.link.handle(self.now, event);
        let (wake, ended) = (wire.link.wake_at(), wire.link.has_ended());
        if !ended && wire.tick.is_none_or(|tick| wake < tick || tick <= self.now) {
            wire.tick = Some(wake);
            self.at(wake, Happens::LinkTick { wire: id });
        }
        let mut answers = Vec::new();
        for action in actions {
            match action {
                link::Action::Send { session, frame } => self.send(id, true, session, &frame),
                link::Action::Session(session) => {
                    if let Some(wire) = self.wires.get_mut(&id) {
                        wire.down_session = session;
                    }
                }
                link::Action::Answer { token, answer } => {
                    self.unsent += u64::from(matches!(answer, Err(NetError::Version { .. })));
                    answers.push((token, answer));
                }
                link::Action::Close => {}
            }
        }
        let Some(wire) = self.wires.get(&id) else { return };
        let (from, hung_up) = (wire.from, wire.hung_up);
        let client = wire.outside.as_ref().map(|outside| outside.client);
        if ended && let Some(outside) = &wire.outside {
            outside.ended.store(true, Ordering::Release);
        }
        if ended && !hung_up {
            self.forget_wire(id);
        }
        for (waits, answer) in answers {
            self.answer(waits, from, answer);
            if let Some(client) = client {
                self.clients.answered(client);
            }
        }
    }

    fn answer(&mut self, waits: Waits, from: Option<(usize, u64)>, answer: Result<Frame>) {
        match (waits, from) {
            (Waits::Host(task, address, fragments), Some((host, life))) => {
                if self.hosts[host].life == life {
                    let answer = answer.and_then(|frame| push_answer(&frame));
                    let event = agent::Event::Pushed { task, address, fragments, answer };
                    self.tell_agent(host, event);
                }
            }
            (Waits::Host(..), None) => {}
            (Waits::Client(take), _) => take(answer),
        }
    }
}

impl Host {
    fn new(disk: MemoryBackend) -> Host {
        let health = Arc::new(Health::default());
        let files = SimDisk::new(disk.clone(), Arc::clone(&health));
        Host {
            agent: Some(new_agent(VERSION)),
            disk,
            health,
            version: VERSION,
            lost: false,
            files: Arc::new(DiskSet::new(Arc::new(files))),
            life: 0,
            cut_until: Duration::ZERO,
            tick: None,
            peers: BTreeMap::new(),
        }
    }

    /// Puts another disk in; nothing of the old one is open any more.
    pub fn set_disk(&mut self, disk: MemoryBackend) {
        let files = SimDisk::new(disk.clone(), Arc::clone(&self.health));
        self.disk = disk;
        self.files = Arc::new(DiskSet::new(Arc::new(files)));
    }
}

/// An agent of a release that speaks up to this version.
fn new_agent(version: u8) -> Agent {
    let reads = kiln_pool::map::LATEST;
    Agent::new("", Limits { version, reads, ..Limits::default() })
}

fn disk_error() -> StoreError {
    StoreError::Io {
        op: Operation::Read,
        place: "a disk".to_owned(),
        name: String::new(),
        source: io::Error::other("injected"),
    }
}

fn parse(bytes: &Bytes, session: u64) -> Result<Frame> {
    let short = || NetError::protocol("a frame cut short");
    let (head, rest) = bytes.split_first_chunk::<HEADER>().ok_or_else(short)?;
    let header = Header::parse(head, session)?;
    let (body, payload) = rest.split_at_checked(header.body as usize).ok_or_else(short)?;
    Frame::parse(&header, body, bytes.slice_ref(payload))
}
