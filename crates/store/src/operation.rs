//! Operations on stored files: for messages, for the wire, and for faults on purpose.

use std::fmt;

/// An operation of a backend, as [`crate::StoreError::Io`] tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// [`crate::Backend::list`]
    List,
    /// [`crate::Backend::open`]
    Open,
    /// [`crate::ReadAt::read_at`]
    Read,
    /// [`crate::Backend::append`] and [`crate::Objects::create`]
    Create,
    /// Cutting a longer file in [`crate::Backend::append`]
    Cut,
    /// [`crate::Append::append`] and [`crate::Upload::write`]
    Write,
    /// [`crate::Append::sync`] and [`crate::Upload::sync`]
    Sync,
    /// [`crate::Upload::complete`], where it is no rename
    Complete,
    /// [`crate::Backend::rename`]
    Rename,
    /// [`crate::Backend::remove`]
    Remove,
    /// [`crate::Locks::lock`]
    Lock,
    /// Opening the place itself
    OpenPlace,
    /// Making the place itself
    CreatePlace,
    /// Getting to a place on another machine
    Reach,
    /// Anything else
    Use,
}

impl Operation {
    /// All of them.
    pub const ALL: [Operation; 15] = [
        Self::List,
        Self::Open,
        Self::Read,
        Self::Create,
        Self::Cut,
        Self::Write,
        Self::Sync,
        Self::Complete,
        Self::Rename,
        Self::Remove,
        Self::Lock,
        Self::OpenPlace,
        Self::CreatePlace,
        Self::Reach,
        Self::Use,
    ];

    /// The word for it in messages. Agents send these words, so they stay as they are.
    pub fn verb(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Open => "open",
            Self::Read => "read",
            Self::Create => "create",
            Self::Cut => "cut",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Complete => "complete",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::Lock => "lock",
            Self::OpenPlace => "open folder",
            Self::CreatePlace => "create folder",
            Self::Reach => "reach",
            Self::Use => "use",
        }
    }

    /// The operation with this word.
    pub fn of_verb(verb: &str) -> Option<Operation> {
        Self::ALL.into_iter().find(|operation| operation.verb() == verb)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.verb())
    }
}
