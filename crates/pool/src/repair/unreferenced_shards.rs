//! Shards that a scrub finds without a manifest.

use crate::{Key, NodeFile};
use std::collections::{BTreeMap, BTreeSet};

/// Encode runs without a manifest that are remembered in one scrub.
const MAX_RUNS: usize = 100_000;

/// Index and node of a shard.
pub(crate) type Stray = (u16, usize);

/// Shards of objects that have no manifest, by object and run; and manifests that no index knows.
#[derive(Debug, Default)]
pub(crate) struct Strays {
    shards: BTreeMap<(Key, [u8; 16]), Vec<Stray>>,
    /// Objects whose manifests were being written: puts that were cut short, which were
    /// never acknowledged.
    begun: BTreeSet<(Key, [u8; 16])>,
    /// Objects with shards that may be of no use, and were left where they are: too little could be
    /// said of them now. Beyond [`MAX_RUNS`] it is any object.
    left: BTreeSet<Key>,
    /// Objects that the index does not have: logs of changes are hints, and may be lost.
    pub unlisted: BTreeSet<Key>,
}

impl Strays {
    pub(crate) fn note(&mut self, key: Key, run: [u8; 16], index: u16, node: usize) {
        if self.shards.len() < MAX_RUNS || self.shards.contains_key(&(key, run)) {
            self.shards.entry((key, run)).or_default().push((index, node));
        }
    }

    pub(crate) fn begun(&mut self, key: Key, run: [u8; 16]) {
        if self.begun.len() < MAX_RUNS {
            self.begun.insert((key, run));
        }
    }

    /// A shard, or what may become one, was left where it is.
    pub(crate) fn leave(&mut self, file: &NodeFile) {
        if self.left.len() < MAX_RUNS {
            self.left.insert(file.key());
            self.left.extend(file.of_kept().map(|(kept, ..)| kept));
        }
    }

    /// Returns whether an object may have shards that a later scrub takes for those of a lost
    /// manifest, if nothing says any more that it was removed.
    pub(crate) fn may_have(&self, key: &Key) -> bool {
        self.left.len() >= MAX_RUNS || self.left.contains(key)
    }

    /// Runs whose manifests seem to be lost, with their shards.
    pub(crate) fn lost(&self) -> impl Iterator<Item = (&(Key, [u8; 16]), &Vec<Stray>)> {
        self.shards.iter().filter(|(run, _)| !self.begun.contains(run))
    }
}
