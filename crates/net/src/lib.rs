//! Agents and the connections to them: the wire between nodes, and other machines as backends.
//!
//! Modules stand from what is used to what uses it.
//!
//! | module | holds |
//! |---|---|
//! | `proto` | the wire: frames, limits, the one enum of messages; pure |
//! | `pace`, `throttle` | measured throughput and the limits that follow; pure |
//! | `task`, `task_executor` | a node's share of a placed repair: its order, and its work |
//! | `agent` | the agent as a state machine: events and the time in, actions out; pure |
//! | `admission` | limits on connections and on who may open them; pure |
//! | `link` | the asking side of a connection as a state machine; pure |
//! | the rest | sockets, TLS, disks, threads: the only asynchronous code |
//!
//! The state machines have no clock, socket or disk: this crate's shell runs them in real time,
//! the simulation of `kiln_recovery` in virtual time.
#![forbid(unsafe_code)]

mod error;
mod address;
pub mod proto;
mod prefix;
pub mod pace;
pub mod throttle;
pub mod task;
pub mod task_executor;
pub mod agent;
pub mod admission;
pub mod link;
mod buffers;
mod key;
mod runtime;
mod stream;
mod silence;
mod dial;
mod remote;
mod disk;
mod accept;
mod serve;

pub use address::{Address, DEFAULT_PORT};
pub use dial::{Peer, WRONG_KEY};
#[cfg(any(test, feature = "sim"))]
pub use disk::DiskSet;
pub use error::{NetError, NetOperation, Result};
pub use key::{ClusterKey, IssuedKey};
pub use remote::{Agents, Claim, Network, RemoteBackend, SERVED};
pub use runtime::{Answer, PendingRequest, Taken, Turn, VirtualRuntime};
pub use serve::{AgentSetup, Report, Serving, Watcher, serve};
