//! Objects as files below a folder, with what is recorded of them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use kiln_pool::GetRequest;
use kiln_stripe::{Observer, Settings};

use super::attributes::Entry;
use super::pool_tree::Listing;
use super::{Report, Transfer, Whole, at_once, together};
use crate::exit::Failure;
use crate::setup::{Output, OutputBatch, OutputTarget, OutputTree, is_plain};

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
pub fn inside(prefix: &str, name: &str) -> Option<PathBuf> {
    let inside = name.strip_prefix(prefix).unwrap_or(name).trim_start_matches('/');
    let inside = if inside.is_empty() { super::local_tree::split(name).1 } else { inside };
    is_plain(inside).then(|| inside.into())
}

impl Transfer<'_> {
    /// Gets objects as files.
    pub fn get(&self, items: &[Item<'_>], to: &Destination, report: &mut Report) {
        self.setup.observer.begin("copy", Some(items.iter().map(|item| item.object.bytes).sum()));
        let whole = Whole(&self.setup.observer);
        let settings = Settings { observer: &whole, ..self.setup.settings() };
        for items in together(items, |item| item.object.bytes).flat_map(|i| i.chunks(OUTPUTS)) {
            let alone = items.len() == 1;
            let settings = Settings {
                threads: if alone { settings.threads } else { 1 },
                memory: settings.memory / items.len() as u64,
                ..settings
            };
            for (item, end) in items.iter().zip(self.fetch_together(items, to, &settings)) {
                report.count(item.name, end);
            }
        }
    }

    /// Gets objects at once; returns their bytes, nothing for those that are left out.
    fn fetch_together(
        &self,
        items: &[Item<'_>],
        to: &Destination,
        settings: &Settings<'_>,
    ) -> Vec<Result<Option<u64>, Failure>> {
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
        let request = |at: usize| GetRequest { name: items[at].name, range: None };
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
    fn output(&self, item: &Item<'_>, to: &Destination) -> Result<Option<Output>, Failure> {
        let bytes = item.object.bytes;
        let output = match to {
            Destination::Below(tree) => Output::below(tree, &item.inside, self.force, bytes),
            Destination::File(path) => {
                Output::sized(&OutputTarget::File(path.clone()), self.force, bytes)
            }
        };
        match output {
            Err(Failure::Exists { .. }) if self.skip => Ok(None),
            output => Ok(Some(match item.object.entry.as_ref().and_then(Entry::mode_and_time) {
                Some((mode, time)) => output?.with(mode, time),
                None => output?,
            })),
        }
    }
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
            Entry::Link { target } => match tree.read_link(inside) {
                Ok(Some(there)) if there == target[..] => Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    tree.link(inside, target.as_ref())
                }
                Ok(_) if replace => tree.link(inside, target.as_ref()),
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
        if let Err(source) = made {
            let name = path.display().to_string();
            report.fail(&name, &Failure::Io { action: "make", path, source });
        }
    }
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
        let Some((mode, time)) = entry.mode_and_time() else { continue };
        if let Err(source) = tree.set(Path::new(inside), mode, time) {
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
