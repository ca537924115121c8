//! Presence of a node that was probed before. Its disk may have been lost since, with
//! an empty folder in its place: what is made there is no part of the pool, and keeps the folder
//! from being taken as the node's next disk. What such a folder lacks is away, and not lost: so
//! says who opens the pool anew, too.

use crate::map::cluster_map::ClusterMap;
use kiln_store::Backend;
use kiln_stripe::names::IDENTITY;
use std::sync::{Arc, OnceLock};

/// Cache of one operation about the nodes: each is asked once, however many objects it puts.
#[derive(Debug)]
pub(crate) struct Asked {
    /// By position. `None`: it was not used before, so it is this operation that looks at it.
    still: Vec<Option<OnceLock<bool>>>,
}

impl ClusterMap {
    /// Nothing was asked yet.
    pub(crate) fn asked(&self) -> Asked {
        let still = self.nodes.iter().map(|node| node.was_used().then(OnceLock::new));
        Asked { still: still.collect() }
    }

    /// Returns whether a node can be used, and is still there.
    pub(crate) fn is_still(&self, at: usize, asked: &Asked) -> bool {
        let Ok(store) = self.nodes[at].store() else { return false };
        let Some(still) = &asked.still[at] else { return true };
        *still.get_or_init(|| is_marked(&**store))
    }

    /// As [`ClusterMap::place`], to make files there that are to stay: a node whose disk was lost
    /// since it was looked at has none.
    pub fn place_to_write(&self, id: &str) -> Option<Arc<dyn Backend>> {
        let known = self.nodes[self.config.position(id)?].was_used();
        self.place(id).filter(|store| !known || is_marked(&**store))
    }
}

/// Returns what is said of a place that was a node and is none any more.
pub(crate) fn unmarked(store: &dyn Backend) -> String {
    format!("{} is no node of this pool any more ({IDENTITY} is missing)", store.place())
}

/// Returns whether a place says that it is a node. One that does not answer is not said to be none:
/// what is written there fails, which says more.
pub(crate) fn is_marked(store: &dyn Backend) -> bool {
    !store.open(IDENTITY).is_err_and(|error| error.is_not_found())
}
