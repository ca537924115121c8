//! Totals of a pool's recovery.

use std::collections::BTreeMap;

use kiln_pool::repair::ExpectedReads;
use kiln_pool::repair::queue::RepairQueue;
use kiln_pool::{PoolConfig, PoolStatus, RepairedObject};
use serde::Serialize;

use super::attempts::{FinalFailure, Repaired};
use super::{batch::Batch, prices::Price};
use crate::RecoveryError;
use kiln_stripe::PoolError;

/// Failures, plans given up, and objects repaired here that a report tells at most.
const MOST_TOLD: usize = 1000;

/// Bytes that one node moved, beside what the plans say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct NodeLoad {
    /// Bytes read from disk.
    pub read: u64,
    /// Bytes sent to other nodes.
    pub sent: u64,
    /// Bytes received from other nodes.
    pub received: u64,
    /// Bytes of rebuilt chunks.
    pub written: u64,
    /// Bytes sent, by the plans that were carried out.
    pub planned_sent: u64,
    /// Bytes received, by these plans.
    pub planned_received: u64,
}

impl NodeLoad {
    /// Returns the bytes of its link in the busier direction.
    pub fn load(&self) -> u64 {
        self.sent.max(self.received)
    }

    /// The same as planned.
    pub fn planned_load(&self) -> u64 {
        self.planned_sent.max(self.planned_received)
    }

    pub(super) fn add(&mut self, more: &NodeLoad) {
        self.read += more.read;
        self.sent += more.sent;
        self.received += more.received;
        self.written += more.written;
        self.planned_sent += more.planned_sent;
        self.planned_received += more.planned_received;
    }
}

/// Totals of the repairs by plans of one strategy.
#[derive(Debug, Clone, Default)]
pub struct StrategyLoad {
    /// Objects.
    pub objects: u64,
    /// Bytes that every node moved for them, by id.
    pub nodes: BTreeMap<String, NodeLoad>,
}

/// Report of a recovery, as a repair on demand prints it in JSON.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PoolRecovered {
    /// The strategy asked for.
    #[serde(skip)]
    pub strategy: String,
    /// Objects in the pool.
    pub objects: u64,
    /// Objects that lacked something, in a repair on demand.
    pub damaged: u64,
    /// Objects repaired, each once a repair (in a dry run, that would be).
    pub repaired: u64,
    /// Objects that still wait: for nodes that may come back, or for another try.
    pub waiting: u64,
    /// Objects that could not be repaired, with the reason; at most 1000.
    pub failed: Vec<(String, String)>,
    /// Number of objects that could not be repaired.
    pub failed_count: u64,
    /// Objects that cannot be read now.
    pub unreadable: u64,
    /// Ids of nodes that take part and were unavailable at the last survey.
    pub missing: Vec<String>,
    /// So many nodes were unavailable that there may be objects which only they know.
    pub incomplete: bool,
    /// Bytes that repairs computed here read.
    #[serde(rename = "bytes_read")]
    pub central_read: u64,
    /// Contiguous reads of these.
    pub read_runs: u64,
    /// Bytes of shards that were rebuilt (in a dry run, that would be).
    #[serde(rename = "bytes_written")]
    pub rebuilt: u64,
    /// Of these, kept from an earlier attempt.
    #[serde(rename = "resumed_bytes")]
    pub resumed: u64,
    /// The epoch from which on all manifests are in place, when this recovery brought that about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled: Option<u64>,
    /// Repairs computed here; at most 1000.
    pub details: Vec<RepairedObject>,
    /// A dry run.
    pub dry_run: bool,
    /// Wall time.
    pub seconds: f64,
    /// Expected cost of the reads of repairs computed here, where that is known.
    #[serde(skip)]
    pub expected: Option<ExpectedReads>,
    /// Of the repaired objects, computed here and not by the agents.
    #[serde(skip)]
    pub central: u64,
    /// Bytes that repairs computed here wrote.
    #[serde(skip)]
    pub central_written: u64,
    /// Bytes by strategy of the plans carried out.
    #[serde(skip)]
    pub strategies: BTreeMap<&'static str, StrategyLoad>,
    /// Bytes by node, of all strategies.
    #[serde(skip)]
    pub nodes: BTreeMap<String, NodeLoad>,
    /// Price of the plans that agents carried out, where they were chosen by prices.
    #[serde(skip)]
    pub price: Option<Price>,
    /// Plans that were given up for others, with the reason; at most 1000.
    #[serde(skip)]
    pub replanned: Vec<String>,
    /// Number of replanned repairs.
    #[serde(skip)]
    pub replanned_count: u64,
    /// Chunks that the busiest link carries by the joint plans, over what no plan can beat.
    #[serde(skip)]
    pub over_bound: Option<f64>,
    /// Seconds that joint planning took.
    #[serde(skip)]
    pub plan_seconds: f64,
    /// It was told to stop before all was done.
    #[serde(skip)]
    pub stopped: bool,
}

impl PoolRecovered {
    /// Nothing yet.
    pub fn new(strategy: &str) -> PoolRecovered {
        PoolRecovered { strategy: strategy.to_owned(), ..PoolRecovered::default() }
    }

    /// All nodes together.
    pub fn total(&self) -> NodeLoad {
        let mut total = NodeLoad::default();
        self.nodes.values().for_each(|node| total.add(node));
        total
    }

    /// A survey has ended. What waits is in the queue; on demand it is what repairs have left.
    pub(super) fn surveyed(&mut self, status: &PoolStatus, queue: Option<&RepairQueue>) {
        self.objects = status.objects;
        self.unreadable = status.unreadable;
        self.incomplete = status.incomplete;
        let Some(queue) = queue else { return };
        let lost = queue.by_margin().range(..0).map(|(_, count)| count).sum::<u64>();
        self.waiting = (queue.len() as u64).saturating_sub(lost + queue.running() as u64);
    }

    pub(super) fn planned(&mut self, batch: &Batch, seconds: f64) {
        self.plan_seconds += seconds;
        let ratio = batch.bound().filter(|bound| *bound > 0.0).map(|b| batch.busiest() / b);
        self.over_bound = ratio.or(self.over_bound);
    }

    pub(super) fn gave_up(&mut self, name: &str, error: &RecoveryError) {
        self.failed_count += 1;
        if self.failed.len() < MOST_TOLD {
            self.failed.push((name.to_owned(), error.to_string()));
        }
    }

    pub(super) fn add(&mut self, name: &str, ended: &RepairOutcome) {
        self.replanned_count += ended.given_up.len() as u64;
        let room = MOST_TOLD.saturating_sub(self.replanned.len());
        let told = ended.given_up.iter().take(room).map(|why| format!("{name}: {why}"));
        self.replanned.extend(told);
        self.waiting += u64::from(ended.waits);
        ExpectedReads::add(&mut self.expected, ended.expected);
        if let Some(here) = &ended.here {
            self.central_read += here.bytes_read;
            self.central_written += here.bytes_written;
            self.read_runs += here.read_runs;
            if self.details.len() < MOST_TOLD {
                self.details.push(here.clone());
            }
        }
        if !matches!(ended.outcome, Outcome::Repaired) {
            return;
        }
        self.repaired += 1;
        self.rebuilt += ended.rebuilt;
        self.resumed += ended.resumed;
        let Some(strategy) = ended.strategy else {
            self.central += 1;
            return;
        };
        if let Some(price) = ended.price {
            self.price.get_or_insert_default().add(price);
        }
        let row = self.strategies.entry(strategy).or_default();
        row.objects += 1;
        for (id, load) in &ended.nodes {
            row.nodes.entry(id.clone()).or_default().add(load);
            self.nodes.entry(id.clone()).or_default().add(load);
        }
    }
}

/// Outcome of the repair of an object.
#[derive(Debug, Default)]
pub(crate) enum Outcome {
    /// It is done.
    Repaired,
    /// There was nothing to do.
    #[default]
    Whole,
    /// The object was removed or replaced.
    Gone,
    /// It has to wait.
    Failed(RecoveryError),
}

/// An outcome with what it took.
#[derive(Debug, Default)]
pub(crate) struct RepairOutcome {
    pub outcome: Outcome,
    /// Strategy of the plan; `None`: computed here.
    pub strategy: Option<&'static str>,
    /// By id of the node.
    pub nodes: BTreeMap<String, NodeLoad>,
    pub rebuilt: u64,
    pub resumed: u64,
    pub given_up: Vec<String>,
    /// Shards that are known to be damaged now, where a repair learnt of that.
    pub damaged: Option<Vec<u16>>,
    /// Report of a repair that was computed here.
    pub here: Option<RepairedObject>,
    /// Expected cost of its reads, if it was computed here or would be.
    pub expected: Option<ExpectedReads>,
    /// Shards of it wait for unavailable nodes.
    pub waits: bool,
    /// Price of its plan, where it was chosen by prices.
    pub price: Option<Price>,
}

impl From<Outcome> for RepairOutcome {
    fn from(outcome: Outcome) -> RepairOutcome {
        RepairOutcome { outcome, ..RepairOutcome::default() }
    }
}

impl RepairOutcome {
    /// It has to wait.
    pub fn failed(error: impl Into<RecoveryError>) -> RepairOutcome {
        Outcome::Failed(error.into()).into()
    }

    /// It was repaired here, as far as nodes are there for it.
    pub fn here(mut done: RepairedObject) -> RepairOutcome {
        let did = done.manifest || !done.rebuilt.is_empty();
        let (outcome, left) = match done.refused.take() {
            Some(what) => {
                let left = std::mem::take(&mut done.left_damaged);
                (Outcome::Failed(PoolError::Refused { what }.into()), Some(left))
            }
            None => (if did { Outcome::Repaired } else { Outcome::Whole }, None),
        };
        RepairOutcome {
            rebuilt: done.bytes_written,
            resumed: done.resumed_bytes,
            expected: done.expected,
            waits: !done.left.is_empty(),
            here: Some(done),
            damaged: left,
            ..outcome.into()
        }
    }

    /// No plan could save it.
    pub fn gave_up(failure: FinalFailure) -> RepairOutcome {
        RepairOutcome { given_up: failure.given_up, ..RepairOutcome::failed(failure.error) }
    }

    /// Agents rebuilt it, which took so much; nodes by the pool's positions.
    pub fn repaired(config: &PoolConfig, outcome: Outcome, done: Repaired) -> RepairOutcome {
        let mut nodes: BTreeMap<String, NodeLoad> = BTreeMap::new();
        let id = |node: usize| config.node[node].id.clone();
        for (node, amounts) in &done.nodes {
            let load = nodes.entry(id(*node)).or_default();
            (load.read, load.sent) = (amounts.read, amounts.sent);
            (load.received, load.written) = (amounts.received, amounts.written);
        }
        for (node, costs) in done.planned.nodes().iter().enumerate() {
            if costs.sent > 0 || costs.received > 0 {
                let load = nodes.entry(id(node)).or_default();
                load.planned_sent = costs.sent as u64 * done.sub_bytes;
                load.planned_received = costs.received as u64 * done.sub_bytes;
            }
        }
        RepairOutcome {
            strategy: Some(done.strategy),
            rebuilt: done.resumed + nodes.values().map(|load| load.written).sum::<u64>(),
            nodes,
            resumed: done.resumed,
            price: done.price,
            given_up: done.given_up,
            damaged: (!done.corrupt.is_empty())
                .then(|| done.corrupt.iter().map(|chunk| *chunk as u16).collect()),
            ..outcome.into()
        }
    }
}
