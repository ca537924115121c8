//! A sync of a folder of this machine into a pool.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::exit::Result;
use kiln_stripe::PoolError;

use super::{Sync, compare::Difference, no_folder};
use crate::transfer::local_tree::{LocalEntry, LocalTree, split};
use crate::transfer::records::{Entries, add_entry};
use crate::transfer::{Report, Transfer, refuse_reserved};
use crate::{
    exit::Failure, names::MARK, transfer::attributes::Entry, transfer::pool_tree::PoolTree,
};

impl Sync {
    pub(super) fn put(&self, transfer: &Transfer<'_>, from: &Path, to: &str) -> Result<Report> {
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
        if target.objects.contains_key(prefix) {
            return Err(no_folder("TO", prefix));
        }
        let mut plan = PutPlan::default();
        self.plan_put(transfer, &source, &target, prefix, &mut plan, &mut report)?;
        let PutPlan { files, entries, gone, absent, others, links } = plan;
        self.check_removals(has_data, absent.len() + links + gone.len())?;
        let replaced = files.keys().copied();
        let kept = replaced.chain(gone.iter().chain(&absent).map(|name| &name[..]));
        let kept = self.kept_objects(&target, kept, prefix, &mut report)?;
        gone.iter().for_each(|name| report.step("remove", name, "another kind in the source"));
        if !self.dry_run && !kept.is_empty() {
            let failed = report.failed;
            transfer.keep_objects(kept, Entries::new(), &mut report);
            if report.failed > failed {
                return Ok(report);
            }
        }
        if self.dry_run {
            files.values().for_each(|local| report.would_copy(local.bytes));
        } else {
            transfer.remove(&gone, &mut report);
            let mut entries = entries;
            transfer.put(&files, &gone, &mut entries, &mut report)?;
            let replace = self.delete && report.is_whole();
            let seen = if replace { target.seen_in(prefix) } else { Entries::new() };
            record(transfer, prefix, &target, entries, seen, &mut report);
        }
        // Nothing is known to be gone unless all could be read and copied.
        if self.delete && report.is_whole() {
            absent
                .iter()
                .chain(&others)
                .for_each(|name| report.step("remove", name, "not in the source"));
            if !self.dry_run {
                transfer.remove(&absent, &mut report);
            }
            report.removed += (absent.len() + links) as u64;
        }
        Ok(report)
    }

    /// The objects that `--backup-dir` keeps, with their names there.
    fn kept_objects<'t>(
        &self,
        target: &'t PoolTree,
        names: impl Iterator<Item = &'t str>,
        prefix: &str,
        report: &mut Report,
    ) -> Result<BTreeMap<&'t str, (String, Option<&'t Entry>)>> {
        let Some(folder) = &self.backup_dir else { return Ok(BTreeMap::new()) };
        let wrong = |problem: String| Failure::Flag { flag: "--backup-dir", problem };
        let Some(folder) = folder.strip_prefix(MARK).map(|folder| folder.trim_matches('/')) else {
            return Err(wrong(format!("write it as {MARK}FOLDER: it is where the target is")));
        };
        let within = |a: &str, b: &str| a == b || b.is_empty() || a.starts_with(&format!("{b}/"));
        if folder.is_empty() || within(folder, prefix) || within(prefix, folder) {
            return Err(wrong("it lies in the target, or the target in it".into()));
        }
        refuse_reserved(folder)?;
        let mut kept = BTreeMap::new();
        for name in names {
            let Some(object) = target.objects.get(name) else { continue };
            let inside = name.strip_prefix(prefix).unwrap_or(name).trim_start_matches('/');
            let to = format!("{folder}/{inside}");
            report.step("keep", name, &format!("as {to}"));
            kept.insert(name, (to, object.entry.as_ref()));
        }
        Ok(kept)
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
    ) -> Result<()> {
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
                Some(object) => match self.differs(transfer, name, local, object, true) {
                    Ok(difference) => difference,
                    Err(failure) => {
                        report.fail(name, &failure);
                        continue;
                    }
                },
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
                    let (version, put) =
                        object.map_or((0, 0), |object| (object.version, object.put));
                    add_entry(&mut plan.entries, name, local.entry.at_version(version, put));
                }
            }
        }
        if self.delete && whole {
            let is_absent = |name: &&String| !source.entries.contains_key(*name);
            let absent = target.objects.keys().filter(is_absent);
            plan.absent = absent.filter(|name| !plan.gone.contains(*name)).cloned().collect();
            let others = target.others.iter().filter(|(name, _)| is_absent(name));
            let links = others.clone().filter(|(_, entry)| matches!(entry, Entry::Link { .. }));
            plan.links = links.count();
            plan.others = others.map(|(name, _)| name.clone()).collect();
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
    ) -> Result<Option<Failure>> {
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
}

/// Records entries; others that were `seen` go, and so do the objects of folders that only the pool
/// has.
fn record(
    transfer: &Transfer<'_>,
    prefix: &str,
    target: &PoolTree,
    entries: Entries,
    seen: Entries,
    report: &mut Report,
) {
    let is_gone = |folder: &&String| {
        let (above, word) = split(folder);
        let entry = entries.get(above).and_then(|of| of.get(word));
        *folder != prefix && !matches!(entry, Some(Some(Entry::Folder { .. })))
    };
    let gone: Vec<String> = seen.keys().filter(is_gone).cloned().collect();
    let mut all = seen;
    for (folder, entries) in entries {
        all.entry(folder).or_default().extend(entries);
    }
    all.retain(|folder, changes| {
        let known = target.folders.get(folder).map(|known| &known.entries);
        changes.iter().any(|(word, change)| known.and_then(|of| of.get(word)) != change.as_ref())
    });
    transfer.record(&all, report);
    transfer.remove_idle(gone.iter(), report);
}

/// Steps of a copy into the pool.
#[derive(Default)]
struct PutPlan<'p> {
    files: BTreeMap<&'p str, &'p LocalEntry>,
    /// All that is recorded of the source, but of files that are copied.
    entries: Entries,
    /// Objects removed before: of another kind than what gets their names.
    gone: BTreeSet<String>,
    /// Objects that are not in the source; links and folders that are not, and how many are links.
    absent: Vec<String>,
    others: Vec<String>,
    links: usize,
}
