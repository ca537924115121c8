//! Differences between a file and an object of its name.

use std::io::{self, Read, Write};
use std::path::Path;

use kiln_pool::GetRequest;

use super::Sync;
use crate::exit::{Exit, Failure, Result};
use crate::transfer::Transfer;
use crate::transfer::attributes::same_time;
use crate::transfer::local_tree::LocalEntry;
use crate::transfer::pool_tree::Listing;

/// A difference between an entry of the source and that of its name in the target.
pub(super) enum Difference {
    /// The data, which are copied.
    Data(&'static str),
    /// Mode or time alone.
    Attributes(&'static str),
}

impl Sync {
    /// Returns how a file and an object of its name differ; `put`: the object is the target.
    pub(super) fn differs(
        &self,
        transfer: &Transfer<'_>,
        name: &str,
        local: &LocalEntry,
        object: &Listing,
        put: bool,
    ) -> Result<Option<Difference>> {
        if local.bytes != object.bytes {
            return Ok(Some(Difference::Data("other size")));
        }
        if self.size_only {
            return Ok(None);
        }
        if self.checksum {
            let why = match same_bytes(transfer, &local.path, name) {
                // The source still has what is lost in the pool.
                Err(lost) if put && lost.exit() == Exit::NotRecoverable => Some("not readable"),
                same => (!same?).then_some("other bytes"),
            };
            if let Some(why) = why {
                return Ok(Some(Difference::Data(why)));
            }
        }
        let Some(entry) = &object.entry else {
            // An object that is newer was made of the file as it is; a file that is newer, of it.
            let changed = local.entry.time().map(|(s, ns)| (s, u64::from(ns) / 1_000_000));
            let put_at = ((object.put / 1000) as i64, object.put % 1000);
            let same = self.checksum || put == (changed <= Some(put_at));
            return Ok((!same).then_some(Difference::Data("other time")));
        };
        let times = local.entry.time().zip(entry.time());
        let same = times.is_some_and(|(a, b)| same_time(a, b));
        let about = match put {
            true if local.entry.link() != entry.link() => Some("other names"),
            true => local.entry.differs(entry, false),
            false => entry.differs(&local.entry, true),
        };
        Ok(match (same, self.checksum) {
            (false, false) => Some(Difference::Data("other time")),
            _ => about.map(Difference::Attributes),
        })
    }
}

/// Compares the bytes written to it with a file.
struct Compare {
    file: std::fs::File,
    same: bool,
    buf: Vec<u8>,
}

impl Write for Compare {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buf.resize(bytes.len(), 0);
        match self.file.read_exact(&mut self.buf) {
            Ok(()) => self.same &= self.buf == bytes,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => self.same = false,
            Err(error) => return Err(error),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn same_bytes(transfer: &Transfer<'_>, path: &Path, name: &str) -> Result<bool> {
    let failed = |source| Failure::Io { action: "open", path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut compare = Compare { file, same: true, buf: Vec::new() };
    let req = GetRequest { name, range: None };
    transfer.pool.get(&req, &mut compare, &transfer.setup.settings())?;
    Ok(compare.same)
}
