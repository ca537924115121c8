//! The pool map: who is a member since when, which nodes an object's manifest may be on, and what
//! has to answer before a reader may be sure.
//!
//! Everything here is pure. An object's *homes* are the best nodes for it, in distinct failure
//! domains: with W = m + 1 copies of a manifest there are up to 2W - 1 homes, and W of them hold
//! it. Any W homes that answer therefore include one that has the newest version, so an operation
//! asks as many nodes as m says, and never the whole pool; and with m homes unavailable there are
//! always W left to write to.
//!
//! Homes follow from the members of an epoch. While what an earlier epoch wrote is not all moved to
//! the homes of the current one, the members of that epoch are kept in the map ([`PastMap`]), and a
//! reader needs enough answers from the homes of every epoch kept. A repair that found all
//! manifests in place settles the map: only then the past is dropped. (This is the joint rule of
//! Raft's membership changes, section 6 of Ongaro and Ousterhout 2014, for reads.)

use crate::layout::{Candidate, place};
use crate::map::config::{MAX_PAST, NodeConfig, NodeState, PastMap, PastNode, PoolConfig};
use crate::{Key, PoolKeys};
use kiln_stripe::{PoolError, Result};

/// The homes of one object by the members of one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Homes<'a> {
    /// Positions in the current list of nodes, the best first, with their domains; `None`: the node
    /// is gone for good.
    pub nodes: Vec<(Option<usize>, &'a str)>,
    /// Copies that a version has on them before it is acknowledged.
    pub copies: usize,
    /// The epoch from which on they were the homes. A disk that is newer lacks what was put before.
    pub since: u64,
}

impl Homes<'_> {
    /// Positions of those that are still nodes of the pool.
    pub fn positions(&self) -> impl Iterator<Item = usize> {
        self.nodes.iter().filter_map(|(at, _)| *at)
    }

    /// Returns whether answers of these nodes include one that has the newest version, if there is
    /// one: fewer domains than copies are missing. Where more are gone for good than that, what is
    /// left has to answer, all of it: its loss was accepted when they were forgotten.
    pub fn answered(&self, by: impl Fn(usize) -> bool) -> bool {
        let missing = |(at, _): &&(Option<usize>, &str)| at.is_none_or(|at| !by(at));
        let domains = distinct(self.nodes.iter().filter(missing).map(|(_, domain)| *domain));
        domains < self.copies || self.positions().all(by)
    }

    /// Returns whether [`Homes::answered`] would hold with one domain less.
    fn answered_with_less(&self, by: impl Fn(usize) -> bool) -> bool {
        let missing = |(at, _): &&(Option<usize>, &str)| at.is_none_or(|at| !by(at));
        distinct(self.nodes.iter().filter(missing).map(|(_, domain)| *domain)) + 1 < self.copies
    }

    /// Returns how many more of these domains may be missing while [`Homes::answered`] holds;
    /// negative: it does not hold.
    pub fn spare(&self, by: impl Fn(usize) -> bool) -> i32 {
        let missing = |(at, _): &&(Option<usize>, &str)| at.is_none_or(|at| !by(at));
        let missing = distinct(self.nodes.iter().filter(missing).map(|(_, domain)| *domain));
        let spare = self.copies as i32 - 1 - missing as i32;
        if self.positions().all(by) { spare.max(0) } else { spare }
    }

    /// Returns whether a version that these nodes have was, or may have been, acknowledged.
    pub fn hold(&self, has: impl Fn(usize) -> bool) -> bool {
        let holds = |(at, _): &&(Option<usize>, &str)| at.is_some_and(&has);
        distinct(self.nodes.iter().filter(holds).map(|(_, domain)| *domain)) >= self.copies
    }

    /// Returns whether so many nodes say that they do not have a version that it cannot have been
    /// acknowledged: fewer are left than it has copies.
    pub fn deny(&self, denies: impl Fn(usize) -> bool) -> bool {
        let may = |(at, _): &&(Option<usize>, &str)| at.is_none_or(|at| !denies(at));
        distinct(self.nodes.iter().filter(may).map(|(_, domain)| *domain)) < self.copies
    }
}

fn distinct<'a>(domains: impl Iterator<Item = &'a str>) -> usize {
    let mut domains: Vec<&str> = domains.collect();
    domains.sort_unstable();
    domains.dedup();
    domains.len()
}

/// Homes that an object has where a version has so many copies: as many as make any two sets of
/// `copies` of them meet.
pub(crate) fn homes_for(copies: usize) -> usize {
    2 * copies - 1
}

impl PoolConfig {
    /// A pool from before there was a history: manifests are on any of its nodes until all of them
    /// are settled.
    pub(crate) fn begin_history(&mut self) {
        for node in &mut self.node {
            node.begin_history();
        }
        self.version = 2;
        self.settled = 0;
        let node = self.node.iter().map(PastNode::of).collect();
        self.past = vec![PastMap { anywhere: true, node, ..self.members() }];
    }

    /// The members now, as they are remembered.
    fn members(&self) -> PastMap {
        PastMap {
            epoch: self.revision,
            copies: self.policy.manifest_copies,
            anywhere: false,
            node: self.node.iter().filter(|node| node.state.is_in()).map(PastNode::of).collect(),
        }
    }

    /// Homes of an object now, and before by every epoch that is not settled.
    pub(crate) fn homes(&self, key: &Key) -> Vec<Homes<'_>> {
        let mut all = vec![self.homes_now(key)];
        for (past, since) in self.past_since() {
            let members: Vec<Candidate<'_>> = (past.node.iter())
                .map(|node| Candidate { id: &node.id, domain: &node.domain, weight: node.weight })
                .collect();
            let chosen = match past.anywhere {
                true => (0..members.len()).collect(),
                false => place(key, &members, homes_for(past.copies), &[]),
            };
            let home = |at: usize| {
                let node = &past.node[at];
                (self.position_of(node), &node.domain[..])
            };
            let nodes = chosen.into_iter().map(home).collect();
            all.push(Homes { nodes, copies: past.copies, since });
        }
        all
    }

    /// The position of a member of before; `None`: it is gone for good.
    fn position_of(&self, node: &PastNode) -> Option<usize> {
        if node.gone { None } else { self.position(&node.id) }
    }

    /// Members of before, each with the epoch in which it began that they were.
    fn past_since(&self) -> impl Iterator<Item = (&PastMap, u64)> {
        let ends = self.past.iter().map(|past| past.epoch + 1);
        self.past.iter().zip(std::iter::once(self.settled).chain(ends))
    }

    /// The epoch in which it began that the members are those of now.
    fn members_since(&self) -> u64 {
        self.past.last().map_or(self.settled, |past| past.epoch + 1)
    }

    /// Homes of an object by the members of now.
    pub(crate) fn homes_now(&self, key: &Key) -> Homes<'_> {
        let copies = self.policy.manifest_copies;
        let members = self.node.iter().enumerate().filter(|(_, node)| node.state.is_in());
        let (positions, candidates): (Vec<usize>, Vec<Candidate<'_>>) =
            members.map(|(at, node)| (at, node.candidate())).unzip();
        let chosen = place(key, &candidates, homes_for(copies), &[]);
        let home = |at: usize| (Some(positions[at]), candidates[at].domain);
        let nodes = chosen.into_iter().map(home).collect();
        Homes { nodes, copies, since: self.members_since() }
    }

    /// All members of every epoch that is not settled, and of now, as the homes of everything.
    pub(crate) fn whole_maps(&self) -> Vec<Homes<'_>> {
        let now = self.node.iter().enumerate().filter(|(_, node)| node.state.is_in());
        let now = now.map(|(at, node)| (Some(at), &node.domain[..])).collect();
        let (copies, since) = (self.policy.manifest_copies, self.members_since());
        let mut all = vec![Homes { nodes: now, copies, since }];
        for (past, since) in self.past_since() {
            let nodes = past.node.iter().map(|node| (self.position_of(node), &node.domain[..]));
            all.push(Homes { nodes: nodes.collect(), copies: past.copies, since });
        }
        all
    }

    /// Returns whether these nodes know of every object: no version is on others alone. `by` is
    /// asked for a node, and for the epoch since which it has to know everything.
    pub(crate) fn all_visible(&self, by: impl Fn(usize, u64) -> bool) -> bool {
        self.whole_maps().iter().all(|map| map.answered(|at| by(at, map.since)))
    }

    /// As [`PoolConfig::all_visible`], be there one more whose copy of something cannot be read.
    pub(crate) fn all_visible_with_less(&self, by: impl Fn(usize, u64) -> bool) -> bool {
        self.whole_maps().iter().all(|map| map.answered_with_less(|at| by(at, map.since)))
    }

    /// The next epoch, if nodes should change between in and out: those that were out and are
    /// back take part again, and those of the unavailable that are given up do not, as long as
    /// enough domains are left for what commits need.
    pub(crate) fn attended(
        &self,
        here: impl Fn(&str) -> bool,
        given_up: impl Fn(&str) -> bool,
    ) -> Option<Vec<(String, NodeState)>> {
        let ids = |state: NodeState, wanted: &dyn Fn(&str) -> bool| -> Vec<String> {
            let nodes = self.node.iter().filter(|node| node.state == state && wanted(&node.id));
            nodes.map(|node| node.id.clone()).collect()
        };
        let back = ids(NodeState::Out, &here);
        let mut out = ids(NodeState::In, &|id| !here(id) && given_up(id));
        let takes_part = |node: &&NodeConfig| match node.state {
            NodeState::In => !out.contains(&node.id),
            NodeState::Out => back.contains(&node.id),
            _ => false,
        };
        let left = distinct(self.node.iter().filter(takes_part).map(|node| &node.domain[..]));
        if left < self.policy.manifest_copies {
            out.clear();
        }
        let back = back.into_iter().map(|id| (id, NodeState::In));
        let changes: Vec<_> = back.chain(out.into_iter().map(|id| (id, NodeState::Out))).collect();
        (!changes.is_empty()).then_some(changes)
    }

    /// Returns how many of the nodes that decide on changes are these, and of how many; an error:
    /// not more than half. Nodes that are out do not decide, or nothing could be decided without
    /// them; but they do where all others were given up by force.
    pub(crate) fn majority(
        &self,
        is: impl Fn(&str) -> bool,
    ) -> Result<(usize, usize), (usize, usize)> {
        let is_out = |node: &NodeConfig| node.state == NodeState::Out;
        let all_out = self.node.iter().all(is_out);
        let decide = self.node.iter().filter(|node| all_out || !is_out(node));
        let (mut have, mut of) = (0, 0);
        for node in decide {
            (have, of) = (have + usize::from(is(&node.id)), of + 1);
        }
        if have * 2 > of { Ok((have, of)) } else { Err((have, of)) }
    }

    /// Returns whether a node's disk began to take part after what is settled: that it does not
    /// have a manifest says nothing yet.
    pub(crate) fn is_new(&self, node: &NodeConfig) -> bool {
        node.since > self.settled
    }

    /// Returns whether manifests may still have to be moved.
    pub fn is_settled(&self) -> bool {
        self.past.is_empty() && self.node.iter().all(|node| !self.is_new(node))
    }

    /// The next epoch: `edit` changes members, weights or the policy, and who was a member before
    /// is remembered.
    /// Errors: those of `edit`; a description that cannot be; too many changes that are not
    /// settled.
    pub(crate) fn next(
        &self,
        edit: impl FnOnce(&mut PoolConfig) -> Result<()>,
    ) -> Result<PoolConfig> {
        let mut next = self.clone();
        let revision = self.revision.checked_add(1);
        next.revision = revision.ok_or_else(|| PoolError::Usage {
            what: "pool description: its revision is at the end of its range".into(),
        })?;
        edit(&mut next)?;
        next.raise_version();
        let (before, after) = (self.members(), next.members());
        if (before.copies, &before.node) != (after.copies, &after.node) {
            if next.past.len() == MAX_PAST {
                let what = format!(
                    "the pool changed {MAX_PAST} times since all manifests were in place; run \
                     kiln repair first"
                );
                return Err(PoolError::Refused { what });
            }
            next.past.push(before);
        } else if self.is_settled() && next.node.iter().all(|node| node.since < next.revision) {
            // Nothing was moved: what was settled stays so.
            next.settled = next.revision;
        }
        for node in next.past.iter_mut().flat_map(|past| &mut past.node) {
            node.gone |= next.gone.contains(&node.id);
        }
        next.check()?;
        Ok(next)
    }

    /// Returns whether two descriptions are one map: they differ in where nodes are at most, which
    /// is each reader's own.
    pub(crate) fn is_same_map(&self, other: &PoolConfig) -> bool {
        let bare = |map: &PoolConfig| {
            let mut map = map.clone();
            map.node.iter_mut().for_each(|node| node.url.clear());
            (map.keys, map.repairer) = (PoolKeys::default(), 0);
            map
        };
        bare(self) == bare(other)
    }

    /// All manifests are on the homes of now.
    pub(crate) fn settle(&mut self) {
        self.past.clear();
        self.settled = self.revision;
    }
}

#[cfg(test)]
mod tests;
