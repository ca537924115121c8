//! Names of files on nodes.

use crate::{PoolError, Result};

/// What kind of file a name says it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A shard in place (or a stranger's file).
    Final,
    /// Written by an encode that has not finished its renames.
    Part,
    /// Written by a repair that has not finished.
    RepairPart,
}

/// `OBJECT.03.kiln`
pub(crate) fn shard(object: &str, index: usize) -> String {
    format!("{object}.{index:02}.kiln")
}

/// `.OBJECT.03.kiln.part`
pub(crate) fn part(object: &str, index: usize) -> String {
    format!(".{}.part", shard(object, index))
}

/// `.OBJECT.03.kiln.repair.part`: other than an encode's, because a reader may count complete
/// parts of an encode as shards, but never a repair's before it is verified and in place.
pub(crate) fn repair_part(object: &str, index: usize) -> String {
    format!(".{}.repair.part", shard(object, index))
}

/// A hidden name of the object that no shard has; whoever clears parts away clears it too.
pub(crate) fn marker(object: &str) -> String {
    part(object, 99_999)
}

/// Kind, object and index that a name tells; hidden files that are no parts are nothing to us.
pub(crate) fn parse(name: &str) -> Option<(Kind, Option<(String, usize)>)> {
    let Some(hidden) = name.strip_prefix('.') else {
        return Some((Kind::Final, split(name)));
    };
    if let Some(inner) = hidden.strip_suffix(".repair.part") {
        return split(inner).map(|parts| (Kind::RepairPart, Some(parts)));
    }
    let inner = hidden.strip_suffix(".part")?;
    split(inner).map(|parts| (Kind::Part, Some(parts)))
}

fn split(name: &str) -> Option<(String, usize)> {
    let (object, index) = name.strip_suffix(".kiln")?.rsplit_once('.')?;
    let good = index.len() >= 2 && index.len() <= 5 && index.bytes().all(|b| b.is_ascii_digit());
    (good && !object.is_empty()).then(|| (object.to_owned(), index.parse().unwrap_or(usize::MAX)))
}

/// Checks an object's name, from which file names are made.
pub(crate) fn check_object(object: &str) -> Result<()> {
    let why = match object {
        "" => "is empty",
        name if name.len() > 200 => "is longer than 200 bytes",
        name if name.starts_with('.') => "starts with a dot",
        name if name.contains(['/', '\\', '\0']) => "contains a slash or a zero byte",
        _ => return Ok(()),
    };
    Err(PoolError::Usage { what: format!("object name {object:?} {why}; give another name") })
}

/// 32 hex digits of a run identifier.
pub(crate) fn hex(run: &[u8; 16]) -> String {
    run.iter().map(|byte| format!("{byte:02x}")).collect()
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
