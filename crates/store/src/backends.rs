//! Places of shards: the [`Backend`] contract and the table of its implementations.
//!
//! The contract is small: append-only writing, random reading, atomic renaming. Each place says
//! what it can do ([`Capabilities`]), and has the operations beyond the contract that it
//! implements itself as [`Extensions`]. Every row of [`table::BACKENDS`] passes the same battery
//! of tests.

pub(crate) mod file_system;
mod holder;
pub mod lock;
pub mod log;
pub mod pack;
pub mod space;
pub mod tag;
pub mod open_file;
pub mod upload;
pub mod extensions;
mod calls;
mod needs;
pub mod direct;
pub mod place;
pub mod memory;
mod file_log;
pub mod file;
pub mod table;
pub mod paced;
pub mod staged;

use std::fmt::Debug;

use self::open_file::{Append, ReadAt};
use self::{extensions::Extensions, upload::NewFile};
use crate::capability::{Capabilities, Capability};
use crate::{Result, StoreError};

/// Longest file name in bytes that backends accept (the limit of common file systems).
pub const MAX_NAME: usize = 255;

/// A flat set of named files: a folder, a bucket, a test's memory.
///
/// These few methods every place has. What only some places can do, or do better than file by
/// file, is in [`Backend::extensions`]; `dyn Backend` has all of it as methods, which fall back
/// on the few here, or fail with [`StoreError::Incapable`].
///
/// Names are plain (see [`check_name`]); every method refuses others with
/// [`StoreError::BadName`].
///
/// ```
/// use kiln_store::{Backend, MemoryBackend};
/// let disk = MemoryBackend::new();
/// let mut file = disk.append("a.part", 0)?;
/// file.append(b"bytes")?;
/// file.sync()?;
/// disk.rename("a.part", "a")?;
/// assert_eq!(disk.list()?, ["a"]);
/// # Ok::<(), kiln_store::StoreError>(())
/// ```
pub trait Backend: Send + Sync + Debug {
    /// The place for messages, for example the folder's path.
    fn place(&self) -> String;

    /// The capabilities of the place, to be checked before a byte moves
    /// ([`Capabilities::require`]); methods that a place does not have answer
    /// [`StoreError::Incapable`].
    fn capabilities(&self) -> Capabilities;

    /// Names of the regular files here, sorted; sub-folders are not entered. A backend has its own,
    /// or one of [`Backend::each_name`].
    fn list(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        self.each_name(&mut |name| {
            names.push(name.to_owned());
            Ok(())
        })?;
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// Shows every name that [`Backend::list`] would give, in no order, and stops at the first
    /// error of `see`. For places with millions of files: a backend that can do it without
    /// holding all names in memory has its own.
    fn each_name(&self, see: &mut dyn FnMut(&str) -> Result<()>) -> Result<()> {
        self.list()?.iter().try_for_each(|name| see(name))
    }

    /// Opens a file for reading; one that is absent gives an error with `is_not_found()`.
    fn open(&self, name: &str) -> Result<Box<dyn ReadAt>>;

    /// Opens a file for appending at `at` bytes: creates it if absent, cuts it if longer, and
    /// refuses it ([`StoreError::Truncated`]) if shorter. For files that are continued after
    /// an interruption; others are better made by [`extensions::Objects::create`]. Needs
    /// [`Capability::Append`].
    fn append(&self, name: &str, at: u64) -> Result<Box<dyn Append>> {
        let _ = at;
        Err(StoreError::incapable(self.place(), Capability::Append, format!("writing {name:?}")))
    }

    /// Renames a file, replacing the target, atomically; durable when it returns. Needs
    /// [`Capability::Rename`].
    ///
    /// The file's bytes are durable only if they were [`Append::sync`]ed before.
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let _ = from;
        Err(StoreError::incapable(
            self.place(),
            Capability::Rename,
            format!("naming a file {to:?}"),
        ))
    }

    /// Removes a file; durable when it returns. Removing an absent file is success.
    fn remove(&self, name: &str) -> Result<()>;

    /// Returns the operations that this place implements beyond these. A wrapper returns its own
    /// where it changes something, and those of the backend inside for the rest.
    fn extensions(&self) -> Extensions<'_> {
        Extensions::default()
    }
}

/// Forwards methods of [`Backend`] to the backend in a field: the part of a wrapper that changes
/// nothing.
#[macro_export]
macro_rules! forward_backend {
    (@place $inner:ident) => {
        fn place(&self) -> String {
            self.$inner.place()
        }
    };
    (@capabilities $inner:ident) => {
        fn capabilities(&self) -> $crate::Capabilities {
            self.$inner.capabilities()
        }
    };
    (@list $inner:ident) => {
        fn list(&self) -> $crate::Result<Vec<String>> {
            self.$inner.list()
        }
    };
    (@each_name $inner:ident) => {
        fn each_name(&self, see: &mut dyn FnMut(&str) -> $crate::Result<()>) -> $crate::Result<()> {
            self.$inner.each_name(see)
        }
    };
    (@open $inner:ident) => {
        fn open(&self, name: &str) -> $crate::Result<Box<dyn $crate::ReadAt>> {
            self.$inner.open(name)
        }
    };
    (@append $inner:ident) => {
        fn append(&self, name: &str, at: u64) -> $crate::Result<Box<dyn $crate::Append>> {
            self.$inner.append(name, at)
        }
    };
    (@rename $inner:ident) => {
        fn rename(&self, from: &str, to: &str) -> $crate::Result<()> {
            self.$inner.rename(from, to)
        }
    };
    (@remove $inner:ident) => {
        fn remove(&self, name: &str) -> $crate::Result<()> {
            self.$inner.remove(name)
        }
    };
    (@extensions $inner:ident) => {
        fn extensions(&self) -> $crate::Extensions<'_> {
            self.$inner.extensions()
        }
    };
    ($inner:ident: $($method:ident)*) => {
        $($crate::forward_backend!(@$method $inner);)*
    };
}

/// Gives a file another name, replacing what has it: by [`Backend::rename`], or where a place
/// has none by a copy and a removal. A crash between these leaves both names, so this is for files
/// of which it does no harm that they are there twice.
/// Errors: [`StoreError::Incapable`]; as [`Backend::rename`], [`extensions::Objects::copy`],
/// [`Backend::remove`].
pub fn move_file(store: &dyn Backend, from: &str, to: &str) -> Result<()> {
    let can = store.capabilities();
    if from == to || can.has(Capability::Rename) || !can.has(Capability::Copy) {
        return store.rename(from, to);
    }
    store.copy(from, to)?;
    store.remove(from)
}

/// Writes a small file whole, see [`extensions::Objects::create`] and [`NewFile::named`].
/// Errors: as [`extensions::Objects::create`], [`upload::Upload::write`] and
/// [`upload::Upload::complete`].
pub fn write_whole(store: &dyn Backend, name: &str, bytes: &[u8]) -> Result<()> {
    let mut file = store.create(&NewFile::named(name))?;
    file.write(bytes)?;
    file.complete()
}

/// Refuses names that are not plain: empty, longer than 255 bytes, `.`, `..`, or with a slash or
/// a zero byte in them. A shard must never be read or written outside its place.
pub fn check_name(name: &str) -> Result<()> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > MAX_NAME {
        "it is longer than 255 bytes"
    } else if name == "." || name == ".." {
        "it names a folder"
    } else if name.contains('/') {
        "it contains a slash"
    } else if name.contains('\0') {
        "it contains a zero byte"
    } else {
        return Ok(());
    };
    Err(StoreError::BadName { name: name.to_string(), why })
}

/// Refuses a read past the end of a file of `have` bytes.
pub(crate) fn check_range(
    place: &str,
    name: &str,
    offset: u64,
    len: usize,
    have: u64,
) -> Result<()> {
    let need = offset.saturating_add(len as u64);
    if need <= have {
        return Ok(());
    }
    Err(StoreError::Truncated { place: place.to_string(), name: name.to_string(), need, have })
}
