//! Names that one connection at a time has, for what only one may do at a time in a cluster: who
//! coordinates the repairs of a pool, say. A name is free again when its connection ends.

use super::ConnectionId;
use std::{collections::BTreeMap, time::Duration};

/// Names at once, at most.
const CLAIMS: usize = 1024;

/// The holder of a name.
#[derive(Debug)]
struct Claim {
    claimant: [u8; 16],
    connection: ConnectionId,
    handle: u32,
    by: String,
    since: Duration,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Claims {
    all: BTreeMap<String, Claim>,
}

impl Claims {
    /// Gives a name to a claimant on a connection, under a handle of it. One who has it already
    /// has it there from now on.
    /// Errors: another one has it; the text says who, and for how long.
    pub fn take(
        &mut self,
        now: Duration,
        (name, claimant): (&str, [u8; 16]),
        (connection, handle): (ConnectionId, u32),
        by: String,
    ) -> Result<(), String> {
        if let Some(Claim { by, since, .. }) =
            self.all.get(name).filter(|claim| claim.claimant != claimant)
        {
            let seconds = now.saturating_sub(*since).as_secs();
            return Err(format!("{by}, for {seconds} s"));
        }
        if self.all.len() >= CLAIMS && !self.all.contains_key(name) {
            return Err(format!("{CLAIMS} others with other names"));
        }
        let claim = Claim { claimant, connection, handle, by, since: now };
        self.all.insert(name.to_owned(), claim);
        Ok(())
    }

    /// A handle was closed, which may be that of a name.
    pub fn give_back(&mut self, connection: ConnectionId, handle: u32) {
        self.all.retain(|_, claim| (claim.connection, claim.handle) != (connection, handle));
    }

    /// A connection ended.
    pub fn forget(&mut self, connection: ConnectionId) {
        self.all.retain(|_, claim| claim.connection != connection);
    }
}
