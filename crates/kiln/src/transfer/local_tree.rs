//! A folder of this machine, as it goes into a pool.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use kiln_folders::ATTRIBUTES;

use super::attributes::Entry;
use crate::exit::Failure;
use crate::names::is_output_part;

/// A file, folder or link.
#[derive(Clone)]
pub struct LocalEntry {
    /// Its path.
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
    /// Entries that are left out, and why.
    pub left_out: Vec<String>,
    /// Entries that could not be looked at: the tree was not seen whole.
    pub failures: Vec<(String, Failure)>,
    /// Real paths that do not belong to it: nodes of the pool, its index.
    excluded: BTreeSet<PathBuf>,
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
        let meta = match path.symlink_metadata() {
            Ok(meta) => meta,
            Err(error) => return self.fail(path, error),
        };
        let (last, kind) = (split(name).1, meta.file_type());
        if last == ATTRIBUTES {
            return self.leave(path, "the name is kiln's own");
        }
        if is_output_part(last) {
            return self.leave(path, "an unfinished output of kiln");
        }
        if self.excluded.contains(path) {
            return self.leave(path, "part of the pool itself");
        }
        let entry = if kind.is_symlink() {
            match fs::read_link(path).map(|target| target.into_os_string().into_string()) {
                Ok(Ok(target)) => Entry::Link { target },
                Ok(Err(_)) => return self.leave(path, "its target is not UTF-8"),
                Err(error) => return self.fail(path, error),
            }
        } else if kind.is_file() || kind.is_dir() {
            Entry::of(&meta, 0)
        } else {
            return self.leave(path, "skipped (device, socket or pipe)");
        };
        if !name.is_empty() {
            let bytes = if kind.is_file() { meta.len() } else { 0 };
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
            match entry.map(|entry| entry.file_name().into_string()) {
                Ok(Ok(word)) => drop(inside.insert(word)),
                Ok(Err(word)) => {
                    let why = "its name is not UTF-8, as names in pools are (kiln encode keeps \
                               such names)";
                    self.leave(&path.join(word), why);
                }
                Err(error) => self.fail(path, error),
            }
        }
        for word in inside {
            self.open.push((path.join(&word), joined(name, &word)));
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
