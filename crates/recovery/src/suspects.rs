//! Agents that failed, and how long they are left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time that an agent that failed is not asked for help.
const FAILED: Duration = Duration::from_secs(30);
/// Time that an agent whose storage failed, as when it is full, gets no shards.
const STORAGE_FAILED: Duration = Duration::from_secs(600);

/// Until when which agent, by position in the pool, is left alone.
#[derive(Debug, Default)]
pub(super) struct Suspects {
    until: BTreeMap<usize, Duration>,
}

impl Suspects {
    /// An agent failed.
    pub fn add(&mut self, now: Duration, node: usize, storage: bool) {
        let time = if storage { STORAGE_FAILED } else { FAILED };
        self.until.insert(node, now + time);
    }

    /// Those that are left alone now.
    pub fn at(&mut self, now: Duration) -> BTreeSet<usize> {
        self.until.retain(|_, until| *until > now);
        self.until.keys().copied().collect()
    }
}

#[test]
fn suspects_are_asked_again_after_a_while() {
    let at = Duration::from_secs;
    let mut suspects = Suspects::default();
    suspects.add(at(10), 3, false);
    suspects.add(at(10), 5, true);
    assert_eq!(suspects.at(at(39)), [3, 5].into());
    assert_eq!(suspects.at(at(40)), [5].into());
    suspects.add(at(50), 5, false);
    assert_eq!(suspects.at(at(80)), [].into());
}
