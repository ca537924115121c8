//! `kiln pool finalize`

use clap::Args;
use kiln_net::agent::PeerRole;
use kiln_pool::map::LATEST;
use serde_json::json;

use crate::exit::{Exit, Result};
use crate::print::table;
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
        let unasked = members.iter().filter(|member| member.reads.is_none()).count();
        let features = config.features();
        let used = features.iter().map(|(name, version)| json!({"name": name, "version": version}));
        let report = json!({
            "pool": config.name, "version": version, "features": used.collect::<Vec<_>>(),
            "reads": LATEST, "members_read": least, "members": members,
        });
        setup.report(&report, || {
            let none = "nothing of later releases";
            let names: Vec<&str> = features.iter().map(|(name, _)| *name).collect();
            let reads = |reads: Option<u32>| match reads {
                Some(reads) => format!("up to version {reads}"),
                None => "cannot be asked".to_owned(),
            };
            let rows: Vec<Vec<String>> =
                members.iter().map(|one| vec![one.id.clone(), reads(one.reads)]).collect();
            let newer = match (unasked, least) {
                (0, LATEST) => "may begin, and cannot be rolled back".to_owned(),
                (0, least) => format!("beyond {least} is held back by members of earlier releases"),
                _ => "is held back by members that cannot be asked".to_owned(),
            };
            format!(
                "pool {}: description version {version}; this program reads up to {LATEST}\n  in \
                 use: {}\n  a newer version {newer}\n{}",
                config.name,
                if names.is_empty() { none.to_owned() } else { names.join(", ") },
                table(&["node", "reads"], &rows),
            )
        })
    }
}
