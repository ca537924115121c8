//! Names of files on nodes.

use crate::{PoolError, Result};
pub use kiln_store::names::{from_hex, hex, unhex};

/// Kind of a file by its name.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A shard in place (or a foreign file).
    Final,
    /// Written by an encode that has not finished its renames.
    Part,
    /// Written by a repair that has not finished.
    RepairPart,
}

/// Suffix of names of shards.
pub const SHARD: &str = ".kiln";

/// Suffix of hidden names of unfinished files.
pub const PART: &str = ".part";

/// Suffix of a repair's: other than an encode's, because a reader may count complete
/// parts of an encode as shards, but never a repair's before it is verified and in place.
const REPAIR_PART: &str = ".repair.part";

/// Suffix of names of manifests, between the object's key and [`PART`]. Those that are written
/// together may share a file.
pub const MANIFEST: &str = kiln_store::SHARES;

/// Suffix of names of files in quarantine.
pub const QUARANTINE: &str = ".quarantine";

/// Says on every node which pool and node it is, so that an empty mount point is not taken for a
/// disk.
pub const IDENTITY: &str = "kiln-node.toml";

/// A copy of the description on every node, for when the machine with the description is lost.
pub const DESCRIPTION: &str = "kiln-pool.toml";

/// The log of changes on every node, by which an index elsewhere follows: a hint that may be lost.
pub const CHANGES: &str = ".kiln-changes";

/// The name of a shard: `OBJECT.03.kiln`.
#[must_use]
pub fn shard(object: &str, index: usize) -> String {
    format!("{object}.{index:02}{SHARD}")
}

/// The hidden name under which something is written that is to be `name`.
pub fn part_of(name: &str) -> String {
    format!(".{name}{PART}")
}

/// The same, where a repair writes it.
pub fn repair_part_of(name: &str) -> String {
    format!(".{name}{REPAIR_PART}")
}

/// `.OBJECT.03.kiln.part`
pub fn part(object: &str, index: usize) -> String {
    part_of(&shard(object, index))
}

/// The name of what a repair writes, until it is verified: `.OBJECT.03.kiln.repair.part`.
#[must_use]
pub fn repair_part(object: &str, index: usize) -> String {
    repair_part_of(&shard(object, index))
}

/// A hidden name of the object that no shard has; whoever clears parts away clears it too.
pub fn marker(object: &str) -> String {
    part(object, 99_999)
}

/// Kind, object and index that a name tells; hidden files that are not partial shards are ignored.
pub fn parse(name: &str) -> Option<(Kind, Option<(String, usize)>)> {
    let Some(hidden) = name.strip_prefix('.') else {
        return Some((Kind::Final, split(name)));
    };
    if let Some(inner) = hidden.strip_suffix(REPAIR_PART) {
        return split(inner).map(|parts| (Kind::RepairPart, Some(parts)));
    }
    let inner = hidden.strip_suffix(PART)?;
    split(inner).map(|parts| (Kind::Part, Some(parts)))
}

fn split(name: &str) -> Option<(String, usize)> {
    let (object, index) = name.strip_suffix(SHARD)?.rsplit_once('.')?;
    let good = index.len() >= 2 && index.len() <= 5 && index.bytes().all(|b| b.is_ascii_digit());
    (good && !object.is_empty()).then(|| (object.to_owned(), index.parse().unwrap_or(usize::MAX)))
}

/// Checks an object's name, from which file names are made.
pub fn check_object(object: &str) -> Result<()> {
    let why = match object {
        "" => "is empty",
        name if name.len() > 200 => "is longer than 200 bytes",
        name if name.starts_with('.') => "starts with a dot",
        name if name.contains(['/', '\\', '\0']) => "contains a slash, a backslash or a zero byte",
        _ => return Ok(()),
    };
    Err(PoolError::Usage { what: format!("object name {object:?} {why}; give another name") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for index in [0, 7, 13, 113] {
            for (name, kind) in [
                (shard("a.b", index), Kind::Final),
                (part("a.b", index), Kind::Part),
                (repair_part("a.b", index), Kind::RepairPart),
            ] {
                assert_eq!(parse(&name), Some((kind, Some(("a.b".to_owned(), index)))));
            }
        }
        assert_eq!(parse("notes.txt"), Some((Kind::Final, None)));
        assert_eq!(parse(".hidden"), None);
        assert_eq!(parse("x.003x.kiln"), Some((Kind::Final, None)));
    }

    #[test]
    fn bad_object_names_are_refused() {
        for bad in ["", ".x", "a/b", "a\\b", "a\0", &"x".repeat(201)] {
            assert!(check_object(bad).is_err(), "{bad:?}");
        }
        assert!(check_object("movie.mkv").is_ok());
    }
}
