//! The reader of lost chunks as a state machine: a node of the plan that is no agent.
//!
//! A client that wants what a dead node had is the node where it is to be "rebuilt". It hands out
//! the shares as a coordinator does, and has one itself: pieces come in windows, are computed with
//! and kept, as at any agent ([`Task`]). But no agent can connect to a client, so it asks those who
//! have something for it ([`Message::Fetch`]). A read is not planned again: when something is in
//! the way, it ends, and whoever wants the bytes decodes for itself.

pub(crate) mod prepare;
pub(crate) mod sink;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::agent::{TaskId, unbundled};
use crate::coordinator::{Coordinator, Order, Share, Trouble};
use crate::proto::assignment::Assignment;
use crate::proto::{Frame, Message};
use crate::task::{Stage, Task, Wish};
use crate::{NodeError, Result};

/// Bytes of one answer at most: a few agents send at once through the reader's one link.
const FETCH_MAX: u32 = 128 << 10;
/// Questions for pieces to one agent at once, usually ...
const USUAL: usize = 2;
/// ... and at most: one more tells an agent that all others are done with that it may go on.
const MOST: usize = 4;
/// An agent answers such a question within a second.
const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes that a placed read costs beside those of its chunks, or time that they could have taken:
/// connections, a share for each helper, programs to compile, four rounds of messages before the
/// first window arrives.
pub const SETTING_UP: u64 = 4 << 20;

/// Whether a reader is better off with helpers: it receives `here` bytes when it decodes by itself,
/// and with them the busiest node of all, the reader included, sends or receives `load`.
///
/// ```
/// use kiln_node::reader::helpers_pay;
/// // 64 MiB of a chunk of clay:12+4, and 64 KiB.
/// assert!(helpers_pay(240 << 20, 64 << 20));
/// assert!(!helpers_pay(240 << 10, 64 << 10));
/// ```
#[must_use]
pub fn helpers_pay(here: u64, load: u64) -> bool {
    load.saturating_add(SETTING_UP) <= here
}

/// What is to be done for a reader.
#[derive(Debug)]
pub enum Do {
    /// Ask an agent, and tell [`Reader::answered`].
    Ask(Order),
    /// Compute, and tell [`Reader::computed`].
    Compute {
        /// The window.
        window: u64,
        /// The round, by rank.
        round: usize,
        /// Its inputs.
        inputs: Vec<Bytes>,
    },
    /// Keep what a round persists, and tell [`Reader::kept`].
    Keep {
        /// The window.
        window: u64,
        /// The round, by rank.
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
pub struct Reader {
    id: TaskId,
    coordinator: Coordinator,
    task: Task,
    senders: Vec<Sender>,
    running: bool,
    over: Option<String>,
    clear: bool,
    received: u64,
}

impl Reader {
    /// A reader with its own share, and those of the agents.
    ///
    /// # Errors
    /// Its share reads or sends: it has no disk, and nobody fetches from it.
    pub fn new(id: TaskId, shares: Vec<Share>, mine: Assignment) -> Result<Reader> {
        let works =
            mine.rounds.iter().any(|round| !(round.reads.is_empty() && round.sends.is_empty()));
        if works {
            return Err(NodeError::protocol("a reader's share that reads or sends"));
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
        // One that everybody waits for is in the way: decoding needs it no more.
        let coordinator = Coordinator::new(id, shares).sparing(nodes);
        let (running, over, clear) = (false, None, false);
        Ok(Reader { id, coordinator, task, senders, running, over, clear, received: 0 })
    }

    /// The first orders.
    pub fn begin(&mut self, now: Duration) -> Vec<Do> {
        let wishes = self.task.start(now);
        let mut todo = granted(wishes);
        todo.extend(self.coordinator.begin(now).into_iter().map(Do::Ask));
        todo
    }

    /// Why it ended before its end.
    #[must_use]
    pub fn over(&self) -> Option<&str> {
        self.over.as_deref()
    }

    /// Bytes of pieces that arrived.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The answer to an order.
    pub fn answered(&mut self, now: Duration, order: &Order, answer: Result<Frame>) -> Vec<Do> {
        if matches!(order.message, Message::Fetch { .. }) {
            return self.fetched(now, order.rank, answer);
        }
        let answer = answer.map(|frame| frame.message);
        let orders = self.coordinator.answered(now, order, answer);
        self.ordered(orders)
    }

    /// What a round made.
    pub fn computed(&mut self, now: Duration, window: u64, made: Vec<Bytes>) -> Vec<Do> {
        let wishes = self.task.computed(now, window, made);
        self.go_on(wishes)
    }

    /// What a round persists is kept.
    pub fn kept(&mut self, now: Duration, window: u64, bytes: u64) -> Vec<Do> {
        let wishes = self.task.kept(now, window, bytes);
        self.go_on(wishes)
    }

    /// Ends it, whether it is complete or not; [`Reader::is_clear`] when all agents have heard.
    pub fn end(&mut self) -> Vec<Do> {
        self.over.get_or_insert_with(|| "the reader needs no more".to_owned());
        let orders = self.coordinator.cancel("the reader needs no more");
        orders.into_iter().map(Do::Ask).collect()
    }

    /// Whether no agent holds anything for it any more.
    pub fn is_clear(&mut self) -> bool {
        self.clear |= self.coordinator.outcome().is_some();
        self.clear
    }

    fn complete(&self) -> bool {
        matches!(self.task.stage(), Stage::Finishing | Stage::Done)
    }

    fn ordered(&mut self, orders: Vec<Order>) -> Vec<Do> {
        self.running |= orders.iter().any(|order| matches!(order.message, Message::Start { .. }));
        if !self.complete()
            && let Some(trouble) = self.coordinator.in_the_way()
        {
            self.over.get_or_insert_with(|| reason(trouble));
        }
        let mut todo: Vec<Do> = orders.into_iter().map(Do::Ask).collect();
        todo.extend(self.fetch());
        todo
    }

    /// Pieces arrived, or none.
    fn fetched(&mut self, now: Duration, rank: usize, answer: Result<Frame>) -> Vec<Do> {
        if let Some(sender) = self.senders.iter_mut().find(|sender| sender.rank == rank) {
            sender.asked -= 1;
        }
        if self.complete() || self.over.is_some() {
            return Vec::new();
        }
        let mut wishes = Vec::new();
        if let Err(error) = self.unpack(now, answer, &mut wishes) {
            self.over = Some(error.to_string());
            return Vec::new();
        }
        self.go_on(wishes)
    }

    fn unpack(&mut self, now: Duration, answer: Result<Frame>, to: &mut Vec<Wish>) -> Result<()> {
        let frame = answer?;
        let Message::Fetched { window, slips } = &frame.message else {
            return Err(NodeError::protocol("no pieces where pieces were asked for"));
        };
        if slips.is_empty() {
            return Ok(());
        }
        for parcel in unbundled(*window, slips, &frame.payload)? {
            self.received += parcel.bytes.len() as u64;
            to.extend(self.task.parcel(now, parcel)?);
        }
        Ok(())
    }

    fn go_on(&mut self, wishes: Vec<Wish>) -> Vec<Do> {
        if wishes.iter().any(|wish| matches!(wish, Wish::Finish)) {
            self.task.finished();
        }
        let mut todo = granted(wishes);
        todo.extend(self.fetch());
        todo
    }

    /// Asks those who may have something, as far as the reader can take it.
    fn fetch(&mut self) -> Vec<Do> {
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
                todo.push(Do::Ask(Order { rank, message, payload, patience }));
            }
        }
        todo
    }
}

/// Wishes of a task that neither reads nor sends.
fn granted(wishes: Vec<Wish>) -> Vec<Do> {
    let grant = |wish| match wish {
        Wish::Compute { window, round, inputs } => Some(Do::Compute { window, round, inputs }),
        Wish::Persist { window, round, pieces } => Some(Do::Keep { window, round, pieces }),
        Wish::Load(_) | Wish::Push(_) | Wish::Finish => None,
    };
    wishes.into_iter().filter_map(grant).collect()
}

fn reason(trouble: &Trouble) -> String {
    match trouble {
        Trouble::Node(_, error) | Trouble::Disk(_, error) | Trouble::Failed(error) => {
            error.to_string()
        }
        Trouble::Chunk(chunk, stripe, text) => format!("shard {chunk}, stripe {stripe}: {text}"),
    }
}

#[cfg(test)]
mod tests;
