//! `kiln status`

use std::time::Duration;

use clap::Args;
use kiln_pool::PoolStatus;
use kiln_pool::repair::queue::{RepairQueue, Rules};
use kiln_stripe::{Observer, PoolError};
use kiln_volume::LogReport;
use minijinja::context;
use serde::Serialize;

use crate::exit::{Exit, Failure, Result};
use crate::print::{count, more_losses};
use crate::setup::{PoolFlags, Setup, logs, now_ms, volumes};
use crate::{args::help, names::lock, sizes, volume_logs};

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
            let work = Work {
                repair_here: self.repair_here(),
                seconds_left: left(first, now, status.to_rebuild),
            };
            // What is done is measured from the most that there was to do.
            if first.is_none_or(|(_, bytes)| bytes <= status.to_rebuild) {
                first = Some((now, status.to_rebuild));
            }
            let found = exit(&status).worse(volume_logs::exit(&logs));
            let shown = Shown { status: &status, logs, work };
            let log_words: Vec<_> = shown.logs.iter().map(volume_logs::words).collect();
            let more = context! { log_words, answers => answers(&shown) };
            setup.tell("status", &shown, more)?;
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

/// Running and due work.
#[derive(Serialize)]
struct Work {
    /// A repair, scrub or coordinator works on this description, on this machine.
    repair_here: bool,
    /// Seconds until all is rebuilt, at the pace since the first look; `--watch` knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds_left: Option<u64>,
}

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    status: &'a PoolStatus,
    /// Logs of volumes that lack copies.
    logs: Vec<LogReport>,
    #[serde(flatten)]
    work: Work,
}

fn left(first: Option<(f64, u64)>, now: f64, bytes: u64) -> Option<u64> {
    let (then, before) = first?;
    let done = before.checked_sub(bytes).filter(|done| *done > 0)?;
    Some((bytes as f64 / done as f64 * (now - then)).ceil() as u64)
}

/// Answers an operator's first questions: is all data safe, what is being done, until when.
fn answers(Shown { status, logs, work }: &Shown<'_>) -> String {
    let endangered = status.objects.saturating_sub(status.whole);
    let least = status.endangered.keys().next().copied().unwrap_or(0);
    let least_log = logs.iter().map(|log| log.here() as i32 - 1).min().unwrap_or(0);
    let unknown = status.incomplete || status.unasked > 0;
    let safe = match (status.unreadable, unknown, endangered) {
        (0, ..) if least_log < 0 => {
            "is all data safe?    NO: unsealed writes of a volume are unavailable (no log replica \
             reachable)"
                .to_owned()
        }
        (0, false, 0) if !logs.is_empty() => format!(
            "is all data safe?    all readable; the least redundant log tolerates {}",
            more_losses(least_log)
        ),
        (0, false, 0) => "is all data safe?    yes".to_owned(),
        (0, false, _) => format!(
            "is all data safe?    all readable; the least redundant object tolerates {}",
            more_losses(least)
        ),
        (0, true, _) => "is all data safe?    NOT KNOWN: too many nodes are unavailable".to_owned(),
        (lost, ..) => format!("is all data safe?    NO: {} cannot be read", count(lost, "object")),
    };
    let doing = match (work.repair_here, status.to_rebuild) {
        (true, _) => "a repair, scrub or coordinator works on it, on this machine",
        (false, 0) if !logs.is_empty() => {
            "nothing on this machine; run kiln repair (skip if kiln nbd is running for this volume)"
        }
        (false, 0) => "nothing, and nothing is due",
        (false, _) => {
            "nothing on this machine; run kiln repair (skip if a coordinator is running elsewhere)"
        }
    };
    let end = match (status.to_rebuild, work.seconds_left) {
        (0, _) => "nothing is to be rebuilt".to_owned(),
        (bytes, Some(seconds)) => {
            let minutes = (seconds / 60, seconds % 60);
            format!("in {}:{:02} min; {} to go", minutes.0, minutes.1, sizes::show(bytes))
        }
        (bytes, None) => format!("{} to go; --watch 5 measures the pace", sizes::show(bytes)),
    };
    format!("{safe}\nwhat is being done?  {doing}\nwhen is it finished? {end}\n")
}
