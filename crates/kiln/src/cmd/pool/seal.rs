//! `kiln pool seal`

use clap::Args;
use kiln_pool::SealReport;

use super::create::warn_of_key;
use crate::exit::{Exit, Failure};
use crate::print::{Stream, count};
use crate::setup::{PoolFlags, Setup, now_ms};

// Arguments; the summary is in `pool.rs`.
#[derive(Debug, Args)]
pub struct Seal {
    #[command(flatten)]
    pool: PoolFlags,
}

impl Seal {
    pub fn run(mut self, setup: &Setup) -> Result<Exit, Failure> {
        let _lock = self.pool.lock("repair")?;
        // The pool may not say yet that it has one.
        self.pool.pool_key = Some(self.pool.key_path().0);
        if self.pool.make_key()? {
            warn_of_key(&self.pool, setup);
        }
        let mut pool = self.pool.open(setup)?;
        if let Some(config) = pool.begin_sealing(&setup.settings())? {
            pool = self.pool.reopen(config, setup)?;
        }
        let index = self.pool.index(&pool, setup)?;
        let outcome = pool.seal_all(&index, now_ms(), &setup.settings());
        setup.observer.finish();
        let (config, report) = outcome?;
        self.pool.write(&config)?;
        show(&report, setup)?;
        Ok(Exit::Done)
    }
}

fn show(report: &SealReport, setup: &Setup) -> Result<(), Failure> {
    if setup.json {
        return Stream::Stdout.json(report);
    }
    if setup.quiet {
        return Ok(());
    }
    let manifests = count(report.manifests, "manifest");
    let mut text = format!("{manifests}, {} sealed now, by key {}\n", report.sealed, report.key);
    if report.shards_with_crc > 0 {
        text += &format!(
            "{} of before, in shards with CRCs: a forged shard of theirs is found by kiln scrub \
             --deep, not by every read; put them again to change that\n",
            count(report.shards_with_crc, "object")
        );
    }
    Stream::Stdout.text(&text)
}
