//! The index's file, with a checksum for every block beside it: what the database reads is what it
//! wrote, or an error.
//!
//! The database trusts its pages: given damaged ones it panics, or answers wrongly. So it never
//! sees any. All blocks are checked when the file is opened, so that damage is found while there is
//! still time to make the index anew, and each one again when it is read.
//!
//! Nothing is synced. After a crash of the machine some blocks may be old, which their checksums
//! tell, and an index of another boot is not used in any case.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{ffi::OsString, os::unix::fs::FileExt, path::Path};

use redb::StorageBackend;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a block. The database writes pages of this size.
const BLOCK: usize = 4096;
/// Blocks that are checked with one read when the file is opened.
const AT_ONCE: usize = 256;
/// Begins the file of checksums. Then come the length of the index, the checksum of all that
/// follows and of that length, and those of the blocks; numbers have 8 bytes, little-endian.
const MAGIC: [u8; 8] = *b"\x89KSUM\r\n\x01";
/// Bytes before the checksums of the blocks.
const HEAD: usize = 24;
/// A longer index is not read: its checksums alone would take 512 MiB.
const MAX_LEN: u64 = 1 << 38;

/// Why a file is not used.
pub(super) type Flaw = String;

/// A file of checked blocks; the last one counts as filled up with zeros.
#[derive(Debug)]
pub(super) struct CheckedFile {
    file: File,
    sums: File,
    table: Mutex<Table>,
}

/// Expected state of the file.
#[derive(Debug, Default)]
struct Table {
    /// Bytes of the file.
    len: u64,
    /// A checksum for each block.
    sums: Vec<u64>,
    /// The file of checksums says something else.
    changed: bool,
}

impl CheckedFile {
    /// Opens a file that has not changed since it was closed, or a new one.
    /// Errors: a disk that fails; within, what is wrong with the file.
    pub(super) fn open(path: &Path) -> Result<std::result::Result<CheckedFile, Flaw>> {
        let open = |path: &Path| {
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
        };
        let (file, sums) = (open(path)?, open(Path::new(&sums_of(path)))?);
        let len = file.metadata()?.len();
        let table = match len {
            0 => Table { changed: true, ..Table::default() },
            _ => match Table::read(&sums, len)? {
                Ok(table) => table,
                Err(flaw) => return Ok(Err(flaw)),
            },
        };
        let checked = CheckedFile { file, sums, table: Mutex::new(table) };
        Ok(checked.check_all()?.map(|()| checked))
    }

    /// Removes a file and its checksums.
    pub(super) fn remove(path: &Path) -> Result<()> {
        for path in [path.as_os_str().to_owned(), sums_of(path)] {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn check_all(&self) -> Result<std::result::Result<(), Flaw>> {
        let table = self.table();
        let mut buf = vec![0; BLOCK * AT_ONCE.min(table.sums.len())];
        for first in (0..table.sums.len()).step_by(AT_ONCE) {
            let blocks = AT_ONCE.min(table.sums.len() - first);
            match self.load(&table, first, &mut buf[..blocks * BLOCK]) {
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    return Ok(Err(error.to_string()));
                }
                loaded => loaded?,
            }
        }
        Ok(Ok(()))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // A table is whole after every statement: nothing is left half done by a panic.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads whole blocks from `first` on and checks them.
    fn load(&self, table: &Table, first: usize, blocks: &mut [u8]) -> Result<()> {
        let start = first as u64 * BLOCK as u64;
        let there = blocks.len().min((table.len - start) as usize);
        let (bytes, zeros) = blocks.split_at_mut(there);
        self.file.read_exact_at(bytes, start).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => bad("it was cut short".into()),
            _ => error,
        })?;
        zeros.fill(0);
        for (at, block) in blocks.chunks_exact(BLOCK).enumerate() {
            if xxh3_64(block) != table.sums[first + at] {
                return Err(bad(format!("block {} is not as it was written", first + at)));
            }
        }
        Ok(())
    }

    /// The blocks around a range, checked, and where the range starts among them.
    fn around(&self, table: &Table, offset: u64, len: usize) -> Result<(usize, Vec<u8>, usize)> {
        let (first, skip) = ((offset / BLOCK as u64) as usize, (offset % BLOCK as u64) as usize);
        let mut blocks = vec![0; (skip + len).next_multiple_of(BLOCK)];
        self.load(table, first, &mut blocks)?;
        Ok((first, blocks, skip))
    }

    /// Writes the checksums down, if they changed.
    fn settle(&self) -> Result<()> {
        let mut table = self.table();
        if table.changed {
            let bytes = table.to_bytes();
            self.sums.write_all_at(&bytes, 0)?;
            self.sums.set_len(bytes.len() as u64)?;
            table.changed = false;
        }
        Ok(())
    }
}

impl Table {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD + 8 * self.sums.len());
        bytes.extend(MAGIC);
        bytes.extend(self.len.to_le_bytes());
        bytes.extend([0; 8]);
        bytes.extend(self.sums.iter().flat_map(|sum| sum.to_le_bytes()));
        let sum = own_sum(&bytes);
        bytes[16..HEAD].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The table of a file of `len` bytes.
    fn read(file: &File, len: u64) -> Result<std::result::Result<Table, Flaw>> {
        let is = file.metadata()?.len();
        if is == 0 {
            return Ok(Err("it has no checksums".into()));
        }
        // Before anything is allocated: the lengths of two files must fit each other.
        let blocks = len.div_ceil(BLOCK as u64);
        if len > MAX_LEN || is != HEAD as u64 + 8 * blocks {
            return Ok(Err(format!("its {len} bytes and its checksums do not fit each other")));
        }
        let mut bytes = vec![0; is as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let (head, sums) = bytes.split_at(HEAD);
        let right = head[..8] == MAGIC
            && head[8..16] == len.to_le_bytes()
            && head[16..] == own_sum(&bytes).to_le_bytes();
        if !right {
            return Ok(Err("its checksums are damaged".into()));
        }
        let number = |bytes: &[u8]| u64::from_le_bytes(std::array::from_fn(|at| bytes[at]));
        let sums = sums.chunks_exact(8).map(number).collect();
        Ok(Ok(Table { len, sums, changed: false }))
    }

    /// Refuses ranges that are not within the file.
    fn within(&self, offset: u64, len: usize) -> Result<()> {
        match offset.checked_add(len as u64) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(Error::new(ErrorKind::UnexpectedEof, "beyond the end of the index")),
        }
    }
}

/// The checksum of a table's length and of its checksums.
fn own_sum(bytes: &[u8]) -> u64 {
    xxh3_64(&bytes[HEAD..]) ^ xxh3_64(&bytes[8..16]).rotate_left(1)
}

fn sums_of(path: &Path) -> OsString {
    let mut name = path.as_os_str().to_owned();
    name.push(".sums");
    name
}

fn bad(what: String) -> Error {
    Error::new(ErrorKind::InvalidData, what)
}

impl StorageBackend for CheckedFile {
    fn len(&self) -> Result<u64> {
        Ok(self.table().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let table = self.table();
        table.within(offset, out.len())?;
        if offset.is_multiple_of(BLOCK as u64) && out.len().is_multiple_of(BLOCK) {
            return self.load(&table, (offset / BLOCK as u64) as usize, out);
        }
        let (_, blocks, skip) = self.around(&table, offset, out.len())?;
        out.copy_from_slice(&blocks[skip..skip + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<()> {
        if len > MAX_LEN {
            return Err(Error::new(ErrorKind::FileTooLarge, "the index would be too long"));
        }
        let mut table = self.table();
        let kept = (len % BLOCK as u64) as usize;
        let cut = match len < table.len && kept > 0 {
            true => {
                let (first, mut block, _) = self.around(&table, len - kept as u64, kept)?;
                block[kept..].fill(0);
                Some((first, xxh3_64(&block)))
            }
            false => None,
        };
        self.file.set_len(len)?;
        let blocks = len.div_ceil(BLOCK as u64) as usize;
        table.sums.resize(blocks, xxh3_64(&[0; BLOCK]));
        if let Some((at, sum)) = cut {
            table.sums[at] = sum;
        }
        (table.len, table.changed) = (len, true);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        let mut table = self.table();
        table.within(offset, data.len())?;
        let whole = offset.is_multiple_of(BLOCK as u64) && data.len().is_multiple_of(BLOCK);
        let sums = |blocks: &[u8]| blocks.chunks_exact(BLOCK).map(xxh3_64).collect::<Vec<_>>();
        let (first, sums) = if whole {
            ((offset / BLOCK as u64) as usize, sums(data))
        } else {
            let (first, mut blocks, skip) = self.around(&table, offset, data.len())?;
            blocks[skip..skip + data.len()].copy_from_slice(data);
            (first, sums(&blocks))
        };
        self.file.write_all_at(data, offset)?;
        table.sums[first..first + sums.len()].copy_from_slice(&sums);
        table.changed = true;
        Ok(())
    }

    fn sync_data(&self) -> Result<()> {
        self.settle()
    }

    fn close(&self) -> Result<()> {
        self.settle()
    }
}
