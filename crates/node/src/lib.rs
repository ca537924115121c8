//! Agents and the coordinator: repair over a network, with every helper computing.
//!
//! | file | holds |
//! |---|---|
//! | `proto` | the wire: frames, limits, the one enum of messages; pure |
//! | `agent` | the agent as a state machine: events and the time in, actions out; pure |
//! | `admission` | who may connect, and how many of whom; pure |
//! | `link` | the asking side of a connection as a state machine; pure |
//! | `task`, `carry` | a node's share of a placed repair: what comes when; and the work itself |
//! | `pace` | how much was done lately, which limits follow |
//! | `throttle` | the limit of an agent's repair traffic; pure |
//! | `coordinator` | hands out shares and watches them; pure |
//! | `recovery` | what to repair when, how, and what to do when that fails; pure |
//! | `degraded_reader` | a client as a node of a plan: what it reads is rebuilt by helpers; pure |
//! | `sim` | a whole cluster in virtual time, from one seed (feature `sim`, for tests) |
//! | `net` | sockets, TLS, disks, threads: the only asynchronous code |
//!
//! The state machines have no clock, socket or disk: the shell in `net` runs them in real time,
//! the simulation in virtual time.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod admission;
pub mod agent;
mod carry;
pub mod coordinator;
pub mod degraded_reader;
mod error;
pub mod link;
pub mod net;
pub mod pace;
pub mod proto;
pub mod recovery;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
pub mod task;
pub mod throttle;

pub use error::{NodeError, NodeOperation, Result};
