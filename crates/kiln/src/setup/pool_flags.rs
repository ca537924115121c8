//! The pool that a command works on.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{collections::BTreeSet, io::Read, os::unix::ffi::OsStrExt};

use clap::Args;
use kiln_pool::{Index, Membership, NodeConfig, Pool, PoolConfig};
use kiln_store::{Absent, Location};
use kiln_stripe::{Observer, PoolError};
use uuid::Uuid;

use crate::exit::{Exit, Failure, Result, of_store};
use crate::setup::{Setup, for_owner_alone, need_resources, variable, write_file};
use crate::{names, times};

/// Most bytes of a pool's description.
const MAX_DESCRIPTION: u64 = 1 << 20;

// Which pool. No doc comment: clap would take it for the summary.
#[derive(Clone, Debug, Args)]
pub struct PoolFlags {
    /// The pool's description [default: $KILN_POOL, else pool.toml]
    #[arg(short, long, value_name = "FILE")]
    pub pool: Option<PathBuf>,
    /// The key of a sealed pool [default: $KILN_POOL_KEY, else beside the description, as its name
    /// with .seal.key]
    #[arg(long, value_name = "FILE")]
    pub pool_key: Option<PathBuf>,
    /// The data key of an encrypted pool [default: $KILN_DATA_KEY, else beside the description, as
    /// its name with .data.key]
    #[arg(long, value_name = "FILE")]
    pub data_key: Option<PathBuf>,
}

/// Seconds that a command waits for the local index without a word.
const INDEX_SECONDS: f64 = 1.0;

impl PoolFlags {
    /// The file that describes the pool.
    pub fn path(&self) -> PathBuf {
        let named = self.pool.clone().or_else(|| variable("KILN_POOL"));
        named.unwrap_or_else(|| names::POOL.into())
    }

    /// Real paths that belong to the pool itself: folders of its nodes, its index and its locks.
    pub fn own_paths(&self, pool: &Pool) -> BTreeSet<PathBuf> {
        let nodes = pool.config().node.iter().filter_map(|node| {
            let place = Location::of(node.url.as_ref()).local().ok()?.canonicalize();
            place.ok()
        });
        let path = self.path();
        let path = path.canonicalize().unwrap_or(path);
        let index = names::index(&path);
        let beside_index = ["lock", "sums"].map(|ending| {
            let mut name = index.clone().into_os_string();
            name.push(format!(".{ending}"));
            PathBuf::from(name)
        });
        let locks = ["repair", "config", "write"].map(|what| names::lock(&path, what));
        let own = [
            names::limits(&path),
            names::scrub(&path),
            names::pool_key(&path),
            names::data_key(&path),
            names::bucket_index(&path),
            index,
            path,
        ];
        nodes.chain(beside_index).chain(locks).chain(own).collect()
    }

    /// The file that limits the traffic of repairs.
    pub fn limits_path(&self) -> PathBuf {
        names::limits(&self.path())
    }

    /// Reads the description.
    /// Errors: no such file, or no pool in it.
    pub fn config(&self) -> Result<PoolConfig> {
        // Also of a pool that has no seals by its description: it may have been sealed since.
        let (keys, data_keys) = (self.seal_key().keys()?, self.data_key().keys()?);
        Ok(PoolConfig { keys, data_keys, ..self.config_without_keys()? })
    }

    /// As [`PoolFlags::config`], with no key.
    pub fn config_without_keys(&self) -> Result<PoolConfig> {
        for_owner_alone();
        need_resources()?;
        let text = read_text(&self.path(), MAX_DESCRIPTION).map_err(no_pool)?;
        Ok(PoolConfig { repairer: repairer(&self.path()), ..PoolConfig::from_toml(&text)? })
    }

    /// Opens the pool by the map in force, and says which nodes are unavailable. The file is
    /// brought up to date where the pool has changed since.
    /// Errors: as [`PoolFlags::config`], or no node can be used.
    pub fn open(&self, setup: &Setup) -> Result<Pool> {
        let pool = self.open_quietly(setup)?;
        warn_of_nodes(&pool.away(), setup);
        Ok(pool)
    }

    /// Opens the pool for work on few objects: no node is asked but those that `work` uses, so that
    /// what it costs does not grow with the pool. The description may be of an old map. The nodes
    /// of an object know that, and where they say so, or cannot tell, `work` is done once more
    /// with the pool as [`PoolFlags::open`] opens it. What it did before the error stays done.
    /// Errors: as [`PoolFlags::open`]; those of `work`.
    pub fn open_for<T>(
        &self,
        setup: &Setup,
        mut work: impl FnMut(&Pool) -> Result<T, PoolError>,
    ) -> Result<(Pool, T), Failure> {
        let open = |node: &NodeConfig| setup.open_node(node, Absent::Refuse);
        let _ = setup.silent.set(names::silent(&self.path()));
        let pool = Pool::open(self.config()?, &open).map(|pool| setup.hedged(pool));
        match pool.and_then(|pool| work(&pool).map(|done| (pool, done))) {
            Ok((pool, done)) => {
                warn_of_nodes(&pool.found_away(), setup);
                Ok((pool, done))
            }
            Err(
                PoolError::MapChanged { .. }
                | PoolError::NoObject { .. }
                | PoolError::Uncertain { .. }
                | PoolError::NoNodes { .. }
                | PoolError::Unavailable { .. },
            ) => {
                let pool = self.open(setup)?;
                let done = work(&pool)?;
                Ok((pool, done))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// As [`PoolFlags::open_for`], for work that changes objects. What there is of them `see` looks
    /// at before, and one of the nodes that were asked for it is asked for its map: where a person
    /// has edited the description, nothing is written by it before the nodes have agreed.
    /// Errors: as [`PoolFlags::open_for`]; [`PoolError::Refused`] for what cannot be edited.
    pub fn open_to_change<S, T>(
        &self,
        setup: &Setup,
        see: impl Fn(&Pool) -> Result<S, PoolError>,
        mut work: impl FnMut(&Pool, S) -> Result<T, PoolError>,
    ) -> Result<(Pool, T), Failure> {
        let (pool, done) = self.open_for(setup, |pool| {
            let seen = see(pool)?;
            match pool.members().edited(&setup.settings())? {
                Some(agreed) => Ok(Err(agreed)),
                None => work(pool, seen).map(Ok),
            }
        })?;
        match done {
            Ok(done) => Ok((pool, done)),
            Err(agreed) => {
                let pool = self.reopen(agreed, setup)?;
                let done = work(&pool, see(&pool)?)?;
                Ok((pool, done))
            }
        }
    }

    /// As [`PoolFlags::open`], without a word about nodes.
    pub fn open_quietly(&self, setup: &Setup) -> Result<Pool> {
        self.open_at_newest(false, setup)
    }

    /// As [`PoolFlags::open_quietly`]; by `force` even by a map that too few nodes can be given.
    pub fn open_at_newest(&self, force: bool, setup: &Setup) -> Result<Pool> {
        let open = |node: &NodeConfig| setup.open_node(node, Absent::Refuse);
        let _ = setup.silent.set(names::silent(&self.path()));
        let config = self.config()?;
        let pool = match Pool::open(config.clone(), &open) {
            Err(error @ PoolError::NoNodes { .. }) => return Err(denied(error, &config, setup)),
            pool => setup.hedged(pool?),
        };
        if let Err(error) = pool.any_here() {
            // A wrong key is no loss, and is reported before any loss.
            let failure = denied(error, &config, setup);
            if let Failure::Denied { exit: Exit::WrongKey | Exit::NotPermitted, .. } = &failure {
                return Err(failure);
            }
        }
        match pool.check_map() {
            Ok(()) => match pool.members().edited(&setup.settings())? {
                None => Ok(pool),
                Some(config) => self.reopen(config, setup),
            },
            Err(PoolError::MapChanged { .. }) => {
                let known = pool.config().clone();
                let config = Membership::newest(known, force, &open, &setup.settings())?;
                if let Err(error) = self.write(&config) {
                    setup.observer.warn(&format!("{error}; the file is unchanged"));
                }
                Ok(setup.hedged(Pool::open(config, &open)?))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The pool by a map that was just agreed, which is written down.
    /// Errors: the file cannot be written; as [`PoolFlags::open`].
    pub fn reopen(&self, config: PoolConfig, setup: &Setup) -> Result<Pool> {
        self.write(&config)?;
        let pool = Pool::open(config, &|node| setup.open_node(node, Absent::Refuse))?;
        Ok(setup.hedged(pool))
    }

    /// The local index beside the description, brought up to date, for those who write down what
    /// they find. While another command has it, they wait, and say so.
    /// Errors: a node that fails while it is read.
    pub fn index(&self, pool: &Pool, setup: &Setup) -> Result<Index> {
        let path = names::index(&self.path());
        let index = free_index(&path, setup).and_then(|index| match index {
            Some(index) => Ok(index),
            None => {
                let who = "another kiln on this machine works on this pool";
                setup.observer.warn(&format!("{who}; waiting"));
                Index::open(&path)
            }
        });
        self.up_to_date(index, pool, setup)
    }

    /// As [`PoolFlags::index`], for those who only want to know what is there. While another
    /// command has the index, which may be for hours, they make one that they forget.
    pub fn index_to_list(&self, pool: &Pool, setup: &Setup) -> Result<Index> {
        let path = names::index(&self.path());
        let index = free_index(&path, setup).and_then(|index| match index {
            Some(index) => Ok(index),
            None => Index::in_memory(),
        });
        self.up_to_date(index, pool, setup)
    }

    /// This index brought up to date.
    pub fn up_to_date(
        &self,
        index: Result<Index, PoolError>,
        pool: &Pool,
        setup: &Setup,
    ) -> Result<Index> {
        let index = index.or_else(|error| {
            // Where nothing can be written, the index lasts as long as the command.
            setup.observer.warn(&format!("{error}; listing takes longer"));
            Index::in_memory()
        })?;
        if let Some(why) = index.remade() {
            // Nothing else is lost: the pool knows all the rest.
            setup
                .observer
                .warn(&format!("{why}; rebuilt without the findings of scrubs; run kiln scrub"));
        }
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        match index.refresh(pool, &boot, &setup.observer) {
            Err(error @ PoolError::Index { .. }) => {
                setup.observer.warn(&format!("{error}; listing takes longer"));
                let index = Index::in_memory()?;
                index.refresh(pool, &boot, &setup.observer)?;
                Ok(index)
            }
            refreshed => refreshed.map(|_| index).map_err(Failure::from),
        }
    }

    /// Opens the pool; returns with it the name that reads the version in force at a time.
    /// Errors: [`PoolError::NoObject`]; as [`PoolFlags::index`].
    pub fn object_at(&self, name: &str, at: &At, setup: &Setup) -> Result<(Pool, String), Failure> {
        let pool = self.open(setup)?;
        let at = at.of(pool.config(), name)?;
        let versions = self.index_to_list(&pool, setup)?.versions_of(name)?;
        match versions.into_iter().find(|one| one.was_at(at)) {
            Some(then) => Ok((pool, then.object)),
            None => Err(PoolError::NoObject { name: format!("{name} at that time") }.into()),
        }
    }

    /// Keeps other changes of the description, or other repairs, out until it is dropped.
    /// Errors: the lock's file cannot be made; [`PoolError::Refused`] when another kiln holds it.
    pub fn lock(&self, what: &'static str) -> Result<File> {
        let path = names::lock(&self.path(), what);
        let failed = |source| Failure::Io { action: "lock", path: path.clone(), source };
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(std::fs::TryLockError::WouldBlock) => {
                let what = format!("another kiln works on this pool ({what}); wait for its end");
                Err(PoolError::Refused { what }.into())
            }
            Err(std::fs::TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Writes down the map in force: durable under the description's name, or as it was. A later
    /// map of the pool that another command wrote meanwhile stays.
    pub fn write(&self, config: &PoolConfig) -> Result<()> {
        // A folder that takes no lock takes no description either.
        let lock = File::create(names::lock(&self.path(), "write"));
        let _lock = lock.and_then(|file| file.lock().map(|()| file));
        let newer = |there: PoolConfig| there.id == config.id && there.revision > config.revision;
        if self.config_without_keys().is_ok_and(newer) {
            return Ok(());
        }
        self.replace(config)
    }

    /// Writes a description over whatever has its name.
    pub fn replace(&self, config: &PoolConfig) -> Result<()> {
        write_file(&self.path(), config.to_toml()?.as_bytes())
    }
}

/// Says which nodes are unavailable.
fn warn_of_nodes(away: &[(&NodeConfig, &str)], setup: &Setup) {
    for (node, why) in away.iter().filter(|_| !setup.quiet) {
        setup.observer.warn(&format!("node {} is unavailable: {why}", node.id));
    }
}

/// Identity of repairs by the description at this path: of two on one machine, or of two machines,
/// each has another number, and has it again later. (Those who use one description take turns by
/// its lock.)
fn repairer(path: &Path) -> u64 {
    let of = |path: &str| std::fs::read(path).unwrap_or_default();
    let host = [of("/etc/machine-id"), of("/proc/sys/kernel/hostname")].concat();
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let path = kiln_store::checksum(path.as_os_str().as_bytes());
    u64::from(kiln_store::checksum(&host)) << 32 | u64::from(path)
}

/// A pool of which no node can be used: where the first says that we may not, that is why.
fn denied(error: PoolError, config: &PoolConfig, setup: &Setup) -> Failure {
    let look = |node: &NodeConfig| setup.open_node(node, Absent::Refuse)?.list();
    match config.node.first().map(look) {
        Some(Err(why)) => Failure::Denied { error, exit: of_store(&why) },
        _ => error.into(),
    }
}

/// The index, unless another kiln locks it for longer than commands that only read.
fn free_index(path: &Path, setup: &Setup) -> Result<Option<Index>, PoolError> {
    let until = setup.seconds() + INDEX_SECONDS;
    loop {
        match Index::try_open(path)? {
            None if setup.seconds() < until => std::thread::sleep(Duration::from_millis(50)),
            index => return Ok(index),
        }
    }
}

/// Says what to do where there is no description.
fn no_pool(failure: Failure) -> Failure {
    match failure {
        Failure::Io { action, path, source } => {
            Failure::Io { action, path, source: PoolConfig::unread(source) }
        }
        failure => failure,
    }
}

/// A fresh identity for data.
pub fn fresh_run() -> [u8; 16] {
    *Uuid::new_v4().as_bytes()
}

/// The time, in ms since 1970; by `KILN_CLOCK` seconds another one, which tests of it set.
pub fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let wrong = std::env::var("KILN_CLOCK").ok().and_then(|seconds| seconds.parse::<i64>().ok());
    // A clock before 1970 is no reason to refuse; times only tell how old something is.
    let now = now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
    now.saturating_add_signed(wrong.unwrap_or(0).saturating_mul(1000))
}

/// A time that a command looks at: a moment in ms since 1970, or that of a snapshot.
#[derive(Clone, Debug)]
pub enum At {
    Ms(u64),
    Snapshot(String),
}

impl At {
    /// Returns the time, and the prefix of the objects that were kept of it among those with a
    /// prefix.
    ///
    /// # Errors
    /// The pool has no such snapshot of these objects.
    pub fn among<'a>(
        &self,
        config: &'a PoolConfig,
        prefix: &'a str,
    ) -> Result<(u64, &'a str), Failure> {
        let name = match self {
            At::Ms(ms) => return Ok((*ms, prefix)),
            At::Snapshot(name) => name,
        };
        let what = match config.snapshot.iter().find(|one| one.name == *name) {
            Some(one) if one.fits(prefix) || one.fits(&format!("{prefix}/")) => {
                return Ok((one.at_ms, prefix));
            }
            Some(one) if one.prefix.starts_with(prefix) => return Ok((one.at_ms, &one.prefix)),
            Some(one) => format!("it is of {:?}, not of {prefix:?}", one.prefix),
            None => "there is none of that name; kiln pool snapshot lists them".to_owned(),
        };
        Err(PoolError::Usage { what: format!("snapshot {name:?}: {what}") }.into())
    }

    /// Returns the time, in ms since 1970, for all objects whose names begin with this.
    ///
    /// # Errors
    /// As [`At::among`], also where only some of them were kept.
    pub fn of(&self, config: &PoolConfig, prefix: &str) -> Result<u64, Failure> {
        match self.among(config, prefix)? {
            (ms, of) if of == prefix => Ok(ms),
            (_, of) => {
                let what = format!("snapshot: it is of {of:?} alone; name that");
                Err(PoolError::Usage { what }.into())
            }
        }
    }
}

/// A moment in the past, in the form that clap takes (see [`times::parse_moment`]), or the name of
/// a snapshot.
pub fn moment(text: &str) -> Result<At, String> {
    match text.starts_with(|first: char| first.is_ascii_alphabetic()) {
        true => Ok(At::Snapshot(text.to_owned())),
        false => times::parse_moment(text, now_ms()).map(At::Ms),
    }
}

/// Reads a text file of at most `limit` bytes; what is longer is cut, and then refused as what it
/// should be.
pub(super) fn read_text(path: &Path, limit: u64) -> Result<String> {
    let failed = |source| Failure::Io { action: "read", path: path.to_owned(), source };
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    file.take(limit + 1).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}
