//! Blocks that files had when they were looked up last. A file that is the same in number, time of
//! modification and length has the same blocks. HDFS may have moved them since: then their files
//! are not on this machine any more.

use parking_lot::{Mutex, MutexGuard};
use std::{collections::HashMap, path::PathBuf};

/// Files that are remembered at most.
const MOST: usize = 4096;

/// A file's number, time of modification and length.
pub(crate) type Version = (u64, u64, u64);

/// A block as a file of this machine: its path, and which bytes of the whole file it has, from and
/// up to.
pub(crate) type Piece = (PathBuf, u64, u64);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Known(Mutex<HashMap<Version, Vec<Piece>>>);

impl Known {
    fn files(&self) -> MutexGuard<'_, HashMap<Version, Vec<Piece>>> {
        self.0.lock()
    }

    /// The blocks of a file, if they are known.
    pub(crate) fn get(&self, version: Version) -> Option<Vec<Piece>> {
        self.files().get(&version).cloned()
    }

    /// Notes where they are; `None`: nothing is known any more.
    pub(crate) fn note(&self, version: Version, pieces: Option<Vec<Piece>>) {
        let mut files = self.files();
        let Some(pieces) = pieces else {
            files.remove(&version);
            return;
        };
        if files.len() >= MOST {
            // What is still read is soon known again.
            files.clear();
        }
        files.insert(version, pieces);
    }
}
