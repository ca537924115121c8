//! Objects copied and moved within a pool, and what a sync keeps of what it replaces.

use std::collections::{BTreeMap, BTreeSet};
use std::{io, thread::Builder};

use kiln_folders::{Folders, folders_of};
use kiln_pool::{GetRequest, MAX_TOGETHER, PutReport, PutRequest, layout::kept_parts};
use kiln_stripe::{PoolError, Settings, Silent, StreamSource};

use super::local_tree::{joined, split};
use super::records::{Entries, add_entry, entry_of};
use super::{Report, Transfer, attributes::Entry, pool_tree::PoolTree, raw_names::path_of};
use crate::exit::{Failure, Result};
use crate::setup::{OutputTree, fresh_run, now_ms};

impl Transfer<'_> {
    /// Writes an object under another name, too; returns the identity of its data.
    /// Errors: [`PoolError::Conflict`]: another version was put meanwhile, and may not be the one
    /// written.
    fn duplicate(&self, from: &str, to: &str, replace: bool) -> Result<(PutReport, [u8; 16])> {
        let (pool, settings) = (self.pool, self.setup.settings());
        let manifest = pool.manifest(from)?;
        let failed = |source| Failure::Io { action: "make", path: "a pipe".into(), source };
        let (bytes, mut pipe) = io::pipe().map_err(failed)?;
        let quiet = Settings { observer: &Silent, ..settings };
        let put = std::thread::scope(|scope| {
            let read = move || {
                let req = GetRequest { name: from, range: None };
                pool.get(&req, &mut pipe, &quiet)
            };
            let reading = Builder::new().spawn_scoped(scope, read);
            let reading = reading.map_err(|source| PoolError::Input { source })?;
            let mut source = StreamSource::new(bytes).with_size(manifest.size);
            let req = PutRequest { name: to, run: fresh_run(), now_ms: now_ms(), replace };
            let put = pool.put(&req, &mut source, &settings);
            drop(source);
            match (reading.join(), put) {
                (_, Ok(put)) => Ok(put),
                // A put that fails closes the pipe; what the read says of that is no reason.
                (Ok(Err(error)), Err(_)) if !matches!(error, PoolError::Output { .. }) => {
                    Err(error)
                }
                (_, Err(error)) => Err(error),
            }
        })?;
        let now = pool.manifest(from)?;
        match (now.version, now.run) == (manifest.version, manifest.run) {
            true => Ok((put, now.run)),
            false => Err(PoolError::Conflict { name: from.to_owned() }.into()),
        }
    }

    /// Copies objects to the names that they are kept under, with what is recorded of them, and
    /// records `entries`. One whose name is another's folder, or lies below another, is refused.
    pub fn keep_objects(
        &self,
        mut kept: BTreeMap<&str, (String, Option<&Entry>)>,
        mut entries: Entries,
        report: &mut Report,
    ) {
        let names: Vec<String> = kept.values().map(|(to, _)| to.clone()).collect();
        let mut free = BTreeSet::new();
        self.find_free(names.iter().map(String::as_str), &mut free);
        kept.retain(|_, (to, _)| {
            let end = Folders(self.pool).refuse_nested_but(&free, Some(self.index), to);
            end.map_err(|error| report.fail(to, &error.into())).is_ok()
        });
        let above = kept.values().flat_map(|(to, _)| folders_of(to)).collect();
        if let Err(error) = Folders(self.pool).make_folders(fresh_run(), now_ms(), &above) {
            return report.fail("folders of what is kept", &error.into());
        }
        let mut restored = self.restored(&kept);
        for (name, (to, entry)) in &kept {
            let of = |(put, _): (PutReport, _)| (put.version, put.created_ms);
            let copied = || self.duplicate(name, to, true).map(of);
            match restored.remove(name).unwrap_or_else(copied) {
                Ok((version, created_ms)) => {
                    let at = |entry: &Entry| entry.at_version(version, created_ms);
                    // A copy is a file of its own.
                    let link =
                        |entry: &Entry| entry.link().filter(|_| is_version(name, to)).cloned();
                    let entry = entry.map(|entry| at(entry).with_link(link(entry)));
                    entry.into_iter().for_each(|entry| add_entry(&mut entries, to, entry));
                }
                Err(failure) => report.fail(name, &failure),
            }
        }
        self.record(&entries, report);
    }

    /// Moves an object, or all in a folder; returns the number of objects and their bytes, beside
    /// failures of objects in a folder.
    pub fn rename(&self, from: &str, to: &str, recursive: bool) -> Result<(u64, u64, Report)> {
        let tree = match recursive {
            true => PoolTree::new(self, from)?,
            false => PoolTree::one(self, from)?,
        };
        let is_moved = |name: &&String| !recursive || name.len() > from.len();
        if recursive && !tree.has_inside(from) {
            return Err(PoolError::NoObject { name: format!("{from}/") }.into());
        }
        let new = |name: &str| match name[from.len()..].strip_prefix('/') {
            Some(inside) => joined(to, inside),
            None => to.to_owned(),
        };
        let (mut moved, mut bytes) = (0, 0);
        let (mut made, mut entries) = (BTreeSet::new(), Entries::new());
        let mut told = Report::default();
        for name in tree.objects.keys().filter(is_moved) {
            let to = new(name);
            match self.rename_one(name, &to, &mut made) {
                Ok(put) => {
                    if let Some(entry) = &tree.objects[name].entry {
                        let link = entry.link().filter(|_| recursive).cloned();
                        let entry = entry.at_version(put.version, put.created_ms).with_link(link);
                        add_entry(&mut entries, &to, entry);
                    }
                    bytes += put.size;
                    moved += 1;
                }
                Err(failure) if !recursive => return Err(failure),
                Err(failure) => told.fail(name, &failure),
            }
        }
        // Entries that stay need their folders.
        if recursive && told.is_whole() {
            for (name, entry) in &tree.others {
                add_entry(&mut entries, &new(name), entry.clone());
            }
            let own = entry_of(self.pool, from, &self.setup.settings())?;
            let own = own.filter(|_| !to.is_empty());
            own.into_iter().for_each(|own| add_entry(&mut entries, to, own));
        }
        self.record(&entries, &mut told);
        if recursive && told.is_whole() {
            let ((above, word), mut gone) = (split(from), tree.seen_in(from));
            gone.insert(above.to_owned(), [(word.to_owned(), None)].into());
            for (folder, gone) in &mut gone {
                let new = entries.get(folder);
                gone.retain(|word, _| !new.is_some_and(|new| new.contains_key(word)));
            }
            self.record(&gone, &mut told);
            self.remove_idle(tree.folders_in(from).into_iter(), &mut told);
        }
        Ok((moved, bytes, told))
    }

    /// Moves an object; folders above that were `made` before are not made again.
    fn rename_one(&self, name: &str, to: &str, made: &mut BTreeSet<String>) -> Result<PutReport> {
        let folders = Folders(self.pool);
        folders.refuse_nested(Some(self.index), to)?;
        let above: BTreeSet<String> =
            folders_of(to).map(str::to_owned).filter(|name| !made.contains(name)).collect();
        let names = above.iter().map(|name| &name[..]).collect();
        folders.make_folders(fresh_run(), now_ms(), &names)?;
        made.extend(above);
        let (put, run) = self.duplicate(name, to, self.force)?;
        let settings = self.setup.settings();
        self.pool.writer().remove_over(name, fresh_run(), Some(run), now_ms(), &settings)?;
        Ok(put)
    }

    /// Has objects in force again without a copy, where that can be; their versions and times.
    fn restored<'n>(&self, kept: &BTreeMap<&'n str, (String, Option<&Entry>)>) -> Restored<'n> {
        let names = kept.iter().filter(|(name, (to, _))| is_version(name, to));
        let names: Vec<&str> = names.map(|(name, _)| *name).collect();
        let settings = self.setup.settings();
        let mut restored = Restored::new();
        for names in names.chunks(MAX_TOGETHER) {
            // An error of all of them is one of each copy, too.
            let ends = self.pool.writer().restore_all(names, now_ms(), &settings);
            for (name, end) in names.iter().zip(ends.into_iter().flatten()) {
                let end = end.map(|done| done.map(|done| (done.version, done.created_ms)));
                restored.extend(end.transpose().map(|end| (*name, end.map_err(Failure::from))));
            }
        }
        restored
    }
}

/// Returns whether a name is that of a kept version of an object.
fn is_version(name: &str, object: &str) -> bool {
    kept_parts(name).is_some_and(|(of, _)| of == object)
}

/// Version and time of objects that are in force again.
type Restored<'n> = BTreeMap<&'n str, Result<(u64, u64), Failure>>;

/// Gives files and links of a folder the same names in another one of its file system, too.
pub fn keep_files(out: &OutputTree, names: &[&str], kept: &OutputTree, report: &mut Report) {
    for name in names {
        let inside = path_of(name);
        if let Err(source) = out.link_into(&inside, kept) {
            let path = kept.path().join(&inside);
            report.fail(name, &Failure::Io { action: "keep it as", path, source });
        }
    }
}
