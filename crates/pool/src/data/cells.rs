//! Streams of an encrypted object: encrypted on their way into shards, decrypted on their way out.

use std::io::{self, Read, Write};
use std::mem::{replace, take};
use std::ops::Range;

use kiln_stripe::{PoolError, Result, Source};

use crate::layout::data_key::{CELL, ObjectKey, TAG, stored_len, stored_range};
use crate::layout::object_name;

/// The bytes of a source, encrypted.
pub(crate) struct EncryptedSource<'a> {
    inner: &'a mut dyn Source,
    key: &'a ObjectKey,
    number: u64,
    /// The cell of that number, read ahead.
    next: Vec<u8>,
    complete: bool,
    /// The encrypted cell before it, from `given` on still to be handed out.
    ready: Vec<u8>,
    given: usize,
    /// Bytes of the source that were encrypted.
    pub taken: u64,
}

impl<'a> EncryptedSource<'a> {
    pub fn new(inner: &'a mut dyn Source, key: &'a ObjectKey) -> EncryptedSource<'a> {
        let (next, ready, number, given, taken) = (Vec::new(), Vec::new(), 0, 0, 0);
        EncryptedSource { inner, key, number, next, complete: false, ready, given, taken }
    }

    fn read_cell(&mut self, mut cell: Vec<u8>) -> io::Result<Vec<u8>> {
        cell.clear();
        cell.reserve(CELL + TAG);
        (&mut *self.inner).take(CELL as u64).read_to_end(&mut cell)?;
        Ok(cell)
    }

    /// Encrypts a cell, once it is known whether it is the last.
    fn encrypt(&mut self) -> io::Result<()> {
        if self.number == 0 {
            self.next = self.read_cell(Vec::new())?;
        }
        let spare = take(&mut self.ready);
        let after = self.read_cell(spare)?;
        self.complete = after.is_empty();
        self.taken += self.next.len() as u64;
        self.key.encrypt(self.number, self.complete, &mut self.next);
        (self.ready, self.given) = (replace(&mut self.next, after), 0);
        self.number += 1;
        Ok(())
    }
}

impl Read for EncryptedSource<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.given == self.ready.len() && !self.complete {
            self.encrypt()?;
        }
        let len = (&self.ready[self.given..]).read(buf)?;
        self.given += len;
        Ok(len)
    }
}

impl Source for EncryptedSource<'_> {
    fn size(&self) -> Option<u64> {
        self.inner.size().map(stored_len)
    }

    fn identity(&self) -> Option<[u8; 16]> {
        None
    }

    fn changed(&mut self) -> io::Result<bool> {
        self.inner.changed()
    }
}

/// Decrypts the cells that are written to it, and hands out bytes of some range.
struct Decryptor<'a> {
    key: ObjectKey,
    size: u64,
    wanted: Range<u64>,
    out: &'a mut dyn Write,
    number: u64,
    /// The part of that cell that has come.
    held: Vec<u8>,
    /// First byte of a cell that is not what was put.
    forged: Option<u64>,
}

impl Write for Decryptor<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let start = self.number.saturating_mul(CELL as u64);
        let len = self.size.saturating_sub(start).min(CELL as u64);
        let bytes = &bytes[..bytes.len().min(len as usize + TAG - self.held.len())];
        self.held.extend_from_slice(bytes);
        if self.held.len() < len as usize + TAG {
            return Ok(bytes.len());
        }
        let last = start + len >= self.size;
        let Some(plain) = self.key.decrypt(self.number, last, &mut self.held) else {
            self.forged = Some(start);
            return Err(io::Error::other("a cell is not what was put"));
        };
        let within = |at: u64| at.saturating_sub(start).min(len) as usize;
        let wanted = within(self.wanted.start)..within(self.wanted.end);
        self.out.write_all(plain.get(wanted).unwrap_or(&[]))?;
        self.held.clear();
        self.number += 1;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Has bytes of an object, which lie within it, written to `out` by a read of the stored bytes that
/// hold them.
pub(crate) fn decrypted<T>(
    (object, size): (&str, u64),
    key: Option<ObjectKey>,
    wanted: Range<u64>,
    out: &mut dyn Write,
    read: impl FnOnce(Range<u64>, &mut dyn Write) -> Result<T>,
) -> Result<T> {
    let Some(key) = key else { return read(wanted, out) };
    let stored = stored_range(&wanted, size);
    let (number, held, forged) = (wanted.start / CELL as u64, Vec::new(), None);
    let mut decryptor = Decryptor { key, size, wanted, out, number, held, forged };
    let read = read(stored, &mut decryptor);
    match decryptor.forged {
        Some(offset) => Err(PoolError::Forged { object: object_name(object).to_owned(), offset }),
        None => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_stripe::StreamSource;

    fn data(len: usize) -> Vec<u8> {
        (0..len as u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) as u8).collect()
    }

    fn encrypted(key: u8, bytes: &[u8]) -> Vec<u8> {
        let (key, mut out) = (ObjectKey::new([key; 32].into()), Vec::new());
        let mut source = StreamSource::new(bytes).with_size(bytes.len() as u64);
        let mut source = EncryptedSource::new(&mut source, &key);
        let size = source.size().unwrap();
        source.read_to_end(&mut out).unwrap();
        assert_eq!((out.len() as u64, source.taken), (size, bytes.len() as u64));
        out
    }

    /// Reads these stored bytes; of an error the byte that it names comes first.
    fn read(stored: &[u8], size: usize, wanted: Range<u64>) -> (Option<u64>, Vec<u8>) {
        let (mut out, key) = (Vec::new(), ObjectKey::new([1; 32].into()));
        let end = decrypted(("x", size as u64), Some(key), wanted, &mut out, |range, out| {
            let stored = stored.get(range.start as usize..range.end as usize).unwrap_or(stored);
            let written = stored.chunks(5_000).try_for_each(|part| out.write_all(part));
            written.map_err(|source| PoolError::Output { source })
        });
        match end {
            Err(PoolError::Forged { offset, .. }) => (Some(offset), out),
            end => (end.map(|()| None).unwrap(), out),
        }
    }

    #[test]
    fn every_flipped_byte_and_every_splice_is_found() {
        // All that was handed out before the error is right.
        let refused = |wrong: &[u8], bytes: &[u8], first: usize| {
            let found = read(wrong, bytes.len(), 0..bytes.len() as u64);
            assert!(found == (Some(first as u64), bytes[..first].to_vec()), "{:?}", found.0);
        };
        for size in [0, 40, CELL + 300] {
            let stored = encrypted(1, &data(size));
            for at in 0..stored.len() {
                let mut wrong = stored.clone();
                wrong[at] ^= 1 << (at % 8);
                refused(&wrong, &data(size), at / (CELL + TAG) * CELL);
            }
        }
        let bytes = data(3 * CELL);
        let all = [encrypted(1, &bytes), encrypted(2, &bytes), encrypted(1, &data(4 * CELL))];
        // Cells of the object, of another one, and of the same, had it been longer.
        for (cells, first) in [
            ([(0, 1), (0, 0), (0, 2)], 0),
            ([(0, 0), (0, 0), (0, 2)], 1),
            ([(0, 0), (0, 1), (0, 1)], 2),
            ([(0, 0), (1, 1), (0, 2)], 1),
            ([(0, 0), (0, 1), (2, 2)], 2),
        ] {
            let cell = |(of, at): (usize, usize)| &all[of][at * (CELL + TAG)..][..CELL + TAG];
            refused(&cells.map(cell).concat(), &bytes, first * CELL);
        }
        // A size that is less makes another cell the last one.
        refused(&all[0], &bytes[..2 * CELL], CELL);
        refused(&all[0], &bytes[..CELL + 5], CELL);
    }
}
