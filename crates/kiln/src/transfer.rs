//! Many files at once between folders and pools: what `cp`, `sync` and `mv` share.

pub mod attributes;
pub mod local_tree;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use kiln_pool::{
    FileSource, GetRequest, Index, Observer, Pool, PoolError, PutRequest, Settings, Source,
    StreamSource, attributes_in, folders_of, in_parallel, is_attributes,
};
use serde::Serialize;

use self::attributes::{Attributes, Entry, time_of};
use self::local_tree::{LocalFile, LocalTree, joined, split};
use crate::exit::{Exit, Failure};
use crate::print::{Stream, count, pace};
use crate::setup::{Output, OutputBatch, OutputTarget, Setup, fresh_run, now_ms};
use crate::sizes;

/// Marks the side that is in the pool.
pub const MARK: &str = "pool:";
/// Failures listed one by one; the rest is counted.
const MAX_TOLD: usize = 50;
/// Most files that are copied together, and most bytes of them; a larger one is copied alone. Small
/// ones wait for disks most of the time: together they wait once. All of them are open meanwhile,
/// and many systems allow 1,024.
const TOGETHER: usize = 768;
const TOGETHER_BYTES: u64 = 16 << 20;
/// Most files that are written together: beside them shards are open that they are read from.
const OUTPUTS: usize = 384;

/// Report of a copy, or (dry run) of what it would do.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
    copied: u64,
    bytes: u64,
    pub skipped: u64,
    pub removed: u64,
    pub failed: u64,
    failures: Vec<String>,
    left_out: Vec<String>,
    /// Steps of `kiln sync` and their reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    pub seconds: f64,
}

impl Report {
    /// Of nothing yet.
    pub fn new(dry_run: bool) -> Report {
        Report { dry_run, ..Report::default() }
    }

    /// Counts what became of one file or object: copied bytes, or nothing when it was left out.
    fn count(&mut self, name: &str, outcome: Result<Option<u64>, Failure>) {
        match outcome {
            Ok(Some(bytes)) => {
                self.copied += 1;
                self.bytes += bytes;
            }
            Ok(None) => self.skipped += 1,
            Err(failure) => self.fail(name, &failure),
        }
    }

    /// Counts what a run that is not dry would copy, and what it would leave out.
    pub fn would_copy(&mut self, sizes: impl Iterator<Item = u64>, left_out: Vec<String>) {
        sizes.for_each(|bytes| {
            self.copied += 1;
            self.bytes += bytes;
        });
        self.left_out.extend(left_out);
    }

    pub fn fail(&mut self, name: &str, failure: &Failure) {
        self.failed += 1;
        if self.failures.len() < MAX_TOLD {
            self.failures.push(format!("{name}: {failure}"));
        }
    }

    /// Prints warnings and the sum; returns the exit code.
    pub fn end(mut self, setup: &Setup) -> Result<Exit, Failure> {
        setup.observer.finish();
        self.seconds = setup.seconds();
        self.failures.iter().for_each(|failure| setup.observer.warn(failure));
        self.left_out.iter().for_each(|what| setup.observer.warn(&format!("left out: {what}")));
        if setup.json {
            Stream::Stdout.json(&self)?;
        } else if !setup.quiet {
            let mut text: String = self.steps.iter().map(|step| format!("{step}\n")).collect();
            let copied = count(self.copied, "file");
            let would = if self.dry_run { "would be " } else { "" };
            text += &format!("{copied} {would}copied, {}", sizes::show(self.bytes));
            let removed = format!("{would}removed");
            let others = [
                (self.skipped, "skipped"),
                (self.removed, &removed[..]),
                (self.left_out.len() as u64, "LEFT OUT"),
                (self.failed, "FAILED"),
            ];
            for (number, word) in others.into_iter().filter(|(number, _)| *number > 0) {
                text += &format!("; {number} {word}");
            }
            text += "\n";
            if !self.dry_run {
                text += &format!("{}\n", pace(self.bytes, self.seconds));
            }
            Stream::Stdout.text(&text)?;
        }
        Ok(if self.failed > 0 { Exit::Io } else { Exit::Done })
    }
}

/// Progress of many objects as one.
struct Whole<'a>(&'a dyn Observer);

impl Observer for Whole<'_> {
    fn advance(&self, bytes: u64) {
        self.0.advance(bytes);
    }

    fn warn(&self, message: &str) {
        self.0.warn(message);
    }
}

/// A file, or an object, that is to be copied.
pub struct Item {
    /// The object's name.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    pub bytes: u64,
    /// Version of the object, where it is the source.
    pub version: u64,
}

impl Item {
    /// All of its object.
    fn request(&self) -> GetRequest<'_> {
        GetRequest { name: &self.name, range: None }
    }

    /// Returns the folder of its file.
    fn folder(&self) -> &Path {
        let folder = self.path.parent().filter(|folder| *folder != Path::new(""));
        folder.unwrap_or(Path::new("."))
    }
}

impl From<LocalFile> for Item {
    fn from(found: LocalFile) -> Item {
        Item { name: found.name, path: found.path, bytes: found.bytes, version: 0 }
    }
}

/// Copying between a pool and this machine.
pub struct Transfer<'a> {
    pub pool: &'a Pool,
    pub index: &'a Index,
    pub setup: &'a Setup,
    /// Replace what is there.
    pub force: bool,
    /// Leave what is there.
    pub skip: bool,
    /// Attributes of folders of the pool, as far as they were needed.
    known: Mutex<BTreeMap<String, Attributes>>,
}

impl<'a> Transfer<'a> {
    pub fn new(
        pool: &'a Pool,
        index: &'a Index,
        setup: &'a Setup,
        force: bool,
        skip: bool,
    ) -> Transfer<'a> {
        Transfer { pool, index, setup, force, skip, known: Mutex::default() }
    }

    /// Objects at or below a name, attributes apart, and the folders that have attributes.
    pub fn listed(&self, prefix: &str) -> Result<(Vec<Listing>, Vec<String>), Failure> {
        let below = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
        let (mut objects, mut folders) = (Vec::new(), Vec::new());
        self.index.each(prefix, None, |listed| {
            let inside = listed.name == prefix || listed.name.starts_with(&below);
            if inside && is_attributes(&listed.name) {
                folders.push(split(&listed.name).0.to_owned());
            } else if inside && !listed.name.starts_with(kiln_volume::OBJECTS) {
                let (bytes, version) = (listed.size, listed.version);
                objects.push(Listing { name: listed.name, bytes, version, put: listed.created_ms });
            }
            Ok(true)
        })?;
        Ok((objects, folders))
    }

    /// Returns whether objects have names in this folder.
    pub fn is_folder(&self, name: &str) -> Result<bool, Failure> {
        Ok(self.index.first_in(name)?.is_some())
    }

    /// Returns the metadata of a file, if recorded for this version of its object.
    pub fn entry(&self, name: &str, version: u64) -> Result<Option<Entry>, Failure> {
        let (folder, word) = split(name);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains_key(folder) {
            let read = Attributes::load(self.pool, folder, &self.setup.settings())?;
            known.insert(folder.to_owned(), read.unwrap_or_default());
        }
        let entry = known.get(folder).and_then(|all| all.entries.get(word)).cloned();
        Ok(entry.filter(|entry| matches!(entry, Entry::File { object, .. } if *object == version)))
    }

    /// Puts files, and what is known of them, of folders and of links.
    ///
    /// # Errors
    /// Only what ends all: a failure of one file is in the report.
    pub fn put(&self, walked: LocalTree, report: &mut Report) -> Result<(), Failure> {
        let items: Vec<Item> = walked.files.into_iter().map(Item::from).collect();
        report.left_out.extend(walked.left_out);
        self.setup.observer.begin("copy", Some(items.iter().map(|item| item.bytes).sum()));
        let whole = Whole(&self.setup.observer);
        let settings = Settings { observer: &whole, ..self.setup.settings() };
        let mut folders: BTreeMap<String, BTreeMap<String, Entry>> = BTreeMap::new();
        let mut free = BTreeSet::new();
        for items in together(&items) {
            self.find_free(items, &mut free);
            for (item, version) in self.put_together(items, &free, &settings, report) {
                if let Ok(meta) = item.path.metadata() {
                    let (folder, word) = split(&item.name);
                    let entries = folders.entry(folder.to_owned()).or_default();
                    entries.insert(word.to_owned(), Entry::of(&meta, version));
                }
            }
        }
        for (folder, word, entry) in walked.others {
            folders.entry(folder).or_default().insert(word, entry);
        }
        // Those above what was copied, which get no attributes.
        let above = free.into_iter().filter(|name| !folders.contains_key(*name)).collect();
        self.pool.make_folders(fresh_run(), now_ms(), &above)?;
        self.put_attributes(&folders.into_iter().collect::<Vec<_>>(), &settings, report);
        Ok(())
    }

    /// Adds the folders of files that are no objects: asked once for many files.
    fn find_free<'i>(&self, items: &'i [Item], free: &mut BTreeSet<&'i str>) {
        let folders: BTreeSet<&str> =
            items.iter().flat_map(|item| folders_of(&item.name)).collect();
        let unknown: Vec<&str> = folders.into_iter().filter(|name| !free.contains(name)).collect();
        let asked = at_once(&unknown, |folder| self.pool.has(folder));
        // What failed is asked again, and said, for each of its files.
        let known = unknown.iter().zip(asked).filter(|(_, is)| matches!(is, Ok(false)));
        free.extend(known.map(|(folder, _)| *folder));
    }

    /// Adds what is known of entries to the attributes of their folders.
    fn put_attributes(
        &self,
        folders: &[(String, BTreeMap<String, Entry>)],
        settings: &Settings<'_>,
        report: &mut Report,
    ) {
        let fail = |report: &mut Report, folder: &str, failure: &Failure| {
            report.fail(&format!("attributes of {folder}/"), failure);
        };
        for folders in folders.chunks(TOGETHER) {
            let texts = at_once(folders, |(folder, entries)| {
                Attributes::with(self.pool, folder, entries, settings)
            });
            let mut new = Vec::new();
            for ((folder, _), text) in folders.iter().zip(texts) {
                match text {
                    Ok(Some(text)) => new.push((folder, attributes_in(folder), text)),
                    Ok(None) => {}
                    Err(failure) => fail(report, folder, &failure),
                }
            }
            let mut sources: Vec<_> = new
                .iter()
                .map(|(_, _, text)| StreamSource::new(&text[..]).with_size(text.len() as u64))
                .collect();
            let puts = new.iter().zip(&mut sources).map(|((_, name, _), source)| {
                let req = PutRequest { name, run: fresh_run(), now_ms: now_ms(), replace: true };
                (req, source as &mut dyn Source)
            });
            match self.pool.put_all(puts.collect(), settings) {
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

    /// Puts files at once; gives those that were put, with the versions of their objects.
    fn put_together<'i>(
        &self,
        items: &'i [Item],
        free: &BTreeSet<&str>,
        settings: &Settings<'_>,
        report: &mut Report,
    ) -> Vec<(&'i Item, u64)> {
        let opened = at_once(items, |item| self.source(item, settings));
        let (mut sources, mut put) = (Vec::new(), Vec::new());
        for (item, source) in items.iter().zip(opened) {
            let nested = || Ok(self.pool.refuse_nested_but(free, Some(self.index), &item.name)?);
            match source.and_then(|source| nested().map(|()| source)) {
                Ok(Some(source)) => sources.push((item, source)),
                Ok(None) => report.count(&item.name, Ok(None)),
                Err(failure) => report.fail(&item.name, &failure),
            }
        }
        let puts = sources.iter_mut().map(|(item, source)| {
            let name = &item.name[..];
            let req = PutRequest { name, run: fresh_run(), now_ms: now_ms(), replace: self.force };
            (req, source as &mut dyn Source)
        });
        match self.pool.put_all(puts.collect(), settings) {
            Ok(done) => {
                for ((item, _), end) in sources.iter().zip(done) {
                    if let Ok(end) = &end {
                        put.push((*item, end.version));
                    }
                    report.count(&item.name, end.map(|e| Some(e.size)).map_err(Failure::from));
                }
            }
            Err(error) => {
                let failure = Failure::from(error);
                sources.iter().for_each(|(item, _)| report.fail(&item.name, &failure));
            }
        }
        put
    }

    /// Opens a file that is to be put; `None` when it is left out.
    fn source(&self, item: &Item, settings: &Settings<'_>) -> Result<Option<FileSource>, Failure> {
        let path = &item.path;
        let failed = |source| Failure::Io { action: "open", path: path.clone(), source };
        let source = FileSource::open(path).map_err(failed)?;
        if self.skip {
            match self.pool.manifest(&item.name) {
                Ok(manifest) => {
                    settings.observer.advance(manifest.size);
                    return Ok(None);
                }
                Err(PoolError::NoObject { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Some(source))
    }

    /// Gets objects as files, with what is known of them.
    pub fn get(&self, items: &[Item], report: &mut Report) -> Result<(), Failure> {
        self.setup.observer.begin("copy", Some(items.iter().map(|item| item.bytes).sum()));
        let whole = Whole(&self.setup.observer);
        let settings = Settings { observer: &whole, ..self.setup.settings() };
        for items in together(items).flat_map(|items| items.chunks(OUTPUTS)) {
            let alone = items.len() == 1;
            let settings = Settings {
                threads: if alone { settings.threads } else { 1 },
                memory: settings.memory / items.len() as u64,
                ..settings
            };
            for (item, end) in items.iter().zip(self.fetch_together(items, &settings)) {
                if let (Ok(Some(_)), Some(entry)) = (&end, self.entry(&item.name, item.version)?) {
                    let path = item.path.clone();
                    let failed = |source| Failure::Io { action: "set mode of", path, source };
                    if let Err(failure) = entry.apply(&item.path).map_err(failed) {
                        self.setup.observer.warn(&failure.to_string());
                    }
                }
                report.count(&item.name, end);
            }
        }
        Ok(())
    }

    /// Makes links and empty folders, and gives folders their modes and times, which copies into
    /// them change.
    pub fn write_others(&self, prefix: &str, folders: &[String], to: &Path) -> Result<(), Failure> {
        let mut last = Vec::new();
        for folder in folders {
            let Some(all) = Attributes::load(self.pool, folder, &self.setup.settings())? else {
                continue;
            };
            let inside = folder.strip_prefix(prefix).unwrap_or(folder).trim_start_matches('/');
            for (word, entry) in all.entries {
                let plain = !word.contains('/') && word != ".." && word != "." && !word.is_empty();
                let path = to.join(inside).join(&word);
                let failed = |source| Failure::Io { action: "make", path: path.clone(), source };
                match &entry {
                    // An object of the name takes precedence.
                    Entry::Folder { .. } if plain && (path.is_dir() || !path.exists()) => {
                        fs::create_dir_all(&path).map_err(failed)?;
                        last.push((path, entry));
                    }
                    Entry::Link { .. } if plain => {
                        fs::create_dir_all(to.join(inside)).map_err(failed)?;
                        entry.link(&path).map_err(failed)?;
                    }
                    _ => {}
                }
            }
        }
        // What is inside first.
        last.sort_by_key(|(path, _)| std::cmp::Reverse(path.components().count()));
        for (path, entry) in last {
            let failed = |source| Failure::Io { action: "set mode of", path: path.clone(), source };
            entry.apply(&path).map_err(failed)?;
        }
        Ok(())
    }

    /// Gets objects at once; gives their bytes, nothing for those that are left out.
    fn fetch_together(
        &self,
        items: &[Item],
        settings: &Settings<'_>,
    ) -> Vec<Result<Option<u64>, Failure>> {
        let folders: BTreeSet<PathBuf> =
            items.iter().map(|item| item.folder().to_owned()).collect();
        // What is in the way of one is said for each file below it.
        at_once(&Vec::from_iter(&folders), |folder| fs::create_dir_all(folder));
        let together = OutputBatch::before(items.len(), &folders);
        let (mut ends, mut outputs) = (Vec::new(), Vec::new());
        for (at, opened) in at_once(items, |item| self.output(item)).into_iter().enumerate() {
            ends.push(opened.map(|output| {
                outputs.extend(output.map(|output| (at, output)));
                None
            }));
        }
        let gets = outputs.iter_mut().map(|(at, output)| (items[*at].request(), output)).collect();
        let got = self.pool.read_all(gets, settings).unwrap_or_else(|_| {
            // What is wrong with one of them, or with all, is said for each.
            let get = |(at, output): &mut (usize, Output)| {
                self.pool.get(&items[*at].request(), output, settings)
            };
            outputs.iter_mut().map(get).collect()
        });
        let (mut read, mut written) = (Vec::new(), Vec::new());
        for ((at, output), got) in outputs.into_iter().zip(got) {
            let end = got.map_err(Failure::from);
            match end.and_then(|got| Ok((got.bytes_written, output.written()?))) {
                Ok((bytes, output)) => {
                    read.push((at, bytes));
                    written.push(output);
                }
                Err(failure) => ends[at] = Err(failure),
            }
        }
        for ((at, bytes), end) in read.into_iter().zip(together.finish(written)) {
            ends[at] = end.map(|()| Some(bytes));
        }
        ends
    }

    /// Opens where an object goes; `None` when it is left out.
    fn output(&self, item: &Item) -> Result<Option<Output>, Failure> {
        let path = &item.path;
        if self.skip && path.exists() {
            return Ok(None);
        }
        let folder = item.folder();
        fs::create_dir_all(folder).map_err(|source| Failure::Io {
            action: "create",
            path: folder.to_owned(),
            source,
        })?;
        Output::sized(&OutputTarget::File(path.to_owned()), self.force, item.bytes).map(Some)
    }
}

/// An object, as far as copies want to know it.
pub struct Listing {
    pub name: String,
    pub bytes: u64,
    pub version: u64,
    /// When it was put, in ms since 1970.
    pub put: u64,
}

/// Returns whether a file has the recorded time.
pub fn same_time(path: &Path, entry: &Entry) -> bool {
    let Entry::File { time, .. } = entry else { return false };
    path.metadata().is_ok_and(|meta| time_of(&meta) == *time)
}

/// The path of an object below a folder of this machine.
pub fn path_below(to: &Path, prefix: &str, name: &str) -> PathBuf {
    let inside = name.strip_prefix(prefix).unwrap_or(name).trim_start_matches('/');
    match inside.is_empty() {
        true => to.join(split(name).1),
        false => to.join(inside),
    }
}

/// The name of a file that is copied to a place of the pool, by the conventions of `cp`: into it
/// where it is a folder, or is written as one.
pub fn name_of_file(transfer: &Transfer<'_>, path: &Path, to: &str) -> Result<String, Failure> {
    let folder = to.trim_end_matches('/');
    let word = path.file_name().and_then(|word| word.to_str());
    if to.is_empty() || to.ends_with('/') || transfer.is_folder(folder)? {
        let Some(word) = word else {
            let problem = "its name is not UTF-8; give the object's name".to_owned();
            return Err(Failure::NotUsable { path: path.to_owned(), problem });
        };
        return Ok(joined(folder, word));
    }
    Ok(to.to_owned())
}

/// Items that are copied together, in order.
fn together(items: &[Item]) -> impl Iterator<Item = &[Item]> {
    let mut rest = items;
    iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |item: &&Item| {
            bytes += item.bytes;
            bytes <= TOGETHER_BYTES
        };
        let count = rest.iter().take(TOGETHER).take_while(fits).count().max(1);
        let (now, later) = rest.split_at_checked(count)?;
        rest = later;
        Some(now)
    })
}

/// Does something for each item, many at a time; results come in their order.
fn at_once<T: Sync, R: Send>(items: &[T], body: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let done = in_parallel(None, items.iter().collect(), |_, item| Ok::<_, Infallible>(body(item)));
    done.unwrap_or_else(|never| match never {})
}
