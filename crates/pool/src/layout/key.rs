//! Names of objects in a pool, and the names of their files on nodes.
//!
//! An object may be called almost anything; a file on a node may not. So files are named after a
//! hash of the object's name, and the manifest holds the name itself.

use kiln_store::names::{kept_key, object_key};
pub use kiln_store::names::{kept_name, kept_parts, object_name};
use kiln_stripe::names::{self, MANIFEST, PART, QUARANTINE, SHARD, part_of, unhex};
use kiln_stripe::{PoolError, Result};
use std::fmt;

/// Most bytes of an object's name: what the header of a shard can hold.
pub const MAX_NAME: usize = 1024;

/// Record of what the names of marks of damage end with.
const DAMAGED: &str = ".damaged";

/// Name of an object's files on nodes: the first 128 bits of the SHA-256 of its name.
///
/// Two names with one key are not expected in the lifetime of any pool; should it happen, the name
/// in the manifest tells, and the second object is refused.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub [u8; 16]);

impl Key {
    /// The key of a name, which must be a relative path: 1 to 1024 bytes of UTF-8, without zero
    /// bytes, empty parts, `.` or `..`; or the name of a [kept version](kept_name).
    /// Errors: [`PoolError::Usage`] for other names.
    pub fn of(name: &str) -> Result<Key> {
        check_name(object_name(name))?;
        Ok(Key(object_key(name)))
    }

    /// As [`Key::of`], but for names of kept versions.
    pub(crate) fn of_object(name: &str) -> Result<Key> {
        check_name(name)?;
        Ok(Key(object_key(name)))
    }

    /// The key by which an object's shards are named: a kept version has those that it had before.
    pub fn of_shards(name: &str) -> Result<Key> {
        Key::of_object(object_name(name))
    }

    /// The key of the version of this run that is kept of the object.
    pub fn kept(&self, run: &[u8; 16]) -> Key {
        Key(kept_key(&self.0, run))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&names::hex(&self.0))
    }
}

/// Refuses names that could not be files of a folder again.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let why = if name.is_empty() {
        "is empty"
    } else if name.len() > MAX_NAME {
        "is longer than 1024 bytes"
    } else if name.contains('\0') {
        "contains a zero byte"
    } else if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        "is no relative path: it starts or ends with '/', or has a part '', '.' or '..'"
    } else {
        return Ok(());
    };
    let shown: String = name.chars().take(80).collect();
    Err(PoolError::Usage { what: format!("object name {shown:?} {why}; give another name") })
}

/// A file of a pool on a node, as its name tells. `run` is the encode run of the object's data;
/// times are in ms since 1970.
#[allow(missing_docs)] // of fields that their names describe
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeFile {
    /// `KEY.manifest`: a copy of the object's manifest.
    Manifest { key: Key },
    /// `.KEY.RUN.STARTED.manifest.part`: one being written.
    ManifestPart { key: Key, run: [u8; 16], started: u64 },
    /// `KEY.RUN.INDEX.kiln`: a shard in place.
    Shard { key: Key, run: [u8; 16], index: u16 },
    /// `.KEY.RUN.INDEX.kiln.STARTED.part`: a shard that a put is writing.
    ShardPart { key: Key, run: [u8; 16], index: u16, started: u64 },
    /// `.KEY.RUN.INDEX.kiln.BY.repair.part`: a shard that a repair is writing.
    RepairPart {
        key: Key,
        run: [u8; 16],
        index: u16,
        /// Number of the repairer, see [`crate::PoolConfig::repairer`]; 0 is not in the name.
        by: u64,
    },
    /// `.KEY.RUN.DAMAGE.kiln.damaged`, empty: a scrub found this damage, and no repair has mended
    /// it yet. Surveys by any client count it.
    Damaged {
        key: Key,
        run: [u8; 16],
        /// The shard, or the manifest, as [`crate::Index::set_damage`] numbers them.
        index: u16,
    },
    /// `.KEY.RUN.INDEX.kiln.SINCE.quarantine`: a shard that nothing seems to need, kept for a
    /// while.
    QuarantinedShard { key: Key, run: [u8; 16], index: u16, since: u64 },
    /// `.KEY.manifest.SINCE.quarantine`: a manifest where no reader looks for it.
    QuarantinedManifest { key: Key, since: u64 },
}

impl NodeFile {
    /// The object it belongs to.
    pub fn key(&self) -> Key {
        match self {
            NodeFile::Manifest { key }
            | NodeFile::ManifestPart { key, .. }
            | NodeFile::Shard { key, .. }
            | NodeFile::ShardPart { key, .. }
            | NodeFile::RepairPart { key, .. }
            | NodeFile::Damaged { key, .. }
            | NodeFile::QuarantinedShard { key, .. }
            | NodeFile::QuarantinedManifest { key, .. } => *key,
        }
    }

    /// The kept version that the file may be of, if it is a shard, with its run and index.
    pub(crate) fn of_kept(&self) -> Option<(Key, [u8; 16], u16)> {
        match *self {
            NodeFile::Shard { key, run, index }
            | NodeFile::QuarantinedShard { key, run, index, .. } => {
                Some((key.kept(&run), run, index))
            }
            _ => None,
        }
    }

    /// The file's name.
    pub fn name(&self) -> String {
        match self {
            NodeFile::Manifest { key } => format!("{key}{MANIFEST}"),
            NodeFile::ManifestPart { key, run, started } => {
                part_of(&format!("{key}.{}.{started:x}{MANIFEST}", names::hex(run)))
            }
            NodeFile::Shard { key, run, index } => shard_name(key, run, *index),
            NodeFile::ShardPart { key, run, index, started } => {
                part_of(&format!("{}.{started:x}", shard_name(key, run, *index)))
            }
            NodeFile::RepairPart { key, run, index, by: 0 } => {
                names::repair_part_of(&shard_name(key, run, *index))
            }
            NodeFile::RepairPart { key, run, index, by } => {
                names::repair_part_of(&format!("{}.{by:x}", shard_name(key, run, *index)))
            }
            NodeFile::Damaged { key, run, index } => {
                format!(".{}{DAMAGED}", shard_name(key, run, *index))
            }
            NodeFile::QuarantinedShard { key, run, index, since } => {
                format!(".{}.{since:x}{QUARANTINE}", shard_name(key, run, *index))
            }
            NodeFile::QuarantinedManifest { key, since } => {
                format!(".{key}{MANIFEST}.{since:x}{QUARANTINE}")
            }
        }
    }

    /// The file that this one becomes in quarantine; `None`: it is no data, or is there already.
    pub fn quarantined(&self, since: u64) -> Option<NodeFile> {
        match *self {
            NodeFile::Shard { key, run, index } => {
                Some(NodeFile::QuarantinedShard { key, run, index, since })
            }
            NodeFile::Manifest { key } => Some(NodeFile::QuarantinedManifest { key, since }),
            _ => None,
        }
    }

    /// Reads a name; `None` for foreign files.
    pub fn parse(name: &str) -> Option<NodeFile> {
        let file = parse(name)?;
        // One file has one name: digits written in another way make it a foreign file.
        (file.name() == name).then_some(file)
    }
}

/// Object, encode run and index.
type ShardName = (Key, [u8; 16], u16);

fn shard_name(key: &Key, run: &[u8; 16], index: u16) -> String {
    names::shard(&format!("{key}.{}", names::hex(run)), usize::from(index))
}

fn parse(name: &str) -> Option<NodeFile> {
    if let Some(key) = name.strip_suffix(MANIFEST) {
        return Some(NodeFile::Manifest { key: Key(unhex(key)?) });
    }
    let Some(hidden) = name.strip_prefix('.') else {
        let (key, run, index) = parse_shard(name)?;
        return Some(NodeFile::Shard { key, run, index });
    };
    if let Some(inner) = hidden.strip_suffix(QUARANTINE) {
        let (file, since) = inner.rsplit_once('.')?;
        return parse(file)?.quarantined(u64::from_str_radix(since, 16).ok()?);
    }
    if let Some(inner) = hidden.strip_suffix(DAMAGED) {
        let (key, run, index) = parse_shard(inner)?;
        return Some(NodeFile::Damaged { key, run, index });
    }
    let inner = hidden.strip_suffix(PART)?;
    if let Some(inner) = inner.strip_suffix(MANIFEST) {
        let mut parts = inner.split('.');
        let (key, run) = (Key(unhex(parts.next()?)?), unhex(parts.next()?)?);
        let started = u64::from_str_radix(parts.next()?, 16).ok()?;
        return Some(NodeFile::ManifestPart { key, run, started });
    }
    if let Some(inner) = inner.strip_suffix(".repair") {
        let (shard, by) = match parse_shard(inner) {
            Some(shard) => (shard, 0),
            None => numbered(inner)?,
        };
        let (key, run, index) = shard;
        return Some(NodeFile::RepairPart { key, run, index, by });
    }
    let ((key, run, index), started) = numbered(inner)?;
    Some(NodeFile::ShardPart { key, run, index, started })
}

/// A shard's name with a number behind it.
fn numbered(name: &str) -> Option<(ShardName, u64)> {
    let (shard, number) = name.rsplit_once('.')?;
    Some((parse_shard(shard)?, u64::from_str_radix(number, 16).ok()?))
}

fn parse_shard(name: &str) -> Option<ShardName> {
    let mut parts = name.strip_suffix(SHARD)?.split('.');
    let (key, run) = (Key(unhex(parts.next()?)?), unhex(parts.next()?)?);
    let index = parts.next()?.parse().ok()?;
    parts.next().is_none().then_some((key, run, index))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_relative_paths() {
        for good in ["a", "a/b", ".hidden", "a b", "ü/日本", "a\n", "...", &"x".repeat(1024)] {
            assert!(Key::of(good).is_ok(), "{good:?}");
        }
        let long = "x".repeat(1025);
        for bad in ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a\0b", &long] {
            assert!(Key::of(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_key_is_a_known_hash() {
        // The first half of SHA-256("abc"), from FIPS 180-2.
        let key = Key::of("abc").unwrap();
        assert_eq!(key.to_string(), "ba7816bf8f01cfea414140de5dae2223");
        let kept = kept_name("a/b", &[0xab; 16]);
        assert_eq!(kept_parts(&kept), Some(("a/b", [0xab; 16])));
        assert_eq!(Key::of(&kept).unwrap(), Key::of("a/b").unwrap().kept(&[0xab; 16]));
        assert_eq!(Key::of_shards(&kept).unwrap(), Key::of("a/b").unwrap());
        assert_eq!((kept_parts("a/b"), object_name(&kept)), (None, "a/b"));
        let twice = kept_name(&kept, &[1; 16]);
        for bad in [&twice, &kept[3..], "a//00", "a//", &format!("a//b//{}", &kept[5..])] {
            assert!(Key::of(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn files_come_back(key: [u8; 16], run: [u8; 16], index in 0u16..256, started: u64) {
            let key = Key(key);
            for file in [
                NodeFile::Manifest { key },
                NodeFile::ManifestPart { key, run, started },
                NodeFile::Shard { key, run, index },
                NodeFile::ShardPart { key, run, index, started },
                NodeFile::RepairPart { key, run, index, by: started },
                NodeFile::RepairPart { key, run, index, by: 0 },
                NodeFile::QuarantinedShard { key, run, index, since: started },
                NodeFile::QuarantinedManifest { key, since: started },
                NodeFile::Damaged { key, run, index },
            ] {
                let name = file.name();
                prop_assert_eq!(NodeFile::parse(&name), Some(file));
                prop_assert!(kiln_store::check_name(&name).is_ok());
            }
        }

        #[test]
        fn any_text_is_a_file_of_that_name_or_none(text in "[.0-9a-f]{0,80}(\\.kiln|\\.part)?") {
            if let Some(file) = NodeFile::parse(&text) {
                prop_assert_eq!(file.name(), text);
            }
        }
    }
}
