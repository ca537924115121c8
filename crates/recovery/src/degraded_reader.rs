//! The reader of lost chunks as a state machine: a node of the plan that is no agent.
//!
//! A client that wants what a dead node had is the node where it is to be "rebuilt". It hands out
//! the shares as a coordinator does, and has one itself: pieces come in windows, are computed with
//! and kept, as at any agent ([`Task`]). But no agent can connect to a client, so it asks those who
//! have something for it ([`Message::Fetch`]). A read is not planned again: when something fails,
//! it ends, and its caller decodes for itself.

pub(crate) mod prepare;
pub(crate) mod sink;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use crate::coordinator::{AgentRequest, Coordinator, RepairFailure, Share};
use kiln_net::agent::{TaskId, unbundled};
use kiln_net::proto::{Frame, Message};
use kiln_net::task::{Effect, Task, TaskPhase};
use kiln_net::{NetError, Result, proto::assignment::Assignment};

/// Bytes of one answer at most: a few agents send at once through the reader's one link.
const FETCH_MAX: u32 = 128 << 10;
/// Questions for pieces to one agent at once, usually ...
const USUAL: usize = 2;
/// ... and at most: one more tells an agent that all others are done with that it may go on.
const MOST: usize = 4;
/// An agent answers such a request within a second.
const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes that a placed read costs beside those of its chunks, or time that they could have taken:
/// connections, a share for each helper, programs to compile, four rounds of messages before the
/// first window arrives.
pub const SETTING_UP: u64 = 4 << 20;

/// Returns whether a reader is better off with helpers: it receives `here` bytes when it decodes by
/// itself, and with them the busiest node of all, the reader included, sends or receives `load`.
pub fn helpers_pay(here: u64, load: u64) -> bool {
    load.saturating_add(SETTING_UP) <= here
}

#[allow(missing_docs)] // of fields that their names describe
#[derive(Debug)]
pub enum ReaderAction {
    /// Ask an agent, and tell [`DegradedReader::answered`].
    Request(AgentRequest),
    /// Compute, and tell [`DegradedReader::computed`].
    Compute { window: u64, round: usize, inputs: Vec<Bytes> },
    /// Keep what a round persists, and tell [`DegradedReader::kept`].
    Keep {
        window: u64,
        round: usize,
        /// The pieces, in the round's order.
        pieces: Vec<Bytes>,
    },
}

/// An agent that has something for the reader.
#[derive(Debug)]
struct Sender {
    rank: usize,
    asked: usize,
    /// Windows below this one were asked for.
    told: u64,
}

/// See the module.
#[derive(Debug)]
pub struct DegradedReader {
    id: TaskId,
    coordinator: Coordinator,
    task: Task,
    senders: Vec<Sender>,
    running: bool,
    over: Option<String>,
    clear: bool,
    received: u64,
}

impl DegradedReader {
    /// A reader with its own share, and those of the agents.
    /// Errors: its share reads or sends: it has no disk, and no node fetches from it.
    pub fn new(id: TaskId, shares: Vec<Share>, mine: Assignment) -> Result<DegradedReader> {
        let works =
            mine.rounds.iter().any(|round| !(round.reads.is_empty() && round.sends.is_empty()));
        if works {
            return Err(NetError::protocol("a reader's share that reads or sends"));
        }
        let me = mine.me;
        let task = Task::new(Arc::new(mine))?.reaching_far();
        let mut senders = Vec::new();
        for (rank, share) in shares.iter().enumerate() {
            let share = Assignment::decode(&share.assignment)?;
            if share.rounds.iter().flat_map(|round| &round.sends).any(|send| send.to == me) {
                senders.push(Sender { rank, asked: 0, told: 0 });
            }
        }
        let nodes: Vec<usize> = shares.iter().map(|share| share.node).collect();
        // One that everybody waits for counts as failed: decoding can do without it.
        let coordinator = Coordinator::new(id, shares).sparing(nodes);
        let (running, over, clear) = (false, None, false);
        Ok(DegradedReader { id, coordinator, task, senders, running, over, clear, received: 0 })
    }

    /// The first orders.
    pub fn begin(&mut self, now: Duration) -> Vec<ReaderAction> {
        let effects = self.task.start(now);
        let mut todo = granted(effects);
        todo.extend(self.coordinator.begin(now).into_iter().map(ReaderAction::Request));
        todo
    }

    /// Why it ended before its end.
    pub fn over(&self) -> Option<&str> {
        self.over.as_deref()
    }

    /// Bytes of pieces that arrived.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The answer to an order.
    pub fn answered(
        &mut self,
        now: Duration,
        request: &AgentRequest,
        answer: Result<Frame>,
    ) -> Vec<ReaderAction> {
        if matches!(request.message, Message::Fetch { .. }) {
            return self.fetched(now, request.rank, answer);
        }
        let answer = answer.map(|frame| frame.message);
        let requests = self.coordinator.answered(now, request, answer);
        self.ordered(requests)
    }

    /// Pieces that a round computed.
    pub fn computed(&mut self, now: Duration, window: u64, made: Vec<Bytes>) -> Vec<ReaderAction> {
        let effects = self.task.computed(now, window, made);
        self.go_on(effects)
    }

    /// Notes that the pieces that a round persists are kept.
    pub fn kept(&mut self, now: Duration, window: u64, bytes: u64) -> Vec<ReaderAction> {
        let effects = self.task.kept(now, window, bytes);
        self.go_on(effects)
    }

    /// Ends it, whether it is complete or not; [`DegradedReader::is_clear`] when all agents have
    /// heard.
    pub fn end(&mut self) -> Vec<ReaderAction> {
        self.over.get_or_insert_with(|| "the reader needs no more".to_owned());
        let requests = self.coordinator.cancel("the reader needs no more");
        requests.into_iter().map(ReaderAction::Request).collect()
    }

    /// Returns whether no agent holds anything for it any more.
    pub fn is_clear(&mut self) -> bool {
        self.clear |= self.coordinator.outcome().is_some();
        self.clear
    }

    fn complete(&self) -> bool {
        matches!(self.task.state(), TaskPhase::Finishing | TaskPhase::Done)
    }

    fn ordered(&mut self, requests: Vec<AgentRequest>) -> Vec<ReaderAction> {
        self.running |=
            requests.iter().any(|request| matches!(request.message, Message::Start { .. }));
        if !self.complete()
            && let Some(failure) = self.coordinator.in_the_way()
        {
            self.over.get_or_insert_with(|| reason(failure));
        }
        let mut todo: Vec<ReaderAction> = requests.into_iter().map(ReaderAction::Request).collect();
        todo.extend(self.fetch());
        todo
    }

    /// Pieces arrived, or none.
    fn fetched(&mut self, now: Duration, rank: usize, answer: Result<Frame>) -> Vec<ReaderAction> {
        if let Some(sender) = self.senders.iter_mut().find(|sender| sender.rank == rank) {
            sender.asked -= 1;
        }
        if self.complete() || self.over.is_some() {
            return Vec::new();
        }
        let mut effects = Vec::new();
        if let Err(error) = self.unpack(now, answer, &mut effects) {
            self.over = Some(error.to_string());
            return Vec::new();
        }
        self.go_on(effects)
    }

    fn unpack(&mut self, now: Duration, answer: Result<Frame>, to: &mut Vec<Effect>) -> Result<()> {
        let frame = answer?;
        let Message::Fetched { window, headers } = &frame.message else {
            return Err(NetError::protocol("no pieces where pieces were asked for"));
        };
        if headers.is_empty() {
            return Ok(());
        }
        for fragment in unbundled(*window, headers, &frame.payload)? {
            self.received += fragment.bytes.len() as u64;
            to.extend(self.task.fragment(now, fragment)?);
        }
        Ok(())
    }

    fn go_on(&mut self, effects: Vec<Effect>) -> Vec<ReaderAction> {
        if effects.iter().any(|effect| matches!(effect, Effect::Finish)) {
            self.task.finished();
        }
        let mut todo = granted(effects);
        todo.extend(self.fetch());
        todo
    }

    /// Asks those who may have something, as far as the reader can take it.
    fn fetch(&mut self) -> Vec<ReaderAction> {
        let mut todo = Vec::new();
        if !self.running || self.complete() || self.over.is_some() {
            return todo;
        }
        let (task, below) = (self.id, self.task.upto());
        // All windows that it was asked for may be done: it waits for this.
        let stale = |told: u64| below.saturating_sub(told) * 2 >= below - self.task.lowest();
        for sender in &mut self.senders {
            while sender.asked < USUAL || (sender.asked < MOST && stale(sender.told)) {
                sender.asked += 1;
                sender.told = below;
                let message = Message::Fetch { task, below, max: FETCH_MAX };
                let (rank, payload, patience) = (sender.rank, Bytes::new(), PATIENCE);
                todo.push(ReaderAction::Request(AgentRequest { rank, message, payload, patience }));
            }
        }
        todo
    }
}

/// Effects of a task that neither reads nor sends.
fn granted(effects: Vec<Effect>) -> Vec<ReaderAction> {
    let grant = |effect| match effect {
        Effect::Compute { window, round, inputs } => {
            Some(ReaderAction::Compute { window, round, inputs })
        }
        Effect::Persist { window, round, pieces } => {
            Some(ReaderAction::Keep { window, round, pieces })
        }
        Effect::Load(_) | Effect::Push(_) | Effect::Finish => None,
    };
    effects.into_iter().filter_map(grant).collect()
}

fn reason(failure: &RepairFailure) -> String {
    match failure {
        RepairFailure::Node(_, error)
        | RepairFailure::Disk(_, error)
        | RepairFailure::Failed(error) => error.to_string(),
        RepairFailure::Chunk(chunk, stripe, text) => {
            format!("shard {chunk}, stripe {stripe}: {text}")
        }
    }
}

#[cfg(test)]
mod tests;
