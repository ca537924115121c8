//! Loops that carry decisions out on agents: the only code here that waits, locks and has threads.

mod request_queue;
pub(crate) mod recover;
mod degraded;
mod recode;
mod pool;

pub use degraded::HelpingAgents;
pub use pool::{Control, PoolRecovery, Scrubbing};
pub use recover::RepairWatcher;
