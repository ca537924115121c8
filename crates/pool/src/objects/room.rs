//! Nodes with room for what is written next: a node that is full is passed over.

use super::Pool;
use super::pool::PoolNode;
use crate::engine::sinks::in_parallel;
use crate::{Key, Result, place};

/// What was found.
#[derive(Clone, Debug, Default)]
pub(super) struct WithRoom {
    /// Nodes by position, the best first; fewer than asked for where there are no more.
    pub chosen: Vec<usize>,
    /// Nodes that would have been chosen and have no room.
    pub full: Vec<usize>,
}

impl Pool {
    /// The best nodes for an object among those that are wanted, in distinct domains none of which
    /// is in `taken`, each with room for so many bytes more. Only nodes that would be chosen are
    /// asked; one that cannot tell counts as having room.
    pub(super) fn place_with_room(
        &self,
        key: &Key,
        count: usize,
        taken: &[&str],
        bytes: u64,
        wanted: impl Fn(&PoolNode) -> bool,
    ) -> Result<WithRoom> {
        let (mut roomy, mut full): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        loop {
            let is_full = |node: &PoolNode| {
                full.iter().any(|at: &usize| self.nodes[*at].config.id == node.config.id)
            };
            let (positions, candidates) = self.candidates(|node| wanted(node) && !is_full(node));
            let chosen: Vec<usize> =
                place(key, &candidates, count, taken).into_iter().map(|at| positions[at]).collect();
            let new = chosen.iter().copied().filter(|at| !roomy.contains(at)).collect();
            let asked = in_parallel(self.sequence.as_ref(), new, |_, at: usize| {
                Ok::<_, crate::PoolError>((at, self.has_room(at, bytes)?))
            })?;
            if asked.iter().all(|(_, room)| *room) {
                return Ok(WithRoom { chosen, full });
            }
            for (at, room) in asked {
                if room { roomy.push(at) } else { full.push(at) }
            }
        }
    }

    /// Whether a node has room for so many bytes more; one that cannot tell has.
    pub(super) fn has_room(&self, at: usize, bytes: u64) -> Result<bool> {
        Ok(self.usable(at)?.space()?.is_none_or(|space| space.has_room_for(bytes)))
    }

    /// Ids of nodes, for messages: empty, or `; no room on n3, n5`.
    pub(super) fn without_room(&self, full: &[usize]) -> String {
        if full.is_empty() {
            return String::new();
        }
        let ids: Vec<&str> = full.iter().map(|&at| &self.nodes[at].config.id[..]).collect();
        format!("; no room on {}", ids.join(", "))
    }
}
