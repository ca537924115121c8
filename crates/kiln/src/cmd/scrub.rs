//! `kiln scrub`

use clap::Args;
use kiln_folders::Folders;
use kiln_pool::repair::queue::{RepairQueue, Rules};
use kiln_pool::{Index, Pool, ScrubReport, ScrubRequest};
use kiln_stripe::Depth;
use kiln_volume::{LogCheck, LogReport, NAMES};
use minijinja::context;

use crate::args::{help, in_pool};
use crate::exit::{Exit, Failure, Result};
use crate::setup::{PoolFlags, Setup, fresh_run, logs, now_ms, volumes};
use crate::{print::fields, volume_logs};

/// Check a pool for corruption, missing shards and leftover files
///
/// Damage is remembered for the next kiln repair. Files that belong to no object (of
/// interrupted puts, of nodes that were unavailable) are removed. Of volumes not in use the
/// copies of their logs are compared. Exit code 1 means: damage was found, and kiln repair can fix
/// it; 2 means that an object, or what a log alone has, cannot be read.
#[derive(Debug, Args)]
#[command(after_help = help("scrub"))]
pub struct Scrub {
    /// Only objects whose names begin with this
    #[arg(default_value = "", value_parser = in_pool)]
    prefix: String,
    /// Check headers and trailers only: finds what is missing, not what is corrupt
    #[arg(long, conflicts_with = "deep")]
    quick: bool,
    /// Also compute parity again and compare it with what is stored
    #[arg(long)]
    deep: bool,
    /// Unfinished files older than this many hours are leftovers; a put that takes longer fails
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    grace: u64,
    /// Change nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Scrub {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let pool = self.pool.open(setup)?;
        let _lock = self.pool.lock("repair")?;
        let mut index = self.pool.index(&pool, setup)?;
        let grace_ms = self.grace.saturating_mul(3_600_000);
        if !self.dry_run && self.prefix.is_empty() {
            let (now, before) = (now_ms(), now_ms().saturating_sub(grace_ms));
            if Folders(&pool).remove_empty(&index, &fresh_run, now, before)? > 0 {
                drop(index);
                index = self.pool.index(&pool, setup)?;
            }
        }
        let mut queue = RepairQueue::new(Rules::default());
        let depth = match (self.quick, self.deep) {
            (true, _) => Depth::Headers,
            (false, false) => Depth::Data,
            (false, true) => Depth::Parity,
        };
        let req = ScrubRequest {
            depth,
            now_ms: now_ms(),
            grace_ms,
            prefix: &self.prefix,
            dry_run: self.dry_run,
        };
        let outcome = pool.repairer().scrub(&index, &mut queue, &req, &setup.settings());
        let mut report = outcome?;
        let (logs, log_faults) = self.logs(pool, &index, setup)?;
        setup.observer.finish();
        report.seconds = setup.seconds();
        let found = exit(&report)
            .worse(volume_logs::exit(&logs))
            .worse(volume_logs::fault_exit(&log_faults));
        let log_words =
            logs.iter().map(|log| format!("{}; run kiln repair", volume_logs::words(log)));
        let log_words = log_words.chain(log_faults.iter().map(volume_logs::fault_words));
        let more = context! { log_words => log_words.collect::<Vec<_>>() };
        let shown = fields! {
            #[serde(flatten)]
            report: &report,
            // Logs of volumes that lack copies, and those whose copies are not the same.
            logs: &logs,
            log_faults: &log_faults,
        };
        setup.tell("scrub", &shown, more)?;
        Ok(found)
    }

    /// Logs of volumes that lack copies, and those whose copies are not the same.
    fn logs(
        &self,
        pool: Pool,
        index: &Index,
        setup: &Setup,
    ) -> Result<(Vec<LogReport>, Vec<LogCheck>), Failure> {
        let rim = volumes::rim_over(pool, &self.pool, setup);
        let mut all = logs::all(&rim, index, setup)?;
        all.retain(|log| format!("{NAMES}/{}", log.volume).starts_with(&self.prefix));
        let faults = if self.quick { Vec::new() } else { logs::faulty(&rim, &all, setup) };
        all.retain(|log| !log.is_whole());
        Ok((all, faults))
    }
}

fn exit(report: &ScrubReport) -> Exit {
    match (report.unreadable, report.incomplete, report.clean) {
        (0, false, true) => Exit::Done,
        (0, false, false) => Exit::Damaged,
        _ => Exit::NotRecoverable,
    }
}
