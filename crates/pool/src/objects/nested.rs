//! Names as folders: no object may be one, so that pools can be copied into file systems.

use std::collections::BTreeSet;
use std::iter;

use super::{Index, Pool};
use crate::{PoolError, Result};

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

impl Pool {
    /// Refuses a name for an object that would be a folder of others, or lie below another object.
    /// Objects below it are looked for in `index`, where there is one.
    ///
    /// # Errors
    /// [`PoolError::Refused`]; what keeps the pool from being asked.
    pub fn refuse_nested(&self, index: Option<&Index>, name: &str) -> Result<()> {
        self.refuse_nested_but(&BTreeSet::new(), index, name)
    }

    /// As [`Pool::refuse_nested`], but does not ask for folders that are known to be no objects.
    ///
    /// # Errors
    /// As [`Pool::refuse_nested`].
    pub fn refuse_nested_but(
        &self,
        free: &BTreeSet<&str>,
        index: Option<&Index>,
        name: &str,
    ) -> Result<()> {
        for folder in folders_of(name).filter(|folder| !free.contains(folder)) {
            if self.has(folder)? {
                let what =
                    format!("{folder:?} is an object, so it cannot be a folder with {name:?}");
                return Err(PoolError::Refused { what });
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

    /// Whether there is an object of that name.
    ///
    /// # Errors
    /// As [`Pool::manifest`], but for [`PoolError::NoObject`].
    pub fn has(&self, name: &str) -> Result<bool> {
        match self.manifest(name) {
            Ok(_) => Ok(true),
            Err(PoolError::NoObject { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Index {
    /// The first object of a folder, if it has any.
    ///
    /// # Errors
    /// The database.
    pub fn first_in(&self, folder: &str) -> Result<Option<String>> {
        let mut first = None;
        self.each(&format!("{folder}/"), None, |listed| {
            first = Some(listed.name);
            Ok(false)
        })?;
        Ok(first)
    }
}
