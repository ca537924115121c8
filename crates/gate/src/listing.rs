//! Listing the objects of a bucket in pages.

use crate::record::{BucketRecord, ObjectRecord};
use crate::versions::{id_of, is_marker};
use crate::{error::Result, gate::Gate, names};

/// Greater than any key that begins with the text before it.
const LAST: char = '\u{10FFFF}';

/// A question for a page of a listing.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListRequest {
    /// Only keys that begin with this.
    pub prefix: String,
    /// Keys that go on to one of these are shown up to it, once.
    pub delimiter: String,
    /// Only what comes after this.
    pub after: String,
    /// Most entries.
    pub most: usize,
}

/// An entry of a listing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Entry {
    Object(String, Box<ObjectRecord>),
    /// All keys that begin with this.
    Prefix(String),
}

/// A page of versions: of each its key, whether it is in force, and its record.
pub(crate) type Versions = (Vec<(Entry, bool)>, Option<(String, String)>);

/// A page of a listing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Page {
    /// Its entries in order.
    pub entries: Vec<Entry>,
    /// The last of it, if more follow.
    pub next: Option<String>,
}

/// A name on the way to an entry.
enum Found {
    Key(String, String),
    Prefix(String),
}

/// A version on its way to a page: its entry, or the name of its record.
struct Line {
    key: String,
    id: String,
    entry: std::result::Result<Entry, String>,
    latest: bool,
}

/// The versions of a key, the newest first, or those behind one of them.
fn lines_of(
    at: &BucketRecord,
    key: &str,
    mut record: ObjectRecord,
    after: Option<&str>,
) -> Vec<Line> {
    let history = std::mem::take(&mut record.history);
    let (key, id) = (key.to_owned(), record.id().to_owned());
    let entry = Ok(Entry::Object(key.clone(), Box::new(record)));
    let mut lines = vec![Line { key: key.clone(), id, entry, latest: true }];
    lines.extend(history.into_iter().rev().map(|word| {
        let (key, id) = (key.clone(), id_of(&word).to_owned());
        let entry = Err(names::version(&at.id, &key, &word));
        Line { key, id, entry, latest: false }
    }));
    let behind = after.and_then(|id| lines.iter().position(|line| line.id == id));
    lines.split_off(behind.map_or(0, |at| at + 1))
}

impl Gate {
    /// Lists objects; all changes that ended before are seen.
    pub(crate) fn list(&self, at: &BucketRecord, req: &ListRequest) -> Result<Page> {
        let root = names::records(&at.id);
        let decode = |name: &str| names::decode(name.strip_prefix(&root)?);
        let (found, next) = self.walk(&root, decode, req, false)?;
        let mut records = self.records_of(&found)?.into_iter();
        let entry = |found| match found {
            // One that was removed meanwhile is left out.
            Found::Key(key, _) => {
                let record =
                    records.next().flatten().filter(|record: &ObjectRecord| !record.marker);
                record.map(|record| Entry::Object(key, Box::new(record)))
            }
            Found::Prefix(prefix) => Some(Entry::Prefix(prefix)),
        };
        Ok(Page { entries: found.into_iter().filter_map(entry).collect(), next })
    }

    /// The records of the keys among names, in order.
    fn records_of(&self, found: &[Found]) -> Result<Vec<Option<ObjectRecord>>> {
        let wanted = found.iter().filter_map(|found| match found {
            Found::Key(_, name) => Some(name.clone()),
            Found::Prefix(_) => None,
        });
        self.see_all(&wanted.collect::<Vec<_>>())
    }

    /// Lists versions and delete markers, those of one key from the newest on; `after_id` is one of
    /// the key that the page comes after. Returns key and id of the last if more follow.
    pub(crate) fn list_versions(
        &self,
        at: &BucketRecord,
        req: &ListRequest,
        after_id: &str,
    ) -> Result<Versions> {
        let root = names::records(&at.id);
        let decode = |name: &str| names::decode(name.strip_prefix(&root)?);
        let (mut found, mut next) = self.walk(&root, decode, req, true)?;
        if !after_id.is_empty() && req.most > 0 && req.after.starts_with(&req.prefix) {
            found.insert(
                0,
                Found::Key(req.after.clone(), root.clone() + &names::encode(&req.after)),
            );
        }
        let mut records = self.records_of(&found)?.into_iter();
        let mut page = Vec::new();
        for found in found {
            match found {
                Found::Prefix(prefix) => {
                    let (key, entry) = (prefix.clone(), Ok(Entry::Prefix(prefix)));
                    page.push(Line { key, id: String::new(), entry, latest: false });
                }
                Found::Key(key, _) => {
                    if let Some(record) = records.next().flatten() {
                        page.extend(lines_of(
                            at,
                            &key,
                            record,
                            (key == req.after).then_some(after_id),
                        ));
                    }
                }
            }
        }
        if page.len() > req.most {
            page.truncate(req.most);
            next.get_or_insert_default();
        }
        let last = page.last().map(|last| (last.key.clone(), last.id.clone()));
        let next = next.and_then(|key| last.or((!key.is_empty()).then(|| (key, String::new()))));
        let earlier = page.iter().filter_map(|line| line.entry.as_ref().err().cloned());
        let mut earlier = self.see_all::<ObjectRecord>(&earlier.collect::<Vec<_>>())?.into_iter();
        let entry = |Line { key, entry, latest, .. }| match entry {
            Ok(entry) => Some((entry, latest)),
            Err(_) => Some((Entry::Object(key, Box::new(earlier.next().flatten()?)), latest)),
        };
        Ok((page.into_iter().filter_map(entry).collect(), next))
    }

    /// Finds the names of a page, and the last of them if more follow; `markers`: delete markers,
    /// too.
    fn walk(
        &self,
        root: &str,
        decode: impl Fn(&str) -> Option<String>,
        req: &ListRequest,
        markers: bool,
    ) -> Result<(Vec<Found>, Option<String>)> {
        let (mut found, mut last) = (Vec::new(), String::new());
        if req.most == 0 {
            return Ok((found, None));
        }
        let prefix = root.to_owned() + &names::encode(&req.prefix);
        // Past a group that was shown up to its delimiter already.
        let skipped = self.group_of(req, &req.after).filter(|group| *group == req.after);
        let mut start = match &skipped {
            Some(group) => format!("{root}{}{LAST}", names::encode(group)),
            None => root.to_owned() + &names::encode(&req.after),
        };
        let mut fresh = true;
        loop {
            let (mut more, mut jump) = (false, None);
            let see = |listed: kiln_pool::Listed| {
                let Some(key) = decode(&listed.name) else { return Ok(true) };
                if key <= req.after || !markers && is_marker(&listed.run) {
                    return Ok(true);
                }
                if found.len() == req.most {
                    more = true;
                    return Ok(false);
                }
                match self.group_of(req, &key) {
                    Some(group) => {
                        jump = Some(format!("{root}{}{LAST}", names::encode(&group)));
                        last.clone_from(&group);
                        found.push(Found::Prefix(group));
                        Ok(false)
                    }
                    None => {
                        last.clone_from(&key);
                        found.push(Found::Key(key, listed.name));
                        Ok(true)
                    }
                }
            };
            self.each((&prefix, Some(&start), std::mem::take(&mut fresh)), see)?;
            match jump {
                Some(next) => start = next,
                None => return Ok((found, more.then_some(last))),
            }
        }
    }

    /// The group that a key is shown as, if it is.
    fn group_of(&self, req: &ListRequest, key: &str) -> Option<String> {
        let rest = key.strip_prefix(&req.prefix).filter(|_| !req.delimiter.is_empty())?;
        let at = rest.find(&req.delimiter)?;
        Some(key[..req.prefix.len() + at + req.delimiter.len()].to_owned())
    }
}
