//! `kiln sync`

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use kiln_pool::{GetRequest, PoolError};

use crate::args::with_exit_codes;
use crate::exit::{Exit, Failure};
use crate::setup::{PoolFlags, Setup, fresh_run, local, now_ms};
use crate::transfer::attributes::Entry;
use crate::transfer::local_tree::LocalTree;
use crate::transfer::{Item, Listing, MARK, Report, Transfer, path_below, same_time};

const EXAMPLES: &str = "\
Examples:
  kiln sync photos pool:photos --dry-run       what would be copied, and why
  kiln sync photos pool:photos                 what is new, or has another size or time
  kiln sync photos pool:photos --checksum      reads everything on both sides and compares it
  kiln sync photos pool:photos --delete        also removes what is not in photos any more
  kiln sync pool:photos photos                 the other way";

/// Printed at an interrupt.
pub const INTERRUPTED: &str = "copies so far stay; rerun to go on";

/// Copy into a folder what another one has, and the first has not or has otherwise
///
/// One of the two is in the pool. A file is taken for the same where its size and its time of
/// change are those that were recorded when it was copied; where none is recorded, when the object
/// is newer than the file. An interrupted sync goes on when the same command is given again.
#[derive(Debug, Args)]
#[command(after_help = with_exit_codes(EXAMPLES))]
pub struct Sync {
    /// A folder, or pool:FOLDER
    from: String,

    /// pool:FOLDER, or a folder
    to: String,

    /// Copy nothing; say what would be copied or removed, and why
    #[arg(long)]
    dry_run: bool,

    /// Files of one size are the same
    #[arg(long, conflicts_with = "checksum")]
    size_only: bool,

    /// Compare all bytes, whatever sizes and times say
    #[arg(long)]
    checksum: bool,

    /// Also remove what the source does not have
    #[arg(long)]
    delete: bool,

    #[command(flatten)]
    pool: PoolFlags,
}

impl Sync {
    pub fn run(self, setup: &Setup) -> Result<Exit, Failure> {
        let pool = self.pool.open(setup)?;
        let index = self.pool.index_to_list(&pool, setup)?;
        let transfer = Transfer::new(&pool, &index, setup, true, false);
        let report = match (self.from.strip_prefix(MARK), self.to.strip_prefix(MARK)) {
            (None, Some(to)) => self.put(&transfer, folder(&self.from)?, to)?,
            (Some(from), None) => self.get(&transfer, from, local(self.to.as_ref())?)?,
            _ => {
                let problem =
                    "exactly one of the two folders must be in the pool: write it as pool:FOLDER"
                        .into();
                return Err(Failure::Flag { flag: "TO", problem });
            }
        };
        report.end(setup)
    }
}

/// A folder that must be there: an absent one (a disk that is not mounted) is no empty one.
fn folder(path: &str) -> Result<&Path, Failure> {
    let path = local(path.as_ref())?;
    match path.is_dir() {
        true => Ok(path),
        false => {
            let problem = format!("{} is not a folder; use kiln cp for files", path.display());
            Err(Failure::Flag { flag: "FROM", problem })
        }
    }
}

impl Sync {
    fn put(&self, transfer: &Transfer<'_>, from: &Path, to: &str) -> Result<Report, Failure> {
        let mut report = Report::new(self.dry_run);
        let prefix = to.trim_matches('/');
        let mut walked = LocalTree::new(from, prefix)?;
        let (objects, _) = transfer.listed(prefix)?;
        let mut there: BTreeMap<String, Listing> =
            objects.into_iter().map(|object| (object.name.clone(), object)).collect();
        let mut wanted = Vec::new();
        for file in std::mem::take(&mut walked.files) {
            let object = there.remove(&file.name);
            let why = match &object {
                None => Some("new"),
                Some(object) => self.differs(transfer, &file.path, file.bytes, object, true)?,
            };
            match why {
                None => report.skipped += 1,
                Some(why) => {
                    report.steps.push(self.step("copy", &file.name, why));
                    wanted.push(file);
                }
            }
        }
        walked.files = wanted;
        match self.dry_run {
            true => report.would_copy(walked.files.iter().map(|file| file.bytes), walked.left_out),
            false => transfer.put(walked, &mut report)?,
        }
        // Where not all could be read, what seems to be gone may be there.
        for name in there.into_keys().filter(|_| self.delete && report.failed == 0) {
            report.steps.push(self.step("remove", &name, "not in the source"));
            if !self.dry_run {
                let settings = transfer.setup.settings();
                transfer.pool.remove(&name, fresh_run(), now_ms(), &settings)?;
            }
            report.removed += 1;
        }
        Ok(report)
    }

    fn get(&self, transfer: &Transfer<'_>, from: &str, to: &Path) -> Result<Report, Failure> {
        let mut report = Report::new(self.dry_run);
        let prefix = from.trim_end_matches('/');
        let (objects, folders) = transfer.listed(prefix)?;
        if objects.is_empty() && folders.is_empty() {
            return Err(PoolError::NoObject { name: from.to_owned() }.into());
        }
        let mut there: BTreeMap<PathBuf, u64> = match to.exists() {
            true => {
                let files = LocalTree::new(to, "")?.files;
                files.into_iter().map(|file| (file.path, file.bytes)).collect()
            }
            false => BTreeMap::new(),
        };
        let mut wanted = Vec::new();
        for object in objects {
            let path = path_below(to, prefix, &object.name);
            let why = match there.remove(&path) {
                None => Some("new"),
                Some(bytes) => self.differs(transfer, &path, bytes, &object, false)?,
            };
            match why {
                None => report.skipped += 1,
                Some(why) => {
                    report.steps.push(self.step("copy", &object.name, why));
                    let (bytes, version) = (object.bytes, object.version);
                    wanted.push(Item { name: object.name, path, bytes, version });
                }
            }
        }
        if self.dry_run {
            report.would_copy(wanted.iter().map(|item| item.bytes), Vec::new());
        } else {
            transfer.get(&wanted, &mut report)?;
            transfer.write_others(prefix, &folders, to)?;
        }
        for path in there.into_keys().filter(|_| self.delete && report.failed == 0) {
            let name = path.display().to_string();
            report.steps.push(self.step("remove", &name, "not in the source"));
            if !self.dry_run {
                let failed = |source| Failure::Io { action: "remove", path: path.clone(), source };
                std::fs::remove_file(&path).map_err(failed)?;
            }
            report.removed += 1;
        }
        Ok(report)
    }

    /// Why a file is to be copied over an object, or the other way; nothing: they are the same.
    fn differs(
        &self,
        transfer: &Transfer<'_>,
        path: &Path,
        bytes: u64,
        object: &Listing,
        put: bool,
    ) -> Result<Option<&'static str>, Failure> {
        if bytes != object.bytes {
            return Ok(Some("other size"));
        }
        if self.size_only {
            return Ok(None);
        }
        if self.checksum {
            return Ok((!same_bytes(transfer, path, &object.name)?).then_some("other bytes"));
        }
        let same = match transfer.entry(&object.name, object.version)? {
            Some(entry @ Entry::File { .. }) => same_time(path, &entry),
            // An object that is newer was made of the file as it is; a file that is newer, of it.
            _ => put == (changed_ms(path) <= object.put),
        };
        Ok((!same).then_some("other time"))
    }

    fn step(&self, what: &str, name: &str, why: &str) -> String {
        let would = if self.dry_run { "would " } else { "" };
        format!("{would}{what} {name}: {why}")
    }
}

fn changed_ms(path: &Path) -> u64 {
    let time = path.metadata().and_then(|meta| meta.modified()).ok();
    let since = time.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or(u64::MAX, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
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

fn same_bytes(transfer: &Transfer<'_>, path: &Path, name: &str) -> Result<bool, Failure> {
    let failed = |source| Failure::Io { action: "open", path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut compare = Compare { file, same: true, buf: Vec::new() };
    let req = GetRequest { name, range: None };
    transfer.pool.get(&req, &mut compare, &transfer.setup.settings())?;
    Ok(compare.same)
}
