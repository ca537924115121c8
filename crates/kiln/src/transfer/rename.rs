//! Objects under other names of the same pool, with what is recorded of them.

use std::collections::BTreeSet;

use kiln_folders::{Folders, attributes_in, folders_of};
use kiln_pool::PutReport;
use kiln_stripe::PoolError;

use super::pool_tree::PoolTree;
use super::put::{Entries, add_entry};
use super::{Report, Transfer};
use crate::exit::Result;
use crate::setup::{fresh_run, now_ms};

impl Transfer<'_> {
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
        let new = |name: &str| format!("{to}{}", &name[from.len()..]);
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
            if let Some(own) = self.take_entry(from, &mut told)? {
                add_entry(&mut entries, to, own);
            }
            moved += tree.folders_in(from).len() as u64;
        }
        self.add_attributes(entries, &mut told);
        if recursive && told.is_whole() {
            let gone = tree.folders_in(from).into_iter().map(|folder| attributes_in(folder));
            self.remove(&gone.collect::<Vec<_>>(), &mut told);
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
        let put = self.duplicate(name, to, self.force)?;
        self.pool.remove(name, fresh_run(), now_ms(), &self.setup.settings())?;
        Ok(put)
    }
}
