//! One coordinator at a time repairs a pool: it takes the pool's name at every agent that it
//! reaches, and keeps it as long as it lives. Two would do no harm, but each other's work.

use std::{collections::BTreeMap, sync::Mutex};

use kiln_pool::Pool;

use super::{Shared, locked};
use crate::Result;
use kiln_net::{Address, Claim, NetError, Network};

/// Names that are held, by the addresses of agents.
pub(super) struct Claims {
    /// Drawn at random for this coordinator.
    claimant: [u8; 16],
    held: Mutex<BTreeMap<String, Claim>>,
}

impl Claims {
    pub fn new(claimant: [u8; 16]) -> Claims {
        Claims { claimant, held: Mutex::default() }
    }

    /// Takes the pool's name at the agents where it is not held (any more), in the order of nodes,
    /// so that of two who begin at once one comes first. Agents that do not answer, or know no
    /// names, are left out.
    /// Errors: [`NetError::Taken`]: another coordinator has it.
    pub fn take(&self, network: &Network, pool: &Pool, by: &str) -> Result<()> {
        let mut held = locked(&self.held);
        held.retain(|_, claim| !claim.has_ended());
        let name = format!("repair of pool {}", pool.config().id);
        let what = format!("pool {:?} is repaired", pool.config().name);
        let away = |at: usize| pool.place(&pool.config().node[at].id).is_none();
        for (at, agent) in Shared::agents(pool).into_iter().enumerate() {
            let Some(agent) = agent.filter(|agent| !held.contains_key(agent) && !away(at)) else {
                continue;
            };
            let address: Address = agent.parse()?;
            match network.claim(&address, (&name, self.claimant, by), &what) {
                Ok(claim) => drop(held.insert(agent, claim)),
                Err(taken @ NetError::Taken { .. }) => return Err(taken.into()),
                // The survey tells of those who do not answer.
                Err(_) => {}
            }
        }
        Ok(())
    }
}
