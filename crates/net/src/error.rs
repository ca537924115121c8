//! The crate's one error type.

use kiln_store::{Operation, StoreError};
use std::{fmt, io};

/// Result of everything in this crate.
pub type Result<T, E = NetError> = std::result::Result<T, E>;

/// An operation between nodes, or on files of one, as [`NetError::Io`] names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetOperation {
    /// Starting threads.
    Start,
    /// Taking connections at an address.
    Listen,
    /// Making a connection.
    Connect,
    /// Asking and answering on a connection that was made.
    Talk,
    /// Changing something at the other side.
    Write,
    /// Making a file.
    CreateFile,
    /// Opening a file.
    OpenFile,
    /// Reading a file.
    ReadFile,
}

impl fmt::Display for NetOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::Listen => "listen on",
            Self::Connect => "connect to",
            Self::Talk => "talk to",
            Self::Write => "write to",
            Self::CreateFile => "create",
            Self::OpenFile => "open",
            Self::ReadFile => "read",
        })
    }
}

/// An error between nodes, with its place and a remedy.
#[allow(missing_docs)] // of fields that their names describe
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// Bytes that are no frame of this protocol, or a frame at a time when it may not come. The
    /// connection is closed and nothing of the frame was acted upon.
    #[error("protocol: {what}")]
    Protocol { what: String },
    /// The other side speaks other versions of the protocol.
    #[error("{place} speaks wire versions {theirs}, this program speaks {ours}")]
    Version {
        place: String,
        /// Its versions.
        theirs: String,
        ours: String,
    },
    /// An address or a file of the cluster key that cannot be used.
    #[error("{what:?} is refused: {why}")]
    Setup {
        what: String,
        /// The mistake, and the right form.
        why: String,
    },
    /// The other side is not who it should be, or we are not for it.
    #[error("{place} refused the connection: {why}")]
    Refused { place: String, why: String },
    /// The connection could not be made, or broke.
    #[error("cannot {op} {place}: {source}")]
    Io {
        op: NetOperation,
        /// The other side, or the file.
        place: String,
        #[source]
        source: io::Error,
    },
    /// No answer came in time.
    #[error("{place} did not answer {what} in time")]
    Late { what: String, place: String },
    /// The other side gave up a request, since it was told to or is too busy.
    #[error("{place} gave up {what}: {why}")]
    GaveUp { what: String, place: String, why: String },
    /// Only one may do it at a time, and another one does it.
    #[error("{what} already: by {by}, as {place} says; wait for its end, or end that one")]
    Taken {
        what: String,
        /// By whom, and for how long.
        by: String,
        /// The agent that says so.
        place: String,
    },
    /// A request takes more memory than is left for it.
    #[error(
        "{what} takes {need} bytes of memory, {left} are left; repair fewer objects at once, or \
         with smaller windows"
    )]
    Memory {
        what: String,
        /// Bytes that it takes at least.
        need: u64,
        /// Bytes that are left.
        left: u64,
    },
    /// Storage failed, here or at the other side.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl NetError {
    /// Returns whether the same call may succeed when simply tried again.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Io { .. } | Self::Late { .. } | Self::GaveUp { .. } | Self::Memory { .. } => true,
            Self::Store(error) => error.is_retryable(),
            Self::Protocol { .. }
            | Self::Version { .. }
            | Self::Setup { .. }
            | Self::Taken { .. }
            | Self::Refused { .. } => false,
        }
    }

    /// As an error of storage, for those who use a remote place as a backend.
    #[must_use]
    pub fn into_store(self, op: Operation, place: &str, name: &str) -> StoreError {
        let kind = match &self {
            Self::Store(_) => io::ErrorKind::Other,
            Self::Io { source, .. } => source.kind(),
            Self::Late { .. } => io::ErrorKind::TimedOut,
            Self::GaveUp { .. } | Self::Memory { .. } => io::ErrorKind::ResourceBusy,
            Self::Refused { .. } | Self::Setup { .. } | Self::Taken { .. } => {
                io::ErrorKind::PermissionDenied
            }
            Self::Protocol { .. } | Self::Version { .. } => io::ErrorKind::InvalidData,
        };
        match self {
            Self::Store(error) => error,
            other => StoreError::Io {
                op,
                place: place.to_string(),
                name: name.to_string(),
                source: io::Error::new(kind, other.to_string()),
            },
        }
    }

    /// Shorthand for [`NetError::Protocol`].
    pub fn protocol(what: impl Into<String>) -> Self {
        Self::Protocol { what: what.into() }
    }
}
