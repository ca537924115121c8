//! The agent as a state machine: what connections and disks report goes in, what is to be sent and
//! done comes out. It has no clock, socket or disk; the shell around it has those.
//!
//! An agent serves one place of storage (a folder) to holders of the cluster's key. Requests of
//! a connection are answered in any order, except that appends to one file keep theirs. What a
//! connection has opened or locked ends with it.

mod claims;
mod role;
mod failure;
mod limits;
mod outbox;
mod event;
mod connection;
mod fetch_queue;
mod queue;
mod tasks;
mod assigning;

use self::connection::{Connection, Handle, Pending, Write};
pub use self::event::{Action, Disk, DiskDone, Event};
pub(crate) use self::failure::refused;
pub use self::failure::{failed, store_error};
pub use self::limits::Limits;
pub use self::role::{PeerInfo, PeerRole, Rights};
pub use self::tasks::{push_answer, push_message, unbundled};
use self::{claims::Claims, outbox::Outbox, queue::Queue, tasks::Held};
use crate::proto::{Frame, Message, PAYLOAD_MAX, Priority, Role, VERSION_LEAST};
use crate::{NetError, Result, throttle::Throttle};
use bytes::Bytes;
use kiln_store::{MAX_LOG, Space, StoreError};
use std::{collections::BTreeMap, time::Duration};

/// Number of a connection, given by the shell.
pub type ConnectionId = u64;
/// Names a task; drawn at random by the coordinator.
pub type TaskId = [u8; 16];
/// Number of a disk job, given by the agent.
pub type JobId = u64;
/// Number of an open file or lock, given by the agent; unlike handles never used again.
pub type Slot = u64;

/// Pause between two tries of a lock that another client holds.
const LOCK_RETRY: Duration = Duration::from_millis(50);

/// An agent. See the module.
#[derive(Debug)]
pub struct Agent {
    place: String,
    limits: Limits,
    connections: BTreeMap<ConnectionId, Connection>,
    queue: Queue,
    running: BTreeMap<JobId, Pending>,
    next_job: JobId,
    next_slot: Slot,
    /// Locks that others hold, and when they are tried again.
    locks: Vec<(Duration, Pending)>,
    tasks: BTreeMap<TaskId, Held>,
    outbox: Outbox,
    /// Requests that wait for a task to end for good.
    aborting: Vec<(TaskId, Pending)>,
    /// Names that only one has at a time.
    claims: Claims,
    /// Looks at parts that wait until tasks which wrote them have ended for good.
    resuming: Vec<(Vec<TaskId>, Pending, Disk)>,
    /// The limit of all tasks.
    clocks: Throttle,
    actions: Vec<Action>,
    counts: Counts,
}

/// Counters of an agent since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that arrived.
    pub requests: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Bytes of files that were sent.
    pub bytes_sent: u64,
    /// Bytes of files that were received.
    pub bytes_received: u64,
    /// Connections that were closed because of a protocol violation or silence.
    pub expelled: u64,
    /// Requests whose deadline had passed when their turn came.
    pub late: u64,
}

impl Agent {
    /// An agent for the place of this name.
    pub fn new(place: &str, limits: Limits) -> Agent {
        Agent {
            place: place.to_owned(),
            limits,
            connections: BTreeMap::new(),
            queue: Queue::default(),
            running: BTreeMap::new(),
            next_job: 1,
            next_slot: 1,
            locks: Vec::new(),
            tasks: BTreeMap::new(),
            outbox: Outbox::default(),
            aborting: Vec::new(),
            claims: Claims::default(),
            resuming: Vec::new(),
            clocks: Throttle::default(),
            actions: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Returns the counters so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Connections, requests that wait for the disk, and disk jobs under way.
    pub fn load(&self) -> (usize, usize, usize) {
        (self.connections.len(), self.queue.len(), self.running.len())
    }

    /// Takes note of an event; gives what is to be done, in order.
    pub fn handle(&mut self, now: Duration, event: Event) -> Vec<Action> {
        match event {
            Event::Connected { connection, session, peer } => {
                self.connected(now, connection, session, peer);
            }
            Event::Frame { connection, frame } => self.frame(now, connection, frame),
            Event::Sent { connection, request } => {
                if let Some(connection) = self.connections.get_mut(&connection) {
                    connection.settled(request);
                }
            }
            Event::Closed { connection } => self.forget(connection),
            Event::Finished { job, outcome } => self.finished(now, job, outcome),
            Event::Pushed { task, address, fragments, answer } => {
                let upto = answer.as_ref().ok().copied();
                self.outbox.settled(now, task, &address, &fragments, upto);
                self.pushed(now, task, fragments, answer);
            }
            Event::Tick => self.tick(now),
        }
        if self.clocks.freed() {
            self.tasks_go_on(now);
        }
        self.send_fragments();
        self.start_jobs(now);
        std::mem::take(&mut self.actions)
    }

    /// When a [`Event::Tick`] is due at the latest.
    pub fn wake_at(&self) -> Option<Duration> {
        let connections = self.connections.values().map(|c| c.expires(&self.limits));
        let locks = self.locks.iter().map(|(at, _)| *at);
        connections.chain(locks).chain(self.tasks_wake_at()).min()
    }

    fn connected(&mut self, now: Duration, id: ConnectionId, session: u64, peer: PeerInfo) {
        if self.connections.len() >= self.limits.connections {
            self.counts.expelled += 1;
            let why = format!("{} connections are open already", self.connections.len());
            self.actions.push(Action::Close { connection: id, why });
            return;
        }
        let credit = self.credit_left();
        self.connections.insert(id, Connection::new(now, session, credit, peer));
    }

    /// Returns the bytes that a new connection may have under way: all if it is the first, less the
    /// more have come, so that all together stay within their limit.
    fn credit_left(&self) -> u32 {
        let granted: u64 = self.connections.values().map(|c| u64::from(c.credit)).sum();
        let share = (self.limits.memory.saturating_sub(granted) / 4).max(PAYLOAD_MAX as u64);
        u32::try_from(share).unwrap_or(u32::MAX).min(self.limits.credit)
    }

    fn frame(&mut self, now: Duration, id: ConnectionId, frame: Frame) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.heard = now;
        let taken = match connection.ready {
            false => self.hello(id, &frame),
            true => self.request(now, id, frame),
        };
        if let Err(error) = taken {
            self.expel(id, &error.to_string());
        }
    }

    /// The first frame must be `Hello`, for a version that we speak and for this place.
    fn hello(&mut self, id: ConnectionId, frame: &Frame) -> Result<()> {
        let Message::Hello { lowest, highest, place } = &frame.message else {
            return Err(NetError::protocol("the first frame is no Hello"));
        };
        let mine = format!("this is {:?}", self.place);
        let why = if frame.id != 0 || !frame.payload.is_empty() {
            Some("a Hello has request number 0 and no payload".to_owned())
        } else if *highest < VERSION_LEAST || *lowest > self.limits.version {
            let last = self.limits.version;
            Some(format!(
                "wire versions {lowest} to {highest} are not spoken here, {VERSION_LEAST} to \
                 {last} are"
            ))
        } else {
            (!place.is_empty() && *place != self.place).then_some(mine)
        };
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        if let Some(why) = why {
            let refused = frame.reply(failure::refused(&why));
            self.actions.push(Action::Send { connection: id, session: 0, frame: refused });
            return Err(NetError::protocol(why));
        }
        connection.ready = true;
        connection.version = self.limits.version.min(*highest);
        let welcome = Message::Welcome {
            version: connection.version,
            place: self.place.clone(),
            session: connection.session,
            requests: self.limits.requests,
            credit: connection.credit,
        };
        let frame = frame.reply(welcome);
        self.actions.push(Action::Send { connection: id, session: 0, frame });
        Ok(())
    }

    fn request(&mut self, now: Duration, id: ConnectionId, frame: Frame) -> Result<()> {
        self.counts.requests += 1;
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(()) };
        if frame.message.role() != Role::Request {
            return Err(NetError::protocol("a reply where only requests may come"));
        }
        if frame.message.since() > connection.version {
            return Err(NetError::protocol("a message of a later version than was agreed upon"));
        }
        let carries = matches!(
            frame.message,
            Message::Write { .. }
                | Message::WriteAt { .. }
                | Message::WritePadded { .. }
                | Message::Assign { .. }
                | Message::Push { .. }
                | Message::Bundle { .. }
        );
        if !carries && !frame.payload.is_empty() {
            return Err(NetError::protocol("a payload where none belongs"));
        }
        connection.admit(&frame, &self.limits)?;
        let deadline =
            (frame.deadline_ms > 0).then(|| now + Duration::from_millis(frame.deadline_ms.into()));
        let mut pending = Pending::new(id, &frame, deadline);
        if let Some(why) = connection.refusal(&frame.message) {
            self.answer(&pending, why);
            return Ok(());
        }
        if self.task_request(now, &frame, &pending)? {
            return Ok(());
        }
        if let Message::Claim { name, claimant, by } = frame.message {
            self.claim(now, (&name, claimant), &by, &pending);
            return Ok(());
        }
        match self.work(id, frame, &mut pending)? {
            Some(work) => self.queue.push(pending, work),
            None => self.advance_writes(id, pending.handle),
        }
        Ok(())
    }

    /// Returns the disk job of a request; `None` when it is answered, or waits for its turn.
    fn work(
        &mut self,
        id: ConnectionId,
        frame: Frame,
        pending: &mut Pending,
    ) -> Result<Option<Disk>> {
        let Some(connection) = self.connections.get_mut(&id) else { return Ok(None) };
        if let Some((handle, write)) = Write::of(&frame)? {
            self.counts.bytes_received += frame.payload.len() as u64;
            connection.write(handle, write, pending)?;
            return Ok(None);
        }
        Ok(Some(match frame.message {
            Message::List { after } => Disk::List { after },
            Message::Space {} => Disk::Space,
            Message::Rename { from, to } => Disk::Rename { from, to },
            Message::Remove { name } => Disk::Remove { name },
            Message::Locate { name } => Disk::Locate { name },
            Message::CopyHome { from, to } => Disk::CopyHome { from, to },
            Message::CloseLog { name, to, force } => Disk::CloseLog { name, to, force },
            Message::CreateLog { size, .. } if size > MAX_LOG => {
                self.answer(pending, failure::refused("a log of more than 1 GiB"));
                return Ok(None);
            }
            Message::Open { .. }
            | Message::Append { .. }
            | Message::CreateLog { .. }
            | Message::Lock { .. } => {
                if connection.handles.len() >= self.limits.handles {
                    let text = format!("{} files are open already", connection.handles.len());
                    self.answer(pending, failure::busy(&text));
                    return Ok(None);
                }
                let slot = self.next_slot;
                self.next_slot += 1;
                let (handle, disk) = connection.open(slot, frame.message);
                (pending.handle, pending.slot) = (Some(handle), Some(slot));
                disk
            }
            Message::Read { handle, offset, len } => match connection.handles.get(&handle) {
                Some(Handle { slot, opened: true, .. }) if len as usize <= PAYLOAD_MAX => {
                    Disk::Read { slot: *slot, offset, len }
                }
                _ => return Err(NetError::protocol("a read of nothing open, or of too much")),
            },
            Message::Ping {} | Message::Name { .. } => {
                self.answer(pending, Message::Done {});
                return Ok(None);
            }
            Message::Reads {} => {
                self.answer(pending, Message::ReadsUpTo { version: self.limits.reads });
                return Ok(None);
            }
            Message::Cancel { request } => {
                self.cancel(id, request);
                return Ok(None);
            }
            _ => return Err(NetError::protocol("a message that only opens a connection")),
        }))
    }

    /// Starts or answers what is next in the queue of an open file.
    fn advance_writes(&mut self, id: ConnectionId, handle: Option<u32>) {
        let Some(handle) = handle else { return };
        loop {
            let Some(connection) = self.connections.get_mut(&id) else { return };
            match connection.next_write(handle) {
                None => return,
                Some((pending, connection::Next::Disk(work))) => {
                    return self.queue.push(pending, work);
                }
                Some((pending, connection::Next::Answer(message))) => {
                    self.answer(&pending, message);
                }
                Some((pending, connection::Next::Drop(slot, lock))) => {
                    self.actions.push(Action::Drop { slot });
                    self.answer(&pending, Message::Done {});
                    self.claims.give_back(id, handle);
                    if lock {
                        self.locks.iter_mut().for_each(|(at, _)| *at = Duration::ZERO);
                    }
                }
            }
        }
    }

    /// Gives a name to a connection unless another one has it.
    fn claim(&mut self, now: Duration, name: (&str, [u8; 16]), by: &str, pending: &Pending) {
        let id = pending.connection;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.handles.len() >= self.limits.handles {
            let text = format!("{} files are open already", connection.handles.len());
            return self.answer(pending, failure::busy(&text));
        }
        let by = match connection.peer.address {
            Some(peer) => format!("{by} at {peer}"),
            None => by.to_owned(),
        };
        let handle = connection.name(self.next_slot, name.0);
        self.next_slot += 1;
        let answer = match self.claims.take(now, name, (id, handle), by) {
            Ok(()) => Message::Opened { handle, len: 0 },
            Err(by) => {
                connection.handles.remove(&handle);
                Message::Held { by }
            }
        };
        self.answer(pending, answer);
    }

    /// The answer to a connection that did not get the lock: from version 2 on with who has it.
    fn locked_out(&self, id: ConnectionId) -> Message {
        if self.connections.get(&id).is_none_or(|asks| asks.version < 2) {
            return Message::Busy {};
        }
        let mut others = self.connections.values().filter(|other| other.holds_lock());
        let by = match others.next().map(|other| other.peer.address) {
            Some(Some(peer)) => format!("a client at {peer}"),
            Some(None) => "a client".to_owned(),
            None => "another program on its machine".to_owned(),
        };
        Message::Held { by }
    }

    /// Withdraws a request that has not begun.
    fn cancel(&mut self, id: ConnectionId, request: u64) {
        let mine = |p: &Pending| p.connection == id && p.request == request;
        let waiting = self.locks.iter().position(|(_, pending)| mine(pending));
        let found = match waiting {
            Some(at) => Some(self.locks.remove(at).1),
            None => self.queue.remove(mine),
        };
        if let Some(pending) = found {
            self.abandon(&pending, failure::cancelled());
        }
    }

    /// Answers a request that was not begun; what it would have opened is forgotten.
    fn abandon(&mut self, pending: &Pending, message: Message) {
        self.answer(pending, message);
        if let Some(connection) = self.connections.get_mut(&pending.connection) {
            connection.abandoned(pending);
        }
        self.advance_writes(pending.connection, pending.handle);
    }

    fn start_jobs(&mut self, now: Duration) {
        while self.running.len() < self.limits.jobs {
            let Some((pending, work)) = self.queue.pop() else { break };
            if pending.deadline.is_some_and(|deadline| deadline < now) {
                self.counts.late += 1;
                self.abandon(&pending, failure::late());
                continue;
            }
            let job = self.next_job;
            self.next_job += 1;
            self.running.insert(job, pending);
            self.actions.push(Action::Start { job, work });
        }
    }

    fn finished(&mut self, now: Duration, job: JobId, outcome: Result<DiskDone, StoreError>) {
        let Some(pending) = self.running.remove(&job) else { return };
        if let Some(task) = pending.task {
            self.task_finished(now, task, outcome);
            return self.settle_aborts();
        }
        let Some(connection) = self.connections.get_mut(&pending.connection) else {
            // The client is gone; what was opened for it is closed.
            if let (Some(slot), Ok(DiskDone::Opened { .. } | DiskDone::Locked(true))) =
                (pending.slot, &outcome)
            {
                self.actions.push(Action::Drop { slot });
            }
            return;
        };
        if matches!(outcome, Ok(DiskDone::Locked(false))) && pending.wait {
            self.locks.push((now + LOCK_RETRY, pending));
            return;
        }
        connection.finished(&pending, &outcome);
        let (message, payload) = match outcome {
            Ok(DiskDone::Names { names, more }) => (Message::Names { names, more }, Bytes::new()),
            Ok(DiskDone::Room(space)) => {
                let Space { total, free } = space.unwrap_or_default();
                (Message::Room { known: space.is_some(), total, free }, Bytes::new())
            }
            Ok(DiskDone::Located(found)) => (Message::located(found), Bytes::new()),
            Ok(DiskDone::Bytes(bytes)) => (Message::Data {}, bytes),
            Ok(DiskDone::Resumed(stripes)) => (Message::Resumed { stripes }, Bytes::new()),
            Ok(DiskDone::Locked(false)) => (self.locked_out(pending.connection), Bytes::new()),
            Ok(DiskDone::Opened { len }) => {
                (Message::Opened { handle: pending.handle.unwrap_or(0), len }, Bytes::new())
            }
            Ok(DiskDone::Locked(true)) => {
                (Message::Opened { handle: pending.handle.unwrap_or(0), len: 0 }, Bytes::new())
            }
            // The others belong to tasks.
            Ok(_) => (Message::Done {}, Bytes::new()),
            Err(error) => (failed(&error), Bytes::new()),
        };
        self.counts.bytes_sent += payload.len() as u64;
        self.answer_with(&pending, message, payload);
        self.advance_writes(pending.connection, pending.handle);
    }

    fn answer(&mut self, pending: &Pending, message: Message) {
        self.answer_with(pending, message, Bytes::new());
    }

    fn answer_with(&mut self, pending: &Pending, message: Message, payload: Bytes) {
        self.counts.failed += u64::from(matches!(message, Message::Failed { .. }));
        let Some(connection) = self.connections.get(&pending.connection) else { return };
        let frame = Frame::new(pending.request, message).at(pending.priority).with(payload);
        let (connection, session) = (pending.connection, connection.session);
        self.actions.push(Action::Send { connection, session, frame });
    }

    fn tick(&mut self, now: Duration) {
        let expired = |(_, c): &(&ConnectionId, &Connection)| c.expires(&self.limits) <= now;
        let silent: Vec<_> = self.connections.iter().filter(expired).map(|(id, _)| *id).collect();
        for id in silent {
            self.expel(id, "nothing was received for too long");
        }
        self.task_tick(now);
        let due = self.locks.extract_if(.., |(at, _)| *at <= now).map(|(_, pending)| pending);
        for pending in due.collect::<Vec<_>>() {
            match pending.slot {
                Some(slot) => self.queue.push(pending, Disk::Lock { slot }),
                None => self.abandon(&pending, failure::cancelled()),
            }
        }
    }

    /// Closes a connection after a protocol violation.
    fn expel(&mut self, id: ConnectionId, why: &str) {
        self.counts.expelled += 1;
        self.actions.push(Action::Close { connection: id, why: why.to_owned() });
        self.forget(id);
    }

    /// Drops everything that a connection held. Jobs under way end by themselves.
    fn forget(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.remove(&id) else { return };
        self.queue.forget(id);
        self.claims.forget(id);
        self.forget_in_tasks(id);
        self.locks.retain(|(_, pending)| pending.connection != id);
        for slot in connection.slots() {
            self.actions.push(Action::Drop { slot });
        }
        // Perhaps a lock was among them.
        self.locks.iter_mut().for_each(|(at, _)| *at = Duration::ZERO);
    }
}

impl Pending {
    fn new(connection: ConnectionId, frame: &Frame, deadline: Option<Duration>) -> Pending {
        let priority = match frame.message {
            Message::Ping {} | Message::Cancel { .. } => Priority::Control,
            _ => frame.priority,
        };
        let wait = matches!(frame.message, Message::Lock { wait: true });
        let (handle, slot, task, request) = (None, None, None, frame.id);
        Pending { connection, request, priority, deadline, handle, slot, wait, task }
    }
}

#[cfg(test)]
mod tests;
