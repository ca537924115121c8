//! Rights of peers, by the roles that their keys give them: one table of requests and kinds of
//! files, and the least role that each needs.

use crate::proto::Message;
use kiln_store::names::object_name;
use std::{fmt, net::SocketAddr, sync::Arc};

/// The role that a peer's key gives it. Each of the first three includes the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerRole {
    /// Lists and reads files, and has lost chunks rebuilt for what it reads.
    Reader,
    /// Writes and removes objects and volumes.
    Writer,
    /// Repairs, scrubs, drains, and sets limits, as a coordinator does.
    Operator,
    /// Reads and writes all files, the pool's map included, without repairs by agents: keys that
    /// were issued before there were readers, writers and operators.
    Client,
    /// Serves a folder, and sends other agents what they need for repairs.
    Agent,
    /// Does everything: makes pools, takes disks as nodes, issues keys.
    Administrator,
}

impl PeerRole {
    /// All roles.
    pub const ALL: [PeerRole; 6] = [
        PeerRole::Reader,
        PeerRole::Writer,
        PeerRole::Operator,
        PeerRole::Client,
        PeerRole::Agent,
        PeerRole::Administrator,
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            PeerRole::Reader => "reader",
            PeerRole::Writer => "writer",
            PeerRole::Operator => "operator",
            PeerRole::Client => "client",
            PeerRole::Agent => "agent",
            PeerRole::Administrator => "administrator",
        }
    }

    /// Returns the least role that a request needs which this one may not make; `None`: it may.
    pub fn lacks(self, message: &Message) -> Option<PeerRole> {
        use Message as M;
        let least = match message {
            M::Ping {} | M::Cancel { .. } => return None,
            M::Push { .. } | M::Bundle { .. } => PeerRole::Agent,
            // That nothing is written is seen when the assignment is there.
            M::Assign { .. } | M::Start { .. } | M::Watch { .. } | M::Fetch { .. } => Self::Reader,
            M::Reads {} => Self::Reader,
            M::Space {} | M::List { .. } | M::Open { .. } | M::Read { .. } => Self::Reader,
            M::Abort { .. } | M::Close { .. } | M::Locate { .. } | M::Name { .. } => Self::Reader,
            M::Lock { .. } | M::Sync { .. } | M::Write { .. } => Self::Writer,
            M::WriteAt { .. } | M::WritePadded { .. } => Self::Writer,
            M::Append { name, .. } | M::CreateLog { name, .. } | M::Remove { name } => {
                changing(name)
            }
            M::Rename { from, to } | M::CloseLog { name: from, to, .. } => {
                changing(from).max(changing(to))
            }
            M::CopyHome { to, .. } => changing(to),
            M::Throttle { .. } | M::Commit { .. } | M::Claim { .. } => Self::Operator,
            M::Resume { part, .. } => changing(part).max(Self::Operator),
            // Replies, and what only begins a connection: refused before this is asked.
            M::Hello { .. } | M::Welcome { .. } | M::Names { .. } | M::Opened { .. } => {
                Self::Administrator
            }
            M::Data {} | M::Busy {} | M::Done {} | M::Failed { .. } => Self::Administrator,
            M::Progress { .. } | M::Resumed { .. } | M::Taken { .. } => Self::Administrator,
            M::Fetched { .. } | M::Held { .. } | M::Room { .. } => Self::Administrator,
            M::Located { .. } | M::ReadsUpTo { .. } => Self::Administrator,
        };
        let may = match self {
            Self::Administrator => true,
            Self::Agent => least == Self::Agent,
            Self::Client => {
                let repairs = matches!(message, M::Commit { .. } | M::Claim { .. });
                least != Self::Agent && !repairs && !matches!(message, M::Resume { .. })
            }
            Self::Reader | Self::Writer | Self::Operator => self >= least,
        };
        (!may).then_some(least)
    }

    /// Returns the least role that a task needs which writes these parts and names, if this one may
    /// not assign it. A task that writes nothing may be assigned by each that reads.
    pub(crate) fn lacks_to_rebuild<'a>(
        self,
        mut names: impl Iterator<Item = &'a str>,
    ) -> Option<PeerRole> {
        let first = changing(names.next()?).max(Self::Operator);
        let least = names.map(changing).fold(first, Self::max);
        let may = self == Self::Administrator || (self == Self::Operator && self >= least);
        (!may).then_some(least)
    }
}

/// Returns the least role that may change a file, by the kind that its name tells; a part is of the
/// kind of the file that it becomes.
fn changing(name: &str) -> PeerRole {
    let hidden = name.strip_prefix('.');
    let inner = hidden.unwrap_or(name);
    let inner = if hidden.is_some() { inner.strip_suffix(".part").unwrap_or(inner) } else { inner };
    let upkeep = [".repair", ".damaged", ".quarantine"];
    if inner == "kiln-pool.toml" {
        // The map: a drain ends in it, and nodes that are back enter it.
        PeerRole::Operator
    } else if inner == "kiln-node.toml" || (name.starts_with(".kiln-") && name != ".kiln-changes") {
        // The pool and the node that a disk belongs to, and the agent that serves it.
        PeerRole::Administrator
    } else if hidden.is_some() && upkeep.iter().any(|end| inner.ends_with(end)) {
        PeerRole::Operator
    } else {
        // Shards, manifests, logs of volumes, and hints of changes.
        PeerRole::Writer
    }
}

/// The rights that a key gives its holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    /// Its role.
    pub role: PeerRole,
    /// It is for objects whose names begin with this; `None`: for all.
    pub prefix: Option<Arc<str>>,
}

impl Rights {
    /// The rights of holders of the cluster key.
    pub const ALL: Rights = Rights { role: PeerRole::Administrator, prefix: None };

    /// Returns whether they are for the object of a name, or of that of a kept version.
    pub(crate) fn cover(&self, name: &str) -> bool {
        self.prefix.as_ref().is_none_or(|prefix| object_name(name).starts_with(&**prefix))
    }
}

impl From<PeerRole> for Rights {
    fn from(role: PeerRole) -> Rights {
        Rights { role, prefix: None }
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.prefix {
            Some(prefix) => write!(f, "{} for names that begin with {prefix:?}", self.role),
            None => self.role.fmt(f),
        }
    }
}

/// The peer of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerInfo {
    /// Its address, if that is known.
    pub address: Option<SocketAddr>,
    /// The rights that its key gives it.
    pub rights: Rights,
}

impl PeerInfo {
    /// A peer where there are no keys: on the loopback interface, or in a simulation. It may do
    /// everything.
    pub const KEYLESS: PeerInfo = PeerInfo { address: None, rights: Rights::ALL };
}

impl fmt::Display for PeerRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
