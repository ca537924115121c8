//! An agent's tasks: placed repairs that it takes part in.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kiln_store::{ShardInfo, StoreError};

use super::connection::Pending;
use super::fetch_queue::FetchQueue;
use super::{Action, Agent, ConnectionId, Disk, DiskDone, TaskId, failure};
use crate::proto::{Frame, Message, PAYLOAD_MAX, Priority, TaskState};
use crate::task::{Effect, FRAGMENT_MAX, Fragment, Task, TaskPhase};
use crate::{NetError, Result, proto::assignment::FragmentHeader};

/// A task that no coordinator has looked at for so long is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// A fragment that could not be delivered is sent again after this time ...
const AGAIN: Duration = Duration::from_millis(500);
/// ... and this many times; then the receiver counts as lost.
const TRIES: u32 = 40;
/// A request for progress is answered after this time, and not before unless the task has ended:
/// question and answer are some 500 bytes on the links, and a coordinator has as many of them under
/// way as it has jobs times nodes.
const NEWS: Duration = Duration::from_secs(2);
/// A Fetch is answered after this time even if there is nothing.
const FETCH_WAIT: Duration = Duration::from_secs(1);
/// A credit request is answered after this time even if there is no credit.
const CREDIT_WAIT: Duration = Duration::from_secs(20);

/// A task with everything that belongs to it.
#[derive(Debug)]
pub(super) struct Held {
    pub task: Option<Task>,
    /// The assignment as far as it has arrived.
    pub arriving: BytesMut,
    /// The connection that assigned it.
    pub owner: ConnectionId,
    /// Bytes of the assignment, so far.
    pub assigned: u64,
    pub preparing: Option<Pending>,
    /// Credit requests that wait: for which window, and until when.
    credit_requests: Vec<(Pending, u64, Duration)>,
    watchers: Vec<Watcher>,
    /// Requests that wait for a disk job.
    commit: Option<Pending>,
    /// Fragments to send again, and when.
    again: Vec<(Duration, Fragment, u32)>,
    /// Tries that are left of fragments that failed before, by (window, piece, receiver, at).
    tries: BTreeMap<(u64, u32, u32, u32), u32>,
    failure: Option<Failure>,
    pub seen: Duration,
    /// Fragments for a node that fetches them.
    fetch_queue: FetchQueue,
    /// Priority of its result: that of a reader, or of repair.
    pub priority: Priority,
}

/// A request for the progress of a task.
#[derive(Debug)]
struct Watcher {
    /// When it hears.
    until: Duration,
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
                let fragment = Fragment { window, piece, to: 0, at, total, bytes };
                self.fragments(now, *task, vec![fragment], pending)?;
            }
            Message::Bundle { task, window, headers } => {
                let fragments = unbundled(*window, headers, &frame.payload)?;
                self.fragments(now, *task, fragments, pending)?;
            }
            Message::Fetch { task, below, max } => {
                if !(FRAGMENT_MAX..=PAYLOAD_MAX).contains(&(*max as usize)) {
                    let what = format!("{FRAGMENT_MAX} to {PAYLOAD_MAX} bytes can be fetched");
                    return Err(NetError::protocol(what));
                }
                self.fetch(now, *task, *below, *max, pending);
            }
            Message::Watch { task, wait_ms, .. } => self.watch(now, *task, *wait_ms, pending),
            Message::Commit { task } => self.commit(*task, pending),
            Message::Resume { part, chunk, geometry } => {
                let info = Box::new(geometry.shard(*chunk));
                self.resume(part.clone(), info, pending);
            }
            Message::Abort { task } => {
                self.forget_task(*task, "it was cancelled");
                self.aborting.push((*task, pending.clone()));
                self.settle_aborts();
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Ends the tasks that write a part and then looks at it.
    fn resume(&mut self, part: String, info: Box<ShardInfo>, pending: &Pending) {
        let writes = |held: &Held| {
            let task = held.task.as_ref();
            task.is_some_and(|task| task.spec().targets.iter().any(|file| file.part == part))
        };
        let writers = self.tasks.iter().filter(|(_, held)| writes(held)).map(|(id, _)| *id);
        let writers: Vec<TaskId> = writers.collect();
        writers.iter().for_each(|id| self.forget_task(*id, "another task replaces it"));
        self.resuming.push((writers, pending.clone(), Disk::Resume { part, info }));
        self.settle_aborts();
    }

    /// Runs a step of a task, and carries out the effects that it asks for.
    fn with_task(
        &mut self,
        now: Duration,
        id: TaskId,
        pending: &Pending,
        change: impl FnOnce(&mut Task) -> Vec<Effect>,
    ) {
        let Some(held) = self.tasks.get_mut(&id) else {
            return self.answer(pending, failure::gone());
        };
        held.seen = now;
        match held.task.as_mut().filter(|_| held.preparing.is_none()) {
            Some(task) => {
                let effects = change(task);
                self.answer(pending, Message::Done {});
                self.grant(now, id, effects);
            }
            None => self.answer(pending, failure::busy("the task is not ready")),
        }
    }

    fn fragments(
        &mut self,
        now: Duration,
        id: TaskId,
        fragments: Vec<Fragment>,
        pending: &Pending,
    ) -> Result<()> {
        self.counts.bytes_received += fragments.iter().map(|p| p.bytes.len() as u64).sum::<u64>();
        let Some(held) = self.tasks.get_mut(&id) else {
            self.answer(pending, failure::gone());
            return Ok(());
        };
        let Some(task) = &mut held.task else {
            self.answer(pending, failure::busy("the task is not ready"));
            return Ok(());
        };
        let mut more = Vec::new();
        let last = fragments.first().map_or(0, |fragment| fragment.window);
        let asks = fragments.iter().all(|fragment| fragment.bytes.is_empty());
        if last >= task.upto() {
            match asks {
                true => held.credit_requests.push((pending.clone(), last, now + CREDIT_WAIT)),
                // A sender that asks for credit first never gets here.
                false => {
                    self.answer(pending, failure::busy("the window is beyond the credit granted"))
                }
            }
            return Ok(());
        }
        for fragment in fragments.into_iter().filter(|_| !asks) {
            more.extend(task.fragment(now, fragment)?);
        }
        let upto = task.upto();
        self.answer(pending, Message::Taken { upto });
        self.grant(now, id, more);
        Ok(())
    }

    fn watch(&mut self, now: Duration, id: TaskId, wait_ms: u32, pending: &Pending) {
        let Some(held) = self.tasks.get_mut(&id) else {
            return self.answer(pending, failure::gone());
        };
        held.seen = now;
        let until = now + Duration::from_millis(u64::from(wait_ms)).min(NEWS);
        held.watchers.push(Watcher { until, pending: pending.clone() });
        self.tell(now, id);
    }

    /// Answers those who watch, if it is time or the task has ended.
    fn tell(&mut self, now: Duration, id: TaskId) {
        let Some(held) = self.tasks.get_mut(&id) else { return };
        let news = held.progress();
        let Message::Progress { state, .. } = &news else { return };
        let ended = state.is_over();
        let due = |watcher: &mut Watcher| ended || watcher.until <= now;
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
        held.fetch_queue.ask(pending.clone(), below, max, now + FETCH_WAIT);
        self.grant(now, id, Vec::new());
    }

    /// Answers fetch requests with what is ready, and carries out the task's effects.
    fn hand_out(&mut self, id: TaskId, now: Duration) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some(held) = self.tasks.get_mut(&id) {
            let Some((pending, fragments)) = held.fetch_queue.next(now) else { break };
            let mut bytes = 0;
            for fragment in &fragments {
                bytes += fragment.bytes.len() as u64;
                let (window, len) = (fragment.window, fragment.bytes.len());
                let sent = held.task.as_mut().map(|task| task.sent(now, window, len));
                effects.extend(sent.unwrap_or_default());
            }
            self.counts.bytes_sent += bytes;
            let (window, headers, payload) = bundled(&fragments);
            self.answer_with(&pending, Message::Fetched { window, headers }, payload);
        }
        effects
    }

    fn commit(&mut self, id: TaskId, pending: &Pending) {
        let Some(held) = self.tasks.get_mut(&id) else {
            return self.answer(pending, failure::gone());
        };
        let done = held.task.as_ref().is_some_and(|task| task.state() == TaskPhase::Done);
        if !done || held.commit.is_some() {
            return self.answer(pending, failure::busy("the task is not done"));
        }
        held.commit = Some(pending.clone());
        self.task_job(id, Disk::Commit { task: id });
    }

    pub(super) fn task_job(&mut self, id: TaskId, work: Disk) {
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

    /// Turns effects into disk jobs and fragments to send.
    fn grant(&mut self, now: Duration, id: TaskId, effects: Vec<Effect>) {
        let mut effects = VecDeque::from(effects);
        loop {
            let Some(effect) = effects.pop_front() else {
                effects.extend(self.hand_out(id, now));
                if effects.is_empty() {
                    break;
                }
                continue;
            };
            match effect {
                Effect::Load(window) => self.task_job(id, Disk::Load { task: id, window }),
                Effect::Compute { window, round, inputs } => {
                    self.task_job(id, Disk::Compute { task: id, window, round, inputs });
                }
                Effect::Persist { window, round, pieces } => {
                    self.task_job(id, Disk::Persist { task: id, window, round, pieces });
                }
                Effect::Finish => self.task_job(id, Disk::Finish { task: id }),
                Effect::Push(fragment) => self.push(id, fragment, TRIES),
            }
        }
        self.let_in(now, id);
        self.tell(now, id);
    }

    fn push(&mut self, id: TaskId, fragment: Fragment, tries: u32) {
        let Some(held) = self.tasks.get_mut(&id) else { return };
        let Some(task) = &held.task else { return };
        let peer = task.spec().peers.iter().find(|peer| peer.node == fragment.to);
        let Some(address) = peer.map(|peer| peer.address.clone()) else { return };
        let key = (fragment.window, fragment.piece, fragment.to, fragment.at);
        if address.is_empty() {
            return held.fetch_queue.put(fragment);
        }
        if tries < TRIES {
            held.tries.insert(key, tries);
        }
        self.outbox.put(id, &address, fragment);
    }

    /// Sends what may be sent now.
    pub(super) fn send_fragments(&mut self) {
        for address in self.outbox.addresses() {
            while let Some((task, fragments)) = self.outbox.next(&address) {
                self.counts.bytes_sent +=
                    fragments.iter().map(|p| p.bytes.len() as u64).sum::<u64>();
                self.actions.push(Action::Push { task, address: address.clone(), fragments });
            }
        }
    }

    /// Answers those for whose windows there is room now, or who waited long enough.
    fn let_in(&mut self, now: Duration, id: TaskId) {
        let Some(held) = self.tasks.get_mut(&id) else { return };
        let Some(upto) = held.task.as_ref().map(Task::upto) else { return };
        let due =
            |(_, window, until): &mut (Pending, u64, Duration)| *window < upto || *until <= now;
        let due: Vec<_> = held.credit_requests.extract_if(.., due).collect();
        due.iter().for_each(|(pending, ..)| self.answer(pending, Message::Taken { upto }));
    }

    /// The answer to fragments.
    pub(super) fn pushed(
        &mut self,
        now: Duration,
        id: TaskId,
        fragments: Vec<Fragment>,
        answer: Result<u64>,
    ) {
        let Some(held) = self.tasks.get_mut(&id) else { return };
        let mut more = Vec::new();
        for fragment in fragments {
            let key = (fragment.window, fragment.piece, fragment.to, fragment.at);
            let tries = held.tries.remove(&key).unwrap_or(TRIES);
            match &answer {
                // It only asked.
                Ok(_) if fragment.bytes.is_empty() => {}
                Ok(_) => {
                    let (window, bytes) = (fragment.window, fragment.bytes.len());
                    let effects = held.task.as_mut().map(|task| task.sent(now, window, bytes));
                    more.extend(effects.unwrap_or_default());
                }
                Err(error) if error.is_retryable() && tries > 1 => {
                    held.again.push((now + AGAIN, fragment, tries - 1));
                }
                Err(error) => {
                    let (text, peer) = (error.to_string(), Some(fragment.to));
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
        let effects = match outcome {
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
        self.grant(now, id, effects);
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
        let waiting = held.credit_requests.into_iter().map(|(pending, ..)| pending);
        let waiting = waiting.chain(held.watchers.into_iter().map(|watcher| watcher.pending));
        let waiting = waiting.chain(held.fetch_queue.close());
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

    /// Does what is due for tasks when time has passed.
    pub(super) fn task_tick(&mut self, now: Duration) {
        for id in self.tasks.keys().copied().collect::<Vec<_>>() {
            let Some(held) = self.tasks.get_mut(&id) else { continue };
            if held.seen + FORGOTTEN <= now {
                self.forget_task(id, "no coordinator asked for it for too long");
                continue;
            }
            let due: Vec<_> = held.again.extract_if(.., |(at, ..)| *at <= now).collect();
            let running = held.task.as_mut().filter(|_| held.failure.is_none());
            let effects = running.map(|task| task.go_on(now)).unwrap_or_default();
            due.into_iter().for_each(|(_, fragment, tries)| self.push(id, fragment, tries));
            self.grant(now, id, effects);
        }
    }

    /// The limit lets something begin before its time.
    pub(super) fn tasks_go_on(&mut self, now: Duration) {
        for id in self.tasks.keys().copied().collect::<Vec<_>>() {
            let Some(held) = self.tasks.get_mut(&id) else { continue };
            let running = held.task.as_mut().filter(|_| held.failure.is_none());
            let effects = running.map(|task| task.go_on(now)).unwrap_or_default();
            self.grant(now, id, effects);
        }
    }

    /// When [`Agent::task_tick`] is due.
    pub(super) fn tasks_wake_at(&self) -> Option<Duration> {
        let each = self.tasks.values().map(|held| {
            let again = held.again.iter().map(|(at, ..)| *at);
            let watchers = held.watchers.iter().map(|watcher| watcher.until);
            let paced = held.task.iter().filter_map(Task::wake_at);
            let credit_requests = held.credit_requests.iter().map(|(.., until)| *until);
            let again = again.chain(credit_requests).chain(held.fetch_queue.wake_at());
            let paced = paced.filter(|_| held.failure.is_none());
            let all = again.chain(watchers).chain(paced);
            all.fold(held.seen + FORGOTTEN, Duration::min)
        });
        each.min()
    }

    /// Requests of a connection that ended get no answer.
    pub(super) fn forget_in_tasks(&mut self, connection: ConnectionId) {
        // No peer will send the rest of what has not arrived as a whole.
        self.tasks.retain(|_, held| held.task.is_some() || held.owner != connection);
        let other = |pending: &Pending| pending.connection != connection;
        for held in self.tasks.values_mut() {
            held.credit_requests.retain(|(pending, ..)| other(pending));
            held.watchers.retain(|watcher| other(&watcher.pending));
            held.fetch_queue.forget(connection);
        }
    }
}

impl Held {
    pub fn new(now: Duration, owner: ConnectionId) -> Held {
        Held {
            task: None,
            arriving: BytesMut::new(),
            owner,
            assigned: 0,
            preparing: None,
            credit_requests: Vec::new(),
            watchers: Vec::new(),
            commit: None,
            again: Vec::new(),
            tries: BTreeMap::new(),
            failure: None,
            seen: now,
            fetch_queue: FetchQueue::default(),
            priority: Priority::Repair,
        }
    }

    fn progress(&self) -> Message {
        let amounts = self.task.as_ref().map(Task::amounts).unwrap_or_default();
        let failure = self.failure.clone().unwrap_or_default();
        let state = match (self.task.as_ref().map(Task::state), &self.failure) {
            (_, Some(_)) => TaskState::Failed,
            (Some(TaskPhase::Done), _) => TaskState::Done,
            (Some(TaskPhase::Running | TaskPhase::Finishing), _) => TaskState::Running,
            (Some(TaskPhase::Ready), _) => TaskState::Ready,
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

/// Fragments of one window, for the wire; at least one.
pub fn push_message(task: TaskId, fragments: &[Fragment]) -> (Message, Bytes) {
    if let [Fragment { window, piece, at, total, bytes, .. }] = fragments {
        let (window, piece, at, total) = (*window, *piece, *at, *total);
        return (Message::Push { task, window, piece, at, total }, bytes.clone());
    }
    let (window, headers, payload) = bundled(fragments);
    (Message::Bundle { task, window, headers }, payload)
}

/// The window of fragments, what they are, and their bytes one after the other.
fn bundled(fragments: &[Fragment]) -> (u64, Vec<FragmentHeader>, Bytes) {
    let mut payload = BytesMut::with_capacity(fragments.iter().map(|p| p.bytes.len()).sum());
    let header = |fragment: &Fragment| {
        payload.extend_from_slice(&fragment.bytes);
        let (piece, at, total) = (fragment.piece, fragment.at, fragment.total);
        FragmentHeader { piece, at, total, len: fragment.bytes.len() as u32 }
    };
    let headers = fragments.iter().map(header).collect();
    (fragments.first().map_or(0, |fragment| fragment.window), headers, payload.freeze())
}

/// Below which window the receiver of fragments has room.
pub fn push_answer(frame: &Frame) -> Result<u64> {
    match frame.message {
        Message::Taken { upto } => Ok(upto),
        ref other => Err(NetError::protocol(format!("{} to a Push", other.name()))),
    }
}

/// The fragments of a bundle.
pub fn unbundled(
    window: u64,
    headers: &[FragmentHeader],
    payload: &Bytes,
) -> Result<Vec<Fragment>> {
    let lengths =
        headers.iter().try_fold(0usize, |sum, header| sum.checked_add(header.len as usize));
    if lengths != Some(payload.len()) || headers.is_empty() {
        return Err(NetError::protocol("a bundle whose fragments do not fill it"));
    }
    let mut rest = payload.clone();
    let fragment = |header: &FragmentHeader| {
        let FragmentHeader { piece, at, total, len } = *header;
        // Copied, since a few bytes that are kept must not keep the whole payload.
        let bytes = Bytes::copy_from_slice(&rest.split_to(len as usize));
        Fragment { window, piece, to: 0, at, total, bytes }
    };
    Ok(headers.iter().map(fragment).collect())
}
