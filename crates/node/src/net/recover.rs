//! The shell of a coordinator: plans a repair over agents, runs it, and plans again without who
//! or what was in the way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kiln_code::Codec;
use kiln_plan::{Cluster, Costs, Effort, Parts, Problem, strategy};

use super::dial::{Peer, Question};
use super::{Address, Network};
use crate::coordinator::{Coordinator, Order, Outcome, Share, Trouble};
use crate::proto::Frame;
use crate::proto::Priority;
use crate::proto::assignment::{Assignment, Geometry, Peer as PeerInfo, SourceFile, TargetFile};
use crate::task::Amounts;
use crate::{NodeError, Result};

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
    /// and its own name.
    pub targets: Vec<(usize, usize, String, String)>,
    /// Strategy by which the plan is made.
    pub strategy: &'a str,
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
    /// Chunks that were read.
    pub helpers: Vec<usize>,
    /// Plans that were given up, with the reason.
    pub given_up: Vec<String>,
}

/// What happens while a repair runs.
pub trait Watcher {
    /// Bytes of rebuilt chunks that are kept so far, and of how many.
    fn kept(&self, bytes: u64, total: u64);

    /// The plan is given up for another one.
    fn replanned(&self, why: &str);
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
    ) -> Result<Recovered> {
        let mut bad_nodes = BTreeSet::new();
        let mut bad_chunks = BTreeSet::new();
        let mut given_up = Vec::new();
        loop {
            let (parts, planned, helpers) = self.plan(&bad_nodes, &bad_chunks)?;
            let mut id = task;
            // Every plan is a task of its own: late parcels of the last one belong to nobody.
            id[15] = id[15].wrapping_add(given_up.len() as u8);
            let shares = self.shares(&parts, id);
            let spared = self.spared(&bad_nodes, &bad_chunks);
            match self.carry_out(network, id, shares, spared, watcher)? {
                Outcome::Done(amounts) => {
                    let nodes = amounts.into_iter().collect();
                    return Ok(Recovered { nodes, planned, helpers, given_up });
                }
                Outcome::Trouble(Trouble::Node(node, error)) => {
                    let gets = self.targets.iter().any(|(_, to, ..)| *to == node);
                    if gets || !bad_nodes.insert(node) {
                        return Err(error);
                    }
                    let address = self.nodes.get(node).map(|n| n.address.to_string());
                    let why = format!("without {}: {error}", address.unwrap_or_default());
                    watcher.replanned(&why);
                    given_up.push(why);
                }
                Outcome::Trouble(Trouble::Chunk(chunk, stripe, text)) => {
                    let why = format!("without shard {chunk} (stripe {stripe}): {text}");
                    if !bad_chunks.insert(chunk) {
                        return Err(NodeError::GaveUp {
                            what: "the repair".to_owned(),
                            place: "the coordinator".to_owned(),
                            why,
                        });
                    }
                    watcher.replanned(&why);
                    given_up.push(why);
                }
                Outcome::Trouble(Trouble::Failed(error)) => return Err(error),
            }
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
            chunks.filter(usable).collect::<BTreeSet<usize>>().len()
        };
        let gets = |rank: usize| self.targets.iter().any(|target| target.1 == rank);
        let k = usize::from(self.geometry.k);
        (0..self.nodes.len()).filter(|rank| !gets(*rank) && without(*rank) >= k).collect()
    }

    fn plan(
        &self,
        bad_nodes: &BTreeSet<usize>,
        bad_chunks: &BTreeSet<usize>,
    ) -> Result<(Parts, Costs, Vec<usize>)> {
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
        let helpers: BTreeSet<usize> = dag.inputs().iter().map(|at| at.chunk as usize).collect();
        let targets: Vec<(usize, usize)> = self.targets.iter().map(|t| (t.0, t.1)).collect();
        let cluster = Cluster::uniform(self.nodes.len()).map_err(|error| refused(&error))?;
        let cluster = Arc::new(cluster);
        let problem = Problem::new(Arc::new(dag), cluster, &homes, &targets);
        let problem = problem.map_err(|error| refused(&error))?;
        let row = strategy(self.strategy).map_err(|error| refused(&error))?;
        let plan = row.plan(&problem, &mut Effort::new(self.seed)).map_err(|e| refused(&e))?;
        plan.check().map_err(|error| refused(&error))?;
        let parts = plan.parts().map_err(|error| refused(&error))?;
        Ok((parts, plan.costs(), helpers.into_iter().collect()))
    }

    /// Parts bear the task's number: one of an earlier plan may still be written to by an agent
    /// that could not be told to stop.
    fn shares(&self, parts: &Parts, task: [u8; 16]) -> Vec<Share> {
        let mark: String = task[10..].iter().map(|byte| format!("{byte:02x}")).collect();
        let mut shares = Vec::new();
        for node in 0..self.nodes.len() {
            let Some(bare) = Assignment::of(parts, node) else { continue };
            let stripes = self.geometry.shard(0).layout().map_or(0, |layout| layout.stripes());
            let to: BTreeSet<u32> =
                bare.rounds.iter().flat_map(|r| &r.sends).map(|send| send.to).collect();
            let peers = to.into_iter().map(|node| PeerInfo {
                node,
                address: self.nodes[node as usize].address.to_string(),
            });
            let read: BTreeSet<u32> =
                bare.pieces.iter().filter(|p| !p.runs.is_empty()).map(|p| p.chunk).collect();
            let shards = self.nodes[node].shards.iter();
            let sources = shards.filter(|(chunk, _)| read.contains(&(*chunk as u32)));
            let sources = sources
                .map(|(chunk, name)| SourceFile { chunk: *chunk as u32, name: name.clone() });
            let targets = self.targets.iter().filter(|target| target.1 == node);
            let targets: Vec<TargetFile> = targets
                .map(|(chunk, _, part, name)| TargetFile {
                    chunk: *chunk as u32,
                    part: format!("{part}.{mark}"),
                    name: name.clone(),
                })
                .collect();
            let writes = !targets.is_empty();
            let assignment = Assignment {
                first: 0,
                end: stripes,
                slice: self.slice,
                windows: self.windows,
                rate: self.rate,
                geometry: self.geometry.clone(),
                peers: peers.collect(),
                sources: sources.collect(),
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
        watcher: &dyn Watcher,
    ) -> Result<Outcome> {
        let Some(runtime) = network.runtime() else {
            return Err(NodeError::protocol("the network is shutting down"));
        };
        let address = |share: &Share| &self.nodes[share.node].address;
        let connect = |share| Peer::connect(&runtime, address(share), network.key());
        let peers: Vec<Peer> = shares.iter().map(connect).collect();
        let (tell, answers) = channel();
        let post = Post { peers, tell, answers };
        let layout = self.geometry.shard(0).layout()?;
        let chunk_bytes: u64 = (0..layout.stripes()).map(|s| layout.chunk_len(s) as u64).sum();
        let total = chunk_bytes * self.targets.len() as u64;
        let mut coordinator = Coordinator::new(task, shares).sparing(spared);
        let start = Instant::now();
        post.send(coordinator.begin(start.elapsed()));
        loop {
            if let Some(outcome) = coordinator.outcome() {
                return Ok(outcome);
            }
            let (order, answer) = match post.answers.recv_timeout(Duration::from_secs(300)) {
                Ok(answer) => answer,
                // Every order has its own time; this is for a bug only.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(NodeError::protocol("an order was never answered"));
                }
            };
            let answer = answer.map(|frame| frame.message);
            post.send(coordinator.answered(start.elapsed(), &order, answer));
            let kept = coordinator.amounts().iter().map(|amounts| amounts.written).sum();
            watcher.kept(kept, total);
        }
    }
}

type Answered = (Order, Result<Frame>);

/// Orders go out here, and answers come back.
struct Post {
    peers: Vec<Peer>,
    tell: Sender<Answered>,
    answers: Receiver<Answered>,
}

impl Post {
    fn send(&self, orders: Vec<Order>) {
        for order in orders {
            let tell = self.tell.clone();
            let (message, payload) = (order.message.clone(), order.payload.clone());
            let (patience, rank) = (order.patience, order.rank);
            let order = Order { payload: Bytes::new(), ..order };
            // The receiver lives as long as this.
            let answer = Box::new(move |result| drop(tell.send((order, result))));
            let priority = Priority::Control;
            self.peers[rank].ask(Question { message, payload, priority, patience, answer });
        }
    }
}
