//! Description of a volume: a small object that is replaced as a whole, by a writer that knows the
//! version in force. So of two writers one learns that it is deposed.

use crate::{BLOCK, DATA, Result, VolumeError};
use kiln_store::MAX_LOG;
use serde::{Deserialize, Serialize};

/// Version of the text.
const VERSION: u32 = 1;
/// Largest size of a volume.
pub(crate) const MAX_SIZE: u64 = 1 << 50;
/// Limits of a segment's bytes.
pub(crate) const SEGMENT: std::ops::RangeInclusive<u64> = 64 << 10..=128 << 20;

/// The description of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Descriptor {
    pub version: u32,
    /// 32 hex digits.
    pub id: String,
    /// Bytes that it has for its users.
    pub size: u64,
    /// Bytes of a segment.
    pub segment: u64,
    /// Bytes of each copy of the log.
    pub log_size: u64,
    pub created_ms: u64,
    /// Counts writers and the sets of nodes that their logs were on.
    pub generation: u64,
    /// Its writer; empty: it was closed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub writer: String,
    /// The first batch of the log that counts.
    pub first_seq: u64,
    /// Object with the map, and the first segment that it does not cover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
    pub next_number: u64,
    /// The volume that it was cloned from, for its description.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub origin: String,
    /// Copies of the log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<LogCopy>,
    /// Id of the key that the log is sealed by; empty: by none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub log_key: String,
    /// Generations of the segments since the checkpoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub era: Vec<Era>,
    /// Its removal was begun: its objects may be gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removing: bool,
    /// Maps that are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshot: Vec<SnapshotEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogCopy {
    pub node: String,
    pub file: String,
}

/// Segments that one generation wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Era {
    pub generation: u64,
    /// Number of its first one.
    pub first: u64,
    /// Numbers of those that were not there when the next generation began: should they appear
    /// later, they count for nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<u64>,
}

/// A map that is kept, with all that it needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotEntry {
    pub name: String,
    pub created_ms: u64,
    pub size: u64,
    /// Object with the map.
    pub map: String,
    /// Volumes that were cloned from it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clones: Vec<String>,
}

impl Descriptor {
    /// The description of a new, empty volume.
    pub fn new(id: [u8; 16], size: u64, segment: u64, log_size: u64, now_ms: u64) -> Descriptor {
        Descriptor {
            version: VERSION,
            id: kiln_stripe::names::hex(&id),
            size,
            segment,
            log_size,
            created_ms: now_ms,
            generation: 0,
            writer: String::new(),
            first_seq: 1,
            checkpoint: None,
            next_number: 0,
            origin: String::new(),
            log: Vec::new(),
            log_key: String::new(),
            era: Vec::new(),
            removing: false,
            snapshot: Vec::new(),
        }
    }

    pub fn id_bytes(&self) -> [u8; 16] {
        // A description that was checked has an id.
        kiln_stripe::names::unhex(&self.id).unwrap_or_default()
    }

    pub fn to_text(&self) -> Result<String> {
        let wrong = |error: toml::ser::Error| VolumeError::Usage { what: error.to_string() };
        toml::to_string(self).map_err(wrong)
    }

    /// Reads a description, and refuses one that cannot be.
    pub fn parse(name: &str, text: &str) -> Result<Descriptor> {
        let damaged = |what: String| VolumeError::Damaged { name: name.to_owned(), what };
        let found: Descriptor = toml::from_str(text)
            .map_err(|error| damaged(format!("its description cannot be read: {error}")))?;
        let why = if found.version != VERSION {
            format!("its description is of version {}, this program reads {VERSION}", found.version)
        } else if kiln_stripe::names::unhex::<16>(&found.id).is_none() {
            format!("its id {:?} is none", found.id)
        } else if let Err(error) = check_sizes(found.size, found.segment, found.log_size) {
            error.to_string()
        } else {
            return Ok(found);
        };
        Err(damaged(why))
    }

    /// Refuses to use a volume whose removal was begun.
    pub fn check_stays(&self, name: &str) -> Result<()> {
        match self.removing {
            true => Err(VolumeError::Removing { name: name.to_owned() }),
            false => Ok(()),
        }
    }

    /// Returns whether it has a snapshot of this name.
    pub fn has_snapshot(&self, name: &str) -> bool {
        self.snapshot.iter().any(|entry| entry.name == name)
    }

    /// Returns whether a map may go: it is this volume's own, and nothing names it any more. (A
    /// clone begins with a map of its origin's, and so may its first snapshots.)
    pub fn frees(&self, map: &str) -> bool {
        let own = map.starts_with(&format!("{DATA}/{}/", self.id));
        let named = self.checkpoint.as_deref() == Some(map)
            || self.snapshot.iter().any(|entry| entry.map == map);
        own && !named
    }

    /// Should a segment that is not there appear later, it counts for nothing.
    pub fn note_absent(&mut self, number: u64) {
        let era = self.era.iter_mut().rfind(|era| era.first <= number);
        if let Some(era) = era.filter(|era| !era.absent.contains(&number)) {
            era.absent.push(number);
        }
    }

    /// Returns the generation of a segment, where it counts.
    pub fn generation_of(&self, number: u64) -> Option<u64> {
        let era = self.era.iter().rfind(|era| era.first <= number)?;
        (!era.absent.contains(&number)).then_some(era.generation)
    }
}

/// Refuses sizes that a volume cannot have.
pub(crate) fn check_sizes(size: u64, segment: u64, log_size: u64) -> Result<()> {
    let block = BLOCK as u64;
    let wrong = |what: String| Err(VolumeError::Usage { what });
    if size == 0 || size > MAX_SIZE || !size.is_multiple_of(block) {
        return wrong(format!(
            "a volume has 4096 bytes to 1 PiB, in whole blocks of 4096; not {size}"
        ));
    }
    if !SEGMENT.contains(&segment) || !segment.is_multiple_of(block) {
        return wrong(format!("a segment has 64 KiB to 128 MiB, in whole blocks; not {segment}"));
    }
    if log_size < 4 * segment || log_size > MAX_LOG || !log_size.is_multiple_of(block) {
        return wrong(format!("a log has 4 segments to 1 GiB, in whole blocks; not {log_size}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_read_back_and_wrong_ones_refused() {
        let mut one = Descriptor::new([3; 16], 1 << 30, 16 << 20, 64 << 20, 5);
        one.log.push(LogCopy { node: "a".into(), file: "x.log".into() });
        one.era.push(Era { generation: 1, first: 4, absent: vec![6] });
        one.era.push(Era { generation: 3, first: 9, absent: vec![] });
        let (name, map, clones) = ("s".into(), "m".into(), vec!["c".into()]);
        let entry = SnapshotEntry { name, created_ms: 3, size: 4096, map, clones };
        one.snapshot.push(entry);
        let text = one.to_text().unwrap();
        assert_eq!(Descriptor::parse("v", &text).unwrap(), one);
        let found: Vec<_> = [3, 4, 6, 8, 9, 90].iter().map(|n| one.generation_of(*n)).collect();
        assert_eq!(found, [None, Some(1), None, Some(1), Some(3), Some(3)]);
        let mut other = one.clone();
        [3, 6, 8, 9].iter().for_each(|number| other.note_absent(*number));
        assert_eq!((&other.era[0].absent[..], &other.era[1].absent[..]), (&[6, 8][..], &[9][..]));
        for (from, to) in [
            ("size = 1073741824", "size = 5"),
            ("segment = 16777216", "segment = 1"),
            ("log_size = 67108864", "log_size = 4096"),
            ("version = 1", "version = 2"),
            ("id = \"03", "id = \"zz"),
            ("id =", "idea ="),
        ] {
            assert!(text.contains(from), "{from}");
            let error = Descriptor::parse("v", &text.replacen(from, to, 1)).unwrap_err();
            assert!(matches!(error, VolumeError::Damaged { .. }), "{to}: {error}");
        }
    }
}
