//! The crate's one error type.

use crate::{capability::Capability, operation::Operation};
use std::io;

/// Errors of stored bytes: the fault, the place, the remedy.
///
/// `place` is the backend's place (a folder's path, say), `name` the file in it.
#[allow(missing_docs)] // of fields that their names describe
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The operating system (or a fault injected by a test) refused an operation.
    #[error("cannot {op} {}: {source}", target(name, place))]
    Io {
        op: Operation,
        place: String,
        /// The file's name; empty when the place itself is meant.
        name: String,
        #[source]
        source: io::Error,
    },
    /// A file name that a backend must not follow.
    #[error("file name {name:?} is refused: {why}")]
    BadName { name: String, why: &'static str },
    /// A place of a kind that is not in the table of backends.
    #[error(
        "{place:?}: there are no places that begin with {scheme:?}; known: {known}; \
         a folder of that name is \"./{place}\""
    )]
    UnknownScheme {
        place: String,
        scheme: String,
        /// An example of each kind that would be accepted.
        known: String,
    },
    /// A place of a known kind that cannot be used as it is written.
    #[error("{place:?} cannot be used: {why}")]
    BadPlace {
        place: String,
        /// The fault and the right form.
        why: String,
    },
    /// A place cannot do what is needed; nothing was written.
    #[error("{place} cannot {lacks}, and {what} needs that; name another place, such as a folder")]
    Incapable {
        place: String,
        /// The missing capability.
        lacks: Capability,
        what: String,
    },
    /// The place is in a file system that cannot lock it: two writers at once could not be kept
    /// apart.
    #[error(
        "cannot lock {place}: {source}; its file system must lock folders (flock), and a network \
         file system that cannot is better served by kiln agent on the machine with the disk"
    )]
    NoLocks {
        place: String,
        #[source]
        source: io::Error,
    },
    /// Another writer took a log over: what this one writes to it counts for nothing.
    #[error("{name:?} in {place} was taken over by another writer; nothing more can be written")]
    Fenced { place: String, name: String },
    /// A log has a writer that lives.
    #[error("{name:?} in {place} is in use by {}", holder.as_deref().unwrap_or("its writer"))]
    InUse {
        place: String,
        name: String,
        /// Its writer, as far as that is known.
        holder: Option<String>,
    },
    /// A field of a shard's description lies outside its limits.
    #[error("shard field {field} = {value} is refused: must be {limit}")]
    BadField { field: &'static str, value: String, limit: String },
    /// The file is no shard at all.
    #[error("{name:?} in {place} is not a kiln shard: {why}")]
    NotAShard { place: String, name: String, why: String },
    /// The shard was written by a later version of the format.
    #[error("{name:?} in {place} has shard format {found}, this program reads {supported}")]
    Version { place: String, name: String, found: u16, supported: u16 },
    /// A part of the file other than chunk data is wrong.
    #[error("{name:?} in {place} is damaged: {part}: {what}")]
    Damaged {
        place: String,
        name: String,
        /// Part of the file: "header", "trailer", "table of segment 3".
        part: String,
        what: String,
    },
    /// Sub-chunks whose bytes do not have their recorded checksums.
    #[error("{name:?} in {place} is damaged: stripe {stripe}, sub-chunks {subs:?}")]
    BadSubChunks {
        place: String,
        name: String,
        /// The stripe, counted from 0.
        stripe: u64,
        /// Positions of the bad sub-chunks along the chunk, ascending.
        subs: Vec<u32>,
    },
    /// The file ends before the bytes that were asked for.
    #[error("{name:?} in {place} is truncated: {need} bytes needed, {have} present")]
    Truncated {
        place: String,
        name: String,
        /// Length in bytes that the file should at least have.
        need: u64,
        /// Length in bytes that it has.
        have: u64,
    },
    /// A rebuilt shard is not the one that was recorded; it must not be put in place.
    #[error("{name:?} in {place}: {}; it was not put in place", why_other(*written))]
    Mismatch {
        place: String,
        name: String,
        /// It was right when it was written: its place returns something else.
        written: bool,
    },
    /// The shard of a streamed object lost its trailer, and with it the object's size.
    #[error("{name:?} in {place} does not say the object's size; take it from another shard")]
    SizeUnknown { place: String, name: String },
    /// The caller broke this crate's contract; the message says which rule.
    #[error("{op} on {name:?}: {what}")]
    Misuse { op: &'static str, name: String, what: String },
}

/// Names the target of an operation: a file, or the whole place.
fn target(name: &str, place: &str) -> String {
    if name.is_empty() { place.to_owned() } else { format!("{name:?} in {place}") }
}

fn why_other(written: bool) -> &'static str {
    match written {
        true => "what is read back is not the shard that was written",
        false => "the rebuilt shard does not have its recorded digest",
    }
}

impl StoreError {
    /// Returns whether the same call may succeed when simply tried again.
    ///
    /// A failed `sync` never is: the system may have dropped the dirty pages and report success
    /// next time.
    pub fn is_retryable(&self) -> bool {
        use io::ErrorKind::{Interrupted, ResourceBusy, TimedOut, WouldBlock};
        match self {
            Self::Io { op, source, .. } => {
                *op != Operation::Sync
                    && matches!(source.kind(), Interrupted | ResourceBusy | TimedOut | WouldBlock)
            }
            _ => false,
        }
    }

    /// Returns whether the place takes no more: no space (ENOSPC), quota (EDQUOT), file size limit
    /// (EFBIG), or mounted read-only (EROFS).
    pub fn is_full(&self) -> bool {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        matches!(self, Self::Io { source, .. } if matches!(source.kind(),
            StorageFull | QuotaExceeded | FileTooLarge | ReadOnlyFilesystem))
    }

    /// Returns whether the system, or an agent, does not permit it.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }

    /// Returns whether another writer took the log over, see [`crate::Logs::close_log`].
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Fenced { .. })
    }

    /// Returns whether a log has a writer that lives.
    pub fn is_in_use(&self) -> bool {
        matches!(self, Self::InUse { .. })
    }

    /// Returns whether the file does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Returns whether the place, or the agent that serves it, is not there (any more).
    pub fn is_gone(&self) -> bool {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, TimedOut};
        self.is_not_found()
            || matches!(self, Self::Io { source, .. } if matches!(source.kind(),
                ConnectionAborted | ConnectionRefused | ConnectionReset | TimedOut))
    }

    /// Returns whether there is a file of the name already, see [`crate::Existing::Keep`].
    pub fn is_exists(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::AlreadyExists)
    }

    /// Returns whether the place was named wrongly, or is of the wrong kind for what is to be done.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::UnknownScheme { .. } | Self::BadPlace { .. } | Self::Incapable { .. })
    }

    /// Returns whether the stored bytes are at fault: what was read is not what was once written.
    ///
    /// A reader treats these (and I/O errors) as erasures; the others are the caller's mistakes.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::NotAShard { .. }
                | Self::Damaged { .. }
                | Self::BadSubChunks { .. }
                | Self::Truncated { .. }
        )
    }

    /// Returns whether the place could not be asked: no way leads to its server, or it is silent.
    #[must_use]
    pub fn is_away(&self) -> bool {
        use io::ErrorKind::{
            BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable,
            NetworkUnreachable, NotConnected, TimedOut,
        };
        matches!(self, Self::Io { source, .. } if matches!(
            source.kind(),
            BrokenPipe | ConnectionAborted | ConnectionRefused | ConnectionReset | HostUnreachable
                | NetworkUnreachable | NotConnected | TimedOut
        ))
    }

    /// The refusal of what a place cannot do; `what` needs it.
    pub fn incapable(place: String, lacks: Capability, what: String) -> Self {
        Self::Incapable { place, lacks, what }
    }

    /// Shorthand for [`StoreError::Io`].
    pub(crate) fn io(op: Operation, place: &str, name: &str, source: io::Error) -> Self {
        Self::Io { op, place: place.to_string(), name: name.to_string(), source }
    }
}
