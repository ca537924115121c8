//! `Pool`: objects by name, read from and written to buffers.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use kiln_folders::{ATTRIBUTES, Folders, is_attributes};
use kiln_pool::{GetRequest, Helpers, Index, NodeConfig, Policy, PoolConfig, PoolKeys, PutRequest};
use kiln_recovery::HelpingAgents;
use kiln_store::{Absent, FileBackend, Location, write_whole};
use kiln_stripe::{PoolError, Settings, Silent, StreamSource};
use kiln_volume::OBJECTS;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use uuid::Uuid;

use crate::buffers::{Bytes, Work, fresh};
use crate::{failure::Failure, places::Places, report::dictionary};

/// Most bytes of a pool's description, or of a key's file.
const MAX_TEXT: u64 = 1 << 20;

/// An open pool: objects by name. Threads may share it.
#[pyclass(frozen, module = "kiln")]
pub struct Pool {
    pool: kiln_pool::Pool,
    places: Places,
    /// Its description.
    path: PathBuf,
    threads: usize,
}

/// A fresh identity.
fn fresh_run() -> [u8; 16] {
    *Uuid::new_v4().as_bytes()
}

/// The time, in ms since 1970.
fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

fn read_text(path: &Path) -> Result<String, Failure> {
    let failed = |source| Failure::Io { action: "read", path: path.to_owned(), source };
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_TEXT + 1).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

/// Writes a description: durable under its name, or as it was.
fn write_config(path: &Path, config: &PoolConfig) -> Result<(), Failure> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Failure::usage("the name of a pool's file must be UTF-8"))?;
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = FileBackend::open(folder.unwrap_or(Path::new(".")))?;
    Ok(write_whole(&folder, name, config.to_toml()?.as_bytes())?)
}

/// The description at `path`, with its keys: those of `key`, of `KILN_POOL_KEY`, or beside it.
fn read_config(path: &Path, key: Option<PathBuf>) -> Result<PoolConfig, Failure> {
    let text = read_text(path).map_err(|failure| match failure {
        Failure::Io { action, path, source } => {
            Failure::Io { action, path, source: PoolConfig::unread(source) }
        }
        failure => failure,
    })?;
    let mut config = PoolConfig::from_toml(&text)?;
    let named = key.or_else(|| std::env::var_os("KILN_POOL_KEY").map(PathBuf::from));
    let beside = path.with_extension("seal.key");
    match named {
        Some(named) => config.keys = PoolKeys::parse(&read_text(&named)?)?,
        None if !config.sealed.is_empty() && beside.exists() => {
            config.keys = PoolKeys::parse(&read_text(&beside)?)?;
        }
        None => {}
    }
    let named = std::env::var_os("KILN_DATA_KEY").map(PathBuf::from);
    let file = named.unwrap_or_else(|| path.with_extension("data.key"));
    if config.is_encrypted() && file.exists() {
        config.data_keys = PoolKeys::parse(&read_text(&file)?)?;
    }
    Ok(config)
}

/// Opens a pool by its map in force; a description that is older is brought up to date.
fn open_newest(
    path: &Path,
    config: PoolConfig,
    places: &Places,
) -> Result<kiln_pool::Pool, Failure> {
    let open = |node: &NodeConfig| places.open(node, Absent::Refuse);
    let settings = Settings::new(&Silent);
    let pool = kiln_pool::Pool::open(config, &open)?;
    let newest = match pool.check_map() {
        Ok(()) => pool.members().edited(&settings)?,
        Err(PoolError::MapChanged { .. }) => {
            let known = pool.config().clone();
            Some(kiln_pool::Membership::newest(known, false, &open, &settings)?)
        }
        Err(error) => return Err(error.into()),
    };
    match newest {
        None => Ok(pool),
        Some(config) => {
            write_config(path, &config)?;
            Ok(kiln_pool::Pool::open(config, &open)?)
        }
    }
}

/// A place as a node; a path is made absolute.
fn node(place: &str, at: usize) -> Result<NodeConfig, Failure> {
    let url = match Location::of(place.as_ref()).local() {
        Err(_) => place.to_owned(),
        Ok(path) => {
            let failed = |source| Failure::Io { action: "find", path: path.to_owned(), source };
            let absolute = std::path::absolute(path).map_err(failed)?;
            format!("file://{}", absolute.display())
        }
    };
    Ok(NodeConfig::new(&format!("n{at:02}"), &url))
}

impl Pool {
    fn settings(&self) -> Settings<'static> {
        Settings { threads: self.threads, ..Settings::new(&Silent) }
    }

    /// The local index beside the description, brought up to date.
    fn index(&self) -> Result<Index, Failure> {
        // Where nothing can be written, the index lasts as long as the call.
        let index = Index::open(&self.path.with_extension("index.redb"));
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let refreshed =
            index.and_then(|index| index.refresh(&self.pool, &boot, &Silent).map(|_| index));
        match refreshed {
            Err(PoolError::Index { .. }) => {
                let index = Index::in_memory()?;
                index.refresh(&self.pool, &boot, &Silent)?;
                Ok(index)
            }
            index => Ok(index?),
        }
    }

    fn read(&self, name: &str, range: std::ops::Range<u64>, out: &mut [u8]) -> Result<(), Failure> {
        let helpers = self.places.network();
        let helpers =
            helpers.map(|network| HelpingAgents::new(network, self.pool.config(), &fresh_run));
        let helpers = helpers.as_ref().map(|helpers| helpers as &dyn Helpers);
        let mut rest: &mut [u8] = out;
        let req = GetRequest { name, range: Some(range) };
        self.pool.reader().read_with(
            &req,
            helpers,
            &mut rest as &mut dyn Write,
            &self.settings(),
        )?;
        match rest.is_empty() {
            true => Ok(()),
            false => Err(PoolError::Conflict { name: name.to_owned() }.into()),
        }
    }

    fn listed(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
        partial: bool,
    ) -> Result<Vec<kiln_pool::Listed>, Failure> {
        let own = |name: &str| name.starts_with(OBJECTS) || is_attributes(name);
        let asked = prefix.starts_with('.') || prefix.contains(ATTRIBUTES);
        let mut objects = Vec::new();
        self.index()?.each(prefix, after, |listed| {
            if (asked || !own(&listed.name)) && after != Some(&listed.name) {
                objects.push(listed);
            }
            Ok(objects.len() < limit)
        })?;
        if !partial && !self.pool.sees_all()? {
            let away = self.pool.away();
            let away: Vec<&str> = away.iter().map(|(node, _)| &node.id[..]).collect();
            return Err(PoolError::NotRecoverable {
                object: format!("{prefix}*"),
                detail: format!(
                    "nodes are unavailable ({}), and there may be objects which only they know; \
                     partial=True lists the others",
                    away.join(", ")
                ),
            }
            .into());
        }
        Ok(objects)
    }
}

#[pymethods]
impl Pool {
    /// Opens the pool that the file `path` describes (KILN_POOL, or pool.toml, by default). `key`:
    /// the file of the cluster's key, for agents; `pool_key`: that of a sealed pool.
    #[staticmethod]
    #[pyo3(signature = (path=None, *, key=None, pool_key=None, threads=None))]
    fn open(
        py: Python<'_>,
        path: Option<PathBuf>,
        key: Option<PathBuf>,
        pool_key: Option<PathBuf>,
        threads: Option<usize>,
    ) -> Result<Pool, Failure> {
        let path = path.or_else(|| std::env::var_os("KILN_POOL").map(PathBuf::from));
        let path = path.unwrap_or_else(|| "pool.toml".into());
        let threads = threads.unwrap_or(Settings::new(&Silent).threads);
        py.detach(|| {
            let (config, places) = (read_config(&path, pool_key)?, Places::new(key));
            let pool = open_newest(&path, config, &places)?;
            Ok(Pool { pool, places, path, threads })
        })
    }

    /// Makes a pool of these places (folders, which are made, or URLs), describes it in the file
    /// `path`, which must not exist, and opens it. Each place is a failure domain.
    #[staticmethod]
    #[pyo3(signature = (path, nodes, *, code, key=None, threads=None))]
    fn create(
        py: Python<'_>,
        path: PathBuf,
        nodes: Vec<String>,
        code: &str,
        key: Option<PathBuf>,
        threads: Option<usize>,
    ) -> Result<Pool, Failure> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let threads = threads.unwrap_or(Settings::new(&Silent).threads);
        py.detach(|| {
            let mut config = PoolConfig::new(fresh_run(), &name, Policy::for_code(code)?);
            let most = kiln_code::Codec::new(&code.parse()?)?.shape().n();
            if nodes.len() < most.max(config.policy.manifest_copies) {
                let (have, need) = (nodes.len(), most.max(config.policy.manifest_copies));
                return Err(Failure::usage(format!("{code} needs {need} nodes, there are {have}")));
            }
            for (at, place) in nodes.iter().enumerate() {
                config.node.push(node(place, at)?);
            }
            config.check()?;
            if path.exists() {
                let what = format!("{} exists already", path.display());
                return Err(PoolError::Refused { what }.into());
            }
            let places = Places::new(key);
            // Before anything is written to any node: are all of them places that can be nodes?
            for node in &config.node {
                places.open(node, Absent::CreateWhenWritten)?;
            }
            // Without it half-created nodes would belong to no known pool.
            write_config(&path, &config)?;
            let open = |node: &NodeConfig| places.open(node, Absent::Create);
            match kiln_pool::Pool::create(config, &open) {
                Ok(pool) => Ok(Pool { pool, places, path, threads }),
                Err(error) => {
                    // Nodes that were taken stay so; they hold nothing yet.
                    let _ = std::fs::remove_file(&path);
                    Err(error.into())
                }
            }
        })
    }

    /// The pool's name, as its description has it.
    #[getter]
    fn name(&self) -> &str {
        &self.pool.config().name
    }

    /// The ids of its nodes.
    #[getter]
    fn nodes(&self) -> Vec<String> {
        self.pool.config().node.iter().map(|node| node.id.clone()).collect()
    }

    /// Nodes that cannot be used, and why. Asks those that were not yet asked.
    fn away<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let away = PyDict::new(py);
        for (node, why) in py.detach(|| self.pool.away()) {
            away.set_item(&node.id, why)?;
        }
        Ok(away)
    }

    /// Puts the bytes of `data` as the object `name`; readers see the old object, or none, until
    /// the new one is complete and on disk.
    #[pyo3(signature = (name, data, *, replace=false))]
    fn put<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        data: &Bound<'py, PyAny>,
        replace: bool,
    ) -> Result<Bound<'py, PyDict>, Failure> {
        let bytes = Bytes::new(data, "data")?;
        let report = py.detach(|| -> Result<_, Failure> {
            let req = PutRequest { name, run: fresh_run(), now_ms: now_ms(), replace };
            let folders = Folders(&self.pool);
            let way = folders.look(name)?;
            folders.make_way(&req, &way, &|| self.index().ok())?;
            // SAFETY: callers promise not to write to the buffers of a call meanwhile.
            let given = unsafe { bytes.slice() };
            let mut source = StreamSource::new(given).with_size(given.len() as u64);
            Ok(folders.put(&req, &way, &mut source, &self.settings())?)
        })?;
        dictionary(py, &report)
    }

    /// The bytes of an object, or `length` of them from `start` on; what lies beyond its end is
    /// left out. New, or in the buffer `out`, which must be as long. What is lost is rebuilt on
    /// the way, every byte is checked.
    #[pyo3(signature = (name, start=0, length=None, *, out=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        start: u64,
        length: Option<u64>,
        out: Option<Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>, Failure> {
        let size = py.detach(|| self.pool.manifest(name))?.size;
        let first = start.min(size);
        let last = length.map_or(size, |length| start.saturating_add(length).min(size)).max(first);
        let len = usize::try_from(last - first);
        let len = len.map_err(|_| Failure::usage(format!("{name}: {size} bytes are too many")))?;
        let object = match out {
            Some(out) => out,
            None => fresh(py, len)?,
        };
        let bytes = [Bytes::to_write(&object, "out")?];
        if bytes[0].len() != len {
            let got = bytes[0].len();
            return Err(Failure::usage(format!("out: expected {len} bytes, got {got}")));
        }
        // SAFETY: callers promise not to touch the buffers of a call from other threads.
        let mut work = unsafe { Work::new(&[], &bytes) }?;
        py.detach(|| self.read(name, first..last, work.outputs[0]))?;
        drop(work);
        Ok(object)
    }

    /// Returns the record of an object, and the state of its shards, as `kiln stat --json` has
    /// it.
    fn stat<'py>(&self, py: Python<'py>, name: &str) -> Result<Bound<'py, PyDict>, Failure> {
        dictionary(py, &py.detach(|| self.pool.stat(name))?)
    }

    /// Objects in order of name: those whose names begin with `prefix`, after the name `after`, at
    /// most `limit`. What `kiln ls` leaves out is left out. `partial`: also where nodes are
    /// unavailable that may know of more.
    #[pyo3(signature = (prefix="", *, after=None, limit=None, partial=false))]
    fn list<'py>(
        &self,
        py: Python<'py>,
        prefix: &str,
        after: Option<&str>,
        limit: Option<usize>,
        partial: bool,
    ) -> Result<Vec<Bound<'py, PyDict>>, Failure> {
        let limit = limit.unwrap_or(usize::MAX);
        if limit == 0 {
            return Ok(Vec::new());
        }
        let objects = py.detach(|| self.listed(prefix, after, limit, partial))?;
        objects.iter().map(|object| dictionary(py, object)).collect()
    }

    /// Removes an object.
    fn remove(&self, py: Python<'_>, name: &str) -> Result<(), Failure> {
        Ok(py.detach(|| self.pool.remove(name, fresh_run(), now_ms(), &self.settings()))?)
    }

    fn __repr__(&self) -> String {
        format!("Pool({:?})", self.path.display().to_string())
    }
}
