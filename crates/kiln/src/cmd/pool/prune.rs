//! `kiln pool prune`

use clap::Args;

use crate::exit::{Exit, Result};
use crate::print::{count, one_line};
use crate::setup::{PoolFlags, Setup, now_ms};
use crate::sizes;

#[derive(Debug, Args)]
pub struct Prune {
    /// Only print what would be removed
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Prune {
    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let pool = self.pool.open(setup)?;
        let index = self.pool.index(&pool, setup)?;
        let when = (now_ms(), self.dry_run);
        let report = pool.repairer().prune(&index, when, &setup.settings())?;
        setup.observer.finish();
        setup.report(&report, || {
            let would = if self.dry_run { "would be " } else { "" };
            let line = |(name, version): &(String, u64)| {
                format!("{} version {version} {would}removed\n", one_line(name))
            };
            let lines: String = report.versions.iter().map(line).collect();
            let versions = count(report.removed, "version");
            let (bytes, kept) = (sizes::show(report.bytes), report.kept);
            format!("{lines}{versions} {would}removed, {bytes}; {kept} kept\n")
        })
    }
}
