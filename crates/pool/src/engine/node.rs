//! Places that hold shards.

use std::sync::Arc;

use kiln_store::{Backend, Capabilities, WriteLock};

use crate::{PoolError, Result, Settings};

/// A failure domain that stores shards: a name for messages and a store for bytes.
///
/// ```
/// use std::sync::Arc;
/// use kiln_pool::Node;
/// use kiln_store::MemoryBackend;
/// let node = Node::new("disk-0", Arc::new(MemoryBackend::new()));
/// assert_eq!(node.name, "disk-0");
/// ```
#[derive(Clone, Debug)]
pub struct Node {
    /// Name used in messages and reports.
    pub name: String,
    /// Where its bytes are.
    pub store: Arc<dyn Backend>,
}

impl Node {
    /// A node of this name over this store.
    pub fn new(name: impl Into<String>, store: Arc<dyn Backend>) -> Node {
        Node { name: name.into(), store }
    }

    /// Whether both mean the same place.
    pub(crate) fn is(&self, other: &Node) -> bool {
        let same_store = std::ptr::addr_eq(Arc::as_ptr(&self.store), Arc::as_ptr(&other.store));
        same_store || (self.name == other.name && self.store.place() == other.store.place())
    }
}

/// Where the shard of an index grows under a hidden name.
pub(crate) struct Part<'a> {
    /// Index of the shard.
    pub index: usize,
    /// The place.
    pub store: &'a dyn Backend,
    /// The name there.
    pub name: String,
}

/// One node for all shards, or one node for each.
pub(crate) fn check_nodes(nodes: &[Node], n: usize) -> Result<()> {
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
pub(crate) fn node_of(index: usize, nodes: &[Node]) -> usize {
    if nodes.len() == 1 { 0 } else { index }
}

/// Keeps other kilns from writing to these nodes as long as the locks live. Waits for those that
/// do; says whether it had to, since what was looked at before may then be stale.
///
/// While it waits for one node it holds no other, so that nobody can wait for it meanwhile.
/// `tell` says to the user that it waits.
///
/// # Errors
/// A node that cannot be locked, or not written to as shards are; then nothing is locked.
pub(crate) fn lock(
    nodes: &[Node],
    settings: &Settings<'_>,
    tell: bool,
) -> Result<(Vec<WriteLock>, bool)> {
    for node in nodes {
        Capabilities::FILES.require(&*node.store, "writing shards")?;
    }
    let mut waited = false;
    let mut first: Option<(usize, WriteLock)> = None;
    loop {
        let (mut locks, mut busy) = (Vec::with_capacity(nodes.len()), None);
        for (at, node) in nodes.iter().enumerate() {
            if first.as_ref().is_some_and(|(held, _)| *held == at) {
                continue;
            }
            match node.store.lock(false)? {
                Some(lock) => locks.push(lock),
                None => {
                    busy = Some((at, node));
                    break;
                }
            }
        }
        let Some((at, node)) = busy else {
            locks.extend(first.map(|(_, lock)| lock));
            return Ok((locks, waited));
        };
        drop((locks, first.take()));
        if tell && !waited {
            let text = format!("another kiln writes to {}; waiting for it", node.store.place());
            settings.observer.warn(&text);
        }
        waited = true;
        first = node.store.lock(true)?.map(|lock| (at, lock));
    }
}
