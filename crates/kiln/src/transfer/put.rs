//! Files into a pool, and what is recorded of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use kiln_folders::{Folders, folders_of, is_attributes};
use kiln_pool::PutRequest;
use kiln_stripe::{Observer, PoolError, Quiet, Settings, Source};

use super::records::{Entries, add_entry};
use super::{Report, Transfer, at_once, refuse_reserved, together};
use super::{attributes::Entry, local_tree::LocalEntry};
use crate::exit::{Failure, Result};
use crate::setup::{fresh_run, input, now_ms};

/// A file that is to be put.
#[derive(Clone, Copy)]
struct Item<'l> {
    name: &'l str,
    local: &'l LocalEntry,
}

/// Times that files are read again which changed while they were read.
const AGAIN: usize = 2;

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
            self.find_free(items.iter().map(|item| item.name), &mut free);
            for (name, entry) in self.put_together(items, (&free, gone, AGAIN), &settings, report) {
                add_entry(entries, name, entry);
            }
        }
        // Those above what was copied, which get no attributes.
        let above = free.into_iter().filter(|name| !entries.contains_key(*name)).collect();
        Folders(self.pool).make_folders(fresh_run(), now_ms(), &above)?;
        Ok(())
    }

    /// Adds the folders of files that are no objects: asked once for many files.
    pub(super) fn find_free<'i>(
        &self,
        names: impl Iterator<Item = &'i str>,
        free: &mut BTreeSet<&'i str>,
    ) {
        let folders: BTreeSet<&str> = names.flat_map(folders_of).collect();
        let unknown: Vec<&str> = folders.into_iter().filter(|name| !free.contains(name)).collect();
        let asked = at_once(&unknown, |folder| self.pool.writer().has(folder));
        // A folder that could not be asked for is asked for again, and reported, for each file.
        let known = unknown.iter().zip(asked).filter(|(_, is)| matches!(is, Ok(false)));
        free.extend(known.map(|(folder, _)| *folder));
    }

    /// Puts files at once; returns those that were put, with what is recorded of them. Those that
    /// change meanwhile are read again.
    fn put_together<'i>(
        &self,
        items: &[Item<'i>],
        (free, gone, again): (&BTreeSet<&str>, &BTreeSet<String>, usize),
        settings: &Settings<'_>,
        report: &mut Report,
    ) -> Vec<(&'i str, Entry)> {
        let opened = at_once(items, |item| self.source(item, settings));
        let (mut sources, mut put, mut changed) = (Vec::new(), Vec::new(), Vec::new());
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
            (req, None, &mut **source as &mut dyn Source)
        });
        match self.pool.writer().put_all(puts.collect(), settings) {
            Ok(done) => {
                for ((item, _, entry), end) in sources.iter().zip(done) {
                    if again > 0 && matches!(end, Err(PoolError::Changed { .. })) {
                        changed.push(**item);
                        continue;
                    }
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
        if !changed.is_empty() {
            put.extend(self.put_together(&changed, (free, gone, again - 1), settings, report));
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
