//! Places as users write them, opened: for shards, for pools and for agents.

use std::path::{Path, PathBuf};
use std::{collections::BTreeSet, io, sync::Arc};

use kiln_net::{Address, Agents, SERVED};
use kiln_pool::NodeConfig;
use kiln_remote::{hdfs::Folders as HdfsFolders, s3::Buckets};
use kiln_store::{
    Absent, BACKENDS, Backend, BackendKind, Capabilities, Capability, Location, Opening,
    PacedBackend, ReadMode, Result, StagedBackend, open_place,
};
use kiln_stripe::{Node, names};
use rustix::{fs::Access, fs::access, io::Errno};

use crate::setup::{Setup, as_private_as, for_owner_alone, need_resources};
use crate::{exit::Failure, names::MARK};

/// The program's table of all kinds of places.
fn kinds(agents: &dyn BackendKind) -> Vec<&dyn BackendKind> {
    [BACKENDS, &[&Buckets as &dyn BackendKind, &HdfsFolders, agents]].concat()
}

/// The table, for help texts: a line for each kind.
pub fn kinds_of_places() -> String {
    let agents = Agents(|_: &Address| Err(String::new()));
    let line =
        |kind: &&dyn BackendKind| format!("  {}\n      {}\n", kind.examples()[0], kind.about());
    kinds(&agents).iter().map(line).collect()
}

/// Refuses a place that shards cannot be written to, or that does not keep them.
fn require_kept(store: &dyn Backend, what: &str) -> Result<()> {
    Capabilities::require_writable(store, what)?;
    Capabilities::of(&[Capability::Durable]).require(store, what)
}

/// Staging of an agent of a bucket, for what is being written.
pub struct AgentParts<'a> {
    /// A folder of this machine; `None`: the place needs none.
    pub folder: Option<&'a Path>,
    /// The server, for others to read.
    pub who: &'a str,
    /// Identity of a new folder.
    pub id: &'a str,
    /// The former server, with another folder, is gone for good.
    pub take_over: bool,
}

impl Setup {
    /// Opens a place by the table; no more than `--limit-rate` allows is read and written there.
    pub fn open(&self, place: &Path, opening: Opening) -> Result<Arc<dyn Backend>> {
        let network = |address: &Address| self.network(address).cloned();
        let agents = Agents(|address: &Address| network(address).map_err(|why| why.to_string()));
        let store = open_place(&kinds(&agents), place, opening)?;
        Ok(match self.limit_rate() {
            Some(rate) => Arc::new(PacedBackend::new(store, rate)),
            None => store,
        })
    }

    /// Opens a place that keeps what is written to it.
    /// Errors: as [`Setup::open`]; `StoreError::Incapable` for a place that cannot do what `what`
    /// needs.
    pub fn open_to_keep(
        &self,
        place: &Path,
        absent: Absent,
        what: &str,
    ) -> Result<Arc<dyn Backend>> {
        let store = self.open(place, Opening { absent, ..Opening::default() })?;
        require_kept(&*store, what)?;
        Ok(store)
    }

    /// Opens a place to serve it to others, a folder made where it is absent: nothing outside of it
    /// is reached. A place of whole objects needs a folder for what is being written.
    /// Errors: as [`Setup::open_to_keep`]; a place of objects without such a folder, which then is
    /// served by another agent, or a folder that is not this place's.
    pub fn open_to_serve(
        &self,
        place: &Path,
        parts: &AgentParts<'_>,
    ) -> Result<Arc<dyn Backend>, Failure> {
        for_owner_alone();
        let opening = Opening { absent: Absent::Create, confined: true, ..Opening::default() };
        let store = self.open(place, opening)?;
        let objects = Capabilities::OBJECTS.lacking(store.capabilities()).is_none();
        let bad = |flag, problem: &str| Failure::Flag { flag, problem: problem.to_owned() };
        let store = match parts.folder {
            Some(_) if SERVED.lacking(store.capabilities()).is_none() => {
                return Err(bad("--parts", "is for buckets; this place keeps its own parts"));
            }
            Some(folder) => {
                let folder = open_place(BACKENDS, local(folder)?, opening)?;
                let &AgentParts { who, id, take_over, .. } = parts;
                let forgotten = [names::CHANGES];
                Arc::new(StagedBackend::serve(store, folder, who, id, take_over, &forgotten)?)
            }
            None if SERVED.lacking(store.capabilities()).is_some() && objects => {
                let problem = "is needed for a bucket: a folder of this machine for what is being \
                               written";
                return Err(bad("--parts", problem));
            }
            None => store,
        };
        SERVED.require(&*store, "an agent")?;
        Ok(store)
    }

    /// Opens the place of a pool's node.
    pub fn open_node(&self, node: &NodeConfig, absent: Absent) -> Result<Arc<dyn Backend>> {
        for_owner_alone();
        self.open_to_keep(node.url.as_ref(), absent, "a node of a pool")
    }
}

/// The file or folder of this machine that an argument names, by its path or by `file://`.
/// Errors: it is of another machine, or names nothing.
pub fn local(path: &Path) -> Result<&Path, Failure> {
    Ok(Location::of(path).local()?)
}

/// The places of a command, as nodes, in the order given.
pub struct Folders {
    nodes: Vec<Node>,
}

impl Folders {
    /// Places to write to; folders that are absent are made when first written to.
    /// Errors: as [`Setup::open_to_keep`]; a place given twice, or a path that is a file.
    pub fn to_write(
        setup: &Setup,
        flag: &'static str,
        paths: &[PathBuf],
    ) -> Result<Folders, Failure> {
        let folders = Folders::new(setup, flag, paths, ReadMode::Cached)?;
        for node in &folders.nodes {
            require_kept(&*node.store, "a command that writes shards")?;
        }
        Ok(folders)
    }

    /// Places to read from; at least one must be there. The others may be lost nodes.
    /// Errors: as [`Folders::to_write`], or nothing there at all.
    pub fn to_read(setup: &Setup, paths: &[PathBuf], mode: ReadMode) -> Result<Folders, Failure> {
        let folders = Folders::new(setup, "DIR", paths, mode)?;
        let there = |node: &Node| node.store.folder().is_none_or(Path::exists);
        if let Some(first) = paths.first().filter(|_| !folders.nodes.iter().any(there)) {
            if first.to_string_lossy().starts_with(MARK) {
                let problem = "no folder, but an object's name; kiln stat, scrub and get take one";
                return Err(Failure::NotUsable { path: first.clone(), problem: problem.into() });
            }
            let source = io::Error::new(io::ErrorKind::NotFound, "no such folder");
            return Err(Failure::Io { action: "open", path: first.clone(), source });
        }
        for node in &folders.nodes {
            Capabilities::READ.require(&*node.store, "a command that reads shards")?;
        }
        Ok(folders)
    }

    fn new(
        setup: &Setup,
        flag: &'static str,
        paths: &[PathBuf],
        reads: ReadMode,
    ) -> Result<Folders, Failure> {
        need_resources()?;
        let (mut nodes, mut seen) = (Vec::new(), BTreeSet::new());
        for path in paths {
            let absent = Absent::CreateWhenWritten;
            let store = setup.open(path, Opening { absent, reads, ..Opening::default() })?;
            let place = store.place();
            // Two ways to write one folder are one place too.
            let whole = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path));
            let same = store.folder().and_then(|folder| whole(folder).ok());
            if !seen.insert(same.unwrap_or_else(|| place.clone().into())) {
                let problem = format!("{} is given twice", path.display());
                return Err(Failure::Flag { flag, problem });
            }
            nodes.push(Node::new(place, store));
        }
        Ok(Folders { nodes })
    }

    /// Keeps files that are made from now on as private as the shards of an object in folders of
    /// this machine.
    pub fn keep_private(&self, object: Option<&str>) {
        for path in self.shard_files(object) {
            as_private_as(&path);
        }
    }

    /// Paths of an object's shards, or of all, in folders of this machine.
    fn shard_files(&self, object: Option<&str>) -> impl Iterator<Item = PathBuf> {
        let folders = self.nodes.iter().filter_map(|node| node.store.folder());
        let entries = folders.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(move |path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let of = |object: &str| name.strip_prefix(object).is_some_and(|r| r.starts_with('.'));
            name.ends_with(".kiln") && object.is_none_or(of)
        })
    }

    /// Refuses shards in folders of this machine that this user may not read: they are neither
    /// missing nor damaged.
    pub fn refuse_unreadable(&self, object: Option<&str>) -> Result<(), Failure> {
        let folders = self.nodes.iter().filter_map(|node| node.store.folder());
        // None is opened: a pipe of such a name would wait for a writer.
        let mut paths = folders.map(Path::to_owned).chain(self.shard_files(object));
        let denied = |path: &PathBuf| access(path, Access::READ_OK) == Err(Errno::ACCESS);
        let source = Errno::ACCESS.into();
        let path = paths.find(denied);
        path.map_or(Ok(()), |path| Err(Failure::Io { action: "read", path, source }))
    }

    /// Reads asked of all places so far, and their bytes.
    pub fn issued(&self) -> (u64, u64) {
        let each = self.nodes.iter().map(|node| node.store.io_counters());
        each.fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }
}
