//! `kiln coordinator` for a pool.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kiln_pool::Pool;
use kiln_recovery::{NodeLoad, PoolRecovered, RateLimits, RecoverOptions, StrategyLoad};
use kiln_recovery::{PoolRecovery, Scrubbing};
use kiln_stripe::PoolError;
use minijinja::context;
use serde::Serialize;

use super::paid::Paid;
use super::{
    Coordinator, control::RecoveryControl, hook::Hook, logs::LogKeeper, scrubs::PositionFile,
};
use crate::exit::{Exit, Failure, Result};
use crate::setup::{Setup, fresh_run, now_ms};
use crate::{cmd::pool::recode_by_tier, page::Board, print::fields};

/// Recovers the pool.
pub fn run(flags: &Coordinator, setup: &Setup) -> Result<Exit> {
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
    let price = paid.map(|paid| paid.table.priced(done.price.unwrap_or_default()));
    setup.tell("recovery of a pool", &json(&done, &price), context! {})?;
    Ok(exit(&done, flags.recover.stay).worse(left))
}

/// Refuses the flags that say how agents share the work: folders compute nothing.
fn needs_agents(flags: &Coordinator) -> Result<()> {
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

/// Bytes that nodes sent, the most at one of them, and both as planned.
fn sent(nodes: &BTreeMap<String, NodeLoad>) -> [u64; 4] {
    let (sum, most) = (
        |bytes: fn(&NodeLoad) -> u64| nodes.values().map(bytes).sum(),
        |bytes: fn(&NodeLoad) -> u64| nodes.values().map(bytes).max().unwrap_or(0),
    );
    let most = [most(NodeLoad::load), most(NodeLoad::planned_load)];
    [sum(|node| node.sent), most[0], sum(|node| node.planned_sent), most[1]]
}

fn json(done: &PoolRecovered, price: &impl Serialize) -> impl Serialize {
    let strategy = |(name, row): (&&'static str, &StrategyLoad)| {
        let [bytes_sent, max_node_load, planned_sent, planned_max_node_load] = sent(&row.nodes);
        let row = fields! {
            objects: row.objects,
            bytes_sent: bytes_sent,
            max_node_load: max_node_load,
            planned_sent: planned_sent,
            planned_max_node_load: planned_max_node_load,
        };
        (*name, row)
    };
    let node = |(id, load): (&String, &NodeLoad)| {
        fields! {
            node: id.clone(),
            bytes_read: load.read,
            bytes_sent: load.sent,
            bytes_received: load.received,
            bytes_written: load.written,
            planned_sent: load.planned_sent,
            planned_received: load.planned_received,
        }
    };
    let [bytes_sent, max_node_load, planned_sent, planned_max_node_load] = sent(&done.nodes);
    fields! {
        strategy: &done.strategy,
        objects: done.objects,
        repaired: done.repaired,
        central: done.central,
        waiting: done.waiting,
        unreadable: done.unreadable,
        missing: &done.missing,
        incomplete: done.incomplete,
        failed: &done.failed,
        failed_count: done.failed_count,
        bytes_rebuilt: done.rebuilt,
        resumed_bytes: done.resumed,
        bytes_read: done.total().read,
        bytes_sent: bytes_sent,
        max_node_load: max_node_load,
        planned_sent: planned_sent,
        planned_max_node_load: planned_max_node_load,
        over_bound or none: done.over_bound,
        central_bytes_read: done.central_read,
        central_bytes_written: done.central_written,
        strategies: done.strategies.iter().map(strategy).collect::<BTreeMap<_, _>>(),
        nodes: done.nodes.iter().map(node).collect::<Vec<_>>(),
        replanned: &done.replanned,
        replanned_count: done.replanned_count,
        plan_seconds: done.plan_seconds,
        stopped: done.stopped,
        seconds: done.seconds,
        price or none: price,
    }
}
