//! Pack files: many small files that are written together and share one file of the folder.
//!
//! Making a file costs a file system an inode, a block and several turns of its journal, which for
//! a file of some hundred bytes is nearly all that it costs. So the small files of a batch are one
//! file, and each of their names is a hard link to it. Which part of it a name stands for, the name
//! itself says: its stem, which is its text up to the first dot (behind the one that hides it).
//! Names are thus listed, renamed, replaced and removed by the file system as those of any file
//! are, with its promises about crashes; and the space is free again when the last name is gone.
//!
//! A pack file is never written to again. Its bytes, all numbers little-endian: magic, version (4
//! bytes), count of files (4), CRC-32C of count and table (4), zero (4); then for each file CRC-32C
//! of its stem (4), length (4), offset (8); then the files, each with the length of its stem (2)
//! and its stem before its bytes. What is in a file is checked by whoever wrote it, as elsewhere.

use crate::checksum;
use std::io;

/// Mark in the names of files that may share one. All others are opened without a look
/// at what they begin with.
pub const SHARES: &str = ".manifest";

const MAGIC: [u8; 8] = *b"KILNPACK";
const VERSION: u32 = 1;
const HEAD: usize = 24;
const ENTRY: usize = 16;
/// Most files of a pack file: file systems limit the names of one file, ext4 to 65,000.
pub(super) const MAX_FILES: usize = 16_384;
/// Most bytes of a pack file.
pub(super) const MAX_BYTES: usize = 256 << 20;

/// The part of a name that renames keep; `None`: a file of that name shares nothing.
pub fn stem(name: &str) -> Option<&str> {
    let hidden = name.strip_prefix('.').unwrap_or(name);
    let stem = hidden.split('.').next().filter(|stem| !stem.is_empty())?;
    hidden.contains(SHARES).then_some(stem)
}

/// Returns whether files can share one: they have stems, no two the same, and are not too many or
/// too much.
pub(super) fn fits(files: &[(&str, &[u8])]) -> bool {
    let mut stems: Vec<&str> = files.iter().filter_map(|(name, _)| stem(name)).collect();
    let complete = stems.len() == files.len();
    stems.sort_unstable();
    stems.dedup();
    let bytes: usize = files.iter().map(|(name, bytes)| name.len() + bytes.len() + ENTRY).sum();
    complete && stems.len() == files.len() && files.len() <= MAX_FILES && bytes <= MAX_BYTES
}

/// The bytes of a pack file. Files without a stem are left out.
pub fn bytes(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    // A vector takes all that is written to it.
    let _ = write(files, &mut out);
    out
}

/// Writes the bytes of a pack file, as [`bytes`] gives them, piece by piece.
pub fn write(files: &[(&str, &[u8])], out: &mut impl io::Write) -> io::Result<()> {
    let files: Vec<(&str, &[u8])> =
        files.iter().filter_map(|(name, bytes)| Some((stem(name)?, *bytes))).collect();
    let mut table = (files.len() as u32).to_le_bytes().to_vec();
    let mut at = (HEAD + files.len() * ENTRY) as u64;
    for (stem, bytes) in &files {
        at += 2 + stem.len() as u64;
        table.extend_from_slice(&checksum(stem.as_bytes()).to_le_bytes());
        table.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        table.extend_from_slice(&at.to_le_bytes());
        at += bytes.len() as u64;
    }
    out.write_all(&MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    out.write_all(&table[..4])?;
    out.write_all(&checksum(&table).to_le_bytes())?;
    out.write_all(&[0; 4])?;
    out.write_all(&table[4..])?;
    for (stem, bytes) in files {
        out.write_all(&(stem.len() as u16).to_le_bytes())?;
        out.write_all(stem.as_bytes())?;
        out.write_all(bytes)?;
    }
    Ok(())
}

/// Reads the table of a file of `len` bytes, which `read` reads; `None`: that is no pack file, and
/// the file of a name is all of it.
/// Errors: it is a pack file and damaged; those of `read`.
pub fn table(
    len: u64,
    read: impl Fn(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<Option<Vec<u8>>> {
    let mut head = [0; HEAD];
    if len < HEAD as u64 {
        return Ok(None);
    }
    read(0, &mut head)?;
    if head[..8] != MAGIC {
        return Ok(None);
    }
    if number(&head[8..12]) != u64::from(VERSION) {
        return Err(damaged("it is of a version that this program does not know"));
    }
    let count = number(&head[12..16]);
    if count > MAX_FILES as u64 || HEAD as u64 + count * ENTRY as u64 > len {
        return Err(damaged("its table is cut off"));
    }
    let mut table = head[12..16].to_vec();
    table.resize(4 + count as usize * ENTRY, 0);
    read(HEAD as u64, &mut table[4..])?;
    if u64::from(checksum(&table)) != number(&head[16..20]) {
        return Err(damaged("its table is not as it was written"));
    }
    Ok(Some(table))
}

/// Offset and length of a stem's bytes in a file of `len` bytes with this table.
/// Errors: the table names what is not there, or no file of that stem; those of `read`.
pub fn find_in(
    table: &[u8],
    stem: &str,
    len: u64,
    read: impl Fn(u64, &mut [u8]) -> io::Result<()>,
) -> io::Result<(u64, u64)> {
    let sum = u64::from(checksum(stem.as_bytes()));
    for entry in table[4..].chunks_exact(ENTRY).filter(|entry| number(&entry[..4]) == sum) {
        let (length, offset) = (number(&entry[4..8]), number(&entry[8..]));
        let before = 2 + stem.len() as u64;
        if offset < before || offset.checked_add(length).is_none_or(|end| end > len) {
            return Err(damaged("its table names what is not there"));
        }
        // Another stem may have the same checksum.
        let mut named = vec![0; before as usize];
        read(offset - before, &mut named)?;
        if number(&named[..2]) == stem.len() as u64 && &named[2..] == stem.as_bytes() {
            return Ok((offset, length));
        }
    }
    Err(damaged("it has no file of this name"))
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the pack file is damaged: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn look(pack: &[u8], stem: &str) -> io::Result<Option<(u64, u64)>> {
        let read = |at: u64, buf: &mut [u8]| {
            let there = pack.get(at as usize..at as usize + buf.len());
            buf.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        };
        let (len, table) = (pack.len() as u64, table(pack.len() as u64, read)?);
        table.map(|table| find_in(&table, stem, len, read)).transpose()
    }

    #[test]
    fn names_of_one_file_have_one_stem() {
        for name in ["a1.manifest", ".a1.ff.17.manifest.part", ".a1.manifest.9.quarantine"] {
            assert_eq!(stem(name), Some("a1"));
        }
        for name in ["a1.kiln", ".manifest", "..manifest", "kiln-node.toml", ""] {
            assert_eq!(stem(name), None, "{name}");
        }
        assert!(fits(&[("a.manifest", b"1"), ("b.manifest", b"2")]));
        assert!(!fits(&[("a.manifest", b"1"), (".a.x.manifest.part", b"2")]));
        assert!(!fits(&[("a.manifest", b"1"), ("b", b"2")]));
    }

    proptest! {
        #[test]
        fn what_was_packed_is_found(sizes in prop::collection::vec(0_usize..300, 1..40)) {
            let files: Vec<(String, Vec<u8>)> = sizes.iter().enumerate()
                .map(|(at, size)| {
                    let bytes = (0..*size).map(|i| (i * 31 + at * 7) as u8).collect();
                    (format!(".{at:x}key.run.manifest.part"), bytes)
                })
                .collect();
            let files: Vec<(&str, &[u8])> =
                files.iter().map(|(name, bytes)| (&name[..], &bytes[..])).collect();
            prop_assert!(fits(&files));
            let pack = bytes(&files);
            for (name, bytes) in &files {
                let (at, len) = look(&pack, stem(name).unwrap()).unwrap().unwrap();
                prop_assert_eq!(&pack[at as usize..(at + len) as usize], *bytes);
            }
            prop_assert!(look(&pack, "other").is_err());
            prop_assert_eq!(look(b"KILNMANI and more, which is no pack", "0key").unwrap(), None);
        }

        /// Whatever is in it: no panic, nothing outside of it, no table that is not as written.
        #[test]
        fn damage_is_an_error(at in 0_usize..300, bit in 0_u32..8, cut in 0_usize..400) {
            let (first, second) = (vec![7; 90], vec![9; 80]);
            let files: [(&str, &[u8]); 2] = [("a.manifest", &first), ("b.manifest", &second)];
            let mut pack = bytes(&files);
            let at = at % pack.len();
            pack[at] ^= 1 << bit;
            pack.truncate(cut.max(1));
            if let Ok(Some((start, len))) = look(&pack, "b") {
                prop_assert!(start + len <= pack.len() as u64 && len == 80);
            }
        }
    }
}
