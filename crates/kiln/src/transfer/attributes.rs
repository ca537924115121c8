//! Metadata of files beside their bytes, kept in a pool: one object for each folder
//! that was copied, with modes, times, symbolic links and the folders in it.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use kiln_folders::attributes_in;
use kiln_pool::layout::MAX_NAME;
use kiln_pool::{GetRequest, Pool};
use kiln_stripe::{PoolError, Settings};
use serde::{Deserialize, Serialize};

use crate::exit::Failure;

/// The version that is written; later ones are not understood, and left alone.
const VERSION: u32 = 1;
/// More bytes are no attributes of ours.
const MAX_BYTES: u64 = 256 << 20;

/// Metadata of one folder's entries, by name.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Attributes {
    version: u32,
    /// Entries by their names.
    pub entries: BTreeMap<String, Entry>,
}

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Entry {
    /// A file; what is said holds for this version of its object only.
    File {
        /// Permission bits.
        mode: u32,
        /// Seconds since 1970, and nanoseconds.
        time: (i64, u32),
        /// The object's version.
        object: u64,
    },
    /// A folder, which may be empty.
    Folder {
        /// Permission bits.
        mode: u32,
        /// As of a file.
        time: (i64, u32),
    },
    /// A symbolic link.
    Link {
        /// Target as stored in the link.
        target: String,
    },
}

impl Entry {
    /// Of a file or folder; files get the version of their object.
    pub fn of(meta: &Metadata, object: u64) -> Entry {
        let (mode, time) = (meta.mode() & 0o777, time_of(meta));
        match meta.is_dir() {
            true => Entry::Folder { mode, time },
            false => Entry::File { mode, time, object },
        }
    }

    /// Mode and time; none of a link.
    pub fn mode_and_time(&self) -> Option<(u32, Option<SystemTime>)> {
        let (Entry::File { mode, time, .. } | Entry::Folder { mode, time }) = self else {
            return None;
        };
        let far = Duration::new(time.0.unsigned_abs(), 0);
        let whole = match time.0 < 0 {
            true => SystemTime::UNIX_EPOCH.checked_sub(far),
            false => SystemTime::UNIX_EPOCH.checked_add(far),
        };
        let nanos = Duration::from_nanos(u64::from(time.1 % 1_000_000_000));
        Some((mode & 0o777, whole.and_then(|whole| whole.checked_add(nanos))))
    }

    /// Returns whether both are files, folders or links.
    pub fn same_kind(&self, other: &Entry) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Returns whether two are alike in kind, mode and target, and in time as far as a file system
    /// with coarser times can tell.
    pub fn looks_like(&self, other: &Entry) -> bool {
        match (self, other) {
            (Entry::Link { target }, Entry::Link { target: other }) => target == other,
            _ => {
                self.same_kind(other)
                    && self.mode() == other.mode()
                    && self.time().zip(other.time()).is_some_and(|(a, b)| same_time(a, b))
            }
        }
    }

    /// Permission bits.
    pub fn mode(&self) -> Option<u32> {
        self.mode_and_time().map(|(mode, _)| mode)
    }

    /// Time of change.
    pub fn time(&self) -> Option<(i64, u32)> {
        match self {
            Entry::File { time, .. } | Entry::Folder { time, .. } => Some(*time),
            Entry::Link { .. } => None,
        }
    }

    /// The same, as that of a version of an object.
    #[must_use]
    pub fn at_version(&self, version: u64) -> Entry {
        match self {
            Entry::File { mode, time, .. } => {
                Entry::File { mode: *mode, time: *time, object: version }
            }
            other => other.clone(),
        }
    }
}

/// Units of time of file systems that have coarser ones: NTFS, others by microseconds, exFAT, whole
/// seconds.
const COARSE: [u32; 4] = [100, 1000, 10_000_000, 1_000_000_000];

/// Returns whether two times are the same, or one is the other as a file system with coarser times
/// keeps it (FAT: even seconds).
pub fn same_time(a: (i64, u32), b: (i64, u32)) -> bool {
    let is_cut = |cut: (i64, u32), whole: (i64, u32)| {
        let by_unit = |unit: &u32| cut == (whole.0, whole.1 - whole.1 % unit);
        COARSE.iter().any(by_unit) || cut == (whole.0 & !1, 0)
    };
    a == b || is_cut(a, b) || is_cut(b, a)
}

/// When a file was changed: seconds since 1970, and nanoseconds.
pub fn time_of(meta: &Metadata) -> (i64, u32) {
    (meta.mtime(), u32::try_from(meta.mtime_nsec()).unwrap_or(0))
}

impl Attributes {
    /// Loads those of a folder; empty if absent, `None` if a later version wrote them.
    ///
    /// # Errors
    /// The object cannot be read now.
    pub fn load(
        pool: &Pool,
        folder: &str,
        settings: &Settings<'_>,
    ) -> Result<Option<Attributes>, Failure> {
        let name = attributes_in(folder);
        if name.len() > MAX_NAME {
            return Ok(Some(Attributes::default()));
        }
        match pool.manifest(&name) {
            Err(PoolError::NoObject { .. }) => return Ok(Some(Attributes::default())),
            Err(error) => return Err(error.into()),
            Ok(manifest) if manifest.size > MAX_BYTES => return Ok(None),
            Ok(_) => {}
        }
        let mut bytes = Vec::new();
        pool.get(&GetRequest { name: &name, range: None }, &mut bytes, settings)?;
        let read: Option<Attributes> = serde_json::from_slice(&bytes).ok();
        Ok(read.filter(|read| read.version <= VERSION))
    }

    /// The object's bytes.
    ///
    /// # Errors
    /// None that is known.
    pub fn to_bytes(&self, folder: &str) -> Result<Vec<u8>, Failure> {
        serde_json::to_vec(self).map_err(|error| Failure::Io {
            action: "write",
            path: attributes_in(folder).into(),
            source: error.into(),
        })
    }

    /// Makes attributes of entries.
    pub fn of(entries: BTreeMap<String, Entry>) -> Attributes {
        Attributes { version: VERSION, entries }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coarse_times_are_the_same() {
        let exact = (1_714_979_289, 123_456_789);
        let cut = [123_456_700, 123_456_000, 120_000_000, 0].map(|nanos| (exact.0, nanos));
        for time in cut.into_iter().chain([exact, (1_714_979_288, 0)]) {
            assert!(same_time(exact, time) && same_time(time, exact), "{time:?}");
        }
        for time in [(exact.0, 123_456_788), (exact.0, 1), (exact.0 + 1, 0), (exact.0 - 2, 0)] {
            assert!(!same_time(exact, time), "{time:?}");
        }
    }
}
