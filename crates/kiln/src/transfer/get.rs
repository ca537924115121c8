//! Objects as files below a folder, with what is recorded of them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use kiln_pool::GetRequest;
use kiln_stripe::{Observer, Quiet, Settings};

use super::attributes::Entry;
use super::local_tree::{resolved, split};
use super::pool_tree::{Listing, PoolTree};
use super::raw_names::{path_of, to_file};
use super::{Report, Transfer, at_once, records::entry_of, together};
use crate::exit::{Failure, Result};
use crate::setup::{Output, OutputBatch, OutputTarget, OutputTree, is_plain, open_together};

/// Most files that are written together: beside them shards are open that they are read from.
const OUTPUTS: usize = 384;

/// An object that is to become a file.
pub struct Item<'l> {
    pub name: &'l str,
    /// The file's name below the folder; the whole path where there is none.
    pub inside: PathBuf,
    pub object: &'l Listing,
}

/// Destination of objects: below a folder, or one file that is named itself.
pub enum Destination {
    Below(OutputTree),
    File(PathBuf),
}

/// The name of an object below the folder that it is copied with; `None` for names that no file
/// can have.
pub fn inside<'n>(prefix: &str, name: &'n str) -> Option<&'n str> {
    let inside = name.strip_prefix(prefix).unwrap_or(name).trim_start_matches('/');
    let inside = if inside.is_empty() { split(name).1 } else { inside };
    (is_plain(inside) && to_file(inside).is_some()).then_some(inside)
}

impl Transfer<'_> {
    /// Gets objects as files; returns the names of those that were copied.
    pub fn get<'i>(
        &self,
        items: &[Item<'i>],
        to: &Destination,
        report: &mut Report,
    ) -> BTreeSet<&'i str> {
        let mut copied = BTreeSet::new();
        self.setup.observer.begin("copy", Some(items.iter().map(|item| item.object.bytes).sum()));
        let whole = Quiet(&self.setup.observer);
        let settings = Settings { observer: &whole, ..self.setup.settings() };
        let most = open_together(OUTPUTS);
        for items in together(items, |item| item.object.bytes).flat_map(|i| i.chunks(most)) {
            let alone = items.len() == 1;
            let settings = Settings {
                threads: if alone { settings.threads } else { 1 },
                memory: settings.memory / items.len() as u64,
                ..settings
            };
            for (item, end) in items.iter().zip(self.fetch_together(items, to, &settings)) {
                copied.extend(matches!(end, Ok(Some(_))).then_some(item.name));
                report.count(item.name, end);
            }
        }
        copied
    }

    /// Gets objects below a folder, and gives files that have several names the others of these. A
    /// name whose first one was not copied gets a file of its own.
    pub fn fetch_with_links(
        &self,
        items: Vec<Item<'_>>,
        links: Vec<(Item<'_>, Item<'_>)>,
        to: &Destination,
        report: &mut Report,
    ) {
        let asked: BTreeSet<&str> = items.iter().map(|item| item.name).collect();
        let copied = self.get(&items, to, report);
        let mut alone = Vec::new();
        for (item, first) in links {
            let is_there = !asked.contains(first.name) || copied.contains(first.name);
            let linked = match to {
                Destination::Below(tree) if is_there => self.link(tree, &item, &first),
                _ => false,
            };
            match linked {
                true => report.count(item.name, Ok(Some(0))),
                false => alone.push(item),
            }
        }
        self.get(&alone, to, report);
    }

    /// Gives the folder that objects were copied into, where it was made for them, the metadata of
    /// the one in the pool.
    pub fn set_root(&self, tree: &OutputTree, prefix: &str, report: &mut Report) {
        let entry = entry_of(self.pool, prefix, &self.setup.settings());
        let entry = entry.unwrap_or_else(|failure| {
            report.fail(&format!("attributes of {prefix}/"), &failure);
            None
        });
        let entry = entry.filter(|entry| matches!(entry, Entry::Folder { .. }));
        if let Err(source) = tree.set_root(entry.and_then(|entry| entry.kept())) {
            let path = tree.path().to_owned();
            report.fail(prefix, &Failure::Io { action: "set mode of", path, source });
        }
    }

    /// Gives a file another name; `false`: it has to be copied, or reported why not.
    fn link(&self, tree: &OutputTree, item: &Item<'_>, first: &Item<'_>) -> bool {
        let is_free = self.force || tree.is_free(&item.inside);
        is_free && tree.hard_link_over(&first.inside, &item.inside).is_ok()
    }

    /// Gets objects at once; returns their bytes, nothing for those that are left out.
    fn fetch_together(
        &self,
        items: &[Item<'_>],
        to: &Destination,
        settings: &Settings<'_>,
    ) -> Vec<Result<Option<u64>>> {
        let roots: BTreeSet<PathBuf> = match to {
            Destination::Below(tree) => [tree.path().to_owned()].into(),
            Destination::File(_) => BTreeSet::new(),
        };
        let batch = OutputBatch::before(items.len(), &roots);
        let (mut ends, mut outputs) = (Vec::new(), Vec::new());
        for (at, opened) in at_once(items, |item| self.output(item, to)).into_iter().enumerate() {
            ends.push(opened.map(|output| {
                outputs.extend(output.map(|output| (at, output)));
                None
            }));
        }
        let name = |at: usize| items[at].object.past.as_deref().unwrap_or(items[at].name);
        let request = |at: usize| GetRequest { name: name(at), range: None };
        let gets = outputs.iter_mut().map(|(at, output)| (request(*at), output)).collect();
        let got = self.pool.reader().read_all(gets, settings).unwrap_or_else(|_| {
            // A failure of one of them, or of all, is reported for each.
            let get =
                |(at, output): &mut (usize, Output)| self.pool.get(&request(*at), output, settings);
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
        for ((at, bytes), end) in read.into_iter().zip(batch.finish(written)) {
            ends[at] = end.map(|()| Some(bytes));
        }
        ends
    }

    /// Opens where an object goes; `None` when it is left out.
    fn output(&self, item: &Item<'_>, to: &Destination) -> Result<Option<Output>> {
        let bytes = item.object.bytes;
        let output = match to {
            Destination::Below(tree) => Output::below(tree, &item.inside, self.force, bytes),
            Destination::File(path) => {
                Output::sized(&OutputTarget::File(path.clone()), self.force, bytes)
            }
        };
        match output {
            Err(Failure::Exists { .. }) if self.skip => Ok(None),
            output => Ok(Some(match item.object.entry.as_ref().and_then(Entry::kept) {
                Some(kept) => output?.with(kept),
                None => output?,
            })),
        }
    }
}

/// Objects that are further names of a file, and the first one of each.
pub fn hard_links(tree: &PoolTree) -> BTreeMap<&str, (&str, &Listing)> {
    let mut firsts: BTreeMap<String, (&str, &Listing)> = BTreeMap::new();
    let mut links = BTreeMap::new();
    for (name, object) in &tree.objects {
        let Some(entry) = &object.entry else { continue };
        let first = entry.link().and_then(|first| resolved(split(name).0, first));
        let Some(first) = first else { continue };
        match firsts.get(&first) {
            None => drop(firsts.insert(first, (name, object))),
            // They are what was recorded of one file.
            Some((of, known)) => {
                let same = known.entry.as_ref().is_some_and(|k| k.looks_like(entry, false));
                if same && known.bytes == object.bytes {
                    links.insert(&name[..], (*of, *known));
                }
            }
        }
    }
    links
}

/// Links and folders that are to be made, by their names below the folder.
pub type Others<'a> = BTreeMap<PathBuf, &'a Entry>;

/// Makes links and folders. A link replaces something else with `replace`, and leaves it with
/// `skip`.
pub fn write_others(
    tree: &OutputTree,
    others: &Others<'_>,
    replace: bool,
    skip: bool,
    report: &mut Report,
) {
    for (inside, entry) in others {
        let path = tree.path().join(inside);
        let made = match entry {
            Entry::Folder { .. } => tree.folder(inside, true).map(drop),
            Entry::Link { target, .. } => match tree.read_link(inside) {
                Ok(Some(there)) if there == path_of(target) => Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    tree.link(inside, path_of(target).as_ref())
                }
                Ok(_) if replace => tree.link(inside, path_of(target).as_ref()),
                Ok(_) if skip => Ok(()),
                Ok(_) => {
                    let name = path.display().to_string();
                    report.fail(&name, &Failure::Exists { path });
                    continue;
                }
                Err(error) => Err(error),
            },
            Entry::File { .. } => Ok(()),
        };
        match made {
            Ok(()) if matches!(entry, Entry::Link { .. }) => {
                tree.set_owner_of_link(inside, entry.owner());
            }
            Ok(()) => {}
            Err(source) => {
                let name = path.display().to_string();
                report.fail(&name, &Failure::Io { action: "make", path, source });
            }
        }
    }
}

/// A folder for outputs, made where it is absent.
pub fn created(path: &Path) -> Result<OutputTree> {
    let failed = |source| Failure::Io { action: "create", path: path.to_owned(), source };
    OutputTree::open(path).map_err(failed)
}

/// Gives files and folders their modes and times; folders last, and inner ones first, since what is
/// made in a folder changes its time.
pub fn set_all(tree: &OutputTree, entries: &Others<'_>, report: &mut Report) {
    let mut order: Vec<(&PathBuf, &&Entry)> = entries.iter().collect();
    order.sort_by_key(|(inside, entry)| {
        let is_folder = matches!(entry, Entry::Folder { .. });
        (is_folder, std::cmp::Reverse(inside.components().count()))
    });
    for (inside, entry) in order {
        let Some(kept) = entry.kept() else { continue };
        if let Err(source) = tree.set(Path::new(inside), &kept) {
            let path = tree.path().join(inside);
            let name = path.display().to_string();
            report.fail(&name, &Failure::Io { action: "set mode of", path, source });
        }
    }
}

/// An object that no file can be named after.
pub fn no_file_name(name: &str) -> Failure {
    let problem = "no file can have this name; use kiln get NAME -o FILE".to_owned();
    Failure::NotUsable { path: name.into(), problem }
}
