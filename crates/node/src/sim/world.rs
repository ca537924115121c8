//! The world: who there is, what is under way, and what time it is.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kiln_store::{Backend, MemoryBackend, StoreError};

use super::faults::{Faults, Random};
use crate::agent::{self, Agent, Disk, JobId, Limits, TaskId, push_message};
use crate::coordinator::{Coordinator, Order, Outcome, Share};
use crate::link::{self, Ask, Link, Token};
use crate::net::DiskSet;
use crate::proto::{Frame, HEADER, Header, Priority};
use crate::task::Parcel;
use crate::{NodeError, Result};

/// A run that is not over by then hangs.
const END: Duration = Duration::from_secs(3600);

/// How a simulated repair ended.
#[derive(Debug)]
pub struct Ending {
    /// What the coordinator says.
    pub outcome: Outcome,
    /// The virtual time.
    pub time: Duration,
    /// Frames that travelled.
    pub frames: u64,
}

/// A simulated cluster with one coordinator.
#[derive(Debug)]
pub struct World {
    random: Random,
    faults: Faults,
    now: Duration,
    order: u64,
    queue: BinaryHeap<Reverse<(Duration, u64, Happens)>>,
    hosts: Vec<Host>,
    wires: BTreeMap<u64, Wire>,
    next_wire: u64,
    coordinator: Option<Coordinator>,
    orders: BTreeMap<usize, u64>,
    frames: u64,
    jobs: Jobs,
}

struct Host {
    agent: Option<Agent>,
    disk: MemoryBackend,
    files: Arc<DiskSet>,
    /// Counts its lives: what was meant for an earlier one is lost.
    life: u64,
    /// Nobody reaches it until then.
    cut_until: Duration,
    /// Its connections to other agents, by address.
    peers: BTreeMap<String, u64>,
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("life", &self.life).finish_non_exhaustive()
    }
}

/// Who waits for an answer on a wire.
#[derive(Debug)]
enum Waits {
    Coordinator(Order),
    Host(TaskId, String, Vec<Parcel>),
}

/// A connection.
#[derive(Debug)]
struct Wire {
    link: Link,
    /// The agent that dialled; `None`: the coordinator.
    from: Option<(usize, u64)>,
    to: usize,
    to_life: u64,
    session: u64,
    /// Sessions of the next frame in each direction.
    up_session: u64,
    down_session: u64,
    /// When the last frame of each direction arrives: the order is kept.
    up: Duration,
    down: Duration,
    waits: BTreeMap<Token, Waits>,
    next_token: Token,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    Dialled { wire: u64 },
    Up { wire: u64, bytes: Vec<u8> },
    Down { wire: u64, bytes: Vec<u8> },
    Broken { wire: u64 },
    Job { host: usize, life: u64, job: JobId, slot: usize },
    AgentTick { host: usize, life: u64 },
    LinkTick { wire: u64 },
    Crash { host: usize },
    Return { host: usize },
    Cut { host: usize, until: Duration },
}

/// Disk jobs under way (they cannot be compared, so the queue holds their places).
type Jobs = BTreeMap<usize, Disk>;

impl World {
    /// Agents over these disks. Host i is dialled as `kiln+plain://127.0.0.1:{i + 1}`.
    #[must_use]
    pub fn new(seed: u64, faults: Faults, disks: Vec<MemoryBackend>) -> World {
        let mut world = World {
            random: Random(seed),
            faults,
            now: Duration::ZERO,
            order: 0,
            queue: BinaryHeap::new(),
            hosts: disks.into_iter().map(Host::new).collect(),
            wires: BTreeMap::new(),
            next_wire: 1,
            coordinator: None,
            orders: BTreeMap::new(),
            frames: 0,
            jobs: Jobs::new(),
        };
        world.plan_faults();
        world
    }

    /// Host i's address.
    #[must_use]
    pub fn address(host: usize) -> String {
        format!("kiln+plain://127.0.0.1:{}", host + 1)
    }

    /// A host's disk as it is now.
    #[must_use]
    pub fn disk(&self, host: usize) -> MemoryBackend {
        self.hosts[host].disk.clone()
    }

    fn plan_faults(&mut self) {
        let hosts = self.hosts.len() as u64;
        for number in 0..self.faults.crashes {
            let host = self.random.below(hosts) as usize;
            let at = self.random.millis(2_000);
            self.at(at, Happens::Crash { host });
            if number % 2 == 0 {
                let back = at + self.random.millis(5_000);
                self.at(back, Happens::Return { host });
            }
        }
        for _ in 0..self.faults.partitions {
            let host = self.random.below(hosts) as usize;
            let at = self.random.millis(2_000);
            let until = at + self.random.millis(30_000);
            self.at(at, Happens::Cut { host, until });
        }
    }

    fn at(&mut self, time: Duration, what: Happens) {
        self.order += 1;
        self.queue.push(Reverse((time.max(self.now), self.order, what)));
    }

    /// Runs a repair to its end. Faults go on where the last one left off.
    ///
    /// # Errors
    /// It does not end.
    pub fn run(&mut self, task: TaskId, shares: Vec<Share>) -> Result<Ending> {
        self.orders.clear();
        let nodes: Vec<usize> = shares.iter().map(|share| share.node).collect();
        for (rank, node) in nodes.iter().enumerate() {
            let wire = self.dial(None, *node);
            self.orders.insert(rank, wire);
        }
        let mut coordinator = Coordinator::new(task, shares);
        let orders = coordinator.begin(self.now);
        self.coordinator = Some(coordinator);
        self.give(orders);
        let end = self.now + END;
        loop {
            if let Some(outcome) = self.coordinator.as_mut().and_then(Coordinator::outcome) {
                let (time, frames) = (self.now, self.frames);
                return Ok(Ending { outcome, time, frames });
            }
            let Some(Reverse((time, _, what))) = self.queue.pop() else {
                return Err(NodeError::protocol("everybody waits for ever"));
            };
            if time > end {
                return Err(NodeError::protocol("it does not end"));
            }
            self.now = time;
            self.happen(what);
        }
    }

    fn happen(&mut self, what: Happens) {
        match what {
            Happens::Dialled { wire } => self.dialled(wire),
            Happens::Up { wire, bytes } => self.arrived_up(wire, &bytes),
            Happens::Down { wire, bytes } => self.arrived_down(wire, &bytes),
            Happens::Broken { wire } => self.broken(wire),
            Happens::Job { host, life, job, slot } => {
                let Some(work) = self.jobs.remove(&slot) else { return };
                if self.hosts[host].life == life {
                    let failed = self.random.strikes(self.faults.disk_errors_per_mille);
                    let outcome =
                        if failed { Err(disk_error()) } else { self.hosts[host].files.run(work) };
                    self.tell_agent(host, agent::Event::Finished { job, outcome });
                }
            }
            Happens::AgentTick { host, life } => {
                if self.hosts[host].life == life {
                    self.tell_agent(host, agent::Event::Tick);
                }
            }
            Happens::LinkTick { wire } => self.tell_link(wire, link::Event::Tick),
            Happens::Crash { host } => self.crash(host),
            Happens::Return { host } => {
                if self.hosts[host].agent.is_none() {
                    self.hosts[host].agent = Some(Agent::new("", Limits::default()));
                }
            }
            Happens::Cut { host, until } => self.hosts[host].cut_until = until,
        }
    }

    fn dial(&mut self, from: Option<(usize, u64)>, to: usize) -> u64 {
        let wire = self.next_wire;
        self.next_wire += 1;
        let new = Wire {
            link: Link::new(&World::address(to), "", self.now),
            from,
            to,
            to_life: self.hosts[to].life,
            session: self.random.next(),
            up_session: 0,
            down_session: 0,
            up: self.now,
            down: self.now,
            waits: BTreeMap::new(),
            next_token: 1,
        };
        self.wires.insert(wire, new);
        let delay = self.random.millis(self.faults.delay_ms);
        self.at(self.now + delay, Happens::Dialled { wire });
        wire
    }

    fn reached(&self, wire: &Wire) -> bool {
        let host = &self.hosts[wire.to];
        let from_cut = wire.from.is_some_and(|(from, _)| self.hosts[from].cut_until > self.now);
        host.agent.is_some() && host.life == wire.to_life && host.cut_until <= self.now && !from_cut
    }

    fn dialled(&mut self, id: u64) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        wire.to_life = self.hosts[wire.to].life;
        let (to, session) = (wire.to, wire.session);
        let wire = &self.wires[&id];
        if !self.reached(wire) {
            let refused = io::ErrorKind::ConnectionRefused.into();
            return self.tell_link(id, link::Event::Closed(refused));
        }
        self.tell_agent(to, agent::Event::Connected { connection: id, session });
        self.tell_link(id, link::Event::Connected);
    }

    /// Puts a frame on its way, with what the network does to it.
    fn send(&mut self, id: u64, up: bool, session: u64, frame: &Frame) {
        self.frames += 1;
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
        let Some(wire) = self.wires.get_mut(&id) else { return };
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

    fn arrived_up(&mut self, id: u64, bytes: &[u8]) {
        let Some(wire) = self.wires.get(&id) else { return };
        // What goes into a cut is lost: the link notices by the silence.
        if !self.reached(wire) {
            return;
        }
        let (to, session) = (wire.to, wire.up_session);
        match parse(bytes, session) {
            Ok(frame) => {
                if let Some(wire) = self.wires.get_mut(&id) {
                    wire.up_session = wire.session;
                }
                self.tell_agent(to, agent::Event::Frame { connection: id, frame });
            }
            Err(_) => self.broken(id),
        }
    }

    fn arrived_down(&mut self, id: u64, bytes: &[u8]) {
        let Some(wire) = self.wires.get(&id) else { return };
        if !self.reached(wire) {
            return;
        }
        match parse(bytes, wire.down_session) {
            Ok(frame) => self.tell_link(id, link::Event::Frame(frame)),
            Err(_) => self.at(self.now, Happens::Broken { wire: id }),
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

    fn crash(&mut self, host: usize) {
        let seed = self.random.next();
        let Some(here) = self.hosts.get_mut(host) else { return };
        if here.agent.take().is_none() {
            return;
        }
        here.life += 1;
        here.disk = here.disk.crash(seed);
        here.files = Arc::new(DiskSet::new(Arc::new(here.disk.clone())));
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
        if let Some(wake) = agent.wake_at() {
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
                    let time = self.now + self.random.millis(self.faults.disk_ms);
                    self.at(time, Happens::Job { host, life, job, slot });
                }
                agent::Action::Drop { slot } => self.hosts[host].files.forget(slot),
                agent::Action::Forget { task } => self.hosts[host].files.forget_task(task),
                agent::Action::Push { task, address, parcels } => {
                    self.push(host, task, &address, parcels);
                }
            }
        }
    }

    fn push(&mut self, host: usize, task: TaskId, address: &str, parcels: Vec<Parcel>) {
        let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<usize>().ok());
        let to = port.map_or(0, |port| port - 1);
        let known = self.hosts[host].peers.get(address).copied();
        let known = known.filter(|id| self.wires.contains_key(id));
        let id = known.unwrap_or_else(|| {
            let from = Some((host, self.hosts[host].life));
            let id = self.dial(from, to);
            self.hosts[host].peers.insert(address.to_owned(), id);
            id
        });
        let (message, payload) = push_message(task, &parcels);
        let to = address.to_owned();
        let patience = Duration::from_secs(60);
        self.ask(id, message, payload, Priority::Repair, patience, Waits::Host(task, to, parcels));
    }

    fn give(&mut self, orders: Vec<Order>) {
        for order in orders {
            let Some(&id) = self.orders.get(&order.rank) else { continue };
            let (message, payload) = (order.message.clone(), order.payload.clone());
            let patience = order.patience;
            if self.wires.contains_key(&id) {
                let waits = Waits::Coordinator(order);
                self.ask(id, message, payload, Priority::Control, patience, waits);
            } else {
                let gone = NodeError::Io {
                    op: "talk to",
                    place: String::new(),
                    source: io::ErrorKind::ConnectionReset.into(),
                };
                self.answer(Waits::Coordinator(order), None, Err(gone));
            }
        }
    }

    fn ask(
        &mut self,
        id: u64,
        message: crate::proto::Message,
        payload: Bytes,
        priority: Priority,
        patience: Duration,
        waits: Waits,
    ) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        let token = wire.next_token;
        wire.next_token += 1;
        wire.waits.insert(token, waits);
        self.tell_link(id, link::Event::Ask(Ask { token, message, payload, priority, patience }));
    }

    fn tell_link(&mut self, id: u64, event: link::Event) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        let actions = wire.link.handle(self.now, event);
        let (wake, ended) = (wire.link.wake_at(), wire.link.has_ended());
        if !ended {
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
                    let wire = self.wires.get_mut(&id);
                    let waits = wire.and_then(|wire| wire.waits.remove(&token));
                    answers.extend(waits.map(|waits| (waits, answer)));
                }
                link::Action::Close => {}
            }
        }
        let from = self.wires.get(&id).and_then(|wire| wire.from);
        if ended && let Some(wire) = self.wires.remove(&id) {
            let closed = agent::Event::Closed { connection: id };
            if self.hosts[wire.to].life == wire.to_life {
                self.tell_agent(wire.to, closed);
            }
        }
        for (waits, answer) in answers {
            self.answer(waits, from, answer);
        }
    }

    fn answer(&mut self, waits: Waits, from: Option<(usize, u64)>, answer: Result<Frame>) {
        match (waits, from) {
            (Waits::Coordinator(order), _) => {
                let Some(coordinator) = &mut self.coordinator else { return };
                let answer = answer.map(|frame| frame.message);
                let orders = coordinator.answered(self.now, &order, answer);
                self.give(orders);
            }
            (Waits::Host(task, address, parcels), Some((host, life))) => {
                if self.hosts[host].life == life {
                    let answer = answer.map(drop);
                    let event = agent::Event::Pushed { task, address, parcels, answer };
                    self.tell_agent(host, event);
                }
            }
            (Waits::Host(..), None) => {}
        }
    }
}

impl Host {
    fn new(disk: MemoryBackend) -> Host {
        let backend: Arc<dyn Backend> = Arc::new(disk.clone());
        Host {
            agent: Some(Agent::new("", Limits::default())),
            disk,
            files: Arc::new(DiskSet::new(backend)),
            life: 0,
            cut_until: Duration::ZERO,
            peers: BTreeMap::new(),
        }
    }
}

fn disk_error() -> StoreError {
    StoreError::Io {
        op: "read",
        place: "a disk".to_owned(),
        name: String::new(),
        source: io::Error::other("injected"),
    }
}

fn parse(bytes: &[u8], session: u64) -> Result<Frame> {
    let short = || NodeError::protocol("a frame cut short");
    let (head, rest) = bytes.split_first_chunk::<HEADER>().ok_or_else(short)?;
    let header = Header::parse(head, session)?;
    let (body, payload) = rest.split_at_checked(header.body as usize).ok_or_else(short)?;
    Frame::parse(&header, body, Bytes::copy_from_slice(payload))
}
