//! Recovery of pools over agents: decisions without a clock, a lock or a socket, and the blocking
//! loops that carry them out.
//!
//! Modules stand from what is used to what uses it.
//!
//! | module | holds |
//! |---|---|
//! | `limits` | the rates at which each node may send and receive |
//! | `suspects` | the agents that are left out of plans for a while |
//! | `placed` | the problem of a repair or a degraded read, its plan, and the shares of it |
//! | `prices` | the cheapest plan and helpers where reads and bytes are paid for |
//! | `coordinator` | the shares of one attempt: hands them out and watches them |
//! | `attempts` | the plans of one repair, each without the nodes and shards that failed before |
//! | `report` | the totals of a recovery |
//! | `scrub` | the schedule and the position of scrubs |
//! | `state` | the recovery as it is at a moment, for pages and logs |
//! | `batch` | objects that are planned together, their plans, and the nodes that get shards |
//! | `object_repair` | the repair of one object, from its survey to its commit |
//! | `coalescer` | calls of several jobs that are made as one |
//! | `schedule` | the next step: survey, joint plan, repair, rest, or the end |
//! | `degraded_reader` | a client as a node of a plan: helpers rebuild the chunks that it reads |
//! | `run` | the loops that carry decisions out on agents, with threads and blocking calls |
//! | `sim` | a whole cluster in virtual time, from one seed (feature `sim`, for tests) |
#![forbid(unsafe_code)]

mod error;
mod limits;
mod suspects;
pub mod coordinator;
pub(crate) mod placed;
pub(crate) mod prices;
pub(crate) mod attempts;
mod scrub;
pub mod batch;
pub(crate) mod report;
mod state;
pub(crate) mod object_repair;
pub(crate) mod coalescer;
pub(crate) mod schedule;
pub mod degraded_reader;
mod run;
#[cfg(any(test, feature = "sim"))]
pub mod sim;

use std::time::Duration;

pub use attempts::{FinalFailure, Helper, PlacedRepair, Repaired};
pub use error::{RecoveryError, Result};
pub use limits::RateLimits;
pub use prices::{ByPrice, NodePrice, Price, Prices};
pub use report::{NodeLoad, PoolRecovered, StrategyLoad};
pub use run::{Control, HelpingAgents, PoolRecovery, RepairWatcher, Scrubbing};
pub use schedule::{OnDemand, RecoverOptions};
pub use scrub::ScrubPosition;
pub use state::{Phase, RecoveryState, RunningRepair, ScrubState, ShownPlan, Wait, WaitReason};

/// The time by two clocks: one that never jumps, and that of the queue in ms since 1970.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Now {
    pub elapsed: Duration,
    pub ms: u64,
}
