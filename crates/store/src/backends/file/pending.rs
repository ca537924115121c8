//! Files of a pack that wait for their names, see `backends/pack.rs`.
//!
//! Files of a batch are renamed soon after. A name that nobody looks for until then would cost
//! the file system as much as the one that stays: so it is kept here, and the file gets its last
//! name at once. Whoever does anything else with such a file finds it under the first name as
//! always.

use parking_lot::{Mutex, MutexGuard};
use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, fs, sync::Arc};

/// The names that wait, and the pack file of each, which has a name already.
#[derive(Debug, Default)]
pub(super) struct Pending(Mutex<BTreeMap<String, Arc<PathBuf>>>);

impl Drop for Pending {
    /// Files that were not renamed are found under the names that they were given.
    fn drop(&mut self) {
        for (name, pack) in std::mem::take(&mut *self.names()) {
            let _ = fs::hard_link(&*pack, pack.with_file_name(name));
        }
    }
}

impl Pending {
    fn names(&self) -> MutexGuard<'_, BTreeMap<String, Arc<PathBuf>>> {
        self.0.lock()
    }

    /// Names for one pack, which must be durable.
    pub fn add<'a>(&self, pack: &Arc<PathBuf>, names: impl Iterator<Item = &'a str>) {
        self.names().extend(names.map(|name| (name.to_owned(), Arc::clone(pack))));
    }

    /// The pack that a name waits for, which it no longer does then.
    pub fn take(&self, name: &str) -> Option<Arc<PathBuf>> {
        self.names().remove(name)
    }

    pub fn has(&self, name: &str) -> bool {
        self.names().contains_key(name)
    }

    /// The names that wait for the pack of this path, or all.
    pub fn of(&self, path: Option<&Path>) -> Vec<String> {
        let names = self.names();
        // Paths are dear to compare, and most names wait for one pack.
        let mut last: Option<(&Arc<PathBuf>, bool)> = None;
        let mut is_of = |pack| match last {
            Some((before, is)) if Arc::ptr_eq(before, pack) => is,
            _ => last.insert((pack, path.is_none_or(|path| **pack == *path))).1,
        };
        names.iter().filter(|(_, pack)| is_of(*pack)).map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::{Backend, BatchFiles, FileBackend};

    /// All that can be done with a file that waits for its name, the pack's own and another one.
    #[test]
    fn files_that_wait_for_their_names_are_files_as_all_others() {
        let bytes: Vec<Vec<u8>> = (0..6).map(|at| vec![at as u8 + 1; 500 + at]).collect();
        let parts: Vec<String> = (0..6).map(|at| format!(".k{at}.run.manifest.part")).collect();
        let last = |at: usize| format!("k{at}.manifest");
        for first in [0, 2, 5] {
            let root = tempfile::tempdir().unwrap();
            let disk = FileBackend::open(root.path()).unwrap();
            let read = |name: &str| {
                let file = disk.open(name)?;
                let mut buf = vec![0; file.len() as usize];
                file.read_at(0, &mut buf).map(|()| buf)
            };
            let files: Vec<(&str, &[u8])> =
                parts.iter().zip(&bytes).map(|(part, bytes)| (&part[..], &bytes[..])).collect();
            let there = || fs::read_dir(root.path()).unwrap().count();
            // Given up, and written again.
            assert!(disk.write_all(&files).iter().all(Result::is_ok));
            assert_eq!(there(), 2, "the others have no names yet");
            let names: Vec<&str> = parts.iter().map(|part| &part[..]).collect();
            assert!(disk.remove_all(&names).iter().all(Result::is_ok));
            assert_eq!(there(), 0);
            assert!(disk.write_all(&files).iter().all(Result::is_ok));
            assert!(disk.write_all(&files).iter().all(Result::is_ok));
            // One is read, one has a name that is taken, one is removed, one renamed alone.
            assert_eq!(read(&parts[first]).unwrap(), bytes[first]);
            crate::write_whole(&disk, &last(first), b"older").unwrap();
            let other = (first + 1) % 6;
            disk.remove(&parts[other]).unwrap();
            disk.rename(&parts[(first + 2) % 6], &last((first + 2) % 6)).unwrap();
            let rest = [first, (first + 3) % 6, (first + 4) % 6];
            let names: Vec<(&str, String)> =
                rest.into_iter().map(|at| (&parts[at][..], last(at))).collect();
            let names: Vec<(&str, &str)> =
                names.iter().map(|(from, to)| (*from, &to[..])).collect();
            assert!(disk.rename_all(&names).iter().all(Result::is_ok));
            assert!(disk.rename_all(&names).iter().all(Result::is_err));
            for at in [first, (first + 2) % 6, (first + 3) % 6, (first + 4) % 6] {
                assert_eq!(read(&last(at)).unwrap(), bytes[at], "{first} {at}");
            }
            assert!(read(&parts[other]).is_err() && read(&last(other)).is_err());
            let unnamed = &parts[(first + 5) % 6];
            drop(disk.clone());
            drop(disk);
            let disk = FileBackend::open(root.path()).unwrap();
            assert_eq!(disk.list().unwrap().len(), 5);
            assert!(disk.open(unnamed).is_ok());
        }
    }
}
