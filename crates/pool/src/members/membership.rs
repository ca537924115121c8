//! Changes of the pool's map: agreed by more than half of the nodes, durable on them before they
//! count.
//!
//! A change is made under the locks of all nodes that can be reached: no commit can be under way on
//! any of them, so one either was done by the map of before, where every later reader still looks,
//! or finds the new epoch and is refused. A client with an old map finds that out from the
//! first node that it asks: every answer about an object comes with the epoch of the node's map.

use std::collections::BTreeSet;
use std::sync::Arc;

use kiln_store::Backend;
use kiln_stripe::names::{DESCRIPTION, hex};
use kiln_stripe::{PoolError, Result, Settings, node::Locks};

use crate::manifest::store::ManifestStore;
use crate::map::cluster_map::{
    ClusterMap, Opener, PoolNode, identity, opened, take, write_identity,
};
use crate::map::meta_files::{MAX_TEXT, epoch_of, parse_map, read_small, refuse_later, write_map};
use crate::map::presence::{is_marked, unmarked};
use crate::{Index, NodeConfig, NodeState, PoolConfig, map::features::refuse_unread};

/// A disk that joins by a change: its node's id, and its place.
type Joins<'a> = Option<(&'a str, &'a dyn Backend)>;

/// A node's copy of the map of a pool; `None`: it has none that can be read and is accepted.
pub(crate) fn map_of(store: &dyn Backend, known: &PoolConfig) -> Result<Option<PoolConfig>> {
    let bytes = read_small(store, DESCRIPTION, MAX_TEXT)?;
    Ok(bytes.and_then(|bytes| parse_map(&bytes, known)))
}

/// Changes of the cluster map: nodes come and go, keys are exchanged.
#[derive(Copy, Clone, Debug)]
pub struct Membership<'a> {
    pub(crate) map: &'a ClusterMap,
    pub(crate) manifests: ManifestStore<'a>,
}

impl ClusterMap {
    /// Asks all nodes whether they know a newer map: a change that was cut short may be known to
    /// one alone, which would refuse what is done by this one.
    ///
    /// # Errors
    /// [`PoolError::MapChanged`].
    pub fn check_map(&self) -> Result<()> {
        let ask = |_, (at, store): (usize, &dyn Backend)| match epoch_of(store, &self.config) {
            Ok(Some(epoch)) => self.refuse_newer(at, epoch),
            // It cannot tell.
            _ => Ok(()),
        };
        self.in_parallel(self.present().collect(), ask).map(drop)
    }

    pub(crate) fn like(self, settings: &Settings<'_>) -> ClusterMap {
        match settings.sequence {
            Some(sequence) => self.in_sequence(sequence.clone()),
            None => self,
        }
    }

    /// The epochs of the nodes' copies of the map.
    pub(crate) fn epochs(&self) -> Result<Vec<(usize, u64)>> {
        let all =
            self.in_parallel(self.present().collect(), |_, (at, store): (usize, &dyn Backend)| {
                let epoch = epoch_of(store, &self.config).ok().flatten();
                Ok::<_, PoolError>(epoch.map(|epoch| (at, epoch)))
            })?;
        Ok(all.into_iter().flatten().collect())
    }

    /// Domains of nodes that should be there and cannot be used.
    pub(crate) fn silent(&self) -> Vec<String> {
        let missing =
            |node: &&Arc<PoolNode>| node.config.state != NodeState::Out && !node.is_here();
        let mut away: Vec<String> =
            self.nodes.iter().filter(missing).map(|node| node.config.domain.clone()).collect();
        away.sort();
        away.dedup();
        away
    }

    /// Refuses to go on by an old map.
    pub(crate) fn refuse_newer(&self, at: usize, epoch: u64) -> Result<()> {
        let have = self.config.revision;
        if epoch > have {
            let node = self.nodes[at].config.id.clone();
            return Err(PoolError::MapChanged { have, newest: epoch, node });
        }
        Ok(())
    }

    /// Nodes that take part and cannot be used: fewer further losses are survived until they are
    /// back, or the pool does without them.
    pub fn missing(&self) -> Vec<String> {
        let missing = |node: &&Arc<PoolNode>| node.config.state == NodeState::In && !node.is_here();
        self.nodes.iter().filter(missing).map(|node| node.config.id.clone()).collect()
    }
}

impl<'a> Membership<'a> {
    pub(crate) fn new(map: &'a ClusterMap) -> Membership<'a> {
        Membership { map, manifests: ManifestStore::new(map) }
    }

    /// The pool's map in force, found by asking all nodes that `config` names, and those that a
    /// newer map names. A change that was cut short is completed; by `force` as far as can be, with
    /// what that means for [`Membership::change`].
    ///
    /// # Errors
    /// [`PoolError::MapNotAgreed`] when a newer map is known that too few nodes can be given.
    pub fn newest(
        config: PoolConfig,
        force: bool,
        open: Opener<'_>,
        settings: &Settings<'_>,
    ) -> Result<PoolConfig> {
        let known = config.revision;
        let mut pool = ClusterMap::open(config, open)?.like(settings);
        loop {
            while let Some(newer) = Membership::new(&pool).newer_map()? {
                pool = ClusterMap::open(newer, open)?.like(settings);
            }
            let epoch = pool.config.revision;
            if epoch == known || Membership::new(&pool).is_agreed(epoch)? {
                return Ok(Arc::unwrap_or_clone(pool.config));
            }
            let locks = match pool.lock_all(settings) {
                // Of a client that only reads: the newest map names the homes of before it, too.
                Err(PoolError::Store(error)) if error.is_denied() => {
                    return Ok(Arc::unwrap_or_clone(pool.config));
                }
                locks => locks?,
            };
            // Others may have gone on while this one waited: what is completed is what the nodes
            // have now, under the locks.
            if let Some(newer) = Membership::new(&pool).newer_map()? {
                drop(locks);
                pool = ClusterMap::open(newer, open)?.like(settings);
                continue;
            }
            // The one that is completed may be the one that raised the floor.
            let oldest = pool.config.floored.saturating_sub(1);
            match Membership::new(&pool).spread(&locks, &pool.config, oldest, None, false) {
                // A lock was lost meanwhile: what is newer is found now.
                Err(PoolError::MapChanged { .. })
                    if Membership::new(&pool).newer_map()?.is_some() => {}
                Err(PoolError::MapNotAgreed { .. }) if force => {
                    return Ok(Arc::unwrap_or_clone(pool.config));
                }
                end => return end.map(|()| Arc::unwrap_or_clone(pool.config)),
            }
        }
    }

    /// The newest map that a node has, if it is newer than this one. A copy that cannot be read is
    /// no copy. Of two changes of one epoch, which a cut network allows, it is the one that more
    /// than half of the nodes have or may have.
    fn newer_map(&self) -> Result<Option<PoolConfig>> {
        let mut newer = self.map.epochs()?;
        newer.retain(|(_, epoch)| *epoch > self.map.config.revision);
        let (mut maps, mut last): (Vec<PoolConfig>, (Vec<u8>, Option<PoolConfig>)) =
            Default::default();
        for (at, _) in &newer {
            let bytes = read_small(self.map.usable(*at)?, DESCRIPTION, MAX_TEXT)?;
            let Some(bytes) = bytes else { continue };
            // Nearly always it is what the node before has.
            if bytes != last.0 {
                let map = parse_map(&bytes, &self.map.config);
                if map.is_none() {
                    refuse_later(&bytes, &self.map.config, &self.map.nodes[*at].config.id)?;
                }
                last = (bytes, map);
            }
            maps.extend(last.1.clone());
        }
        let newest = maps.iter().map(|map| map.revision).max().unwrap_or(0);
        maps.retain(|map| map.revision == newest && newest > self.map.config.revision);
        let mut distinct: Vec<(PoolConfig, usize)> = Vec::new();
        for map in maps {
            match distinct.iter_mut().find(|(known, _)| known.is_same_map(&map)) {
                Some((_, copies)) => *copies += 1,
                None => distinct.push((map, 1)),
            }
        }
        distinct.sort_by_key(|(_, copies)| std::cmp::Reverse(*copies));
        let away = self.map.missing().len();
        let may = |(map, copies): &(PoolConfig, usize)| {
            let of = map.node.iter().filter(|node| node.state != NodeState::Out).count();
            (copies + away) * 2 > of
        };
        if let [first, second, ..] = &distinct[..]
            && may(first)
            && may(second)
        {
            let (have, of, away) = (first.1, self.map.nodes.len(), self.map.silent());
            let todo = "nodes know two changes of one epoch; bring nodes back".into();
            return Err(PoolError::MapNotAgreed { have, of, away, todo });
        }
        Ok(distinct.into_iter().next().map(|(map, _)| map))
    }

    /// Returns whether more than half of the nodes have the map of this epoch.
    fn is_agreed(&self, epoch: u64) -> Result<bool> {
        let epochs = self.map.epochs()?;
        let has = |at: usize| epochs.contains(&(at, epoch));
        Ok(self.map.config.majority(|id| self.map.config.position(id).is_some_and(has)).is_ok())
    }

    /// Changes the map: the next epoch is in force when this returns.
    ///
    /// `force` has it made although too many nodes are unavailable to know of it: two such changes
    /// on two sides of a cut network contradict each other.
    ///
    /// # Errors
    /// Errors of `edit`; [`PoolError::MapChanged`] when another client was first;
    /// [`PoolError::MapNotAgreed`].
    pub fn change(
        &self,
        force: bool,
        settings: &Settings<'_>,
        edit: impl FnOnce(&mut PoolConfig) -> Result<()>,
    ) -> Result<PoolConfig> {
        self.change_with(None, force, settings, edit)
    }

    /// As [`Membership::change`], with a disk that takes part from then on: of those that decide in
    /// the next epoch it is one that is here.
    fn change_with(
        &self,
        joins: Joins<'_>,
        force: bool,
        settings: &Settings<'_>,
        edit: impl FnOnce(&mut PoolConfig) -> Result<()>,
    ) -> Result<PoolConfig> {
        let locks = self.map.lock_all(settings)?;
        for (at, epoch) in self.map.epochs()? {
            self.map.refuse_newer(at, epoch)?;
        }
        // A time that it takes is after all commits by the map of before.
        let next = self.map.config.next(edit)?;
        refuse_unread(&next, self.map.config.version, force, || self.map.releases())?;
        let here = |id: &str| self.map.store(id).is_some();
        let then = |id: &str| here(id) || joins.is_some_and(|(new, _)| new == id);
        let (have, of) = match (self.map.config.majority(here), next.majority(then)) {
            (Err(few), _) | (_, Err(few)) | (Ok(few), Ok(_)) => few,
        };
        let away = self.map.silent();
        let few = have * 2 <= of || away.len() >= self.map.config.policy.manifest_copies;
        if few && !force {
            let todo = "bring nodes back; if they are gone for good, kiln pool forget --force \
                        does without them"
                .into();
            return Err(PoolError::MapNotAgreed { have, of, away, todo });
        }
        match self.spread(&locks, &next, self.map.config.floored, joins, true) {
            Err(PoolError::MapNotAgreed { .. }) if force => {}
            end => end?,
        }
        Ok(next)
    }

    /// Writes a map to all nodes that can be reached; `_locks` are those of all of them. Nodes with
    /// a copy from before `oldest` are passed over: they were rolled back, which their copy alone
    /// shows, until a scrub has looked at what they have. So are those that are nodes no more.
    fn spread(
        &self,
        _locks: &Locks,
        map: &PoolConfig,
        oldest: u64,
        joins: Joins<'_>,
        change: bool,
    ) -> Result<()> {
        let present: Vec<(usize, &dyn Backend)> = self.map.present().collect();
        let ends = self.map.in_parallel(present, |_, (at, store)| {
            if matches!(epoch_of(store, map), Ok(Some(epoch)) if epoch < oldest) {
                return Ok(None);
            }
            if !is_marked(store) {
                return Ok(None);
            }
            let end = write_map(store, &self.map.nodes[at].config.id, map, change);
            Ok::<_, PoolError>(Some((at, end)))
        })?;
        let joined = joins.map(|(id, store)| (id, write_map(store, id, map, change)));
        let mut ends: Vec<_> = ends.into_iter().flatten().collect();
        let is_older =
            |(_, end): &(usize, Result<()>)| matches!(end, Err(PoolError::MapChanged { .. }));
        if let Some(at) = ends.iter().position(is_older) {
            return ends.swap_remove(at).1;
        }
        let written: Vec<&str> = (ends.iter())
            .filter(|(_, end)| end.is_ok())
            .map(|(at, _)| &self.map.nodes[*at].config.id[..])
            .collect();
        let has = |id: &str| written.contains(&id);
        let then = |id: &str| has(id) || matches!(&joined, Some((new, Ok(()))) if *new == id);
        let ((Err((have, of)), _) | (_, Err((have, of)))) =
            (self.map.config.majority(has), map.majority(then))
        else {
            return joined.map_or(Ok(()), |(_, end)| end);
        };
        let ends = ends.into_iter().map(|(_, end)| end).chain(joined.map(|(_, end)| end));
        let why = ends.filter_map(Result::err).next();
        let why = why.map_or(String::new(), |error: PoolError| format!("{error}; "));
        let away = self.map.silent();
        let todo = format!(
            "{why}bring nodes back, and run it again; if they are gone for good, kiln pool forget \
             --force does without them"
        );
        Err(PoolError::MapNotAgreed { have, of, away, todo })
    }

    /// Gives the map to a node that has an older copy: it was unavailable when that changed, or its
    /// disk was rolled back. Of the latter the caller has looked at what it has.
    pub(crate) fn tell(&self, at: usize, settings: &Settings<'_>) -> Result<()> {
        let _lock = self.map.lock(std::iter::once(at), settings)?;
        let store = self.map.usable(at)?;
        if let Ok(Some(epoch)) = epoch_of(store, &self.map.config) {
            self.map.refuse_newer(at, epoch)?;
        }
        if !is_marked(store) {
            let (node, why) = (self.map.nodes[at].config.id.clone(), unmarked(store));
            return Err(PoolError::Unavailable { node, why });
        }
        write_map(store, &self.map.nodes[at].config.id, &self.map.config, false)
    }

    /// Takes an empty place as a new node of the pool. `disk` is a fresh random identity.
    ///
    /// # Errors
    /// A place that is in use; as [`Membership::change`].
    pub fn add_node(
        &self,
        mut node: NodeConfig,
        disk: [u8; 16],
        open: Opener<'_>,
        settings: &Settings<'_>,
    ) -> Result<PoolConfig> {
        node.disk = hex(&disk);
        let store = opened(&node, open)?;
        if let Some(found) = identity(&*store)?.filter(|found| found.pool == self.map.config.id) {
            let what = format!(
                "{} is a disk of node {:?} of this pool, of an earlier time; what is on it is not \
                 believed. Look at it if you miss something, empty it, and add it then",
                store.place(),
                found.node
            );
            return Err(PoolError::Refused { what });
        }
        // What cannot be is refused before the place is marked.
        self.map.config.next(|next| added(next, &node))?;
        take(&self.map.config, &node, &*store)?;
        let joins = Some((&node.id[..], &*store));
        self.change_with(joins, false, settings, |next| added(next, &node))
    }

    /// Takes an empty disk in place of a node's lost one; `node` says where it is now. Until a
    /// repair has settled the map, what the new disk does not have counts as unavailable, not as
    /// absent. The old disk is not used from now on.
    pub fn replace_disk(
        &self,
        mut node: NodeConfig,
        disk: [u8; 16],
        open: Opener<'_>,
        settings: &Settings<'_>,
    ) -> Result<PoolConfig> {
        self.known(&node.id)?;
        node.disk = hex(&disk);
        let store = opened(&node, open)?;
        if let Some(found) = identity(&*store)?
            && (&found.pool, &found.node) == (&self.map.config.id, &node.id)
            && self.map.nodes.iter().any(|known| known.is_here() && known.config.id == node.id)
        {
            let what = format!("{} is the disk that node {} has", store.place(), node.id);
            return Err(PoolError::Refused { what });
        }
        take(&self.map.config, &node, &*store)?;
        self.change_with(Some((&node.id, &*store)), false, settings, |next| {
            let (at, since) = (known(next, &node.id)?, next.revision);
            let mut node = node.clone();
            (node.since, node.state) = (since, NodeState::In);
            next.node[at] = node;
            Ok(())
        })
    }

    /// Sets whether nodes take part.
    ///
    /// # Errors
    /// [`PoolError::Usage`] when there is no such node; as [`Membership::change`].
    pub fn set_state(
        &self,
        ids: &[String],
        state: NodeState,
        force: bool,
        settings: &Settings<'_>,
    ) -> Result<PoolConfig> {
        self.change(force, settings, |next| {
            ids.iter().try_for_each(|id| enter_state(next, id, state))
        })
    }

    /// Has nodes take part again that were out and are back, and does without those of the
    /// unavailable that are given up: then readers look for nothing there, and further losses are
    /// survived once a repair has settled the map. `None`: nothing is to be changed, or too few
    /// domains would be left.
    pub fn attend(
        &self,
        given_up: impl Fn(&str) -> bool,
        settings: &Settings<'_>,
    ) -> Result<Option<PoolConfig>> {
        let here = |id: &str| self.map.store(id).is_some();
        let Some(changes) = self.map.config.attended(here, given_up) else { return Ok(None) };
        let next = self.change(false, settings, |next| {
            changes.iter().try_for_each(|(id, state)| enter_state(next, id, *state))
        })?;
        Ok(Some(next))
    }

    /// Agrees on what a person changed in the description by hand: codes, copies, domains, weights.
    /// `None`: the nodes have the same, or none of them tells. Where nodes are is each reader's
    /// own.
    ///
    /// # Errors
    /// [`PoolError::Refused`] when nodes were added or taken out by hand; as
    /// [`Membership::change`].
    pub fn edited(&self, settings: &Settings<'_>) -> Result<Option<PoolConfig>> {
        // Nodes that were used are asked first: one answer is enough.
        let mut nodes: Vec<&PoolNode> = self.map.nodes.iter().map(|node| &**node).collect();
        nodes.sort_by_key(|node| !node.was_used());
        let map = |node: &PoolNode| map_of(&**node.store().ok()?, &self.map.config).ok()?;
        let known =
            nodes.into_iter().filter_map(map).find(|map| map.revision >= self.map.config.revision);
        let Some(known) = known.filter(|map| map.revision == self.map.config.revision) else {
            return Ok(None);
        };
        let mine = &self.map.config;
        let adopt = |map: &mut PoolConfig| {
            (map.name, map.policy) = (mine.name.clone(), mine.policy.clone());
            map.keep.clone_from(&mine.keep);
            map.tier.clone_from(&mine.tier);
            map.raise_version();
            for (node, edited) in map.node.iter_mut().zip(&mine.node) {
                (node.url, node.domain) = (edited.url.clone(), edited.domain.clone());
                node.weight = edited.weight;
            }
        };
        let mut same = known.clone();
        for (node, edited) in same.node.iter_mut().zip(&mine.node) {
            node.url.clone_from(&edited.url);
        }
        // A caller who made the pool may not know the disks that were taken for it.
        let no_disks = |map: &PoolConfig| {
            let mut map = map.clone();
            map.node.iter_mut().for_each(|node| (node.disk, node.since) = (String::new(), 0));
            map
        };
        if no_disks(&same) == no_disks(mine) {
            return Ok(None);
        }
        adopt(&mut same);
        if no_disks(&same) != no_disks(mine) {
            let what = "nodes of the pool's description were changed by hand; use kiln pool \
                        add-node, drain and forget"
                .into();
            return Err(PoolError::Refused { what });
        }
        let known = self.map.with_config(known);
        let next = Membership::new(&known).change(false, settings, |next| {
            adopt(next);
            Ok(())
        })?;
        Ok(Some(next))
    }

    /// Objects that could not be read without these nodes and those that are unavailable: at most
    /// `limit` names, and how many there are.
    pub fn lost_without(
        &self,
        ids: &[String],
        index: &Index,
        limit: usize,
    ) -> Result<(Vec<String>, u64)> {
        let gone = |id: &String| {
            let at = self.map.config.position(id).filter(|_| !ids.contains(id));
            at.is_none_or(|at| !self.map.nodes[at].is_here())
        };
        let (mut names, mut count) = (Vec::new(), 0);
        index.each_version("", None, |listed| {
            let lost: Vec<usize> =
                (0..listed.nodes.len()).filter(|at| gone(&listed.nodes[*at])).collect();
            let data = match listed.k {
                0 => true,
                _ => self.map.codec(&listed.code)?.tolerates(&lost),
            };
            if !data || listed.manifests.iter().all(gone) {
                count += 1;
                if names.len() < limit {
                    names.push(listed.name);
                }
            }
            Ok(true)
        })?;
        Ok((names, count))
    }

    /// The widest code, of the policy or of objects that the index knows, whose shards need more
    /// domains than there are without these nodes; with its shards, and those domains.
    pub fn too_wide_without(
        &self,
        ids: &[String],
        index: &Index,
    ) -> Result<Option<(String, usize, usize)>> {
        let left = self.map.config.node.iter().filter(|node| !ids.contains(&node.id));
        let domains: BTreeSet<&str> =
            left.filter(|node| !node.is_leaving()).map(|node| &node.domain[..]).collect();
        let of_policy = self.map.config.policy.class.iter().filter(|class| !class.is_inline());
        let mut codes: BTreeSet<String> = of_policy.map(|class| class.code.clone()).collect();
        index.each("", None, |listed| {
            if listed.k > 0 && !codes.contains(&listed.code) {
                codes.insert(listed.code);
            }
            Ok(true)
        })?;
        let shards = |code: String| Ok::<_, PoolError>((self.map.codec(&code)?.shape().n(), code));
        let wide = codes.into_iter().map(shards).collect::<Result<Vec<_>>>()?.into_iter().max();
        let wide = wide.filter(|(shards, _)| *shards > domains.len());
        Ok(wide.map(|(shards, code)| (code, shards, domains.len())))
    }

    /// Takes nodes out of the pool for good. What only they had is
    /// lost: the caller has told people what that is.
    pub fn forget(
        &self,
        ids: &[String],
        force: bool,
        settings: &Settings<'_>,
    ) -> Result<PoolConfig> {
        self.change(force, settings, |next| {
            for id in ids {
                let at = known(next, id)?;
                next.node.remove(at);
                next.gone.push(id.clone());
            }
            Ok(())
        })
    }

    /// Settles the map, when all manifests are known to be in place. They are, of the objects that
    /// any node knows of; and these are all, unless too many nodes are unavailable.
    pub(crate) fn settle_now(&self, settings: &Settings<'_>) -> Result<Option<PoolConfig>> {
        let sure =
            |at: usize, since| self.map.nodes[at].is_here() && !self.map.is_newer_than(at, since);
        if !self.map.config.all_visible(sure) {
            return Ok(None);
        }
        let next = self.change(false, settings, |next| {
            next.settle();
            Ok(())
        })?;
        for node in &self.map.nodes {
            if let Ok(store) = node.store()
                && identity(&**store)?.is_some_and(|found| found.filling)
            {
                write_identity(&**store, &next, &node.config)?;
            }
        }
        Ok(Some(next))
    }

    fn known(&self, id: &str) -> Result<usize> {
        known(&self.map.config, id)
    }
}

fn known(config: &PoolConfig, id: &str) -> Result<usize> {
    let at = config.position(id);
    at.ok_or_else(|| PoolError::Usage { what: format!("the pool has no node {id:?}") })
}

/// A node that comes back after it was out is no new witness: its disk is the one that it had, so
/// that it lacks a manifest means what it always did. What changed meanwhile is found on the homes
/// of the epochs in which it was out; they are asked until a repair has settled the map.
fn enter_state(next: &mut PoolConfig, id: &str, state: NodeState) -> Result<()> {
    let at = known(next, id)?;
    next.node[at].state = state;
    Ok(())
}

fn added(next: &mut PoolConfig, node: &NodeConfig) -> Result<()> {
    // The id may be used again: it is the disk that tells the new node from the old.
    next.gone.retain(|id| *id != node.id);
    let since = next.revision;
    let mut node = node.clone();
    (node.since, node.state) = (since, NodeState::In);
    next.node.push(node);
    Ok(())
}
