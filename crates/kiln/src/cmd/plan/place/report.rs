//! Report of `kiln plan --strategy`: costs beside lower bounds, node by node.

use crate::exit::Result;
use kiln_code::Codec;
use kiln_plan::{Bound, Costs, LowerBounds, Plan, Problem, Proof, SearchBudget, frontier};
use serde::Serialize;

/// Report of a placed plan.
#[derive(Serialize)]
pub struct Report {
    code: String,
    order: String,
    strategy: &'static str,
    /// A note of the strategy for people, e.g. that it fell back to another one.
    pub note: Option<String>,
    lost: Vec<usize>,
    helpers: Vec<usize>,
    chunk: u64,
    sub_chunk: u64,
    alpha: usize,
    /// The bytes of each lost chunk that are wanted, where not all are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<(u64, u64)>,
    max_node_load: u64,
    bandwidth: u64,
    /// The least traffic of any plan whose new node receives what this one's does; for the general
    /// case, of any plan whose links carry no more than this one's.
    bound_bandwidth: Option<u64>,
    across_domains: u64,
    bytes_read: u64,
    read_runs: usize,
    /// Seconds in which the busiest link carries its share of one stripe.
    link_seconds: f64,
    /// Lower bound for plans that read the same; absent where the repair is too large to say.
    limits: Option<Least>,
    /// Making the DAG and the plan.
    pub plan_seconds: f64,
    /// The plan was in the file of `--plans`.
    pub ready: bool,
    /// `exact`, or on how many random vectors the plan was found equal to the repair.
    proof: String,
    rounds: u32,
    domains: bool,
    nodes: Vec<NodeRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    frontier: Vec<Point>,
}

/// Lower bounds for any plan of the problem.
#[derive(Serialize)]
struct Least {
    max_node_load: u64,
    across_domains: u64,
    link_seconds: f64,
}

/// Work of one node.
#[derive(Serialize)]
struct NodeRow {
    node: usize,
    name: String,
    bytes_read: u64,
    read_runs: usize,
    sent: u64,
    received: u64,
    load: u64,
    /// Sub-chunks that it computes.
    computed: usize,
    /// Sub-chunks that it holds at once, at most.
    held: usize,
}

/// One trade of maximum load against traffic.
#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    max_node_load: u64,
    bandwidth: u64,
    bound_bandwidth: Option<u64>,
}

/// The lower bounds of a problem, in sub-chunks.
struct Bounds {
    closed: Option<Bound>,
    limits: Option<LowerBounds>,
}

impl Bounds {
    fn of(problem: &Problem) -> Result<Bounds> {
        Ok(Bounds { closed: Bound::of(problem), limits: LowerBounds::of(problem)? })
    }

    /// The least traffic of plans like the one with these costs.
    fn traffic(&self, problem: &Problem, costs: &Costs) -> Option<usize> {
        let target = problem.targets().next().map(|(_, node)| node);
        let closed = self.closed.zip(target).map(|(bound, target)| {
            // With this much received: no plan that receives it can do with less.
            bound.sub_chunks(costs.nodes()[target].received)
        });
        closed.or_else(|| self.limits.as_ref().map(|limits| limits.bandwidth(costs.max_load())))
    }

    /// Load, traffic between domains and time that no plan beats. Where the matrix is too large, a
    /// single new node still receives a whole chunk.
    fn least(&self, problem: &Problem, sub_chunk: u64) -> Option<Least> {
        let (cluster, bytes) = (problem.cluster(), |count: usize| count as u64 * sub_chunk);
        if let Some(limits) = &self.limits {
            return Some(Least {
                max_node_load: bytes(limits.max_load()),
                across_domains: bytes(limits.across_domains()),
                link_seconds: limits.seconds(cluster, sub_chunk),
            });
        }
        let (bound, (_, target)) = self.closed.zip(problem.targets().next())?;
        let chunk = bound.load() * sub_chunk as f64;
        Some(Least {
            max_node_load: chunk as u64,
            across_domains: 0,
            link_seconds: chunk / cluster.nodes()[target].rate_down(),
        })
    }
}

impl Report {
    /// Proves a plan and counts what it costs.
    pub fn new(codec: &Codec, plan: &Plan, sub_chunk: u64, lost: &[usize]) -> Result<Report> {
        let (problem, costs) = (plan.problem(), plan.costs());
        let bytes = |count: usize| count as u64 * sub_chunk;
        let proof = match plan.check()? {
            Proof::Exact => "exact".to_owned(),
            Proof::Random { vectors } => format!("{vectors} random vectors"),
        };
        let bounds = Bounds::of(problem)?;
        let cluster = problem.cluster();
        let limits = bounds.least(problem, sub_chunk);
        let apart = |pair: &[usize]| !cluster.together(pair[0], pair[1]);
        let mut workers = problem.workers().to_vec();
        workers.sort_by_key(|&node| cluster.domain(node));
        Ok(Report {
            code: codec.spec().to_string(),
            order: codec.order().to_owned(),
            strategy: plan.strategy(),
            note: plan.note().map(str::to_owned),
            lost: lost.to_vec(),
            helpers: plan.dag().reads().iter().map(|reads| reads.chunk).collect(),
            chunk: bytes(codec.shape().alpha),
            sub_chunk,
            alpha: codec.shape().alpha,
            range: None,
            max_node_load: bytes(costs.max_load()),
            bandwidth: bytes(costs.bandwidth()),
            bound_bandwidth: bounds.traffic(problem, &costs).map(bytes),
            across_domains: bytes(costs.across_domains()),
            bytes_read: bytes(costs.read()),
            read_runs: costs.runs(),
            link_seconds: costs.seconds(cluster, sub_chunk),
            limits,
            plan_seconds: 0.0,
            ready: false,
            proof,
            rounds: plan.execution()?.rounds(),
            domains: !workers.windows(2).all(apart),
            nodes: nodes(problem, &costs, sub_chunk),
            frontier: Vec::new(),
        })
    }

    /// Adds the trades between load and traffic: this plan, and those of the hub rule.
    pub fn add_frontier(&mut self, plan: &Plan, budget: &mut SearchBudget<'_>) -> Result<()> {
        let problem = plan.problem();
        let bounds = Bounds::of(problem)?;
        let mut points = Vec::new();
        for plan in std::iter::once(plan.clone()).chain(frontier(problem, budget)?) {
            plan.check()?;
            let costs = plan.costs();
            points.push(Point {
                max_node_load: costs.max_load() as u64 * self.sub_chunk,
                bandwidth: costs.bandwidth() as u64 * self.sub_chunk,
                bound_bandwidth: bounds
                    .traffic(problem, &costs)
                    .map(|least| least as u64 * self.sub_chunk),
            });
        }
        points.sort();
        // More load is worth it only for less traffic.
        let mut least = u64::MAX;
        points.retain(|point| {
            let less = point.bandwidth < least;
            least = least.min(point.bandwidth);
            less
        });
        self.frontier = points;
        Ok(())
    }
}

/// The nodes that do something.
fn nodes(problem: &Problem, costs: &Costs, sub_chunk: u64) -> Vec<NodeRow> {
    let bytes = |count: usize| count as u64 * sub_chunk;
    let names = problem.cluster().nodes();
    let rows = costs.nodes().iter().enumerate();
    let busy = rows.filter(|(_, cost)| cost.load() + cost.read + cost.computed > 0);
    busy.map(|(node, cost)| NodeRow {
        node,
        name: names[node].name.clone(),
        bytes_read: bytes(cost.read),
        read_runs: cost.runs,
        sent: bytes(cost.sent),
        received: bytes(cost.received),
        load: bytes(cost.load()),
        computed: cost.computed,
        held: cost.held,
    })
    .collect()
}
