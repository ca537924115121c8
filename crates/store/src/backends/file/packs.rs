//! Files of a folder that share one, see `backends/pack.rs`.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::AtFlags;

use super::FileBackend;
use crate::backends::{Backend, check_name, pack};
use crate::{
    Operation, Result, backends::extensions::BatchFiles, backends::file_system::FileSystem,
};

/// From what share of a pack file on that nobody has a name for it is worth being written again.
const WASTE: u64 = 2;
/// Bytes of a pack file that are written at once.
const WRITE_BYTES: usize = 64 << 10;

/// Most bytes of tables of pack files that are remembered: small files are read in the order of
/// their keys, and a table would be read for each of its files.
const TABLES: usize = 1 << 20;

/// A pack file: device, number, length and time, since it is never written again.
type PackFile = (u64, u64, u64, (i64, i64));

/// Tables of pack files.
pub(super) type Tables = Mutex<HashMap<PackFile, Arc<[u8]>>>;

/// A file of the folder, and the bytes of it that a name stands for.
pub(super) struct Window {
    pub file: File,
    pub start: u64,
    pub len: u64,
    /// There may be other names for other bytes of it.
    pub shared: bool,
}

/// Returns whether a file system has no second names, or no more of them for this file.
fn lacks_links(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::Unsupported, io::ErrorKind::PermissionDenied];
    kinds.contains(&error.kind()) || error.kind() == io::ErrorKind::TooManyLinks
}

/// The same error once more.
pub(super) fn again(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

/// Temporary name of a file: as the parts of manifests are, so that a
/// crash leaves what is cleared away.
fn part_of(stem: &str) -> String {
    format!(".{stem}.{}.0{}.part", "0".repeat(32), pack::SHARES)
}

impl FileBackend {
    /// Opens a file that may share one.
    pub(super) fn window(&self, name: &str, stem: &str, path: &Path) -> Result<Window> {
        let fail = |error| self.error(Operation::Open, name, error);
        let file = self.reader(path).map_err(fail)?;
        let meta = file.metadata().map_err(fail)?;
        let (len, read) = (meta.len(), |at, buf: &mut [u8]| file.read_exact_at(buf, at));
        let of = (meta.dev(), meta.ino(), len, (meta.mtime(), meta.mtime_nsec()));
        let known = self.tables.lock().get(&of).cloned();
        let known = known.and_then(|table| pack::find_in(&table, stem, len, read).ok());
        let found = match known {
            None => self.found_anew(of, stem, read).map_err(fail)?,
            known => known,
        };
        let shared = found.is_some();
        let (start, len) = found.unwrap_or((0, len));
        Ok(Window { file, start, len, shared })
    }

    /// Finds a stem in a file, and remembers its table.
    fn found_anew(
        &self,
        of: PackFile,
        stem: &str,
        read: impl Fn(u64, &mut [u8]) -> io::Result<()>,
    ) -> io::Result<Option<(u64, u64)>> {
        let Some(table) = pack::table(of.2, &read)? else { return Ok(None) };
        let found = pack::find_in(&table, stem, of.2, read)?;
        let mut tables = self.tables.lock();
        if tables.values().map(|table| table.len()).sum::<usize>() >= TABLES {
            tables.clear();
        }
        tables.insert(of, table.into());
        Ok(Some(found))
    }

    /// Writes files that can share one as one; `None`: the file system has no second names, and
    /// nothing was written. Names of files that were there are taken from these, which may share
    /// theirs with others.
    pub(super) fn write_pack(
        &self,
        files: &[(&str, &[u8])],
        shared: Option<&FileSystem>,
    ) -> Option<Vec<Result<()>>> {
        let (first, rest) = files.split_first()?;
        if files.iter().any(|(name, _)| check_name(name).is_err()) || self.make().is_err() {
            return None;
        }
        files.iter().for_each(|(name, _)| drop(self.pending.take(name)));
        if files.iter().any(|(name, _)| self.settle(name).is_err()) {
            return None;
        }
        let all = |op, error: io::Error| {
            files.iter().map(|(name, _)| Err(self.error(op, name, again(&error)))).collect()
        };
        let (file, path) = match self.new_pack(first.0, files) {
            Ok(made) => made,
            Err(error) => return Some(all(Operation::Write, error)),
        };
        let pack = Arc::new(path);
        // One name shows whether it can have more; the others wait.
        let (second, others) = rest.split_first()?;
        match self.second_name(&pack, second.0) {
            Err(error) if lacks_links(&error) => {
                let _ = fs::remove_file(&*pack);
                return None;
            }
            Err(error) => return Some(all(Operation::Create, error)),
            Ok(()) => {}
        }
        let synced = match shared {
            Some(shared) => shared.sync(),
            None => file.sync_all(),
        };
        if let Err(error) = synced {
            return Some(all(Operation::Sync, error));
        }
        self.pending.add(&pack, others.iter().map(|(name, _)| *name));
        Some(files.iter().map(|_| Ok(())).collect())
    }

    /// Does something with files, first with those that wait for their names: they need the one
    /// that has a name.
    pub(super) fn waiting_first<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
        act: impl Fn(usize) -> Result<()>,
    ) -> Vec<Result<()>> {
        let (waiting, others): (Vec<_>, Vec<_>) =
            names.enumerate().partition(|(_, name)| self.pending.has(name));
        let all = waiting.into_iter().chain(others);
        let mut ends: Vec<(usize, Result<()>)> = all.map(|(at, _)| (at, act(at))).collect();
        ends.sort_unstable_by_key(|(at, _)| *at);
        ends.into_iter().map(|(_, end)| end).collect()
    }

    /// Before something is done with a file: it gets the name that it waits for, and those that
    /// wait for it get theirs.
    pub(super) fn settle(&self, name: &str) -> Result<()> {
        let Some(pack) = self.pending.take(name) else {
            let waiting = self.pending.of(Some(&self.folder.join(name)));
            return waiting.iter().try_for_each(|other| self.settle(other));
        };
        let named = match self.second_name(&pack, name) {
            Err(error) if lacks_links(&error) => return self.copy_out(&pack, name),
            named => named,
        };
        named.map_err(|error| {
            self.pending.add(&pack, [name].into_iter());
            self.error(Operation::Create, name, error)
        })
    }

    /// Gives a file that waits for its name the one that it is to have; `false`: it does not wait,
    /// or cannot be had so shortly, since something has the name or the pack has too many.
    pub(super) fn name_pending(&self, folder: &File, name: &str, to: &str) -> bool {
        if check_name(to).is_err() || pack::stem(name) != pack::stem(to) {
            return false;
        }
        let Some(pack) = self.pending.take(name) else { return false };
        let first = pack.file_name().unwrap_or_default();
        let named = rustix::fs::linkat(folder, first, folder, to, AtFlags::empty()).is_ok();
        if !named {
            self.pending.add(&pack, [name].into_iter());
        }
        named
    }

    /// Writes a file of a pack that can have no more names as one by itself.
    fn copy_out(&self, pack: &Path, name: &str) -> Result<()> {
        let window = self.window(name, pack::stem(name).unwrap_or_default(), pack)?;
        let bytes = self.bytes_of(Operation::Read, name, &window)?;
        self.write_alone(name, &bytes)
    }

    fn bytes_of(&self, op: Operation, name: &str, window: &Window) -> Result<Vec<u8>> {
        let mut bytes = vec![0; window.len as usize];
        let read = window.file.read_exact_at(&mut bytes, window.start);
        read.map_err(|error| self.error(op, name, error))?;
        Ok(bytes)
    }

    /// Makes a pack file under the first of its names.
    fn new_pack(&self, name: &str, files: &[(&str, &[u8])]) -> io::Result<(File, PathBuf)> {
        let path = self.folder.join(name);
        self.take_name(&path)?;
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create_new(true).open(&path)?;
        let mut buffered = BufWriter::with_capacity(WRITE_BYTES, &file);
        let written = pack::write(files, &mut buffered).and_then(|()| buffered.flush());
        drop(buffered);
        if let Err(error) = written {
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        Ok((file, path))
    }

    fn second_name(&self, path: &Path, name: &str) -> io::Result<()> {
        let second = self.folder.join(name);
        match fs::hard_link(path, &second) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.take_name(&second)?;
                fs::hard_link(path, &second)
            }
            end => end,
        }
    }

    fn write_alone(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let mut file = self.append(name, 0)?;
        file.append(bytes)?;
        file.sync()
    }

    /// Takes a name from the file that has it, which stays as it is where it has others.
    pub(super) fn take_name(&self, path: &Path) -> io::Result<()> {
        if !fs::symlink_metadata(path).is_ok_and(|found| found.is_file()) {
            return Ok(());
        }
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Before a file gets a name of another stem: from now on it shares nothing.
    pub(super) fn unshare(&self, name: &str, to: &str) -> Result<()> {
        let Some(stem) = pack::stem(name).filter(|stem| pack::stem(to) != Some(stem)) else {
            return Ok(());
        };
        let (fail, path) = (|error| self.error(Operation::Rename, name, error), self.path(name)?);
        let Some(window) = self.window(name, stem, &path).ok().filter(|found| found.shared) else {
            return Ok(());
        };
        let bytes = self.bytes_of(Operation::Rename, name, &window)?;
        let part = part_of(stem);
        self.write_alone(&part, &bytes)?;
        fs::rename(self.folder.join(part), path).map_err(fail)
    }

    /// Writes pack files again of which at least half is of files that are gone. The caller keeps
    /// other writers out.
    pub(super) fn compact_packs(&self) -> Result<u64> {
        let mut names: BTreeMap<u64, (u64, u64, Vec<String>)> = BTreeMap::new();
        self.each_name(&mut |name| {
            if pack::stem(name).is_some()
                && let Ok(found) = fs::symlink_metadata(self.folder.join(name))
            {
                let file = names.entry(found.ino()).or_default();
                (file.0, file.1) = (found.len(), found.nlink());
                file.2.push(name.to_owned());
            }
            Ok(())
        })?;
        let mut freed = 0;
        for (len, links, names) in names.into_values() {
            // Names that are not listed here, or new ones, are somebody else's.
            if names.len() as u64 == links {
                freed += self.compact_pack(len, &names)?;
            }
        }
        Ok(freed)
    }

    fn compact_pack(&self, len: u64, names: &[String]) -> Result<u64> {
        let mut live = 0;
        let mut files = Vec::new();
        for name in names {
            let Some(stem) = pack::stem(name) else { continue };
            let window = self.window(name, stem, &self.folder.join(name))?;
            if !window.shared {
                return Ok(0);
            }
            live += window.len + stem.len() as u64;
            files.push((name, stem, window));
        }
        if live.saturating_mul(WASTE) > len {
            return Ok(0);
        }
        let mut parts = Vec::new();
        for (name, stem, window) in &files {
            parts.push((part_of(stem), self.bytes_of(Operation::Read, name, window)?));
        }
        let new: Vec<(&str, &[u8])> = parts.iter().map(|(part, b)| (&part[..], &b[..])).collect();
        self.write_all(&new).into_iter().collect::<Result<Vec<()>>>()?;
        let renames: Vec<(&str, &str)> = parts
            .iter()
            .zip(&files)
            .map(|((part, _), (name, _, _))| (&part[..], &name[..]))
            .collect();
        self.rename_all(&renames).into_iter().collect::<Result<Vec<()>>>()?;
        Ok(len.saturating_sub(live))
    }
}
