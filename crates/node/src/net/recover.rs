//! The shell of a coordinator: plans a repair over agents, runs it, and plans again without who
//! or what was in the way.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use bytes::Bytes;
use kiln_code::Codec;
use kiln_plan::{Cluster, Costs, Effort, Parts, Plan, Problem, strategy};
use kiln_store::Layout;

use super::dial::{Peer, Question};
use super::{Address, Network};
use crate::coordinator::{Coordinator, Order, Outcome, Share, Trouble};
use crate::proto::assignment::{Assignment, Geometry, TargetFile};
use crate::proto::{Frame, Message, Priority};
use crate::task::Amounts;
use crate::{NodeError, Result};

/// How often limits and wishes are looked at.
const LOOK: Duration = Duration::from_millis(200);
/// Orders are answered long before.
const UNHEARD: Duration = Duration::from_secs(300);

/// An agent that takes part in a repair.
#[derive(Debug, Clone)]
pub struct Helper {
    /// Where it is.
    pub address: Address,
    /// The shards it has: chunk and file name.
    pub shards: Vec<(usize, String)>,
}

/// A repair over agents.
#[derive(Debug)]
pub struct Recovery<'a> {
    /// The code.
    pub codec: &'a Codec,
    /// The run that is repaired, with the digests of all its shards.
    pub geometry: Geometry,
    /// The agents; those that only get shards too.
    pub nodes: Vec<Helper>,
    /// The chunks to rebuild, each with the rank of the agent that gets it, the name of its part
    /// and its own name. What an earlier attempt left under the name of the part is gone on with.
    pub targets: Vec<(usize, usize, String, String)>,
    /// Strategy by which plans are made.
    pub strategy: &'a str,
    /// The plan to begin with, on the nodes by their rank; `None`: one is made.
    pub first: Option<Plan>,
    /// Whether rebuilt shards get their names; else they stay parts, durable and verified.
    pub in_place: bool,
    /// Bytes of every sub-chunk in a window.
    pub slice: u32,
    /// Windows under way at each node.
    pub windows: u32,
    /// Bytes a second for each node (0: no limit).
    pub rate: u64,
    /// Seed of the plan's search.
    pub seed: u64,
}

/// What a repair took.
#[derive(Debug)]
pub struct Recovered {
    /// What every agent did, by rank.
    pub nodes: BTreeMap<usize, Amounts>,
    /// What the plan said, in sub-chunks.
    pub planned: Costs,
    /// Bytes that one sub-chunk of the plan stands for: all stripes that were repaired by it.
    pub sub_bytes: u64,
    /// Bytes of rebuilt shards that an earlier attempt had left.
    pub resumed: u64,
    /// Chunks that were read.
    pub helpers: Vec<usize>,
    /// Strategy of the plan that was carried out.
    pub strategy: &'static str,
    /// Chunks that turned out to be damaged.
    pub rotten: Vec<usize>,
    /// Plans that were given up, with the reason.
    pub given_up: Vec<String>,
}

/// A repair that no plan could save.
#[derive(Debug)]
pub struct Defeat {
    /// The reason.
    pub error: NodeError,
    /// The agent at fault, by rank, when it is one.
    pub node: Option<usize>,
    /// Whether it may pass: agents could not be reached, as when a link is cut for a while.
    pub passing: bool,
    /// Plans that were given up before.
    pub given_up: Vec<String>,
}

impl Defeat {
    fn new(node: Option<usize>, error: NodeError) -> Box<Defeat> {
        let passing = error.is_retryable();
        Defeat::passing(passing, node, error)
    }

    fn passing(passing: bool, node: Option<usize>, error: NodeError) -> Box<Defeat> {
        Box::new(Defeat { error, node, passing, given_up: Vec::new() })
    }
}

impl From<Box<Defeat>> for NodeError {
    fn from(defeat: Box<Defeat>) -> NodeError {
        defeat.error
    }
}

/// What happens while a repair runs, and what is wanted of it.
pub trait Watcher {
    /// Bytes of rebuilt chunks that are kept so far, and of how many.
    fn kept(&self, bytes: u64, total: u64);

    /// The plan is given up for another one.
    fn replanned(&self, why: &str);

    /// The limit of each node from now on, in bytes a second (0: none).
    fn rate(&self) -> Option<u64> {
        None
    }

    /// Bytes that all repairs over these agents have kept so far, this one included. A repair that
    /// waits while others get on has nobody in its way.
    fn beside(&self) -> u64 {
        0
    }

    /// Whether to stop; what is there already stays for the next attempt.
    fn stopped(&self) -> bool {
        false
    }
}

/// A plan that is ready to be carried out.
struct Ready {
    parts: Parts,
    costs: Costs,
    helpers: Vec<usize>,
    strategy: &'static str,
}

/// Who and what is left out.
#[derive(Default)]
struct Bad {
    nodes: BTreeSet<usize>,
    chunks: BTreeSet<usize>,
    given_up: Vec<String>,
}

impl Recovery<'_> {
    /// Does it. What is put in place has its recorded digest.
    ///
    /// # Errors
    /// No plan is left: too few chunks can be read, or an agent that gets a shard fails.
    pub fn run(
        &self,
        network: &Network,
        task: [u8; 16],
        watcher: &dyn Watcher,
    ) -> Result<Recovered, Box<Defeat>> {
        let mut bad = Bad::default();
        let outcome = self.attempts(network, task, watcher, &mut bad);
        let given_up = bad.given_up;
        match outcome {
            Ok(recovered) => {
                let rotten = bad.chunks.into_iter().collect();
                Ok(Recovered { given_up, rotten, ..recovered })
            }
            Err(defeat) => Err(Box::new(Defeat { given_up, ..*defeat })),
        }
    }

    /// Nodes without which the lost chunks could still be rebuilt.
    fn spared(&self, bad_nodes: &BTreeSet<usize>, bad_chunks: &BTreeSet<usize>) -> Vec<usize> {
        let lost: Vec<usize> = self.targets.iter().map(|target| target.0).collect();
        let without = |gone: usize| {
            let nodes = self.nodes.iter().enumerate();
            let nodes = nodes.filter(|(rank, _)| *rank != gone && !bad_nodes.contains(rank));
            let chunks = nodes.flat_map(|(_, node)| node.shards.iter().map(|(chunk, _)| *chunk));
            let usable = |chunk: &usize| !lost.contains(chunk) && !bad_chunks.contains(chunk);
            let available: BTreeSet<usize> = chunks.filter(usable).collect();
            self.codec.choose(&lost, &available.into_iter().collect::<Vec<_>>()).is_ok()
        };
        let gets = |rank: usize| self.targets.iter().any(|target| target.1 == rank);
        (0..self.nodes.len()).filter(|rank| !gets(*rank) && without(*rank)).collect()
    }

    fn attempts(
        &self,
        network: &Network,
        task: [u8; 16],
        watcher: &dyn Watcher,
        bad: &mut Bad,
    ) -> Result<Recovered, Box<Defeat>> {
        let layout = self.geometry.shard(0).layout();
        let layout = layout.map_err(|error| Defeat::new(None, error.into()))?;
        loop {
            // Without those who could not be reached too few may be left, for now.
            let passing = !bad.nodes.is_empty();
            let ready = self.ready(bad).map_err(|error| Defeat::passing(passing, None, error))?;
            let first = self.resume(network, &layout)?;
            let mut id = task;
            // Every plan is a task of its own: late parcels of the last one belong to nobody.
            id[15] = id[15].wrapping_add(bad.given_up.len() as u8);
            let shares = self.shares(&ready.parts, first);
            let spared = self.spared(&bad.nodes, &bad.chunks);
            let outcome = self.carry_out(network, id, shares, spared, first, watcher);
            let trouble = match outcome.map_err(|error| Defeat::new(None, error))? {
                Outcome::Done(amounts) => {
                    let resumed = (0..first).map(|s| layout.chunk_len(s) as u64).sum::<u64>();
                    return Ok(Recovered {
                        nodes: amounts.into_iter().collect(),
                        planned: ready.costs,
                        sub_bytes: (first..layout.stripes())
                            .map(|stripe| layout.sub_len(stripe) as u64)
                            .sum(),
                        resumed: resumed * self.targets.len() as u64,
                        helpers: ready.helpers,
                        strategy: ready.strategy,
                        rotten: Vec::new(),
                        given_up: Vec::new(),
                    });
                }
                Outcome::Trouble(trouble) => trouble,
            };
            let why = self.leave_out(trouble, bad)?;
            watcher.replanned(&why);
            bad.given_up.push(why);
        }
    }

    /// Takes note of who or what was in the way; gives the reason in words.
    fn leave_out(&self, trouble: Trouble, bad: &mut Bad) -> Result<String, Box<Defeat>> {
        let passing = matches!(trouble, Trouble::Node(..));
        match trouble {
            Trouble::Node(node, error) | Trouble::Disk(node, error) => {
                let gets = self.targets.iter().any(|(_, to, ..)| *to == node);
                if gets || !bad.nodes.insert(node) {
                    return Err(Defeat::passing(passing, Some(node), error));
                }
                let address = self.nodes.get(node).map(|n| n.address.to_string());
                Ok(format!("without {}: {error}", address.unwrap_or_default()))
            }
            Trouble::Chunk(chunk, stripe, text) => {
                let why = format!("without shard {chunk} (stripe {stripe}): {text}");
                if !bad.chunks.insert(chunk) {
                    let (what, place) = ("the repair".to_owned(), "the coordinator".to_owned());
                    let error = NodeError::GaveUp { what, place, why };
                    return Err(Defeat::passing(passing, None, error));
                }
                Ok(why)
            }
            Trouble::Failed(error) => Err(Defeat::passing(passing, None, error)),
        }
    }

    /// The first stripe that is not yet in the parts of all targets. Whoever wrote to them before
    /// has ended when this returns.
    fn resume(&self, network: &Network, layout: &Layout) -> Result<u64, Box<Defeat>> {
        let most = layout.stripes().saturating_sub(1);
        let mut first = most;
        for (chunk, node, part, _) in &self.targets {
            let failed = |error| Defeat::new(Some(*node), error);
            let kept = network.resume(
                &self.nodes[*node].address,
                Message::Resume {
                    part: part.clone(),
                    chunk: *chunk as u32,
                    geometry: Box::new(self.geometry.clone()),
                },
            );
            first = first.min(kept.map_err(failed)?);
        }
        let segment = layout.segment_stripes().max(1);
        Ok(first / segment * segment)
    }

    /// The first plan as long as it needs nobody who is left out, else a new one.
    fn ready(&self, bad: &Bad) -> Result<Ready> {
        let refused = |error: &dyn std::fmt::Display| NodeError::Setup {
            what: format!("a plan for {}", self.geometry.object),
            why: error.to_string(),
        };
        let made = match &self.first {
            Some(plan) if bad.given_up.is_empty() => plan,
            _ => &self.plan(&bad.nodes, &bad.chunks)?,
        };
        let inputs = made.problem().dag().inputs().iter();
        let helpers: BTreeSet<usize> = inputs.map(|at| at.chunk as usize).collect();
        Ok(Ready {
            parts: made.parts().map_err(|error| refused(&error))?,
            costs: made.costs(),
            helpers: helpers.into_iter().collect(),
            strategy: made.strategy(),
        })
    }

    fn plan(&self, bad_nodes: &BTreeSet<usize>, bad_chunks: &BTreeSet<usize>) -> Result<Plan> {
        let refused = |error: &dyn std::fmt::Display| NodeError::Setup {
            what: format!("a plan for {}", self.geometry.object),
            why: error.to_string(),
        };
        let lost: Vec<usize> = self.targets.iter().map(|target| target.0).collect();
        let mut homes: Vec<(usize, usize)> = Vec::new();
        for (rank, node) in self.nodes.iter().enumerate() {
            let usable = |chunk: &usize| !lost.contains(chunk) && !bad_chunks.contains(chunk);
            let chunks = node.shards.iter().map(|(chunk, _)| *chunk).filter(usable);
            if !bad_nodes.contains(&rank) {
                homes.extend(chunks.map(|chunk| (chunk, rank)));
            }
        }
        let available: Vec<usize> = homes.iter().map(|(chunk, _)| *chunk).collect();
        let (_, dag) = self.codec.repair_dag(&lost, &available).map_err(|error| refused(&error))?;
        let targets: Vec<(usize, usize)> = self.targets.iter().map(|t| (t.0, t.1)).collect();
        let cluster = Cluster::uniform(self.nodes.len()).map_err(|error| refused(&error))?;
        let cluster = Arc::new(cluster);
        let problem = Problem::new(Arc::new(dag), cluster, &homes, &targets);
        let problem = problem.map_err(|error| refused(&error))?;
        let row = strategy(self.strategy).map_err(|error| refused(&error))?;
        let plan = row.plan(&problem, &mut Effort::new(self.seed)).map_err(|e| refused(&e))?;
        plan.check().map_err(|error| refused(&error))?;
        Ok(plan)
    }

    fn shares(&self, parts: &Parts, first: u64) -> Vec<Share> {
        let mut shares = Vec::new();
        for node in 0..self.nodes.len() {
            let Some(bare) = Assignment::of(parts, node) else { continue };
            let stripes = self.geometry.shard(0).layout().map_or(0, |layout| layout.stripes());
            let address = |node: usize| self.nodes[node].address.to_string();
            let bare = bare.connected(address, &self.nodes[node].shards);
            let targets = self.targets.iter().filter(|target| target.1 == node);
            let targets: Vec<TargetFile> = targets
                .map(|(chunk, _, part, name)| TargetFile {
                    chunk: *chunk as u32,
                    part: part.clone(),
                    name: name.clone(),
                })
                .collect();
            let writes = self.in_place && !targets.is_empty();
            let assignment = Assignment {
                first,
                end: stripes,
                slice: self.slice,
                windows: self.windows,
                rate: self.rate,
                geometry: self.geometry.clone(),
                targets,
                ..bare
            };
            shares.push(Share { node, assignment: assignment.encode().into(), writes });
        }
        shares
    }

    fn carry_out(
        &self,
        network: &Network,
        task: [u8; 16],
        shares: Vec<Share>,
        spared: Vec<usize>,
        first: u64,
        watcher: &dyn Watcher,
    ) -> Result<Outcome> {
        let address = |share: &Share| &self.nodes[share.node].address;
        let peers = shares.iter().map(|share| network.peer(address(share)));
        let peers = peers.collect::<Result<Vec<_>>>()?;
        let post = Post::new(peers, Priority::Control);
        let layout = self.geometry.shard(0).layout()?;
        let bytes = |stripes: Range<u64>| -> u64 {
            let chunk: u64 = stripes.map(|s| layout.chunk_len(s) as u64).sum();
            chunk * self.targets.len() as u64
        };
        let (before, total) = (bytes(0..first), bytes(0..layout.stripes()));
        let mut coordinator = Coordinator::new(task, shares).sparing(spared);
        let (start, mut rate) = (network.now(), self.rate);
        let mut heard = start;
        let mut stopping = false;
        post.send(coordinator.begin(Duration::ZERO));
        loop {
            if let Some(outcome) = coordinator.outcome() {
                return Ok(outcome);
            }
            if watcher.stopped() && !stopping {
                stopping = true;
                post.send(coordinator.cancel("it was told to stop"));
            }
            if let Some(wanted) = watcher.rate().filter(|wanted| *wanted != rate) {
                let orders = coordinator.throttle(wanted);
                if !orders.is_empty() {
                    rate = wanted;
                    post.send(orders);
                }
            }
            coordinator.beside(network.now().saturating_sub(start), watcher.beside());
            match network.receive(&post.answers, Some(LOOK)) {
                Ok((order, answer)) => {
                    heard = network.now();
                    let answer = answer.map(|frame| frame.message);
                    post.send(coordinator.answered(heard.saturating_sub(start), &order, answer));
                }
                Err(RecvTimeoutError::Timeout) if network.now() < heard + UNHEARD => {}
                // Every order has its own time; this is for a bug only.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(NodeError::protocol("an order was never answered"));
                }
            }
            let kept: u64 = coordinator.amounts().iter().map(|amounts| amounts.written).sum();
            watcher.kept(before + kept, total);
        }
    }
}

pub(super) type Answered = (Order, Result<Frame>);

/// Orders go out here, and answers come back.
pub(super) struct Post {
    peers: Vec<Arc<Peer>>,
    tell: Sender<Answered>,
    answers: Receiver<Answered>,
    priority: Priority,
}

impl Post {
    /// For orders to these agents, by rank.
    pub fn new(peers: Vec<Arc<Peer>>, priority: Priority) -> Post {
        let (tell, answers) = channel();
        Post { peers, tell, answers, priority }
    }

    /// Where answers arrive.
    pub fn answers(&self) -> &Receiver<Answered> {
        &self.answers
    }

    pub fn send(&self, orders: impl IntoIterator<Item = Order>) {
        for order in orders {
            let tell = self.tell.clone();
            let (message, payload) = (order.message.clone(), order.payload.clone());
            let (patience, rank) = (order.patience, order.rank);
            let order = Order { payload: Bytes::new(), ..order };
            // The receiver lives as long as this.
            let answer = Box::new(move |result| drop(tell.send((order, result))));
            let priority = self.priority;
            self.peers[rank].ask(Question { message, payload, priority, patience, answer });
        }
    }
}
