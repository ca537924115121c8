//! Output files: written beside the final name, durable before they appear under it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Once;

use kiln_store::{Backend, FileBackend, NewFile};
use uuid::Uuid;

use super::local;
use super::sparse_output::SparseFile;
use crate::exit::Failure;
use crate::interrupt::{keep, remove_when_interrupted};
use crate::names::output_part;
use crate::print::{data_goes_to_stdout, warning_line};

/// Small last stripes would otherwise become small writes.
const BUFFER: usize = 1 << 20;

/// The output as named by the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputTarget {
    /// `-`
    Stdout,
    /// A file.
    File(PathBuf),
}

impl OutputTarget {
    /// Reads the argument of `-o`.
    ///
    /// # Errors
    /// It is no file of this machine.
    pub fn new(path: &Path) -> Result<OutputTarget, Failure> {
        Ok(match path == Path::new("-") {
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
    temporary: PathBuf,
    path: PathBuf,
    done: bool,
}

impl Output {
    /// Opens the output; nothing appears under the final name yet.
    ///
    /// # Errors
    /// [`Failure::Exists`] without `force`, [`Failure::Busy`], or the system's refusal.
    pub fn open(place: &OutputTarget, force: bool) -> Result<Output, Failure> {
        Output::sized(place, force, BUFFER as u64)
    }

    /// As [`Output::open`], for about so many bytes.
    ///
    /// # Errors
    /// As [`Output::open`].
    pub fn sized(place: &OutputTarget, force: bool, bytes: u64) -> Result<Output, Failure> {
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
        }
    }

    fn file(path: &Path, force: bool, buffer: usize) -> Result<Output, Failure> {
        match path.metadata() {
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
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(failed("look at", path)(source)),
        }
        // Through a symbolic link, the file it names is replaced and the link stays.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        Output::replacement(path, buffer)
    }

    /// A fixed temporary name, so that a killed decode leaves at most one file, which the next one
    /// overwrites. The lock keeps two decodes at the same time apart.
    fn replacement(path: PathBuf, buffer: usize) -> Result<Output, Failure> {
        let Some(name) = path.file_name() else {
            let problem = format!("{} is not a file name", path.display());
            return Err(Failure::Flag { flag: "--output", problem });
        };
        let temporary = path.with_file_name(output_part(name));
        let mut options = OpenOptions::new();
        let file = options.create(true).write(true).truncate(false).open(&temporary);
        let file = file.map_err(failed("create", &temporary))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Failure::Busy { path }),
            // Some network file systems have no locks; then nothing is lost but this check.
            Err(TryLockError::Error(error)) => UNLOCKED.call_once(|| {
                let place = temporary.parent().unwrap_or(&temporary).display();
                warning_line(&format!(
                    "cannot lock files in {place}: {error}; do not write the same output by another \
                     kiln meanwhile"
                ));
            }),
        }
        // Between open and lock another decode may have renamed this very file to its final name:
        // emptying it now would destroy that result.
        if !same_file(&file, &temporary) {
            return Err(Failure::Busy { path });
        }
        file.set_len(0).map_err(failed("empty", &temporary))?;
        remove_when_interrupted(&temporary);
        let replaces = Some(Replacement { temporary, path, done: false });
        Ok(Output { writer: BufWriter::with_capacity(buffer, SparseFile::in_file(file)), replaces })
    }

    /// Hands all bytes to the system; nothing is durable yet, or has its final name.
    ///
    /// # Errors
    /// The disk is full or failed.
    pub fn written(self) -> Result<Written, Failure> {
        let replaces = self.replaces;
        let stdout = PathBuf::from("the output");
        let path = replaces.as_ref().map_or(stdout, |replaces| replaces.path.clone());
        let sparse = self.writer.into_inner();
        let sparse = sparse.map_err(|error| failed("write", &path)(error.into_error()))?;
        if replaces.is_some() {
            sparse.end().map_err(failed("write", &path))?;
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
    ///
    /// # Errors
    /// The disk is full or failed.
    pub fn sync(&self) -> io::Result<()> {
        self.replaces.as_ref().map_or(Ok(()), |_| self.file.sync_all())
    }

    /// Gives it its final name, which is durable when its folder is.
    ///
    /// # Errors
    /// The system's refusal; then the name is as it was.
    pub fn rename(mut self) -> Result<Written, Failure> {
        if let Some(replaces) = &mut self.replaces {
            let renamed = std::fs::rename(&replaces.temporary, &replaces.path);
            renamed.map_err(failed("rename to", &self.path))?;
            replaces.done = true;
        }
        Ok(self)
    }

    /// The folder of its final name; `None`: it is no file that has one.
    pub fn folder(&self) -> Option<PathBuf> {
        let folder = self.replaces.as_ref()?.path.parent();
        let folder = folder.filter(|folder| *folder != Path::new(""));
        Some(folder.unwrap_or(Path::new(".")).to_owned())
    }

    /// Returns the failure of an action on it.
    pub fn failed(&self, action: &'static str, source: io::Error) -> Failure {
        failed(action, &self.path)(source)
    }
}

/// Makes the names of a folder durable.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
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
        keep(&self.temporary);
        if !self.done {
            // Report the error that brought us here, not this one.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// Writes a small file whole and durably: a crash leaves the old one or the new one.
///
/// # Errors
/// Its folder is not there or cannot be written.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        let problem = "file name: missing or not UTF-8; name another file".to_owned();
        return Err(Failure::NotUsable { path: path.to_owned(), problem });
    };
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let store = FileBackend::open(folder.unwrap_or(Path::new(".")))?;
    // Two of us may write the same file at once, as a pool's description when its nodes change.
    let mine = format!("{name}.{}", &Uuid::new_v4().simple().to_string()[..8]);
    let part = NewFile::named(&mine).part;
    let mut file = store.create(&NewFile { part, ..NewFile::named(name) })?;
    file.write(bytes)?;
    Ok(file.complete()?)
}

fn same_file(file: &File, path: &Path) -> bool {
    match (file.metadata(), path.metadata()) {
        (Ok(open), Ok(named)) => open.dev() == named.dev() && open.ino() == named.ino(),
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
