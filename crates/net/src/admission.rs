//! Admission of connections: places for those that have not authenticated yet, apart
//! from the places of members, and of both only so many for one address.
//!
//! Anybody who reaches the port can open connections and say nothing. They compete with each other
//! only: a newcomer takes the place of the oldest of its own address, where that has many, else of
//! the oldest of the address that has most; and members have places that no handshake can take. So
//! a flood from some addresses does not end the handshakes of the others, however fast it is.
//! Pure; the shell reports who comes and goes.

mod refusals;

use std::net::{IpAddr, Ipv6Addr};
use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

pub use self::refusals::RefusalLog;
use crate::agent::{ConnectionId, Limits};

/// The decision on a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It has a place.
    Accepted,
    /// It has the place of this one, which has not shown who it is and must be closed.
    Replaces(ConnectionId),
}

/// The decision on a connection that has authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// It is a member's and has a place among these.
    Entered,
    /// All members' places are taken; so many there are.
    Full(usize),
    /// Its address has as many as one address may have.
    Crowded(usize),
    /// It lost its place meanwhile and is to be closed.
    Gone,
}

/// A connection in its handshake.
#[derive(Debug)]
struct Unproven {
    from: IpAddr,
    since: Duration,
}

/// The places of an agent's connections.
#[derive(Debug)]
pub struct Admission {
    limits: Limits,
    /// By number, which is the order in which they came.
    unproven: BTreeMap<ConnectionId, Unproven>,
    members: BTreeMap<ConnectionId, IpAddr>,
}

impl Admission {
    /// No connections so far.
    pub fn new(limits: Limits) -> Admission {
        Admission { limits, unproven: BTreeMap::new(), members: BTreeMap::new() }
    }

    /// A connection was accepted; numbers grow.
    pub fn arrive(&mut self, now: Duration, id: ConnectionId, from: IpAddr) -> Arrival {
        let from = origin(from);
        let same = |(_, other): &(&ConnectionId, &Unproven)| other.from == from;
        let crowded =
            self.unproven.iter().filter(same).count() >= self.limits.unproven_per_address.max(1);
        let oldest = if crowded {
            self.unproven.iter().find(same).map(|(id, _)| *id)
        } else if self.unproven.len() >= self.limits.unproven.max(1) {
            self.oldest_of_busiest()
        } else {
            None
        };
        if let Some(oldest) = oldest {
            self.unproven.remove(&oldest);
        }
        self.unproven.insert(id, Unproven { from, since: now });
        oldest.map_or(Arrival::Accepted, Arrival::Replaces)
    }

    /// The oldest connection of the address with most; of several such addresses the oldest one.
    fn oldest_of_busiest(&self) -> Option<ConnectionId> {
        let mut each: BTreeMap<IpAddr, (usize, ConnectionId)> = BTreeMap::new();
        for (id, unproven) in &self.unproven {
            each.entry(unproven.from).or_insert((0, *id)).0 += 1;
        }
        let busiest = each.into_values().max_by_key(|(count, id)| (*count, Reverse(*id)));
        busiest.map(|(_, id)| id)
    }

    /// A connection has shown that it is a member's. Unless it enters it keeps the place that it
    /// has, and may try again.
    pub fn enter(&mut self, id: ConnectionId) -> Entry {
        let Some(Unproven { from, .. }) = self.unproven.get(&id) else { return Entry::Gone };
        let from = *from;
        let same = self.members.values().filter(|other| **other == from).count();
        if same >= self.limits.connections_per_address {
            return Entry::Crowded(same);
        }
        if self.members.len() >= self.limits.connections {
            return Entry::Full(self.members.len());
        }
        self.unproven.remove(&id);
        self.members.insert(id, from);
        Entry::Entered
    }

    /// A connection ended.
    pub fn leave(&mut self, id: ConnectionId) {
        self.unproven.remove(&id);
        self.members.remove(&id);
    }

    /// Since when a connection has been in its handshake.
    pub fn waits_since(&self, id: ConnectionId) -> Option<Duration> {
        self.unproven.get(&id).map(|unproven| unproven.since)
    }

    /// Connections that have not shown who they are, and those of members.
    pub fn load(&self) -> (usize, usize) {
        (self.unproven.len(), self.members.len())
    }
}

/// Returns the part that counts as one address: of IPv6 the network, since a machine has all of
/// one.
fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            let network = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests;
