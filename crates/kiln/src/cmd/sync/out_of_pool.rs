//! A sync of a folder of a pool out of it.

use std::collections::{BTreeMap, BTreeSet};
use std::{io, path::Path};

use crate::exit::Result;
use kiln_folders::folders_of;
use kiln_stripe::PoolError;

use super::{Sync, compare::Difference, no_folder};
use crate::setup::{OutputTree, kept::Kept, local};
use crate::transfer::get::{
    Destination, Item, Others, created, hard_links, inside, no_file_name, set_all, write_others,
};
use crate::transfer::local_tree::{LocalEntry, LocalTree, resolved, split};
use crate::transfer::pool_tree::{Listing, PoolTree};
use crate::transfer::raw_names::path_of;
use crate::transfer::{Report, Transfer};
use crate::{exit::Failure, names::MARK};
use crate::{transfer::attributes::Entry, transfer::duplicate::keep_files};

impl Sync {
    pub(super) fn get(&self, transfer: &Transfer<'_>, from: &str, to: &Path) -> Result<Report> {
        if self.backup_dir.as_ref().is_some_and(|folder| folder.starts_with(MARK)) {
            return Err(wrong("write a folder of this machine: it is where the target is"));
        }
        let mut report = Report::new(self.dry_run);
        let prefix = from.trim_matches('/');
        let mut source = PoolTree::new(transfer, prefix)?;
        if source.is_empty() {
            return Err(PoolError::NoObject { name: from.to_owned() }.into());
        }
        if source.objects.contains_key(prefix) {
            return Err(no_folder("FROM", prefix));
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
        self.check_removals(source.has_data_in(""), removals)?;
        let say_removals = |report: &mut Report| {
            for inside in plan.gone.keys() {
                report.step("remove", &to.join(inside).display().to_string(), "not in the source");
            }
        };
        if self.dry_run {
            say_removals(&mut report);
            plan.items.iter().for_each(|item| report.would_copy(item.object.bytes));
            plan.links.iter().for_each(|_| report.would_copy(0));
            report.removed += removals as u64;
            return Ok(report);
        }
        let out = created(to)?;
        if !self.keep_files(&out, &target, &plan, &mut report)? {
            return Ok(report);
        }
        plan.open_folders(&out, &target);
        remove_below(&out, &plan.in_the_way, &mut report);
        let out = Destination::Below(out);
        transfer.fetch_with_links(plan.items, plan.links, &out, &mut report);
        let Destination::Below(out) = &out else { return Ok(report) };
        write_others(out, &plan.others, true, false, &mut report);
        if report.is_whole() {
            say_removals(&mut report);
            report.removed += remove_below(out, &plan.gone, &mut report);
        }
        set_all(out, &plan.set, &mut report);
        transfer.set_root(out, prefix, &mut report);
        Ok(report)
    }

    /// Keeps files and links that are replaced or removed; `false`: some could not be, and nothing
    /// else is to be done.
    fn keep_files(
        &self,
        out: &OutputTree,
        target: &LocalTree,
        plan: &Plan<'_>,
        report: &mut Report,
    ) -> Result<bool> {
        let Some(folder) = &self.backup_dir else { return Ok(true) };
        let failed = report.failed;
        let path = local(folder.as_ref())?;
        let kept = created(path)?;
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let (a, b) = (real(path), real(out.path()));
        if a.starts_with(&b) || b.starts_with(&a) {
            return Err(wrong("it lies in the target, or the target in it"));
        }
        let fresh = plan.items.iter().chain(plan.links.iter().map(|(item, _)| item));
        let fresh: BTreeSet<&Path> =
            fresh.map(|item| &*item.inside).chain(plan.others.keys().map(|p| &**p)).collect();
        let names = target.entries.iter().filter(|(name, local)| {
            let goes = plan.in_the_way.contains_key(*name) || plan.gone.contains_key(*name);
            let is_folder = matches!(local.entry, Entry::Folder { .. });
            !is_folder && (goes || fresh.contains(&*path_of(name)))
        });
        let names: Vec<&str> = names.map(|(name, _)| &name[..]).collect();
        keep_files(out, &names, &kept, report);
        kept.set_root(None).map_err(|source| Failure::Io {
            action: "set mode of",
            path: path.to_owned(),
            source,
        })?;
        Ok(report.failed == failed)
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
    ) -> Result<()> {
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
                    self.plan_file(transfer, inside, file, local, plan, report);
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
    ) {
        // The first name that the file here has.
        let here = local.and_then(|local| resolved(split(inside).0, local.entry.link()?));
        let is_linked = first.is_some();
        if let Some((first, item)) = first
            && (plan.fresh.contains(item.name) || here.as_deref() != Some(first))
        {
            report.step("link", name, "one file of several names");
            plan.links.push((Item { name, inside: path_of(inside), object }, item));
            return;
        }
        let difference = match local {
            Some(local) if matches!(local.entry, Entry::File { .. }) => {
                let is_shared = !is_linked && here.is_some_and(|first| first != inside);
                match self.differs(transfer, name, local, object, false) {
                    Ok(Some(Difference::Attributes(_)) | None) if is_shared => {
                        Some(Difference::Data("other names"))
                    }
                    Ok(difference) => difference,
                    Err(failure) => return report.fail(name, &failure),
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
    }
}

fn wrong(problem: &str) -> Failure {
    Failure::Flag { flag: "--backup-dir", problem: problem.to_owned() }
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

impl Plan<'_> {
    /// Lets this process write into folders that deny that to their owner, too: they get their
    /// modes at the end.
    fn open_folders(&self, out: &OutputTree, target: &LocalTree) {
        for inside in self.set.keys() {
            let local = inside.to_str().and_then(|name| target.entries.get(name));
            if let Some(Entry::Folder { about }) = local.map(|local| &local.entry)
                && about.mode & 0o300 != 0o300
            {
                // If modes cannot be set, the writes below fail, and say why.
                let _ = out.set(inside, &Kept::new(about.mode | 0o700, None));
            }
        }
    }
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

/// Removes files, links and folders, inner ones first; returns how many are gone but for folders.
fn remove_below(out: &OutputTree, names: &BTreeMap<String, bool>, report: &mut Report) -> u64 {
    let mut removed = 0;
    for (inside, is_folder) in names.iter().rev() {
        match out.remove(&path_of(inside), *is_folder) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                let path = out.path().join(path_of(inside));
                report.fail(inside, &Failure::Io { action: "remove", path, source });
            }
            _ => removed += u64::from(!is_folder),
        }
    }
    removed
}
