//! The crate's one error type.

use kiln_store::StoreError;
use kiln_stripe::PoolError;

/// An error of a volume, with its place and a remedy.
#[allow(missing_docs)] // of fields that their names describe
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// The pool could not do what was asked of it.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A node could not.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The caller asked for something that cannot be.
    #[error("{what}")]
    Usage { what: String },
    /// The pool has no volume of that name.
    #[error("no volume {name:?} in the pool")]
    NoVolume { name: String },
    /// There is a volume of that name already.
    #[error("volume {name:?} exists already; choose another name, or remove it")]
    Exists { name: String },
    /// Its writer lives.
    #[error(
        "volume {name:?} is in use by {writer}; end that one, or take the volume from it (its last \
         acknowledged write stays, it can write nothing more)"
    )]
    InUse { name: String, writer: String },
    /// Another writer took the volume over.
    #[error("volume {name:?} was taken over by another writer; nothing more can be written here")]
    Deposed { name: String },
    /// None of the nodes with its log can be used: what was acknowledged last is only there.
    #[error(
        "volume {name:?}: none of the nodes with its log ({}) can be used; bring one of them back",
        nodes.join(", ")
    )]
    NoLog { name: String, nodes: Vec<String> },
    /// Fewer failure domains are at hand than the log needs.
    #[error(
        "volume {name:?}: its log needs nodes in {need} failure domains that can be used, and \
         there are {have}; nothing more is acknowledged until there are"
    )]
    TooFewNodes {
        name: String,
        /// Copies of the log.
        need: usize,
        /// Nodes that it could be on.
        have: usize,
    },
    /// Buffered writes cannot be sealed into segments now, so there is no room for more.
    #[error(
        "volume {name:?}: what was written cannot be put into the pool, so nothing more can be \
         written: {why}"
    )]
    Stalled {
        name: String,
        /// The reason of the pool.
        why: String,
        /// The pool is full.
        full: bool,
    },
    /// Something of it that was acknowledged is gone or wrong.
    #[error("volume {name:?} is damaged: {what}")]
    Damaged {
        name: String,
        /// The mistake.
        what: String,
    },
    /// Its removal was begun.
    #[error("volume {name:?} is being removed; run kiln volume rm {name} to end that")]
    Removing { name: String },
    /// It is open for reading only.
    #[error("volume {name:?} is open for reading only")]
    ReadOnly { name: String },
}

impl VolumeError {
    /// Returns whether there is no room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            VolumeError::Pool(PoolError::Store(error)) | VolumeError::Store(error) => {
                error.is_full()
            }
            VolumeError::Pool(PoolError::Full { .. }) => true,
            VolumeError::Stalled { full, .. } => *full,
            _ => false,
        }
    }
}

/// Result of everything in this crate.
pub type Result<T, E = VolumeError> = std::result::Result<T, E>;
