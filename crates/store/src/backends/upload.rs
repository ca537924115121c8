//! Files that appear whole or not at all.

use super::{Backend, check_name, open_file::Append, tag::Tag};
use crate::capability::{Capabilities, Capability};
use crate::{Result, StoreError};

/// Treatment of a file that has the name already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// The new file takes its place.
    Replace,
    /// It stays, and the new one fails with an error that is [`StoreError::is_exists`]. Of several
    /// that are completed at once one appears. Needs [`Capability::CreateIfAbsent`].
    Keep,
    /// The new file takes its place if it is the one that has this tag, or fails with an error that
    /// is [`StoreError::is_exists`]. Needs a place that gives tags ([`crate::ReadAt::tag`]).
    Same(Tag),
}

/// A file that is to be, see [`crate::Objects::create`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFile<'a> {
    /// Its name.
    pub name: &'a str,
    /// The name of what is written so far, in places that need one; a crash may leave it. Two
    /// writers at once must not have the same.
    pub part: String,
    /// Treatment of a file of that name.
    pub existing: Existing,
}

impl<'a> NewFile<'a> {
    /// Replaces what has the name; for who is the only writer of this file.
    pub fn named(name: &'a str) -> NewFile<'a> {
        let dot = if name.starts_with('.') { "" } else { "." };
        NewFile { name, part: format!("{dot}{name}.part"), existing: Existing::Replace }
    }
}

/// A file that is being written and has no name yet. Dropped before [`Upload::complete`] it leaves
/// nothing behind, but for what a crash or a broken connection keeps from being removed.
pub trait Upload: Send {
    /// Adds bytes at the end.
    /// Errors: as [`Append::append`]; what was written is then of no more use.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;

    /// Makes all bytes so far durable, so that only the name is left to do; nothing may be written
    /// afterwards. Completing does it too: this is for who completes several files one after the
    /// other, and wants to hear of a full disk before the first.
    fn sync(&mut self) -> Result<()>;

    /// Gives the file its name: from now on it is there, whole and durable.
    /// Errors: it is not there, and what was there before still is; except where a connection broke
    /// in between, when either may be so.
    fn complete(self: Box<Self>) -> Result<()>;
}

/// The [`Upload`] of places with append and rename: a part, synced, then renamed.
struct Renamed<'a> {
    store: &'a dyn Backend,
    name: String,
    part: String,
    existing: Existing,
    state: State,
}

enum State {
    Open(Box<dyn Append>),
    Synced,
    /// After an error nothing may be tried again: a second sync could succeed with bytes missing.
    Failed,
    Done,
}

/// Begins a file in a place that appends and renames, for places and wrappers without a
/// [`crate::Objects::create`] of their own.
pub fn by_rename<'a>(store: &'a dyn Backend, file: &NewFile<'_>) -> Result<Box<dyn Upload + 'a>> {
    let needs = match file.existing {
        Existing::Replace => [Capability::Append, Capability::Rename],
        Existing::Keep => [Capability::Append, Capability::CreateIfAbsent],
        // A place with files has no tags.
        Existing::Same(_) => [Capability::Copy, Capability::CreateIfAbsent],
    };
    if let Some(lacks) = Capabilities::of(&needs).lacking(store.capabilities()) {
        let what = format!("a new file {:?}", file.name);
        return Err(StoreError::Incapable { place: store.place(), lacks, what });
    }
    check_name(file.name)?;
    let (name, part, existing) = (file.name.to_owned(), file.part.clone(), file.existing);
    let state = State::Open(store.append(&part, 0)?);
    Ok(Box::new(Renamed { store, name, part, existing, state }))
}

impl Renamed<'_> {
    fn misuse(&self, op: &'static str) -> StoreError {
        let what = "it was synced, or an earlier call failed".to_owned();
        StoreError::Misuse { op, name: self.name.clone(), what }
    }
}

impl Upload for Renamed<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let State::Open(file) = &mut self.state else { return Err(self.misuse("write")) };
        let written = file.append(bytes);
        if written.is_err() {
            self.state = State::Failed;
        }
        written
    }

    fn sync(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.state, State::Failed) {
            State::Open(mut file) => file.sync()?,
            State::Synced => {}
            State::Failed | State::Done => return Err(self.misuse("sync")),
        }
        self.state = State::Synced;
        Ok(())
    }

    fn complete(mut self: Box<Self>) -> Result<()> {
        self.sync()?;
        match self.existing {
            Existing::Replace => self.store.rename(&self.part, &self.name)?,
            Existing::Keep | Existing::Same(_) => {
                self.store.rename_new(&self.part, &self.name)?;
            }
        }
        self.state = State::Done;
        Ok(())
    }
}

impl Drop for Renamed<'_> {
    fn drop(&mut self) {
        if !matches!(self.state, State::Done) {
            // Closed first. The error that brought us here is the one to tell.
            self.state = State::Failed;
            let _ = self.store.remove(&self.part);
        }
    }
}
