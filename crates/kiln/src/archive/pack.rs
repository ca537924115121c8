//! A folder as the input of an encode.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rustix::fs::OFlags;
use tar::{Builder, EntryType, Header};

use super::TIME;

/// Most notes on entries.
const MAX_NOTES: usize = 1000;
/// The end of the note on a file that was changed while it was read.
pub const CHANGED: &str = "changed while it was read; encode it again, with --force";

/// Stack of the thread that packs: enough for folders as deep as paths can be.
const STACK: usize = 64 << 20;

/// A folder, or a file, that is read as a tar archive, packed by a thread of its own.
pub struct Packed {
    bytes: PipeReader,
    worker: Option<JoinHandle<io::Result<()>>>,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Packed {
    /// Begins to pack what is at `path`; in the archive it has the name `root`.
    pub fn new(path: &Path, root: &Path) -> io::Result<Packed> {
        let (bytes, pipe) = io::pipe()?;
        let notes = Arc::new(Mutex::new(Vec::new()));
        let mut packing = Packing {
            tar: Builder::new(io::BufWriter::with_capacity(1 << 20, pipe)),
            links: HashMap::new(),
            notes: notes.clone(),
        };
        let (path, root) = (path.to_owned(), root.to_owned());
        let worker = std::thread::Builder::new().stack_size(STACK).spawn(move || {
            packing.add(&path, &root)?;
            packing.tar.into_inner()?.flush()
        })?;
        Ok(Packed { bytes, worker: Some(worker), notes })
    }

    /// Returns the entries that are not in the archive, and why; and those that end [`CHANGED`].
    pub fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Read for Packed {
    /// The end comes only when all was packed; otherwise the reason.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.bytes.read(buf)?;
        if count == 0
            && !buf.is_empty()
            && let Some(worker) = self.worker.take()
        {
            worker.join().map_err(|_| io::Error::other("packing the folder panicked"))??;
        }
        Ok(count)
    }
}

struct Packing {
    tar: Builder<io::BufWriter<PipeWriter>>,
    /// Files with several names: the name under which each is in the archive.
    links: HashMap<(u64, u64), PathBuf>,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Packing {
    fn add(&mut self, path: &Path, name: &Path) -> io::Result<()> {
        let meta = path.symlink_metadata().map_err(|error| at(path, &error))?;
        let kind = meta.file_type();
        if kind.is_dir() {
            self.folder(path, name, &meta)
        } else if kind.is_file() {
            self.file(path, name, &meta)
        } else if kind.is_symlink() {
            let target = fs::read_link(path).map_err(|error| at(path, &error))?;
            self.link(&meta, name, &target)
        } else {
            self.note(path, "skipped (device, socket or pipe)");
            Ok(())
        }
    }

    fn note(&self, path: &Path, what: &str) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() < MAX_NOTES {
            notes.push(format!("{}: {what}", path.display()));
        }
    }

    /// A symbolic link with its very target, of which other ways to add it make a plain path.
    fn link(&mut self, meta: &Metadata, name: &Path, target: &Path) -> io::Result<()> {
        let mut header = self.header(meta, EntryType::Symlink, 0)?;
        match header.set_link_name_literal(target.as_os_str().as_bytes()) {
            Ok(()) => self.tar.append_data(&mut header, name, io::empty()),
            // Too long for a header.
            Err(_) => self.tar.append_link(&mut header, name, target),
        }
    }

    fn folder(&mut self, path: &Path, name: &Path, meta: &Metadata) -> io::Result<()> {
        let mut header = self.header(meta, EntryType::Directory, 0)?;
        self.tar.append_data(&mut header, name, io::empty())?;
        let entries = fs::read_dir(path).map_err(|error| at(path, &error))?;
        let names: io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.file_name())).collect();
        let mut names = names.map_err(|error| at(path, &error))?;
        names.sort();
        names.iter().try_for_each(|inside| self.add(&path.join(inside), &name.join(inside)))
    }

    fn file(&mut self, path: &Path, name: &Path, meta: &Metadata) -> io::Result<()> {
        let identity = (meta.dev(), meta.ino());
        if let Some(first) = self.links.get(&identity).cloned() {
            let mut header = self.header(meta, EntryType::Link, 0)?;
            return self.tar.append_link(&mut header, name, first);
        }
        // No link is followed, and no pipe waited for, that was put in its place meanwhile.
        let flags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();
        let open = File::options().read(true).custom_flags(flags).open(path);
        let open = open.and_then(|file| Ok((file.metadata()?, file)));
        let (meta, file) = &open.map_err(|error| at(path, &error))?;
        let mut header = self.header(meta, EntryType::Regular, meta.len())?;
        let mut bytes = Exactly { file, path, left: meta.len() };
        self.tar.append_data(&mut header, name, &mut bytes)?;
        let state = |meta: &Metadata| (meta.len(), meta.ctime(), meta.ctime_nsec());
        if file.metadata().map_or(true, |now| state(&now) != state(meta)) {
            self.note(path, CHANGED);
        }
        if meta.nlink() > 1 {
            self.links.insert(identity, name.to_owned());
        }
        Ok(())
    }

    /// The header of an entry; a fraction of its time goes before it.
    fn header(&mut self, meta: &Metadata, kind: EntryType, size: u64) -> io::Result<Header> {
        let mut header = Header::new_gnu();
        header.set_metadata(meta);
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mtime(meta.mtime().max(0) as u64);
        if meta.mtime_nsec() != 0 || meta.mtime() < 0 {
            // Before 1970 the fraction counts forward all the same, so the whole is subtracted.
            let nanos = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
            let sign = if nanos < 0 { "-" } else { "" };
            let (whole, part) = (nanos.abs() / 1_000_000_000, nanos.abs() % 1_000_000_000);
            let text = format!("{sign}{whole}.{part:09}");
            self.tar.append_pax_extensions([(TIME, text.as_bytes())])?;
        }
        Ok(header)
    }
}

/// As many bytes of a file as its header in the archive says: fewer or more would shift all that
/// comes after.
struct Exactly<'a> {
    file: &'a File,
    path: &'a Path,
    left: u64,
}

impl Read for Exactly<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buf.len());
        if most == 0 {
            return Ok(0);
        }
        match self.file.read(&mut buf[..most]) {
            Ok(0) => {
                let problem =
                    format!("{}: truncated while it was read; run it again", self.path.display());
                Err(io::Error::other(problem))
            }
            Ok(count) => {
                self.left -= count as u64;
                Ok(count)
            }
            Err(error) => Err(at(self.path, &error)),
        }
    }
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
