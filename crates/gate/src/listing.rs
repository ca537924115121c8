//! Listing the objects of a bucket in pages.

use crate::error::Result;
use crate::gate::Gate;
use crate::names;
use crate::record::{BucketRecord, ObjectRecord};

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
    /// An object.
    Object(String, Box<ObjectRecord>),
    /// All keys that begin with this.
    Prefix(String),
}

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

impl Gate {
    /// Lists objects; all changes that ended before are seen.
    ///
    /// # Errors
    /// The pool's errors.
    pub(crate) fn list(&self, at: &BucketRecord, req: &ListRequest) -> Result<Page> {
        let root = names::records(&at.id);
        let decode = |name: &str| names::decode(name.strip_prefix(&root)?);
        let (found, next) = self.walk(&root, decode, req)?;
        let wanted = found.iter().filter_map(|found| match found {
            Found::Key(_, name) => Some(name.clone()),
            Found::Prefix(_) => None,
        });
        let mut records = self.see_all::<ObjectRecord>(&wanted.collect::<Vec<_>>())?.into_iter();
        let entry = |found| match found {
            // One that was removed meanwhile is left out.
            Found::Key(key, _) => {
                records.next().flatten().map(|record| Entry::Object(key, Box::new(record)))
            }
            Found::Prefix(prefix) => Some(Entry::Prefix(prefix)),
        };
        Ok(Page { entries: found.into_iter().filter_map(entry).collect(), next })
    }

    /// Finds the names of a page, and the last of them if more follow.
    fn walk(
        &self,
        root: &str,
        decode: impl Fn(&str) -> Option<String>,
        req: &ListRequest,
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
                if key <= req.after {
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
            match std::mem::take(&mut fresh) {
                true => self.each(&prefix, Some(&start), see)?,
                false => self.each_known(&prefix, Some(&start), see)?,
            }
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
