//! What a recovery decides, without a thread, a lock, a clock or a socket: events and the time go
//! in, what is to be done comes out. `net` does it in real time, the simulation in virtual time.
//!
//! | file | decides |
//! |---|---|
//! | `schedule` | what is next: survey, joint plan, repair, rest, or the end; who is given up |
//! | `batch` | which objects are planned together, by which plans, and which nodes get shards |
//! | `object` | how one object is repaired once its shards have been looked at, and by whom |
//! | `together` | what jobs that want it at the same time do together: looks and commits |
//! | `attempts` | the plans of one repair: each without who or what failed the one before |
//! | `placed` | the problem of a repair or a degraded read, its plan, and the shares of it |
//! | `prices` | which plan and which helpers are cheapest where reads and bytes are paid for |
//! | `suspects` | which agents are left alone for a while |
//! | `limits` | what each node may send and receive |
//! | `report` | what all of it took |
//! | `scrub` | when what is stored is read, and where that goes on |
//! | `state` | what is done at a moment, and what is waited for |

pub(crate) mod attempts;
pub mod batch;
mod limits;
pub(crate) mod object;
pub(crate) mod placed;
pub(crate) mod prices;
pub(crate) mod report;
pub(crate) mod schedule;
mod scrub;
mod state;
mod suspects;
pub(crate) mod together;

use std::time::Duration;

pub use attempts::{FinalFailure, Helper, PlacedRepair, Repaired};
pub use limits::RateLimits;
pub use prices::{ByPrice, NodePrice, Price, Prices};
pub use report::{NodeLoad, PoolRecovered, StrategyLoad};
pub use schedule::RecoverOptions;
pub use scrub::ScrubPosition;
pub use state::{Phase, RecoveryState, RunningRepair, ScrubState, ShownPlan, Wait, WaitReason};

/// The time by two clocks: one that never jumps, and that of the queue in ms since 1970.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Now {
    pub elapsed: Duration,
    pub ms: u64,
}
