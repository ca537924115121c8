//! The plans of one placed repair: each without who or what failed the one before.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use kiln_code::Codec;
use kiln_plan::{COPIED, Costs, Execution, Plan, Problem, SearchBudget};
use kiln_store::Layout;

use super::placed::{self, Shares, Wanted, refused};
use super::prices::{ByPrice, Extent, Price};
use crate::coordinator::{RepairFailure, Share};
use kiln_net::proto::assignment::{Geometry, TargetFile};
use kiln_net::{NetError, Result, agent::TaskId, task::TransferCounters};

/// An agent that takes part in a repair.
#[derive(Debug, Clone)]
pub struct Helper {
    /// Its address, as text.
    pub address: String,
    /// The shards it has: chunk and file name.
    pub shards: Vec<(usize, String)>,
}

/// A repair over agents.
#[derive(Debug)]
pub struct PlacedRepair<'a> {
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
    /// Prices of reads and bytes: plans are then chosen by them, and none is taken as it is.
    pub prices: Option<ByPrice>,
    /// Says whether agents that have a chunk to rebuild, sound but on its way elsewhere, give it:
    /// it is copied as long as they can.
    pub copies: bool,
    /// Says whether rebuilt shards get their names; else they stay parts, durable and verified.
    pub in_place: bool,
    /// Bytes of every sub-chunk in a window.
    pub slice: u32,
    /// Windows under way at each node.
    pub windows: u32,
    /// Bytes a second for each node (0: no limit).
    pub rate: u64,
    /// Seed of the plan's search.
    pub seed: u64,
    /// Budget of that search, in its moves.
    pub moves: u64,
}

impl PlacedRepair<'_> {
    /// Returns the problem of a first plan that is made elsewhere: the repair as long as
    /// every agent does its part.
    pub fn problem(&self) -> Result<Problem> {
        let attempts = Attempts::new(self, TaskId::default())?;
        let problem = attempts.wanted().problem();
        problem.map_err(|error| refused(&self.geometry.object, &error))
    }
}

/// The result of a repair.
#[derive(Debug)]
pub struct Repaired {
    /// Counters of every agent, by rank.
    pub nodes: BTreeMap<usize, TransferCounters>,
    /// Costs of the plan, in sub-chunks.
    pub planned: Costs,
    /// Bytes that one sub-chunk of the plan stands for: all stripes that were repaired by it.
    pub sub_bytes: u64,
    /// Bytes of rebuilt shards that an earlier attempt had left.
    pub resumed: u64,
    /// Chunks that were read.
    pub helpers: Vec<usize>,
    /// Strategy of the plan that was carried out.
    pub strategy: &'static str,
    /// Says whether that is the one which the repair was given to begin with.
    pub given: bool,
    /// Price of that plan, where it was chosen by prices.
    pub price: Option<Price>,
    /// Chunks that turned out to be damaged.
    pub corrupt: Vec<usize>,
    /// Plans that were given up, with the reason.
    pub given_up: Vec<String>,
}

/// Why no plan could save a repair.
#[derive(Debug)]
pub struct FinalFailure {
    /// The reason.
    pub error: NetError,
    /// The agent that failed, by rank, if it was one.
    pub node: Option<usize>,
    /// Says whether it may be temporary: agents could not be reached, e.g. while a link is cut.
    pub passing: bool,
    /// Plans that were given up before.
    pub given_up: Vec<String>,
}

impl FinalFailure {
    pub(crate) fn new(node: Option<usize>, error: NetError) -> Box<FinalFailure> {
        let passing = error.is_retryable();
        FinalFailure::passing(passing, node, error)
    }

    fn passing(passing: bool, node: Option<usize>, error: NetError) -> Box<FinalFailure> {
        Box::new(FinalFailure { error, node, passing, given_up: Vec::new() })
    }
}

impl From<Box<FinalFailure>> for NetError {
    fn from(failure: Box<FinalFailure>) -> NetError {
        failure.error
    }
}

/// A plan that is ready to be carried out.
#[derive(Debug)]
pub(crate) struct Ready {
    plan: Plan,
    parts: Execution,
    costs: Costs,
    helpers: Vec<usize>,
    strategy: &'static str,
    price: Option<Price>,
}

/// A plan that is carried out.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// Every plan is a task of its own: late fragments of the last one have no task.
    pub task: TaskId,
    pub shares: Vec<Share>,
    /// Nodes that another plan can leave out.
    pub spared: Vec<usize>,
    /// Bytes of rebuilt chunks that were there before, and of how many.
    pub kept: (u64, u64),
    first: u64,
    ready: Ready,
}

/// See the module. Each attempt: [`Attempts::plan`], then [`Attempts::begin`] once it is known
/// what earlier ones left, then [`Attempts::done`] or [`Attempts::failed`].
#[derive(Debug)]
pub(crate) struct Attempts<'r> {
    repair: &'r PlacedRepair<'r>,
    layout: Layout,
    task: TaskId,
    /// Agents and shards that are left out.
    nodes: BTreeSet<usize>,
    chunks: BTreeSet<usize>,
    given_up: Vec<String>,
}

impl<'r> Attempts<'r> {
    /// None yet; `task` names the first.
    pub fn new(repair: &'r PlacedRepair<'r>, task: TaskId) -> Result<Self, Box<FinalFailure>> {
        let layout = repair.geometry.shard(0).layout();
        let layout = layout.map_err(|error| FinalFailure::new(None, error.into()))?;
        let (nodes, chunks, given_up) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        Ok(Attempts { repair, layout, task, nodes, chunks, given_up })
    }

    /// The first plan as long as no agent is left out, else a new one.
    /// Errors: too few chunks are left; that may pass if it is for agents that could not be
    /// reached.
    pub fn plan(&self) -> Result<Ready, Box<FinalFailure>> {
        let passing = !self.nodes.is_empty();
        self.ready().map_err(|error| {
            let error = refused(&self.repair.geometry.object, &error);
            FinalFailure::passing(passing, None, error)
        })
    }

    fn ready(&self) -> Result<Ready, kiln_plan::PlanError> {
        let (repair, wanted) = (self.repair, self.wanted());
        let is_copy = wanted.is_copy();
        let (made, price) = match (&repair.prices, &repair.first) {
            (Some(prices), _) => {
                let all = self.extent(0);
                let (plan, price) = prices.cheapest(&wanted, repair.seed, all)?;
                (plan, Some(price))
            }
            (None, Some(plan)) if self.begins_as_given() => (plan.clone(), None),
            _ => {
                // Of what is only moved no strategy makes anything else.
                let strategy = if is_copy { "central" } else { repair.strategy };
                let budget = SearchBudget::new(repair.seed).with_moves(repair.moves);
                (placed::plan_within(&wanted.problem()?, strategy, budget)?, None)
            }
        };
        let inputs = made.problem().dag().inputs().iter();
        let helpers: BTreeSet<usize> = inputs.map(|at| at.chunk as usize).collect();
        Ok(Ready {
            parts: made.execution()?,
            costs: made.costs(),
            helpers: helpers.into_iter().collect(),
            strategy: if is_copy { COPIED } else { made.strategy() },
            price,
            plan: made,
        })
    }

    /// Returns whether the plan that the repair was given, if any, is the next or the present one.
    fn begins_as_given(&self) -> bool {
        let repair = self.repair;
        repair.first.is_some() && repair.prices.is_none() && self.given_up.is_empty()
    }

    fn wanted(&self) -> Wanted<'_> {
        let targets = self.repair.targets.iter().map(|target| (target.0, target.1));
        Wanted {
            codec: self.repair.codec,
            nodes: self.repair.nodes.len(),
            homes: self.homes(None),
            targets: targets.collect(),
            runs: None,
        }
    }

    /// Chunks that can be read, each with its node: without those who are left out, and one more.
    fn homes(&self, without: Option<usize>) -> Vec<(usize, usize)> {
        let usable = |chunk: &usize| {
            let lost = self.repair.targets.iter().any(|target| target.0 == *chunk);
            !self.chunks.contains(chunk) && (self.repair.copies || !lost)
        };
        let nodes = self.repair.nodes.iter().enumerate();
        let nodes = nodes.filter(|(rank, _)| Some(*rank) != without && !self.nodes.contains(rank));
        let chunks =
            nodes.flat_map(|(rank, node)| node.shards.iter().map(move |(chunk, _)| (*chunk, rank)));
        chunks.filter(|(chunk, _)| usable(chunk)).collect()
    }

    /// Returns whether a node gets a rebuilt shard.
    fn gets(&self, rank: usize) -> bool {
        self.repair.targets.iter().any(|target| target.1 == rank)
    }

    /// Nodes without which the lost chunks could still be rebuilt.
    fn spared(&self) -> Vec<usize> {
        let lost: Vec<usize> = self.repair.targets.iter().map(|target| target.0).collect();
        let spared = |rank: &usize| {
            let mut chunks: Vec<usize> =
                self.homes(Some(*rank)).into_iter().map(|(chunk, _)| chunk).collect();
            chunks.retain(|chunk| !lost.contains(chunk));
            chunks.sort_unstable();
            chunks.dedup();
            !self.gets(*rank) && self.repair.codec.decode(&lost, &chunks).is_ok()
        };
        (0..self.repair.nodes.len()).filter(spared).collect()
    }

    /// Returns the attempt for parts of targets that hold this many stripes: from the
    /// segment on that one of them lacks.
    pub fn begin(&self, ready: Ready, stripes: impl IntoIterator<Item = u64>) -> Attempt {
        let most = self.layout.stripes().saturating_sub(1);
        let first = stripes.into_iter().fold(most, u64::min);
        let segment = self.layout.segment_stripes().max(1);
        let first = first / segment * segment;
        let mut task = self.task;
        task[15] = task[15].wrapping_add(self.given_up.len() as u8);
        let kept = (self.bytes(0..first), self.bytes(0..self.layout.stripes()));
        let (shares, spared) = (self.shares(&ready.parts, first), self.spared());
        Attempt { task, shares, spared, kept, first, ready }
    }

    /// Bytes of the rebuilt chunks in these stripes.
    fn bytes(&self, stripes: Range<u64>) -> u64 {
        let chunk: u64 = stripes.map(|stripe| self.layout.chunk_len(stripe) as u64).sum();
        chunk * self.repair.targets.len() as u64
    }

    fn shares(&self, parts: &Execution, first: u64) -> Vec<Share> {
        let repair = self.repair;
        let shares = Shares {
            parts,
            stripes: first..self.layout.stripes(),
            slice: repair.slice,
            windows: repair.windows,
            rate: repair.rate,
            geometry: repair.geometry.clone(),
            address: &|node| repair.nodes[node].address.clone(),
        };
        let share = |(node, helper): (usize, &Helper)| {
            let targets = repair.targets.iter().filter(|target| target.1 == node);
            let targets: Vec<TargetFile> = targets
                .map(|(chunk, _, part, name)| TargetFile {
                    chunk: *chunk as u32,
                    part: part.clone(),
                    name: name.clone(),
                })
                .collect();
            let writes = repair.in_place && !targets.is_empty();
            let assignment = shares.of(node, &helper.shards, targets)?;
            Some(Share { node, assignment: assignment.encode().into(), writes })
        };
        repair.nodes.iter().enumerate().filter_map(share).collect()
    }

    /// Returns the plan of an attempt, and the bytes that one sub-chunk of it stands for.
    pub fn plan_of<'a>(&self, attempt: &'a Attempt) -> (&'a Plan, u64) {
        (&attempt.ready.plan, self.extent(attempt.first).sub_bytes)
    }

    /// Returns the amount to rebuild from a stripe on.
    fn extent(&self, first: u64) -> Extent {
        let left = first..self.layout.stripes();
        let stripes = left.end.saturating_sub(left.start);
        let sub_bytes = left.map(|stripe| self.layout.sub_len(stripe) as u64).sum();
        Extent { stripes, sub_bytes }
    }

    /// The attempt was carried out; it is the last one.
    pub fn done(&mut self, attempt: Attempt, amounts: Vec<(usize, TransferCounters)>) -> Repaired {
        let (sub_bytes, all) = (self.extent(attempt.first).sub_bytes, self.extent(0).sub_bytes);
        let left = sub_bytes as f64 / all.max(1) as f64;
        Repaired {
            nodes: amounts.into_iter().collect(),
            planned: attempt.ready.costs,
            sub_bytes,
            resumed: attempt.kept.0,
            helpers: attempt.ready.helpers,
            strategy: attempt.ready.strategy,
            given: self.begins_as_given(),
            price: attempt.ready.price.map(|price| price.part(left)),
            corrupt: self.chunks.iter().copied().collect(),
            given_up: std::mem::take(&mut self.given_up),
        }
    }

    /// The attempt failed: takes note of who or what was in the way, and gives it in words.
    /// Errors: no other plan would help.
    pub fn failed(&mut self, failure: RepairFailure) -> Result<&str, Box<FinalFailure>> {
        let passing = matches!(failure, RepairFailure::Node(..));
        let why = match failure {
            RepairFailure::Node(node, error) | RepairFailure::Disk(node, error) => {
                if self.gets(node) || !self.nodes.insert(node) {
                    return Err(FinalFailure::passing(passing, Some(node), error));
                }
                let address = self.repair.nodes.get(node).map(|node| &node.address[..]);
                format!("without {}: {error}", address.unwrap_or_default())
            }
            RepairFailure::Chunk(chunk, stripe, text) => {
                let why =
                    format!("without shard {chunk}, which is damaged in stripe {stripe}: {text}");
                if !self.chunks.insert(chunk) {
                    let (what, place) = ("the repair".to_owned(), "the coordinator".to_owned());
                    let error = NetError::GaveUp { what, place, why };
                    return Err(FinalFailure::passing(passing, None, error));
                }
                why
            }
            RepairFailure::Failed(error) => {
                return Err(FinalFailure::passing(passing, None, error));
            }
        };
        self.given_up.push(why);
        Ok(self.given_up.last().map_or("", String::as_str))
    }

    /// A failure that ends it, with the plans that were given up before.
    pub fn end(self, failure: FinalFailure) -> Box<FinalFailure> {
        Box::new(FinalFailure { given_up: self.given_up, ..failure })
    }
}

#[cfg(test)]
mod tests;
