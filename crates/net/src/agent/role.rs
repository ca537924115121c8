//! Rights of peers, by the roles that their keys give them.

use std::fmt;
use std::net::SocketAddr;

use crate::proto::Message;

/// The role that a peer's key gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerRole {
    /// Reads and writes files, and has lost chunks rebuilt for what it reads.
    Client,
    /// Serves a folder, and sends other agents what they need for repairs.
    Agent,
    /// Does everything, repairs with all agents included.
    Administrator,
}

impl PeerRole {
    /// All roles.
    pub const ALL: [PeerRole; 3] = [PeerRole::Client, PeerRole::Agent, PeerRole::Administrator];

    /// Returns whether a peer of this role may ask for this.
    #[must_use]
    pub fn may_ask(self, message: &Message) -> bool {
        match message {
            Message::Ping {} | Message::Cancel { .. } => true,
            Message::Push { .. } | Message::Bundle { .. } => self != PeerRole::Client,
            // That nothing is written is seen when the assignment is there.
            Message::Assign { .. }
            | Message::Start { .. }
            | Message::Watch { .. }
            | Message::Throttle { .. }
            | Message::Fetch { .. }
            | Message::Abort { .. } => self != PeerRole::Agent,
            Message::Space {}
            | Message::List { .. }
            | Message::Open { .. }
            | Message::Read { .. }
            | Message::Append { .. }
            | Message::Write { .. }
            | Message::CreateLog { .. }
            | Message::WriteAt { .. }
            | Message::WritePadded { .. }
            | Message::CloseLog { .. }
            | Message::Sync { .. }
            | Message::Close { .. }
            | Message::Rename { .. }
            | Message::Remove { .. }
            | Message::Locate { .. }
            | Message::CopyHome { .. }
            | Message::Lock { .. } => self != PeerRole::Agent,
            _ => self == PeerRole::Administrator,
        }
    }

    /// Returns whether tasks that it assigns may write shards.
    #[must_use]
    pub fn may_rebuild(self) -> bool {
        self == PeerRole::Administrator
    }
}

/// The peer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerInfo {
    /// Its address, if that is known.
    pub address: Option<SocketAddr>,
    /// The role that its key gives it.
    pub role: PeerRole,
}

impl PeerInfo {
    /// A peer where there are no keys: on the loopback interface, or in a simulation. It may do
    /// everything.
    pub const KEYLESS: PeerInfo = PeerInfo { address: None, role: PeerRole::Administrator };
}

impl fmt::Display for PeerRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PeerRole::Client => "client",
            PeerRole::Agent => "agent",
            PeerRole::Administrator => "administrator",
        })
    }
}
