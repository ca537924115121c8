//! Changes of names and records.

use fuser::{Errno, RenameFlags};
use kiln_folders::{Folders, attributes_in};
use kiln_stripe::PoolError;

use super::refusal::{Result, refuse};
use super::tree::{Found, find, is_shown};
use super::{Kind, Mount, Source};
use crate::setup::{fresh_run, now_ms, volumes::of_pool};
use crate::transfer::Transfer;
use crate::transfer::attributes::{About, Entry, time_now};
use crate::transfer::local_tree::split;

impl Mount {
    /// Returns the name of something new in a folder.
    pub fn new_name(&self, parent: u64, word: &str) -> Result<String> {
        let name = self.join(parent, word)?;
        match is_shown(split(&name).0, word) {
            false => refuse(Errno::EPERM),
            true if self.look_for(&name)?.is_some() => refuse(Errno::EEXIST),
            true => Ok(name),
        }
    }

    /// Makes a folder or link, of which the record is all that is needed but for one object.
    pub fn make(&self, name: &str, entry: Entry) -> Result {
        match entry {
            Entry::Folder { .. } => self.make_mark(name)?,
            _ => self.keep_folder(name)?,
        }
        self.note(name, Some(entry));
        self.touch(name)
    }

    /// Gives a folder the object by which it is known, however empty it becomes.
    fn make_mark(&self, folder: &str) -> Result {
        let folders = [folder].into();
        self.with(|pool| Folders(pool).make_folders(fresh_run(), now_ms(), &folders))?;
        self.changed();
        Ok(())
    }

    /// As [`Mount::make_mark`], of the folder that a name is in.
    fn keep_folder(&self, name: &str) -> Result {
        let folder = split(name).0;
        let mark = find(self.fresh()?, &attributes_in(folder))?;
        match folder.is_empty() || matches!(mark, Some(Found::File(_))) {
            true => Ok(()),
            false => self.make_mark(folder),
        }
    }

    /// Notes that the folder that a name is in has changed.
    pub fn touch(&self, name: &str) -> Result {
        let folder = split(name).0;
        if !folder.is_empty() {
            let mut node = self.look(folder)?;
            node.about.time = time_now();
            self.note(folder, Some(node.entry()));
        }
        Ok(())
    }

    /// Removes a file or link.
    pub fn unlink(&self, name: &str) -> Result {
        let node = self.look(name)?;
        if node.kind == Kind::Folder {
            return refuse(Errno::EISDIR);
        }
        self.keep_folder(name)?;
        for (_, draft) in self.drafts_at(name) {
            let _still = draft.still.write();
            draft.state.lock().name = None;
        }
        if node.kind == Kind::File {
            self.remove(name, None)?;
        }
        self.gone(name)
    }

    fn remove(&self, object: &str, known: Option<[u8; 16]>) -> Result {
        let end = self.with(|pool| {
            let (run, settings) = (fresh_run(), self.settings());
            pool.writer().remove_over(object, run, known, now_ms(), &settings)
        });
        match end {
            Ok(()) | Err(PoolError::NoObject { .. }) => self.changed(),
            // Another client has recorded something in the folder.
            Err(PoolError::Conflict { .. }) => return refuse(Errno::ENOTEMPTY),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn gone(&self, name: &str) -> Result {
        self.note(name, None);
        self.inodes.lock().remove(name);
        self.touch(name)
    }

    /// Removes an empty folder.
    pub fn remove_folder(&self, name: &str) -> Result {
        if self.look(name)?.kind != Kind::Folder {
            return refuse(Errno::ENOTDIR);
        }
        self.keep_folder(name)?;
        let (mark, turn) = (attributes_in(name), self.metadata.writing.lock());
        let known = self.with(|pool| pool.manifests().manifests(&[&mark]))?.pop().flatten();
        // Listed by what is there since.
        self.changed();
        if !self.list(name)?.is_empty() {
            return refuse(Errno::ENOTEMPTY);
        }
        // Changed records of it would make it again.
        self.metadata.pending.lock().remove(name);
        if let Some(known) = known {
            self.remove(&mark, Some(known.run))?;
        }
        drop(turn);
        self.gone(name)
    }

    /// Gives something another name. A folder's objects are moved one by one.
    pub fn rename(&self, from: &str, to: &str, flags: RenameFlags) -> Result {
        let (node, there) = (self.look(from)?, self.look_for(to)?);
        if !(flags - RenameFlags::RENAME_NOREPLACE).is_empty() {
            return refuse(Errno::EINVAL);
        }
        if !is_shown(split(to).0, split(to).1) {
            return refuse(Errno::EPERM);
        }
        let is_folder = node.kind == Kind::Folder;
        match there.map(|there| there.kind) {
            _ if from == to => return Ok(()),
            None => {}
            Some(_) if !flags.is_empty() => return refuse(Errno::EEXIST),
            Some(Kind::Folder) if is_folder => self.remove_folder(to)?,
            Some(Kind::Folder) => return refuse(Errno::EISDIR),
            Some(_) if is_folder => return refuse(Errno::ENOTDIR),
            Some(Kind::File) if node.kind == Kind::File => {}
            Some(_) => self.unlink(to)?,
        }
        self.keep_folder(from)?;
        match &node.kind {
            Kind::Link(_) => {
                self.note(to, Some(node.entry()));
                self.note(from, None);
            }
            _ => self.rename_objects(from, to, is_folder)?,
        }
        self.inodes.lock().rename(from, to);
        self.touch(from)?;
        self.touch(to)
    }

    fn rename_objects(&self, from: &str, to: &str, recursive: bool) -> Result {
        for (number, _) in self.drafts_at(from) {
            self.store(number)?;
        }
        if recursive {
            self.make_mark(from)?;
        }
        self.settle()?;
        self.fresh()?;
        let Source::Now { index, .. } = &self.names else { return refuse(Errno::EROFS) };
        let (pool, setup) = (self.pool(), &self.setup);
        let transfer = Transfer { pool: &pool, index, setup, force: true, skip: false };
        let (_, _, told) = transfer.rename(from, to, recursive).map_err(of_pool)?;
        self.changed();
        if !told.is_whole() {
            let _ = told.end_quietly(setup);
            return refuse(Errno::EIO);
        }
        for (_, draft) in self.drafts_at(to) {
            draft.state.lock().name = None;
        }
        for (number, draft) in self.drafts_at(from) {
            let old = draft.state.lock().name.take().unwrap_or_default();
            let name = format!("{to}{}", &old[from.len()..]);
            self.inodes.lock().remove(&name);
            let node = self.look(&name)?;
            self.inodes.lock().written(number, node.identity());
            let mut state = draft.state.lock();
            (state.put, state.name, state.over) = (Some(node.object), Some(name), None);
        }
        Ok(())
    }

    /// Changes a record.
    pub fn change(&self, number: u64, change: impl FnOnce(&mut About) -> Result) -> Result {
        if let Some(draft) = self.drafted(number) {
            let mut state = draft.state.lock();
            change(&mut state.about)?;
            let name = state.name.clone().filter(|_| state.put.is_some());
            drop(state);
            if let Some(name) = name {
                self.note(&name, Some(draft.node()?.entry()));
            }
            return Ok(());
        }
        let name = self.name(number)?;
        let mut node = self.look(&name)?;
        change(&mut node.about)?;
        // The pool itself has no record.
        if name.is_empty() {
            return refuse(Errno::EPERM);
        }
        self.note(&name, Some(node.entry()));
        Ok(())
    }
}
