//! `kiln sync`

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::path::Path;

use clap::Args;
use kiln_folders::{attributes_in, folders_of};
use kiln_pool::GetRequest;
use kiln_stripe::PoolError;

use crate::args::with_exit_codes;
use crate::exit::{Exit, Failure};
use crate::setup::{OutputTree, PoolFlags, Setup, local};
use crate::transfer::attributes::{Entry, same_time};
use crate::transfer::get::{
    Destination, Item, Others, hard_links, inside, no_file_name, set_all, write_others,
};
use crate::transfer::local_tree::{LocalEntry, LocalTree, resolved, split};
use crate::transfer::pool_tree::{Listing, PoolTree};
use crate::transfer::put::{Entries, add_entry};
use crate::transfer::raw_names::path_of;
use crate::transfer::{MARK, Report, Transfer, refuse_reserved};

const EXAMPLES: &str = "\
Examples:
  kiln sync photos pool:photos --dry-run       what would be copied, and why
  kiln sync photos pool:photos                 what is new, or has another size or time
  kiln sync photos pool:photos --checksum      reads everything on both sides and compares it
  kiln sync photos pool:photos --delete        also removes what is not in photos any more
  kiln sync pool:photos photos                 the other way";

/// Printed at an interrupt.
pub const INTERRUPTED: &str = "copies so far stay; rerun to go on";

/// Copy into a folder what another one has, and the first has not or has otherwise
///
/// One of the two is in the pool. A file is taken for the same where its size and its time of
/// change are those that were recorded when it was copied; where none is recorded, when the object
/// is newer than the file. An interrupted sync goes on when the same command is given again.
#[derive(Debug, Args)]
#[command(after_help = with_exit_codes(EXAMPLES))]
pub struct Sync {
    /// A folder, or pool:FOLDER
    from: String,

    /// pool:FOLDER, or a folder
    to: String,

    /// Copy nothing; say what would be copied or removed, and why
    #[arg(long)]
    dry_run: bool,

    /// Files of one size are the same
    #[arg(long, conflicts_with = "checksum")]
    size_only: bool,

    /// Compare all bytes, whatever sizes and times say
    #[arg(long)]
    checksum: bool,

    /// Also remove what the source does not have
    #[arg(long)]
    delete: bool,

    /// Refuse to remove more than N files. Without this flag an empty source removes none
    #[arg(long, value_name = "N", requires = "delete")]
    max_delete: Option<usize>,

    #[command(flatten)]
    pool: PoolFlags,
}

impl Sync {
    pub fn run(self, setup: &Setup) -> Result<Exit, Failure> {
        let pool = self.pool.open(setup)?;
        let index = self.pool.index_to_list(&pool, setup)?;
        let transfer = Transfer { pool: &pool, index: &index, setup, force: true, skip: false };
        let report = match (self.from.strip_prefix(MARK), self.to.strip_prefix(MARK)) {
            (None, Some(to)) => self.put(&transfer, folder(&self.from)?, to)?,
            (Some(from), None) => self.get(&transfer, from, local(self.to.as_ref())?)?,
            _ => {
                let problem =
                    "exactly one of the two folders must be in the pool; write it as pool:FOLDER"
                        .into();
                return Err(Failure::Flag { flag: "TO", problem });
            }
        };
        report.end(setup)
    }
}

/// A folder that must be there: an absent one (a disk that is not mounted) is not an empty one.
fn folder(path: &str) -> Result<&Path, Failure> {
    let path = local(path.as_ref())?;
    match path.is_dir() {
        true => Ok(path),
        false => {
            let problem = format!("{} is not a folder; use kiln cp for files", path.display());
            Err(Failure::Flag { flag: "FROM", problem })
        }
    }
}

/// A difference between an entry of the source and that of its name in the target.
enum Difference {
    /// The data, which are copied.
    Data(&'static str),
    /// Mode or time alone.
    Attributes(&'static str),
}

impl Sync {
    fn put(&self, transfer: &Transfer<'_>, from: &Path, to: &str) -> Result<Report, Failure> {
        let mut report = Report::new(self.dry_run);
        let prefix = to.trim_matches('/');
        if !prefix.is_empty() {
            refuse_reserved(prefix)?;
        }
        let mut source = LocalTree::new(from, prefix, self.pool.own_paths(transfer.pool));
        let has_data = source.has_data();
        report.add_local(&mut source);
        let mut target = PoolTree::new(transfer, prefix)?;
        report.add_pool(&mut target);
        let mut plan = PutPlan::default();
        self.plan_put(transfer, &source, &target, prefix, &mut plan, &mut report)?;
        let PutPlan { files, entries, gone, absent, links } = plan;
        self.check_removals(has_data, absent.len() + links + gone.len())?;
        gone.iter().for_each(|name| report.step("remove", name, "another kind in the source"));
        if self.dry_run {
            files.values().for_each(|local| report.would_copy(local.bytes));
        } else {
            transfer.remove(&gone, &mut report);
            let mut entries = entries;
            transfer.put(&files, &gone, &mut entries, &mut report)?;
            let replace = self.delete && report.is_whole();
            self.put_attributes(transfer, prefix, &target, entries, replace, &mut report);
        }
        // Nothing is known to be gone unless all could be read and copied.
        if self.delete && report.is_whole() {
            absent.iter().for_each(|name| report.step("remove", name, "not in the source"));
            if !self.dry_run {
                transfer.remove(&absent, &mut report);
            }
            report.removed += (absent.len() + links) as u64;
        }
        Ok(report)
    }

    /// Compares each entry of this machine with that of its name in the pool.
    fn plan_put<'p>(
        &self,
        transfer: &Transfer<'_>,
        source: &'p LocalTree,
        target: &PoolTree,
        prefix: &str,
        plan: &mut PutPlan<'p>,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let whole = report.is_whole();
        for (name, local) in &source.entries {
            if let Some(why) =
                self.in_the_way(transfer, target, name, local, whole, &mut plan.gone)?
            {
                report.fail(name, &why);
                continue;
            }
            let Entry::File { .. } = local.entry else {
                let there = target.others.get(name);
                let same = there.is_some_and(|there| local.entry.looks_like(there, false));
                if name != prefix && !same {
                    report.step("record", name, "new, or changed");
                }
                add_entry(&mut plan.entries, name, local.entry.clone());
                continue;
            };
            let object = target.objects.get(name);
            let difference = match object {
                None => Some(Difference::Data("new")),
                Some(object) => self.differs(transfer, name, local, object, true)?,
            };
            match (difference, object) {
                (Some(Difference::Data(why)), _) => {
                    report.step("copy", name, why);
                    plan.files.insert(&name[..], local);
                }
                (other, object) => {
                    report.skipped += 1;
                    if let Some(Difference::Attributes(why)) = other {
                        report.step("record", name, why);
                    }
                    let version = object.map_or(0, |object| object.version);
                    add_entry(&mut plan.entries, name, local.entry.at_version(version));
                }
            }
        }
        if self.delete && whole {
            let is_absent = |name: &&String| !source.entries.contains_key(*name);
            let absent = target.objects.keys().filter(is_absent);
            plan.absent = absent.filter(|name| !plan.gone.contains(*name)).cloned().collect();
            let links = target.others.iter();
            let links = links.filter(|(_, entry)| matches!(entry, Entry::Link { .. }));
            plan.links = links.filter(|(name, _)| is_absent(name)).count();
        }
        Ok(())
    }

    /// Objects that have to go before an entry gets its name: the same name as another kind and,
    /// with `--delete`, the objects of a folder. Returns why they cannot go.
    fn in_the_way(
        &self,
        transfer: &Transfer<'_>,
        target: &PoolTree,
        name: &str,
        local: &LocalEntry,
        whole: bool,
        gone: &mut BTreeSet<String>,
    ) -> Result<Option<Failure>, Failure> {
        let is_file = matches!(local.entry, Entry::File { .. });
        if !is_file && target.objects.contains_key(name) {
            gone.insert(name.to_owned());
        }
        if !matches!(local.entry, Entry::Folder { .. }) {
            let has = target.has_data_in(name);
            if has && !(self.delete && whole) {
                let what = format!("{name:?} is a folder in the pool; --delete removes it");
                return Ok(Some(PoolError::Refused { what }.into()));
            }
            if has || target.folders.contains_key(name) {
                gone.extend(transfer.all_in(name)?);
            }
        }
        Ok(None)
    }

    /// Asks for a word more before much is removed: more than `--max-delete`, or anything where
    /// the source has nothing, as the mount point of a disk that is not mounted.
    fn check_removals(&self, has_data: bool, count: usize) -> Result<(), Failure> {
        let what = match self.max_delete {
            Some(most) if count > most => {
                format!("{count} removals exceed --max-delete {most}; raise it to go on")
            }
            None if count > 0 && !has_data && self.delete => format!(
                "the source is empty (not mounted?): {count} files would be removed; give \
                 --max-delete {count} to go on"
            ),
            _ => return Ok(()),
        };
        Err(PoolError::Refused { what }.into())
    }

    /// Records entries; with `replace` those of their folders that are not in the source go, and
    /// so do the attributes of folders that are not.
    fn put_attributes(
        &self,
        transfer: &Transfer<'_>,
        prefix: &str,
        target: &PoolTree,
        mut entries: Entries,
        replace: bool,
        report: &mut Report,
    ) {
        // The folder itself is an entry of one that is not copied.
        let (above, own) = split(prefix);
        let root = entries.get_mut(above).filter(|_| !prefix.is_empty());
        let root = root.and_then(|of| Some((own.to_owned(), of.remove(own)?)));
        if let Some(root) = root {
            if entries[above].is_empty() {
                entries.remove(above);
            }
            let above = above.to_owned();
            transfer.add_attributes(Entries::from([(above, [root].into())]), report);
        }
        if !replace {
            return transfer.add_attributes(entries, report);
        }
        let is_folder = |entries: &Entries, folder: &str| {
            let (above, word) = split(folder);
            let entry = entries.get(above).and_then(|of| of.get(word));
            folder == prefix || matches!(entry, Some(Entry::Folder { .. }))
        };
        // Folders that have nothing any more.
        for (folder, known) in &target.folders {
            if !known.entries.is_empty() && is_folder(&entries, folder) {
                entries.entry(folder.clone()).or_default();
            }
        }
        let changed = entries.iter().filter(|(folder, entries)| {
            target.folders.get(*folder).is_none_or(|known| known.entries != **entries)
        });
        let changed = changed.map(|(folder, entries)| (folder.clone(), entries.clone())).collect();
        transfer.put_attributes(&changed, report);
        let gone: Vec<String> = target
            .folders_in(prefix)
            .into_iter()
            .filter(|folder| !is_folder(&entries, folder))
            .map(|folder| attributes_in(folder))
            .collect();
        transfer.remove(&gone, report);
    }

    fn get(&self, transfer: &Transfer<'_>, from: &str, to: &Path) -> Result<Report, Failure> {
        let mut report = Report::new(self.dry_run);
        let prefix = from.trim_matches('/');
        let mut source = PoolTree::new(transfer, prefix)?;
        if source.is_empty() {
            return Err(PoolError::NoObject { name: from.to_owned() }.into());
        }
        report.add_pool(&mut source);
        let mut target = match to.exists() {
            true => LocalTree::new(to, "", self.pool.own_paths(transfer.pool)),
            false => LocalTree::default(),
        };
        // Devices and pipes there are replaced and removed as files are.
        target.left_out.clear();
        report.add_local(&mut target);
        let mut plan = Plan::default();
        self.plan(transfer, prefix, &source, &target, &mut plan, &mut report)?;
        let removals = plan.gone.values().filter(|is_folder| !**is_folder).count();
        self.check_removals(source.has_data(), removals)?;
        for inside in plan.gone.keys() {
            report.step("remove", &to.join(inside).display().to_string(), "not in the source");
        }
        if self.dry_run {
            plan.items.iter().for_each(|item| report.would_copy(item.object.bytes));
            plan.links.iter().for_each(|_| report.would_copy(0));
            report.removed += removals as u64;
            return Ok(report);
        }
        let out = OutputTree::open(to).map_err(|source| Failure::Io {
            action: "create",
            path: to.to_owned(),
            source,
        })?;
        remove_below(&out, &plan.in_the_way, &mut report);
        let out = Destination::Below(out);
        transfer.fetch_with_links(plan.items, plan.links, &out, &mut report);
        let Destination::Below(out) = &out else { return Ok(report) };
        write_others(out, &plan.others, true, false, &mut report);
        if report.is_whole() {
            remove_below(out, &plan.gone, &mut report);
            report.removed += removals as u64;
        }
        set_all(out, &plan.set, &mut report);
        transfer.set_root(out, prefix, &mut report);
        Ok(report)
    }

    /// Compares each entry of the source with that of its name in the target.
    fn plan<'p>(
        &self,
        transfer: &Transfer<'_>,
        prefix: &str,
        source: &'p PoolTree,
        target: &LocalTree,
        plan: &mut Plan<'p>,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let whole = self.delete && report.is_whole();
        let firsts = hard_links(source);
        let mut wanted: BTreeMap<String, Wanted<'p>> = BTreeMap::new();
        let objects =
            source.objects.iter().map(|(name, object)| (name, Wanted::File(name, object)));
        let others = source.others.iter().map(|(name, entry)| (name, Wanted::Other(entry)));
        for (name, want) in objects.chain(others) {
            let Some(inside) = inside(prefix, name) else {
                report.fail(name, &no_file_name(name));
                continue;
            };
            for folder in folders_of(inside) {
                wanted.entry(folder.to_owned()).or_insert(Wanted::Folder);
            }
            wanted.insert(inside.to_owned(), want);
        }
        for (inside, want) in &wanted {
            let local = target.entries.get(inside);
            if let Err(failure) = clear_the_way(inside, want.is_folder(), target, whole, plan) {
                report.fail(inside, &failure.into());
                continue;
            }
            match want {
                Wanted::File(name, object) => {
                    let first = firsts.get(name).and_then(|(name, object)| {
                        let inside = self::inside(prefix, name)?;
                        Some((inside, Item { name, inside: path_of(inside), object }))
                    });
                    let file = (*name, *object, first);
                    self.plan_file(transfer, inside, file, local, plan, report)?;
                }
                Wanted::Other(entry) => {
                    let there = local.is_some_and(|local| entry.looks_like(&local.entry, true));
                    if !there {
                        report.step("make", inside, "new, or changed");
                        plan.others.insert(path_of(inside), entry);
                    }
                    if want.is_folder() {
                        plan.set.insert(path_of(inside), entry);
                    }
                }
                Wanted::Folder => {}
            }
        }
        plan_removals(target, &wanted, whole, plan);
        let makes = !plan.items.is_empty() || !plan.links.is_empty() || !plan.others.is_empty();
        if !makes && plan.gone.is_empty() {
            // Nothing changes the times of folders.
            plan.set.retain(|_, entry| !matches!(entry, Entry::Folder { .. }));
        }
        Ok(())
    }

    fn plan_file<'p>(
        &self,
        transfer: &Transfer<'_>,
        inside: &str,
        (name, object, first): (&'p str, &'p Listing, Option<(&'p str, Item<'p>)>),
        local: Option<&LocalEntry>,
        plan: &mut Plan<'p>,
        report: &mut Report,
    ) -> Result<(), Failure> {
        // The first name that the file here has.
        let here = local.and_then(|local| resolved(split(inside).0, local.entry.link()?));
        let is_linked = first.is_some();
        if let Some((first, item)) = first
            && (plan.fresh.contains(item.name) || here.as_deref() != Some(first))
        {
            report.step("link", name, "one file of several names");
            plan.links.push((Item { name, inside: path_of(inside), object }, item));
            return Ok(());
        }
        let difference = match local {
            Some(local) if matches!(local.entry, Entry::File { .. }) => {
                let is_shared = !is_linked && here.is_some_and(|first| first != inside);
                match self.differs(transfer, name, local, object, false)? {
                    Some(Difference::Attributes(_)) | None if is_shared => {
                        Some(Difference::Data("other names"))
                    }
                    difference => difference,
                }
            }
            Some(_) => Some(Difference::Data("another kind")),
            None => Some(Difference::Data("new")),
        };
        match difference {
            Some(Difference::Data(why)) => {
                report.step("copy", name, why);
                plan.fresh.insert(name);
                plan.items.push(Item { name, inside: path_of(inside), object });
            }
            other => {
                report.skipped += 1;
                if let (Some(Difference::Attributes(why)), Some(entry)) = (other, &object.entry) {
                    report.step("set", name, why);
                    plan.set.insert(path_of(inside), entry);
                }
            }
        }
        Ok(())
    }

    /// Returns how a file and an object of its name differ; `put`: the object is the target.
    fn differs(
        &self,
        transfer: &Transfer<'_>,
        name: &str,
        local: &LocalEntry,
        object: &Listing,
        put: bool,
    ) -> Result<Option<Difference>, Failure> {
        if local.bytes != object.bytes {
            return Ok(Some(Difference::Data("other size")));
        }
        if self.size_only {
            return Ok(None);
        }
        if self.checksum && !same_bytes(transfer, &local.path, name)? {
            return Ok(Some(Difference::Data("other bytes")));
        }
        let Some(entry) = &object.entry else {
            // An object that is newer was made of the file as it is; a file that is newer, of it.
            let same = self.checksum || put == (changed_ms(&local.path) <= object.put);
            return Ok((!same).then_some(Difference::Data("other time")));
        };
        let times = local.entry.time().zip(entry.time());
        let same = times.is_some_and(|(a, b)| same_time(a, b));
        let about = match put {
            true if local.entry.link() != entry.link() => Some("other names"),
            true => local.entry.differs(entry, false),
            false => entry.differs(&local.entry, true),
        };
        Ok(match (same, self.checksum) {
            (false, false) => Some(Difference::Data("other time")),
            _ => about.map(Difference::Attributes),
        })
    }
}

/// Steps of a copy into the pool.
#[derive(Default)]
struct PutPlan<'p> {
    files: BTreeMap<&'p str, &'p LocalEntry>,
    /// All that is recorded of the source, but of files that are copied.
    entries: Entries,
    /// Objects removed before: of another kind than what gets their names.
    gone: BTreeSet<String>,
    /// Objects that are not in the source, and the number of links that are not.
    absent: Vec<String>,
    links: usize,
}

/// An entry of the source by its name below the folder.
enum Wanted<'p> {
    File(&'p str, &'p Listing),
    Other(&'p Entry),
    /// A folder of which nothing is recorded.
    Folder,
}

impl Wanted<'_> {
    fn is_folder(&self) -> bool {
        matches!(self, Wanted::Folder | Wanted::Other(Entry::Folder { .. }))
    }
}

/// Steps of a copy out of the pool.
#[derive(Default)]
struct Plan<'p> {
    items: Vec<Item<'p>>,
    /// Further names of files, with the first one of each.
    links: Vec<(Item<'p>, Item<'p>)>,
    /// Names of objects that are copied.
    fresh: BTreeSet<&'p str>,
    others: Others<'p>,
    /// Entries that get their mode and time.
    set: Others<'p>,
    /// Removed before: of another kind than what gets their names. `true`: a folder.
    in_the_way: BTreeMap<String, bool>,
    /// Removed at the end: not in the source.
    gone: BTreeMap<String, bool>,
}

/// Plans the removal of what has the name of an entry and is of another kind; of a folder with what
/// is in it, where `all` may be removed.
fn clear_the_way(
    inside: &str,
    for_folder: bool,
    target: &LocalTree,
    all: bool,
    plan: &mut Plan<'_>,
) -> Result<(), PoolError> {
    let is_folder = |local: &LocalEntry| matches!(local.entry, Entry::Folder { .. });
    match target.entries.get(inside) {
        Some(local) if is_folder(local) && !for_folder => {
            if !all {
                let what = format!("{inside:?} is a folder; --delete replaces it");
                return Err(PoolError::Refused { what });
            }
            let below = format!("{inside}/");
            let below =
                target.entries.range(below.clone()..).take_while(|(n, _)| n.starts_with(&below));
            for (name, local) in below {
                plan.in_the_way.insert(name.clone(), is_folder(local));
            }
            plan.in_the_way.insert(inside.to_owned(), true);
        }
        Some(local) if !is_folder(local) && for_folder => {
            plan.in_the_way.insert(inside.to_owned(), false);
        }
        _ => {}
    }
    Ok(())
}

/// Plans the removal of what is not `wanted`, where `all` may be removed, and of devices and pipes
/// in the way.
fn plan_removals<'p>(
    target: &LocalTree,
    wanted: &BTreeMap<String, Wanted<'p>>,
    all: bool,
    plan: &mut Plan<'p>,
) {
    for name in &target.odd {
        let is_folder = wanted.get(name).is_some_and(Wanted::is_folder);
        if is_folder || (all && in_folder(name, &plan.in_the_way)) {
            plan.in_the_way.insert(name.clone(), false);
        }
    }
    let is_folder = |local: &LocalEntry| matches!(local.entry, Entry::Folder { .. });
    let entries = target.entries.iter().map(|(name, local)| (name, is_folder(local)));
    let there = entries.chain(target.odd.iter().map(|name| (name, false)));
    let gone = there.filter(|(name, _)| {
        all && !wanted.contains_key(*name) && !plan.in_the_way.contains_key(*name)
    });
    plan.gone = gone.map(|(name, is_folder)| (name.clone(), is_folder)).collect();
}

/// Returns whether a name is in a folder that is removed.
fn in_folder(name: &str, removed: &BTreeMap<String, bool>) -> bool {
    folders_of(name).any(|folder| removed.contains_key(folder))
}

/// Removes files, links and folders, inner ones first.
fn remove_below(out: &OutputTree, names: &BTreeMap<String, bool>, report: &mut Report) {
    for (inside, is_folder) in names.iter().rev() {
        match out.remove(&path_of(inside), *is_folder) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                let path = out.path().join(path_of(inside));
                report.fail(inside, &Failure::Io { action: "remove", path, source });
            }
            _ => {}
        }
    }
}

fn changed_ms(path: &Path) -> u64 {
    let time = path.metadata().and_then(|meta| meta.modified()).ok();
    let since = time.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or(u64::MAX, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Compares the bytes written to it with a file.
struct Compare {
    file: std::fs::File,
    same: bool,
    buf: Vec<u8>,
}

impl Write for Compare {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buf.resize(bytes.len(), 0);
        match self.file.read_exact(&mut self.buf) {
            Ok(()) => self.same &= self.buf == bytes,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => self.same = false,
            Err(error) => return Err(error),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn same_bytes(transfer: &Transfer<'_>, path: &Path, name: &str) -> Result<bool, Failure> {
    let failed = |source| Failure::Io { action: "open", path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut compare = Compare { file, same: true, buf: Vec::new() };
    let req = GetRequest { name, range: None };
    transfer.pool.get(&req, &mut compare, &transfer.setup.settings())?;
    Ok(compare.same)
}
