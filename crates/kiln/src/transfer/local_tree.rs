//! A folder of this machine, as it goes into a pool.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use kiln_pool::ATTRIBUTES;

use super::attributes::Entry;
use crate::exit::Failure;

/// A file that may become an object.
pub struct LocalFile {
    /// Its path.
    pub path: PathBuf,
    /// Its bytes when it was looked at.
    pub bytes: u64,
    /// The object's name.
    pub name: String,
}

/// Files, folders and links at or below a path.
#[derive(Default)]
pub struct LocalTree {
    /// Regular files.
    pub files: Vec<LocalFile>,
    /// Links and folders: the name of the folder that they are in, their own, and what they are.
    pub others: Vec<(String, String, Entry)>,
    /// Entries that are left out, and why.
    pub left_out: Vec<String>,
}

impl LocalTree {
    /// Looks at what becomes `name` in the pool, in order of names.
    ///
    /// # Errors
    /// Something cannot be looked at.
    pub fn new(path: &Path, name: &str) -> Result<LocalTree, Failure> {
        let mut walked = LocalTree::default();
        walked.add(path, name)?;
        Ok(walked)
    }

    fn add(&mut self, path: &Path, name: &str) -> Result<(), Failure> {
        let failed = |source| Failure::Io { action: "read", path: path.to_owned(), source };
        let meta = path.symlink_metadata().map_err(failed)?;
        let (folder, last) = split(name);
        let mut leave = |why: &str| self.left_out.push(format!("{}: {why}", path.display()));
        if last == ATTRIBUTES {
            leave("the name is kiln's own");
        } else if meta.is_file() {
            let (path, bytes) = (path.to_owned(), meta.len());
            self.files.push(LocalFile { path, bytes, name: name.to_owned() });
        } else if meta.is_dir() {
            if !last.is_empty() {
                self.others.push((folder.to_owned(), last.to_owned(), Entry::of(&meta, 0)));
            }
            let mut inside = BTreeMap::new();
            for entry in fs::read_dir(path).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                match entry.file_name().into_string() {
                    Ok(word) => drop(inside.insert(word, entry.path())),
                    Err(_) => {
                        let path = entry.path();
                        let why = "its name is not UTF-8, as names in pools are (kiln encode \
                                   keeps such names)";
                        self.left_out.push(format!("{}: {why}", path.display()));
                    }
                }
            }
            for (word, path) in inside {
                self.add(&path, &joined(name, &word))?;
            }
        } else if meta.is_symlink() {
            let target = fs::read_link(path).map_err(failed)?;
            match target.into_os_string().into_string() {
                Ok(target) => {
                    let entry = Entry::Link { target };
                    self.others.push((folder.to_owned(), last.to_owned(), entry));
                }
                Err(_) => leave("its target is not UTF-8"),
            }
        } else {
            leave("skipped (device, socket or pipe)");
        }
        Ok(())
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
