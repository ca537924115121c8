//! `kiln coordinator` for a pool.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kiln_pool::Pool;
use kiln_recovery::{NodeLoad, PoolRecovered, RateLimits, RecoverOptions, StrategyLoad};
use kiln_recovery::{PoolRecovery, Scrubbing};
use kiln_stripe::PoolError;
use serde::Serialize;

use super::Coordinator;
use super::control::RecoveryControl;
use super::hook::Hook;
use super::logs::LogKeeper;
use super::paid::{Paid, PriceReport};
use super::scrubs::PositionFile;
use crate::cmd::pool::recode_by_tier;
use crate::exit::{Exit, Failure};
use crate::page::Board;
use crate::print::{INCOMPLETE, count, pace, table};
use crate::setup::{Setup, fresh_run, now_ms};
use crate::sizes;

/// Work of one node.
#[derive(Debug, Serialize)]
struct NodeReport {
    node: String,
    bytes_read: u64,
    bytes_sent: u64,
    bytes_received: u64,
    bytes_written: u64,
    planned_sent: u64,
    planned_received: u64,
}

/// Work by plans of one strategy.
#[derive(Debug, Serialize)]
struct StrategyReport {
    objects: u64,
    bytes_sent: u64,
    max_node_load: u64,
    planned_sent: u64,
    planned_max_node_load: u64,
}

/// Report of the recovery.
#[derive(Debug, Serialize)]
struct Report {
    strategy: String,
    objects: u64,
    repaired: u64,
    central: u64,
    waiting: u64,
    unreadable: u64,
    missing: Vec<String>,
    incomplete: bool,
    failed: Vec<(String, String)>,
    failed_count: u64,
    bytes_rebuilt: u64,
    resumed_bytes: u64,
    bytes_read: u64,
    bytes_sent: u64,
    max_node_load: u64,
    planned_sent: u64,
    planned_max_node_load: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    over_bound: Option<f64>,
    central_bytes_read: u64,
    central_bytes_written: u64,
    strategies: BTreeMap<&'static str, StrategyReport>,
    nodes: Vec<NodeReport>,
    replanned: Vec<String>,
    replanned_count: u64,
    plan_seconds: f64,
    stopped: bool,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    price: Option<PriceReport>,
}

/// Recovers the pool.
pub fn run(flags: &Coordinator, setup: &Setup) -> Result<Exit, Failure> {
    let config = flags.pool.config()?;
    // The cluster's key is wanted now and not by the first repair; folders need none.
    let agent = config.node.iter().find_map(|node| node.url.parse().ok());
    let network = match agent {
        Some(address) => setup.network(&address)?,
        None => needs_agents(flags).and_then(|()| setup.network_of_none())?,
    };
    let ids = config.node.iter().map(|node| &node.id[..]);
    let paid = Paid::read(flags.price.as_deref(), ids)?;
    let _lock = flags.pool.lock("repair")?;
    let limits = RateLimits {
        node: setup.limit_rate().unwrap_or(0),
        total: flags.recover.limit_total.unwrap_or(0),
    };
    let lines = flags.recover.progress.map(|seconds| Duration::from_secs(seconds.max(1)));
    let scrubs = PositionFile::of(&flags.pool);
    let position = scrubs.read()?;
    let board = flags.watch.wanted().then(|| Arc::new(Board::new(&config.name, now_ms)));
    if let Some(board) = &board {
        flags.watch.serve(board, setup)?;
    }
    let hook = flags.scrubs.on_finding().map(|command| Hook::new(command, &config.name));
    let control = RecoveryControl::new(setup, limits, flags.pool.limits_path(), lines, scrubs);
    let logs = LogKeeper::new(&flags.pool, setup, board.clone());
    let control = control.with(board, hook);
    let open_by = |setup: &Setup| match flags.pool.open_quietly(setup) {
        Ok(pool) => Ok(pool),
        Err(Failure::Pool(error)) => Err(error),
        Err(other) => Err(PoolError::Usage { what: other.to_string() }),
    };
    let slowly = flags.scrubs.setup(setup)?;
    let (open, open_slowly) = (|| open_by(setup), || open_by(&slowly));
    let index = |pool: &Pool| match flags.pool.index(pool, setup) {
        Ok(index) => {
            logs.look(&index);
            Ok(index)
        }
        Err(Failure::Pool(error)) => Err(error),
        Err(other) => Err(PoolError::Index { what: other.to_string() }),
    };
    let by_tier = |pool: &Pool| recode_by_tier(&flags.pool, pool, setup);
    let recovery = PoolRecovery {
        open: &|| open().map(Arc::new),
        index: &index,
        network,
        who: &who(),
        options: RecoverOptions {
            prices: paid.as_ref().map(|paid| paid.nodes.clone()),
            ..options(flags, setup)
        },
        control: &control,
        settings: setup.settings(),
        fresh: &fresh_run,
        scrubbing: flags.scrubs.every().map(|_| Scrubbing {
            open: &open_slowly,
            position,
            depth: flags.scrubs.depth(),
        }),
        idle: flags.recover.stay.then_some(&by_tier),
    };
    let outcome = recovery.run();
    setup.observer.finish();
    let left = logs.end();
    let done = outcome?;
    let price = paid.map(|paid| paid.report(done.price));
    let report = Report { price, ..report(&done) };
    setup.report(&report, || text(&report, setup))?;
    Ok(exit(&done, flags.recover.stay).worse(left))
}

/// Refuses the flags that say how agents share the work: folders compute nothing.
fn needs_agents(flags: &Coordinator) -> Result<(), Failure> {
    let given = [
        ("--strategy", flags.strategy.is_some()),
        ("--to", !flags.to.is_empty()),
        ("--price", flags.price.is_some()),
    ];
    match given.into_iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => {
            let problem = "no node of this pool is an agent; folders cannot compute".to_owned();
            Err(Failure::Flag { flag, problem })
        }
    }
}

/// Name of this coordinator in messages of others.
fn who() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = if host.trim().is_empty() { "an unnamed machine" } else { host.trim() };
    format!("kiln coordinator on {host}, process {}", std::process::id())
}

fn options(flags: &Coordinator, setup: &Setup) -> RecoverOptions {
    let spread = flags.to.len() == 1 && flags.to[0] == "spread";
    let defaults = RecoverOptions::default();
    RecoverOptions {
        strategy: flags.strategy.clone().unwrap_or_else(|| defaults.strategy.clone()),
        to: if spread { Vec::new() } else { flags.to.clone() },
        jobs: flags.recover.jobs as usize,
        slice: flags.window.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX).max(1)),
        windows: flags.windows,
        wait_ms: flags.recover.wait.saturating_mul(1000),
        stay: flags.recover.stay,
        every: Duration::from_secs(flags.recover.every),
        tries: flags.recover.tries,
        patience: Duration::from_secs(flags.patience),
        scrub_every: flags.scrubs.every(),
        seed: setup.seed,
        ..defaults
    }
}

fn exit(done: &PoolRecovered, stay: bool) -> Exit {
    // Who stays ends by being told to, so that is no sign of anything left to do.
    let cut_short = done.stopped && !stay;
    let waits = done.waiting > 0 || cut_short || !done.missing.is_empty();
    match (done.unreadable, done.failed_count, waits) {
        _ if done.incomplete => Exit::NotRecoverable,
        (0, 0, false) => Exit::Done,
        (0, 0, true) => Exit::Damaged,
        (0, ..) => Exit::Io,
        _ => Exit::NotRecoverable,
    }
}

fn most<'a>(nodes: impl Iterator<Item = &'a NodeLoad>) -> (u64, u64) {
    let loads = nodes.map(|node| (node.load(), node.planned_load()));
    loads.fold((0, 0), |a, b| (a.0.max(b.0), a.1.max(b.1)))
}

fn strategy(row: &StrategyLoad) -> StrategyReport {
    let (max_node_load, planned_max_node_load) = most(row.nodes.values());
    StrategyReport {
        objects: row.objects,
        bytes_sent: row.nodes.values().map(|node| node.sent).sum(),
        max_node_load,
        planned_sent: row.nodes.values().map(|node| node.planned_sent).sum(),
        planned_max_node_load,
    }
}

fn report(done: &PoolRecovered) -> Report {
    let total = done.total();
    let (max_node_load, planned_max_node_load) = most(done.nodes.values());
    let node = |(id, load): (&String, &NodeLoad)| NodeReport {
        node: id.clone(),
        bytes_read: load.read,
        bytes_sent: load.sent,
        bytes_received: load.received,
        bytes_written: load.written,
        planned_sent: load.planned_sent,
        planned_received: load.planned_received,
    };
    Report {
        strategy: done.strategy.clone(),
        objects: done.objects,
        repaired: done.repaired,
        central: done.central,
        waiting: done.waiting,
        unreadable: done.unreadable,
        missing: done.missing.clone(),
        incomplete: done.incomplete,
        failed: done.failed.clone(),
        failed_count: done.failed_count,
        bytes_rebuilt: done.rebuilt,
        resumed_bytes: done.resumed,
        bytes_read: total.read,
        bytes_sent: total.sent,
        max_node_load,
        planned_sent: total.planned_sent,
        planned_max_node_load,
        over_bound: done.over_bound,
        central_bytes_read: done.central_read,
        central_bytes_written: done.central_written,
        strategies: done.strategies.iter().map(|(name, row)| (*name, strategy(row))).collect(),
        nodes: done.nodes.iter().map(node).collect(),
        replanned: done.replanned.clone(),
        replanned_count: done.replanned_count,
        plan_seconds: done.plan_seconds,
        stopped: done.stopped,
        seconds: done.seconds,
        price: None,
    }
}

fn text(report: &Report, setup: &Setup) -> String {
    let mut text = match report.repaired {
        0 => format!("{}: nothing repaired\n", count(report.objects, "object")),
        repaired => format!(
            "{} of {} repaired and verified\n",
            count(repaired, "object"),
            sizes::show(report.bytes_rebuilt)
        ),
    };
    if report.resumed_bytes > 0 {
        text += &format!("  of these, {} from an earlier run\n", sizes::show(report.resumed_bytes));
    }
    if report.bytes_sent > 0 {
        text += &format!(
            "read {}, sent {}, most at one node {} (planned {})\n",
            sizes::show(report.bytes_read),
            sizes::show(report.bytes_sent),
            sizes::show(report.max_node_load),
            sizes::show(report.planned_max_node_load),
        );
        text += &strategies(report);
    }
    if let Some(price) = &report.price {
        text += &price.words();
    }
    if report.central > 0 {
        text += &format!(
            "{} repaired through this machine: read {}, wrote {}\n",
            count(report.central, "object"),
            sizes::show(report.central_bytes_read),
            sizes::show(report.central_bytes_written)
        );
    }
    if report.replanned_count > 0 {
        text += &format!("planned again {} times\n", report.replanned_count);
    }
    if report.waiting > 0 {
        text += &format!("{} not repaired yet\n", count(report.waiting, "object"));
    }
    if report.unreadable > 0 {
        text += &format!("{} NOT READABLE now\n", count(report.unreadable, "object"));
    }
    if !report.missing.is_empty() {
        text += &format!("unavailable: {}\n", report.missing.join(", "));
    }
    if report.incomplete {
        text += INCOMPLETE;
    }
    for (object, why) in &report.failed {
        text += &format!("  {object}: {why}\n");
    }
    if setup.verbose {
        text += &nodes(report);
    }
    text += &format!("{}\n", pace(report.bytes_rebuilt, report.seconds));
    text
}

fn strategies(report: &Report) -> String {
    let head = ["strategy", "objects", "sent", "planned", "most at one node", "planned"];
    let row = |(name, row): (&&'static str, &StrategyReport)| {
        vec![
            (*name).to_owned(),
            row.objects.to_string(),
            sizes::show(row.bytes_sent),
            sizes::show(row.planned_sent),
            sizes::show(row.max_node_load),
            sizes::show(row.planned_max_node_load),
        ]
    };
    table(&head, &report.strategies.iter().map(row).collect::<Vec<_>>())
}

fn nodes(report: &Report) -> String {
    let head = ["node", "read", "sent", "received", "wrote"];
    let row = |node: &NodeReport| {
        let bytes = [node.bytes_read, node.bytes_sent, node.bytes_received, node.bytes_written];
        std::iter::once(node.node.clone()).chain(bytes.map(sizes::show)).collect()
    };
    table(&head, &report.nodes.iter().map(row).collect::<Vec<_>>())
}
