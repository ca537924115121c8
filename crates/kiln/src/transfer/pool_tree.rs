//! The objects of a pool below a name, with what is recorded of files, folders and links.

use std::collections::BTreeMap;

use kiln_folders::{attributes_in, is_attributes};

use super::attributes::{Attributes, Entry};
use super::local_tree::{joined, split};
use super::{Transfer, at_once, is_internal};
use crate::exit::Failure;
use crate::setup::is_plain;

/// An object, as far as copies want to know it.
pub struct Listing {
    pub bytes: u64,
    pub version: u64,
    /// When it was put, in ms since 1970.
    pub put: u64,
    /// Mode and time of the file that it was made of, if they are of this data.
    pub entry: Option<Entry>,
}

/// See the module.
pub struct PoolTree {
    /// By name.
    pub objects: BTreeMap<String, Listing>,
    /// Links and folders, by name.
    pub others: BTreeMap<String, Entry>,
    /// Attributes of folders as they are now, by the folders' names.
    pub folders: BTreeMap<String, Attributes>,
    /// Folders whose attributes could not be read: links and empty folders may be missing here.
    pub failures: Vec<(String, Failure)>,
    /// No object is missing here because of nodes that are away.
    pub sees_all: bool,
}

impl PoolTree {
    /// Looks at objects at or below a name; the name of the pool itself is empty.
    ///
    /// # Errors
    /// The pool cannot be listed.
    pub fn new(transfer: &Transfer<'_>, prefix: &str) -> Result<PoolTree, Failure> {
        let below = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let (mut objects, mut folders) = (BTreeMap::new(), Vec::new());
        transfer.index.each(prefix, None, |listed| {
            let inside = listed.name == prefix || listed.name.starts_with(&below);
            if inside && is_attributes(&listed.name) {
                folders.push(split(&listed.name).0.to_owned());
            } else if inside && !is_internal(&listed.name) {
                let (bytes, version) = (listed.size, listed.version);
                let entry = None;
                let listing = Listing { bytes, version, put: listed.created_ms, entry };
                objects.insert(listed.name, listing);
            }
            Ok(true)
        })?;
        if objects.contains_key(prefix) && !prefix.is_empty() {
            folders.push(split(prefix).0.to_owned());
        }
        let mut tree = PoolTree::of(objects, transfer.pool.sees_all()?);
        tree.load(transfer, folders, &below);
        Ok(tree)
    }

    fn of(objects: BTreeMap<String, Listing>, sees_all: bool) -> PoolTree {
        let (others, folders) = (BTreeMap::new(), BTreeMap::new());
        PoolTree { objects, others, folders, failures: Vec::new(), sees_all }
    }

    /// Loads the attributes of folders; others than files count where they are `below`.
    fn load(&mut self, transfer: &Transfer<'_>, folders: Vec<String>, below: &str) {
        let settings = transfer.setup.settings();
        let loaded = at_once(&folders, |name| Attributes::load(transfer.pool, name, &settings));
        for (folder, attributes) in folders.into_iter().zip(loaded) {
            match attributes {
                Ok(Some(attributes)) => self.add(folder, attributes, below),
                Ok(None) => {
                    let problem = "written by a later kiln".to_owned();
                    let path = attributes_in(&folder).into();
                    self.failures.push((folder, Failure::NotUsable { path, problem }));
                }
                Err(failure) => self.failures.push((folder, failure)),
            }
        }
    }

    /// Looks at one object.
    ///
    /// # Errors
    /// It is not there.
    pub fn one(transfer: &Transfer<'_>, name: &str) -> Result<PoolTree, Failure> {
        let found = transfer.pool.manifest(name)?;
        let (bytes, version) = (found.size, found.version);
        let listing = Listing { bytes, version, put: found.created_ms, entry: None };
        let mut tree = PoolTree::of([(name.to_owned(), listing)].into(), true);
        tree.load(transfer, vec![split(name).0.to_owned()], name);
        Ok(tree)
    }

    /// Names of this folder and those in it that have attributes.
    pub fn folders_in(&self, folder: &str) -> Vec<&String> {
        if folder.is_empty() {
            return self.folders.keys().collect();
        }
        let below = format!("{folder}/");
        self.folders.keys().filter(|name| *name == folder || name.starts_with(&below)).collect()
    }

    /// Returns whether anything has a name in this folder.
    pub fn has_inside(&self, folder: &str) -> bool {
        let inside = self.objects.keys().any(|name| name.len() > folder.len());
        inside || !self.folders_in(folder).is_empty()
    }

    /// Returns whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.folders.is_empty() && self.failures.is_empty()
    }

    /// Returns whether a folder has files or links.
    pub fn has_data_in(&self, folder: &str) -> bool {
        let below = format!("{folder}/");
        let is_link = |entry: &Entry| matches!(entry, Entry::Link { .. });
        let object = self.objects.range(below.clone()..).next();
        let others = self.others.range(below.clone()..);
        object.is_some_and(|(name, _)| name.starts_with(&below))
            || others.take_while(|(name, _)| name.starts_with(&below)).any(|(_, e)| is_link(e))
    }

    /// Returns whether there are files or links.
    pub fn has_data(&self) -> bool {
        let is_link = |entry: &Entry| matches!(entry, Entry::Link { .. });
        !self.objects.is_empty() || self.others.values().any(is_link)
    }

    fn add(&mut self, folder: String, attributes: Attributes, below: &str) {
        for (word, entry) in attributes.entries.iter().filter(|(word, _)| is_plain(word)) {
            let name = joined(&folder, word);
            match (self.objects.get_mut(&name), entry) {
                (Some(object), Entry::File { .. }) => {
                    let of = entry.is_of(object.version, object.put);
                    object.entry = of.then(|| entry.clone());
                }
                // An object of the name takes precedence.
                (Some(_), _) | (None, Entry::File { .. }) => {}
                (None, Entry::Folder { .. } | Entry::Link { .. }) => {
                    if name.starts_with(below) {
                        self.others.insert(name, entry.clone());
                    }
                }
            }
        }
        self.folders.insert(folder, attributes);
    }
}
