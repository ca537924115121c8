//! Names as folders: no object may be one, so that pools can be copied into file systems.
//!
//! Homes of a name tell if an object is above it. That objects are below one only all nodes
//! could tell, so every folder has an object of its own by which it is found: the one that keeps
//! the attributes of its files, or one without any.

use std::collections::BTreeSet;
use std::iter;

use kiln_stripe::{PoolError, Result, Settings, Silent, Source, StreamSource};

use crate::Index;
use crate::data::parents::Way;
use crate::data::put::{MAX_TOGETHER, PutRequest};
use crate::data::writer::ObjectWriter;
use crate::layout::MAX_NAME;
use crate::manifest::quorum::Found;

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
///
/// ```
/// assert!(kiln_pool::folders_of("a/b/c").eq(["a/b", "a"]));
/// ```
pub fn folders_of(name: &str) -> impl Iterator<Item = &str> {
    let above = |name: &str| name.rfind('/').unwrap_or(0);
    iter::successors(Some(&name[..above(name)]), move |folder| Some(&folder[..above(folder)]))
        .take_while(|folder| !folder.is_empty())
}

impl ObjectWriter<'_> {
    /// Refuses a name for an object that would be a folder of others, or lie below another object.
    /// Objects below it are looked for in `index`, where there is one.
    ///
    /// # Errors
    /// [`PoolError::Refused`]; what keeps the pool from being asked.
    pub fn refuse_nested(&self, index: Option<&Index>, name: &str) -> Result<()> {
        self.refuse_nested_but(&BTreeSet::new(), index, name)
    }

    /// As [`ObjectWriter::refuse_nested`], but does not ask for folders that are known to be no
    /// objects.
    ///
    /// # Errors
    /// As [`ObjectWriter::refuse_nested`].
    pub fn refuse_nested_but(
        &self,
        free: &BTreeSet<&str>,
        index: Option<&Index>,
        name: &str,
    ) -> Result<()> {
        for folder in folders_of(name).filter(|folder| !free.contains(folder)) {
            if self.has(folder)? {
                return Err(above(folder, name));
            }
        }
        match index.map(|index| index.first_in(name)).transpose()?.flatten() {
            Some(inside) => {
                let what =
                    format!("{name:?} is a folder with {inside:?}, so it cannot be an object");
                Err(PoolError::Refused { what })
            }
            None => Ok(()),
        }
    }

    /// Refuses a name as [`ObjectWriter::refuse_nested`] does, and gives the folders above it their
    /// own objects, so that they are known as folders before there is anything in them. Asks the
    /// homes of a few names, however large the pool; `index` is called only where the name has been
    /// a folder. Two who put at the same time, one a folder and one an object of its name, are not
    /// kept apart.
    ///
    /// ```
    /// # use kiln_pool::{Index, PutRequest};
    /// # use kiln_stripe::{PoolError, Settings, Silent, StreamSource};
    /// # let pool = kiln_pool::example_pool()?;
    /// let index = || {
    ///     let index = Index::in_memory().ok()?;
    ///     index.refresh(&pool, b"this boot", &Silent).ok().map(|_| index)
    /// };
    /// let req = |name| PutRequest { name, run: [2; 16], now_ms: 0, replace: false };
    /// let settings = Settings::new(&Silent);
    /// let way = pool.writer().see_way("a/b")?;
    /// pool.writer().make_way(&req("a/b"), &way, &index)?;
    /// pool.writer().put_on(&req("a/b"), &way, &mut StreamSource::new(&b"bytes"[..]), &settings)?;
    /// for name in ["a", "a/b/c"] {
    ///     let way = pool.writer().see_way(name)?;
    ///     let end = pool.writer().make_way(&req(name), &way, &index);
    ///     assert!(matches!(end, Err(PoolError::Refused { .. })));
    /// }
    /// # Ok::<(), PoolError>(())
    /// ```
    ///
    /// # Errors
    /// [`PoolError::Refused`]; as [`crate::ManifestStore::manifest`], and as [`ObjectWriter::put`]
    /// for objects of folders.
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
            self.refuse_nested_but(&folders, index().as_ref(), req.name)?;
        }
        let lacking = way.lacking.iter().filter(|mark| *mark != req.name);
        self.put_marks(req.run, req.now_ms, &lacking.map(String::as_str).collect::<Vec<_>>())
    }

    /// Looks at a name, at the folders in it and at their own objects, all at once: every node is
    /// asked for its map once, however many folders there are.
    ///
    /// # Errors
    /// As [`crate::ManifestStore::manifest`], but for [`PoolError::NoObject`].
    pub fn see_way(&self, name: &str) -> Result<Way> {
        let folders: Vec<&str> = folders_of(name).collect();
        let marks: Vec<String> = folders.iter().filter_map(|folder| mark_of(folder)).collect();
        let own = mark_of(name);
        let mut names = vec![name];
        names.extend(folders.iter().copied().chain(marks.iter().chain(&own).map(String::as_str)));
        let mut found = self.manifests.look_each(&names)?.into_iter().map(Found::into_data);
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

    /// Gives folders that have none their own objects, as [`ObjectWriter::make_way`] does. `run`: a
    /// fresh identity; `now_ms`: the time, in ms since 1970.
    ///
    /// # Errors
    /// As [`crate::ManifestStore::manifest`] and [`ObjectWriter::put`].
    pub fn make_folders(&self, run: [u8; 16], now_ms: u64, folders: &BTreeSet<&str>) -> Result<()> {
        let marks: Vec<String> = folders.iter().filter_map(|folder| mark_of(folder)).collect();
        let marked = self.are_there(marks.iter().map(String::as_str).collect())?;
        self.put_marks(run, now_ms, &lacking(&marks, &marked).collect::<Vec<_>>())
    }

    /// Removes folders' own objects that say nothing, of folders that have no objects any more and
    /// were made before `before_ms`. `fresh` gives random identities; the index must be up to date.
    /// Returns how many were removed; none, where there may be objects that nobody knows of now.
    ///
    /// # Errors
    /// The index; as [`ObjectWriter::remove`].
    pub fn remove_empty_folders(
        &self,
        index: &Index,
        fresh: &dyn Fn() -> [u8; 16],
        now_ms: u64,
        before_ms: u64,
    ) -> Result<u64> {
        if !self.map.sees_all()? {
            return Ok(0);
        }
        let mut removed = 0;
        index.in_batches("", MAX_TOGETHER, false, |batch| {
            let mut empty = Vec::new();
            for listed in batch.iter().filter(|listed| is_attributes(&listed.name)) {
                let folder = listed.name.strip_suffix(ATTRIBUTES).unwrap_or_default();
                let says_nothing = listed.size == NOTHING_KNOWN.len() as u64;
                if says_nothing
                    && listed.created_ms <= before_ms
                    && index.first_in(folder.trim_end_matches('/'))?.is_none()
                {
                    empty.push((&listed.name[..], fresh()));
                }
            }
            for end in self.remove_all(&empty, now_ms, &Settings::new(&Silent))? {
                match end {
                    Ok(()) => removed += 1,
                    Err(PoolError::NoObject { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(true)
        })?;
        Ok(removed)
    }

    /// Puts folders' own objects, of these names.
    fn put_marks(&self, run: [u8; 16], now_ms: u64, names: &[&str]) -> Result<()> {
        let size = NOTHING_KNOWN.len() as u64;
        for names in names.chunks(MAX_TOGETHER) {
            let source = |_| StreamSource::new(NOTHING_KNOWN).with_size(size);
            let mut sources: Vec<_> = names.iter().map(source).collect();
            let puts = names.iter().zip(&mut sources).map(|(name, source)| {
                let req = PutRequest { name, run, now_ms, replace: false };
                (req, source as &mut dyn Source)
            });
            for end in self.put_all(puts.collect(), &Settings::new(&Silent))? {
                match end {
                    // Somebody else was quicker.
                    Ok(_) | Err(PoolError::Exists { .. } | PoolError::Refused { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Returns whether there are objects of these names, which are asked for at once.
    fn are_there(&self, names: Vec<&str>) -> Result<Vec<bool>> {
        self.map.in_parallel(names, |_, name| self.has(name))
    }

    /// Returns whether there is an object of that name.
    ///
    /// # Errors
    /// As [`crate::ManifestStore::manifest`], but for [`PoolError::NoObject`].
    pub fn has(&self, name: &str) -> Result<bool> {
        match self.manifests.manifest(name) {
            Ok(_) => Ok(true),
            Err(PoolError::NoObject { .. }) => Ok(false),
            Err(error) => Err(error),
        }
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

impl Index {
    /// The first object of a folder, if it has any, attributes apart.
    ///
    /// # Errors
    /// The database.
    pub fn first_in(&self, folder: &str) -> Result<Option<String>> {
        let mut first = None;
        self.each(&format!("{folder}/"), None, |listed| {
            first = Some(listed.name).filter(|name| !is_attributes(name));
            Ok(first.is_none())
        })?;
        Ok(first)
    }
}
