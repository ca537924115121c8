//! `kiln repair` without folders: a whole pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kiln_pool::{Index, Pool};
use kiln_recovery::{Control, OnDemand, PoolRecovered, PoolRecovery, RecoverOptions};
use kiln_stripe::{Observer, Settings};
use minijinja::context;
use serde::Serialize;

use crate::exit::{Exit, Result};
use crate::print::fields;
use crate::setup::{PoolFlags, Prices, Setup, fresh_run, logs, now_ms, volumes};
use crate::volume_logs::{self, Tended};

/// Request for a repair.
pub struct Asked {
    /// Rebuild what unavailable nodes have.
    pub away: bool,
    /// Write nothing.
    pub dry_run: bool,
    /// Costs of reads, by ids of nodes.
    pub prices: Option<Prices>,
}

/// Repairs a pool.
pub fn run(flags: &PoolFlags, asked: &Asked, setup: &Setup) -> Result<Exit> {
    let Asked { away, dry_run, ref prices } = *asked;
    let mut pool = flags.open(setup)?;
    let _lock = if dry_run { None } else { Some(flags.lock("repair")?) };
    if !dry_run {
        pool = members(pool, flags, away, setup)?;
    }
    let index = flags.index(&pool, setup)?;
    let ids = || pool.config().node.iter().map(|node| &node.id[..]);
    let devices = prices.as_ref().map(|prices| prices.as_devices(ids())).transpose()?;
    let settings = Settings { devices: devices.as_ref(), ..setup.settings() };
    let pool = Arc::new(pool);
    let outcome = recover(&pool, &index, OnDemand { away, dry_run }, flags, (setup, &settings));
    let pool = Arc::into_inner(pool).map_or_else(|| flags.open_quietly(setup), Ok)?;
    let rim = volumes::rim_over(pool, flags, setup);
    let lacking = logs::lacking(&rim, &index, setup)?;
    // Closing a volume puts objects, and may need the index.
    drop(index);
    let tended = match dry_run {
        true => Vec::new(),
        false => logs::tend(&rim, lacking, away),
    };
    setup.observer.finish();
    let mut report = outcome?;
    report.seconds = setup.seconds();
    let price = prices.as_ref().zip(report.expected);
    let price = price.map(|(prices, expected)| prices.priced(expected));
    show(&report, &tended, &price, setup)?;
    Ok(exit(&report).worse(volume_logs::tended_exit(&tended)))
}

/// Repairs all objects of an open pool, the most endangered first. The index stays the caller's.
/// Errors: the index, or a pool that cannot be opened again. An object that cannot be repaired is
/// in the report, and the others are.
pub fn recover(
    pool: &Arc<Pool>,
    index: &Index,
    on_demand: OnDemand,
    flags: &PoolFlags,
    (setup, settings): (&Setup, &Settings<'_>),
) -> Result<PoolRecovered> {
    let (opens, refreshes) = (AtomicBool::new(false), AtomicBool::new(false));
    let open = || match opens.swap(true, Ordering::Relaxed) {
        false => Ok(Arc::clone(pool)),
        true => flags.open_quietly(setup).map(Arc::new).map_err(volumes::of_pool),
    };
    let index = |pool: &Pool| match refreshes.swap(true, Ordering::Relaxed) {
        false => Ok(index.clone()),
        true => flags.up_to_date(Ok(index.clone()), pool, setup).map_err(volumes::of_pool),
    };
    let recovery = PoolRecovery {
        open: &open,
        index: &index,
        network: setup.network_of_none()?,
        who: "kiln repair",
        options: RecoverOptions::on_demand(on_demand),
        control: &Command(setup),
        settings: *settings,
        fresh: &fresh_run,
        scrubbing: None,
        idle: None,
    };
    Ok(recovery.run()?)
}

/// The command that runs, which hears of the repair.
struct Command<'a>(&'a Setup);

impl Control for Command<'_> {
    fn now_ms(&self) -> u64 {
        now_ms()
    }

    fn begin(&self, bytes: u64) {
        self.0.observer.begin("repair", Some(bytes));
    }

    fn warn(&self, message: &str) {
        self.0.observer.warn(message);
    }
}

/// Prints the report of a repair.
pub fn show(
    report: &PoolRecovered,
    logs: &[Tended],
    price: &impl Serialize,
    setup: &Setup,
) -> Result<Exit> {
    let log_words: Vec<_> = logs.iter().map(Tended::words).collect();
    let shown = fields! {
        #[serde(flatten)]
        report: report,
        // Logs of volumes that lacked copies.
        logs: logs,
        price or none: price,
    };
    setup.tell("repair of a pool", &shown, context! { log_words })
}

/// Updates the members: nodes that are back take part, and with `away` those that are unavailable
/// do not, so that readers look for nothing there and further losses are survived.
fn members(pool: Pool, flags: &PoolFlags, away: bool, setup: &Setup) -> Result<Pool> {
    let pool = match pool.members().attend(|_| away, &setup.settings())? {
        Some(config) => flags.reopen(config, setup)?,
        None => pool,
    };
    if away && !pool.missing().is_empty() {
        setup.observer.warn("too few nodes are left to do without those that are unavailable");
    }
    Ok(pool)
}

fn exit(report: &PoolRecovered) -> Exit {
    match (report.unreadable, report.failed_count, report.waiting) {
        _ if report.incomplete => Exit::NotRecoverable,
        (0, 0, 0) if report.missing.is_empty() => Exit::Done,
        (0, 0, _) => Exit::Damaged,
        (0, ..) => Exit::Io,
        _ => Exit::NotRecoverable,
    }
}
