//! `kiln coordinator`

mod hook;
mod logs;
mod paid;
mod object_repair;
mod scrubs;
mod control;
mod pool_recovery;
mod watch;

use std::path::PathBuf;

use clap::Args;
use kiln_plan::SearchBudget;

use crate::args::{help, size};
use crate::exit::{Exit, Result};
use crate::setup::{PoolFlags, Setup};

/// Repair over agents: every helper computes its share
///
/// Without agents it recovers a pool: the most endangered objects first, many planned together,
/// several at once. Where the pool's nodes are folders, it computes at this machine. Else a plan
/// says which agent computes what; agents read their own disks, verify what they read, and send
/// sub-chunks to each other, window by window. A rebuilt shard must have its recorded digest before
/// it gets its name. When an agent fails, the repair continues with a new plan without it.
#[derive(Debug, Args)]
#[command(after_help = help("coordinator"))]
pub struct Coordinator {
    /// Agents with the shards of one object; none: the pool
    #[arg(value_name = "AGENT")]
    agents: Vec<PathBuf>,
    /// Place rebuilt shards there: ids of nodes of the pool, or `spread` over all [default: their
    /// own nodes, where these are there, else spread]. Shards for which the nodes named have no
    /// room go elsewhere. Without a pool the address of an agent
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    to: Vec<String>,
    /// Strategy that places the work: see kiln plan; `joint`, for a pool, takes for each object the
    /// plan that loads the links most evenly [default: joint, without a pool best]
    #[arg(long, value_name = "NAME")]
    strategy: Option<String>,
    /// Prices of reads at the nodes and of bytes sent to another zone: a table as kiln
    /// repair --price takes it, with zones by nodes = [...] (without a pool addresses of agents as
    /// they are given). Each object is repaired by the plan and the helpers that cost the least.
    /// Not weighed are where rebuilt shards go, shards that are copied from a node that leaves, and
    /// what is repaired through this machine
    #[arg(long, value_name = "FILE")]
    price: Option<PathBuf>,
    /// Bytes of each sub-chunk that travel together [default: by the code]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    window: Option<u64>,
    /// Most windows in flight at each agent
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=256))]
    windows: u32,
    /// Seconds to keep trying while agents cannot be reached, e.g. when a link is cut
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
    /// Object to repair, where there are several
    #[arg(long, value_name = "NAME", requires = "agents")]
    object: Option<String>,
    /// Without a pool: how long the strategy may search, in steps
    #[arg(long, value_name = "N", default_value_t = SearchBudget::MOVES, requires = "agents",
          conflicts_with = "price")]
    moves: u64,
    /// Without a pool: a file of ready plans, as kiln plan --plans writes it. The plan is taken
    /// from there; if it has none of the same code, lost shards, helpers, --strategy, --moves and
    /// --seed, one is made and kept there. A file that is not there is begun, a damaged one refused
    #[arg(long, value_name = "FILE", requires = "agents", conflicts_with = "price")]
    plans: Option<PathBuf>,
    #[command(flatten)]
    recover: PoolRecover,
    #[command(flatten)]
    watch: watch::WatchFlags,
    #[command(flatten)]
    scrubs: scrubs::ScrubFlags,
    #[command(flatten)]
    pool: PoolFlags,
}

// Flags of the recovery of a pool. No doc comment: clap would take it for the summary.
#[derive(Debug, Args)]
#[command(next_help_heading = "Recovery of a pool")]
pub struct PoolRecover {
    /// Objects repaired at once
    #[arg(long, value_name = "N", default_value_t = 4, conflicts_with = "agents",
          value_parser = clap::value_parser!(u32).range(1..=64))]
    jobs: u32,
    /// Bytes per second that all nodes together may send (--limit-rate: each node)
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "agents")]
    limit_total: Option<u64>,
    /// Seconds that a node must be unavailable before its shards are rebuilt elsewhere
    #[arg(long, value_name = "SECONDS", default_value_t = 600, conflicts_with = "agents")]
    wait: u64,
    /// Keep watching the pool when everything is repaired
    #[arg(long, conflicts_with = "agents")]
    stay: bool,
    /// Seconds between surveys of the pool while there is nothing to repair
    #[arg(long, value_name = "SECONDS", default_value_t = 30, conflicts_with = "agents",
          value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// Attempts to repair an object before it is reported as failed
    #[arg(long, value_name = "N", default_value_t = 6, conflicts_with_all = ["agents", "stay"],
          value_parser = clap::value_parser!(u32).range(1..))]
    tries: u32,
    /// Print a line of progress on standard error every so many seconds, for logs
    #[arg(long, value_name = "SECONDS", conflicts_with = "agents")]
    progress: Option<u64>,
}

impl Coordinator {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        if self.agents.is_empty() {
            pool_recovery::run(&self, setup)
        } else {
            object_repair::run(&self, setup)
        }
    }
}
