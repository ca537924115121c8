//! An archive as the output of a decode: unpacked beside the final place, which it takes when all
//! of it is there.

use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{
    ffi::OsStr, fs, os::unix::ffi::OsStrExt, os::unix::fs::DirBuilderExt, thread::JoinHandle,
};

use tar::{Archive, Entry, EntryType};

use super::TIME;
use crate::exit::{Failure, Result};
use crate::setup::{Output, OutputTree};
use crate::{names::output_part, setup::kept::Kept};

/// Unpacks what is written to it.
pub struct Unpacking {
    pipe: Option<PipeWriter>,
    worker: Option<JoinHandle<io::Result<Vec<String>>>>,
    part: PathBuf,
    place: PathBuf,
}

/// Metadata that a folder gets when it is complete.
struct Folder {
    name: PathBuf,
    mode: u32,
    time: SystemTime,
}

impl Unpacking {
    /// Begins to unpack into `place`, which must not be there.
    /// Errors: it is there; its parent is not, or cannot be written.
    pub fn new(place: &Path) -> Result<Unpacking> {
        if place.symlink_metadata().is_ok() {
            return Err(Failure::InTheWay { path: place.to_owned() });
        }
        let Some(name) = place.file_name() else {
            let problem =
                format!("{} is not a folder name; name the folder to create", place.display());
            return Err(Failure::Flag { flag: "--output", problem });
        };
        Unpacking::at(place, place.with_file_name(output_part(name)))
    }

    /// As [`Unpacking::new`], below a folder in which no link is followed.
    pub fn below(tree: &OutputTree, inside: &Path) -> Result<Unpacking> {
        let path = tree.path().join(inside);
        let slot = tree.slot(inside);
        slot.map_err(|source| Failure::Io { action: "create", path: path.clone(), source })?;
        Unpacking::new(&path)
    }

    fn at(place: &Path, part: PathBuf) -> Result<Unpacking> {
        let failed = |source| Failure::Io { action: "create", path: part.clone(), source };
        // Of a decode that was killed: it was never the final one.
        if part.symlink_metadata().is_ok() {
            fs::remove_dir_all(&part).map_err(failed)?;
        }
        // Private until it is complete.
        fs::DirBuilder::new().mode(0o700).create(&part).map_err(failed)?;
        let (bytes, pipe) = io::pipe().map_err(failed)?;
        let folder = part.clone();
        let worker = std::thread::Builder::new().spawn(move || unpack(bytes, &folder));
        let worker = worker.map_err(failed)?;
        let place = place.to_owned();
        Ok(Unpacking { pipe: Some(pipe), worker: Some(worker), part, place })
    }

    /// Waits for the end, makes all durable and gives it its name. Gives what was left out.
    /// Errors: it is no archive, or cannot be written; then nothing has the name.
    pub fn finish(mut self) -> Result<Vec<String>> {
        drop(self.pipe.take());
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |source| Failure::Io { action, path, source }
        };
        let unpacked = self.worker.take().map(JoinHandle::join);
        let left_out = match unpacked {
            Some(Ok(end)) => end.map_err(failed("unpack into", &self.part))?,
            _ => {
                let source = io::Error::other("the thread that unpacks panicked");
                return Err(failed("unpack into", &self.part)(source));
            }
        };
        let only = self.only().map_err(failed("read", &self.part))?;
        let part = fs::File::open(&self.part).map_err(failed("open", &self.part))?;
        rustix::fs::syncfs(&part).map_err(io::Error::from).map_err(failed("sync", &self.part))?;
        fs::rename(&only, &self.place).map_err(failed("rename to", &self.place))?;
        let parent = self.place.parent().filter(|parent| *parent != Path::new(""));
        let parent = parent.unwrap_or(Path::new("."));
        let sync = fs::File::open(parent).and_then(|parent| parent.sync_all());
        sync.map_err(failed("sync", parent))?;
        Ok(left_out)
    }

    /// Returns the archive's top entry: one, unless another program made it.
    fn only(&self) -> io::Result<PathBuf> {
        let mut entries = fs::read_dir(&self.part)?;
        match (entries.next().transpose()?, entries.next()) {
            (Some(entry), None) => Ok(entry.path()),
            _ => Ok(self.part.clone()),
        }
    }
}

impl Write for Unpacking {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.pipe {
            Some(pipe) => match pipe.write(bytes) {
                // The thread ended early: its reason is the one to tell.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    self.pipe = None;
                    match self.worker.take().map(JoinHandle::join) {
                        Some(Ok(Err(reason))) => {
                            let what = format!("unpack into {}: {reason}", self.part.display());
                            Err(io::Error::new(reason.kind(), what))
                        }
                        _ => Err(error),
                    }
                }
                written => written,
            },
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Unpacking {
    fn drop(&mut self) {
        drop(self.pipe.take());
        drop(self.worker.take().map(JoinHandle::join));
        // Report the error that brought us here, not this one.
        let _ = fs::remove_dir_all(&self.part);
    }
}

fn unpack(mut bytes: PipeReader, into: &Path) -> io::Result<Vec<String>> {
    let tree = OutputTree::open(into)?;
    let (mut folders, mut left_out) = (Vec::new(), Vec::new());
    let mut archive = Archive::new(&mut bytes);
    for entry in archive.entries()? {
        // The bytes of a bad header are not for a terminal.
        let bad = |error: io::Error| io::Error::new(error.kind(), "invalid or truncated archive");
        let mut entry = entry.map_err(bad)?;
        let time = time(&mut entry)?;
        let shown = entry.path()?.display().to_string();
        match inside(&entry.path()?) {
            None => left_out.push(format!("{shown}: skipped (path leads outside the archive)")),
            // The folder itself, as of an archive made by `tar -c .`.
            Some(name) if name.as_os_str().is_empty() => {}
            Some(name) => match entry.header().entry_type() {
                EntryType::Directory => {
                    let mode = entry.header().mode()? & 0o7777;
                    // Until all is in it, its owner may write to it.
                    tree.folder(&name, true)?;
                    tree.set(&name, &Kept::new(0o700, None))?;
                    folders.push(Folder { name, mode, time });
                }
                EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                    file(&tree, &name, &mut entry, time)?;
                }
                EntryType::Symlink => match entry.link_name_bytes() {
                    Some(target) => tree.link(&name, OsStr::from_bytes(&target))?,
                    None => left_out.push(format!("{shown}: skipped (a link without target)")),
                },
                EntryType::Link => match entry.link_name()?.and_then(|first| inside(&first)) {
                    Some(first) => tree.hard_link(&first, &name)?,
                    None => left_out.push(format!("{shown}: skipped (it links outside)")),
                },
                _ => left_out.push(format!("{shown}: skipped (device, socket or pipe)")),
            },
        }
    }
    for folder in folders.iter().rev() {
        tree.set(&folder.name, &Kept::new(folder.mode, Some(folder.time)))?;
    }
    // What fills the archive's last block.
    io::copy(&mut bytes, &mut io::sink())?;
    Ok(left_out)
}

/// The name of an entry below the folder; `None`: it leads out of it.
fn inside(name: &Path) -> Option<PathBuf> {
    let mut inside = PathBuf::new();
    for part in name.components() {
        match part {
            Component::Normal(word) => inside.push(word),
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(inside)
}

/// Unpacks a file; it is private until it is complete.
fn file<R: Read>(
    tree: &OutputTree,
    name: &Path,
    entry: &mut Entry<'_, R>,
    time: SystemTime,
) -> io::Result<()> {
    let mode = entry.header().mode()? & 0o777;
    let failed = |failure: Failure| io::Error::other(failure.to_string());
    let output = Output::below(tree, name, true, entry.size()).map_err(failed)?;
    let mut output = output.with(Kept::new(mode, Some(time)));
    io::copy(entry, &mut output)?;
    output.written().and_then(|written| written.rename()).map_err(failed)?;
    Ok(())
}

/// When an entry was changed, to the nanosecond where the archive says so.
fn time<R: Read>(entry: &mut Entry<'_, R>) -> io::Result<SystemTime> {
    let mut text = None;
    if let Some(extensions) = entry.pax_extensions()? {
        for extension in extensions.flatten().filter(|e| e.key() == Ok(TIME)) {
            text = extension.value().ok().map(str::to_owned);
        }
    }
    let whole = Duration::from_secs(entry.header().mtime()?);
    let since = SystemTime::UNIX_EPOCH;
    let told = text.as_deref().and_then(|text| {
        let (before, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        let nanos = format!("{:0<9.9}", part).parse().ok()?;
        let far = Duration::new(whole.parse().ok()?, nanos);
        if before { since.checked_sub(far) } else { since.checked_add(far) }
    });
    Ok(told.or_else(|| since.checked_add(whole)).unwrap_or(since))
}
