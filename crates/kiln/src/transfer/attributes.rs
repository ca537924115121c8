//! Metadata of files beside their bytes, kept in a pool: one object for each folder
//! that was copied, with modes, times, symbolic links and the folders in it.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use kiln_pool::{GetRequest, Pool, PoolError, Settings, attributes_in};
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

    /// Gives a file or folder that is there its mode and time.
    ///
    /// # Errors
    /// The system does not permit it.
    pub fn apply(&self, path: &Path) -> io::Result<()> {
        let (Entry::File { mode, time, .. } | Entry::Folder { mode, time }) = self else {
            return Ok(());
        };
        let far = Duration::new(time.0.unsigned_abs(), 0);
        let whole = match time.0 < 0 {
            true => SystemTime::UNIX_EPOCH.checked_sub(far),
            false => SystemTime::UNIX_EPOCH.checked_add(far),
        };
        let nanos = Duration::from_nanos(u64::from(time.1 % 1_000_000_000));
        if let Some(time) = whole.and_then(|whole| whole.checked_add(nanos)) {
            File::open(path)?.set_times(FileTimes::new().set_modified(time))?;
        }
        fs::set_permissions(path, Permissions::from_mode(mode & 0o777))
    }

    /// Makes a link, unless something has its name.
    ///
    /// # Errors
    /// The system does not permit it.
    pub fn link(&self, path: &Path) -> io::Result<()> {
        match self {
            Entry::Link { target } if path.symlink_metadata().is_err() => symlink(target, path),
            _ => Ok(()),
        }
    }
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

    /// Returns those of a folder with entries added in place of those of the same names; nothing
    /// where that changes nothing, or a later version wrote them, which are left alone.
    ///
    /// # Errors
    /// The object cannot be read now.
    pub fn with(
        pool: &Pool,
        folder: &str,
        entries: &BTreeMap<String, Entry>,
        settings: &Settings<'_>,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let Some(mut all) = Attributes::load(pool, folder, settings)? else { return Ok(None) };
        if entries.iter().all(|(name, entry)| all.entries.get(name) == Some(entry)) {
            return Ok(None);
        }
        all.entries.extend(entries.iter().map(|(name, entry)| (name.clone(), entry.clone())));
        all.version = VERSION;
        let text = serde_json::to_vec(&all).map_err(|error| Failure::Io {
            action: "write",
            path: attributes_in(folder).into(),
            source: error.into(),
        })?;
        Ok(Some(text))
    }
}
