//! Faults at given moments; [`super::Faults`] are those that strike now and then.

use std::time::Duration;

/// Something that goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduledFault {
    /// When.
    pub at: Duration,
    /// The message or fault.
    pub what: What,
}

/// Kinds of scheduled faults.
#[allow(missing_docs)] // of fields that their names describe
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A host loses power and comes back after so long, if ever; its disk keeps what it must.
    Crash {
        host: usize,
        /// `None`: it stays away until all is healed.
        back: Option<Duration>,
    },
    /// A host's agent is exchanged for one of another release, which speaks versions of the
    /// protocol up to this one: an upgrade, or a rollback.
    Exchange {
        host: usize,
        /// The latest version that it speaks.
        version: u8,
    },
    /// All hosts lose power at once and come back after moments of their own.
    Outage,
    /// A host cannot be reached for so long, without an error.
    Cut { host: usize, time: Duration },
    /// A client reaches no host for so long.
    CutClient { client: usize, time: Duration },
    /// A client's process ends.
    Kill { client: usize },
    /// A disk has room for so many more bytes.
    Full { host: usize, bytes: u64 },
    /// A disk takes so many times longer.
    SlowNodes {
        host: usize,
        /// Factor by which it is slower.
        factor: u64,
    },
    /// So many of a thousand jobs of a disk fail.
    Sick {
        host: usize,
        /// Failures in a thousand.
        per_mille: u64,
    },
    /// Bits of every other file of the pool on a host flip.
    Rot { host: usize },
    /// Writes to every other file of the pool on a host went to the wrong place: its bytes are
    /// those of another file there.
    Misdirect { host: usize },
    /// A host is gone with its disk.
    Lose { host: usize },
    /// A disk that loses what it reported as durable, and returns flipped bits now and then, or
    /// another file's bytes.
    Lie { host: usize },
}
