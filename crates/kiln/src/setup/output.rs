//! Where `decode` writes: beside the final name, durable before it appears under it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Once;

use kiln_store::{FileBackend, write_whole};

use super::holes::Holes;
use super::local;
use crate::exit::Failure;
use crate::interrupt::{keep, remove_when_interrupted};
use crate::names::output_part;
use crate::print::{data_goes_to_stdout, warning_line};

/// Small last stripes would otherwise become small writes.
const BUFFER: usize = 1 << 20;

/// What the user named as output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// `-`
    Stdout,
    /// A file.
    File(PathBuf),
}

impl Place {
    /// Reads the argument of `-o`.
    ///
    /// # Errors
    /// It is no file of this machine.
    pub fn new(path: &Path) -> Result<Place, Failure> {
        Ok(match path == Path::new("-") {
            true => Place::Stdout,
            false => Place::File(local(path)?.to_owned()),
        })
    }
}

/// That outputs are not locked is said once.
static UNLOCKED: Once = Once::new();

/// An open output. Dropped without [`Output::finish`] it removes what it wrote.
pub struct Output {
    writer: BufWriter<Holes>,
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
    pub fn open(place: &Place, force: bool) -> Result<Output, Failure> {
        match place {
            Place::Stdout => {
                data_goes_to_stdout(true);
                let fd = io::stdout().as_fd().try_clone_to_owned();
                let file = File::from(fd.map_err(failed("open", Path::new("standard output")))?);
                let writer = BufWriter::with_capacity(BUFFER, Holes::none(file));
                Ok(Output { writer, replaces: None })
            }
            Place::File(path) => Output::file(path, force),
        }
    }

    fn file(path: &Path, force: bool) -> Result<Output, Failure> {
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
                    writer: BufWriter::with_capacity(BUFFER, Holes::none(file)),
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
        Output::replacement(path)
    }

    /// A fixed temporary name, so that a killed decode leaves at most one file, which the next one
    /// overwrites. The lock keeps two decodes at the same time apart.
    fn replacement(path: PathBuf) -> Result<Output, Failure> {
        let Some(name) = path.file_name() else {
            let problem = format!("{} is no file name", path.display());
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
                    "cannot lock files in {place}: {error}; nothing keeps another kiln from \
                     writing the same output meanwhile"
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
        Ok(Output { writer: BufWriter::with_capacity(BUFFER, Holes::in_file(file)), replaces })
    }

    /// Makes everything durable and visible under the final name.
    ///
    /// # Errors
    /// The disk is full or failed; then the final name is as it was.
    pub fn finish(mut self) -> Result<(), Failure> {
        let stdout = PathBuf::from("the output");
        let path = self.replaces.as_ref().map_or(stdout, |r| r.path.clone());
        self.writer.flush().map_err(failed("write", &path))?;
        let Some(replaces) = &mut self.replaces else { return Ok(()) };
        self.writer.get_ref().end().map_err(failed("write", &path))?;
        self.writer.get_ref().file.sync_all().map_err(failed("sync", &path))?;
        std::fs::rename(&replaces.temporary, &path).map_err(failed("rename to", &path))?;
        replaces.done = true;
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let folder = folder.unwrap_or(Path::new("."));
        let sync = File::open(folder).and_then(|folder| folder.sync_all());
        sync.map_err(failed("sync", folder))
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
        let problem = "its name is none, or is not UTF-8".to_owned();
        return Err(Failure::NotUsable { path: path.to_owned(), problem });
    };
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    Ok(write_whole(&FileBackend::open(folder.unwrap_or(Path::new(".")))?, name, bytes)?)
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
