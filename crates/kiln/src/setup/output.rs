//! Output files: written beside the final name, durable before they appear under it.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::SystemTime;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use uuid::Uuid;

use super::output_tree::{OutputTree, Slot, slot_of, sync_folder};
use super::{kept::Kept, local, permissions::output_mode, sparse_output::SparseFile};
use crate::exit::{Failure, Result};
use crate::interrupt::{keep, remove_when_interrupted};
use crate::names::output_part;
use crate::print::{data_goes_to_stdout, warning_line};

/// Small last stripes would otherwise become small writes.
const BUFFER: usize = 1 << 20;
/// Names of standard output; a report printed there would be among the data.
const STDOUT: [&str; 4] = ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// The output as named by the user.
pub enum OutputTarget {
    /// `-`, or another name of standard output.
    Stdout,
    /// A file that is named itself.
    File(PathBuf),
    /// A file below a folder.
    Below(OutputTree, PathBuf),
}

impl OutputTarget {
    /// Returns whether standard output takes the bytes.
    pub fn is_stdout(&self) -> bool {
        matches!(self, OutputTarget::Stdout)
    }

    /// Reads the argument of `-o`.
    /// Errors: it is no file of this machine.
    pub fn new(path: &Path) -> Result<OutputTarget> {
        Ok(match STDOUT.iter().any(|name| path == Path::new(name)) {
            true => OutputTarget::Stdout,
            false => OutputTarget::File(local(path)?.to_owned()),
        })
    }
}

/// That outputs are not locked is said once.
static UNLOCKED: Once = Once::new();

/// An open output. Dropped without [`Output::finish`] it removes what it wrote.
pub struct Output {
    writer: BufWriter<SparseFile>,
    replaces: Option<Replacement>,
}

/// The temporary file beside the final name.
struct Replacement {
    slot: Slot,
    /// Its name in the folder.
    part: OsString,
    /// The final path, for messages.
    path: PathBuf,
    /// Metadata of the complete file.
    kept: Kept,
    done: bool,
}

impl Output {
    /// Opens the output; nothing appears under the final name yet.
    /// Errors: [`Failure::Exists`] without `force`, [`Failure::Busy`], or the system's refusal.
    pub fn open(place: &OutputTarget, force: bool) -> Result<Output> {
        Output::sized(place, force, BUFFER as u64)
    }

    /// As [`Output::open`], for about so many bytes.
    pub fn sized(place: &OutputTarget, force: bool, bytes: u64) -> Result<Output> {
        let buffer = bytes.clamp(1, BUFFER as u64) as usize;
        match place {
            OutputTarget::Stdout => {
                data_goes_to_stdout(true);
                let fd = io::stdout().as_fd().try_clone_to_owned();
                let file = File::from(fd.map_err(failed("open", Path::new("standard output")))?);
                let writer = BufWriter::with_capacity(buffer, SparseFile::none(file));
                Ok(Output { writer, replaces: None })
            }
            OutputTarget::File(path) => Output::file(path, force, buffer),
            OutputTarget::Below(tree, inside) => Output::below(tree, inside, force, bytes),
        }
    }

    /// As [`Output::sized`], below a folder: no link is followed, and one of the final name is
    /// replaced as a file is.
    pub fn below(tree: &OutputTree, inside: &Path, force: bool, bytes: u64) -> Result<Output> {
        let path = tree.path().join(inside);
        let slot = tree.slot(inside).map_err(failed("create", &path))?;
        let replaced = match statat(&slot.folder, &*slot.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => None,
            Err(error) => return Err(failed("look at", &path)(error.into())),
            Ok(_) if !force => return Err(Failure::Exists { path }),
            Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => {
                    let problem = "a folder; a file cannot replace it".to_owned();
                    return Err(Failure::NotUsable { path, problem });
                }
                FileType::RegularFile => Some(stat.st_mode),
                _ => None,
            },
        };
        Output::replacement(path, slot, replaced, bytes.clamp(1, BUFFER as u64) as usize)
    }

    fn file(path: &Path, force: bool, buffer: usize) -> Result<Output> {
        let replaced = match path.metadata() {
            Ok(meta) if meta.is_dir() => {
                let problem = format!("{} is a folder; name a file", path.display());
                return Err(Failure::Flag { flag: "--output", problem });
            }
            // Devices and pipes cannot be replaced by renaming; they take the bytes directly.
            Ok(meta) if !meta.is_file() => {
                let file = OpenOptions::new().write(true).open(path);
                let file = file.map_err(failed("open", path))?;
                return Ok(Output {
                    writer: BufWriter::with_capacity(buffer, SparseFile::none(file)),
                    replaces: None,
                });
            }
            Ok(_) if !force => return Err(Failure::Exists { path: path.to_owned() }),
            Ok(meta) => Some(meta.mode()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(failed("look at", path)(source)),
        };
        // Through a symbolic link, the file it names is replaced and the link stays.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if path.file_name().is_none() {
            let problem = format!("{} is not a file name", path.display());
            return Err(Failure::Flag { flag: "--output", problem });
        }
        let slot = slot_of(&path).map_err(failed("create", &path))?;
        Output::replacement(path, slot, replaced, buffer)
    }

    /// A fixed temporary name, so that a killed decode leaves at most one file, which the next one
    /// overwrites. The lock keeps two decodes at the same time apart.
    fn replacement(
        path: PathBuf,
        slot: Slot,
        replaced: Option<u32>,
        buffer: usize,
    ) -> Result<Output> {
        let part = output_part(&slot.name);
        let temporary = path.with_file_name(&part);
        let file = create_private(&slot, &part).map_err(failed("create", &temporary))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Failure::Busy { path }),
            // Some network file systems have no locks; then nothing is lost but this check.
            Err(TryLockError::Error(error)) => UNLOCKED.call_once(|| {
                let place = temporary.parent().unwrap_or(&temporary).display();
                warning_line(&format!(
                    "cannot lock files in {place}: {error}; do not write the same output by \
                     another kiln meanwhile"
                ));
            }),
        }
        // Between open and lock another decode may have renamed this very file to its final name:
        // emptying it now would destroy that result.
        if !same_file(&file, &slot, &part) {
            return Err(Failure::Busy { path });
        }
        file.set_len(0).map_err(failed("empty", &temporary))?;
        remove_when_interrupted(&slot.folder, &part);
        let kept = Kept::new(output_mode(replaced), None);
        let replaces = Some(Replacement { slot, part, path, kept, done: false });
        Ok(Output { writer: BufWriter::with_capacity(buffer, SparseFile::in_file(file)), replaces })
    }

    /// Sets the time that the complete file gets.
    pub fn dated(mut self, time: Option<SystemTime>) -> Output {
        self.replaces.iter_mut().for_each(|replaces| replaces.kept.time = time);
        self
    }

    /// Sets the metadata that the complete file gets.
    pub fn with(mut self, kept: Kept) -> Output {
        if let Some(replaces) = &mut self.replaces {
            replaces.kept = kept;
        }
        self
    }

    /// Hands all bytes to the system; nothing is durable yet, or has its final name.
    pub fn written(self) -> Result<Written> {
        let replaces = self.replaces;
        let stdout = PathBuf::from("the output");
        let path = replaces.as_ref().map_or(stdout, |replaces| replaces.path.clone());
        let sparse = self.writer.into_inner();
        let sparse = sparse.map_err(|error| failed("write", &path)(error.into_error()))?;
        let file = &sparse.file;
        if let Some(replaces) = &replaces {
            sparse.end().map_err(failed("write", &path))?;
            replaces.kept.apply_all(file).map_err(failed("set mode and time of", &path))?;
        }
        let file = sparse.file;
        let device = file.metadata().map_err(failed("look at", &path))?.dev();
        Ok(Written { file, device, path, replaces })
    }
}

/// An output with all its bytes. Dropped before it has its name it removes what it wrote.
pub struct Written {
    file: File,
    /// The device of its file system.
    pub device: u64,
    path: PathBuf,
    replaces: Option<Replacement>,
}

impl Written {
    /// Makes its bytes durable.
    pub fn sync(&self) -> io::Result<()> {
        self.replaces.as_ref().map_or(Ok(()), |_| self.file.sync_all())
    }

    /// Gives it its final name, which is durable when its folder is.
    /// Errors: the system's refusal; then the name is as it was.
    pub fn rename(mut self) -> Result<Written> {
        if let Some(replaces) = &mut self.replaces {
            let (folder, name) = (&replaces.slot.folder, &*replaces.slot.name);
            let renamed = renameat(folder, &replaces.part, folder, name);
            renamed.map_err(|error| failed("rename to", &self.path)(error.into()))?;
            replaces.done = true;
        }
        Ok(self)
    }

    /// The folder of its final name, open and by its path; `None`: it is no file that has one.
    pub fn folder(&self) -> Option<(Arc<OwnedFd>, PathBuf)> {
        let Replacement { slot, path, .. } = self.replaces.as_ref()?;
        Some((slot.folder.clone(), path.parent().unwrap_or(Path::new("/")).to_owned()))
    }

    pub fn failed(&self, action: &'static str, source: io::Error) -> Failure {
        failed(action, &self.path)(source)
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        keep(&self.slot.folder, &self.part);
        if !self.done {
            // Report the error that brought us here, not this one.
            let _ = unlinkat(&self.slot.folder, &self.part, AtFlags::empty());
        }
    }
}

/// Opens a temporary file that its owner alone may use, whatever stands there: a file that has
/// other names, or is none, makes way.
fn create_private(slot: &Slot, part: &OsStr) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let open = || {
        let private = Mode::from_raw_mode(0o600);
        openat(&slot.folder, part, flags | OFlags::CLOEXEC, private).map(File::from)
    };
    if let Ok(file) = open()
        && let meta = file.metadata()?
        && meta.is_file()
        && meta.nlink() <= 1
    {
        file.set_permissions(Permissions::from_mode(0o600))?;
        return Ok(file);
    }
    match unlinkat(&slot.folder, part, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(open()?),
        Err(error) => Err(error.into()),
    }
}

/// Writes a small file whole and durably: a crash leaves the old one or the new one. Through a
/// symbolic link, the file it names is replaced.
/// Errors: its folder is not there or cannot be written.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let Some(name) = path.file_name() else {
        let problem = "no name of a file; name another".to_owned();
        return Err(Failure::NotUsable { path, problem });
    };
    // Two of us may write the same file at once, as a pool's description when its nodes change.
    let mut mine = name.to_owned();
    mine.push(format!(".{}", &Uuid::new_v4().simple().to_string()[..8]));
    let part = output_part(&mine);
    let slot = slot_of(&path).map_err(failed("write to", &path))?;
    let replaced = path.metadata().ok().map(|meta| meta.mode());
    let file = create_private(&slot, &part).map_err(failed("create", &path))?;
    let mode = output_mode(replaced);
    let kept = Kept::default();
    let mut replaces = Replacement { slot, part, path, kept, done: false };
    let path = replaces.path.clone();
    let whole = (&file).write_all(bytes);
    let whole = whole.and_then(|()| file.set_permissions(Permissions::from_mode(mode)));
    whole.and_then(|()| file.sync_all()).map_err(failed("write", &path))?;
    let (folder, name) = (&replaces.slot.folder, &*replaces.slot.name);
    let renamed = renameat(folder, &replaces.part, folder, name).map_err(io::Error::from);
    renamed.and_then(|()| sync_folder(folder)).map_err(failed("rename to", &path))?;
    replaces.done = true;
    Ok(())
}

fn same_file(file: &File, slot: &Slot, part: &OsStr) -> bool {
    let named = statat(&slot.folder, part, AtFlags::SYMLINK_NOFOLLOW);
    match (file.metadata(), named) {
        (Ok(open), Ok(named)) => open.dev() == named.st_dev && open.ino() == named.st_ino,
        _ => false,
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    let path = path.to_owned();
    move |source| Failure::Io { action, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_file_has_several_writers_at_once_and_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool.toml");
        let text = |of: u8| vec![b'a' + of; 1000 + usize::from(of)];
        let (path, text) = (&path, &text);
        std::thread::scope(|scope| {
            for of in 0..4 {
                scope.spawn(move || (0..25).for_each(|_| write_file(path, &text(of)).unwrap()));
            }
        });
        let found = std::fs::read(path).unwrap();
        assert!((0..4).any(|of| found == text(of)));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
