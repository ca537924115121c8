//! Costs of a plan: every number comes from the placed DAG.

use crate::{Cluster, Plan};

/// Work of one node in a plan. The unit is a sub-chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NodeCost {
    /// Sub-chunks read from its disk.
    pub read: usize,
    /// Contiguous reads.
    pub runs: usize,
    /// Sub-chunks sent, all receivers together.
    pub sent: usize,
    /// Of these those sent to nodes of other domains.
    pub across: usize,
    /// Sub-chunks received.
    pub received: usize,
    /// Sub-chunks that it holds if it forgets nothing: read, received and computed.
    pub held: usize,
    /// Vertices that it computes.
    pub computed: usize,
    /// Multiplications of a sub-chunk by a coefficient other than one.
    pub multiplications: usize,
    /// Additions of two sub-chunks.
    pub additions: usize,
}

impl NodeCost {
    /// The repair load: what it sends or receives, whichever is more (ParaRC, section 2.1).
    pub fn load(&self) -> usize {
        self.sent.max(self.received)
    }
}

/// Costs of a plan; made by [`Plan::costs`]. The unit is a sub-chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Costs {
    nodes: Vec<NodeCost>,
}

impl Costs {
    /// By node of the cluster.
    pub fn nodes(&self) -> &[NodeCost] {
        &self.nodes
    }

    /// The largest load of a node.
    pub fn max_load(&self) -> usize {
        self.nodes.iter().map(NodeCost::load).max().unwrap_or(0)
    }

    /// All traffic: the repair bandwidth.
    pub fn bandwidth(&self) -> usize {
        self.nodes.iter().map(|node| node.sent).sum()
    }

    /// The traffic between domains.
    pub fn across_domains(&self) -> usize {
        self.nodes.iter().map(|node| node.across).sum()
    }

    /// Sub-chunks read by all nodes.
    pub fn read(&self) -> usize {
        self.nodes.iter().map(|node| node.read).sum()
    }

    /// Contiguous reads of all nodes.
    pub fn runs(&self) -> usize {
        self.nodes.iter().map(|node| node.runs).sum()
    }

    /// Seconds until the busiest link of the cluster has carried its share, for sub-chunks of
    /// `bytes`: windows travel while others are computed, so links decide.
    pub fn seconds(&self, cluster: &Cluster, bytes: u64) -> f64 {
        let link = |(cost, node): (&NodeCost, &crate::Node)| {
            let sent = cost.sent as f64 * bytes as f64 / node.rate_up();
            sent.max(cost.received as f64 * bytes as f64 / node.rate_down())
        };
        self.nodes.iter().zip(cluster.nodes()).map(link).fold(0.0, f64::max)
    }
}

impl Plan {
    /// Returns the costs of every node, in sub-chunks.
    pub fn costs(&self) -> Costs {
        costs(self)
    }
}

fn costs(plan: &Plan) -> Costs {
    let cluster = plan.problem().cluster();
    let mut nodes = vec![NodeCost::default(); cluster.nodes().len()];
    for reads in plan.dag().reads() {
        if let Some(home) = plan.problem().home(reads.chunk as u32) {
            nodes[home].read += reads.sub_chunks();
            nodes[home].runs += reads.runs.len();
        }
    }
    for step in plan.dag().steps() {
        for (row, vertex) in step.vertices().enumerate() {
            let cost = &mut nodes[plan.node(vertex)];
            let row = step.matrix.row(row);
            let live = row.iter().filter(|&&c| c != 0).count();
            cost.computed += 1;
            cost.multiplications += live - row.iter().filter(|&&c| c == 1).count();
            cost.additions += live.saturating_sub(1);
        }
    }
    for_each_transfer(plan, |_, from, to| {
        nodes[from].sent += 1;
        nodes[from].across += usize::from(!cluster.together(from, to));
        nodes[to].received += 1;
    });
    for cost in &mut nodes {
        cost.held = cost.read + cost.received + cost.computed;
    }
    Costs { nodes }
}

/// Every sub-chunk that goes from one node to another, once a receiver.
pub(crate) fn for_each_transfer(plan: &Plan, mut visit: impl FnMut(usize, usize, usize)) {
    let edges = plan.edges();
    let mut outputs: Vec<(u32, usize)> = Vec::with_capacity(plan.dag().outputs().len());
    for &(at, vertex) in plan.dag().outputs() {
        outputs.extend(plan.problem().target(at.chunk).map(|target| (vertex, target)));
    }
    outputs.sort_unstable();
    let mut outputs = &outputs[..];
    let mut seen = vec![u32::MAX; plan.problem().cluster().nodes().len()];
    for vertex in 0..edges.vertices() {
        let from = plan.node(vertex);
        seen[from] = vertex as u32;
        let mut to = |node: usize| {
            if seen[node] != vertex as u32 {
                seen[node] = vertex as u32;
                visit(vertex, from, node);
            }
        };
        for &user in edges.users(vertex) {
            to(plan.node(user as usize));
        }
        while let Some((&(owner, target), rest)) = outputs.split_first()
            && owner as usize == vertex
        {
            to(target);
            outputs = rest;
        }
    }
}
