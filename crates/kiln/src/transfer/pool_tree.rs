//! The objects of a pool below a name, with what is recorded of files, folders and links.

use std::collections::BTreeMap;

use crate::exit::Result;
use kiln_folders::{attributes_in, is_attributes};
use kiln_pool::Version;

use super::attributes::{Attributes, Entry};
use super::local_tree::{joined, split};
use super::{Transfer, at_once, is_internal, records::Entries};
use crate::{exit::Failure, setup::is_plain};

/// An object, as far as copies want to know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    pub bytes: u64,
    pub version: u64,
    /// When it was put, in ms since 1970.
    pub put: u64,
    /// Name that a version of the past is read by.
    pub past: Option<String>,
    /// Mode and time of the file that it was made of, if they are of this data.
    pub entry: Option<Entry>,
}

impl Listing {
    pub fn new(bytes: u64, version: u64, put: u64) -> Listing {
        Listing { bytes, version, put, past: None, entry: None }
    }
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
    pub fn new(transfer: &Transfer<'_>, prefix: &str) -> Result<PoolTree> {
        let mut listed = Vec::new();
        transfer.index.each(prefix, None, |one| {
            listed.push((one.name, Listing::new(one.size, one.version, one.created_ms)));
            Ok(true)
        })?;
        PoolTree::of_listed(transfer, prefix, listed)
    }

    /// As [`PoolTree::new`], of a version of each object that is chosen.
    pub fn of_versions(
        transfer: &Transfer<'_>,
        prefix: &str,
        choose: impl Fn(&[Version]) -> Option<&Version>,
    ) -> Result<PoolTree> {
        let mut all = transfer.index.versions(prefix)?;
        let above = attributes_in(split(prefix).0);
        all.insert(above.clone(), transfer.index.versions_of(&above)?);
        let listed = all.into_iter().filter_map(|(name, versions)| {
            let chosen = choose(&versions)?;
            let past = chosen.until_ms.map(|_| chosen.object.clone());
            let listing = Listing::new(chosen.size, chosen.version, chosen.created_ms);
            Some((name, Listing { past, ..listing }))
        });
        PoolTree::of_listed(transfer, prefix, listed.collect())
    }

    fn of_listed(
        transfer: &Transfer<'_>,
        prefix: &str,
        listed: Vec<(String, Listing)>,
    ) -> Result<PoolTree> {
        let below = joined(prefix, "");
        let (mut objects, mut folders) = (BTreeMap::new(), BTreeMap::new());
        let own = own_folder(prefix);
        let mut above = None;
        for (name, listing) in listed {
            let inside = name == prefix || name.starts_with(&below);
            let read = || listing.past.clone().unwrap_or_else(|| name.clone());
            if is_attributes(&name) && name == own.1 {
                above = Some((own.0.clone(), read()));
            } else if inside && is_attributes(&name) {
                folders.insert(split(&name).0.to_owned(), read());
            } else if inside && !is_internal(&name) {
                objects.insert(name, listing);
            }
        }
        if objects.contains_key(prefix) && !prefix.is_empty() {
            folders.extend([above.unwrap_or(own)]);
        } else if prefix.is_empty() {
            folders.extend(above);
        }
        let mut tree = PoolTree::of(objects, transfer.pool.sees_all()?);
        tree.load(transfer, folders.into_iter().collect(), &below);
        Ok(tree)
    }

    fn of(objects: BTreeMap<String, Listing>, sees_all: bool) -> PoolTree {
        let (others, folders) = (BTreeMap::new(), BTreeMap::new());
        PoolTree { objects, others, folders, failures: Vec::new(), sees_all }
    }

    /// Loads the attributes of folders; others than files count where they are `below`.
    fn load(&mut self, transfer: &Transfer<'_>, folders: Vec<(String, String)>, below: &str) {
        let settings = transfer.setup.settings();
        let loaded =
            at_once(&folders, |(_, object)| Attributes::load(transfer.pool, object, &settings));
        for ((folder, _), attributes) in folders.into_iter().zip(loaded) {
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
    pub fn one(transfer: &Transfer<'_>, name: &str) -> Result<PoolTree> {
        let found = transfer.pool.manifest(name)?;
        let listing = Listing::new(found.size, found.version, found.created_ms);
        let mut tree = PoolTree::of([(name.to_owned(), listing)].into(), true);
        tree.load(transfer, vec![own_folder(name)], name);
        Ok(tree)
    }

    /// Names of this folder and those in it that have attributes.
    pub fn folders_in(&self, folder: &str) -> Vec<&String> {
        let below = joined(folder, "");
        self.folders.keys().filter(|name| *name == folder || name.starts_with(&below)).collect()
    }

    /// Records of this folder and those in it, to be removed.
    pub fn seen_in(&self, folder: &str) -> Entries {
        let seen = |folder: &String| {
            let words = self.folders[folder].entries.keys();
            (folder.clone(), words.map(|word| (word.clone(), None)).collect())
        };
        self.folders_in(folder).into_iter().map(seen).collect()
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
        let below = joined(folder, "");
        let is_link = |entry: &Entry| matches!(entry, Entry::Link { .. });
        let object = self.objects.range(below.clone()..).next();
        let others = self.others.range(below.clone()..);
        object.is_some_and(|(name, _)| name.starts_with(&below))
            || others.take_while(|(name, _)| name.starts_with(&below)).any(|(_, e)| is_link(e))
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

/// The folder that an object is in, and the object with its attributes.
fn own_folder(name: &str) -> (String, String) {
    let folder = split(name).0;
    (folder.to_owned(), attributes_in(folder))
}
