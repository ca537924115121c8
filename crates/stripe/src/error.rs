//! The one error type of this crate.

use kiln_code::CodeError;
use kiln_store::StoreError;
use std::io;

/// Result of this crate.
pub type Result<T, E = PoolError> = std::result::Result<T, E>;

/// Meaning of an error to the caller; the program maps it to its exit code.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request makes no sense as given.
    Usage,
    /// Too much is lost.
    NotRecoverable,
    /// A disk, a folder or a stream failed.
    Io,
    /// Doing it could lose data.
    Refused,
}

/// Why an operation failed. One clear line each.
#[allow(missing_docs)] // of fields that their names describe
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The request makes no sense as given.
    #[error("{what}")]
    Usage { what: String },
    /// The pool is sealed, and the key to seal with is not at hand.
    #[error(
        "pool {pool:?} is sealed with key {id}, which is not here; put its file beside the \
         description as its name with .seal.key, or name it by --pool-key. If it is lost, \
         kiln pool seal --lost-key makes another one"
    )]
    NoKey { pool: String, id: String },
    /// The pool is encrypted, and a key that wraps keys of its objects is not at hand.
    #[error(
        "pool {pool:?} is encrypted with data key {id}, which is not here; put its file beside the \
         description as its name with .data.key, or name it by --data-key. Without it no object \
         can be read or written"
    )]
    NoDataKey { pool: String, id: String },
    /// Encrypted data is not what was put, or its key is another object's.
    #[error(
        "object {object:?}: the data from byte {offset} on is not what was put (its tag is wrong): \
         it was changed or exchanged on the nodes; put it again from a copy"
    )]
    Forged {
        object: String,
        /// The first byte of the first cell that is wrong.
        offset: u64,
    },
    /// No shard of the object is there.
    #[error("no shards of {} in {places}", object.as_deref().unwrap_or("any object"))]
    NotFound { object: Option<String>, places: String },
    /// Several objects are there and none was named.
    #[error(
        "several objects here, name one of them by --object, or all by --all: {}",
        some_of(objects)
    )]
    SeveralObjects { objects: Vec<String> },
    /// Too few shards of the object are usable.
    #[error("object {object:?} is not recoverable: {detail}")]
    NotRecoverable {
        object: String,
        /// Shards there are, shards it needs.
        detail: String,
    },
    /// The damaged or missing chunks of one stripe do not follow from the others.
    #[error(
        "object {object:?} is not recoverable: stripe {stripe} misses chunks {lost:?}, \
         more than its {m} parity chunks make up for"
    )]
    StripeLost {
        object: String,
        stripe: u64,
        /// Indices of its bad chunks.
        lost: Vec<usize>,
        /// Parity chunks of a stripe.
        m: usize,
    },
    /// Doing it could lose data.
    #[error("refused: {what}")]
    Refused { what: String },
    /// Too few nodes have room.
    #[error("refused: {what}")]
    Full { what: String },
    /// Something of that name is there, and the caller did not ask to replace it.
    #[error("refused: {what}")]
    Exists {
        /// The thing in the way. The flag to replace it is left to the program and to Python.
        what: String,
    },
    /// A place stayed locked for longer than it was to be waited for. Nothing was changed.
    #[error(
        "{place} has been locked for {seconds} s by {}; nothing was changed. When that one has \
         ended, run this again (--lock-wait says how long it is waited for)",
        holder.as_deref().unwrap_or("another kiln")
    )]
    Locked {
        place: String,
        /// Length of the wait in seconds.
        seconds: u64,
        /// Holder of the lock, as far as it is known.
        holder: Option<String>,
    },
    /// The input was changed while it was read.
    #[error("the input of {object:?} changed while it was read; nothing was written, run it again")]
    Changed { object: String },
    /// Another object is there than the caller knows of.
    #[error("object {name:?} was changed by somebody else")]
    Conflict { name: String },
    /// The pool has no object of that name.
    #[error("no object {name:?} in the pool")]
    NoObject { name: String },
    /// So many nodes are unavailable that the newest version may be on these alone.
    #[error(
        "object {name:?}: {} failure domains are unavailable ({}), so the newest version is \
        uncertain; bring {} of them back",
        away.len(), away.join(", "), away.len() + 1 - copies
    )]
    Uncertain {
        name: String,
        /// Domains with nodes that do not answer or cannot be read.
        away: Vec<String>,
        copies: usize,
    },
    /// No node of the pool can be used: nothing is known of what it holds.
    #[error("no node of pool {pool:?} can be used: {why}")]
    NoNodes {
        pool: String,
        /// Why the first of them cannot.
        why: String,
    },
    /// A node that is needed cannot be used.
    #[error("node {node} cannot be used: {why}")]
    Unavailable { node: String, why: String },
    /// The pool's map is newer than the one that the operation began with.
    #[error(
        "the pool has changed: its map is of epoch {newest} on node {node}, this command has epoch \
         {have}; run it again"
    )]
    MapChanged { have: u64, newest: u64, node: String },
    /// A change of the pool's map did not reach enough nodes.
    #[error(
        "the change of the pool's map reached {have} of {of} nodes, and needs more than half of \
         them{}; {todo}",
        if away.is_empty() { String::new() } else { format!(" ({} unavailable)", away.join(", ")) }
    )]
    MapNotAgreed { have: usize, of: usize, away: Vec<String>, todo: String },
    /// A new version is in place, but with fewer copies of its manifest than the policy asks for.
    #[error(
        "object {name:?}: the new version is in place, but only {have} of {want} copies of its \
         manifest could be written ({why}); run kiln repair, or put it again"
    )]
    UnderReplicated {
        name: String,
        have: usize,
        /// Copies that the policy asks for.
        want: usize,
        why: String,
    },
    /// A rebuilt shard does not match its record.
    #[error("object {object:?}: rebuilt shard {index} does not match its recorded digest; {todo}")]
    Mismatch {
        object: String,
        /// Index of the shard.
        index: usize,
        /// Fate of the result, and the next step.
        todo: String,
    },
    /// Reading the input failed.
    #[error("cannot read the input: {source}")]
    Input {
        /// The system's answer.
        source: io::Error,
    },
    /// Writing the output failed.
    #[error("cannot write the output: {source}")]
    Output {
        /// The system's answer.
        source: io::Error,
    },
    /// A store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The code refused.
    #[error(transparent)]
    Code(#[from] CodeError),
    /// The local index failed; it can be deleted at any time.
    #[error("the local index failed: {what}; if not for want of room or rights, delete its file")]
    Index {
        /// Message of the database.
        what: String,
    },
    /// A thread of a pipeline panicked: a bug in kiln.
    #[error("internal error: {what} (a bug in kiln, please report it)")]
    Internal {
        /// Details of it.
        what: String,
    },
}

/// A list of names, its end as a number where it is long.
fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 10;
    let shown = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

impl PoolError {
    /// The failure of a rebuilt shard.
    pub fn rebuilt(error: StoreError, object: &str, index: usize) -> PoolError {
        let todo = match &error {
            StoreError::Mismatch { written: false, .. } => {
                "nothing was replaced; keep all shards and report this".to_owned()
            }
            StoreError::Mismatch { place, .. } => {
                format!("{place} does not return what was written; nothing was replaced")
            }
            _ => return error.into(),
        };
        PoolError::Mismatch { object: object.to_owned(), index, todo }
    }

    /// Returns what the error means to the caller.
    pub fn kind(&self) -> ErrorKind {
        match self {
            PoolError::Usage { .. }
            | PoolError::NoKey { .. }
            | PoolError::NoDataKey { .. }
            | PoolError::SeveralObjects { .. }
            | PoolError::NoObject { .. } => ErrorKind::Usage,
            PoolError::NotFound { .. }
            | PoolError::NotRecoverable { .. }
            | PoolError::MapNotAgreed { .. }
            | PoolError::Uncertain { .. }
            | PoolError::Forged { .. }
            | PoolError::StripeLost { .. } => ErrorKind::NotRecoverable,
            PoolError::Refused { .. }
            | PoolError::Full { .. }
            | PoolError::Exists { .. }
            | PoolError::Locked { .. }
            | PoolError::Conflict { .. }
            | PoolError::Changed { .. }
            | PoolError::MapChanged { .. }
            | PoolError::Mismatch { .. } => ErrorKind::Refused,
            PoolError::Code(CodeError::NotRecoverable { .. }) => ErrorKind::NotRecoverable,
            PoolError::Code(_) => ErrorKind::Usage,
            PoolError::Store(error) if error.is_usage() => ErrorKind::Usage,
            PoolError::Input { .. }
            | PoolError::Output { .. }
            | PoolError::Store(_)
            | PoolError::UnderReplicated { .. }
            | PoolError::NoNodes { .. }
            | PoolError::Unavailable { .. }
            | PoolError::Index { .. }
            | PoolError::Internal { .. } => ErrorKind::Io,
        }
    }

    /// True when the same call may succeed later without any other change.
    pub fn is_retryable(&self) -> bool {
        match self {
            PoolError::Changed { .. } | PoolError::Locked { .. } | PoolError::MapChanged { .. } => {
                true
            }
            PoolError::Store(error) => error.is_retryable(),
            PoolError::Input { source } | PoolError::Output { source } => {
                matches!(source.kind(), io::ErrorKind::Interrupted | io::ErrorKind::TimedOut)
            }
            _ => false,
        }
    }
}
