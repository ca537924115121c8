//! Aggregator groups: which nodes can be hubs (aggregators) of which layers, and which nodes share
//! all layers among them.

use super::shape::Shape;

/// Nodes of which every layer has exactly one that stores the most of what the layer needs (Clay:
/// the nodes of one column; the one whose digit the layer has).
#[derive(Debug)]
pub(super) struct AggregatorGroup {
    /// By layer: its member, as an index into `members`; nothing in a layer that has none.
    pub of_layer: Vec<Option<u16>>,
    pub members: Vec<u16>,
}

impl AggregatorGroup {
    /// Returns whether every layer has a member.
    pub(super) fn is_full(&self) -> bool {
        self.of_layer.iter().all(Option::is_some)
    }

    /// The member of a layer.
    pub(super) fn hub(&self, layer: usize) -> Option<u16> {
        self.of_layer[layer].map(|member| self.members[member as usize])
    }
}

/// By layer: the nodes that store the most of what it needs, if that is more than one sub-chunk.
fn candidates(shape: &Shape, nodes: usize) -> Vec<Vec<u16>> {
    let mut counts = vec![0_u32; nodes];
    let mut list = Vec::with_capacity(shape.layers);
    for layer in 0..shape.layers {
        counts.fill(0);
        for &c in &shape.of_layer[layer] {
            let component = &shape.components[c as usize];
            let mut needed = 0_u64;
            for &(_, of, bits) in &component.pres {
                needed |= if of as usize == layer { bits } else { 0 };
            }
            for &(of, i) in &component.direct {
                needed |= if of as usize == layer { 1 << (i & 63) } else { 0 };
            }
            for (i, &home) in component.homes.iter().enumerate() {
                counts[home as usize] += (needed >> (i & 63) & 1) as u32;
            }
        }
        let most = counts.iter().copied().max().unwrap_or(0);
        let best = (0..nodes as u16).filter(|&node| counts[node as usize] == most && most > 1);
        list.push(best.collect());
    }
    list
}

/// All aggregator groups, the full ones first.
pub(super) fn groups(shape: &Shape, nodes: usize) -> Vec<AggregatorGroup> {
    let candidates = candidates(shape, nodes);
    let mut together = vec![false; nodes * nodes];
    let mut known = vec![false; nodes];
    for list in &candidates {
        for &a in list {
            known[a as usize] = true;
            for &b in list {
                together[a as usize * nodes + b as usize] = true;
            }
        }
    }
    let mut groups = Vec::new();
    for first in 0..nodes {
        if !known[first] {
            continue;
        }
        let mut members: Vec<u16> = Vec::new();
        for node in first..nodes {
            let apart = members.iter().all(|&other| !together[node * nodes + other as usize]);
            if known[node] && apart {
                known[node] = false;
                members.push(node as u16);
            }
        }
        let member = |list: &Vec<u16>| {
            members.iter().position(|member| list.contains(member)).map(|index| index as u16)
        };
        let of_layer = candidates.iter().map(member).collect();
        groups.push(AggregatorGroup { of_layer, members });
    }
    groups.sort_by_key(|group| !group.is_full());
    groups
}
