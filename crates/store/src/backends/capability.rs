//! What a place can do, and the refusal of what it cannot.

use std::fmt;

use super::Backend;
use crate::{Result, StoreError};

/// One thing that some places can do and others cannot.
///
/// ```
/// use kiln_store::{Backend, Capability, MemoryBackend};
/// let can = MemoryBackend::new().capabilities();
/// assert!(can.has(Capability::Append) && !can.has(Capability::Durable));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Bytes can be added to a file, after an interruption too: [`Backend::append`].
    Append,
    /// A file takes another one's name atomically: [`Backend::rename`].
    Rename,
    /// A file is copied within the place: [`Backend::copy`].
    Copy,
    /// A new file appears only where there is none of its name: [`crate::Existing::Keep`].
    CreateIfAbsent,
    /// One writer at a time: [`Backend::lock`].
    Lock,
    /// A part of a file costs no more than the part: [`super::ReadAt::read_at`].
    RangedRead,
    /// The names of all files: [`Backend::list`].
    List,
    /// A file is written in place by one writer who can be deposed: [`Backend::create_log`].
    Log,
    /// A file that is open for reading keeps its bytes when it is replaced or removed. Elsewhere
    /// reading on is an error, never other bytes.
    KeepOpen,
    /// What was synced or completed is there after this process has ended, and after a power cut.
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

/// What a place "cannot", where it lacks this.
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

/// A set of [`Capability`]s: what a place can do, or what somebody needs.
///
/// ```
/// use kiln_store::{Capabilities, Capability};
/// let can = Capabilities::of(&[Capability::List, Capability::RangedRead]);
/// assert_eq!(Capabilities::READ.lacking(can), None);
/// assert_eq!(Capabilities::FILES.lacking(can), Some(Capability::Append));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities(u16);

impl Capabilities {
    /// What reading shards and objects needs.
    pub const READ: Capabilities = Capabilities::of(&[Capability::RangedRead, Capability::List]);

    /// What writing shards and objects needs: shards are appended to and resumed, they appear by
    /// a rename, and writers take turns.
    pub const FILES: Capabilities =
        Capabilities::READ.and(&[Capability::Append, Capability::Rename, Capability::Lock]);

    /// What writing shards and objects needs of a place of objects: they appear whole under their
    /// names, conditionally, are copied, and writers take turns.
    pub const OBJECTS: Capabilities =
        Capabilities::READ.and(&[Capability::Copy, Capability::CreateIfAbsent, Capability::Lock]);

    /// Refuses a place that shards cannot be written to: it must meet [`Capabilities::FILES`] or
    /// [`Capabilities::OBJECTS`].
    ///
    /// ```
    /// use kiln_store::{Capabilities, MemoryBackend};
    /// Capabilities::require_writable(&MemoryBackend::new(), "encode")?;
    /// # Ok::<(), kiln_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Incapable`].
    pub fn require_writable(place: &dyn Backend, what: &str) -> Result<()> {
        match Capabilities::OBJECTS.lacking(place.capabilities()) {
            None => Ok(()),
            Some(_) => Capabilities::FILES.require(place, what),
        }
    }

    /// These.
    #[must_use]
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

    /// Whether this one is in it.
    #[must_use]
    pub const fn has(self, capability: Capability) -> bool {
        self.0 & (1 << capability as u16) != 0
    }

    /// The first of these needs that a place with the capabilities `can` does not meet.
    #[must_use]
    pub fn lacking(self, can: Capabilities) -> Option<Capability> {
        Capability::ALL.into_iter().find(|&one| self.has(one) && !can.has(one))
    }

    /// Refuses a place that does not meet these needs; `what` needs them. To be asked before
    /// anything is written.
    ///
    /// ```
    /// use kiln_store::{Capabilities, Capability, MemoryBackend};
    /// let needs = Capabilities::of(&[Capability::Durable]);
    /// let error = needs.require(&MemoryBackend::new(), "encode").unwrap_err();
    /// assert!(error.to_string().contains("encode needs that"));
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Incapable`].
    pub fn require(self, place: &dyn Backend, what: &str) -> Result<()> {
        match self.lacking(place.capabilities()) {
            None => Ok(()),
            Some(lacks) => {
                let (place, what) = (place.place(), what.to_owned());
                Err(StoreError::Incapable { place, lacks, what })
            }
        }
    }
}
