//! A snapshot of the machines: names, failure domains, links, load.

use crate::{PlanError, Result};

/// The most nodes of a snapshot; node indices are kept in 16 bits.
pub(crate) const NODES_MAX: usize = 65_000;

/// One machine of a cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Its name for people.
    pub name: String,
    /// Failure domain: a host, a rack, a zone.
    pub domain: String,
    /// Bytes a second that its link can send.
    pub up: f64,
    /// Bytes a second that its link can receive.
    pub down: f64,
    /// The part of the link that others use, from 0 to less than 1.
    pub load: f64,
}

impl Node {
    /// A node in a domain of its own, on an idle link of 10 Gbit/s each way.
    pub fn new(name: impl Into<String>) -> Node {
        let name = name.into();
        Node { domain: name.clone(), name, up: 1.25e9, down: 1.25e9, load: 0.0 }
    }

    /// The same node in a domain.
    pub fn in_domain(self, domain: impl Into<String>) -> Node {
        Node { domain: domain.into(), ..self }
    }

    /// The same node with other link rates, in bytes a second.
    pub fn with_link(self, up: f64, down: f64) -> Node {
        Node { up, down, ..self }
    }

    /// The same node with a part of its link taken.
    pub fn with_load(self, load: f64) -> Node {
        Node { load, ..self }
    }

    /// Returns the bytes a second that are left to send with.
    pub fn rate_up(&self) -> f64 {
        self.up * (1.0 - self.load)
    }

    /// Returns the bytes a second that are left to receive with.
    pub fn rate_down(&self) -> f64 {
        self.down * (1.0 - self.load)
    }
}

/// The nodes that a plan may use. A plain snapshot: planners take a new one when it changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    nodes: Vec<Node>,
    /// The domain of each node as a number, so that planners compare numbers.
    domains: Vec<u32>,
}

impl Cluster {
    /// A snapshot of these nodes; plans name them by their index.
    /// Errors: a rate is not positive, a load is not from 0 to less than 1, or there are too many
    /// nodes.
    pub fn new(nodes: Vec<Node>) -> Result<Cluster> {
        let (got, limit) = (nodes.len(), NODES_MAX);
        if got > limit {
            return Err(PlanError::TooMany { what: "nodes of a cluster", got, limit });
        }
        for (node, row) in nodes.iter().enumerate() {
            for (what, value) in [("up", row.up), ("down", row.down)] {
                if !(value.is_finite() && value > 0.0) {
                    let expected = "a link has a positive rate in bytes a second";
                    return Err(PlanError::Cluster { node, what, value, expected });
                }
            }
            if !(0.0..1.0).contains(&row.load) {
                let (what, value, expected) = ("load", row.load, "it is from 0 to less than 1");
                return Err(PlanError::Cluster { node, what, value, expected });
            }
        }
        let mut known: Vec<&str> = nodes.iter().map(|node| &node.domain[..]).collect();
        known.sort_unstable();
        known.dedup();
        let number = |node: &Node| known.partition_point(|&name| name < &node.domain[..]) as u32;
        let domains = nodes.iter().map(number).collect();
        Ok(Cluster { nodes, domains })
    }

    /// A cluster of `count` equal, idle nodes `n0`, `n1`, ..., each a domain of its own.
    pub fn uniform(count: usize) -> Result<Cluster> {
        Cluster::new((0..count.min(NODES_MAX + 1)).map(|i| Node::new(format!("n{i}"))).collect())
    }

    /// The nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The domain of a node as a number: nodes of one domain have the same.
    pub fn domain(&self, node: usize) -> Option<u32> {
        self.domains.get(node).copied()
    }

    /// Returns whether two nodes are in one failure domain.
    pub fn together(&self, a: usize, b: usize) -> bool {
        self.domain(a) == self.domain(b)
    }
}
