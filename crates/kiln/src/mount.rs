//! A pool as a file system: the server behind `kiln mount`.
//!
//! Names come from an index that is brought up to date once a second; bytes are read by the version
//! that was opened. A file that is written is gathered in a private file and put whole.

mod refusal;
pub mod tree;
mod metadata;
mod files;
mod changes;
pub mod fuse;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, atomic::AtomicU64};
use std::time::{Duration, Instant};
use std::{ffi::OsString, path::PathBuf};

use fuser::{Errno, FileType};
use kiln_gate::may_pass;
use kiln_pool::{Index, Pool, layout::MAX_NAME};
use kiln_stripe::{PoolError, Settings, Silent};
use parking_lot::{Mutex, RwLock};

use self::refusal::{Refusal, Result, refuse};
use self::tree::{Found, Identity, Inodes, Names, children, find, is_shown};
use self::{files::OpenFile, metadata::Metadata};
use crate::setup::{PoolFlags, Setup, volumes::of_pool};
use crate::transfer::attributes::{About, Entry};
use crate::transfer::local_tree::{joined, split};
use crate::transfer::pool_tree::{Listing, PoolTree};

/// Changes of other clients are seen after so long; the kernel asks again as often.
pub const FRESH: Duration = Duration::from_secs(1);
/// Bytes of stripes of one read or put; a few are under way at a time.
const MEMORY: u64 = 24 << 20;
/// Modes of files and folders of which none is recorded.
const MODES: (u32, u32) = (0o644, 0o755);

/// A mounted pool.
pub struct Mount {
    pub setup: Setup,
    pub flags: PoolFlags,
    pub pool: RwLock<Arc<Pool>>,
    pub names: Source,
    pub inodes: Mutex<Inodes>,
    /// User and group of what has none recorded.
    pub owner: (u32, u32),
    /// Folder for files that are being written.
    pub parts: PathBuf,
    pub metadata: Metadata,
    pub files: Mutex<HashMap<u64, OpenFile>>,
    /// Objects that were opened and are others than their index says, as after a put that was
    /// never finished: for so long they are what is shown, or they could not be opened.
    pub corrected: Mutex<HashMap<String, (Instant, Listing)>>,
    /// Folders that are being read, by handles, which are counted.
    pub lists: Mutex<HashMap<u64, Arc<Listed>>>,
    pub handles: AtomicU64,
}

/// Numbers, kinds and names of what is in a folder.
type Listed = Vec<(u64, FileType, OsString)>;

/// Names of objects, and their data.
pub enum Source {
    /// As they are; looked at last at some time.
    Now { index: Index, boot: Vec<u8>, looked: Mutex<Option<Instant>> },
    /// As they were.
    Then(PoolTree),
}

impl Names for Index {
    fn each_from(
        &self,
        start: &str,
        see: &mut dyn FnMut(&str, Listing) -> bool,
    ) -> Result<(), PoolError> {
        self.each("", Some(start), |one| {
            Ok(see(&one.name, Listing::new(one.size, one.version, one.created_ms)))
        })
    }
}

/// Kind of an entry.
#[derive(Clone, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
    Link(String),
}

/// A file, folder or link, as it is shown.
#[derive(Clone)]
pub struct Node {
    pub kind: Kind,
    pub object: Listing,
    pub about: About,
}

impl Node {
    /// Returns the identity that others of its name do not have.
    pub fn identity(&self) -> Identity {
        match self.kind {
            Kind::File => (0, self.object.bytes, self.object.put),
            Kind::Folder => (1, 0, 0),
            Kind::Link(_) => (2, 0, 0),
        }
    }

    /// Returns its record.
    pub fn entry(&self) -> Entry {
        let about = self.about.clone();
        match &self.kind {
            Kind::File => Entry::File { about, object: 0, put: None, link: None }
                .at_version(self.object.version, self.object.put),
            Kind::Folder => Entry::Folder { about },
            Kind::Link(target) => Entry::Link { target: target.clone(), owner: about.owner },
        }
    }
}

impl Mount {
    /// Returns the pool as it is open now.
    pub fn pool(&self) -> Arc<Pool> {
        self.pool.read().clone()
    }

    /// Opens the pool again, as where nodes may be back.
    pub fn open_again(&self) -> Result<(), PoolError> {
        let pool = self.flags.open_quietly(&self.setup).map_err(of_pool)?;
        *self.pool.write() = Arc::new(pool);
        Ok(())
    }

    /// Does something with the pool, once more with the pool opened again where that may help.
    pub fn with<T>(&self, act: impl Fn(&Pool) -> Result<T, PoolError>) -> Result<T, PoolError> {
        let pool = self.pool();
        let lost = |error: &PoolError| {
            matches!(error, PoolError::StripeLost { .. } | PoolError::NotRecoverable { .. })
        };
        match act(&pool) {
            Err(error) if may_pass(&error) || lost(&error) && !pool.found_away().is_empty() => {
                self.open_again()?;
                act(&self.pool())
            }
            end => end,
        }
    }

    /// Returns the resources of one request.
    pub fn settings(&self) -> Settings<'_> {
        let settings = self.setup.settings();
        let threads = settings.threads.min(2);
        Settings { threads, memory: MEMORY, drop_behind: false, ..settings }
    }

    /// Returns the names of objects, not older than a second.
    pub fn fresh(&self) -> Result<&dyn Names, PoolError> {
        let (index, boot, looked) = match &self.names {
            Source::Now { index, boot, looked } => (index, boot, looked),
            Source::Then(tree) => return Ok(&tree.objects),
        };
        let mut looked = looked.lock();
        if looked.is_none_or(|at| at.elapsed() >= FRESH) {
            self.with(|pool| index.refresh(pool, boot, &Silent).map(drop))?;
            *looked = Some(Instant::now());
        }
        Ok(index)
    }

    /// Has the next look see a change of this mount.
    pub fn changed(&self) {
        self.corrected.lock().clear();
        if let Source::Now { looked, .. } = &self.names {
            *looked.lock() = None;
        }
    }

    /// Returns the name of a number.
    pub fn name(&self, number: u64) -> Result<String> {
        let inodes = self.inodes.lock();
        inodes.name(number).map(str::to_owned).ok_or(Refusal(Errno::ESTALE))
    }

    /// Returns the name of something in a folder.
    pub fn join(&self, parent: u64, word: &str) -> Result<String> {
        let name = joined(&self.name(parent)?, word);
        match word.len() <= 255 && name.len() <= MAX_NAME {
            true => Ok(name),
            false => refuse(Errno::ENAMETOOLONG),
        }
    }

    /// Finds a name, files that are being written too.
    pub fn look(&self, name: &str) -> Result<Node> {
        self.look_for(name)?.ok_or(Refusal(Errno::ENOENT))
    }

    /// As [`Mount::look`]; `None`: there is nothing of this name.
    /// Errors: too few nodes are there to know.
    pub fn look_for(&self, name: &str) -> Result<Option<Node>> {
        let number = self.inodes.lock().number(name);
        if let Some(draft) = number.and_then(|number| self.drafted(number)) {
            return Ok(Some(draft.node()?));
        }
        let (folder, word) = split(name);
        let opened =
            self.corrected.lock().get(name).cloned().filter(|(at, _)| at.elapsed() < FRESH);
        let found = match name.is_empty() {
            true => Some(Found::Folder),
            false if !is_shown(folder, word) => return Ok(None),
            false => match opened {
                Some((_, object)) => Some(Found::File(object)),
                None => find(self.fresh()?, name)?,
            },
        };
        let node = self.node(found, self.entry(name)?);
        if node.is_none() {
            self.need_all()?;
        }
        Ok(node)
    }

    /// Lists a folder: all that look finds in it.
    pub fn list(&self, folder: &str) -> Result<BTreeMap<String, Node>> {
        let mut found = children(self.fresh()?, folder)?;
        self.need_all()?;
        let mut nodes = BTreeMap::new();
        for (word, entry) in self.entries_in(folder)? {
            let node = self.node(found.remove(&word), Some(entry));
            nodes.extend(node.filter(|_| is_shown(folder, &word)).map(|node| (word, node)));
        }
        for (word, found) in found {
            nodes.extend(self.node(Some(found), None).map(|node| (word, node)));
        }
        for (_, draft) in self.drafts_at(folder) {
            let name = draft.state.lock().name.clone().unwrap_or_default();
            if split(&name).0 == folder {
                nodes.insert(split(&name).1.to_owned(), draft.node()?);
            }
        }
        Ok(nodes)
    }

    /// Refuses to take a part of the pool for the whole.
    fn need_all(&self) -> Result {
        match self.with(|pool| pool.sees_all())? {
            true => Ok(()),
            false => refuse(Errno::EIO),
        }
    }

    /// Joins what names of objects say with the record; an object takes precedence.
    fn node(&self, found: Option<Found>, entry: Option<Entry>) -> Option<Node> {
        let (kind, object) = match (found, &entry) {
            (Some(Found::File(object)), _) => (Kind::File, object),
            (Some(Found::Folder), _) | (None, Some(Entry::Folder { .. })) => {
                (Kind::Folder, Listing::default())
            }
            (None, Some(Entry::Link { target, .. })) => {
                (Kind::Link(target.clone()), Listing::default())
            }
            (None, _) => return None,
        };
        let time = ((object.put / 1000) as i64, (object.put % 1000) as u32 * 1_000_000);
        let mode = if kind == Kind::File { MODES.0 } else { MODES.1 };
        let unknown = About { mode, time, owner: Some(self.owner), ..About::default() };
        let about = match (&kind, entry) {
            (Kind::File, Some(Entry::File { about, object: version, put, .. }))
                if version == object.version || put == Some(object.put) =>
            {
                about
            }
            (Kind::Folder, Some(Entry::Folder { about })) => about,
            (Kind::Link(_), Some(Entry::Link { owner, .. })) => {
                About { mode: 0o777, owner, ..unknown }
            }
            _ => unknown,
        };
        Some(Node { kind, object, about })
    }
}
