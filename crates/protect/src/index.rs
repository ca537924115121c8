//! The index: a log of records, one a line with its checksum, in several copies. Only what a commit
//! follows counts.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::{ffi::OsString, fs::File, os::unix::fs::OpenOptionsExt};

use kiln_store::checksum;
use serde::{Deserialize, Serialize};

use crate::{Geometry, ProtectError, error::is_own, shape::Blocks};

/// No sound number of a file, a set, a line, or a place of parity is so large.
const MOST: u64 = 1 << 48;
/// A log of fewer lines is not worth writing anew.
const FEW: u64 = 1000;

/// A path of any bytes, in JSON with what is not UTF-8, and %, as %XX.
mod any_bytes {
    use super::*;
    use serde::{Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
        let mut text = String::new();
        for part in path.as_os_str().as_bytes().utf8_chunks() {
            text += &part.valid().replace('%', "%25");
            part.invalid().iter().for_each(|byte| text += &format!("%{byte:02x}"));
        }
        to.serialize_str(&text)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<PathBuf, D::Error> {
        let text = String::deserialize(from)?;
        let mut parts = text.split('%');
        let mut bytes = parts.next().unwrap_or("").as_bytes().to_vec();
        for part in parts {
            let byte = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
            bytes.push(byte.ok_or_else(|| D::Error::custom("a name with a lone %"))?);
            bytes.extend(&part.as_bytes()[2..]);
        }
        Ok(OsString::from_vec(bytes).into())
    }
}

/// A file as it was when its parity was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileRecord {
    #[serde(with = "any_bytes")]
    pub path: PathBuf,
    pub size: u64,
    /// Nanoseconds since 1970.
    pub mtime: i64,
    pub mode: u32,
    pub owner: (u32, u32),
    pub inode: u64,
    /// The parity is of several states of it: none of them comes back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mixed: bool,
}

/// An extent of a file, in a set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Member {
    pub file: u64,
    pub start: u64,
    pub len: u64,
    pub sums: Vec<u32>,
}

/// A stripe of extents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Set {
    /// Bytes of a block.
    pub block: u64,
    /// The place of its parity: bytes of rows before it.
    pub at: u64,
    /// By slot.
    pub members: Vec<Option<Member>>,
    /// Of the parity: by row, then column.
    pub sums: Vec<u32>,
}

/// The numbers of a folder's parity, and its places.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub format: u32,
    pub geometry: Geometry,
    /// Empty: in the folder itself.
    pub parity_dirs: Vec<PathBuf>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Change {
    Head(Head),
    File(u64, Option<FileRecord>),
    Set(u64, Option<Set>),
    /// New parity of a set, its place, and the slots that changed.
    Slots(u64, Vec<u32>, u64, Vec<(usize, Option<Member>)>),
    Commit,
}

/// Content of the log.
#[derive(Debug, Clone)]
pub(crate) struct Index {
    pub head: Head,
    pub files: BTreeMap<u64, FileRecord>,
    pub sets: BTreeMap<u64, Set>,
    /// Records that no copy has.
    pub lost: u64,
    /// Some copy lacks something, or holds too much.
    pub uneven: bool,
    /// Logs were written anew so often.
    generation: u64,
    next: u64,
}

impl Index {
    pub fn new(head: Head) -> Index {
        let (files, sets) = Default::default();
        Index { head, files, sets, lost: 0, uneven: true, generation: 0, next: 0 }
    }

    /// Reads all copies; `None`: there is none.
    pub fn load(copies: &[PathBuf]) -> Result<Option<Index>, ProtectError> {
        let read = |copy: &PathBuf| match std::fs::read(copy) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied || is_own(&error) => {
                Err(ProtectError::io("read", copy)(error))
            }
            text => Ok(text.unwrap_or_default()),
        };
        let texts: Vec<_> = copies.iter().map(read).collect::<Result<_, _>>()?;
        Ok(Index::parse(&texts))
    }

    /// Reads what the copies hold.
    pub fn parse(texts: &[Vec<u8>]) -> Option<Index> {
        let mut lines = BTreeMap::new();
        let mut lengths = BTreeSet::new();
        for text in texts {
            let found: Vec<_> = text.split_inclusive(|byte| *byte == b'\n').map(parse).collect();
            let whole = found.iter().all(Option::is_some);
            lengths.insert(if whole { found.len() } else { usize::MAX });
            lines.extend(found.into_iter().flatten());
        }
        let commit = lines.iter().rev().find(|(_, change)| matches!(change, Change::Commit));
        let (generation, last) = *commit.filter(|((_, at), _)| *at < MOST)?.0;
        lines.retain(|(of, _), _| *of == generation);
        let head = lines.values().find_map(|change| match change {
            Change::Head(head) if head.format == 1 && head.geometry.is_sound() => {
                Some(head.clone())
            }
            _ => None,
        });
        let mut index = head.map(Index::new)?;
        index.uneven =
            lengths.len() > 1 || lengths.contains(&usize::MAX) || lines.len() as u64 > last + 1;
        let counted = lines.into_iter().take_while(|((_, at), _)| *at <= last);
        (index.generation, index.next) = (generation, last + 1);
        index.lost = last + 1;
        for (_, change) in counted {
            index.lost -= 1;
            index.apply(change);
        }
        let geometry = index.head.geometry;
        index.files.retain(|id, _| *id < MOST);
        let files = &index.files;
        index.sets.retain(|id, set| *id < MOST && set.is_sound(geometry, files));
        Some(index)
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.values().fold(0, |sum, file| sum.saturating_add(file.size))
    }

    /// End of the parity: bytes of rows.
    pub fn end(&self) -> u64 {
        self.sets.values().map(|set| set.at + set.block).max().unwrap_or(0)
    }

    /// Sets and slots of files, in the order of the extents.
    pub fn members(&self) -> BTreeMap<u64, Vec<(u64, usize)>> {
        let mut members = BTreeMap::<u64, Vec<(u64, u64, usize)>>::new();
        for (id, set) in &self.sets {
            for (slot, member) in set.members.iter().enumerate() {
                if let Some(member) = member {
                    members.entry(member.file).or_default().push((member.start, *id, slot));
                }
            }
        }
        let sorted = |(file, mut places): (u64, Vec<(u64, u64, usize)>)| {
            places.sort_unstable();
            (file, places.into_iter().map(|(_, id, slot)| (id, slot)).collect())
        };
        members.into_iter().map(sorted).collect()
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Head(head) => self.head = head,
            Change::File(id, Some(file)) => drop(self.files.insert(id, file)),
            Change::File(id, None) => drop(self.files.remove(&id)),
            Change::Set(id, Some(set)) => drop(self.sets.insert(id, set)),
            Change::Set(id, None) => drop(self.sets.remove(&id)),
            Change::Slots(id, sums, at, slots) => {
                let Some(set) = self.sets.get_mut(&id) else { return };
                (set.sums, set.at) = (sums, at);
                for (slot, member) in slots {
                    if let Some(place) = set.members.get_mut(slot) {
                        *place = member;
                    }
                }
            }
            Change::Commit => {}
        }
    }

    /// The change that makes a set this one; `None`: it is gone.
    pub fn change_to(&self, id: u64, new: Option<Set>) -> Change {
        match (self.sets.get(&id), new) {
            (Some(old), Some(new)) if old.block == new.block => {
                let slots = new.members.into_iter().enumerate();
                let slots = slots.filter(|(slot, member)| *member != old.members[*slot]);
                Change::Slots(id, new.sums, new.at, slots.collect())
            }
            (_, new) => Change::Set(id, new),
        }
    }

    /// Appends changes and their commit to all copies, durably, and applies them; a log that is
    /// uneven or mostly out of date is written anew. Returns the bytes written.
    pub fn commit(
        &mut self,
        copies: &[PathBuf],
        changes: Vec<Change>,
    ) -> Result<u64, ProtectError> {
        let more = changes.len() as u64;
        let mut text = Vec::new();
        for change in &changes {
            line(self.generation, &mut self.next, change, &mut text)?;
        }
        changes.into_iter().for_each(|change| self.apply(change));
        let live = (self.files.len() + self.sets.len()) as u64;
        let anew = self.uneven || self.next + more > 2 * live + FEW;
        if anew {
            (self.generation, self.next) = (self.generation.saturating_add(1), 0);
            text.clear();
            let head = Change::Head(self.head.clone());
            line(self.generation, &mut self.next, &head, &mut text)?;
            let files = self.files.iter().map(|(id, file)| Change::File(*id, Some(file.clone())));
            let sets = self.sets.iter().map(|(id, set)| Change::Set(*id, Some(set.clone())));
            for change in files.chain(sets) {
                line(self.generation, &mut self.next, &change, &mut text)?;
            }
        }
        line(self.generation, &mut self.next, &Change::Commit, &mut text)?;
        for copy in copies {
            write(copy, &text, anew).map_err(ProtectError::io("write", copy))?;
        }
        (self.uneven, self.lost) = (false, 0);
        Ok((text.len() * copies.len()) as u64)
    }
}

impl Set {
    pub fn blocks(&self, geometry: Geometry) -> Blocks {
        Blocks { block: self.block, height: geometry.height }
    }

    fn is_sound(&self, geometry: Geometry, files: &BTreeMap<u64, FileRecord>) -> bool {
        let blocks = self.blocks(geometry);
        let fits = |member: &Member| {
            let end = member.start.checked_add(member.len);
            member.len <= blocks.capacity()
                && member.sums.len() == blocks.cells(member.len)
                && files
                    .get(&member.file)
                    .is_some_and(|file| end.is_some_and(|end| end <= file.size || file.mixed))
                && end.is_some_and(|end| end < 1 << 62)
        };
        (64..=1 << 26).contains(&self.block)
            && self.at < MOST
            && self.members.len() == geometry.group
            && self.sums.len() == geometry.parity() * blocks.columns()
            && self.members.iter().flatten().all(fits)
    }
}

/// Adds the next line of a log.
fn line(
    generation: u64,
    next: &mut u64,
    change: &Change,
    text: &mut Vec<u8>,
) -> Result<(), ProtectError> {
    let json = serde_json::to_string(&(generation, *next, change)).map_err(io::Error::from);
    let json = json.map_err(ProtectError::io("write", "the index"))?;
    text.extend(format!("{:08x} {json}\n", checksum(json.as_bytes())).bytes());
    *next += 1;
    Ok(())
}

fn parse(line: &[u8]) -> Option<((u64, u64), Change)> {
    let line = std::str::from_utf8(line).ok()?.strip_suffix('\n')?;
    let (sum, json) = line.split_at_checked(8)?;
    let json = json.strip_prefix(' ')?;
    let sum = u32::from_str_radix(sum, 16).ok()?;
    let (generation, at, change) =
        (sum == checksum(json.as_bytes())).then(|| serde_json::from_str(json).ok())??;
    Some(((generation, at), change))
}

fn write(path: &Path, text: &[u8], anew: bool) -> io::Result<()> {
    let part = path.with_extension("new");
    let mut options = File::options();
    options.write(true).create(true).mode(0o600);
    let mut file =
        if anew { options.truncate(true).open(&part)? } else { options.append(true).open(path)? };
    file.write_all(text)?;
    file.sync_all()?;
    if anew {
        std::fs::rename(&part, path)?;
        File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}
