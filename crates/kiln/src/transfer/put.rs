//! Files into a pool, and what is recorded of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use kiln_folders::{Folders, attributes_in, folders_of, is_attributes};
use kiln_pool::PutRequest;
use kiln_stripe::{Observer, PoolError, Quiet, Settings, Source, StreamSource};

use super::attributes::{Attributes, Entry};
use super::local_tree::{LocalEntry, split};
use super::{Report, TOGETHER, Transfer, at_once, refuse_reserved, together};
use crate::exit::{Failure, Result};
use crate::setup::{fresh_run, input, now_ms};

/// Entries of folders, by the folders' names and their own.
pub type Entries = BTreeMap<String, BTreeMap<String, Entry>>;

/// Adds an entry by its whole name.
pub fn add_entry(entries: &mut Entries, name: &str, entry: Entry) {
    let (folder, word) = split(name);
    entries.entry(folder.to_owned()).or_default().insert(word.to_owned(), entry);
}

/// A file that is to be put.
struct Item<'l> {
    name: &'l str,
    local: &'l LocalEntry,
}

/// An open file, and what is recorded of it.
type Opened = (Box<dyn Source>, Entry);

impl Transfer<'_> {
    /// Puts files; what is recorded of them is added to `entries`. Objects that are `gone` are so
    /// since the index was made.
    /// Errors: only what ends all: a failure of one file is in the report.
    pub fn put(
        &self,
        files: &BTreeMap<&str, &LocalEntry>,
        gone: &BTreeSet<String>,
        entries: &mut Entries,
        report: &mut Report,
    ) -> Result<()> {
        let items: Vec<Item<'_>> = files.iter().map(|(name, local)| Item { name, local }).collect();
        self.setup.observer.begin("copy", Some(items.iter().map(|item| item.local.bytes).sum()));
        let whole = Quiet(&self.setup.observer);
        let settings = Settings { observer: &whole, ..self.setup.settings() };
        let mut free = BTreeSet::new();
        for items in together(&items, |item| item.local.bytes) {
            self.find_free(items, &mut free);
            for (name, entry) in self.put_together(items, (&free, gone), &settings, report) {
                add_entry(entries, name, entry);
            }
        }
        // Those above what was copied, which get no attributes.
        let above = free.into_iter().filter(|name| !entries.contains_key(*name)).collect();
        Folders(self.pool).make_folders(fresh_run(), now_ms(), &above)?;
        Ok(())
    }

    /// Adds the folders of files that are no objects: asked once for many files.
    fn find_free<'i>(&self, items: &[Item<'i>], free: &mut BTreeSet<&'i str>) {
        let folders: BTreeSet<&str> = items.iter().flat_map(|item| folders_of(item.name)).collect();
        let unknown: Vec<&str> = folders.into_iter().filter(|name| !free.contains(name)).collect();
        let asked = at_once(&unknown, |folder| self.pool.writer().has(folder));
        // A folder that could not be asked for is asked for again, and reported, for each file.
        let known = unknown.iter().zip(asked).filter(|(_, is)| matches!(is, Ok(false)));
        free.extend(known.map(|(folder, _)| *folder));
    }

    /// Puts files at once; returns those that were put, with what is recorded of them.
    fn put_together<'i>(
        &self,
        items: &[Item<'i>],
        (free, gone): (&BTreeSet<&str>, &BTreeSet<String>),
        settings: &Settings<'_>,
        report: &mut Report,
    ) -> Vec<(&'i str, Entry)> {
        let opened = at_once(items, |item| self.source(item, settings));
        let (mut sources, mut put) = (Vec::new(), Vec::new());
        for (item, source) in items.iter().zip(opened) {
            let below = format!("{}/", item.name);
            let freed = gone.range(below.clone()..).next();
            let freed = freed.is_some_and(|name| name.starts_with(&below));
            let index = (!freed).then_some(self.index);
            let nested = || Ok(Folders(self.pool).refuse_nested_but(free, index, item.name)?);
            match source.and_then(|source| nested().map(|()| source)) {
                Ok(Some((source, entry))) => sources.push((item, source, entry)),
                Ok(None) => report.count(item.name, Ok(None)),
                Err(failure) => report.fail(item.name, &failure),
            }
        }
        let puts = sources.iter_mut().map(|(item, source, _)| {
            let (run, now_ms) = (fresh_run(), now_ms());
            let req = PutRequest { name: item.name, run, now_ms, replace: self.force };
            (req, &mut **source as &mut dyn Source)
        });
        match self.pool.put_all(puts.collect(), settings) {
            Ok(done) => {
                for ((item, _, entry), end) in sources.iter().zip(done) {
                    if let Ok(end) = &end {
                        put.push((item.name, entry.at_version(end.version, end.created_ms)));
                    }
                    report.count(item.name, end.map(|e| Some(e.size)).map_err(Failure::from));
                }
            }
            Err(error) => {
                let failure = Failure::from(error);
                sources.iter().for_each(|(item, ..)| report.fail(item.name, &failure));
            }
        }
        put
    }

    /// Opens a file that is to be put; `None` when it is left out. Mode and time are those from
    /// before its bytes are read: one that changes meanwhile looks different next time.
    fn source(&self, item: &Item<'_>, settings: &Settings<'_>) -> Result<Option<Opened>> {
        refuse_reserved(item.name)?;
        let path: &PathBuf = &item.local.path;
        let failed = |source| Failure::Io { action: "open", path: path.clone(), source };
        let meta = path.symlink_metadata().map_err(failed)?;
        if !meta.is_file() {
            let what = "is no file any more: it was replaced meanwhile; run it again";
            return Err(failed(std::io::Error::other(what)));
        }
        let source = input(path)?;
        if self.skip {
            match self.pool.manifest(item.name) {
                Ok(manifest) => {
                    settings.observer.advance(manifest.size);
                    return Ok(None);
                }
                Err(PoolError::NoObject { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let link = item.local.entry.link().cloned();
        Ok(Some((source, Entry::of(path, &meta, 0).with_link(link))))
    }

    /// Adds entries to the attributes of their folders, in place of those of the same names.
    pub fn add_attributes(&self, entries: Entries, report: &mut Report) {
        let settings = self.setup.settings();
        let folders: Vec<_> = entries.into_iter().collect();
        let loaded =
            at_once(&folders, |(folder, _)| Attributes::load(self.pool, folder, &settings));
        let mut changed = BTreeMap::new();
        for ((folder, entries), loaded) in folders.into_iter().zip(loaded) {
            match loaded {
                Ok(Some(known)) => {
                    let mut all = known.entries.clone();
                    all.extend(entries);
                    if all != known.entries {
                        changed.insert(folder, all);
                    }
                }
                // A later version wrote them: they are left alone.
                Ok(None) => {}
                Err(failure) => report.fail(&format!("attributes of {folder}/"), &failure),
            }
        }
        self.put_attributes(&changed, report);
    }

    /// Takes the entry of a folder or link out of the attributes of the folder that it is in.
    pub fn take_entry(&self, name: &str, report: &mut Report) -> Result<Option<Entry>> {
        let (folder, word) = split(name);
        let known = Attributes::load(self.pool, folder, &self.setup.settings())?;
        let Some(mut entries) = known.map(|known| known.entries) else { return Ok(None) };
        let entry = entries.remove(word);
        if entry.is_some() {
            self.put_attributes(&Entries::from([(folder.to_owned(), entries)]), report);
        }
        Ok(entry)
    }

    /// Replaces the attributes of folders.
    pub fn put_attributes(&self, folders: &Entries, report: &mut Report) {
        let mut new = Vec::new();
        for (folder, entries) in folders {
            match Attributes::of(entries.clone()).to_bytes(folder) {
                Ok(text) => new.push((folder, attributes_in(folder), text)),
                Err(failure) => report.fail(&format!("attributes of {folder}/"), &failure),
            }
        }
        for new in new.chunks(TOGETHER) {
            let mut sources: Vec<_> = new
                .iter()
                .map(|(_, _, text)| StreamSource::new(&text[..]).with_size(text.len() as u64))
                .collect();
            let puts = new.iter().zip(&mut sources).map(|((_, name, _), source)| {
                let req = PutRequest { name, run: fresh_run(), now_ms: now_ms(), replace: true };
                (req, source as &mut dyn Source)
            });
            let fail = |report: &mut Report, folder: &str, failure: &Failure| {
                report.fail(&format!("attributes of {folder}/"), failure);
            };
            match self.pool.put_all(puts.collect(), &self.setup.settings()) {
                Ok(ends) => {
                    for ((folder, _, _), end) in new.iter().zip(ends) {
                        let _ = end.map_err(|error| fail(report, folder, &error.into()));
                    }
                }
                Err(error) => {
                    let failure = Failure::from(error);
                    new.iter().for_each(|(folder, _, _)| fail(report, folder, &failure));
                }
            }
        }
    }

    /// Names of all objects in a folder, attributes too.
    pub fn all_in(&self, folder: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        self.index.each(&format!("{folder}/"), None, |listed| {
            names.push(listed.name);
            Ok(true)
        })?;
        // Attributes go last: until then the folder is known as one.
        names.sort_by_key(|name| is_attributes(name));
        Ok(names)
    }
}
