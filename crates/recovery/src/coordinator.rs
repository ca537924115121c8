//! The coordinator of a placed repair as a state machine: hands out the shares, watches, and
//! either has the result put in place or names the node or chunk that failed.
//!
//! It knows nothing of codes and plans. When it fails, its caller plans again without the node or
//! chunk that it names; nothing has been put in place then.

mod slow;

use std::{collections::BTreeSet, time::Duration};

use bytes::Bytes;

use self::slow::{NodeProgress, SlowNodes};

use kiln_net::proto::{Message, PAYLOAD_MAX, TaskState};
use kiln_net::{NetError, Result, agent::TaskId, task::TransferCounters};

/// Timeout of small requests.
const PATIENCE: Duration = Duration::from_secs(15);
/// Timeout of the request to end a task: nothing depends on it, and the failed node may be the one
/// to answer.
const FAREWELL: Duration = Duration::from_secs(5);
/// Timeout for preparing, or completing, a share.
const LONG: Duration = Duration::from_secs(120);
/// A node is asked for its progress; it answers when there is some, or after this time.
const NEWS_MS: u32 = 2000;
/// When no node makes progress for this long, the one that is furthest behind is taken to be
/// stalled.
const STALL: Duration = Duration::from_secs(30);
/// The same where other repairs over these nodes make progress: this one may be waiting for them.
const CROWDED: Duration = Duration::from_secs(300);

/// The share of one node.
#[derive(Debug, Clone)]
pub struct Share {
    /// Its number in the plan.
    pub node: usize,
    /// Its assignment, encoded.
    pub assignment: Bytes,
    /// Says whether it has a shard to put in place at the end; not when others do that.
    pub writes: bool,
}

/// A request to an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentRequest {
    /// The node, by its rank among the shares.
    pub rank: usize,
    /// The message or fault.
    pub message: Message,
    /// Bytes that go with it.
    pub payload: Bytes,
    /// Time limit of the answer.
    pub patience: Duration,
}

/// Why a repair failed.
#[derive(Debug)]
pub enum RepairFailure {
    /// A node did not answer, could not be reached by others, or made no progress.
    Node(usize, NetError),
    /// Storage at a node failed.
    Disk(usize, NetError),
    /// A chunk that was to be read is damaged (with the stripe).
    Chunk(usize, u64, String),
    /// The repair itself failed in a way that another plan may not help.
    Failed(NetError),
}

/// Outcome of a repair.
#[derive(Debug)]
pub enum Outcome {
    /// Every rebuilt shard is verified and in place.
    Done(Vec<(usize, TransferCounters)>),
    /// Nothing was put in place.
    Failed(RepairFailure),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Assigning,
    Running,
    Committing,
    Clearing,
    Ended,
}

#[derive(Debug)]
struct State {
    share: Share,
    sent: usize,
    ready: bool,
    done: bool,
    settled: bool,
    amounts: TransferCounters,
    waits: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Coordinator {
    task: TaskId,
    phase: Phase,
    nodes: Vec<State>,
    outcome: Option<Outcome>,
    moved: (Duration, u64),
    /// When all repairs together got on last, and how far they were.
    beside: (Duration, u64),
    slow: SlowNodes,
    /// Nodes that another plan can leave out.
    spared: BTreeSet<usize>,
    waiting: usize,
}

impl Coordinator {
    /// A coordinator for these shares; at least one.
    pub fn new(task: TaskId, shares: Vec<Share>) -> Coordinator {
        let state = |share| State {
            share,
            sent: 0,
            ready: false,
            done: false,
            settled: false,
            amounts: TransferCounters::default(),
            waits: false,
        };
        let nodes = shares.into_iter().map(state).collect();
        let (phase, outcome, moved) = (Phase::Assigning, None, (Duration::ZERO, 0));
        let (slow, spared, beside) = (SlowNodes::default(), BTreeSet::new(), moved);
        Coordinator { task, phase, nodes, outcome, moved, beside, slow, spared, waiting: 0 }
    }

    /// The same, for a repair that could be planned again without any one of these nodes: one that
    /// keeps all others waiting counts as failed ([`RepairFailure::Node`]).
    #[must_use]
    pub fn sparing(self, nodes: impl IntoIterator<Item = usize>) -> Coordinator {
        Coordinator { spared: nodes.into_iter().collect(), ..self }
    }

    /// Notes the progress of all repairs that share nodes with this one, itself included, in a unit
    /// that only grows. While they make progress no node counts as failed: links and disks are
    /// busy.
    pub fn beside(&mut self, now: Duration, total: u64) {
        if total != self.beside.1 {
            self.beside = (now, total);
        }
    }

    /// The first orders.
    pub fn begin(&mut self, now: Duration) -> Vec<AgentRequest> {
        self.moved.0 = now;
        let requests = (0..self.nodes.len()).filter_map(|rank| self.assign(rank)).collect();
        self.count(requests)
    }

    /// The end, once; then there are no more orders.
    pub fn outcome(&mut self) -> Option<Outcome> {
        if self.phase == Phase::Ended { self.outcome.take() } else { None }
    }

    /// The failure, as soon as it is known: not all agents may have been told yet.
    pub fn in_the_way(&self) -> Option<&RepairFailure> {
        match &self.outcome {
            Some(Outcome::Failed(failure)) => Some(failure),
            _ => None,
        }
    }

    /// Windows done at the node that is furthest behind, and of how many.
    pub fn amounts(&self) -> Vec<TransferCounters> {
        self.nodes.iter().map(|node| node.amounts).collect()
    }

    /// The answer to an order.
    pub fn answered(
        &mut self,
        now: Duration,
        request: &AgentRequest,
        answer: Result<Message>,
    ) -> Vec<AgentRequest> {
        self.waiting = self.waiting.saturating_sub(1);
        let rank = request.rank;
        let requests = match (self.phase, answer) {
            (Phase::Clearing, _) => Vec::new(),
            (_, Err(error)) => {
                let node = self.nodes[rank].share.node;
                self.give_up(match &error {
                    NetError::Protocol { .. } => RepairFailure::Failed(error),
                    NetError::Refused { .. } => RepairFailure::Disk(node, error),
                    _ => RepairFailure::Node(node, error),
                })
            }
            (Phase::Assigning, Ok(_)) => self.assigned(rank),
            (Phase::Running, Ok(message)) => self.ran(now, rank, &message),
            (Phase::Committing, Ok(_)) => self.committed(rank),
            (Phase::Ended, _) => Vec::new(),
        };
        let requests = self.count(requests);
        if self.phase == Phase::Clearing && self.waiting == 0 {
            self.phase = Phase::Ended;
        }
        requests
    }

    /// New limit of bytes a second for every node (0: none).
    pub fn throttle(&mut self, rate: u64) -> Vec<AgentRequest> {
        let requests = match self.phase {
            Phase::Running => self.all(|task| Message::Throttle { task, rate }, PATIENCE),
            _ => Vec::new(),
        };
        self.count(requests)
    }

    /// Calls the repair off.
    pub fn cancel(&mut self, why: &str) -> Vec<AgentRequest> {
        let (what, place) = ("the repair".to_owned(), "the coordinator".to_owned());
        let error = NetError::GaveUp { what, place, why: why.to_owned() };
        let requests = self.give_up(RepairFailure::Failed(error));
        self.count(requests)
    }

    fn count(&mut self, requests: Vec<AgentRequest>) -> Vec<AgentRequest> {
        self.waiting += requests.len();
        requests
    }

    fn request(&self, rank: usize, message: Message, patience: Duration) -> AgentRequest {
        AgentRequest { rank, message, payload: Bytes::new(), patience }
    }

    fn all(&self, message: impl Fn(TaskId) -> Message, patience: Duration) -> Vec<AgentRequest> {
        let ranks = 0..self.nodes.len();
        ranks.map(|rank| self.request(rank, message(self.task), patience)).collect()
    }

    /// The next piece of a node's assignment.
    fn assign(&mut self, rank: usize) -> Option<AgentRequest> {
        let task = self.task;
        let node = &mut self.nodes[rank];
        let (at, total) = (node.sent, node.share.assignment.len());
        if at >= total {
            return None;
        }
        node.sent = total.min(at + PAYLOAD_MAX);
        let payload = node.share.assignment.slice(at..node.sent);
        let message = Message::Assign { task, at: at as u64, total: total as u64 };
        Some(AgentRequest { rank, message, payload, patience: LONG })
    }

    fn assigned(&mut self, rank: usize) -> Vec<AgentRequest> {
        if let Some(next) = self.assign(rank) {
            return vec![next];
        }
        self.nodes[rank].ready = true;
        if !self.nodes.iter().all(|node| node.ready) {
            return Vec::new();
        }
        self.phase = Phase::Running;
        self.all(|task| Message::Start { task }, PATIENCE)
    }

    fn ran(&mut self, now: Duration, rank: usize, message: &Message) -> Vec<AgentRequest> {
        if let Message::Progress { state, done, read, sent, received, written, waits, .. } = message
        {
            let (windows, read, sent) = (*done, *read, *sent);
            let (received, written) = (*received, *written);
            self.nodes[rank].amounts = TransferCounters { windows, read, sent, received, written };
            self.nodes[rank].waits = *waits;
            match state {
                TaskState::Done => self.nodes[rank].done = true,
                TaskState::Failed => {
                    let failure = self.failure(rank, message);
                    return self.give_up(failure);
                }
                TaskState::Arriving | TaskState::Ready | TaskState::Running => {}
            }
        }
        if self.nodes.iter().all(|node| node.done) {
            return self.commit();
        }
        if let Some(rank) = self.stalled(now).or_else(|| self.too_slow(now)) {
            let node = self.nodes[rank].share.node;
            let (what, place) = ("for its part of a repair".to_owned(), format!("node {node}"));
            return self.give_up(RepairFailure::Node(node, NetError::Late { what, place }));
        }
        if self.nodes[rank].done || matches!(message, Message::Done {}) && self.watched(rank) {
            return Vec::new();
        }
        let (task, seen) = (self.task, self.nodes[rank].amounts.windows);
        let watch = Message::Watch { task, seen, wait_ms: NEWS_MS };
        vec![self.request(rank, watch, PATIENCE)]
    }

    /// The answer to a change of the limit must not start a second watch.
    fn watched(&mut self, rank: usize) -> bool {
        std::mem::replace(&mut self.nodes[rank].settled, true)
    }

    /// The node that counts as failed when none has made progress for too long.
    fn stalled(&mut self, now: Duration) -> Option<usize> {
        // Of large windows bytes are read and sent long before one is done.
        let amounts = self.nodes.iter().map(|node| node.amounts);
        let each = amounts.flat_map(|a| [a.windows, a.read, a.sent, a.received, a.written]);
        // Agents may say anything.
        let sum = each.fold(0, u64::wrapping_add);
        if sum != self.moved.1 {
            self.moved = (now, sum);
            return None;
        }
        let behind = |rank: &usize| self.nodes[*rank].amounts.windows;
        let undone = (0..self.nodes.len()).filter(|rank| !self.nodes[*rank].done);
        let over = now >= self.moved.0.max(self.beside.0) + STALL;
        let over = over || now >= self.moved.0 + CROWDED;
        over.then(|| undone.min_by_key(behind)).flatten()
    }

    /// Returns the node that keeps all others waiting, when a plan without it would be better.
    fn too_slow(&mut self, now: Duration) -> Option<usize> {
        let standing = |node: &State| {
            let TransferCounters { windows, sent, received, written, .. } = node.amounts;
            let moved = sent.saturating_add(received).saturating_add(written);
            let (waits, done) = (node.waits, node.done);
            NodeProgress { windows, moved, waits, done }
        };
        let standings: Vec<NodeProgress> = self.nodes.iter().map(standing).collect();
        let rank = self.slow.note(now, &standings, self.beside.1)?;
        self.spared.contains(&self.nodes[rank].share.node).then_some(rank)
    }

    fn failure(&self, rank: usize, message: &Message) -> RepairFailure {
        let node = self.nodes[rank].share.node;
        let Message::Progress { text, peer, chunk, stripe, .. } = message else {
            return RepairFailure::Failed(NetError::protocol("a failure without a reason"));
        };
        let (place, why) = (format!("node {node}"), text.clone());
        let error = NetError::Refused { place, why };
        match (*peer, *chunk) {
            (Some(peer), _) => RepairFailure::Node(peer as usize, error),
            (None, Some(chunk)) => RepairFailure::Chunk(chunk as usize, *stripe, text.clone()),
            (None, None) => RepairFailure::Disk(node, error),
        }
    }

    fn commit(&mut self) -> Vec<AgentRequest> {
        self.phase = Phase::Committing;
        self.nodes.iter_mut().for_each(|node| node.settled = !node.share.writes);
        let writers = (0..self.nodes.len()).filter(|rank| self.nodes[*rank].share.writes);
        let commit = |rank| self.request(rank, Message::Commit { task: self.task }, LONG);
        let requests: Vec<AgentRequest> = writers.map(commit).collect();
        if requests.is_empty() { self.finish() } else { requests }
    }

    fn committed(&mut self, rank: usize) -> Vec<AgentRequest> {
        self.nodes[rank].settled = true;
        if !self.nodes.iter().all(|node| node.settled) {
            return Vec::new();
        }
        self.finish()
    }

    fn finish(&mut self) -> Vec<AgentRequest> {
        let amounts = self.nodes.iter().map(|node| (node.share.node, node.amounts)).collect();
        self.clear(Outcome::Done(amounts))
    }

    fn give_up(&mut self, failure: RepairFailure) -> Vec<AgentRequest> {
        if self.phase >= Phase::Clearing {
            return Vec::new();
        }
        self.clear(Outcome::Failed(failure))
    }

    /// All nodes drop the task; their answers do not matter any more.
    fn clear(&mut self, outcome: Outcome) -> Vec<AgentRequest> {
        self.outcome = Some(outcome);
        self.phase = Phase::Clearing;
        self.all(|task| Message::Abort { task }, FAREWELL)
    }
}

#[cfg(test)]
mod tests;
