//! Report of `kiln plan --strategy`: costs beside lower bounds, node by node.

use crate::{exit::Result, print::fields};
use kiln_code::Codec;
use kiln_plan::{Bound, Costs, LowerBounds, Plan, Problem, Proof, SearchBudget, frontier};
use serde::Serialize;

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
    fn least(&self, problem: &Problem, sub_chunk: u64) -> Option<impl Serialize + use<>> {
        let (cluster, bytes) = (problem.cluster(), |count: usize| count as u64 * sub_chunk);
        let (load, across, seconds) = match &self.limits {
            Some(limits) => (
                bytes(limits.max_load()),
                bytes(limits.across_domains()),
                limits.seconds(cluster, sub_chunk),
            ),
            None => {
                let (bound, (_, target)) = self.closed.zip(problem.targets().next())?;
                let chunk = bound.load() * sub_chunk as f64;
                (chunk as u64, 0, chunk / cluster.nodes()[target].rate_down())
            }
        };
        Some(fields! { max_node_load: load, across_domains: across, link_seconds: seconds })
    }
}

/// Proves a plan and counts what it costs. It is of the chunks `lost`, or these bytes of each, took
/// so many seconds with its DAG, and was `ready` in the file of `--plans`.
pub fn report(
    codec: &Codec,
    plan: &Plan,
    (lost, range): (&[usize], Option<(u64, u64)>),
    sub_chunk: u64,
    (plan_seconds, ready): (f64, bool),
    frontier: Option<Vec<impl Serialize>>,
) -> Result<impl Serialize> {
    let (problem, costs) = (plan.problem(), plan.costs());
    let bytes = |count: usize| count as u64 * sub_chunk;
    let proof = match plan.check()? {
        Proof::Exact => "exact".to_owned(),
        Proof::Random { vectors } => format!("{vectors} random vectors"),
    };
    let (bounds, cluster) = (Bounds::of(problem)?, problem.cluster());
    let apart = |pair: &[usize]| !cluster.together(pair[0], pair[1]);
    let mut workers = problem.workers().to_vec();
    workers.sort_by_key(|&node| cluster.domain(node));
    Ok(fields! {
        code: codec.spec().to_string(),
        order: codec.order(),
        strategy: plan.strategy(),
        // A note of the strategy for people, e.g. that it fell back to another one.
        note: plan.note(),
        lost: lost,
        helpers: plan.dag().reads().iter().map(|reads| reads.chunk).collect::<Vec<_>>(),
        chunk: bytes(codec.shape().alpha),
        sub_chunk: sub_chunk,
        alpha: codec.shape().alpha,
        range or none: range,
        max_node_load: bytes(costs.max_load()),
        bandwidth: bytes(costs.bandwidth()),
        // The least traffic of any plan whose new node receives what this one's does; for the
        // general case, of any plan whose links carry no more than this one's.
        bound_bandwidth: bounds.traffic(problem, &costs).map(bytes),
        across_domains: bytes(costs.across_domains()),
        bytes_read: bytes(costs.read()),
        read_runs: costs.runs(),
        // Seconds in which the busiest link carries its share of one stripe.
        link_seconds: costs.seconds(cluster, sub_chunk),
        // Lower bounds for plans that read the same; null where the repair is too large to say.
        limits: bounds.least(problem, sub_chunk),
        plan_seconds: plan_seconds,
        ready: ready,
        // `exact`, or on how many random vectors the plan was found equal to the repair.
        proof: proof,
        rounds: plan.execution()?.rounds(),
        domains: !workers.windows(2).all(apart),
        nodes: nodes(problem, &costs, sub_chunk),
        frontier or none: frontier,
    })
}

/// The trades between load and traffic: those of this plan, and of the hub rule.
pub fn trades(
    plan: &Plan,
    sub_chunk: u64,
    budget: &mut SearchBudget<'_>,
) -> Result<Vec<impl Serialize + use<>>> {
    let (problem, bytes) = (plan.problem(), |count: usize| count as u64 * sub_chunk);
    let bounds = Bounds::of(problem)?;
    let mut points = Vec::new();
    for plan in std::iter::once(plan.clone()).chain(frontier(problem, budget)?) {
        plan.check()?;
        let costs = plan.costs();
        let bound = bounds.traffic(problem, &costs).map(bytes);
        points.push((bytes(costs.max_load()), bytes(costs.bandwidth()), bound));
    }
    points.sort_unstable();
    // More load is worth it only for less traffic.
    let mut least = u64::MAX;
    points.retain(|(_, bandwidth, _)| {
        let less = *bandwidth < least;
        least = least.min(*bandwidth);
        less
    });
    let point = |(load, bandwidth, bound)| {
        fields! { max_node_load: load, bandwidth: bandwidth, bound_bandwidth: bound }
    };
    Ok(points.into_iter().map(point).collect())
}

/// The nodes that do something.
fn nodes(problem: &Problem, costs: &Costs, sub_chunk: u64) -> Vec<impl Serialize + use<>> {
    let bytes = |count: usize| count as u64 * sub_chunk;
    let names = problem.cluster().nodes();
    let rows = costs.nodes().iter().enumerate();
    let busy = rows.filter(|(_, cost)| cost.load() + cost.read + cost.computed > 0);
    busy.map(|(node, cost)| {
        fields! {
            node: node,
            name: names[node].name.clone(),
            bytes_read: bytes(cost.read),
            read_runs: cost.runs,
            sent: bytes(cost.sent),
            received: bytes(cost.received),
            load: bytes(cost.load()),
            // Sub-chunks that it computes, and that it holds at once, at most.
            computed: cost.computed,
            held: cost.held,
        }
    })
    .collect()
}
