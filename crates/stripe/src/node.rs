//! Places that hold shards.

use crate::{PoolError, Result, Settings};
use kiln_store::{Backend, Capabilities, LockAnswer, LockAttempt, StoreError, WriteLock};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// A failure domain that stores shards: a name for messages and a store for bytes.
#[derive(Clone, Debug)]
pub struct Node {
    /// Name used in messages and reports.
    pub name: String,
    /// Place of its bytes.
    pub store: Arc<dyn Backend>,
}

impl Node {
    /// A node of this name over this store.
    pub fn new(name: impl Into<String>, store: Arc<dyn Backend>) -> Node {
        Node { name: name.into(), store }
    }

    /// Returns whether both mean the same place.
    pub fn is(&self, other: &Node) -> bool {
        let same_store = std::ptr::addr_eq(Arc::as_ptr(&self.store), Arc::as_ptr(&other.store));
        same_store || (self.name == other.name && self.store.place() == other.store.place())
    }
}

/// Shard of an index that grows under a hidden name.
pub struct Part<'a> {
    /// Index of the shard.
    pub index: usize,
    /// The place.
    pub store: &'a dyn Backend,
    /// The name there.
    pub name: String,
}

/// One node for all shards, or one node for each.
pub fn check_nodes(nodes: &[Node], n: usize) -> Result<()> {
    if nodes.len() == 1 || nodes.len() == n {
        return Ok(());
    }
    let what = format!(
        "the code makes {n} shards: give one folder for all or {n} folders, not {}",
        nodes.len()
    );
    Err(PoolError::Usage { what })
}

/// The position of the node where an index is to be.
pub fn node_of(index: usize, nodes: &[Node]) -> usize {
    if nodes.len() == 1 { 0 } else { index }
}

/// Locks of several nodes: all are begun to be given back before the first is waited for.
#[derive(Debug)]
pub struct Locks(Vec<WriteLock>);

impl Drop for Locks {
    fn drop(&mut self) {
        WriteLock::release_all(std::mem::take(&mut self.0));
    }
}

/// Keeps other kilns from writing to these nodes as long as the locks live. Waits for those that
/// do, not for ever; says whether it had to, since what was looked at before may then be stale.
///
/// While it waits for one node it holds no other, so that nobody can wait for it meanwhile.
/// `without`: a node whose file system has no locks is written to all the same, with a warning.
/// Errors: a node that cannot be locked, or not written to as shards are, or stays locked for too
/// long; then nothing is locked.
pub fn lock(nodes: &[Node], settings: &Settings<'_>, without: bool) -> Result<(Locks, bool)> {
    for node in nodes {
        Capabilities::require_writable(&*node.store, "writing shards")?;
    }
    let mut had_to_wait = match lock_at_once(nodes) {
        AtOnce::Locked(locks) => return Ok((Locks(locks), false)),
        AtOnce::Not { tried } => tried,
    };
    let mut waiting = Waiting { settings, waited: Duration::ZERO, lockless: BTreeSet::new() };
    let mut first: Option<(usize, WriteLock)> = None;
    loop {
        let (mut locks, mut busy) = (Vec::with_capacity(nodes.len()), None);
        for (at, node) in nodes.iter().enumerate() {
            if first.as_ref().is_some_and(|(held, _)| *held == at) || waiting.lockless.contains(&at)
            {
                continue;
            }
            match node.store.lock(false) {
                Ok(Some(lock)) => locks.push(lock),
                Ok(None) => {
                    busy = Some((at, node));
                    break;
                }
                Err(error @ StoreError::NoLocks { .. }) if without => {
                    waiting.go_without(at, &error)
                }
                Err(error) => return Err(error.into()),
            }
        }
        let Some((at, node)) = busy else {
            locks.extend(first.map(|(_, lock)| lock));
            return Ok((Locks(locks), had_to_wait));
        };
        locks.extend(first.take().map(|(_, lock)| lock));
        WriteLock::release_all(locks);
        had_to_wait = true;
        first = Some((at, waiting.wait_for(node)?));
    }
}

/// Outcome of asking all at once.
enum AtOnce {
    Locked(Vec<WriteLock>),
    /// Nothing is locked; `tried`: some of it was for a moment.
    Not {
        tried: bool,
    },
}

/// Asks nodes that are far away for their locks at once, where the time until the last answer is
/// that of one of them. If one of them is not to be had, all are given back at once, and nobody
/// waits: two that are in each other's way here both go on in the order of all.
fn lock_at_once(nodes: &[Node]) -> AtOnce {
    let answers: Vec<_> = nodes.iter().map(|node| node.store.begin_lock()).collect();
    if nodes.len() < 2 || answers.iter().all(Option::is_none) {
        return AtOnce::Not { tried: false };
    }
    let end = |(answer, node): (Option<LockAnswer<'_>>, &Node)| match answer {
        Some(answer) => answer.take(),
        None => node.store.lock(false),
    };
    // Also those behind one that is not to be had: what was asked for may be granted.
    let ends: Vec<_> = answers.into_iter().zip(nodes).map(end).collect();
    // An error is found again, and told, by who asks one after the other.
    let locks: Vec<WriteLock> = ends.into_iter().filter_map(|end| end.ok().flatten()).collect();
    if locks.len() == nodes.len() {
        return AtOnce::Locked(locks);
    }
    WriteLock::release_all(locks);
    AtOnce::Not { tried: true }
}

/// After this time it is said what is waited for.
const SPEAK: Duration = Duration::from_secs(2);

/// Waiting for locks, of all nodes together.
struct Waiting<'a> {
    settings: &'a Settings<'a>,
    /// Time so far; places count it, since there is no clock here.
    waited: Duration,
    /// Positions of nodes without locks.
    lockless: BTreeSet<usize>,
}

impl Waiting<'_> {
    fn go_without(&mut self, at: usize, error: &StoreError) {
        self.lockless.insert(at);
        let text = format!("{error}; nothing keeps another kiln from writing there meanwhile");
        self.settings.observer.warn(&text);
    }

    /// Waits for the lock of a node; after a while it says so, and in the end it gives up.
    fn wait_for(&mut self, node: &Node) -> Result<WriteLock> {
        let (most, place) = (self.settings.lock_wait, node.store.place());
        let mut told = false;
        loop {
            let rest = most.saturating_sub(self.waited);
            let time = if told { rest } else { rest.min(SPEAK) };
            let holder = match node.store.lock_within(time)? {
                LockAttempt::Granted { lock, waited } => {
                    self.waited += waited;
                    return Ok(lock);
                }
                LockAttempt::Busy { holder } => holder,
            };
            self.waited += time;
            if self.waited >= most {
                return Err(PoolError::Locked { place, seconds: most.as_secs(), holder });
            }
            let by = holder.map_or(String::new(), |holder| format!(" ({holder} holds it)"));
            self.settings.observer.warn(&format!(
                "waiting for the lock of {place}{by}; after {} s in all this ends",
                most.as_secs()
            ));
            told = true;
        }
    }
}

#[cfg(test)]
mod tests;
