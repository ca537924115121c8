//! A folder of this machine, as it goes into a pool.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::{fs, os::unix::fs::MetadataExt};

use kiln_folders::ATTRIBUTES;

use super::{attributes::Entry, raw_names::to_pool};
use crate::{exit::Failure, names::is_output_part};

/// A file, folder or link.
#[derive(Clone)]
pub struct LocalEntry {
    pub path: PathBuf,
    /// Bytes of a file when it was looked at.
    pub bytes: u64,
    /// Kind, mode and time; of a file without a version.
    pub entry: Entry,
}

/// Files, folders and links at or below a path.
#[derive(Default)]
pub struct LocalTree {
    /// By the name that each has in the pool.
    pub entries: BTreeMap<String, LocalEntry>,
    /// Names of devices, sockets and pipes, which are left out.
    pub odd: BTreeSet<String>,
    /// Entries that are left out, and why.
    pub left_out: Vec<String>,
    /// Entries that could not be looked at: the tree was not seen whole.
    pub failures: Vec<(String, Failure)>,
    /// Real paths that do not belong to it: nodes of the pool, its index.
    excluded: BTreeSet<PathBuf>,
    /// Names of files that have several, by device and number.
    linked: HashMap<(u64, u64), Vec<String>>,
    /// Paths that are still to be looked at, and their names.
    open: Vec<(PathBuf, String)>,
}

impl LocalTree {
    /// Looks at what becomes `name` in the pool; a link that is named itself is followed.
    pub fn new(path: &Path, name: &str, excluded: BTreeSet<PathBuf>) -> LocalTree {
        let mut tree = LocalTree { excluded, ..LocalTree::default() };
        let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        tree.open.push((whole, name.to_owned()));
        while let Some((path, name)) = tree.open.pop() {
            tree.add(&path, &name);
        }
        tree.left_out.sort();
        for mut names in std::mem::take(&mut tree.linked).into_values() {
            names.sort();
            for name in names.iter().filter(|_| names.len() > 1) {
                if let Some(local) = tree.entries.get_mut(name) {
                    let first = relative(split(name).0, &names[0]);
                    local.entry = local.entry.clone().with_link(Some(first));
                }
            }
        }
        tree
    }

    /// Returns whether it has files or links, of which there are none at an unused mount point.
    pub fn has_data(&self) -> bool {
        self.entries.values().any(|local| !matches!(local.entry, Entry::Folder { .. }))
    }

    fn leave(&mut self, path: &Path, why: &str) {
        self.left_out.push(format!("{}: {why}", path.display()));
    }

    fn fail(&mut self, path: &Path, source: std::io::Error) {
        let failure = Failure::Io { action: "read", path: path.to_owned(), source };
        self.failures.push((path.display().to_string(), failure));
    }

    fn add(&mut self, path: &Path, name: &str) {
        let last = split(name).1;
        if last == ATTRIBUTES {
            return self.leave(path, "the name is kiln's own");
        }
        if is_output_part(last) {
            return self.leave(path, "an unfinished output of kiln");
        }
        let meta = match path.symlink_metadata() {
            Ok(meta) => meta,
            Err(error) => return self.fail(path, error),
        };
        let kind = meta.file_type();
        if self.excluded.contains(path) {
            return self.leave(path, "part of the pool itself");
        }
        let entry = if kind.is_symlink() {
            match fs::read_link(path) {
                Ok(target) => Entry::Link {
                    target: to_pool(target.as_os_str()),
                    owner: Some((meta.uid(), meta.gid())),
                },
                Err(error) => return self.fail(path, error),
            }
        } else if kind.is_file() || kind.is_dir() {
            Entry::of(path, &meta, 0)
        } else {
            self.odd.insert(name.to_owned());
            return self.leave(path, "skipped (device, socket or pipe)");
        };
        if !name.is_empty() {
            let bytes = if kind.is_file() { meta.len() } else { 0 };
            if kind.is_file() && meta.nlink() > 1 {
                self.linked.entry((meta.dev(), meta.ino())).or_default().push(name.to_owned());
            }
            let local = LocalEntry { path: path.to_owned(), bytes, entry };
            self.entries.insert(name.to_owned(), local);
        }
        if kind.is_dir() {
            self.add_inside(path, name);
        }
    }

    fn add_inside(&mut self, path: &Path, name: &str) {
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => return self.fail(path, error),
        };
        let mut inside = BTreeSet::new();
        for entry in entries {
            match entry {
                Ok(entry) => drop(inside.insert(entry.file_name())),
                Err(error) => self.fail(path, error),
            }
        }
        for word in inside {
            self.open.push((path.join(&word), joined(name, &to_pool(&word))));
        }
    }
}

/// The folder and the last part of a name.
pub fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('/').unwrap_or(("", name))
}

/// A name in a folder of the pool; the pool itself has an empty name.
pub fn joined(folder: &str, word: &str) -> String {
    match folder.is_empty() {
        true => word.to_owned(),
        false => format!("{folder}/{word}"),
    }
}

/// A name as seen from a folder.
fn relative(folder: &str, name: &str) -> String {
    let parts = |name: &'_ str| -> Vec<String> {
        name.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let (from, to) = (parts(folder), parts(name));
    let same = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..".to_owned(), from.len() - same);
    up.chain(to[same..].iter().cloned()).collect::<Vec<_>>().join("/")
}

/// The name that [`relative`] was given; `None`: it leads out of the pool.
pub fn resolved(folder: &str, name: &str) -> Option<String> {
    let mut at: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in name.split('/') {
        match part {
            ".." => drop(at.pop()?),
            part => at.push(part),
        }
    }
    Some(at.join("/"))
}
