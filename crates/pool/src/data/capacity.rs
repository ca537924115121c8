//! Nodes with room for what is written next: a node that is full is passed over.

use kiln_stripe::Result;

use crate::Key;
use crate::data::writer::ObjectWriter;
use crate::layout::place;
use crate::map::cluster_map::PoolNode;
use crate::map::presence::Asked;

/// Findings.
#[derive(Clone, Debug, Default)]
pub(crate) struct WithRoom {
    /// Nodes by position, the best first; fewer than asked for where there are no more.
    pub chosen: Vec<usize>,
    /// Nodes that would have been chosen and have no room.
    pub full: Vec<usize>,
    /// Nodes that would have been chosen, and are not there any more.
    pub gone: Vec<usize>,
}

impl ObjectWriter<'_> {
    /// The best nodes for an object among those that can be used, in distinct domains none of which
    /// is in `taken`, each with room for so many bytes more. Only nodes that would be chosen are
    /// asked whether they are still there, and for room; one that cannot tell counts as having it.
    pub(crate) fn place_with_room(
        &self,
        key: &Key,
        count: usize,
        taken: &[&str],
        bytes: u64,
        still: &Asked,
    ) -> Result<WithRoom> {
        let (mut roomy, mut full, mut gone): (Vec<usize>, Vec<usize>, Vec<usize>) =
            (Vec::new(), Vec::new(), Vec::new());
        loop {
            let passed = |node: &PoolNode| {
                let is = |at: &usize| self.map.nodes[*at].config.id == node.config.id;
                full.iter().chain(&gone).any(is)
            };
            let (positions, candidates) =
                self.map.candidates(|node| node.is_here() && !passed(node));
            let chosen: Vec<usize> =
                place(key, &candidates, count, taken).into_iter().map(|at| positions[at]).collect();
            let new = chosen.iter().copied().filter(|at| !roomy.contains(at)).collect();
            let asked = self.map.in_parallel(new, |_, at: usize| {
                let room = match self.map.is_still(at, still) {
                    true => Some(self.has_room(at, bytes)?),
                    false => None,
                };
                Ok::<_, kiln_stripe::PoolError>((at, room))
            })?;
            if asked.iter().all(|(_, room)| *room == Some(true)) {
                return Ok(WithRoom { chosen, full, gone });
            }
            for (at, room) in asked {
                match room {
                    Some(true) => roomy.push(at),
                    Some(false) => full.push(at),
                    None => gone.push(at),
                }
            }
        }
    }

    /// Returns whether a node has room for so many bytes more; one that cannot tell has.
    pub(crate) fn has_room(&self, at: usize, bytes: u64) -> Result<bool> {
        Ok(self.map.usable(at)?.space()?.is_none_or(|space| space.has_room_for(bytes)))
    }

    /// Ids of nodes, for messages: empty, or `; no room on n3, n5`.
    pub(crate) fn without_room(&self, full: &[usize]) -> String {
        if full.is_empty() {
            return String::new();
        }
        let ids: Vec<&str> = full.iter().map(|&at| &self.map.nodes[at].config.id[..]).collect();
        format!("; no room on {}", ids.join(", "))
    }
}
