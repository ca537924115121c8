//! Metadata of files beside their bytes, kept in a pool: one object for each folder
//! that was copied, with modes, times, symbolic links and the folders in it.

use std::time::{Duration, SystemTime};
use std::{collections::BTreeMap, fs::Metadata, os::unix::fs::MetadataExt, path::Path};

use kiln_folders::attributes_in;
use kiln_pool::{GetRequest, Pool, layout::MAX_NAME};
use kiln_stripe::{PoolError, Settings, names::from_hex, names::hex};
use serde::{Deserialize, Serialize};

use crate::exit::{Failure, Result};
use crate::setup::kept::{self, Kept, mode_for};

/// The version that is written; later ones are not understood, and left alone.
const VERSION: u32 = 1;
/// More bytes are no attributes of ours.
const MAX_BYTES: u64 = 256 << 20;

/// Metadata of one folder's entries, by name.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Attributes {
    version: u32,
    pub entries: BTreeMap<String, Entry>,
    /// Identity of the object that they are from, if there is one, or of one before it.
    #[serde(skip)]
    pub over: Option<[u8; 16]>,
}

/// Metadata of a file or folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Permission bits, and those for running as another and for shared folders.
    pub mode: u32,
    /// Seconds since 1970, and nanoseconds.
    pub time: (i64, u32),
    /// Numbers of user and group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<(u32, u32)>,
    /// Extended attributes in hex digits.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extended: BTreeMap<String, String>,
}

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Entry {
    /// A file; what is said holds for one put of its object only.
    File {
        /// Metadata.
        #[serde(flatten)]
        about: About,
        /// The object's version.
        object: u64,
        /// When it was put, in ms since 1970: repairs and other codes make new versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        put: Option<u64>,
        /// One of several names of the file: the first of them, as seen from this folder.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        link: Option<String>,
    },
    /// A folder, which may be empty.
    Folder {
        /// Metadata.
        #[serde(flatten)]
        about: About,
    },
    /// A symbolic link.
    Link {
        /// Target as stored in the link.
        target: String,
        /// As of a file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<(u32, u32)>,
    },
}

impl About {
    fn of(path: &Path, meta: &Metadata) -> About {
        let extended = kept::extended_of(path).into_iter();
        About {
            mode: meta.mode() & 0o7777,
            time: time_of(meta),
            owner: Some((meta.uid(), meta.gid())),
            extended: extended.map(|(name, value)| (name, hex(&value))).collect(),
        }
    }
}

impl Entry {
    /// Of a file or folder; files get the version of their object.
    pub fn of(path: &Path, meta: &Metadata, object: u64) -> Entry {
        let about = About::of(path, meta);
        match meta.is_dir() {
            true => Entry::Folder { about },
            false => Entry::File { about, object, put: None, link: None },
        }
    }

    /// Metadata of a file or folder.
    pub fn about(&self) -> Option<&About> {
        match self {
            Entry::File { about, .. } | Entry::Folder { about } => Some(about),
            Entry::Link { .. } => None,
        }
    }

    /// Metadata for a file or folder on this machine; none of a link.
    pub fn kept(&self) -> Option<Kept> {
        let about = self.about()?;
        let extended = about.extended.iter();
        Some(Kept {
            mode: mode_for(about.mode, about.owner),
            time: system_time(about.time),
            owner: about.owner,
            extended: extended
                .filter_map(|(n, value)| Some((n.clone(), from_hex(value)?)))
                .collect(),
        })
    }

    /// The number of user and group, where it is known.
    pub fn owner(&self) -> Option<(u32, u32)> {
        match self {
            Entry::File { about, .. } | Entry::Folder { about } => about.owner,
            Entry::Link { owner, .. } => *owner,
        }
    }

    /// Returns how the metadata of two entries of one kind differ, apart from times; `out`: the
    /// second is to become the first, as far as it can be set here.
    pub fn differs(&self, there: &Entry, out: bool) -> Option<&'static str> {
        let owners = self.owner().zip(there.owner());
        if (!out || kept::sets_owners()) && owners.is_some_and(|(a, b)| a != b) {
            return Some("other owner");
        }
        let (a, b) = (self.about()?, there.about()?);
        let mode = if out { mode_for(a.mode, a.owner) } else { a.mode };
        if mode != b.mode & if a.owner.is_some() { 0o7777 } else { 0o777 } {
            return Some("other mode");
        }
        (a.extended != b.extended).then_some("other attributes")
    }

    /// Returns whether both are files, folders or links.
    pub fn same_kind(&self, other: &Entry) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Returns whether two are alike in kind, metadata and target, and in time as far as a file
    /// system with coarser times can tell; `out` as of [`Entry::differs`].
    pub fn looks_like(&self, there: &Entry, out: bool) -> bool {
        let same = match (self, there) {
            (Entry::Link { target, .. }, Entry::Link { target: other, .. }) => target == other,
            _ => {
                self.same_kind(there)
                    && self.time().zip(there.time()).is_some_and(|(a, b)| same_time(a, b))
            }
        };
        same && self.differs(there, out).is_none()
    }

    /// Time of change.
    pub fn time(&self) -> Option<(i64, u32)> {
        self.about().map(|about| about.time)
    }

    /// The first of a file's names, where it has several, as seen from its folder.
    pub fn link(&self) -> Option<&String> {
        if let Entry::File { link, .. } = self { link.as_ref() } else { None }
    }

    /// The same with another first name.
    #[must_use]
    pub fn with_link(mut self, first: Option<String>) -> Entry {
        if let Entry::File { link, .. } = &mut self {
            *link = first;
        }
        self
    }

    /// The same, as that of a version of an object and of when that was put.
    #[must_use]
    pub fn at_version(&self, version: u64, created_ms: u64) -> Entry {
        let mut entry = self.clone();
        if let Entry::File { object, put, .. } = &mut entry {
            (*object, *put) = (version, Some(created_ms));
        }
        entry
    }

    /// Returns whether it is of the data that an object has.
    pub fn is_of(&self, version: u64, created_ms: u64) -> bool {
        let Entry::File { object, put, .. } = self else { return false };
        *object == version || *put == Some(created_ms)
    }

    /// Returns whether it is of a later put of an object than another one.
    pub fn is_after(&self, other: &Entry) -> bool {
        let Entry::File { object: old, put: before, .. } = other else { return false };
        matches!(self, Entry::File { object, put, .. } if object > old && put > before)
    }

    /// Returns whether it says when its object was put; earlier releases did not.
    pub fn is_dated(&self) -> bool {
        matches!(self, Entry::File { put: Some(_), .. })
    }
}

/// The time of seconds since 1970 and nanoseconds, if the system knows it.
pub fn system_time((seconds, nanos): (i64, u32)) -> Option<SystemTime> {
    let far = Duration::new(seconds.unsigned_abs(), 0);
    let whole = match seconds < 0 {
        true => SystemTime::UNIX_EPOCH.checked_sub(far),
        false => SystemTime::UNIX_EPOCH.checked_add(far),
    };
    whole?.checked_add(Duration::from_nanos(u64::from(nanos % 1_000_000_000)))
}

/// The time now.
pub fn time_now() -> (i64, u32) {
    time_of_system(SystemTime::now())
}

/// A time as seconds since 1970, and nanoseconds.
pub fn time_of_system(time: SystemTime) -> (i64, u32) {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => (after.as_secs() as i64, after.subsec_nanos()),
        Err(before) => match before.duration() {
            before if before.subsec_nanos() == 0 => (-(before.as_secs() as i64), 0),
            before => (-(before.as_secs() as i64) - 1, 1_000_000_000 - before.subsec_nanos()),
        },
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
    /// Loads those of a folder from the object of this name; empty if there is none or can be none,
    /// `None` if a later version wrote them.
    pub fn load(pool: &Pool, name: &str, settings: &Settings<'_>) -> Result<Option<Attributes>> {
        if name.len() > MAX_NAME && !name.contains("//") {
            return Ok(Some(Attributes::default()));
        }
        let over = match pool.manifest(name) {
            Err(PoolError::NoObject { .. }) => return Ok(Some(Attributes::default())),
            Err(error) => return Err(error.into()),
            Ok(manifest) if manifest.size > MAX_BYTES => return Ok(None),
            Ok(manifest) => Some(manifest.run),
        };
        let mut bytes = Vec::new();
        pool.get(&GetRequest { name, range: None }, &mut bytes, settings)?;
        let read: Option<Attributes> = serde_json::from_slice(&bytes).ok();
        let read = read.filter(|read| read.version <= VERSION);
        Ok(read.map(|read| Attributes { over, ..read }))
    }

    /// The bytes of a folder's object with these entries.
    pub fn bytes_of(folder: &str, entries: BTreeMap<String, Entry>) -> Result<Vec<u8>> {
        let text = serde_json::to_vec(&Attributes { version: VERSION, entries, over: None });
        let (action, path) = ("write", attributes_in(folder).into());
        text.map_err(|error| Failure::Io { action, path, source: error.into() })
    }
}
