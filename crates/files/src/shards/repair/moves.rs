//! Putting misnamed shards where their names belong.

use super::again_discovered;
use crate::{ShardSet, shards::write::commit::Rename, shards::write::roll_forward};
use kiln_store::move_file;
use kiln_stripe::{Moved, Node, Result, names, repair_statistics::RepairStatistics};

/// A set whose shards have their right names, as far as that is possible without overwriting any.
pub(super) fn settle(
    set: &ShardSet,
    nodes: &[Node],
    totals: &mut RepairStatistics,
) -> Result<ShardSet> {
    roll_forward(set.object(), nodes)?;
    let fresh = again_discovered(set, nodes)?;
    if fresh.misnamed.is_empty() {
        return Ok(fresh);
    }
    for rename in plan(&fresh) {
        let node = &nodes[rename.node];
        move_file(&*node.store, &rename.from, &rename.to)?;
        note_move(totals, &rename, node);
    }
    again_discovered(&fresh, nodes)
}

/// Notes what would be renamed.
pub(super) fn foretell(set: &ShardSet, totals: &mut RepairStatistics) {
    for rename in plan(set) {
        note_move(totals, &rename, &set.nodes[rename.node]);
    }
}

/// Renames in an order in which none overwrites a shard. A cycle of shards that have each other's
/// names is broken by giving one of them the name of a complete partial file, under which readers
/// and a later repair still find it.
fn plan(set: &ShardSet) -> Vec<Rename> {
    let mut wanted: Vec<(usize, Rename)> = Vec::new();
    let mut occupied: Vec<(usize, String)> = Vec::new();
    for (index, member) in set.members.iter().enumerate() {
        let Some(member) = member else { continue };
        occupied.push((member.node, member.name.clone()));
        if set.misnamed.contains(&index) {
            let to = names::shard(set.object(), index);
            wanted.push((index, Rename { node: member.node, from: member.name.clone(), to }));
        }
    }
    let whole = |index: usize| set.members[index].as_ref().is_some_and(|m| !m.damaged);
    let mut steps = Vec::new();
    while !wanted.is_empty() {
        let free = |rename: &Rename| !occupied.contains(&(rename.node, rename.to.clone()));
        let (at, detour) = match wanted.iter().position(|(_, rename)| free(rename)) {
            Some(at) => (at, false),
            // A damaged shard would not count as a complete part.
            None => (wanted.iter().position(|(index, _)| whole(*index)).unwrap_or(0), true),
        };
        let (index, mut rename) = wanted.remove(at);
        occupied.retain(|place| *place != (rename.node, rename.from.clone()));
        if detour {
            let between = names::part(set.object(), index);
            let to = std::mem::replace(&mut rename.to, between.clone());
            wanted.push((index, Rename { node: rename.node, from: between, to }));
        } else if let Some(foreign) =
            set.foreign.iter().find(|s| s.node == rename.node && s.name == rename.to)
        {
            let to = foreign.aside(set.object(), index);
            steps.push(Rename { node: rename.node, from: rename.to.clone(), to });
        }
        occupied.push((rename.node, rename.to.clone()));
        steps.push(rename);
    }
    steps
}

fn note_move(totals: &mut RepairStatistics, rename: &Rename, node: &Node) {
    let index = names::parse(&rename.to).and_then(|(_, named)| named).map(|(_, index)| index);
    totals.moved.push(Moved {
        index: index.unwrap_or(0),
        node: node.name.clone(),
        from: rename.from.clone(),
        to: rename.to.clone(),
    });
}
