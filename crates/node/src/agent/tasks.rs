//! An agent's tasks: placed repairs that it takes part in.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kiln_store::{ShardInfo, StoreError};

use super::connection::Pending;
use super::shelf::Shelf;
use super::{Action, Agent, Disk, DiskDone, TaskId, failure};
use crate::proto::assignment::{ASSIGNMENT_MAX, Assignment, Slip};
use crate::proto::{Frame, Message, PAYLOAD_MAX, Priority, TaskState};
use crate::task::{PARCEL_MAX, Parcel, Stage, Task, Wish};
use crate::{NodeError, Result};

/// Tasks of an agent at once, at most.
const TASKS: usize = 64;
/// A task that no coordinator has looked at for so long is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// A parcel that could not be delivered is sent again after this time ...
const AGAIN: Duration = Duration::from_millis(500);
/// ... and so often; then the receiver is taken for lost.
const TRIES: u32 = 40;
/// A watcher hears from us after this time even if nothing happened ...
const NEWS: Duration = Duration::from_secs(1);
/// ... and not before this time unless the task has ended: each word costs some hundred bytes.
const CALM: Duration = Duration::from_millis(100);
/// Whoever asks for room hears from us after this time even if there is none.
const KNOCK: Duration = Duration::from_secs(20);

/// A task with all that hangs on it.
#[derive(Debug)]
pub(super) struct Held {
    task: Option<Task>,
    /// The assignment as far as it has arrived.
    arriving: BytesMut,
    preparing: Option<Pending>,
    /// Those who wait for room: for which window, and until when.
    knocks: Vec<(Pending, u64, Duration)>,
    watchers: Vec<Watcher>,
    /// Requests that wait for a disk job.
    commit: Option<Pending>,
    /// Parcels to send again, and when.
    again: Vec<(Duration, Parcel, u32)>,
    /// Tries that are left of parcels that failed before, by (window, piece, receiver, at).
    tries: BTreeMap<(u64, u32, u32, u32), u32>,
    failure: Option<Failure>,
    seen: Duration,
    /// Parcels for a node that fetches them.
    shelf: Shelf,
    /// Who waits for its result: a reader, or nobody but the repair.
    priority: Priority,
}

/// Somebody who wants to know how far a task is.
#[derive(Debug)]
struct Watcher {
    /// When it may hear of something new, and when it hears at the latest.
    from: Duration,
    until: Duration,
    /// Windows done, as it knows.
    seen: u64,
    pending: Pending,
}

/// Why a task failed, for the coordinator to decide on.
#[derive(Debug, Clone, Default)]
struct Failure {
    text: String,
    /// The node that could not be reached.
    peer: Option<u32>,
    /// The chunk that is damaged, and its stripe.
    chunk: Option<u32>,
    stripe: u64,
}

impl Agent {
    /// A request about a task. `Ok(false)`: it is none.
    pub(super) fn task_request(
        &mut self,
        now: Duration,
        frame: &Frame,
        pending: &Pending,
    ) -> Result<bool> {
        match &frame.message {
            Message::Assign { task, at, total } => {
                self.assign(now, *task, (*at, *total), &frame.payload, pending)?;
            }
            Message::Start { task } => self.with_task(now, *task, pending, |task| task.start(now)),
            Message::Throttle { task, rate } => {
                let rate = *rate;
                self.with_task(now, *task, pending, |task| task.throttle(now, rate));
            }
            Message::Push { task, window, piece, at, total } => {
                let (window, piece, at, total) = (*window, *piece, *at, *total);
                let bytes = frame.payload.clone();
                let parcel = Parcel { window, piece, to: 0, at, total, bytes };
                self.parcels(now, *task, vec![parcel], pending)?;
            }
            Message::Bundle { task, window, slips } => {
                let parcels = unbundled(*window, slips, &frame.payload)?;
                self.parcels(now, *task, parcels, pending)?;
            }
            Message::Fetch { task, below, max } => {
                if !(PARCEL_MAX..=PAYLOAD_MAX).contains(&(*max as usize)) {
                    let what = format!("{PARCEL_MAX} to {PAYLOAD_MAX} bytes can be fetched");
                    return Err(NodeError::protocol(what));
                }
                self.fetch(now, *task, *below, *max, pending);
            }
            Message::Watch { task, seen, wait_ms } => {
                self.watch(now, *task, *seen, *wait_ms, pending);
            }
            Message::Commit { task } => self.commit(*task, pending),
            Message::Resume { part, chunk, geometry } => {
                let info = Box::new(geometry.shard(*chunk));
                self.resume(part.clone(), info, pending);
            }
            Message::Abort { task } => {
                self.forget_task(*task, "it was called off");
                self.aborting.push((*task, pending.clone()));
                self.settle_aborts();
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn assign(
        &mut self,
        now: Duration,
        id: TaskId,
        (at, total): (u64, u64),
        bytes: &[u8],
        pending: &Pending,
    ) -> Result<()> {
        if total > ASSIGNMENT_MAX as u64 {
            return Err(NodeError::protocol("an assignment that is too long"));
        }
        if !self.tasks.contains_key(&id) && self.tasks.len() >= TASKS {
            self.answer(pending, failure::busy("too many tasks"));
            return Ok(());
        }
        let held = self.tasks.entry(id).or_insert_with(|| Held::new(now));
        held.seen = now;
        // Whoever hands out the task says for whom it is done.
        held.priority = match pending.priority {
            Priority::Client => Priority::Client,
            _ => Priority::Repair,
        };
        if held.task.is_some() || held.preparing.is_some() || held.arriving.len() as u64 != at {
            return Err(NodeError::protocol("an assignment out of order"));
        }
        held.arriving.extend_from_slice(bytes);
        if (held.arriving.len() as u64) < total {
            self.answer(pending, Message::Done {});
            return Ok(());
        }
        let spec = Assignment::decode(&std::mem::take(&mut held.arriving));
        let ready = spec.and_then(|spec| Task::new(Arc::new(spec)));
        let ready = ready.map(|task| task.under(self.clocks.clone()));
        if let Ok(task) = &ready
            && self.others_write(task.spec())
        {
            self.tasks.remove(&id);
            self.answer(pending, failure::busy("another task writes that shard"));
            return Ok(());
        }
        let Some(held) = self.tasks.get_mut(&id) else { return Ok(()) };
        match ready {
            Ok(task) => {
                let spec = Arc::clone(task.spec());
                held.task = Some(task);
                held.preparing = Some(pending.clone());
                self.task_job(id, Disk::Prepare { task: id, spec });
            }
            Err(error) => {
                self.tasks.remove(&id);
                self.answer(pending, failure::refused(&error.to_string()));
            }
        }
        Ok(())
    }

    /// Whether another task writes to one of the parts that this one is to write.
    fn others_write(&self, spec: &Assignment) -> bool {
        let parts = |held: &Held| held.task.as_ref().map(|task| Arc::clone(task.spec()));
        let others = self.tasks.values().filter_map(parts);
        let mut written = others.flat_map(|other| other.targets.clone());
        written.any(|file| spec.targets.iter().any(|target| target.part == file.part))
    }

    /// Ends the tasks that write a part and then looks at it.
    fn resume(&mut self, part: String, info: Box<ShardInfo>, pending: &Pending) {
        let writes = |held: &Held| {
            let task = held.task.as_ref();
            task.is_some_and(|task| task.spec().targets.iter().any(|file| file.part == part))
        };
        let writers = self.tasks.iter().filter(|(_, held)| writes(held)).map(|(id, _)| *id);
        let writers: Vec<TaskId> = writers.collect();
        writers.iter().for_each(|id| self.forget_task(*id, "another task takes its place"));
        self.resuming.push((writers, pending.clone(), Disk::Resume { part, info }));
        self.settle_aborts();
    }

    /// Does something with a task, and what it then wishes.
    fn with_task(
        &mut self,
        now: Duration,
        id: TaskId,
        pending: &Pending,
        change: impl FnOnce(&mut Task) -> Vec<Wish>,
    ) {
        let Some(held) = self.tasks.get_mut(&id) else {
            return self.answer(pending, failure::gone());
        };
        held.seen = now;
        match held.task.as_mut().filter(|_| held.preparing.is_none()) {
            Some(task) => {
                let wishes = change(task);
                self.answer(pending, Message::Done {});
                self.grant(now, id, wishes);
            }
            None => self.answer(pending, failure::busy("the task is not ready")),
        }
    }

    fn parcels(
        &mut self,
        now: Duration,
        id: TaskId,
        parcels: Vec<Parcel>,
        pending: &Pending,
    ) -> Result<()> {
        self.counts.bytes_received += parcels.iter().map(|p| p.bytes.len() as u64).sum::<u64>();
        let Some(held) = self.tasks.get_mut(&id) else {
            self.answer(pending, failure::gone());
            return Ok(());
        };
        let Some(task) = &mut held.task else {
            self.answer(pending, failure::busy("the task is not ready"));
            return Ok(());
        };
        let mut more = Vec::new();
        let last = parcels.first().map_or(0, |parcel| parcel.window);
        let asks = parcels.iter().all(|parcel| parcel.bytes.is_empty());
        if last >= task.upto() {
            match asks {
                true => held.knocks.push((pending.clone(), last, now + KNOCK)),
                // Whoever asks first never comes here.
                false => self.answer(pending, failure::busy("there is no room for that window")),
            }
            return Ok(());
        }
        for parcel in parcels.into_iter().filter(|_| !asks) {
            more.extend(task.parcel(now, parcel)?);
        }
        let upto = task.upto();
        self.answer(pending, Message::Taken { upto });
        self.grant(now, id, more);
        Ok(())
    }

    fn watch(&mut self, now: Duration, id: TaskId, seen: u64, wait_ms: u32, pending: &Pending) {
        let Some(held) = self.tasks.get_mut(&id) else {
            return self.answer(pending, failure::gone());
        };
        held.seen = now;
        let until = now + Duration::from_millis(u64::from(wait_ms)).min(NEWS);
        held.watchers.push(Watcher { from: now + CALM, until, seen, pending: pending.clone() });
        self.tell(now, id);
    }

    /// Answers those who watch, if there is something new.
    fn tell(&mut self, now: Duration, id: TaskId) {
        let Some(held) = self.tasks.get_mut(&id) else { return };
        let news = held.progress();
        let Message::Progress { done, state, .. } = &news else { return };
        let (done, ended) = (*done, state.is_over());
        let due = |watcher: &mut Watcher| ended || watcher.due(done) <= now;
        let due: Vec<_> = held.watchers.extract_if(.., due).collect();
        for watcher in due {
            self.answer(&watcher.pending, news.clone());
        }
    }

    fn fetch(&mut self, now: Duration, id: TaskId, below: u64, max: u32, pending: &Pending) {
        let Some(held) = self.tasks.get_mut(&id) else {
            return self.answer(pending, failure::gone());
        };
        held.seen = now;
        held.shelf.ask(pending.clone(), below, max, now + NEWS);
        self.grant(now, id, Vec::new());
    }

    /// Gives those who fetch what is there for them; what the task then wishes.
    fn hand_out(&mut self, id: TaskId, now: Duration) -> Vec<Wish> {
        let mut wishes = Vec::new();
        while let Some(held) = self.tasks.get_mut(&id) {
            let Some((pending, parcels)) = held.shelf.next(now) else { break };
            let mut bytes = 0;
            for parcel in &parcels {
                bytes += parcel.bytes.len() as u64;
                let (window, len) = (parcel.window, parcel.bytes.len());
                let sent = held.task.as_mut().map(|task| task.sent(now, window, len));
                wishes.extend(sent.unwrap_or_default());
            }
            self.counts.bytes_sent += bytes;
            let (window, slips, payload) = bundled(&parcels);
            self.answer_with(&pending, Message::Fetched { window, slips }, payload);
        }
        wishes
    }

    fn commit(&mut self, id: TaskId, pending: &Pending) {
        let Some(held) = self.tasks.get_mut(&id) else {
            return self.answer(pending, failure::gone());
        };
        let done = held.task.as_ref().is_some_and(|task| task.stage() == Stage::Done);
        if !done || held.commit.is_some() {
            return self.answer(pending, failure::busy("the task is not done"));
        }
        held.commit = Some(pending.clone());
        self.task_job(id, Disk::Commit { task: id });
    }

    fn task_job(&mut self, id: TaskId, work: Disk) {
        let pending = Pending {
            connection: 0,
            request: 0,
            priority: self.tasks.get(&id).map_or(Priority::Repair, |held| held.priority),
            deadline: None,
            handle: None,
            slot: None,
            wait: false,
            task: Some(id),
        };
        self.queue.push(pending, work);
    }

    /// Turns wishes into jobs and parcels.
    fn grant(&mut self, now: Duration, id: TaskId, wishes: Vec<Wish>) {
        let mut wishes = VecDeque::from(wishes);
        loop {
            let Some(wish) = wishes.pop_front() else {
                wishes.extend(self.hand_out(id, now));
                if wishes.is_empty() {
                    break;
                }
                continue;
            };
            match wish {
                Wish::Load(window) => self.task_job(id, Disk::Load { task: id, window }),
                Wish::Compute { window, round, inputs } => {
                    self.task_job(id, Disk::Compute { task: id, window, round, inputs });
                }
                Wish::Persist { window, round, pieces } => {
                    self.task_job(id, Disk::Persist { task: id, window, round, pieces });
                }
                Wish::Finish => self.task_job(id, Disk::Finish { task: id }),
                Wish::Push(parcel) => self.push(id, parcel, TRIES),
            }
        }
        self.let_in(now, id);
        self.tell(now, id);
    }

    fn push(&mut self, id: TaskId, parcel: Parcel, tries: u32) {
        let Some(held) = self.tasks.get_mut(&id) else { return };
        let Some(task) = &held.task else { return };
        let peer = task.spec().peers.iter().find(|peer| peer.node == parcel.to);
        let Some(address) = peer.map(|peer| peer.address.clone()) else { return };
        let key = (parcel.window, parcel.piece, parcel.to, parcel.at);
        if address.is_empty() {
            return held.shelf.put(parcel);
        }
        if tries < TRIES {
            held.tries.insert(key, tries);
        }
        self.outbox.put(id, &address, parcel);
    }

    /// Sends what may be sent now.
    pub(super) fn send_parcels(&mut self) {
        for address in self.outbox.addresses() {
            while let Some((task, parcels)) = self.outbox.next(&address) {
                self.counts.bytes_sent += parcels.iter().map(|p| p.bytes.len() as u64).sum::<u64>();
                self.actions.push(Action::Push { task, address: address.clone(), parcels });
            }
        }
    }

    /// Answers those for whose windows there is room now, or who waited long enough.
    fn let_in(&mut self, now: Duration, id: TaskId) {
        let Some(held) = self.tasks.get_mut(&id) else { return };
        let Some(upto) = held.task.as_ref().map(Task::upto) else { return };
        let due =
            |(_, window, until): &mut (Pending, u64, Duration)| *window < upto || *until <= now;
        let due: Vec<_> = held.knocks.extract_if(.., due).collect();
        due.iter().for_each(|(pending, ..)| self.answer(pending, Message::Taken { upto }));
    }

    /// The answer to parcels.
    pub(super) fn pushed(
        &mut self,
        now: Duration,
        id: TaskId,
        parcels: Vec<Parcel>,
        answer: Result<u64>,
    ) {
        let Some(held) = self.tasks.get_mut(&id) else { return };
        let mut more = Vec::new();
        for parcel in parcels {
            let key = (parcel.window, parcel.piece, parcel.to, parcel.at);
            let tries = held.tries.remove(&key).unwrap_or(TRIES);
            match &answer {
                // It only asked.
                Ok(_) if parcel.bytes.is_empty() => {}
                Ok(_) => {
                    let (window, bytes) = (parcel.window, parcel.bytes.len());
                    let wishes = held.task.as_mut().map(|task| task.sent(now, window, bytes));
                    more.extend(wishes.unwrap_or_default());
                }
                Err(error) if error.is_retryable() && tries > 1 => {
                    held.again.push((now + AGAIN, parcel, tries - 1));
                }
                Err(error) => {
                    let (text, peer) = (error.to_string(), Some(parcel.to));
                    return self.fail(now, id, Failure { text, peer, ..Failure::default() });
                }
            }
        }
        self.grant(now, id, more);
    }

    /// A job of a task ended.
    pub(super) fn task_finished(
        &mut self,
        now: Duration,
        id: TaskId,
        outcome: Result<DiskDone, StoreError>,
    ) {
        let Some(held) = self.tasks.get_mut(&id) else { return };
        let Some(task) = &mut held.task else { return };
        let wishes = match outcome {
            Ok(DiskDone::Prepared) => {
                if let Some(pending) = held.preparing.take() {
                    self.answer(&pending, Message::Done {});
                }
                Vec::new()
            }
            Ok(DiskDone::Loaded { window, pieces }) => task.loaded(now, window, pieces),
            Ok(DiskDone::Computed { window, made }) => task.computed(now, window, made),
            Ok(DiskDone::Persisted { window, bytes }) => task.kept(now, window, bytes),
            Ok(DiskDone::TaskFinished) => {
                task.finished();
                Vec::new()
            }
            Ok(_) => {
                if let Some(pending) = held.commit.take() {
                    self.answer(&pending, Message::Done {});
                }
                Vec::new()
            }
            Err(error) => {
                let chunk = task.spec().sources.first().map(|source| source.chunk);
                let (chunk, stripe) = match &error {
                    StoreError::BadSubChunks { stripe, .. } => (chunk, *stripe),
                    error if error.is_damage() => (chunk, 0),
                    _ => (None, 0),
                };
                let failure = Failure { text: error.to_string(), peer: None, chunk, stripe };
                return self.fail(now, id, failure);
            }
        };
        self.grant(now, id, wishes);
    }

    fn fail(&mut self, now: Duration, id: TaskId, why: Failure) {
        let Some(held) = self.tasks.get_mut(&id) else { return };
        let text = why.text.clone();
        held.failure.get_or_insert(why);
        let waiting: Vec<_> = held.preparing.take().into_iter().chain(held.commit.take()).collect();
        waiting.iter().for_each(|pending| self.answer(pending, failure::refused(&text)));
        self.tell(now, id);
    }

    /// Ends a task without its result.
    fn forget_task(&mut self, id: TaskId, why: &str) {
        let Some(held) = self.tasks.remove(&id) else { return };
        self.queue.forget_task(id);
        self.outbox.forget(id);
        let waiting = held.knocks.into_iter().map(|(pending, ..)| pending);
        let waiting = waiting.chain(held.watchers.into_iter().map(|watcher| watcher.pending));
        let waiting = waiting.chain(held.shelf.close());
        for pending in waiting.chain(held.preparing).chain(held.commit) {
            self.answer(&pending, failure::refused(why));
        }
        self.actions.push(Action::Forget { task: id });
    }

    /// Answers those whose tasks have ended for good: no job of theirs may still write to a part
    /// when the next task begins it anew.
    pub(super) fn settle_aborts(&mut self) {
        let running = &self.running;
        let over = |(id, _): &mut (TaskId, Pending)| {
            !running.values().any(|pending| pending.task == Some(*id))
        };
        let over: Vec<_> = self.aborting.extract_if(.., over).collect();
        over.iter().for_each(|(_, pending)| self.answer(pending, Message::Done {}));
        let running = &self.running;
        let over = |(ids, ..): &mut (Vec<TaskId>, Pending, Disk)| {
            let works = |pending: &Pending| pending.task.is_some_and(|id| ids.contains(&id));
            !running.values().any(works)
        };
        let over: Vec<_> = self.resuming.extract_if(.., over).collect();
        over.into_iter().for_each(|(_, pending, work)| self.queue.push(pending, work));
    }

    /// What is due for tasks when time has passed.
    pub(super) fn task_tick(&mut self, now: Duration) {
        for id in self.tasks.keys().copied().collect::<Vec<_>>() {
            let Some(held) = self.tasks.get_mut(&id) else { continue };
            if held.seen + FORGOTTEN <= now {
                self.forget_task(id, "its coordinator is gone");
                continue;
            }
            let due: Vec<_> = held.again.extract_if(.., |(at, ..)| *at <= now).collect();
            let running = held.task.as_mut().filter(|_| held.failure.is_none());
            let wishes = running.map(|task| task.go_on(now)).unwrap_or_default();
            due.into_iter().for_each(|(_, parcel, tries)| self.push(id, parcel, tries));
            self.grant(now, id, wishes);
        }
    }

    /// The limit lets something begin before its time.
    pub(super) fn tasks_go_on(&mut self, now: Duration) {
        for id in self.tasks.keys().copied().collect::<Vec<_>>() {
            let Some(held) = self.tasks.get_mut(&id) else { continue };
            let running = held.task.as_mut().filter(|_| held.failure.is_none());
            let wishes = running.map(|task| task.go_on(now)).unwrap_or_default();
            self.grant(now, id, wishes);
        }
    }

    /// When [`Agent::task_tick`] is due.
    pub(super) fn tasks_wake_at(&self) -> Option<Duration> {
        let each = self.tasks.values().map(|held| {
            let again = held.again.iter().map(|(at, ..)| *at);
            let done = held.task.as_ref().map_or(0, |task| task.amounts().windows);
            let watchers = held.watchers.iter().map(|watcher| watcher.due(done));
            let paced = held.task.iter().filter_map(Task::wake_at);
            let knocks = held.knocks.iter().map(|(.., until)| *until);
            let again = again.chain(knocks).chain(held.shelf.wake_at());
            let paced = paced.filter(|_| held.failure.is_none());
            let all = again.chain(watchers).chain(paced);
            all.fold(held.seen + FORGOTTEN, Duration::min)
        });
        each.min()
    }

    /// Requests of a connection that ended are answered by nobody.
    pub(super) fn forget_in_tasks(&mut self, connection: super::ConnectionId) {
        let other = |pending: &Pending| pending.connection != connection;
        for held in self.tasks.values_mut() {
            held.knocks.retain(|(pending, ..)| other(pending));
            held.watchers.retain(|watcher| other(&watcher.pending));
            held.shelf.forget(connection);
        }
    }
}

impl Watcher {
    /// When it is answered if this many windows are done.
    fn due(&self, done: u64) -> Duration {
        if done > self.seen { self.from.min(self.until) } else { self.until }
    }
}

impl Held {
    fn new(now: Duration) -> Held {
        Held {
            task: None,
            arriving: BytesMut::new(),
            preparing: None,
            knocks: Vec::new(),
            watchers: Vec::new(),
            commit: None,
            again: Vec::new(),
            tries: BTreeMap::new(),
            failure: None,
            seen: now,
            shelf: Shelf::default(),
            priority: Priority::Repair,
        }
    }

    fn progress(&self) -> Message {
        let amounts = self.task.as_ref().map(Task::amounts).unwrap_or_default();
        let failure = self.failure.clone().unwrap_or_default();
        let state = match (self.task.as_ref().map(Task::stage), &self.failure) {
            (_, Some(_)) => TaskState::Failed,
            (Some(Stage::Done), _) => TaskState::Done,
            (Some(Stage::Running | Stage::Finishing), _) => TaskState::Running,
            (Some(Stage::Ready), _) => TaskState::Ready,
            (None, _) => TaskState::Arriving,
        };
        Message::Progress {
            state,
            done: amounts.windows,
            total: self.task.as_ref().map_or(0, Task::total),
            read: amounts.read,
            sent: amounts.sent,
            received: amounts.received,
            written: amounts.written,
            text: failure.text,
            peer: failure.peer,
            chunk: failure.chunk,
            stripe: failure.stripe,
            waits: self.task.as_ref().is_some_and(Task::waits),
        }
    }
}

/// Parcels of one window, for the wire; at least one.
pub(crate) fn push_message(task: TaskId, parcels: &[Parcel]) -> (Message, Bytes) {
    if let [Parcel { window, piece, at, total, bytes, .. }] = parcels {
        let (window, piece, at, total) = (*window, *piece, *at, *total);
        return (Message::Push { task, window, piece, at, total }, bytes.clone());
    }
    let (window, slips, payload) = bundled(parcels);
    (Message::Bundle { task, window, slips }, payload)
}

/// The window of parcels, what they are, and their bytes one after the other.
fn bundled(parcels: &[Parcel]) -> (u64, Vec<Slip>, Bytes) {
    let mut payload = BytesMut::with_capacity(parcels.iter().map(|p| p.bytes.len()).sum());
    let slip = |parcel: &Parcel| {
        payload.extend_from_slice(&parcel.bytes);
        let (piece, at, total) = (parcel.piece, parcel.at, parcel.total);
        Slip { piece, at, total, len: parcel.bytes.len() as u32 }
    };
    let slips = parcels.iter().map(slip).collect();
    (parcels.first().map_or(0, |parcel| parcel.window), slips, payload.freeze())
}

/// Below which window the receiver of parcels has room.
pub(crate) fn push_answer(frame: &Frame) -> Result<u64> {
    match frame.message {
        Message::Taken { upto } => Ok(upto),
        ref other => Err(NodeError::protocol(format!("{} to a Push", other.name()))),
    }
}

/// The parcels of a bundle.
pub(crate) fn unbundled(window: u64, slips: &[Slip], payload: &Bytes) -> Result<Vec<Parcel>> {
    let lengths = slips.iter().try_fold(0usize, |sum, slip| sum.checked_add(slip.len as usize));
    if lengths != Some(payload.len()) || slips.is_empty() {
        return Err(NodeError::protocol("a bundle whose parcels do not fill it"));
    }
    let mut rest = payload.clone();
    let parcel = |slip: &Slip| {
        let Slip { piece, at, total, len } = *slip;
        Parcel { window, piece, to: 0, at, total, bytes: rest.split_to(len as usize) }
    };
    Ok(slips.iter().map(parcel).collect())
}
