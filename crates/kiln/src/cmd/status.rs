//! `kiln status`

use std::time::Duration;

use clap::Args;
use kiln_pool::PoolStatus;
use kiln_pool::repair::queue::{RepairQueue, Rules};
use kiln_stripe::{Observer, PoolError};
use kiln_volume::LogReport;
use minijinja::context;

use crate::exit::{Exit, Failure, Result};
use crate::setup::{PoolFlags, Setup, logs, now_ms, volumes};
use crate::{args::help, names::lock, print::fields, volume_logs};

/// Time in which a put gives its shards a manifest, and a removal deletes it: ample.
const MOMENT: Duration = Duration::from_millis(500);

/// Show the state of a pool: nodes, objects, what is endangered
///
/// From file names alone: quick, but it does not notice corruption, which kiln scrub finds. Logs of
/// volumes that lack copies are named. Exit code 1 means that something is missing or unavailable,
/// 2 that an object, or what a log alone has, cannot be read, or that so many nodes are unavailable
/// that there may be objects which only they know.
#[derive(Debug, Args)]
#[command(after_help = help("status"))]
pub struct Status {
    /// Look again every so many seconds
    #[arg(long, value_name = "SECONDS")]
    watch: Option<u64>,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Status {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let mut first: Option<(f64, u64)> = None;
        loop {
            let (status, logs) = match self.look(setup) {
                // A repair may have ended between two questions.
                Err(Failure::Pool(PoolError::MapChanged { .. })) => self.look(setup)?,
                status => status?,
            };
            let now = setup.seconds();
            let (repair_here, left) = (self.repair_here(), left(first, now, status.to_rebuild));
            // What is done is measured from the most that there was to do.
            if first.is_none_or(|(_, bytes)| bytes <= status.to_rebuild) {
                first = Some((now, status.to_rebuild));
            }
            let found = exit(&status).worse(volume_logs::exit(&logs));
            let log_words: Vec<_> = logs.iter().map(volume_logs::words).collect();
            let log_copies = logs.iter().map(LogReport::here).min();
            let shown = fields! {
                #[serde(flatten)]
                status: &status,
                // Logs of volumes that lack copies.
                logs: logs,
                // A repair, scrub or coordinator works on this description, on this machine.
                repair_here: repair_here,
                // Until all is rebuilt, at the pace since the first look; --watch knows it.
                seconds_left or none: left,
            };
            setup.tell("status", &shown, context! { log_words, log_copies })?;
            let Some(seconds) = self.watch else { return Ok(found) };
            std::thread::sleep(Duration::from_secs(seconds.max(1)));
        }
    }

    /// Returns whether a repair holds its lock. Creates no file to find out.
    fn repair_here(&self) -> bool {
        lock(&self.pool.path(), "repair").exists()
            && matches!(self.pool.lock("repair"), Err(Failure::Pool(PoolError::Refused { .. })))
    }

    fn look(&self, setup: &Setup) -> Result<(PoolStatus, Vec<LogReport>), Failure> {
        let start = setup.seconds();
        let pool = self.pool.open_quietly(setup)?;
        let survey = || {
            let index = self.pool.index_to_list(&pool, setup)?;
            let status = pool.repairer().survey(
                &index,
                &mut RepairQueue::new(Rules::default()),
                now_ms(),
            )?;
            Ok::<_, Failure>((index, status))
        };
        let (mut index, mut status) = survey()?;
        if status.unclaimed > 0 {
            // What is just being put or removed has shards that no manifest asks for.
            drop(index);
            std::thread::sleep(MOMENT);
            (index, status) = survey()?;
        }
        if !index.is_kept() {
            setup.observer.warn("local index in use: findings of scrubs are not counted");
        }
        let rim = volumes::rim_over(pool, &self.pool, setup);
        let logs = logs::lacking(&rim, &index, setup)?;
        setup.observer.finish();
        status.seconds = setup.seconds() - start;
        Ok((status, logs))
    }
}

fn exit(status: &PoolStatus) -> Exit {
    let away = status.nodes.iter().any(|node| !node.present);
    let whole = status.whole == status.objects && status.unclaimed == 0;
    let unknown = status.incomplete || status.unasked > 0;
    match (status.unreadable, unknown, whole && !away) {
        (0, false, true) => Exit::Done,
        (0, false, false) => Exit::Damaged,
        _ => Exit::NotRecoverable,
    }
}

fn left(first: Option<(f64, u64)>, now: f64, bytes: u64) -> Option<u64> {
    let (then, before) = first?;
    let done = before.checked_sub(bytes).filter(|done| *done > 0)?;
    Some((bytes as f64 / done as f64 * (now - then)).ceil() as u64)
}
