//! `kiln pool finalize`

use clap::Args;
use kiln_net::agent::PeerRole;
use kiln_pool::map::LATEST;
use minijinja::context;
use serde_json::json;

use crate::exit::{Exit, Result};
use crate::setup::{PoolFlags, Setup};

#[derive(Debug, Args)]
pub struct Finalize {
    /// Only print what is in force, and which members hold back what is not
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pool: PoolFlags,
}

impl Finalize {
    pub fn least_role(&self) -> Option<PeerRole> {
        (!self.dry_run).then_some(PeerRole::Administrator)
    }

    pub fn run(self, setup: &Setup) -> Result<Exit> {
        let _lock = (!self.dry_run).then(|| self.pool.lock("config")).transpose()?;
        let pool = self.pool.open(setup)?;
        let mut config = pool.config().clone();
        // A description of version 1 is read as one by which nothing was settled yet.
        let mut version = if config.settled == 0 { 1 } else { config.version };
        if version == 1 && !self.dry_run {
            config = pool.members().change(false, &setup.settings(), |_| Ok(()))?;
            self.pool.reopen(config.clone(), setup)?;
            version = config.version;
        }
        let members = pool.map().releases();
        setup.observer.finish();
        let least = members.iter().filter_map(|member| member.reads).min().unwrap_or(LATEST);
        let features = config.features();
        let used = features.iter().map(|(name, version)| json!({"name": name, "version": version}));
        let report = json!({
            "pool": config.name, "version": version, "features": used.collect::<Vec<_>>(),
            "reads": LATEST, "members_read": least, "members": members,
        });
        setup.tell("pool finalize", &report, context! {})
    }
}
