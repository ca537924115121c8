//! Folders, and agents' places, as nodes.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use kiln_node::net::Address;
use kiln_pool::Node;
use kiln_store::{Append, Backend, FileBackend, ReadAt, ReadMode, StoreError, WriteLock};

use crate::exit::Failure;
use crate::setup::Setup;

/// A folder that need not exist yet: it is created by the first write, so a command that is
/// refused (or only reads) leaves no empty folders behind. A lost node folder is such a folder.
#[derive(Debug)]
struct LazyFolder {
    path: PathBuf,
    mode: ReadMode,
    opened: OnceLock<FileBackend>,
    created: AtomicBool,
}

impl LazyFolder {
    fn existing(&self) -> Result<Option<&FileBackend>, StoreError> {
        if let Some(backend) = self.opened.get() {
            return Ok(Some(backend));
        }
        // A folder that cannot be looked at is no lost node: say so instead of rebuilding it.
        let there = self.path.try_exists().map_err(|source| self.failed("open", "", source))?;
        if !there {
            return Ok(None);
        }
        let backend = FileBackend::open(&self.path)?.with_reads(self.mode);
        Ok(Some(self.opened.get_or_init(|| backend)))
    }

    fn create(&self) -> Result<&FileBackend, StoreError> {
        if let Some(backend) = self.existing()? {
            return Ok(backend);
        }
        let backend = FileBackend::create(&self.path)?.with_reads(self.mode);
        self.created.store(true, Ordering::Relaxed);
        Ok(self.opened.get_or_init(|| backend))
    }

    fn absent(&self, op: &'static str, name: &str) -> StoreError {
        self.failed(op, name, io::ErrorKind::NotFound.into())
    }

    fn failed(&self, op: &'static str, name: &str, source: io::Error) -> StoreError {
        StoreError::Io { op, place: self.place(), name: name.to_owned(), source }
    }
}

impl Backend for LazyFolder {
    fn place(&self) -> String {
        self.path.display().to_string()
    }

    fn list(&self) -> Result<Vec<String>, StoreError> {
        self.existing()?.map_or(Ok(Vec::new()), |backend| backend.list())
    }

    fn open(&self, name: &str) -> Result<Box<dyn ReadAt>, StoreError> {
        match self.existing()? {
            Some(backend) => backend.open(name),
            None => Err(self.absent("open", name)),
        }
    }

    fn append(&self, name: &str, at: u64) -> Result<Box<dyn Append>, StoreError> {
        self.create()?.append(name, at)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        match self.existing()? {
            Some(backend) => backend.rename(from, to),
            None => Err(self.absent("rename", from)),
        }
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.existing()?.map_or(Ok(()), |backend| backend.remove(name))
    }

    fn lock(&self, wait: bool) -> Result<Option<WriteLock>, StoreError> {
        self.create()?.lock(wait)
    }
}

/// The agent that a path names, if it is meant as an address and not as a folder.
fn address(path: &Path) -> Result<Option<Address>, Failure> {
    match path.to_str().filter(|text| Address::is_meant(text)) {
        Some(text) => Ok(Some(text.parse()?)),
        None => Ok(None),
    }
}

/// The folders of a command, as nodes, in the order given. An address of an agent, `kiln://...`,
/// stands for the folder that the agent serves.
pub struct Folders {
    nodes: Vec<Node>,
    folders: Vec<Arc<LazyFolder>>,
}

impl Folders {
    /// Folders to write to; those that are absent are created when first written to.
    ///
    /// # Errors
    /// A folder given twice, or a path that is a file.
    pub fn to_write(
        setup: &Setup,
        flag: &'static str,
        paths: &[PathBuf],
    ) -> Result<Folders, Failure> {
        check(flag, paths)?;
        Folders::new(setup, paths, ReadMode::Cached)
    }

    fn new(setup: &Setup, paths: &[PathBuf], mode: ReadMode) -> Result<Folders, Failure> {
        let (mut nodes, mut folders) = (Vec::new(), Vec::new());
        for path in paths {
            if let Some(address) = address(path)? {
                let remote = setup.network(&address)?.open(&address);
                nodes.push(Node::new(address.to_string(), Arc::new(remote)));
                continue;
            }
            let (path, opened, created) = (path.clone(), OnceLock::new(), AtomicBool::new(false));
            let folder = Arc::new(LazyFolder { path, mode, opened, created });
            nodes.push(Node::new(folder.place(), folder.clone() as _));
            folders.push(folder);
        }
        Ok(Folders { nodes, folders })
    }

    /// Folders to read from; at least one must exist. The others may be lost nodes.
    ///
    /// # Errors
    /// As [`Folders::to_write`], or nothing there at all.
    pub fn to_read(setup: &Setup, paths: &[PathBuf], mode: ReadMode) -> Result<Folders, Failure> {
        let there = |path: &PathBuf| path.exists() || !matches!(address(path), Ok(None));
        if let Some(first) = paths.first()
            && !paths.iter().any(there)
        {
            let source = io::Error::from(io::ErrorKind::NotFound);
            return Err(Failure::Io { action: "open", path: first.clone(), source });
        }
        check("DIR", paths)?;
        Folders::new(setup, paths, mode)
    }

    /// Reads asked of all folders so far, and their bytes.
    pub fn issued(&self) -> (u64, u64) {
        let opened = self.folders.iter().filter_map(|folder| folder.opened.get());
        opened.map(FileBackend::issued).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    }

    /// The nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Removes what was created and stayed empty.
    pub fn remove_empty(&self) {
        for folder in &self.folders {
            if folder.created.load(Ordering::Relaxed) {
                // remove_dir never removes a folder with something in it; that is the check.
                let _ = std::fs::remove_dir(&folder.path);
            }
        }
    }
}

/// Refuses a folder (or agent) that is given twice, and a path that is a file.
fn check(flag: &'static str, paths: &[PathBuf]) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    for path in paths {
        let same = path.canonicalize().unwrap_or_else(|_| path.clone());
        if !seen.insert(same) {
            let problem = format!("{} is given twice", path.display());
            return Err(Failure::Flag { flag, problem });
        }
        if path.exists() && !path.is_dir() {
            let source = io::Error::from(io::ErrorKind::NotADirectory);
            return Err(Failure::Io { action: "use", path: path.clone(), source });
        }
    }
    Ok(())
}
