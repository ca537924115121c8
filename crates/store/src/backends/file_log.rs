//! A log in a folder, see [`super::log`].

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::{io, path::PathBuf};

use super::{check_range, log::LogFile};
use crate::{Operation, Result, StoreError};

/// A log in a folder. Its writer holds a lock of the file, which ends with its process.
pub(super) struct FileLog {
    pub file: File,
    pub path: PathBuf,
    pub len: u64,
    pub place: String,
    pub name: String,
}

impl FileLog {
    fn error(&self, op: Operation, source: io::Error) -> StoreError {
        StoreError::io(op, &self.place, &self.name, source)
    }

    /// Writes all of it once, so that a sync later has no metadata to write.
    pub(super) fn prepare(&self) -> Result<()> {
        let locked = self.file.try_lock();
        locked.map_err(|error| self.error(Operation::Lock, error.into()))?;
        let zeros = vec![0; 1 << 20];
        for start in (0..self.len).step_by(zeros.len()) {
            let now = (self.len - start).min(zeros.len() as u64) as usize;
            let written = self.file.write_all_at(&zeros[..now], start);
            written.map_err(|error| self.error(Operation::Write, error))?;
        }
        self.file.sync_all().map_err(|error| self.error(Operation::Sync, error))
    }
}

impl LogFile for FileLog {
    fn len(&self) -> u64 {
        self.len
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        check_range(&self.place, &self.name, offset, bytes.len(), self.len)?;
        let written = self.file.write_all_at(bytes, offset);
        written.map_err(|error| self.error(Operation::Write, error))
    }

    /// The bytes first, then the look at the name: whoever renames the file and then reads it reads
    /// what was synced before this look.
    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(|error| self.error(Operation::Sync, error))?;
        let ours = self.file.metadata().map_err(|error| self.error(Operation::Use, error))?;
        match fs::symlink_metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == (ours.dev(), ours.ino()) => Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(self.error(Operation::Use, error))
            }
            _ => Err(StoreError::Fenced { place: self.place.clone(), name: self.name.clone() }),
        }
    }
}
