//! Metadata of outputs: modes, times, owners and extended attributes, as far as the system and its
//! file system take them.

use std::fs::{File, FileTimes, Permissions};
use std::os::unix::fs::{PermissionsExt, fchown};
use std::sync::{Mutex, PoisonError};
use std::{collections::BTreeMap, io, path::Path, path::PathBuf, time::SystemTime};

use jiff::Timestamp;
use rustix::fs::{
    XattrFlags, flistxattr, fremovexattr, fsetxattr, lgetxattr, llistxattr, lsetxattr,
};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

/// Extended attributes by name.
pub type Extended = BTreeMap<String, Vec<u8>>;

/// Most bytes of an attribute, and of the names of a file's attributes.
const MAX_BYTES: usize = 64 << 10;
/// Attributes that are kept: ACLs among them. Others are the file system's own.
const KEPT: [&str; 4] = ["user.", "system.posix_acl_", "trusted.", "security.capability"];

/// Attribute of a shard's file: the time of the file that was encoded.
const TIME: &str = "user.kiln.mtime";

/// Entries whose owner or attributes could not be set, by what; and the first of the reasons.
static NOT_KEPT: Mutex<BTreeMap<&'static str, (u64, String)>> = Mutex::new(BTreeMap::new());

/// Metadata that a complete output gets.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    pub mode: u32,
    pub time: Option<SystemTime>,
    pub owner: Option<(u32, u32)>,
    pub extended: Extended,
}

/// Returns whether this process may give files to others.
pub fn sets_owners() -> bool {
    geteuid().is_root()
}

/// The bits of a mode that a file gets of an owner: who becomes another by running it is only kept
/// where the file is the same one's.
pub fn mode_for(mode: u32, owner: Option<(u32, u32)>) -> u32 {
    let own = owner == Some((geteuid().as_raw(), getegid().as_raw()));
    match owner {
        None => mode & 0o777,
        Some(_) if own || sets_owners() => mode & 0o7777,
        Some(_) => mode & 0o1777,
    }
}

impl Kept {
    /// A mode, and perhaps a time.
    pub fn new(mode: u32, time: Option<SystemTime>) -> Kept {
        Kept { mode, time, ..Kept::default() }
    }

    /// Returns whether there is nothing but a mode.
    pub fn is_mode(&self) -> bool {
        self.time.is_none() && self.owner.is_none() && self.extended.is_empty()
    }

    /// Sets all of it but the mode, which is set with the last right that it gives.
    /// Errors: the time cannot be set. Owners and attributes that cannot be are counted.
    pub fn apply(&self, file: &File) -> io::Result<()> {
        if let Some((user, group)) = self.owner.filter(|_| sets_owners()) {
            note("owners", fchown(file, Some(user), Some(group)));
        }
        // Of what is known with its owner all attributes are known.
        let others = if self.owner.is_some() {
            names_of(|names| flistxattr(file, names))
        } else {
            Vec::new()
        };
        for name in others.iter().filter(|name| !self.extended.contains_key(*name)) {
            let removed = fremovexattr(file, &name[..]);
            note("extended attributes", removed.map_err(io::Error::from));
        }
        for (name, value) in &self.extended {
            let set = fsetxattr(file, &name[..], value, XattrFlags::empty());
            note("extended attributes", set.map_err(io::Error::from));
        }
        match self.time {
            Some(time) => file.set_times(FileTimes::new().set_modified(time)),
            None => Ok(()),
        }
    }

    /// Sets all of it.
    pub fn apply_all(&self, file: &File) -> io::Result<()> {
        self.apply(file)?;
        file.set_permissions(Permissions::from_mode(self.mode))
    }
}

/// Counts what could not be kept.
pub fn note(what: &'static str, set: io::Result<()>) {
    if let Err(error) = set {
        let mut notes = NOT_KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        notes.entry(what).or_insert_with(|| (0, error.to_string())).0 += 1;
    }
}

/// Takes the counts of what could not be kept, as warnings.
pub fn not_kept() -> Vec<String> {
    let notes = std::mem::take(&mut *NOT_KEPT.lock().unwrap_or_else(PoisonError::into_inner));
    let text =
        |(what, (count, why)): (&str, (u64, String))| format!("{what}: {count} not set ({why})");
    notes.into_iter().map(text).collect()
}

/// Reads the extended attributes of a file or folder.
pub fn extended_of(path: &Path) -> Extended {
    let read = |name: String| {
        let mut value = vec![0; MAX_BYTES];
        let len = lgetxattr(path, &name[..], &mut value[..]).ok()?;
        value.truncate(len);
        Some((name, value))
    };
    names_of(|names| llistxattr(path, names)).into_iter().filter_map(read).collect()
}

/// Returns whether an extended attribute is kept.
pub fn is_kept(name: &str) -> bool {
    KEPT.iter().any(|kept| name.starts_with(kept))
}

/// The names of extended attributes that are kept; none where the file system has none.
fn names_of(list: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Vec<String> {
    let mut few = [0; 512];
    let names = match list(&mut few) {
        Ok(len) => few[..len].to_vec(),
        Err(Errno::RANGE) => {
            let mut many = vec![0; MAX_BYTES];
            let len = list(&mut many).unwrap_or(0);
            many.truncate(len);
            many
        }
        Err(_) => Vec::new(),
    };
    let names = names.split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
    names.filter(|name| is_kept(name)).map(str::to_owned).collect()
}

/// Notes the time of a file at files of its shards, where their file systems have attributes.
pub fn note_time(shards: impl Iterator<Item = PathBuf>, time: SystemTime) {
    let Ok(time) = Timestamp::try_from(time) else { return };
    for shard in shards {
        let _ = lsetxattr(&shard, TIME, time.to_string().as_bytes(), XattrFlags::empty());
    }
}

/// Returns the time that files of shards note, if those that note one agree.
pub fn noted_time(shards: impl Iterator<Item = PathBuf>) -> Option<SystemTime> {
    let noted = |shard: PathBuf| {
        let mut text = [0; 64];
        let len = lgetxattr(&shard, TIME, &mut text[..]).ok()?;
        std::str::from_utf8(text.get(..len)?).ok()?.parse::<Timestamp>().ok()
    };
    let mut times = shards.filter_map(noted);
    let first = times.next()?;
    times.all(|time| time == first).then(|| first.into())
}
