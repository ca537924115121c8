//! Input of an encode.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::{os::unix::fs::MetadataExt, path::Path};

/// Bytes to encode.
pub trait Source: Read + Send {
    /// Size in bytes where it is known beforehand (regular files).
    fn size(&self) -> Option<u64>;

    /// A fingerprint of the input that stays equal while the input is unchanged; `None` for
    /// streams, which cannot be read again from the start.
    fn identity(&self) -> Option<[u8; 16]>;

    /// Moves forward by `bytes` without handing them out: reads them, unless there is a shorter
    /// way.
    /// Errors: it ends before.
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.take(bytes), &mut io::sink())?;
        if skipped == bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// True when the input was changed since it was opened.
    fn changed(&mut self) -> io::Result<bool>;
}

/// A regular file as source; identity is device, inode, size, and the times of its last
/// modification and change of status: the first can be put back, the second cannot.
#[derive(Debug)]
pub struct FileSource {
    file: File,
    size: u64,
    identity: [u8; 16],
}

impl FileSource {
    /// Opens a regular file. Anything else (folder, device, pipe) is `InvalidInput`: such input
    /// has no stable size or identity; read it by a [`StreamSource`].
    pub fn open(path: &Path) -> io::Result<FileSource> {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(FileSource { size: meta.len(), identity: fingerprint(&meta), file })
    }
}

fn fingerprint(meta: &Metadata) -> [u8; 16] {
    let mut bytes = Vec::with_capacity(56);
    for word in [meta.dev(), meta.ino(), meta.len()] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    for word in [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    let mut id = xxhash_rust::xxh3::xxh3_128(&bytes).to_le_bytes();
    // All zeros means "no identity" in shard headers.
    id[0] |= u8::from(id == [0; 16]);
    id
}

impl Read for FileSource {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read(buf)
    }
}

impl Source for FileSource {
    fn size(&self) -> Option<u64> {
        Some(self.size)
    }

    fn identity(&self) -> Option<[u8; 16]> {
        Some(self.identity)
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let step = i64::try_from(bytes).map_err(io::Error::other)?;
        self.file.seek(SeekFrom::Current(step)).map(drop)
    }

    fn changed(&mut self) -> io::Result<bool> {
        Ok(fingerprint(&self.file.metadata()?) != self.identity)
    }
}

/// Any reader as source: no identity, and no size unless somebody says it.
#[derive(Debug)]
pub struct StreamSource<R> {
    inner: R,
    size: Option<u64>,
}

impl<R: Read + Send> StreamSource<R> {
    /// Reads from `inner` to its end.
    pub fn new(inner: R) -> StreamSource<R> {
        StreamSource { inner, size: None }
    }

    /// The reader has so many bytes; another number is an error of whoever reads it.
    #[must_use]
    pub fn with_size(self, bytes: u64) -> StreamSource<R> {
        StreamSource { size: Some(bytes), ..self }
    }
}

impl<R: Read + Send> Read for StreamSource<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buf)
    }
}

impl<R: Read + Send> Source for StreamSource<R> {
    fn size(&self) -> Option<u64> {
        self.size
    }

    fn identity(&self) -> Option<[u8; 16]> {
        None
    }

    fn changed(&mut self) -> io::Result<bool> {
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, time::Duration};

    use super::*;

    #[test]
    fn a_file_changed_in_place_with_its_time_put_back_is_another_input() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"some bytes").unwrap();
        let time = file.as_file().metadata().unwrap().modified().unwrap();
        let mut source = FileSource::open(file.path()).unwrap();
        let before = source.identity();
        // Clocks of file systems are coarse.
        std::thread::sleep(Duration::from_millis(30));
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(b"other text").unwrap();
        file.as_file().set_modified(time).unwrap();
        assert!(source.changed().unwrap());
        assert_ne!(FileSource::open(file.path()).unwrap().identity(), before);
    }
}
