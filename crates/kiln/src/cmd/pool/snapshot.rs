//! `kiln pool snapshot`

use clap::Args;
use kiln_pool::{PoolConfig, Snapshot as Kept};
use kiln_stripe::PoolError;
use minijinja::context;

use crate::args::in_pool;
use crate::exit::{Exit, Failure};
use crate::setup::{PoolFlags, Setup, now_ms};

// Arguments; the summary is in `pool.rs`.
#[derive(Debug, Args)]
pub struct Snapshot {
    /// Its name, which --at takes as a time: letters, digits, '.', '_' or '-', a letter first
    name: Option<String>,

    /// Of objects whose names begin with this
    #[arg(default_value = "", value_parser = in_pool)]
    prefix: String,

    /// Remove the snapshot; kiln pool prune then removes the versions that no rule keeps
    #[arg(long, requires = "name")]
    remove: bool,

    #[command(flatten)]
    pool: PoolFlags,
}

impl Snapshot {
    pub fn run(self, setup: &Setup) -> Result<Exit, Failure> {
        let _lock = self.name.as_ref().map(|_| self.pool.lock("config")).transpose()?;
        let pool = self.pool.open(setup)?;
        let mut config = pool.config().clone();
        if let Some(name) = self.name {
            let known = |one: &Kept| one.name == name;
            let edit = |next: &mut PoolConfig| {
                let what = match (self.remove, next.snapshot.iter().position(known)) {
                    (true, Some(at)) => {
                        next.snapshot.remove(at);
                        return Ok(());
                    }
                    (true, None) => "there is none of that name; kiln pool snapshot lists them",
                    (false, Some(_)) => "there is one of that name; give another one",
                    (false, None) => {
                        let (name, prefix) = (name.clone(), self.prefix.clone());
                        next.snapshot.push(Kept { name, prefix, at_ms: now_ms() });
                        return Ok(());
                    }
                };
                Err(PoolError::Usage { what: format!("snapshot {name:?}: {what}") })
            };
            config = pool.members().change(false, &setup.settings(), edit)?;
            self.pool.reopen(config.clone(), setup)?;
        }
        setup.observer.finish();
        let snapshots = serde_json::json!({ "pool": config.name, "snapshots": config.snapshot });
        setup.tell("pool snapshot", &snapshots, context! {})
    }
}
