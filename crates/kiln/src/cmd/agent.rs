//! `kiln agent`

use std::{path::PathBuf, sync::Arc};

use clap::Args;
use kiln_net::{AgentSetup, ClusterKey, DEFAULT_PORT, agent::Limits, serve};
use kiln_store::Backend;
use kiln_stripe::names;

use crate::exit::{Exit, Failure, Result};
use crate::print::{Stream, fields};
use crate::setup::{AgentParts, Setup, fresh_run};
use crate::{args::help, monitor::Monitor};

/// Serve a folder of this machine, or a bucket, to other machines
///
/// The agent serves the files of one folder, and nothing else, to holders of the cluster's key.
/// Beside a bucket it reads what repairs need and computes with other agents, so that who orders a
/// repair downloads nothing. As long as it serves a bucket, everybody writes there through it.
/// Its log goes to standard error (as JSON with --json), and one line on standard output says
/// where it listens.
#[derive(Debug, Args)]
#[command(after_help = help("agent"))]
pub struct Agent {
    /// Folder to serve, created when absent; or a bucket, with --parts
    #[arg(long, value_name = "DIR", required_unless_present = "init")]
    dir: Option<PathBuf>,
    /// Folder of this machine for what is being written, where --dir is a bucket; created when
    /// absent, for this bucket alone
    #[arg(long, value_name = "FOLDER", conflicts_with = "init")]
    parts: Option<PathBuf>,
    /// Serve a bucket although another agent does, which is gone for good
    #[arg(long, requires = "parts")]
    take_over: bool,
    /// Address to listen on [default: 0.0.0.0:7440, with --plain 127.0.0.1:7440]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Name that clients may ask for, as in kiln://host/NAME [default: the folder's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Serve without TLS, to this machine only
    #[arg(long, conflicts_with = "init")]
    plain: bool,
    /// Address for metrics in Prometheus' format, e.g. 127.0.0.1:9440
    #[arg(long, value_name = "HOST:PORT")]
    metrics: Option<String>,
    /// Make the cluster's key (--key FILE, which must not exist) and end
    #[arg(long, conflicts_with_all = ["dir", "listen", "name", "metrics"])]
    init: bool,
}

impl Agent {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        if self.init {
            return init(setup);
        }
        let Some(dir) = &self.dir else {
            return Err(Failure::Flag { flag: "--dir", problem: "is needed".to_owned() });
        };
        let key = if self.plain { None } else { Some(setup.key()?) };
        let default = if self.plain { "127.0.0.1" } else { "0.0.0.0" };
        let listen = self.listen.clone().unwrap_or_else(|| format!("{default}:{DEFAULT_PORT}"));
        let who = format!("the agent at {listen} of {}", host_name());
        let (folder, take_over) = (self.parts.as_deref(), self.take_over);
        let id = names::hex(&fresh_run());
        let parts = AgentParts { folder, who: &who, id: &id, take_over };
        let backend = setup.open_to_serve(dir, &parts)?;
        let name = self.name.clone().unwrap_or_else(|| folder_name(&*backend));
        let limits = Limits { reads: kiln_pool::map::LATEST, ..Limits::default() };
        let agent = AgentSetup { place: name.clone(), backend, key, limits };
        log_to_stderr(setup.json);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(setup.threads())
            .thread_name("kiln-agent")
            .enable_all()
            .build()
            .map_err(|source| Failure::Io {
                action: "start threads for",
                path: dir.clone(),
                source,
            })?;
        runtime.block_on(self.serve(agent, &listen, setup))
    }

    async fn serve(&self, agent: AgentSetup, listen: &str, setup: &Setup) -> Result<Exit> {
        let (name, plain) = (agent.place.clone(), agent.key.is_none());
        let store = Arc::clone(&agent.backend);
        let serving = serve(agent, listen).await?;
        let monitor = match &self.metrics {
            Some(listen) => Some(Monitor::start(serving.watcher(), (&name, store), listen).await?),
            None => None,
        };
        let scheme = if plain { "kiln+plain" } else { "kiln" };
        let address = format!("{scheme}://{}/{name}", serving.address());
        let url = monitor.as_ref().map(|monitor| format!("http://{}/metrics", monitor.address()));
        let started = fields! {
            address: &address,
            name: name,
            metrics or none: url,
        };
        setup.answer(&started, || format!("serving {address}\n"))?;
        tracing::info!(address, "agent started");
        let why = until_told().await;
        tracing::info!(why, "agent ends");
        Ok(Exit::Done)
    }
}

/// Makes the key of a new cluster.
fn init(setup: &Setup) -> Result<Exit> {
    let Some(path) = setup.key_path() else {
        let problem = "name the file for the new key".to_owned();
        return Err(Failure::Flag { flag: "--key", problem });
    };
    ClusterKey::create(path)?;
    if !setup.quiet && !setup.json {
        let text = format!(
            "{} is the cluster's key: copy it to every machine and keep it secret\n",
            path.display()
        );
        Stream::Stdout.text(&text)?;
    }
    Ok(Exit::Done)
}

/// Returns the name of this machine.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.map_or_else(|_| "an unknown host".to_owned(), |name| name.trim().to_owned())
}

/// The name of a place that was given none.
fn folder_name(place: &dyn Backend) -> String {
    let dir = place.folder().unwrap_or("/".as_ref());
    let full = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    full.file_name().map_or_else(|| "root".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Waits for a signal to end.
pub(crate) async fn until_told() -> &'static str {
    use tokio::signal::unix::{SignalKind, signal};
    // Where signals cannot be watched they end the process by themselves, as they always do.
    let (Ok(mut term), Ok(mut int)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => "SIGTERM",
        _ = int.recv() => "SIGINT",
    }
}

/// Logs to standard error, as much as `KILN_LOG` says.
pub(crate) fn log_to_stderr(json: bool) {
    let level = std::env::var("KILN_LOG").unwrap_or_else(|_| "info".to_owned());
    let filter = tracing_subscriber::EnvFilter::new(level);
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A log may have been set up already; it stays.
    let _ = match json {
        true => log.json().try_init(),
        false => log.with_ansi(false).try_init(),
    };
}
