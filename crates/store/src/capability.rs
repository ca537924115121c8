//! Capabilities of places.

use std::fmt;

/// One thing that some places can do and others cannot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Bytes can be added to a file, after an interruption too: [`crate::Backend::append`].
    Append,
    /// A file takes another one's name atomically: [`crate::Backend::rename`].
    Rename,
    /// A file is copied within the place: [`crate::Objects::copy`].
    Copy,
    /// A new file appears only where there is none of its name: [`crate::Existing::Keep`].
    CreateIfAbsent,
    /// One writer at a time: [`crate::Locks::lock`].
    Lock,
    /// A part of a file costs no more than the part: [`crate::ReadAt::read_at`].
    RangedRead,
    /// The names of all files: [`crate::Backend::list`].
    List,
    /// A file is written in place by one writer who can be deposed: [`crate::Logs::create_log`].
    Log,
    /// A file that is open for reading keeps its bytes when it is replaced or removed. Elsewhere
    /// reading on is an error, never other bytes.
    KeepOpen,
    /// Synced and completed files are there after this process has ended, and after a power cut.
    Durable,
}

impl Capability {
    /// All of them.
    pub const ALL: [Capability; 10] = [
        Self::Append,
        Self::Rename,
        Self::Copy,
        Self::CreateIfAbsent,
        Self::Lock,
        Self::RangedRead,
        Self::List,
        Self::Log,
        Self::KeepOpen,
        Self::Durable,
    ];
}

/// Completes "a place cannot ...".
impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Append => "append to files",
            Self::Rename => "rename files",
            Self::Copy => "copy files",
            Self::CreateIfAbsent => "create files only where there are none",
            Self::Lock => "lock out other writers",
            Self::RangedRead => "read parts of files",
            Self::List => "list its files",
            Self::Log => "keep a log that is written in place",
            Self::KeepOpen => "keep the bytes of an open file that is replaced",
            Self::Durable => "keep files when this program ends",
        })
    }
}

/// A set of [`Capability`]s: those of a place, or those that an operation needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities(u16);

impl Capabilities {
    /// The needs of reading shards and objects.
    pub const READ: Capabilities = Capabilities::of(&[Capability::RangedRead, Capability::List]);

    /// The needs of writing shards and objects: shards are appended to and resumed, they appear by
    /// a rename, and writers take turns.
    pub const FILES: Capabilities =
        Capabilities::READ.and(&[Capability::Append, Capability::Rename, Capability::Lock]);

    /// The needs of writing shards and objects to a place of objects: they appear whole under their
    /// names, conditionally, are copied, and writers take turns.
    pub const OBJECTS: Capabilities =
        Capabilities::READ.and(&[Capability::Copy, Capability::CreateIfAbsent, Capability::Lock]);

    /// These.
    pub const fn of(list: &[Capability]) -> Capabilities {
        Capabilities(0).and(list)
    }

    /// This set and these.
    #[must_use]
    pub const fn and(self, list: &[Capability]) -> Capabilities {
        let (mut bits, mut at) = (self.0, 0);
        while at < list.len() {
            bits |= 1 << list[at] as u16;
            at += 1;
        }
        Capabilities(bits)
    }

    /// Returns whether this one is in it.
    pub const fn has(self, capability: Capability) -> bool {
        self.0 & (1 << capability as u16) != 0
    }

    /// The first of these needs that a place with the capabilities `can` does not meet.
    pub fn lacking(self, can: Capabilities) -> Option<Capability> {
        Capability::ALL.into_iter().find(|&one| self.has(one) && !can.has(one))
    }
}
