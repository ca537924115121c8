//! Changes of what is recorded of the entries of folders: however many clients make some in one
//! folder at a time, each changes its own and leaves the rest.

use std::collections::BTreeMap;
use std::{thread::sleep, time::Duration};

use kiln_folders::{Folders, attributes_in};
use kiln_pool::{Pool, PutRequest, layout::MAX_NAME};
use kiln_stripe::{PoolError, Settings};

use super::attributes::{Attributes, Entry};
use super::{Report, TOGETHER, Transfer, at_once, local_tree::split};
use crate::exit::{Failure, Result};
use crate::setup::{fresh_run, now_ms};

/// Records of one folder, by name.
pub type Records = BTreeMap<String, Entry>;
/// Changes of a folder's records; `None`: the record goes.
pub type Changes = BTreeMap<String, Option<Entry>>;
/// Changes of the records of folders, by the folders' names.
pub type Entries = BTreeMap<String, Changes>;

/// Times that a change is made anew because another client was faster.
const TRIES: u64 = 20;

/// Loads the record of a name. The pool itself has none.
pub fn entry_of(pool: &Pool, name: &str, settings: &Settings<'_>) -> Result<Option<Entry>> {
    if name.is_empty() {
        return Ok(None);
    }
    let (folder, word) = split(name);
    let known = Attributes::load(pool, &attributes_in(folder), settings)?;
    Ok(known.and_then(|mut known| known.entries.remove(word)))
}

/// Adds a record by its whole name.
pub fn add_entry(entries: &mut Entries, name: &str, entry: Entry) {
    let (folder, word) = split(name);
    entries.entry(folder.to_owned()).or_default().insert(word.to_owned(), Some(entry));
}

/// Changes records. That of a later put, which another client recorded first, stays.
pub fn apply(records: &mut Records, changes: &Changes) {
    for (word, change) in changes {
        match change {
            Some(entry) if records.get(word).is_some_and(|there| there.is_after(entry)) => {}
            Some(entry) => drop(records.insert(word.clone(), entry.clone())),
            None => drop(records.remove(word)),
        }
    }
}

/// Changes the records of folders; returns those where it failed. Each folder's object is replaced
/// only if it is still the one that was read; otherwise `change` is asked again, for what is there
/// by then.
/// Errors: as of [`kiln_pool::ObjectWriter::put_all`].
pub fn change_all<'f>(
    pool: &Pool,
    folders: impl Iterator<Item = &'f str>,
    settings: &Settings<'_>,
    change: &(dyn Fn(&str, &mut Records) + Sync),
) -> Result<Vec<(&'f str, Failure)>, PoolError> {
    let (mut left, mut failures): (Vec<&str>, _) = (folders.collect(), Vec::new());
    for turn in 0..TRIES {
        let made = at_once(&left, |folder| successor(pool, folder, settings, change));
        let mut new = Vec::new();
        for (folder, made) in left.drain(..).zip(made) {
            match made {
                Ok(made) => new.extend(made.map(|made| (folder, made))),
                Err(failure) => failures.push((folder, failure)),
            }
        }
        for new in new.chunks(TOGETHER) {
            let puts = new.iter().map(|(_, (name, over, text))| {
                let req = PutRequest { name, run: fresh_run(), now_ms: now_ms(), replace: true };
                (req, Some(*over), &text[..])
            });
            let ends = pool.writer().put_bytes(&puts.collect::<Vec<_>>(), settings)?;
            for ((folder, _), end) in new.iter().zip(ends) {
                match end {
                    Ok(_) => {}
                    Err(PoolError::Conflict { .. }) => left.push(folder),
                    Err(error) => failures.push((folder, error.into())),
                }
            }
        }
        if left.is_empty() {
            break;
        }
        // Those who change the same do not go on in step.
        sleep(Duration::from_millis(u64::from(fresh_run()[0]) * turn / 16));
    }
    for folder in left {
        let times = format!("other clients changed it {TRIES} times meanwhile");
        let what = times + "; all else is whole, and a sync records what is lacking";
        failures.push((folder, PoolError::Refused { what }.into()));
    }
    Ok(failures)
}

/// A folder's object that is to be: its name, the identity of that which it replaces, and content.
type Successor = (String, Option<[u8; 16]>, Vec<u8>);

/// Makes a folder's object anew by a change of its records; `None`: it stays as it is.
fn successor(
    pool: &Pool,
    folder: &str,
    settings: &Settings<'_>,
    change: &(dyn Fn(&str, &mut Records) + Sync),
) -> Result<Option<Successor>> {
    let name = attributes_in(folder);
    let Some(Attributes { entries, over, .. }) = Attributes::load(pool, &name, settings)? else {
        let problem = "written by a later kiln: it stays as it is".to_owned();
        return Err(Failure::NotUsable { path: name.into(), problem });
    };
    let mut changed = entries.clone();
    change(folder, &mut changed);
    let is_new = changed != entries;
    is_new.then(|| Ok((name, over, Attributes::bytes_of(folder, changed)?))).transpose()
}

impl Transfer<'_> {
    /// Changes records of folders.
    pub fn record(&self, folders: &Entries, report: &mut Report) {
        let change = |folder: &str, records: &mut Records| apply(records, &folders[folder]);
        let names = folders.keys().map(String::as_str);
        match change_all(self.pool, names, &self.setup.settings(), &change) {
            Ok(failures) => failures.iter().for_each(|(folder, failure)| {
                report.fail(&format!("attributes of {folder}/"), failure);
            }),
            Err(error) => report.fail("attributes of folders", &error.into()),
        }
    }

    /// Removes the objects of folders that are gone, where no records are left.
    pub fn remove_idle<'f>(&self, gone: impl Iterator<Item = &'f String>, report: &mut Report) {
        let names = gone.map(|folder| attributes_in(folder)).filter(|name| name.len() <= MAX_NAME);
        let names: Vec<String> = names.collect();
        if let Err(error) = Folders(self.pool).remove_idle(&names, &fresh_run, now_ms()) {
            report.fail("folders that are gone", &error.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::attributes::About;
    use kiln_stripe::Silent;
    use std::sync::{Once, atomic::AtomicU64, atomic::Ordering};

    /// Records files as of these versions, 0: none; `meanwhile` is between each read and write.
    fn change(pool: &Pool, files: &[(&str, u64)], meanwhile: &(dyn Fn() + Sync)) -> Vec<String> {
        let file =
            |object| Entry::File { about: About::default(), object, put: Some(object), link: None };
        let new = files.iter().map(|(word, at)| ((*word).to_owned(), (*at > 0).then(|| file(*at))));
        let changes: Changes = new.collect();
        let change = |_: &str, records: &mut Records| {
            meanwhile();
            apply(records, &changes);
        };
        let failed = change_all(pool, ["d"].into_iter(), &Settings::new(&Silent), &change).unwrap();
        failed.into_iter().map(|(_, failure)| failure.to_string()).collect()
    }

    #[test]
    fn changes_of_several_clients_are_all_kept_and_the_later_put_counts() {
        let pool = kiln_pool::example_pool().unwrap();
        let theirs = AtomicU64::new(0);
        let they = || {
            let turn = theirs.fetch_add(1, Ordering::SeqCst);
            assert!(change(&pool, &[("a", 5), ("theirs", turn + 1)], &|| {}).is_empty());
        };
        assert!(change(&pool, &[("a", 1), ("gone", 1)], &|| {}).is_empty());
        let (once, mine) = (Once::new(), [("a", 4), ("mine", 1), ("gone", 0)]);
        assert!(change(&pool, &mine, &|| once.call_once(they)).is_empty());
        // They are there first each time.
        let outrun = change(&pool, &[("mine", 0)], &they);
        assert!(outrun.len() == 1 && outrun[0].contains("20 times"), "{outrun:?}");
        for (word, at) in [("d/a", 5), ("d/mine", 1), ("d/theirs", 21), ("d/gone", 0)] {
            let entry = entry_of(&pool, word, &Settings::new(&Silent)).unwrap();
            assert_eq!(entry.map(|entry| entry.is_of(at, at)), (at > 0).then_some(true), "{word}");
        }
    }
}
