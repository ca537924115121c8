//! Names as folders: no object may be one, so that pools can be copied into file systems.
//!
//! Homes of a name tell if an object is above it. That objects are below one only all nodes
//! could tell, so every folder has an object of its own by which it is found: the one that keeps
//! the attributes of its files, or one without any.
#![forbid(unsafe_code)]

use kiln_pool::{Index, MAX_TOGETHER, Manifest, Pool, PutReport, PutRequest, layout::MAX_NAME};
use kiln_stripe::{PoolError, Result, Settings, Silent, Source};
use std::{collections::BTreeSet, iter};

/// Last word of the name of a folder's own object.
pub const ATTRIBUTES: &str = ".kiln-attributes";

/// Content of such an object for a folder of which nothing else is known.
const NOTHING_KNOWN: &[u8] = br#"{"version":1,"entries":{}}"#;

/// The name of a folder's own object; the pool itself has an empty name.
#[must_use]
pub fn attributes_in(folder: &str) -> String {
    match folder.is_empty() {
        true => ATTRIBUTES.to_owned(),
        false => format!("{folder}/{ATTRIBUTES}"),
    }
}

/// Returns whether an object is one of these.
#[must_use]
pub fn is_attributes(name: &str) -> bool {
    name.rsplit('/').next() == Some(ATTRIBUTES)
}

/// The folder that a name is in, the one that this is in, and so on.
pub fn folders_of(name: &str) -> impl Iterator<Item = &str> {
    let above = |name: &str| name.rfind('/').unwrap_or(0);
    iter::successors(Some(&name[..above(name)]), move |folder| Some(&folder[..above(folder)]))
        .take_while(|folder| !folder.is_empty())
}

/// Objects at a name and above it, before something is put there, as [`Folders::look`] found them.
/// It may be out of date a moment later: it spares questions before work that is refused or begun,
/// and a put asks once more, under the locks, before its object takes its place.
#[derive(Clone, Debug)]
pub struct Way {
    name: String,
    /// Object that is there, if it has data.
    object: Option<Manifest>,
    /// A folder in the name that is an object.
    blocked: Option<String>,
    /// Own objects that its folders lack.
    lacking: Vec<String>,
    /// There may be objects below it.
    was_folder: bool,
}

/// The folders of a pool.
#[derive(Copy, Clone, Debug)]
pub struct Folders<'a>(pub &'a Pool);

impl Folders<'_> {
    /// Refuses a name for an object that would be a folder of others, or lie below another object.
    /// Objects below it are looked for in `index`, where there is one.
    /// Errors: [`PoolError::Refused`]; what keeps the pool from being asked.
    pub fn refuse_nested(&self, index: Option<&Index>, name: &str) -> Result<()> {
        self.refuse_nested_but(&BTreeSet::new(), index, name)
    }

    /// As [`Folders::refuse_nested`], but does not ask for folders that are known to be no
    /// objects.
    pub fn refuse_nested_but(
        &self,
        free: &BTreeSet<&str>,
        index: Option<&Index>,
        name: &str,
    ) -> Result<()> {
        for folder in folders_of(name).filter(|folder| !free.contains(folder)) {
            if self.0.writer().has(folder)? {
                return Err(above(folder, name));
            }
        }
        match index.map(|index| first_in(index, name)).transpose()?.flatten() {
            Some(inside) => {
                let what =
                    format!("{name:?} is a folder with {inside:?}, so it cannot be an object");
                Err(PoolError::Refused { what })
            }
            None => Ok(()),
        }
    }

    /// Refuses a name as [`Folders::refuse_nested`] does, and gives the folders above it their
    /// own objects, so that they are known as folders before there is anything in them. Asks the
    /// homes of a few names, however large the pool; `index` is called only where the name has been
    /// a folder. Two who put at the same time, one a folder and one an object of its name, are not
    /// kept apart.
    ///
    /// ```
    /// # use kiln_folders::Folders;
    /// # use kiln_pool::{Index, PutRequest};
    /// # use kiln_stripe::{PoolError, Settings, Silent, StreamSource};
    /// # let pool = kiln_pool::example_pool()?;
    /// let index = || {
    ///     let index = Index::in_memory().ok()?;
    ///     index.refresh(&pool, b"this boot", &Silent).ok().map(|_| index)
    /// };
    /// let req = |name| PutRequest { name, run: [2; 16], now_ms: 0, replace: false };
    /// let (folders, settings) = (Folders(&pool), Settings::new(&Silent));
    /// let way = folders.look("a/b")?;
    /// folders.make_way(&req("a/b"), &way, &index)?;
    /// folders.put(&req("a/b"), &way, &mut StreamSource::new(&b"bytes"[..]), &settings)?;
    /// for name in ["a", "a/b/c"] {
    ///     let end = folders.make_way(&req(name), &folders.look(name)?, &index);
    ///     assert!(matches!(end, Err(PoolError::Refused { .. })));
    /// }
    /// # Ok::<(), PoolError>(())
    /// ```
    ///
    /// Errors: [`PoolError::Refused`]; as [`kiln_pool::ManifestStore::manifest`], and as
    /// [`kiln_pool::ObjectWriter::put`] for objects of folders.
    pub fn make_way(
        &self,
        req: &PutRequest<'_>,
        way: &Way,
        index: &dyn Fn() -> Option<Index>,
    ) -> Result<()> {
        if way.name != req.name {
            let what = format!("the way of {:?} is none of {:?}", way.name, req.name);
            return Err(PoolError::Usage { what });
        }
        let folders: BTreeSet<&str> = folders_of(req.name).collect();
        if let Some(folder) = &way.blocked {
            return Err(above(folder, req.name));
        }
        if way.was_folder {
            if self.0.use_object("").is_err() {
                let name = req.name;
                let what = format!("{name:?} was a folder; a key with a prefix cannot list it");
                return Err(PoolError::Refused { what });
            }
            self.refuse_nested_but(&folders, index().as_ref(), req.name)?;
        }
        let lacking = way.lacking.iter().filter(|mark| *mark != req.name);
        self.put_marks(req.run, req.now_ms, &lacking.map(String::as_str).collect::<Vec<_>>())
    }

    /// Looks at a name, at the folders in it and at their own objects, all at once: every node is
    /// asked for its map once, however many folders there are. Of folders above the prefix that a
    /// key is limited to nothing is asked: an unlimited client has made them.
    /// Errors: as [`kiln_pool::ManifestStore::manifest`], but for [`PoolError::NoObject`].
    pub fn look(&self, name: &str) -> Result<Way> {
        let may = |name: &str| self.0.use_object(name).is_ok();
        let mut folders: Vec<&str> = folders_of(name).collect();
        let mut marks: Vec<String> = folders.iter().filter_map(|folder| mark_of(folder)).collect();
        folders.retain(|folder| may(folder));
        marks.retain(|mark| may(mark));
        let own = mark_of(name).filter(|own| may(own));
        let mut names = vec![name];
        names.extend(folders.iter().copied().chain(marks.iter().chain(&own).map(String::as_str)));
        let mut found = self.0.manifests().manifests(&names)?.into_iter();
        let object = found.next().flatten();
        let there: Vec<bool> = found.map(|data| data.is_some()).collect();
        let (objects, there) = there.split_at(folders.len());
        let (marked, was_folder) = there.split_at(marks.len());
        let blocked = folders.iter().zip(objects).find(|(_, is)| **is);
        Ok(Way {
            name: name.to_owned(),
            object,
            blocked: blocked.map(|(folder, _)| (*folder).to_owned()),
            lacking: lacking(&marks, marked).map(str::to_owned).collect(),
            was_folder: was_folder.contains(&true),
        })
    }

    /// Puts an object after [`Folders::make_way`]: what the way says is not asked for again before
    /// the data is written. Before the object takes its place it is, as ever.
    pub fn put(
        &self,
        req: &PutRequest<'_>,
        way: &Way,
        source: &mut dyn Source,
        settings: &Settings<'_>,
    ) -> Result<PutReport> {
        match way.name == req.name {
            true => self.0.writer().put_seen(req, way.object.as_ref(), source, settings),
            false => self.0.put(req, source, settings),
        }
    }

    /// Gives folders that have none their own objects, as [`Folders::make_way`] does. `run`: a
    /// fresh identity; `now_ms`: the time, in ms since 1970.
    /// Errors: as [`kiln_pool::ManifestStore::manifest`] and [`kiln_pool::ObjectWriter::put`].
    pub fn make_folders(&self, run: [u8; 16], now_ms: u64, folders: &BTreeSet<&str>) -> Result<()> {
        let marks: Vec<String> = folders.iter().filter_map(|folder| mark_of(folder)).collect();
        let marked = self.are_there(marks.iter().map(String::as_str).collect())?;
        self.put_marks(run, now_ms, &lacking(&marks, &marked).collect::<Vec<_>>())
    }

    /// Removes folders' own objects that say nothing, of folders that have no objects any more and
    /// were made before `before_ms`. `fresh` gives random identities; the index must be up to date.
    /// Returns how many were removed; none, where there may be objects that no node here knows of.
    /// Errors: the index; as [`kiln_pool::ObjectWriter::remove_over`].
    pub fn remove_empty(
        &self,
        index: &Index,
        fresh: &dyn Fn() -> [u8; 16],
        now_ms: u64,
        before_ms: u64,
    ) -> Result<u64> {
        if !self.0.sees_all()? {
            return Ok(0);
        }
        let mut removed = 0;
        index.in_batches("", MAX_TOGETHER, false, |batch| {
            let mut idle = Vec::new();
            for listed in batch.iter().filter(|listed| is_attributes(&listed.name)) {
                let folder = listed.name.strip_suffix(ATTRIBUTES).unwrap_or_default();
                if listed.size == NOTHING_KNOWN.len() as u64
                    && listed.created_ms <= before_ms
                    && first_in(index, folder.trim_end_matches('/'))?.is_none()
                {
                    idle.push(listed.name.clone());
                }
            }
            removed += self.remove_idle(&idle, fresh, now_ms)?;
            Ok(true)
        })?;
        Ok(removed)
    }

    /// Removes those of folders' own objects, given by their names, that say nothing; what another
    /// client writes into one meanwhile stays. Returns how many were removed.
    /// Errors: as [`kiln_pool::ObjectWriter::remove_over`].
    pub fn remove_idle(
        &self,
        names: &[String],
        fresh: &dyn Fn() -> [u8; 16],
        now_ms: u64,
    ) -> Result<u64> {
        let mut removed = 0;
        for names in names.chunks(MAX_TOGETHER) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let found = names.iter().zip(self.0.manifests().manifests(&names)?);
            let found = found.filter_map(|(name, found)| Some((*name, found?)));
            let idle = found.filter(|(_, found)| found.size == NOTHING_KNOWN.len() as u64);
            let idle: Vec<_> = idle.map(|(name, found)| (name, fresh(), Some(found.run))).collect();
            for end in self.0.writer().remove_all(&idle, now_ms, &Settings::new(&Silent))? {
                match end {
                    Ok(()) => removed += 1,
                    Err(PoolError::NoObject { .. } | PoolError::Conflict { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(removed)
    }

    /// Puts folders' own objects, of these names.
    fn put_marks(&self, run: [u8; 16], now_ms: u64, names: &[&str]) -> Result<()> {
        for names in names.chunks(MAX_TOGETHER) {
            let req = |name| PutRequest { name, run, now_ms, replace: false };
            let puts: Vec<_> = names.iter().map(|name| (req(name), None, NOTHING_KNOWN)).collect();
            for end in self.0.writer().put_bytes(&puts, &Settings::new(&Silent))? {
                match end {
                    // Another client was quicker.
                    Ok(_)
                    | Err(
                        PoolError::Exists { .. }
                        | PoolError::Refused { .. }
                        | PoolError::Full { .. },
                    ) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Returns whether there are objects of these names, which are asked for at once.
    fn are_there(&self, names: Vec<&str>) -> Result<Vec<bool>> {
        self.0.in_parallel(names, |_, name| self.0.writer().has(name))
    }
}

/// The name of a folder's own object; `None`: it would be too long for an object.
fn mark_of(folder: &str) -> Option<String> {
    Some(attributes_in(folder)).filter(|name| name.len() <= MAX_NAME)
}

/// The names of those that are not there.
fn lacking<'n>(names: &'n [String], there: &[bool]) -> impl Iterator<Item = &'n str> {
    names.iter().zip(there).filter(|(_, is)| !**is).map(|(name, _)| &name[..])
}

/// Refuses a name below that of an object.
fn above(object: &str, name: &str) -> PoolError {
    let what = format!("{object:?} is an object, so it cannot be a folder with {name:?}");
    PoolError::Refused { what }
}

/// The first object of a folder, if it has any, attributes apart.
pub fn first_in(index: &Index, folder: &str) -> Result<Option<String>> {
    let mut first = None;
    index.each(&format!("{folder}/"), None, |listed| {
        first = Some(listed.name).filter(|name| !is_attributes(name));
        Ok(first.is_none())
    })?;
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_folder_records_while_it_is_removed_stays() {
        let pool = kiln_pool::example_pool().unwrap();
        let (folders, settings) = (Folders(&pool), Settings::new(&Silent));
        folders.make_folders([1; 16], 0, &["a", "b"].into()).unwrap();
        let marks = ["a", "b"].map(attributes_in);
        // Another client writes after the look.
        let fresh = || {
            let req = PutRequest { name: &marks[0], run: [2; 16], now_ms: 0, replace: true };
            pool.writer().put_bytes(&[(req, None, b"records")], &settings).unwrap();
            [3; 16]
        };
        assert_eq!(folders.remove_idle(&marks, &fresh, 0).unwrap(), 1);
        assert_eq!(marks.map(|mark| pool.writer().has(&mark).unwrap()), [true, false]);
    }
}
