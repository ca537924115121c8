//! Versions of objects: the one in force and those that are kept.

use std::collections::BTreeMap;

use kiln_stripe::Result;
use serde::Serialize;

use super::{Index, Listed};
use crate::Key;
use crate::layout::{kept_parts, object_name};

/// A version of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Version {
    /// The object.
    pub name: String,
    /// Its version then.
    pub version: u64,
    /// Its size in bytes.
    pub size: u64,
    /// When it was put, in ms since 1970.
    pub created_ms: u64,
    /// When it was replaced or removed; absent while it is in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
    /// The code with all parameters, or `inline`.
    pub code: String,
    /// Identity of its data, 32 hex digits.
    pub run: String,
    /// Name of the object that it is read as.
    pub object: String,
}

impl Version {
    fn of(listed: Listed) -> Version {
        Version {
            name: object_name(&listed.name).to_owned(),
            version: listed.kept.map_or(listed.version, |kept| kept.version),
            size: listed.size,
            created_ms: listed.created_ms,
            until_ms: listed.kept.map(|kept| kept.until_ms),
            code: listed.code,
            run: listed.run,
            object: listed.name,
        }
    }

    /// Returns whether it was in force at a time.
    pub fn was_at(&self, ms: u64) -> bool {
        self.created_ms <= ms && self.until_ms.is_none_or(|until| ms < until)
    }
}

/// Puts the newest first, and leaves out what an interrupted commit kept of the one in force.
fn in_order(versions: &mut Vec<Version>) {
    versions.sort_by_key(|one| (one.until_ms.is_some(), std::cmp::Reverse(one.version)));
    let live = versions.first().filter(|one| one.until_ms.is_none());
    if let Some(run) = live.map(|live| live.run.clone()) {
        versions.retain(|one| one.until_ms.is_none() || one.run != run);
    }
}

impl Index {
    /// Versions of objects whose names begin with a prefix, the newest first, by object.
    pub fn versions(&self, prefix: &str) -> Result<BTreeMap<String, Vec<Version>>> {
        let mut all: BTreeMap<String, Vec<Version>> = BTreeMap::new();
        self.each_version(prefix, None, |listed| {
            let version = Version::of(listed);
            all.entry(version.name.clone()).or_default().push(version);
            Ok(true)
        })?;
        all.values_mut().for_each(in_order);
        Ok(all)
    }

    /// Versions of one object, the newest first.
    /// Errors: no object can have this name; the database.
    pub fn versions_of(&self, name: &str) -> Result<Vec<Version>> {
        let live = self.by_key(&Key::of(name)?)?.filter(|live| !live.deleted);
        let mut versions: Vec<Version> = live.into_iter().map(Version::of).collect();
        self.each_version(&format!("{name}//"), None, |listed| {
            versions.extend(kept_parts(&listed.name).is_some().then(|| Version::of(listed)));
            Ok(true)
        })?;
        in_order(&mut versions);
        Ok(versions)
    }
}
