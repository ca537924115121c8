//! From what the user typed to ready parts: commands never see a raw flag.

pub mod device;
mod sparse_output;
mod input;
mod order;
pub mod price;
mod permissions;
pub mod kept;
mod nodes;
mod output_tree;
mod output;
mod limits;
mod output_batch;
mod plans;
mod pool_flags;
mod pool_key;
mod confirm;
mod raw;
mod reads;
pub mod volumes;
pub mod buckets;
pub mod logs;

use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use kiln_code::{CodeSpec, Codec};
use kiln_net::agent::{PeerRole, Rights};
use kiln_net::{Address, ClusterKey, Network};
use kiln_pool::Pool;
use kiln_stripe::{Hedge, HedgeCounts, Settings};
use minijinja::{Value, context};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

pub use confirm::Confirm;
pub use input::input;
pub use limits::LimitFile;
pub use nodes::{AgentParts, Folders, kinds_of_places, local};
pub use output::{Output, OutputTarget, write_file};
pub use output_batch::OutputBatch;
pub use output_tree::{OutputTree, is_plain};
pub use permissions::{as_private_as, for_owner_alone};
pub use plans::PlanFile;
pub use pool_flags::{At, PoolFlags, fresh_run, moment, now_ms};
pub use pool_key::KeyFile;
pub use price::Prices;
pub use raw::{Format, RawFlags, RawSetup};
pub use reads::{ReadFlags, direct};

use crate::exit::{Exit, Failure, Result};
use crate::print::{Stream, data_goes_to_stdout};
use crate::{args::Common, observer::Terminal, texts};

/// More threads than this only cost memory.
const MAX_THREADS: usize = 1024;

/// Buffers of one operation in bytes; with the rest of the program it stays well below 512 MiB.
const MEMORY: u64 = 192 << 20;

/// More open files than this no command has.
const MAX_OPEN_FILES: u64 = 65_536;

/// Threads that move bytes to and from agents.
const NETWORK_THREADS: usize = 2;

/// Ready parts for every command.
pub struct Setup {
    /// Reports are JSON.
    pub json: bool,
    /// No summary.
    pub quiet: bool,
    /// Details in the summary.
    pub verbose: bool,
    /// Seed of anything sampled.
    pub seed: u64,
    /// Progress, warnings, throttling.
    pub observer: Terminal,
    threads: usize,
    memory: u64,
    start: Instant,
    key: Option<PathBuf>,
    network: OnceLock<Network>,
    /// The file with agents that were silent.
    pub silent: OnceLock<PathBuf>,
    limit_rate: Option<u64>,
    lock_wait: Duration,
    /// Does not wait for late reads.
    hedge: Option<Arc<Hedge>>,
}

impl Setup {
    /// Checks the common flags.
    pub fn new(common: &Common) -> Result<Setup> {
        let threads = match common.threads {
            None => std::thread::available_parallelism().map_or(1, usize::from),
            Some(threads) if (1..=MAX_THREADS).contains(&threads) => threads,
            Some(_) => {
                let problem = format!("must be 1 to {MAX_THREADS}");
                return Err(Failure::Flag { flag: "--threads", problem });
            }
        };
        let space = address_space().unwrap_or(u64::MAX);
        let threads = if space < AMPLE_SPACE { threads.min(2) } else { threads };
        if space < AMPLE_SPACE {
            kiln_stripe::limit_readers(FEW_READERS);
        }
        let hedges =
            space >= AMPLE_SPACE && variable("KILN_HEDGE").is_none_or(|word| word != *"off");
        if common.limit_rate == Some(0) {
            let problem = "must be at least 1 byte per second".into();
            return Err(Failure::Flag { flag: "--limit-rate", problem });
        }
        Ok(Setup {
            json: common.json,
            quiet: common.quiet,
            verbose: common.verbose > 0,
            seed: common.seed,
            observer: Terminal::new(!common.quiet && !common.json),
            threads,
            memory: MEMORY.min(space / 8),
            start: Instant::now(),
            key: common.key.clone().or_else(|| variable("KILN_KEY")),
            network: OnceLock::new(),
            silent: OnceLock::new(),
            limit_rate: common.limit_rate,
            lock_wait: Duration::from_secs(common.lock_wait),
            hedge: hedges.then(Arc::default),
        })
    }

    /// The same for what goes on beside the command and says nothing.
    pub fn background(&self) -> Setup {
        Setup {
            key: self.key.clone(),
            network: self.network.clone(),
            silent: self.silent.clone(),
            observer: Terminal::new(false),
            hedge: self.hedge.clone(),
            ..*self
        }
    }

    /// As [`Setup::background`], with this limit of what is read and written at each place.
    pub fn paced(&self, rate: Option<u64>) -> Setup {
        Setup { limit_rate: rate, ..self.background() }
    }

    /// Lets the reads of a pool go on without nodes that are late.
    pub fn hedged(&self, pool: Pool) -> Pool {
        match &self.hedge {
            Some(hedge) => pool.hedged(hedge.clone()),
            None => pool,
        }
    }

    /// Returns the counts of reads that were not waited for.
    pub fn hedge_counts(&self) -> HedgeCounts {
        self.hedge.as_ref().map(|hedge| hedge.counts()).unwrap_or_default()
    }

    /// Returns the resources of an operation.
    pub fn settings(&self) -> Settings<'_> {
        let (threads, lock_wait) = (self.threads, self.lock_wait);
        let drop_behind = true;
        Settings {
            threads,
            memory: self.memory,
            drop_behind,
            lock_wait,
            ..Settings::new(&self.observer)
        }
    }

    /// Bytes a second that `--limit-rate` allows.
    pub fn limit_rate(&self) -> Option<u64> {
        self.limit_rate
    }

    /// Threads that compute.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The file of the cluster's key, as named by `--key` or `KILN_KEY`.
    pub fn key_path(&self) -> Option<&Path> {
        self.key.as_deref()
    }

    /// The cluster's key.
    /// Errors: no key is named, or the file has none.
    pub fn key(&self) -> Result<ClusterKey> {
        match &self.key {
            Some(path) => Ok(ClusterKey::load(path)?),
            None => {
                let problem =
                    "the cluster's key is needed; kiln pool create and kiln agent --init make one"
                        .to_owned();
                Err(Failure::Flag { flag: "--key", problem })
            }
        }
    }

    /// Refuses a key of a lesser role, where one is given, or for names with a prefix alone. Agents
    /// and the keys of before there were these roles are refused by agents alone.
    /// Errors: [`Failure::Role`]; [`Failure::Prefix`].
    pub fn need_role(&self, least: Option<PeerRole>, by_prefix: bool) -> Result<()> {
        // A command that makes the key comes before it.
        let (Some(file), Ok(key)) = (&self.key, self.key()) else { return Ok(()) };
        let Some(Rights { role, prefix }) = key.holder() else { return Ok(()) };
        let file = file.clone();
        match (least, prefix) {
            (Some(least), _) if role < least && role <= PeerRole::Operator => {
                Err(Failure::Role { file, role, least })
            }
            (_, Some(prefix)) if !by_prefix => Err(Failure::Prefix { file, prefix }),
            _ => Ok(()),
        }
    }

    /// Connections to agents, of which one is at this address: without TLS no key is needed.
    /// Errors: as [`Setup::key`], or no threads.
    pub fn network(&self, address: &Address) -> Result<&Network> {
        if let Some(network) = self.network.get() {
            // One network serves both kinds; without a key it refuses what needs one.
            return Ok(network);
        }
        let keyless = address.plain && self.key.is_none();
        let key = if keyless { None } else { Some(self.key()?) };
        let network = Network::new(key, NETWORK_THREADS)?;
        if let Some(file) = self.silent.get() {
            network.remember(file);
        }
        Ok(self.network.get_or_init(|| network))
    }

    /// The network of a pool without agents: clock and threads of a recovery, and no connections.
    pub fn network_of_none(&self) -> Result<&Network> {
        if let Some(network) = self.network.get() {
            return Ok(network);
        }
        let network = Network::new(None, NETWORK_THREADS)?;
        Ok(self.network.get_or_init(|| network))
    }

    /// Prints a command's report: as JSON for scripts, else as text, unless the user wants quiet.
    pub fn report(&self, report: &impl Serialize, text: impl FnOnce() -> String) -> Result<Exit> {
        if self.quiet && !self.json { Ok(Exit::Done) } else { self.answer(report, text) }
    }

    /// As [`Setup::report`], with the text that `reports.txt` has of this name.
    pub fn tell(&self, name: &str, report: &impl Serialize, more: Value) -> Result<Exit> {
        self.report(report, || self.text(name, report, more))
    }

    /// The text of a report that `reports.txt` has, with `more` than JSON shows.
    pub fn text(&self, name: &str, report: &impl Serialize, more: Value) -> String {
        texts::report(name, report, context! { verbose => self.verbose, ..more })
    }

    /// Prints the answer to a question: as JSON for scripts, else as text.
    pub fn answer(&self, answer: &impl Serialize, text: impl FnOnce() -> String) -> Result<Exit> {
        let stream = if data_goes_to_stdout(false) { Stream::Stderr } else { Stream::Stdout };
        if self.json {
            stream.json(answer)?
        } else {
            stream.text(&text())?
        }
        Ok(Exit::Done)
    }

    /// As [`Setup::answer`], with the text that `reports.txt` has of this name.
    pub fn show(&self, name: &str, answer: &impl Serialize, more: Value) -> Result<Exit> {
        self.answer(answer, || self.text(name, answer, more))
    }

    /// Seconds since the command began.
    pub fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }
}

/// Files that commands on shards and pools may have open at once.
const OPEN_FILES: u64 = 320;

/// Address space that commands on shards and pools need: buffers, and stacks and heaps of threads.
const ADDRESS_SPACE: u64 = 512 << 20;
/// With less there are two threads and small buffers.
const AMPLE_SPACE: u64 = 8 << 30;
const FEW_READERS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(3);

/// The limit of the process's addresses, raised as far as it can be; `None`: there is none.
fn address_space() -> Option<u64> {
    let limit = getrlimit(Resource::As);
    let now = limit.current?;
    let raise = setrlimit(Resource::As, Rlimit { current: limit.maximum, ..limit });
    if raise.is_ok() { limit.maximum } else { Some(now) }
}

/// Raises limits of this process; too few open files would look as if shards were missing, and
/// without memory it would be aborted.
/// Errors: a limit cannot be raised that far.
pub fn need_resources() -> Result<()> {
    if let Some(limit @ ..ADDRESS_SPACE) = address_space() {
        return Err(Failure::Memory { limit: limit >> 10, needed: ADDRESS_SPACE >> 10 });
    }
    let limit = getrlimit(Resource::Nofile);
    let (now, most) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
    if now >= most.min(MAX_OPEN_FILES) && now >= OPEN_FILES {
        return Ok(());
    }
    let raised = most.min(MAX_OPEN_FILES).max(now);
    // One that stays as it is, is counted with.
    let raise = setrlimit(Resource::Nofile, Rlimit { current: Some(raised), ..limit });
    match if raise.is_ok() { raised } else { now } {
        OPEN_FILES.. => Ok(()),
        limit => Err(Failure::OpenFiles { limit, needed: OPEN_FILES }),
    }
}

/// Files of users that may be open at once beside those of shards and pools, up to `most`.
pub fn open_together(most: usize) -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let beside = limit.saturating_sub(OPEN_FILES * 3 / 4) / 2;
    usize::try_from(beside).unwrap_or(most).clamp(1, most)
}

/// The path in a variable of the environment; an empty one is not set.
pub fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Listens on an address. One that other machines reach must be `safe`, or the failure says what
/// to give: a certificate, or `instead`.
/// Errors: [`Failure::Flag`]; the address cannot be listened on.
pub fn listener(listen: &str, safe: bool, instead: &str) -> Result<TcpListener> {
    let failed = |source| Failure::Io { action: "listen on", path: listen.into(), source };
    let addresses: Vec<SocketAddr> = listen.to_socket_addrs().map_err(failed)?.collect();
    if !safe && !addresses.iter().all(|address| address.ip().is_loopback()) {
        let problem = format!(
            "{listen} serves other machines, without encryption; give --tls-certificate and \
             --tls-key, {instead}"
        );
        return Err(Failure::Flag { flag: "--listen", problem });
    }
    TcpListener::bind(&addresses[..]).map_err(failed)
}

/// The code that a spec or a Ceph profile names; `order=` may name a file.
/// Errors: unknown code or impossible parameters; an order's file that cannot be used.
pub fn codec(spec: &str) -> Result<Codec> {
    let spec: CodeSpec = order::resolve(spec)?.parse()?;
    Ok(Codec::new(&spec)?)
}

/// Bytes of a sub-chunk and of a chunk are two ways to say one thing; at most one may be given.
/// Errors: the chunk is zero or no multiple of the code's sub-chunks.
pub fn sub_chunk(alpha: usize, sub_chunk: Option<u64>, chunk: Option<u64>) -> Result<Option<u32>> {
    let (flag, bytes) = match (sub_chunk, chunk) {
        (None, None) => return Ok(None),
        (Some(bytes), _) => ("--sub-chunk", bytes),
        (None, Some(chunk)) => ("--chunk", divided(chunk, alpha)?),
    };
    match u32::try_from(bytes) {
        Ok(bytes) if bytes > 0 => Ok(Some(bytes)),
        _ => {
            let problem = format!("a sub-chunk must be 1 byte to 4 GiB, not {bytes} bytes");
            Err(Failure::Flag { flag, problem })
        }
    }
}

/// Bytes of a sub-chunk of a chunk.
/// Errors: the chunk is zero or no multiple of alpha; the error names the nearest that would be.
pub fn divided(chunk: u64, alpha: usize) -> Result<u64> {
    let alpha = alpha as u64;
    if chunk > 0 && chunk.is_multiple_of(alpha) {
        return Ok(chunk / alpha);
    }
    let fit = chunk.max(1).checked_next_multiple_of(alpha).unwrap_or(alpha);
    let problem = format!(
        "this code cuts a chunk into {alpha} sub-chunks, so it must be a multiple of {alpha} \
         bytes: {chunk} is not, {fit} is"
    );
    Err(Failure::Flag { flag: "--chunk", problem })
}
