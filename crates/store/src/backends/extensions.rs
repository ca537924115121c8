//! Operations that only some places implement, beyond [`Backend`].
//!
//! `dyn Backend` has each of them as a method, too (see `calls.rs`): it calls the extension, or
//! where the place has none does the same file by file, or fails with
//! [`crate::StoreError::Incapable`].

use std::{path::Path, time::Duration};

use super::lock::{LockAnswer, LockAttempt, WriteLock, lock_pause};
use super::upload::{NewFile, Upload};
use super::{Backend, log::LogFile, open_file::Append, space::Space};
use crate::Result;

/// The extensions of a place; see [`Backend::extensions`].
#[derive(Clone, Copy, Default)]
pub struct Extensions<'a> {
    /// Whole files: written at once, copied.
    pub objects: Option<&'a dyn Objects>,
    /// Files that must not be there yet.
    pub create_new: Option<&'a dyn CreateNew>,
    /// Many files with one sync.
    pub batch: Option<&'a dyn BatchFiles>,
    /// The lock of the place.
    pub locks: Option<&'a dyn Locks>,
    /// Logs that are written in place.
    pub logs: Option<&'a dyn Logs>,
    /// Files that a server may move.
    pub locality: Option<&'a dyn Locality>,
    /// Times, space, counters.
    pub info: Option<&'a dyn PlaceInfo>,
}

/// Whole files, the way object stores write and copy them.
pub trait Objects: Backend {
    /// Begins a file that appears under its name whole and durable, or not at all: the form of
    /// writing that every place has, object stores included. Without this extension it is a part
    /// that is appended to, synced and renamed.
    /// Errors: [`StoreError::Incapable`](crate::StoreError::Incapable) before anything is written,
    /// and those of [`Backend::append`].
    fn create<'a>(&'a self, file: &NewFile<'_>) -> Result<Box<dyn Upload + 'a>>;

    /// Begins a file that is written from its start to its end, and never continued:
    /// [`Append::complete`] ends it. Without this extension it is [`Backend::append`] at 0. A
    /// place without [`Append`](super::Capability::Append) shows the file when it is completed,
    /// whole; if it is dropped before, the file of that name stays as it is.
    fn write_once(&self, name: &str) -> Result<Box<dyn Append>>;

    /// Makes a copy of a file under another name, replacing what has it, atomically; durable when
    /// it returns. The bytes do not leave the place. Needs
    /// [`Copy`](super::Capability::Copy).
    /// Errors: [`StoreError::Incapable`](crate::StoreError::Incapable), the place.
    fn copy(&self, from: &str, to: &str) -> Result<()>;
}

/// Files that get a name only where there is none of it, by renaming.
pub trait CreateNew {
    /// As [`Backend::rename`], but fails where `to` is there already, with an error that is
    /// [`is_exists`](crate::StoreError::is_exists). Of several at once one succeeds. For
    /// [`Objects::create`] in places that have
    /// [`CreateIfAbsent`](super::Capability::CreateIfAbsent).
    /// Errors: as [`Backend::rename`]; there is a file of that name.
    fn rename_new(&self, from: &str, to: &str) -> Result<()>;
}

/// Operations on many files at once, for places that can make them durable with one sync, or ask
/// for them together. Those that a place does not implement are done file by file.
pub trait BatchFiles: Backend {
    /// Writes small files whole, over the files of these names, with an answer for each: the bytes
    /// of those that were written are durable when it returns. Their names are not, before
    /// [`BatchFiles::rename_all`] gives them others, and until then others who have the place open
    /// need not see them. Needs [`Append`](super::Capability::Append).
    fn write_all(&self, files: &[(&str, &[u8])]) -> Vec<Result<()>>;

    /// As [`Backend::rename`] for many files, one after the other, with an answer for each; those
    /// that were renamed are durable when it returns.
    fn rename_all(&self, names: &[(&str, &str)]) -> Vec<Result<()>> {
        rename_each(self, names)
    }

    /// As [`Backend::remove`] for many files, with an answer for each.
    fn remove_all(&self, names: &[&str]) -> Vec<Result<()>> {
        remove_each(self, names)
    }

    /// Gives space back that files which are gone still take, where they shared it with others that
    /// are not; the bytes given back, about. The caller keeps other writers out.
    fn compact(&self) -> Result<u64> {
        Ok(0)
    }

    /// Marks the files of a list that are not here, by one listing of the whole place; `None` where
    /// asking for each is no dearer, or where the place cannot tell. Nobody may change names
    /// meanwhile.
    fn missing(&self, names: &[String]) -> Option<Vec<bool>> {
        let _ = names;
        None
    }
}

/// The lock of a place. Advisory: only those who ask are kept out.
pub trait Locks {
    /// Keeps other writers out of the place until the lock is dropped (or its process dies).
    /// If another one holds it, waits for it, or gives `None` at once.
    /// Errors: [`StoreError::Incapable`](crate::StoreError::Incapable) where the place has no
    /// locks: no lock is granted that locks nothing.
    fn lock(&self, wait: bool) -> Result<Option<WriteLock>>;

    /// Asks for the lock as [`Locks::lock`] without waiting does, where the answer takes a while:
    /// so many places can be asked before the first of them has answered. `None`: it takes none.
    fn begin_lock(&self) -> Option<LockAnswer<'_>> {
        None
    }

    /// As [`Locks::lock`], waiting so long at most. By itself this method tries again and again;
    /// what it waits is counted by its pauses.
    fn lock_within(&self, time: Duration) -> Result<LockAttempt> {
        let mut waited = Duration::ZERO;
        loop {
            if let Some(lock) = self.lock(false)? {
                return Ok(LockAttempt::Granted { lock, waited });
            }
            if waited >= time {
                return Ok(LockAttempt::Busy { holder: self.lock_holder() });
            }
            let pause = lock_pause(waited).min(time - waited);
            std::thread::sleep(pause);
            waited += pause;
        }
    }

    /// The holder of the lock, for messages, where the place can tell.
    fn lock_holder(&self) -> Option<String> {
        None
    }
}

/// Logs: files that their one writer writes in place; see [`LogFile`].
pub trait Logs {
    /// Makes a log: a new file of `size` zero bytes that its one writer, and nobody else, writes in
    /// place. Its name is durable when this returns. Where there is a file of that name, the error
    /// is [`is_exists`](crate::StoreError::is_exists). Needs [`Log`](super::Capability::Log).
    /// Errors: there is a file of that name; the place.
    fn create_log(&self, name: &str, size: u64) -> Result<Box<dyn LogFile>>;

    /// Takes a log from its writer: it is called `to` from now on, durably, and no
    /// [`LogFile::sync`] of its writer succeeds any more. So a reader sees all that was ever
    /// synced. A log that is called `to` already stays as it is. Needs
    /// [`Log`](super::Capability::Log).
    /// Errors: [`is_in_use`](crate::StoreError::is_in_use): its writer lives, and `force` is not
    /// set. [`is_not_found`](crate::StoreError::is_not_found): there is none of either name.
    fn close_log(&self, name: &str, to: &str, force: bool) -> Result<()>;
}

/// Files of a place whose server may move them to another machine without being asked.
pub trait Locality {
    /// Tells where a file's bytes are.
    fn locality(&self, name: &str) -> Result<Located>;

    /// Copies a file to a new name, its bytes where this place's belong, and reads the copy back.
    /// With a rename, under the place's lock, it takes the place of the one that was moved away.
    /// Errors: [`StoreError::Incapable`](crate::StoreError::Incapable): no server of this place
    /// moves files. The bytes cannot be read, or not be written there. The file of the new name
    /// then is of no use.
    fn copy_local(&self, from: &str, to: &str) -> Result<()>;
}

/// The place of a file's bytes, see [`Locality`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Located {
    /// No server of this place moves files.
    Unmanaged,
    /// On the machine where they belong.
    Here,
    /// There, in the server's words.
    Away(String),
}

/// Times, space, counters and rights of a place; each place tells what it can.
pub trait PlaceInfo {
    /// Time at which a file was written, in ms since 1970 by the place's clock; `None`: the place
    /// cannot tell. For decisions of hours and days.
    /// Errors: the file is absent, or the place cannot be asked.
    fn modified(&self, name: &str) -> Result<Option<u64>> {
        let _ = name;
        Ok(None)
    }

    /// Size and free room of the place; `None`: it cannot tell.
    fn space(&self) -> Result<Option<Space>> {
        Ok(None)
    }

    /// Returns the latest version of pools' descriptions that the place's server reads; `None`: no
    /// server of kiln's is there.
    /// Errors: the place cannot be asked.
    fn reads(&self) -> Result<Option<u32>> {
        Ok(None)
    }

    /// Tells the place that files of a pool's object of this name are about to be used: an agent
    /// may have to be shown the name.
    /// Errors: the client has no right to names like that.
    fn use_object(&self, name: &str) -> Result<()> {
        let _ = name;
        Ok(())
    }

    /// The folder of this machine that holds the files, for places that are one. It need not be
    /// there yet.
    fn folder(&self) -> Option<&Path> {
        None
    }

    /// Reads asked of the place so far, and their bytes, where it counts them.
    fn io_counters(&self) -> (u64, u64) {
        (0, 0)
    }
}

pub(super) fn rename_each<B: Backend + ?Sized>(
    store: &B,
    names: &[(&str, &str)],
) -> Vec<Result<()>> {
    names.iter().map(|(from, to)| store.rename(from, to)).collect()
}

pub(super) fn remove_each<B: Backend + ?Sized>(store: &B, names: &[&str]) -> Vec<Result<()>> {
    names.iter().map(|name| store.remove(name)).collect()
}
