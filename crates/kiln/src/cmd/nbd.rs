//! `kiln nbd`

use std::path::{Path, PathBuf};
use std::{os::unix::net::UnixListener, sync::Arc};

use clap::Args;
use kiln_nbd::{About, Change, Errno, Export, Listener, Server};
use kiln_volume::{OpenRequest, OwnedOp, Running, Volume, VolumeError, VolumeStatus};

use crate::args::{help, size};
use crate::exit::{Exit, Failure, Result};
use crate::monitor::{Metrics, Monitor};
use crate::print::{Stream, fields, warning_line};
use crate::setup::{PoolFlags, Setup, listener, volumes};
use crate::{cmd::agent, sizes};

/// Most open files that are asked for: shards of many segments stay open.
const OPEN_FILES: u64 = 65_536;

/// Serve a volume as a network block device (NBD)
///
/// Standard output gets one line that says where, standard error what goes wrong. Without TLS only
/// this machine is served.
#[derive(Debug, Args)]
#[command(after_help = help("nbd"))]
pub struct Nbd {
    /// Name of the volume
    volume: String,
    /// Address to listen on [default: 127.0.0.1:10809]
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "socket")]
    listen: Option<String>,
    /// Socket of this machine to listen on, instead of a port
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Name that clients ask for [default: the volume's]
    #[arg(long, value_name = "NAME")]
    export: Option<String>,
    /// Nothing can be written
    #[arg(long)]
    read_only: bool,
    /// Take the volume from its present server, which can write nothing more
    #[arg(long)]
    take_over: bool,
    /// The server's certificate, PEM: connections are encrypted
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Its key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Certificates, PEM, that clients' certificates must be signed by
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_clients: Option<PathBuf>,
    /// Address for metrics in Prometheus' format, e.g. 127.0.0.1:9441
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// Bytes a second that cleaning reads and writes at most
    ///
    /// It is kept as long as 64% of what segments hold are live; then cleaning takes what it needs.
    /// Without it cleaning takes the time that clients leave, and a third of it at least.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "0")]
    #[arg(hide_default_value = true)]
    limit_cleaning: u64,
    /// Serve other machines without encryption: anyone who reaches the port can read and write
    #[arg(long)]
    insecure: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

/// A volume as clients see it.
struct Served {
    running: Running,
    about: About,
}

impl Export for Served {
    fn about(&self) -> About {
        // It may have grown.
        About { size: self.running.volume().size(), ..self.about.clone() }
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Errno> {
        self.running.volume().read(offset, bytes).map_err(|error| {
            warning_line(&format!("read of {} bytes at {offset}: {error}", bytes.len()));
            errno(&error)
        })
    }

    fn change(&self, change: Change, done: kiln_nbd::Done) {
        let op = match change {
            Change::Write { offset, bytes } => OwnedOp::Write { offset, bytes },
            Change::Zero { offset, len } => OwnedOp::Zero { offset, len },
        };
        self.running.submit(
            op,
            Box::new(move |end| {
                done(end.map_err(|error| {
                    warning_line(&format!("write: {error}"));
                    errno(&error)
                }));
            }),
        );
    }

    fn extents(&self, offset: u64, len: u64, most: usize) -> Result<Vec<(u64, bool)>, Errno> {
        self.running.volume().extents(offset, len, most).map_err(|error| errno(&error))
    }
}

fn errno(error: &VolumeError) -> Errno {
    match error {
        error if error.is_full() => Errno::NoSpace,
        VolumeError::Usage { .. } => Errno::Invalid,
        VolumeError::ReadOnly { .. } => Errno::NotPermitted,
        VolumeError::Deposed { .. } => Errno::Shutdown,
        _ => Errno::Io,
    }
}

impl Nbd {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let files = self.tls_certificate.as_ref().zip(self.tls_key.as_ref());
        let clients = self.tls_clients.as_deref();
        let tls = files.map(|(pem, key)| kiln_nbd::tls(pem, key, clients)).transpose()?;
        // Before the volume is taken from another client.
        let (listener, place, _socket) = self.listener(tls.is_some())?;
        allow_open_files();
        let rim = volumes::rim(&self.pool, setup)?;
        let request = OpenRequest {
            writer: volumes::writer("kiln nbd"),
            take_over: self.take_over,
            read_only: self.read_only,
        };
        let volume = Volume::open(&rim, &self.volume, &request)?;
        let name = self.export.clone().unwrap_or_else(|| self.volume.clone());
        let (size, read_only, limit) = (volume.size(), self.read_only, self.limit_cleaning);
        let about = About { name: name.clone(), size, read_only };
        let served = Arc::new(Served { running: Running::start_limited(volume, limit), about });
        let export = Arc::clone(&served) as Arc<dyn Export>;
        let scheme = if tls.is_some() { "nbds" } else { "nbd" };
        let server = Server::start(listener, export, tls, warning_line)?;
        let uri = match &self.socket {
            Some(path) => format!("{scheme}+unix:///{name}?socket={}", path.display()),
            None => format!("{scheme}://{place}/{name}"),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| Failure::Io {
            action: "wait for signals on",
            path: place.into(),
            source,
        })?;
        let monitor = match &self.metrics {
            Some(listen) => Some(runtime.block_on(monitor(listen, &self.volume, &served))?),
            None => None,
        };
        let metrics =
            monitor.as_ref().map(|monitor| format!("http://{}/metrics", monitor.address()));
        let also = metrics.as_ref().map_or(String::new(), |url| format!(", metrics at {url}"));
        let line = format!("serving {uri} ({}){also}\n", sizes::show(size));
        let started = fields! {
            uri: uri,
            size: size,
            metrics or none: metrics,
        };
        setup.answer(&started, || line)?;
        runtime.block_on(agent::until_told());
        drop((monitor, runtime));
        server.end();
        let status = served.running.volume().status();
        match Arc::into_inner(served) {
            Some(served) => served.running.close()?,
            None => return Err(VolumeError::Usage { what: "a client disconnected".into() }.into()),
        }
        if setup.json {
            Stream::Stdout.json(&fields! { volume: self.volume, status: status })?;
        }
        Ok(Exit::Done)
    }

    /// The listener, what it listens on, and the file of a socket.
    fn listener(&self, encrypted: bool) -> Result<(Listener, String, Option<SocketFile>), Failure> {
        if let Some(path) = &self.socket {
            let failed = |source| Failure::Io { action: "listen on", path: path.clone(), source };
            remove_dead_socket(path).map_err(failed)?;
            let listener = UnixListener::bind(path).map_err(failed)?;
            let file = SocketFile(path.clone());
            return Ok((Listener::Unix(listener), path.display().to_string(), Some(file)));
        }
        let listen = self.listen.as_deref().unwrap_or("127.0.0.1:10809");
        let listener = listener(listen, encrypted || self.insecure, "or --insecure")?;
        let failed = |source| Failure::Io { action: "listen on", path: listen.into(), source };
        let place = listener.local_addr().map_err(failed)?.to_string();
        Ok((Listener::Tcp(listener), place, None))
    }
}

/// The file of a socket, while it is listened on.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // A file that stays is replaced by the next server.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Removes the socket of a server that was killed.
fn remove_dead_socket(path: &Path) -> std::io::Result<()> {
    use std::{os::unix::fs::FileTypeExt, os::unix::net::UnixStream};
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if found.file_type().is_socket() && UnixStream::connect(path).is_err() {
        return std::fs::remove_file(path);
    }
    Err(std::io::ErrorKind::AddrInUse.into())
}

/// Shards of segments are kept open; the usual limit is that of interactive programs.
fn allow_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    let most = now.maximum.unwrap_or(OPEN_FILES).min(OPEN_FILES);
    if now.current.is_some_and(|current| current < most) {
        // Then fewer stay open, and are opened more often.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), ..now });
    }
}

/// Reports the state of a volume over HTTP.
async fn monitor(listen: &str, volume: &str, served: &Arc<Served>) -> Result<Monitor> {
    let (served, name) = (Arc::downgrade(served), volume.to_owned());
    let text = move || {
        let status = served.upgrade().map(|served| served.running.volume().status());
        status.map_or(String::new(), |status| metrics(status).text("volume", &name))
    };
    Ok(Monitor::telling(listen, text).await?)
}

fn metrics(status: VolumeStatus) -> Metrics {
    let so_far = status.statistics;
    Metrics {
        counters: vec![
            ("kiln_volume_written_bytes", "Bytes that clients wrote", so_far.bytes_written),
            ("kiln_volume_read_bytes", "Bytes that clients read", so_far.bytes_read),
            ("kiln_volume_log_bytes", "Bytes written to copies of the log", so_far.log_bytes),
            ("kiln_volume_commits", "Commits to the log", so_far.commits),
            ("kiln_volume_waits", "Commits that waited for room", so_far.waits),
            ("kiln_volume_sealed_bytes", "Bytes made into segments", so_far.sealed_bytes),
            ("kiln_volume_long_bytes", "Bytes that went past the log", so_far.long_bytes),
            ("kiln_volume_moved_bytes", "Bytes moved by cleaning", so_far.moved_bytes),
            ("kiln_volume_rebuilt_reads", "Reads that rebuilt something", so_far.rebuilt_reads),
            ("kiln_volume_checkpoint_bytes", "Bytes of checkpoints", so_far.checkpoint_bytes),
            ("kiln_volume_removed_segments", "Segments removed", so_far.removed),
            ("kiln_volume_rested_ms", "Time left to clients behind them", so_far.rested_ms),
        ],
        gauges: vec![
            ("kiln_volume_size_bytes", "Bytes for clients", status.size),
            ("kiln_volume_mapped_bytes", "Bytes that are not zeros", status.mapped_bytes),
            ("kiln_volume_segment_bytes", "Bytes in segments", status.segment_bytes),
            ("kiln_volume_live_bytes", "Of those, bytes that are live", status.live_bytes),
            ("kiln_volume_log_used_bytes", "Bytes of the log in use", status.log_used),
            ("kiln_volume_map_bytes", "Bytes of memory of the map", status.map_bytes),
        ],
        families: Vec::new(),
    }
}
