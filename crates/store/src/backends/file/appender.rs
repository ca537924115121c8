//! A file of a folder that is being written from its beginning, or from where it was left.

use crate::{Operation, Result, StoreError, backends::open_file::Append};
use std::fs::File;
use std::io::{self, Write};

/// Bytes that are left to the page cache at a time. What is beyond is on its way to the device
/// while more is computed, so that the sync at the end, for which everybody waits, is short.
const WRITE_OUT: u64 = 512 << 10;
/// Pieces of at least so many bytes are dropped from the page cache if that was asked for: each
/// goes to the device by itself.
const DROP_LEAST: usize = 256 << 10;

pub(super) struct FileAppender {
    file: File,
    /// Up to where the system was asked to write it out.
    begun: u64,
    len: u64,
    /// True if large pieces leave the page cache when the device has them.
    drop_behind: bool,
    place: String,
    name: String,
}

impl FileAppender {
    /// Appends behind the first `len` bytes, where the file stands.
    pub(super) fn new(file: File, len: u64, place: String, name: String) -> FileAppender {
        FileAppender { file, begun: len, len, drop_behind: false, place, name }
    }

    /// Writes all bytes, and has them dropped behind if that is wanted and the system can.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while self.drop_behind && rest.len() >= DROP_LEAST {
            match write_dropped(&self.file, rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The file system has no such writes, or the kernel is older than they are.
                Err(error) if is_unknown(&error) => self.drop_behind = false,
                Err(error) => return Err(error),
            }
        }
        self.file.write_all(rest)
    }
}

impl Append for FileAppender {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.write(bytes)
            .map_err(|error| StoreError::io(Operation::Write, &self.place, &self.name, error))?;
        self.len += bytes.len() as u64;
        if self.len - self.begun >= WRITE_OUT {
            let bytes = self.begun..self.len;
            self.begun = self.len;
            kiln_uring::start_writing(&self.file, bytes).map_err(|error| {
                StoreError::io(Operation::Write, &self.place, &self.name, error)
            })?;
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn drop_behind(&mut self) {
        self.drop_behind = true;
    }

    fn sync(&mut self) -> Result<()> {
        self.file
            .sync_all()
            .map_err(|error| StoreError::io(Operation::Sync, &self.place, &self.name, error))
    }
}

/// Writes through the page cache, from where the file stands, pages that are given back as soon as
/// the device has them. Where memory must be found for each page first, and in virtual machines by
/// the host, writing into pages that were used just before takes a fraction of the time.
#[cfg(target_os = "linux")]
fn write_dropped(file: &File, bytes: &[u8]) -> io::Result<usize> {
    use rustix::io::{ReadWriteFlags, pwritev2};
    /// `RWF_DONTCACHE`, of Linux 6.14 and later.
    const DROPPED: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);
    /// The file's path.
    const HERE: u64 = u64::MAX;
    Ok(pwritev2(file, &[io::IoSlice::new(bytes)], HERE, DROPPED)?)
}

/// Linux' alone.
#[cfg(not(target_os = "linux"))]
fn write_dropped(_file: &File, _bytes: &[u8]) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns whether the system cannot do what was asked for at all, or does not permit it, as each
/// says in its own way.
fn is_unknown(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 7 + at / 256 * 3 + at / 65_536 * 5) as u8).collect()
    }

    fn appender() -> (tempfile::NamedTempFile, FileAppender) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (place, name) = ("here".into(), "name".into());
        let appender = FileAppender::new(file.reopen().unwrap(), 0, place, name);
        (file, appender)
    }

    #[test]
    fn what_is_dropped_behind_is_what_was_written() {
        let (mut file, mut appender) = appender();
        let all = bytes(3_000_000);
        // Pieces of both kinds, at odd places; the system may know how to drop them, or not.
        let (mut rest, lengths) = (&all[..], [4096, 700_000, 1, 262_144, 262_143, 300_001, 99]);
        for (at, len) in lengths.into_iter().cycle().enumerate() {
            if at == 2 {
                appender.drop_behind();
            }
            let (now, later) = rest.split_at(rest.len().min(len));
            appender.append(now).unwrap();
            rest = later;
            assert_eq!(appender.len(), (all.len() - rest.len()) as u64);
            if rest.is_empty() {
                break;
            }
        }
        appender.sync().unwrap();
        let mut read = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut read).unwrap();
        assert!(read == all);
    }

    #[test]
    fn a_file_that_cannot_be_written_is_an_error_and_not_one_that_cannot_be_dropped() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let reads = File::open(file.path()).unwrap();
        let mut appender = FileAppender::new(reads, 0, "here".into(), "name".into());
        appender.drop_behind();
        let error = appender.append(&bytes(1 << 20)).unwrap_err();
        assert!(matches!(error, StoreError::Io { op: Operation::Write, .. }), "{error}");
        assert_eq!(appender.len(), 0);
    }

    /// Returns whether a read of these bytes would not have to wait for the device.
    #[cfg(target_os = "linux")]
    fn in_memory(file: &File, at: u64) -> bool {
        use rustix::io::{ReadWriteFlags, preadv2};
        let mut byte = [0];
        let buffers = &mut [io::IoSliceMut::new(&mut byte)];
        preadv2(file, buffers, at, ReadWriteFlags::NOWAIT).is_ok()
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn large_pieces_leave_memory_and_others_stay() {
        let (file, mut appender) = appender();
        appender.append(&bytes(1 << 20)).unwrap();
        appender.drop_behind();
        appender.append(&bytes(1 << 20)).unwrap();
        appender.append(&bytes(DROP_LEAST - 1)).unwrap();
        appender.sync().unwrap();
        if !appender.drop_behind {
            eprintln!("SKIPPED: neither this kernel nor this file system drops what was written");
            return;
        }
        assert!(in_memory(file.as_file(), 500_000));
        assert!(in_memory(file.as_file(), (2 << 20) + 100_000));
        // The last ones go some time after the device has them.
        let left = || (256..512).filter(|page| in_memory(file.as_file(), page * 4096)).count();
        let gone = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            left() == 0
        });
        assert!(gone, "{} of 256 pages are left", left());
    }
}
