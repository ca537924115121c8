//! Disks that may lose or damage data: at most as many at a time as the code tolerates.

use std::{collections::BTreeMap, time::Duration};

/// Operations under way at a clean scrub may have begun a little before.
const MARGIN: Duration = Duration::from_secs(10);

/// The hosts that are hurt, and when that was last done to them.
///
/// A host is hurt by losing its disk or getting another one (an older one, a snapshot), by rot, and
/// by leaving the pool with what only it may have. Being away does no harm: what the host has comes
/// back with it. One that is hurt stays so until a scrub that began later found everything whole.
#[derive(Debug)]
pub struct Losses {
    tolerates: usize,
    hurt: BTreeMap<usize, Duration>,
}

impl Losses {
    /// Something is going to happen to these, until a moment.
    pub fn new(tolerates: usize, planned: &[usize], until: Duration) -> Losses {
        Losses { tolerates, hurt: planned.iter().map(|host| (*host, until)).collect() }
    }

    /// Returns whether a host may be hurt now; then it is.
    pub fn may(&mut self, host: usize, now: Duration) -> bool {
        let room = self.hurt.len() < self.tolerates;
        match self.hurt.get_mut(&host) {
            Some(last) => *last = now.max(*last),
            None if room => drop(self.hurt.insert(host, now)),
            None => return false,
        }
        true
    }

    /// All that was done by then is known to be rebuilt; says of how many hosts.
    pub fn whole(&mut self, since: Duration) -> usize {
        let before = self.hurt.len();
        self.hurt.retain(|_, last| last.saturating_add(MARGIN) > since);
        before - self.hurt.len()
    }
}
