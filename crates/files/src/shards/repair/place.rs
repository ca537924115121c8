//! Places of rebuilt shards.

use super::RepairRequest;
use crate::ShardSet;
use kiln_stripe::{Node, PoolError, Result, names};

/// Place of one rebuilt shard.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub index: usize,
    pub node: Node,
    /// Its final name there.
    pub name: String,
    /// Its name while unfinished.
    pub part: String,
    /// A shard of another run that has the final name: its name aside.
    pub aside: Option<String>,
}

/// The set's nodes and those that the request adds.
pub(super) fn all_nodes(set: &ShardSet, req: &RepairRequest) -> Vec<Node> {
    let mut nodes = set.nodes.clone();
    for node in req.targets.values() {
        if nodes.iter().all(|known| !known.is(node)) {
            nodes.push(node.clone());
        }
    }
    nodes
}

/// The target of an index: where it is or, if it is nowhere, where it should be.
///
/// `taken` are nodes (by place) that other targets of the pass have taken.
pub(super) fn target(
    set: &ShardSet,
    req: &RepairRequest,
    index: usize,
    taken: &[Target],
) -> Result<Target> {
    let node = choose(set, req, index, taken)?;
    let name = names::shard(set.object(), index);
    let foreign =
        |s: &&crate::shards::set::ForeignFile| s.name == name && set.nodes[s.node].is(&node);
    let aside = set.foreign.iter().find(foreign).map(|s| s.aside(set.object(), index));
    let part = names::repair_part(set.object(), index);
    Ok(Target { index, node, name, part, aside })
}

fn choose(set: &ShardSet, req: &RepairRequest, index: usize, taken: &[Target]) -> Result<Node> {
    let own = set.members[index].as_ref().map(|member| &set.nodes[member.node]);
    let named = req.targets.get(&index);
    // A damaged shard is rebuilt where it is; one that is lost, or declared lost, may go elsewhere.
    let first = if req.lost.contains(&index) { named.or(own) } else { own.or(named) };
    if let Some(node) = first {
        return Ok(node.clone());
    }
    // Nodes that were only added as targets of other shards do not count.
    let added = |node: &Node| req.targets.values().any(|target| target.is(node));
    let nodes: Vec<(usize, &Node)> =
        set.nodes.iter().enumerate().filter(|(_, node)| !added(node)).collect();
    if let [(_, only)] = &nodes[..] {
        return Ok((*only).clone());
    }
    let holds = |node: usize| set.members.iter().flatten().any(|m| m.node == node);
    let busy = |node: &Node| taken.iter().any(|target| target.node.is(node));
    if set.nodes.len() == set.members.len() {
        if !holds(index) {
            return Ok(set.nodes[index].clone());
        }
        // Nodes were given in another order than when the object was encoded.
        if let Some((_, node)) = nodes.iter().find(|(i, node)| !holds(*i) && !busy(node)) {
            return Ok((*node).clone());
        }
    }
    let what = format!(
        "cannot tell where shard {index} belongs: {} folders are given for {} shards; \
         name one for what is rebuilt (--to)",
        set.nodes.len(),
        set.members.len()
    );
    Err(PoolError::Usage { what })
}
