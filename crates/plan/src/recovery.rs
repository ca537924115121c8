//! Full-node recovery: many stripes repaired at once over one cluster.
//!
//! A stripe alone has few choices; a hundred stripes over twenty machines have so many that their
//! repairs can fill all links evenly. So the choices are made together: for every stripe the node
//! that gets the lost chunk and one of several proved *candidate plans* (central, hub, chains, ...
//! and other helpers where the code needs fewer than there are). Stripes with the least redundancy
//! left come first, and what they need is balanced before anything else is placed.
//!
//! [`RecoveryPlan::bound`] says what no plan can beat; see `lab/results/plan.md` for its proof.

mod layout;
mod candidates;
mod balance;
mod bound;

pub use layout::{Layout, Stripe};

use crate::{Cluster, Plan, PlanError, Problem};
use candidates::CandidatePlans;
use kiln_code::{Dag, Result, Shape};
use std::{collections::BTreeMap, sync::Arc};

/// The strategy of a job that computes nothing: the node that leaves sends its chunk.
pub const COPIED: &str = "copied";

/// The most stripes of one recovery plan; larger recoveries are planned in batches.
const STRIPES_MAX: usize = 4_000_000;

/// Destination of rebuilt chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// To all machines that are alive: each chunk to one that stores nothing of its stripe.
    Spread,
    /// To these nodes only: one replacement, or several new ones.
    Nodes(Vec<usize>),
}

/// Options of a recovery plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveryOptions {
    /// Names of the strategies that give candidate plans.
    pub strategies: Vec<&'static str>,
    /// Seed of random choices: the same seed gives the same plan.
    pub seed: u64,
    /// Number of passes over all stripes to improve the balance; 0 plans every stripe
    /// alone: its first strategy and a random node, as without joint planning.
    pub sweeps: usize,
    /// Moves of a strategy that searches, for each pattern of losses.
    pub moves: u64,
    /// A node that is to be emptied and still answers: it has every chunk that stripes miss. Such a
    /// chunk is copied from it ([`COPIED`]), or rebuilt from the others, whichever leaves the
    /// busiest link less to carry. Stripes that miss several chunks are rebuilt.
    pub leaving: Option<usize>,
}

impl Default for RecoveryOptions {
    fn default() -> Self {
        let strategies = crate::STRATEGIES.iter().filter(|row| row.suits_recovery());
        RecoveryOptions {
            strategies: strategies.map(|row| row.name).collect(),
            seed: 1,
            sweeps: 12,
            moves: 100_000,
            leaving: None,
        }
    }
}

/// Emits the DAG that rebuilds lost chunks from available ones: [`kiln_code::Codec::repair_dag`].
pub type Emit<'a> = &'a dyn Fn(&[usize], &[usize]) -> Result<Dag>;

/// True if a loss of chunks can be rebuilt: [`kiln_code::Codec::tolerates`].
pub type Tolerates<'a> = &'a dyn Fn(&[usize]) -> bool;

/// One stripe's repair in a [`RecoveryPlan`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job<'a> {
    /// The stripe's place in the layout.
    pub stripe: usize,
    /// Its lost chunks, ascending.
    pub lost: &'a [usize],
    /// The node that gets each of them.
    pub targets: &'a [u16],
    /// The strategy of its plan.
    pub strategy: &'static str,
}

/// Stripes of equal risk: how many chunks they miss, and when they are safe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RiskClass {
    /// Chunks that each of its stripes misses.
    pub lost: usize,
    /// Number of stripes.
    pub stripes: usize,
    /// Chunks that the busiest link has carried when they are done, riskier ones included, in
    /// units of the mean link.
    pub makespan: f64,
}

/// A recovery of many stripes; made by [`RecoveryPlan::new`].
#[derive(Debug)]
pub struct RecoveryPlan {
    cluster: Arc<Cluster>,
    layout: Layout,
    candidates: CandidatePlans,
    /// Stripes in the order in which they are to be repaired.
    order: Vec<u32>,
    /// By stripe: the entry of the candidate plans, and where its targets begin.
    entries: Vec<u32>,
    /// By stripe: whether its chunk comes from the node that leaves.
    copied: Vec<bool>,
    starts: Vec<u32>,
    targets: Vec<u16>,
    sent: Vec<f64>,
    received: Vec<f64>,
    classes: Vec<RiskClass>,
    bound: f64,
}

impl RecoveryPlan {
    /// Plans the repair of all stripes of `layout` that miss chunks.
    /// Errors: a stripe cannot be rebuilt, or has no node to put a chunk on without two of its
    /// chunks on one node; a destination or home is not in the cluster; there are too many stripes.
    pub fn new(
        cluster: Arc<Cluster>,
        layout: Layout,
        emit: Emit<'_>,
        destination: Destination,
        options: &RecoveryOptions,
    ) -> Result<RecoveryPlan, PlanError> {
        let (got, limit) = (layout.len(), STRIPES_MAX);
        if got > limit {
            return Err(PlanError::TooMany { what: "stripes of a recovery", got, limit });
        }
        layout.check(cluster.nodes().len())?;
        let candidates = CandidatePlans::new(&layout, emit, &destination, options)?;
        let new = || balance::Balance::new(&cluster, &layout, &candidates, &destination);
        let first = new()?;
        let leaving = options.leaving.map(|node| leaving(node, &cluster, &layout, &first));
        let leaving = leaving.transpose()?;
        let bound = bound::least(&cluster, &layout, &candidates, first.receivers(), leaving);
        let (balance, order, classes) = match leaving {
            None => placed(first, None, bound, &layout, options)?,
            // Copies are cheap one by one, so that a search begins with too many: how many are best
            // is tried.
            Some(node) => {
                let mut best = placed(first, Some((node, 0.0)), bound, &layout, options)?;
                for most in [1.02 * bound, 1.1 * bound, f64::INFINITY] {
                    let next = placed(new()?, Some((node, most)), bound, &layout, options)?;
                    if next.0.makespan() < best.0.makespan() {
                        best = next;
                    }
                }
                best
            }
        };
        let balance::Placed { mut entries, starts, targets, sent, received } = balance.finish();
        let copied: Vec<bool> = entries.iter().map(|&entry| entry == balance::COPY).collect();
        for (at, entry) in entries.iter_mut().enumerate().filter(|(at, _)| copied[*at]) {
            // Any entry says which chunk it is.
            let lost: Vec<usize> = layout.stripe(at).lost().collect();
            let pattern = candidates.pattern(&lost);
            *entry = pattern.map_or(0, |pattern| pattern.range.start);
        }
        Ok(RecoveryPlan {
            cluster,
            layout,
            candidates,
            order,
            entries,
            copied,
            starts,
            targets,
            sent,
            received,
            classes,
            bound,
        })
    }

    /// The repairs, most-at-risk stripes first.
    pub fn jobs(&self) -> impl ExactSizeIterator<Item = Job<'_>> {
        (0..self.order.len()).map(|index| self.job(index))
    }

    fn job(&self, index: usize) -> Job<'_> {
        let stripe = self.order[index] as usize;
        let entry = self.candidates.entry(self.entries[stripe]);
        let start = self.starts[stripe] as usize;
        let targets = &self.targets[start..start + entry.lost.len()];
        let strategy = if self.copied[stripe] { COPIED } else { entry.plan.strategy() };
        Job { stripe, lost: &entry.lost, targets, strategy }
    }

    /// The placed plan of the job at `index`, on the nodes of the cluster.
    /// Errors: there is no such job, or it is a copy, of which nothing is computed.
    pub fn plan(&self, index: usize) -> Result<Plan, PlanError> {
        if index >= self.order.len() {
            let (got, limit) = (index, self.order.len());
            return Err(PlanError::TooMany { what: "index of a job", got, limit });
        }
        let job = self.job(index);
        if self.copied[job.stripe] {
            let reason = "its chunk is copied: there is nothing to compute".into();
            return Err(PlanError::BadStripe { stripe: job.stripe, reason });
        }
        let entry = self.candidates.entry(self.entries[job.stripe]);
        let stripe = self.layout.stripe(job.stripe);
        let mut nodes: Vec<usize> =
            stripe.homes().iter().map(|home| home.map_or(0, usize::from)).collect();
        for (&lost, &target) in job.lost.iter().zip(job.targets) {
            nodes[lost] = usize::from(target);
        }
        let all: Vec<(usize, usize)> = nodes.iter().copied().enumerate().collect();
        let dag = entry.plan.problem().dag().clone();
        let problem = Problem::new(dag, self.cluster.clone(), &all, &all)?;
        let placed = entry.plan.dag();
        let computed = placed.inputs().len()..placed.vertices();
        let place = computed.map(|v| nodes[entry.plan.node(v)]).collect();
        Plan::new(&problem, placed.clone(), place, entry.plan.strategy())
    }

    /// Time on the busiest link until all is done, in chunks over the mean link. With equal links:
    /// the chunks that the busiest node sends or receives, whichever is more.
    pub fn makespan(&self) -> f64 {
        self.classes.last().map_or(0.0, |class| class.makespan)
    }

    /// Returns the lower bound of all plans that read the optimum from disks, in the unit of the
    /// makespan.
    pub fn bound(&self) -> f64 {
        self.bound / self.layout.shape().alpha as f64
    }

    /// Seconds until all is done, for chunks of `bytes`.
    pub fn seconds(&self, bytes: u64) -> f64 {
        self.makespan() * bytes as f64 / mean_rate(&self.cluster)
    }

    /// Chunks that every node sends, by node of the cluster.
    pub fn sent(&self) -> impl Iterator<Item = f64> {
        self.sent.iter().map(|count| count / self.layout.shape().alpha as f64)
    }

    /// Chunks that every node receives, by node of the cluster.
    pub fn received(&self) -> impl Iterator<Item = f64> {
        self.received.iter().map(|count| count / self.layout.shape().alpha as f64)
    }

    /// Classes of risk in the order in which they are repaired.
    pub fn classes(&self) -> &[RiskClass] {
        &self.classes
    }

    /// Rebuilt chunks that come into a failure domain with another chunk of their stripe, because
    /// no better node was there: one more loss of that domain costs such a stripe two chunks.
    pub fn crowded(&self) -> usize {
        let domain = |node: u16| self.cluster.domain(usize::from(node));
        let crowded = |job: Job<'_>| {
            let homes = self.layout.stripe(job.stripe);
            let left = homes.raw().iter().filter_map(|&home| domain(home));
            let all: Vec<u32> =
                left.chain(job.targets.iter().filter_map(|&target| domain(target))).collect();
            let shares = |&&target: &&u16| {
                let own = domain(target);
                all.iter().filter(|&&other| Some(other) == own).count() > 1
            };
            job.targets.iter().filter(shares).count()
        };
        self.jobs().map(crowded).sum()
    }

    /// Returns how many stripes each strategy repairs.
    pub fn strategies(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for job in self.jobs() {
            *counts.entry(job.strategy).or_default() += 1;
        }
        counts
    }

    /// The numbers of the code.
    pub fn shape(&self) -> Shape {
        self.layout.shape()
    }

    /// The cluster snapshot that the plan was made for.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }
}

/// The balance, the order of stripes, and their classes.
type Placement<'a> = (balance::Balance<'a>, Vec<u32>, Vec<RiskClass>);

/// Chooses for all stripes, the riskiest first; `leaving` may copy for so long.
fn placed<'a>(
    mut balance: balance::Balance<'a>,
    leaving: Option<(u16, f64)>,
    bound: f64,
    layout: &Layout,
    options: &RecoveryOptions,
) -> Result<Placement<'a>, PlanError> {
    balance.set_bound(bound);
    balance.set_leaving(leaving);
    let (mut order, mut classes, mut seed) = (Vec::new(), Vec::new(), options.seed);
    for (lost, mut stripes) in by_risk(layout) {
        shuffle(&mut stripes, &mut seed);
        balance.place(&stripes, options, &mut seed)?;
        let makespan = balance.makespan() / layout.shape().alpha as f64;
        classes.push(RiskClass { lost, stripes: stripes.len(), makespan });
        order.extend(stripes);
    }
    Ok((balance, order, classes))
}

/// The node that is to be emptied, if it can be one.
fn leaving(
    node: usize,
    cluster: &Cluster,
    layout: &Layout,
    balance: &balance::Balance<'_>,
) -> Result<u16, PlanError> {
    let nodes = cluster.nodes().len();
    let known = u16::try_from(node).ok().filter(|_| node < nodes);
    let role = "the node that leaves";
    let known = known.ok_or(PlanError::BadNode { node, nodes, role })?;
    if balance.receivers().contains(&known) {
        let role = "a destination of what it has to give away";
        return Err(PlanError::BadNode { node, nodes, role });
    }
    match layout.stripes().position(|stripe| stripe.has(known)) {
        None => Ok(known),
        Some(stripe) => {
            let reason = format!("node {node} is to give its chunk away, so it has to be missing");
            Err(PlanError::BadStripe { stripe, reason })
        }
    }
}

/// The mean rate of a cluster's links, both ways, in bytes a second.
pub(crate) fn mean_rate(cluster: &Cluster) -> f64 {
    let rates = cluster.nodes().iter().flat_map(|node| [node.rate_up(), node.rate_down()]);
    rates.sum::<f64>() / (2 * cluster.nodes().len().max(1)) as f64
}

/// Damaged stripes by the number of chunks they miss, the most first.
fn by_risk(layout: &Layout) -> Vec<(usize, Vec<u32>)> {
    let mut classes: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for (index, stripe) in layout.stripes().enumerate() {
        let lost = stripe.lost().count();
        if lost > 0 {
            classes.entry(lost).or_default().push(index as u32);
        }
    }
    classes.into_iter().rev().collect()
}

/// A random order, so that work through it uses all links at any time.
fn shuffle(list: &mut [u32], seed: &mut u64) {
    for last in (1..list.len()).rev() {
        list.swap(last, kiln_code::seed::below(seed, last + 1));
    }
}

#[cfg(test)]
mod tests;
