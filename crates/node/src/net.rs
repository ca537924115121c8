//! Sockets, TLS, disks and threads: the shell around the state machines, and the only
//! asynchronous code of kiln.

mod accept;
mod address;
mod buffers;
mod degraded;
mod dial;
mod disk;
mod http;
mod key;
mod monitor;
mod pool;
mod post;
mod recover;
mod remote;
mod runtime;
mod serve;
mod stream;

pub use address::{Address, DEFAULT_PORT};
pub use degraded::HelpingAgents;
pub use dial::WRONG_KEY;
#[cfg(any(test, feature = "sim"))]
pub(crate) use disk::DiskSet;
pub use http::{Document, Door, HttpServer};
pub use key::ClusterKey;
pub use monitor::{Metric, MetricFamily, Metrics, Monitor, monitored};
pub use pool::{Control, PoolRecovery, Scrubbing};
pub use recover::RepairWatcher;
pub use remote::{Agents, Network, RemoteBackend, SERVED};
#[cfg(any(test, feature = "sim"))]
pub(crate) use runtime::{Answer, PendingRequest, VirtualRuntime};
pub use serve::{AgentSetup, Report, Serving, Watcher, serve};
