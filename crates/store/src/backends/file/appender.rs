//! A file of a folder that is being written from its beginning, or from where it was left.

use std::fs::File;
use std::io::Write;

use crate::backends::Append;
use crate::{Operation, Result, StoreError};

/// Bytes that are left to the page cache at a time. What is beyond is on its way to the device
/// while more is computed, so that the sync at the end, for which everybody waits, is short.
const WRITE_OUT: u64 = 512 << 10;

pub(super) struct FileAppender {
    file: File,
    /// Up to where the system was asked to write it out.
    begun: u64,
    len: u64,
    place: String,
    name: String,
}

impl FileAppender {
    /// Appends behind the first `len` bytes, where the file stands.
    pub(super) fn new(file: File, len: u64, place: String, name: String) -> FileAppender {
        FileAppender { file, begun: len, len, place, name }
    }
}

impl Append for FileAppender {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all(bytes)
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

    fn sync(&mut self) -> Result<()> {
        self.file
            .sync_all()
            .map_err(|error| StoreError::io(Operation::Sync, &self.place, &self.name, error))
    }
}
