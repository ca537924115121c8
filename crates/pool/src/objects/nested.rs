//! Names as folders: no object may be one, so that pools can be copied into file systems.

use std::collections::BTreeSet;

use super::{Index, Pool};
use crate::{PoolError, Result};

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
        let parent = |name: &str| name.rfind('/').unwrap_or(0);
        let mut folder = &name[..parent(name)];
        while !folder.is_empty() {
            if !free.contains(folder) && self.has(folder)? {
                let what =
                    format!("{folder:?} is an object, so it cannot be a folder with {name:?}");
                return Err(PoolError::Refused { what });
            }
            folder = &folder[..parent(folder)];
        }
        let mut inside = None;
        if let Some(index) = index {
            index.each(&format!("{name}/"), None, |listed| {
                inside = Some(listed.name);
                Ok(false)
            })?;
        }
        match inside {
            Some(inside) => {
                let what =
                    format!("{name:?} is a folder with {inside:?}, so it cannot be an object");
                Err(PoolError::Refused { what })
            }
            None => Ok(()),
        }
    }

    /// Whether there is an object of that name.
    fn has(&self, name: &str) -> Result<bool> {
        match self.manifest(name) {
            Ok(_) => Ok(true),
            Err(PoolError::NoObject { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
